// The same thing elsewhere: as a link, as Python, as a line for the shell, as files.

import { button, copy, download, el, toast } from "./dom.js";
import { askOf } from "./state.js";


function changed(state) {
  return state.equation.constants.filter(({ name, trained }) => state.constants[name] !== trained)
    .map(({ name }) => [name, state.constants[name]]);
}

function options(state) {
  if (state.mode === "plain") return [["steps", state.steps]];
  return state.tolerance === null ? [] : [["tolerance", state.tolerance]];
}

/** A line for the shell that solves what is on the page. */
export function shellLine(state) {
  const parts = ["ens solve", state.equation.name];
  for (const [name, value] of changed(state)) parts.push(`--set ${name}=${value}`);
  if (state.input === "random") parts.push(`--seed ${state.seed} --resolution ${state.grid}`);
  else parts.push(`--input ${inputFile(state)}`);
  for (const [name, value] of options(state)) parts.push(`--${name} ${value}`);
  return parts.join(" ");
}

/** The same as Python. */
export function pythonSnippet(state) {
  const { equation } = state;
  const lines = ["import neuralsolver as ns"];
  if (state.input !== "random") lines.unshift("import numpy as np");
  lines.push("", `solver = ns.load("${equation.name}")`);
  const constants = changed(state).map(([name, value]) => `${name}=${value}`).join(", ");
  lines.push(constants
    ? `equation = dataclasses.replace(solver.equation, ${constants})`
    : "equation = solver.equation");
  if (constants) lines.unshift("import dataclasses");
  if (state.input !== "random") lines.push(`problem = ns.Problem(equation, np.load("${inputFile(state)}"))`);
  else lines.push(`problem = ns.random_problem(equation, ${state.grid}, seed=${state.seed})`);
  const asked = options(state).map(([name, value]) => `, ${name}=${value}`).join("");
  lines.push(`solution = solver.solve(problem${asked})`, "print(solution.summary())");
  return `${lines.join("\n")}\n`;
}

function inputFile(state) {
  return state.input === "file" && state.fileName ? state.fileName : "input.npy";
}

/** A float64 .npy file of an n × n field. */
export function npyBytes({ values, shape }) {
  const text = `{'descr': '<f8', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const padded = `${text}${" ".repeat((64 - ((text.length + 11) % 64)) % 64)}\n`;
  const bytes = new Uint8Array(10 + padded.length + 8 * values.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]);
  bytes.set(new TextEncoder().encode(padded), 10);
  bytes.set(new Uint8Array(Float64Array.from(values).buffer), 10 + padded.length);
  return bytes;
}

/** The buttons, and both texts to read. */
export function makeShare(state, input) {
  const shell = shellLine(state);
  const python = pythonSnippet(state);
  return el("section", { class: "share", "aria-label": "Take it with you" },
    el("h2", {}, "Take it with you"),
    el("div", { class: "row" },
      button("Copy link", () => copy(location.href, "Link"), { id: "copy-link" }),
      button("Copy Python", () => copy(python, "Python"), { id: "copy-python" }),
      button("Copy shell line", () => copy(shell, "Shell line"), { id: "copy-shell" }),
      button("Input .npy", () => saveInput(input(), state), { id: "save-input" }),
      button("Solution .npy", () => saveSolution(input(), state), { id: "save-solution" })),
    state.input === "file" ? el("p", { class: "hint" }, "A link cannot carry your file: whoever opens it is asked for the file.") : null,
    el("details", {}, el("summary", {}, "Show the code"),
      el("pre", { id: "shell", tabindex: 0 }, shell), el("pre", { id: "python", tabindex: 0 }, python)));
}

function saveInput(field, state) {
  if (field) download(npyBytes(field), inputFile(state));
}

/** Every digit of the solution, by the part of the service that is for programs. */
async function saveSolution(field, state) {
  const { constants, ...words } = askOf(state);
  const headers = { Accept: "application/x-npy", "Content-Type": "application/json" };
  let response;
  if (state.input === "random") {
    response = await fetch("solve", { method: "POST", headers, body: JSON.stringify({ ...words, constants }) });
  } else {
    headers["Content-Type"] = "application/x-npy";
    const address = `solve?${new URLSearchParams({ ...words, ...constants })}`;
    response = await fetch(address, { method: "POST", headers, body: npyBytes(field) });
  }
  if (!response.ok) toast((await response.json()).error.message);
  else download(await response.arrayBuffer(), "solution.npy");
}
