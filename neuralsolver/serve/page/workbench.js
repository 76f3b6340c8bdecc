// The view in which problems are solved: it joins the controls, the stream, the stage and the curves.

import { button, el } from "./dom.js";
import { Stream } from "./api.js";
import { paintable, paintedField } from "./brush.js";
import { Comparison } from "./compare.js";
import { HOW, makeControls } from "./controls.js";
import { readNpy } from "./npy.js";
import { Player } from "./player.js";
import { makeShare } from "./share.js";
import { Stage } from "./stage.js";
import { askOf, readState, writeState } from "./state.js";

const TRIES = [
  ["As trained", "equation=helmholtz"],
  ["A frequency it never saw", "equation=helmholtz&wavenumber=3"],
  ["Beyond resonance it fails …", "equation=helmholtz&wavenumber=4.8&mode=plain&steps=30"],
  ["… accelerated, it recovers", "equation=helmholtz&wavenumber=4.8"],
  ["Rock, on a grid 16 times finer", "equation=darcy&grid=256"],
  ["Paint your own", "equation=poisson&paint=VrM44KNNOB6_ZiCg"],
];
const FLOW_TRIES = [
  ["As trained", "equation=navier-stokes"],
  ["Stirred as never before", "equation=navier-stokes&forcing_wavenumber=2"],
  ["Stripes that roll up", "equation=kolmogorov"],
  ["Drop your own vortices", "equation=navier-stokes&paint=QIAU_sB_FP5gwBQA"],
];
const still = matchMedia("(prefers-reduced-motion: reduce)"); // then nothing plays by itself
const LIVE_MILLISECONDS = 60;
const LIVE_TOLERANCE = 1e-4;
const LIVE_STEPS = 8;

export class Workbench {
  constructor(place, words, models, flow) {
    this.equations = models.equations.filter((each) => each.flow === flow);
    this.state = { radius: 0.06, sign: 1, ...readState(words, models.equations, flow) };
    this.place = place;
    this.stream = new Stream(this.#handlers());
    this.player = new Player(() => this.#show());
    this.comparison = new Comparison(this.state, (axis) => this.change({ axis }, "redraw"));
    this.onkey = (event) => this.#key(event);
    document.addEventListener("keydown", this.onkey);
    this.build();
    if (this.state.input === "file") this.comparison.say("fair", "This link needs a file", "It was made with an uploaded field. Open the .npy on the left to see it.");
    else this.run();
  }

  close() {
    document.removeEventListener("keydown", this.onkey);
    this.player.pause();
    this.player.clear();
    this.stage.close();
    this.stream.close();
  }

  /** Everything on the page, anew: after the equation has changed. */
  build() {
    const { state } = this;
    this.stage?.close();
    this.stage = new Stage(state.equation, this.player, {
      onrun: () => this.run(),
      onscale: (scale) => this.change({ scale }, "quiet"),
    });
    this.stage.scale = this.stage.scaleChoice.value = state.scale;
    paintable(this.stage.panels.input.canvas, () => state, (stroke, last) => this.#paint(stroke, last));
    this.controls = el("aside", { class: "side" });
    this.share = el("div", {});
    const tries = state.equation.flow ? FLOW_TRIES : TRIES;
    this.place.replaceChildren(
      el("div", { class: "intro" },
        el("h1", {}, state.equation.flow ? "Watch a whole flow being corrected" : "Watch a neural solver think"),
        el("p", {}, state.equation.flow
          ? "The network is given the first frame and corrects all later ones at once, by reading how far they are from obeying the equation."
          : "A network guesses the answer to an equation, reads how badly its guess violates it, and corrects itself: again and again, until the answer is right. Move a slider or paint on the first picture."),
        el("div", { class: "tries", role: "group", "aria-label": "Try" }, tries.map(([text, address]) =>
          button(text, () => { location.hash = `#/${state.equation.flow ? "flows" : "solve"}?${address}`; }, { class: "try" })))),
      el("div", { class: "bench" }, this.controls, el("div", { class: "work" },
        this.stage.root, this.comparison.verdict, this.comparison.root, this.share)));
    this.#refresh();
  }

  #refresh() {
    const focus = document.activeElement?.id;
    this.controls.replaceChildren(makeControls(this.state, this.equations, (part, how) => this.change(part, how)));
    this.share.replaceChildren(makeShare(this.state, () => this.input));
    if (focus) document.getElementById(focus)?.focus();
  }

  /** Something is new. `live`: it is being dragged; "quiet" and "redraw" need no new solve. */
  change(part, how = false) {
    const { state } = this;
    if (part.file) return this.#open(part.file);
    if (part.equation) {
      const equation = this.equations.find((each) => each.name === part.equation);
      const constants = Object.fromEntries(equation.constants.map((each) => [each.name, each.trained]));
      Object.assign(state, { equation, constants, input: state.input === "file" ? "random" : state.input, strokes: [], at: null });
      if (state.input === "paint") state.input = "random";
      state.tolerance = equation.flow ? null : state.tolerance ?? 1e-10;
      this.player.clear();
      this.build();
      return this.run();
    }
    Object.assign(state, part);
    if (how !== "quiet" && how !== "redraw") state.at = null;
    writeState(state);
    if (how === "quiet") return undefined;
    if (how !== true) this.#refresh();
    if (how === "redraw") return this.#show();
    return how === true ? this.#later() : this.run();
  }

  /** Solve what is on the page; while something is dragged, without the other solvers. */
  run(live = false) {
    const { state } = this;
    clearTimeout(this.timer);
    this.timer = null;
    this.begun = performance.now();
    this.live = live;
    if (!live) {
      this.again = false; // the last word: nothing that was dragged comes after it
      this.judgement = null; // a verdict is that of the last solve, or none
      delete this.comparison.verdict.dataset.status;
      writeState(state);
    }
    const field = this.#field();
    if (field) this.input = field;
    if (field) this.stage.drawInput(field);
    const ask = live ? roughly(askOf(state)) : { ...askOf(state), compare: ["all"] };
    this.fresh = true;
    this.number = this.stream.ask(ask, field);
  }

  /** While dragging: at most one solve at a time, and always one with the last value. */
  #later() {
    if (this.timer || this.busy) {
      this.again = true;
      return;
    }
    this.timer = setTimeout(() => this.run(true), Math.max(0, LIVE_MILLISECONDS - (performance.now() - (this.begun ?? 0))));
    this.busy = true;
  }

  #field() {
    const { state } = this;
    if (state.input === "paint") return paintedField(state.strokes, state.grid, state.equation, state.constants);
    return state.input === "file" ? state.fileField : null;
  }

  #paint(stroke, last) {
    const { state } = this;
    if (stroke) {
      const strokes = state.input === "paint" ? [...state.strokes, stroke] : [stroke];
      this.change({ input: "paint", strokes }, true);
      this.stage.drawInput(this.#field());
    }
    if (last) this.change({ input: "paint" });
  }

  async #open(file) {
    try {
      const field = await readNpy(file);
      this.change({ input: "file", fileName: file.name, fileField: field, grid: field.shape[0] });
    } catch (error) {
      this.comparison.say("bad", "This file cannot be used", error.message);
    }
  }

  #handlers() {
    return {
      waiting: ({ position }) => this.comparison.say("quiet", "Waiting for a place", `${position} ahead of the rest: the server is busy, your solve is number ${position} in line.`),
      begun: (message) => {
        this.comparison.main = { key: message.method, label: message.label };
        this.state.step = message.step;
        document.getElementById("how")?.replaceChildren(HOW[message.step] ?? HOW.plain);
        this.comparison.others.clear();
        this.place.dataset.state = "running";
      },
      frame: (frame) => this.#frame(frame),
      done: (message) => this.#done(message),
      curve: ({ method, label, verdict, curves }) => {
        this.comparison.others.set(method, { key: method, label, verdict, curves });
        this.comparison.drawTable();
        this.comparison.draw(this.player.frames, this.player.at);
      },
      refused: ({ message }) => {
        this.busy = false;
        this.comparison.say("bad", "This cannot be solved", message);
        this.place.dataset.state = "refused";
      },
      finished: () => (this.place.dataset.state = "finished"),
    };
  }

  #frame(frame) {
    if (frame.index < 0) {
      this.input = frame.fields.input;
      this.stage.drawInput(frame.fields.input);
      return;
    }
    if (this.fresh) {
      this.fresh = false;
      this.judgement = null;
      this.player.clear();
      this.player.playing = !this.live && !still.matches && this.state.at === null;
      this.place.dataset.first = String(Math.round(performance.now() - this.begun));
    }
    this.player.add(frame);
    if (this.live || (still.matches && this.state.at === null)) this.player.jump();
  }

  #done({ verdict }) {
    this.judgement = verdict;
    this.player.complete = true;
    this.comparison.main.verdict = verdict;
    this.comparison.drawTable();
    this.place.dataset.solves = String(Number(this.place.dataset.solves || 0) + 1);
    if (this.state.at !== null) {
      const place = this.player.frames.findIndex((frame) => frame.index >= this.state.at);
      this.player.show(place < 0 ? this.player.frames.length - 1 : place);
    } else if (this.live || still.matches) this.player.jump();
    this.busy = false;
    if (this.again) {
      this.again = false;
      this.#later();
    }
    this.#show();
  }

  /** What the player shows now, everywhere. */
  #show() {
    if (!this.stage) return;
    this.stage.draw();
    const { player, comparison } = this;
    comparison.draw(player.frames, player.at);
    if (this.judgement && (!player.playing || player.ended)) comparison.judge(this.judgement);
    else if (player.current) comparison.say("quiet", "Correcting …", "Each correction is one call of the network: it reads the residual and changes the solution.");
    if (player.current && player.complete && !player.playing && !player.ended) this.#remember(player.current.index);
    else if (player.ended && this.state.at !== null) this.#remember(null);
  }

  /** The iterate that is shown is part of the address. */
  #remember(at) {
    if (this.state.at === at || this.live) return;
    this.state.at = at;
    writeState(this.state);
  }

  #key(event) {
    if (event.target.closest("input, select, textarea, button, canvas, summary, a") || event.metaKey || event.ctrlKey) return;
    const keys = {
      " ": () => (this.player.playing ? this.player.pause() : this.player.play()),
      ArrowLeft: () => this.player.step(-1),
      ArrowRight: () => this.player.step(1),
      r: () => this.change({ input: "random", seed: this.state.seed + 1 }),
      Enter: () => this.run(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

/** While something is dragged, what the eye can tell apart is enough. */
function roughly(ask) {
  if (ask.tolerance && ask.mode === "accelerated") return { ...ask, tolerance: Math.max(ask.tolerance, LIVE_TOLERANCE) };
  return { ...ask, mode: "plain", steps: Math.min(ask.steps ?? LIVE_STEPS, LIVE_STEPS) };
}
