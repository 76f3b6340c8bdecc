// What the two stories share: their frame, their sliders, one question at a time.

import { el } from "./dom.js";
import { decodeFrame } from "./api.js";

/** A view that asks one address again whenever its state changes, and shows the last answer. */
export class Story {
  constructor(place, address, state) {
    Object.assign(this, { place, address, state, asked: 0 });
    this.side = el("aside", { class: "side" });
    this.verdict = el("section", { class: "verdict quiet", "aria-live": "polite", "aria-label": "Verdict", id: "verdict" });
  }

  close() {
    this.asked += 1;
  }

  /** Lay out the heading, the controls and groups of panels, with the verdict after the first. */
  layOut(title, about, controls, ...groups) {
    const shown = groups.map(([heading, panels]) => el("section", { class: "group" }, el("h2", {}, heading),
      el("div", { class: "panels" }, panels.map((panel) => panel.root))));
    this.side.replaceChildren(el("form", { class: "controls", "aria-label": title, onsubmit: (event) => event.preventDefault() }, controls));
    this.place.replaceChildren(
      el("div", { class: "intro" }, el("h1", {}, title), el("p", {}, about)),
      el("div", { class: "bench" }, this.side, el("div", { class: "work" }, shown[0], this.verdict, ...shown.slice(1))));
  }

  /** Ask the server; `words` go into the address of the page. */
  async ask(body, words) {
    history.replaceState(null, "", `#/${this.address}?${new URLSearchParams(words)}`);
    this.asked += 1;
    const mine = this.asked;
    const response = await fetch(this.address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (mine !== this.asked) return; // a newer one is under way
    if (!response.ok) {
      this.say("bad", "The server cannot answer this", (await response.json()).error.message);
      return;
    }
    this.frame = decodeFrame(await response.arrayBuffer());
    if (mine !== this.asked) return;
    this.draw();
    this.place.dataset.state = "finished";
  }

  say(tone, headline, ...sentences) {
    this.verdict.className = `verdict ${tone}`;
    this.verdict.replaceChildren(el("h2", {}, headline), ...sentences.map((text) => el("p", {}, text)));
  }
}

/** A slider with its value beside it; the server is asked when it is let go. */
export function slider(id, label, { low, high, step, value, text }, change) {
  const read = el("output", { class: "value", for: id }, text(value));
  const input = el("input", { type: "range", id, min: low, max: high, step, value,
    oninput: () => (read.textContent = text(Number(input.value))), onchange: () => change(Number(input.value)) });
  return el("div", { class: "slider" }, el("div", { class: "line" }, el("label", { class: "label", for: id }, label), read), input);
}

/** A choice from a list. */
export function choice(id, label, options, value, change) {
  const select = el("select", { id, onchange: () => change(select.value) },
    Object.entries(options).map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
  return el("label", { class: "field", for: id }, el("span", { class: "label" }, label), select);
}
