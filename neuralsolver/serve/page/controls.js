// What is solved and how: equation, constants, input, grid, mode.

import { button, el, number } from "./dom.js";

/** What the server makes of a correction, by the name of the step it is about to take. */
export const HOW = {
  plain: "Each correction is added as it is.",
  Krylov: "Past corrections are combined into the one with the smallest residual (flexible GMRES).",
  Conjugate: "Past corrections are combined into the one with the smallest energy of the error (flexible conjugate gradients).",
  Anderson: "Past corrections are mixed into a better one (Anderson).",
  NewtonStep: "Newton's method: these constants are beyond the network.",
};

/** The form; `change(part, live)` is called with the part of the state that is new. */
export function makeControls(state, equations, change) {
  const { equation } = state;
  return el("form", { class: "controls", "aria-label": "The problem", onsubmit: (event) => event.preventDefault() },
    field("Equation", select("equation", equations.map((each) => [each.name, each.title]), equation.name,
      (name) => change({ equation: name }))),
    el("p", { class: "formula" }, equation.formula),
    el("p", { class: "story" }, equation.story),
    ...equation.constants.map((constant) => slider(constant, state, change)),
    el("fieldset", {}, el("legend", {}, inputTitle(equation)), inputControls(state, change)),
    el("fieldset", {}, el("legend", {}, "How to solve it"),
      choice("mode", [["accelerated", "Accelerated"], ["plain", "Plain"]], state.mode, (mode) => change({ mode })),
      el("p", { class: "hint", id: "how" }, HOW[state.step] ?? HOW.plain),
      state.mode === "plain" ? stepsControl(state, change) : equation.flow ? null : toleranceControl(state, change),
      el("span", { class: "label" }, "Grid"),
      choice("grid", gridsOf(equation), String(state.grid), (grid) => change({ grid: Number(grid) })),
      el("p", { class: "hint" }, state.grid > equation.grid
        ? `Trained on ${equation.grid} points: here it corrects the coarse part of ${equation.flow ? "the spectrum" : "a multigrid cycle"}.`
        : "The grid of the training.")),
  );
}

function gridsOf(equation) {
  const grids = equation.flow ? [64, 128] : [64, 128, 256];
  return grids.map((n) => [String(n), n === equation.grid ? `${n}²` : `${n}² ${equation.flow ? "nested" : "multigrid"}`]);
}

function inputTitle(equation) {
  return { source: "Source", phases: "Rock", vortices: "First frame" }[equation.brush];
}

function field(label, control) {
  return el("label", { class: "field" }, el("span", { class: "label" }, label), control);
}

function select(name, options, value, onchange) {
  const node = el("select", { name, onchange: () => onchange(node.value) },
    options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
  return node;
}

/** Some of a few, as buttons of which one is pressed. */
function choice(name, options, value, onchoose) {
  return el("div", { class: "choice", role: "group", "aria-label": name },
    options.map(([key, text]) => button(text, () => onchoose(key), { "aria-pressed": String(key === value), "data-choice": `${name}-${key}` })));
}

/** A slider with the value of the training marked on it. */
function slider(constant, state, change) {
  const { name, symbol, meaning, low, high, step, scale, trained, marks } = constant;
  const log = scale === "logarithmic";
  const toPlace = (value) => (log ? Math.log10(value) : value);
  const toValue = (place) => (log ? Number((10 ** place).toPrecision(3)) : Number(Number(place).toFixed(6)));
  const share = (value) => (toPlace(value) - toPlace(low)) / (toPlace(high) - toPlace(low));
  const read = el("output", { class: "value", for: `c-${name}` });
  const badge = el("span", { class: "badge" });
  const say = (value) => {
    const same = Math.abs(value - trained) < 1e-9 * Math.abs(trained || 1);
    read.textContent = `${symbol} = ${number(value)}`;
    badge.textContent = same ? "as trained" : `trained at ${number(trained)}`;
    badge.classList.toggle("away", !same);
  };
  const input = el("input", {
    type: "range", id: `c-${name}`, name, min: toPlace(low), max: toPlace(high), step, value: toPlace(state.constants[name]),
    oninput: () => { const value = snap(toValue(input.value)); say(value); change({ constants: { ...state.constants, [name]: value } }, true); },
    onchange: () => change({ constants: { ...state.constants, [name]: snap(toValue(input.value)) } }),
  });
  const snap = (value) => (Math.abs(share(value) - share(trained)) < 0.008 ? trained : value);
  say(state.constants[name]);
  const ticks = [[trained, "trained", "trained here"], ...marks.map(([value, text]) => [value, "event", text])]
    .map(([value, kind, text]) => {
      const tick = el("span", { class: `mark ${kind}`, title: `${text}: ${number(value)}` });
      tick.style.left = `calc(${100 * share(value)}% + ${8 - 16 * share(value)}px)`;
      return tick;
    });
  return el("div", { class: "slider" },
    el("div", { class: "line" }, el("label", { class: "label", for: `c-${name}` }, meaning), read),
    el("div", { class: "track" }, input, el("div", { class: "marks", "aria-hidden": "true" }, ticks)),
    badge);
}

function inputControls(state, change) {
  const { equation } = state;
  const seed = el("input", { type: "number", min: 0, max: 4294967295, value: state.seed, id: "seed", name: "seed",
    onchange: () => change({ input: "random", seed: Math.max(0, Math.floor(Number(seed.value) || 0)) }) });
  const file = el("input", { type: "file", accept: ".npy", id: "file", class: "file", onchange: () => file.files[0] && change({ file: file.files[0] }) });
  const words = { source: ["Push", "Pull"], phases: ["Open rock", "Dense rock"], vortices: ["Left spin", "Right spin"] }[equation.brush];
  const radius = el("input", { type: "range", min: 0.02, max: 0.15, step: 0.01, value: state.radius, id: "radius",
    oninput: () => change({ radius: Number(radius.value) }, "quiet") });
  return [
    el("p", { class: "hint" }, { random: "A random field.", paint: "Your painting.", file: `Your file ${state.fileName || ""}` }[state.input]),
    el("div", { class: "line" }, el("label", { for: "seed" }, "Seed"), seed,
      button("Another one", () => change({ input: "random", seed: state.seed + 1 }), { id: "another" })),
    el("div", { class: "line" }, el("label", { for: "radius" }, "Brush"), radius),
    choice("sign", [["1", words[0]], ["-1", words[1]]], String(state.sign), (sign) => change({ sign: Number(sign) }, "redraw")),
    el("div", { class: "line" },
      button("Empty canvas", () => change({ input: "paint", strokes: [] }), { id: "empty" }),
      el("label", { class: "button", for: "file" }, "Open .npy"), file),
  ];
}

function toleranceControl(state, change) {
  return field("Stop when the residual is below", select("tolerance",
    [[1e-4, "10⁻⁴"], [1e-6, "10⁻⁶"], [1e-8, "10⁻⁸"], [1e-10, "10⁻¹⁰"], [1e-12, "10⁻¹²"]].map(([value, text]) => [String(value), text]),
    String(state.tolerance), (value) => change({ tolerance: Number(value) })));
}

function stepsControl(state, change) {
  const input = el("input", { type: "number", min: 0, max: 300, value: state.steps, name: "steps",
    onchange: () => change({ steps: Math.min(300, Math.max(0, Math.floor(Number(input.value) || 0))) }) });
  return field("Corrections", input);
}
