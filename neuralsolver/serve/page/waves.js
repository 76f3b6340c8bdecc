// A beam in a random medium that it changes itself: slide the strength up until Newton fails.

import { button, copy, number, time } from "./dom.js";
import { Panel } from "./panel.js";
import { Story, choice, slider } from "./story.js";

const MEDIA = { smooth: "Smooth", blocky: "Blocks", ellipses: "Ellipses" };
const NAMES = {
  anderson: "Anderson on one factorisation", newton: "Newton-GMRES from the linear wave",
  damped: "damped Newton from the linear wave", network: "network, then Newton",
};

export class WavesView extends Story {
  constructor(place, words) {
    super(place, "waves", {
      seed: Math.max(0, Math.floor(Number(words.get("seed")) || 0)),
      medium: MEDIA[words.get("medium")] ? words.get("medium") : "smooth",
      strength: Math.min(1.5, Math.max(0, Number(words.get("strength") ?? 0.6) || 0)),
    });
    this.panels = {
      medium: new Panel("Medium", "how slow the wave is at each point", { signed: false }),
      linear: new Panel("Linear wave", "the amplitude if the beam changed nothing", { signed: false }),
      network: new Panel("The network's guess", "after two corrections, before Newton", { signed: false }),
      answer: new Panel("The wave", "the amplitude that solves the equation", { signed: false }),
    };
    this.again();
  }

  again(change = {}) {
    const { state } = this;
    Object.assign(state, change);
    const { medium, linear, network, answer } = this.panels;
    this.layOut("Light that focuses itself",
      "A strong beam changes the medium it runs through, and the changed medium bends the beam. Slide the strength up: the linear wave becomes a bad start for Newton's method. A network that reads the error of its own guess finds a better one.",
      [
        choice("medium", "Medium", MEDIA, state.medium, (value) => this.again({ medium: value })),
        slider("strength", "How strongly the beam changes the medium", { low: 0, high: 1.5, step: 0.05, value: state.strength, text: (value) => `ε = ${number(value)}` }, (value) => this.again({ strength: value })),
        button("Another medium and beam", () => this.again({ seed: state.seed + 1 }), { id: "another", class: "primary" }),
        button("Copy link", () => copy(location.href, "Link"), { id: "copy-link" }),
      ],
      ["From the linear wave to the answer", [medium, linear, network, answer]]);
    this.ask({ seed: state.seed, medium: state.medium, strength: state.strength }, state);
  }

  draw() {
    const { fields, methods } = this.frame;
    const high = Math.max(...["linear", "network", "answer"].flatMap((name) => (fields[name] ? [Math.max(...fields[name].values)] : [])));
    for (const [name, panel] of Object.entries(this.panels)) {
      if (!fields[name]) panel.blank("No method found the wave.");
      else panel.draw(fields[name].values, fields[name].shape[0], name === "medium" ? null : { low: 0, high });
    }
    const ours = methods.find((method) => method.name === "network");
    const others = methods.filter((method) => method !== ours);
    const solved = others.filter((method) => method.converged);
    const fastest = solved.length ? solved.reduce((a, b) => (a.seconds < b.seconds ? a : b)) : null;
    const lines = methods.map((method) => `${NAMES[method.name]}: ${method.converged ? "found it" : "failed"} in ${time(method.seconds)}, ${method.factorisations ?? 0} ${method.factorisations === 1 ? "factorisation" : "factorisations"}`);
    if (!ours.converged && !fastest) this.say("bad", "No method found a wave of this strength", ...lines);
    else if (ours.converged && !fastest) this.say("good", "Only the network found it", ...lines);
    else if (ours.converged && ours.seconds < fastest.seconds) this.say("good", `The network was ${number(fastest.seconds / ours.seconds)} times as fast as the best of the others`, ...lines);
    else this.say("fair", `Here ${NAMES[fastest.name]} is the better method`, ...lines);
  }
}
