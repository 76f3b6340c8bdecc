// The verdict in words, the curves beside those of other solvers, and the table of all of them.

import { button, el, number, time } from "./dom.js";
import { Chart } from "./chart.js";

export class Comparison {
  constructor(state, onaxis) {
    this.state = state;
    this.onaxis = onaxis;
    this.verdict = el("section", { class: "verdict", "aria-live": "polite", "aria-label": "Verdict", id: "verdict" });
    this.residual = new Chart("Residual", "what the solver sees, relative to where it began");
    this.error = new Chart("Error", "the distance from the truth, which it does not see");
    this.axes = el("div", { class: "choice", role: "group", "aria-label": "Axis" });
    this.table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "All solvers on this problem" });
    this.legend = el("ul", { class: "legend", "aria-label": "Curves" });
    this.root = el("section", { class: "comparison", "aria-label": "Other solvers" },
      el("div", { class: "heading" }, el("h2", {}, "The same problem, other solvers"), this.axes),
      this.legend,
      el("div", { class: "plots" }, this.residual.root, this.error.root),
      this.table);
    this.clear();
  }

  clear() {
    this.main = null;
    this.others = new Map();
    this.say("quiet", "Ready", "Press run, move a slider, or paint on the first picture.");
    this.draw([], null);
  }

  /** Words instead of a verdict: waiting, working, refused. */
  say(tone, headline, ...sentences) {
    this.verdict.className = `verdict ${tone}`;
    delete this.verdict.dataset.status;
    this.verdict.replaceChildren(el("h2", {}, headline), ...sentences.filter(Boolean).map((text) => el("p", {}, text)));
  }

  /** The verdict of the solve that was watched. */
  judge({ tone, headline, meaning, accuracy, steps, seconds, relative_residual: residual, status }) {
    const made = `${steps} correction${steps === 1 ? "" : "s"} in ${time(seconds)}; the residual is ${number(residual)} ${residual < 1 ? "of" : "times"} what it was at the start.`;
    this.say(tone, headline, made, meaning, accuracy);
    this.verdict.dataset.status = status;
  }

  /** Draw all curves; that of the main solve up to the iterate that is shown. */
  draw(frames, at) {
    const { axis } = this.state;
    const series = [];
    for (const { key, label, curves } of this.others.values()) series.push({ key, label, ...points(curves, axis) });
    const shown = frames.slice(0, (at ?? -1) + 1);
    const own = {
      index: shown.map((frame) => frame.index),
      seconds: shown.map((frame) => frame.seconds),
      residual: shown.map((frame) => frame.residual),
      error: shown.map((frame) => frame.error),
    };
    if (this.main) series.push({ ...this.main, main: true, ...points(own, axis) });
    this.legend.replaceChildren(...series.map(({ key, label, main }) => el("li", {}, mark(key, main), label)).reverse());
    const last = shown.at(-1);
    const place = last ? (axis === "steps" ? last.index : last.seconds) : null;
    const reach = axis === "steps" ? Math.max(20, 2 * (frames.at(-1)?.index ?? 0)) : Math.max(0.2, 4 * (frames.at(-1)?.seconds ?? 0));
    this.residual.draw(series.map((each) => ({ ...each, y: each.residual })), axis, place, reach);
    // the classical solver is what errors are measured against
    const measured = series.filter(({ key }) => key !== "classical");
    this.error.draw(measured.map((each) => ({ ...each, y: each.error })), axis, place, reach);
    this.axes.replaceChildren(...[["steps", "per correction"], ["seconds", "per second"]].map(([key, text]) =>
      button(text, () => this.onaxis(key), { "aria-pressed": String(key === axis), "data-choice": `axis-${key}` })));
  }

  drawTable() {
    const rows = [...(this.main?.verdict ? [this.main] : []), ...this.others.values()];
    this.root.dataset.compared = this.others.size;
    const head = ["Solver", "Steps", "Time", "Residual", "Error", ""].map((text) => el("th", { scope: "col" }, text));
    const body = rows.map(({ key, label, verdict }) => el("tr", { "data-method": key },
      el("th", { scope: "row" }, mark(key, key === this.main?.key), label),
      el("td", {}, String(verdict.steps)),
      el("td", {}, time(verdict.seconds)),
      el("td", {}, number(verdict.relative_residual)),
      el("td", {}, key === "classical" ? "the reference" : number(verdict.error)),
      el("td", {}, verdict.headline)));
    this.table.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
  }
}

function points(curves, axis) {
  const steps = curves.index ?? curves.residual.map((_, k) => k);
  return { x: axis === "steps" ? steps : curves.seconds, residual: curves.residual, error: curves.error };
}

function mark(key, main) {
  return el("span", { class: `key m-${key}${main ? " main" : ""}`, "aria-hidden": "true" });
}
