// What is watched: five fields of one iterate, the controls of the player, and the time of a flow.

import { button, el, icon, number, time } from "./dom.js";
import { Panel, extent } from "./panel.js";

const ABOUT = {
  input: { source: "what drives it: paint here", phases: "the rock: paint here", vortices: "how it begins: paint here" },
  solution: "what the solver believes now",
  residual: "how badly that violates the equation: all it may look at",
  correction: "what it has just changed",
  error: "how wrong it really is: it never sees this",
};
const FRAMES_PER_SECOND = 10;

export class Stage {
  constructor(equation, player, { onrun, onscale }) {
    this.equation = equation;
    this.player = player;
    this.scale = "first";
    const signed = equation.brush !== "phases"; // rock and pressure are positive
    this.panels = {
      input: new Panel(capital(equation.given), ABOUT.input[equation.brush], {
        smooth: signed, signed, paint: true, label: `${equation.given}, can be painted with arrow keys and space`,
      }),
      solution: new Panel(capital(equation.unknown), ABOUT.solution, { signed }),
      residual: new Panel("Residual", ABOUT.residual),
      ...(equation.flow ? {} : { correction: new Panel("Correction", ABOUT.correction) }),
      error: new Panel("Error", ABOUT.error),
    };
    this.moment = 0;
    this.moving = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.#makeControls(onrun, onscale);
    this.panelRow = el("div", { class: "panels" }, Object.values(this.panels).map((panel) => panel.root));
    this.root = el("section", { class: "stage", "aria-label": "The solve" }, this.panelRow, this.controls);
    if (equation.flow) this.root.append(this.#timeControls());
  }

  #makeControls(onrun, onscale) {
    this.run = button("Run", onrun, { class: "primary", id: "run" });
    this.playButton = button(icon("play"), () => (this.player.playing ? this.player.pause() : this.player.play()), { "aria-label": "Play" });
    this.scrub = el("input", {
      type: "range", min: 0, max: 0, value: 0, id: "scrub", "aria-label": "Iterate",
      oninput: () => { this.player.playing = false; this.player.show(Number(this.scrub.value)); },
    });
    this.counter = el("output", { class: "counter", id: "counter", for: "scrub" }, "");
    const speed = el("select", { "aria-label": "Speed", onchange: () => (this.player.speed = speed.value) },
      el("option", { value: "usual" }, "usual speed"), el("option", { value: "slow" }, "slowly"));
    this.scaleChoice = el("select", { "aria-label": "Scale", onchange: () => { this.scale = this.scaleChoice.value; onscale(this.scale); this.draw(); } },
      el("option", { value: "first" }, "scale of the first step"), el("option", { value: "own" }, "scale of each step"));
    this.controls = el("div", { class: "transport" },
      this.run,
      el("div", { class: "buttons" },
        button(icon("first"), () => this.player.step(-1e9), { "aria-label": "First iterate" }),
        button(icon("back"), () => this.player.step(-1), { "aria-label": "One step back" }),
        this.playButton,
        button(icon("step"), () => this.player.step(1), { "aria-label": "One step", id: "step" }),
        button(icon("last"), () => this.player.step(1e9), { "aria-label": "Last iterate" })),
      this.scrub, this.counter, speed, this.scaleChoice);
  }

  #timeControls() {
    this.clock = el("input", { type: "range", min: 0, max: 20, value: 0, id: "moment", "aria-label": "Moment of the flow",
      oninput: () => { this.moving = false; this.moment = Number(this.clock.value); this.draw(); } });
    this.momentText = el("output", { class: "counter", for: "moment" }, "");
    this.moveButton = button(icon("pause"), () => { this.moving = !this.moving; this.draw(); }, { "aria-label": "Stop the flow", id: "move" });
    this.timer = setInterval(() => this.#advance(), 1000 / FRAMES_PER_SECOND);
    return el("div", { class: "transport moments" }, el("span", { class: "tag" }, "Time of the flow"), this.moveButton, this.clock, this.momentText);
  }

  #advance() {
    const frame = this.player.current;
    if (!this.moving || !frame) return;
    this.moment = (this.moment + 1) % frame.fields.solution.shape[0];
    this.draw();
  }

  close() {
    clearInterval(this.timer);
  }

  /** The input, from the server or from the brush. */
  drawInput({ values, shape }) {
    this.panels.input.draw(values, shape.at(-1));
  }

  /** The iterate that the player shows. */
  draw() {
    const { player } = this;
    const frame = player.current;
    this.playButton.replaceChildren(icon(player.playing ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    this.scrub.max = Math.max(0, player.frames.length - 1);
    this.scrub.value = player.at;
    this.root.dataset.index = frame ? frame.index : -1;
    this.root.dataset.frames = player.frames.length;
    if (!frame) return;
    for (const [name, panel] of Object.entries(this.panels)) {
      if (name === "input") continue;
      const field = frame.fields[name];
      if (!field) panel.blank(name === "correction" ? "The first guess: nothing corrected yet." : "No reference solution to compare with.");
      else this.#drawField(panel, name, field);
    }
    this.counter.textContent = words(frame, player);
    if (this.clock) this.#drawClock(frame);
  }

  #drawField(panel, name, { values, shape }) {
    const n = shape.at(-1);
    const moment = shape.length === 3 ? Math.min(this.moment, shape[0] - 1) : 0;
    const now = values.subarray(moment * n * n, (moment + 1) * n * n);
    const first = this.player.frames.find((frame) => frame.fields[name]).fields[name];
    let limit = extent(values, panel.signed); // one scale for the whole flow
    if (this.scale === "first") {
      const fixed = extent(first.values, panel.signed);
      // what shrinks is seen to shrink; a solution may grow, and is shown whole
      limit = name === "solution" ? { low: Math.min(limit.low, fixed.low), high: Math.max(limit.high, fixed.high) } : fixed;
    }
    panel.draw(now, n, limit);
  }

  #drawClock(frame) {
    const last = frame.fields.solution.shape[0] - 1;
    this.moment = Math.min(this.moment, last);
    this.clock.max = last;
    this.clock.value = this.moment;
    this.momentText.textContent = `moment ${this.moment} of ${last}`;
    this.moveButton.replaceChildren(icon(this.moving ? "pause" : "play"));
    this.moveButton.setAttribute("aria-label", this.moving ? "Stop the flow" : "Let it flow");
  }
}

function words(frame, player) {
  const total = player.complete && frame.stage !== "start" ? ` of ${player.frames.at(-1).step}` : "";
  const stage = { start: ", on a coarser grid first", polish: ", finishing classically" }[frame.stage] ?? "";
  const error = frame.error === null ? "" : ` · error ${number(frame.error)}`;
  const what = frame.step === 0 ? "first guess" : `correction ${frame.step}${total}`;
  return `${what}${stage} · residual ${number(frame.residual)}${error} · ${time(frame.seconds)}`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
