// A hidden field, a few sensors: click to place them and watch the mean, the spread and the samples.

import { button, copy, download, el, number, percent, time } from "./dom.js";
import { decodeFrame } from "./api.js";
import { paintable } from "./brush.js";
import { Panel, extent } from "./panel.js";

const EQUATIONS = { helmholtz: "Helmholtz: source f", poisson: "Poisson: source f", darcy: "Darcy: rock" };
const POINTS = 63;
const BEGIN = [[0.2, 0.25], [0.75, 0.2], [0.5, 0.55], [0.2, 0.8], [0.8, 0.8]];

export class SensorsView {
  constructor(place, words) {
    this.place = place;
    this.state = {
      equation: EQUATIONS[words.get("equation")] ? words.get("equation") : "helmholtz",
      seed: Math.max(0, Math.floor(Number(words.get("seed")) || 0)),
      see: words.get("see") === "solution" ? "solution" : "input",
      truth: words.get("truth") === "shown",
      places: words.has("at") ? decodePlaces(words.get("at")) : BEGIN.map((point) => point.map(onGrid)),
    };
    this.number = 0;
    this.build();
    this.solve();
  }

  close() {
    this.number += 1;
  }

  build() {
    const { state } = this;
    const signed = state.equation !== "darcy"; // rock and pressure are positive
    const seen = state.see === "input" ? "input" : "solution";
    this.board = new Panel("Place sensors here", "click to add one, click it again to remove it", {
      smooth: seen === "solution" || signed, signed, paint: true, label: "the hidden field, sensors are placed with arrow keys and space",
    });
    paintable(this.board.canvas, () => ({ radius: 1, sign: 1 }), (stroke) => stroke && this.#toggle([onGrid(stroke.x), onGrid(stroke.y)]));
    const panels = (crisp) => ({
      mean: new Panel("Mean", "the best guess", { signed }),
      spread: new Panel("Spread", "how unsure it is, point by point", { signed: false }),
      ...Object.fromEntries([1, 2, 3].map((k) => [`sample ${k}`, new Panel(`Sample ${k}`, "one field that fits the sensors", { smooth: !crisp, signed })])),
    });
    this.panels = { input: panels(!signed), solution: panels(false) };
    this.verdict = el("section", { class: "verdict quiet", "aria-live": "polite", "aria-label": "Verdict", id: "verdict" });
    this.side = el("aside", { class: "side" });
    const group = (title, parts, first = []) => el("section", { class: "group" }, el("h2", {}, title),
      el("div", { class: "panels" }, [...first, ...Object.values(parts)].map((panel) => panel.root)));
    const boards = seen === "input" ? [[this.board], []] : [[], [this.board]];
    this.place.replaceChildren(
      el("div", { class: "intro" }, el("h1", {}, "See a whole field through a few points"),
        el("p", {}, "A random field is hidden. Sensors see it at single points. Of all fields that agree with them, this shows the mean, the spread, and three samples, and what each means for the solution of the equation.")),
      el("div", { class: "bench" }, this.side, el("div", { class: "work" },
        group({ helmholtz: "Source f", poisson: "Source f", darcy: "Rock" }[state.equation], this.panels.input, boards[0]),
        this.verdict,
        group("Solution u", this.panels.solution, boards[1]))));
    this.#controls();
  }

  #controls() {
    const { state } = this;
    const again = (change) => { Object.assign(state, change); this.build(); this.solve(); };
    const equation = el("select", { id: "hidden", onchange: () => again({ equation: equation.value, see: "input" }) },
      Object.entries(EQUATIONS).map(([key, text]) => el("option", { value: key, selected: key === state.equation }, text)));
    const see = (key, text) => button(text, () => again({ see: key }), { "aria-pressed": String(state.see === key), "data-choice": `see-${key}`, disabled: key === "solution" && state.equation === "darcy" });
    this.side.replaceChildren(el("form", { class: "controls", "aria-label": "The hidden field", onsubmit: (event) => event.preventDefault() },
      el("label", { class: "field", for: "hidden" }, el("span", { class: "label" }, "What is hidden"), equation),
      el("span", { class: "label" }, "Sensors see"),
      el("div", { class: "choice", role: "group", "aria-label": "Sensors see" }, see("input", "the input"), see("solution", "the solution")),
      el("div", { class: "row" },
        button("Another field", () => again({ seed: state.seed + 1 }), { id: "another" }),
        button("10 more sensors", () => this.#change([...state.places, ...scattered(10, state.places.length)]), { id: "more" }),
        button("Remove all", () => this.#change([]), { id: "none" })),
      button(state.truth ? "Hide the truth" : "Show the truth", () => { state.truth = !state.truth; this.#controls(); this.#draw(); }, { id: "truth", class: "primary", "aria-pressed": String(state.truth) }),
      el("p", { class: "hint" }, "Exact mathematics, no network: the field is drawn from a known distribution, so what can be known of it is known. Learned samplers that need no such formula: ens invert."),
      el("div", { class: "row" },
        button("Copy link", () => copy(location.href, "Link"), { id: "copy-link" }),
        button("Copy shell line", () => copy(`ens invert ${state.equation} --sensors sensors.csv --method exact --seed ${state.seed}`, "Shell line"), { id: "copy-shell" }),
        button("Sensors .csv", () => this.frame && download(this.frame.table, "sensors.csv"), { id: "save-sensors" }))));
  }

  #toggle([x, y]) {
    const near = this.state.places.findIndex(([px, py]) => Math.hypot(px - x, py - y) < 0.04);
    this.#change(near >= 0 ? this.state.places.filter((_, k) => k !== near) : [...this.state.places, [x, y]]);
  }

  #change(places) {
    this.state.places = places.slice(0, 200);
    this.solve();
  }

  async solve() {
    const { state } = this;
    const words = new URLSearchParams({ equation: state.equation, seed: state.seed, see: state.see, at: encodePlaces(state.places) });
    if (state.truth) words.set("truth", "shown");
    history.replaceState(null, "", `#/sensors?${words}`);
    this.board.mark(state.places);
    this.number += 1;
    const number_ = this.number;
    if (!state.places.length) {
      this.#say("quiet", "No sensor yet", "Click on the first picture to place one.");
      return;
    }
    const body = JSON.stringify({ equation: state.equation, seed: state.seed, see: state.see, places: state.places });
    const response = await fetch("sensors", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (number_ !== this.number) return; // a newer one is under way
    if (!response.ok) {
      this.#say("bad", "This cannot be reconstructed", (await response.json()).error.message);
      return;
    }
    this.frame = decodeFrame(await response.arrayBuffer());
    this.#draw();
    const { input, solution } = this.frame;
    this.#say("good", `${this.frame.sensors} sensors, ${this.frame.samples} samples in ${time(this.frame.seconds)}`,
      `The spread promises that the mean is off by about ${percent(input.spread)} (input) and ${percent(solution.spread)} (solution); the truth is ${percent(input.error)} and ${percent(solution.error)} away.`,
      `Every sample goes through all sensors and satisfies the equation to ${number(this.frame.residual)}.`);
    this.place.dataset.state = "finished";
    this.place.dataset.sensors = this.frame.sensors;
  }

  #draw() {
    if (!this.frame) return;
    const { fields } = this.frame;
    for (const name of ["input", "solution"]) {
      const scale = extent(fields[`${name} truth`].values, this.board.signed);
      for (const [part, panel] of Object.entries(this.panels[name])) {
        const { values, shape } = fields[`${name} ${part}`];
        panel.draw(values, shape[0], part === "spread" ? { low: 0, high: Math.max(...values) || 1 } : scale);
      }
    }
    const shown = fields[`${this.state.see} ${this.state.truth ? "truth" : "mean"}`];
    this.board.title.textContent = this.state.truth ? "The truth" : "Place sensors here";
    this.board.draw(shown.values, shown.shape[0], extent(fields[`${this.state.see} truth`].values, this.board.signed));
    this.board.mark(this.state.places);
  }

  #say(tone, headline, ...sentences) {
    this.verdict.className = `verdict ${tone}`;
    this.verdict.replaceChildren(el("h2", {}, headline), ...sentences.map((text) => el("p", {}, text)));
  }
}

function onGrid(value) {
  return Math.round(value * POINTS) / POINTS;
}

/** Places that fill the square evenly, and are the same every time. */
function scattered(count, from) {
  return Array.from({ length: count }, (_, k) => {
    const position = from + k + 1;
    return [onGrid((position * 0.754877) % 1), onGrid((position * 0.56984) % 1)];
  });
}

function encodePlaces(places) {
  return places.map((point) => point.map((value) => Math.round(value * POINTS)).join(".")).join("_");
}

function decodePlaces(text) {
  return text.split("_").map((pair) => pair.split(".").map((part) => Number(part) / POINTS))
    .filter((point) => point.length === 2 && point.every((value) => value >= 0 && value <= 1)).slice(0, 200);
}
