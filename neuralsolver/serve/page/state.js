// The state of a view is its address: what is not there has its usual value.

import { decodeStrokes, encodeStrokes } from "./brush.js";

export const USUAL = { mode: "accelerated", grid: 64, seed: 0, steps: 20, axis: "steps", scale: "first" };
const TEXTS = { mode: ["accelerated", "plain"], axis: ["steps", "seconds"], scale: ["own", "first"] };

/** The view and the words of an address such as #/solve?equation=darcy&grid=128. */
export function readAddress() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "solve", words: new URLSearchParams(query) };
}

/** The state of the workbench; anything an address says that makes no sense is ignored. */
export function readState(words, equations, flow) {
  const offered = equations.filter((each) => each.flow === flow);
  const equation = offered.find((each) => each.name === words.get("equation")) || offered[0];
  const state = { equation, constants: {}, strokes: [], input: "random", at: null };
  for (const constant of equation.constants) {
    const value = Number(words.get(constant.name) ?? NaN);
    const fits = Number.isFinite(value) && value >= constant.low && value <= constant.high;
    state.constants[constant.name] = fits ? value : constant.trained;
  }
  for (const name of ["grid", "seed", "steps"]) {
    const value = Number(words.get(name) ?? NaN);
    state[name] = Number.isInteger(value) && value >= 0 ? value : USUAL[name];
  }
  for (const [name, known] of Object.entries(TEXTS)) {
    state[name] = known.includes(words.get(name)) ? words.get(name) : USUAL[name];
  }
  const tolerance = Number(words.get("tolerance") ?? NaN);
  state.tolerance = tolerance > 0 && tolerance < 1 ? tolerance : flow ? null : 1e-10;
  state.at = words.has("at") ? Number(words.get("at")) || 0 : null;
  if (words.has("paint")) {
    state.strokes = decodeStrokes(words.get("paint"));
    state.input = "paint";
  }
  if (words.has("file")) state.input = "file";
  return state;
}

/** The words that differ from the usual ones. */
export function stateWords(state) {
  const words = new URLSearchParams({ equation: state.equation.name });
  for (const constant of state.equation.constants) {
    const value = state.constants[constant.name];
    if (value !== constant.trained) words.set(constant.name, String(value));
  }
  for (const [name, usual] of Object.entries(USUAL)) {
    if (state[name] !== usual && !(name === "seed" && state.input !== "random")) {
      words.set(name, String(state[name]));
    }
  }
  if (state.tolerance !== (state.equation.flow ? null : 1e-10)) words.set("tolerance", String(state.tolerance));
  if (state.at !== null) words.set("at", String(state.at));
  if (state.input === "paint") words.set("paint", encodeStrokes(state.strokes));
  if (state.input === "file") words.set("file", state.fileName || "yes");
  return words;
}

/** Write the state into the address without a new entry in the history. */
export function writeState(state) {
  const view = state.equation.flow ? "flows" : "solve";
  history.replaceState(null, "", `#/${view}?${stateWords(state)}`);
}

/** What is asked of the server for a state. */
export function askOf(state) {
  const constants = {};
  for (const constant of state.equation.constants) {
    const value = state.constants[constant.name];
    if (value !== constant.trained) constants[constant.name] = value;
  }
  const ask = { equation: state.equation.name, constants, grid: state.grid, seed: state.seed, mode: state.mode };
  if (state.mode === "plain") ask.steps = state.steps;
  if (state.tolerance !== null) ask.tolerance = state.tolerance;
  return ask;
}
