// Heads in wells: place them, add noise, and watch what can be known of the rock.

import { button, copy, el, number, percent, time } from "./dom.js";
import { paintable } from "./brush.js";
import { Panel } from "./panel.js";
import { Story, choice, slider } from "./story.js";

const PRIORS = { channels: "Channels", ellipses: "Lenses", "two-phase": "Patches" };
const MOST = 100;
const onGrid = (value) => Math.min(62, Math.max(1, Math.round(value * 63))) / 63;

export class WellsView extends Story {
  constructor(place, words) {
    super(place, "wells", {
      seed: Math.max(0, Math.floor(Number(words.get("seed")) || 0)),
      prior: PRIORS[words.get("prior")] ? words.get("prior") : "channels",
      noise: Math.min(0.1, Math.max(0, Number(words.get("noise") ?? 0.01) || 0)),
      places: words.has("at") ? decode(words.get("at")) : scattered(36, 0),
    });
    this.board = new Panel("Probability of open rock", "click to drill a well, click it again to fill it", {
      signed: false, paint: true, label: "the probability of open rock, wells are placed with arrow keys and space",
    });
    paintable(this.board.canvas, () => ({ radius: 1, sign: 1 }), (stroke) => stroke && this.#toggle(onGrid(stroke.x), onGrid(stroke.y)));
    this.truth = new Panel("The rock", "hidden from both methods", { signed: false, smooth: false });
    this.ensemble = new Panel("Ensemble smoother", "the same probability, as hydrogeologists find it", { signed: false });
    this.steps = [1, 2, 3, 4, 5].map((k) => new Panel(`Correction ${k}`, k === 1 ? "the first reading of the heads" : "the heads are read again", { signed: false }));
    this.again();
  }

  again(change = {}) {
    const { state } = this;
    Object.assign(state, change);
    this.layOut("What a few wells say about the rock",
      "Water rises to a height in each well that depends on all the rock around it. A network compares these heads with those its present guess would produce, and corrects the guess, five times. An ensemble smoother, the usual method, runs beside it.",
      [
        choice("prior", "Kind of rock", PRIORS, state.prior, (value) => this.again({ prior: value })),
        slider("noise", "Noise of the heads", { low: 0, high: 0.1, step: 0.005, value: state.noise, text: percent }, (value) => this.again({ noise: value })),
        el("div", { class: "row" },
          button("Another rock", () => this.again({ seed: state.seed + 1 }), { id: "another", class: "primary" }),
          button("10 more wells", () => this.again({ places: [...state.places, ...scattered(10, state.places.length)].slice(0, MOST) }), { id: "more" }),
          button("Remove all", () => this.again({ places: [] }), { id: "none" })),
        el("div", { class: "row" }, button("Copy link", () => copy(location.href, "Link"), { id: "copy-link" })),
        el("p", { class: "hint" }, "With your own heads: ens invert darcy --sensors heads.csv --plot rock.png"),
      ],
      ["What is known", [this.board, this.ensemble, this.truth]], ["How the network got there", this.steps]);
    this.board.mark(state.places);
    if (!state.places.length) {
      this.asked += 1;
      this.say("quiet", "No well yet", "Click on the first picture to drill one.");
      return;
    }
    const { seed, prior, noise, places } = state;
    this.ask({ seed, prior, noise, places }, { seed, prior, noise, at: encode(places) });
  }

  draw() {
    const { fields, network, ensemble, wrong, wells } = this.frame;
    const scale = { low: 0, high: 1 };
    const show = (panel, name) => panel.draw(fields[name].values, fields[name].shape[0], scale);
    show(this.board, `correction ${network.corrections}`);
    show(this.truth, "truth");
    show(this.ensemble, "ensemble");
    this.steps.forEach((panel, k) => show(panel, `correction ${k + 1}`));
    for (const panel of [this.board, this.truth, this.ensemble]) panel.mark(this.state.places);
    const ratio = ensemble.seconds / network.seconds;
    this.say(network.wrong <= ensemble.wrong ? "good" : "fair",
      `${wells} wells: the network takes ${percent(network.wrong)} of the rock for the wrong kind, the ensemble ${percent(ensemble.wrong)}`,
      `The network took ${time(network.seconds)}, the ensemble ${time(ensemble.seconds)} with ${ensemble.forward_solves} forward solves: ${number(ratio)} times as long.`,
      `Wrong rock after each correction: ${wrong.map(percent).join(", ")}.`);
    this.place.dataset.wells = wells;
  }

  #toggle(x, y) {
    const { places } = this.state;
    const near = places.findIndex(([px, py]) => Math.hypot(px - x, py - y) < 0.04);
    this.again({ places: near >= 0 ? places.filter((_, k) => k !== near) : [...places, [x, y]].slice(0, MOST) });
  }
}

/** Places that fill the square evenly, and are the same every time. */
function scattered(count, from) {
  return Array.from({ length: count }, (_, k) => [onGrid(((from + k + 1) * 0.754877) % 1), onGrid(((from + k + 1) * 0.56984) % 1)]);
}

const encode = (places) => places.map((point) => point.map((value) => Math.round(value * 63)).join(".")).join("_");

function decode(text) {
  return text.split("_").map((pair) => pair.split(".").map((part) => Number(part) / 63))
    .filter((point) => point.length === 2 && point.every((value) => value >= 0 && value <= 1)).slice(0, MOST);
}
