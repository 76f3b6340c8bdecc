// A field as a picture: canvas, colour bar, its size, and the value under the pointer.

import { el, number } from "./dom.js";
import { getJson } from "./api.js";

let maps = null;

/** Load the colour maps, the same as in the figures. */
export async function loadColours() {
  maps = await getJson("colours");
}

export class Panel {
  constructor(title, about, { smooth = true, paint = false, signed = true, label = title } = {}) {
    this.dots = el("div", { class: "dots", "aria-hidden": "true" });
    this.label = label;
    this.signed = signed;
    this.canvas = el("canvas", { width: 64, height: 64, class: smooth ? "" : "crisp" });
    if (paint) {
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "application");
      this.canvas.classList.add("paint");
    } else this.canvas.setAttribute("role", "img");
    this.cursor = el("span", { class: "cursor", hidden: true, "aria-hidden": "true" });
    this.note = el("p", { class: "note", hidden: true });
    this.bar = el("canvas", { width: 256, height: 1, class: "bar", "aria-hidden": "true" });
    this.low = el("span", {}, "");
    this.high = el("span", {}, "");
    this.reading = el("span", { class: "reading" }, "");
    this.title = el("h3", {}, title);
    this.root = el(
      "figure", { class: "panel" },
      el("figcaption", {}, this.title, el("p", {}, about)),
      el("div", { class: "picture" }, this.canvas, this.dots, this.cursor, this.note),
      el("div", { class: "scale" }, this.low, this.bar, this.high),
      this.reading,
    );
    this.canvas.setAttribute("aria-label", `${label}: nothing yet`);
    this.canvas.addEventListener("pointermove", (event) => this.#read(event));
    this.canvas.addEventListener("pointerleave", () => (this.reading.textContent = this.size));
    this.canvas.addEventListener("cursor", ({ detail }) => {
      this.cursor.hidden = false;
      this.cursor.style.left = `${100 * detail.x}%`;
      this.cursor.style.top = `${100 * (1 - detail.y)}%`;
    });
    this.size = "";
    this.field = null;
  }

  /** Draw n × n values; `limit` fixes the ends of the scale, which are else those of the values. */
  draw(values, n, limit = null) {
    this.note.hidden = true;
    this.field = { values, n };
    const range = limit || extent(values, this.signed);
    this.range = range;
    const map = this.signed ? maps.diverging : maps.sequential;
    this.root.dataset.colours = this.signed ? "diverging" : "sequential";
    if (this.canvas.width !== n) this.canvas.width = this.canvas.height = n;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(n, n);
    const factor = 255 / (range.high - range.low || 1);
    for (let x = 0; x < n; x += 1) {
      for (let y = 0; y < n; y += 1) {
        const level = (values[x * n + (n - 1 - y)] - range.low) * factor;
        const colour = 3 * Math.max(0, Math.min(255, Math.round(level)));
        const pixel = 4 * (y * n + x);
        image.data[pixel] = map[colour];
        image.data[pixel + 1] = map[colour + 1];
        image.data[pixel + 2] = map[colour + 2];
        image.data[pixel + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    this.#drawBar(map);
    this.low.textContent = number(range.low);
    this.high.textContent = number(range.high);
    let square = 0;
    for (const value of values) square += value * value;
    this.size = `typical size ${number(Math.sqrt(square / values.length))}`;
    this.reading.textContent = this.size;
    this.canvas.setAttribute(
      "aria-label", `${this.label}: from ${number(range.low)} to ${number(range.high)}, ${this.size}`,
    );
    this.canvas.dataset.drawn = String(Number(this.canvas.dataset.drawn || 0) + 1);
  }

  /** Mark places of the unit square. */
  mark(places) {
    this.dots.replaceChildren(...places.map(([x, y]) => {
      const dot = el("span");
      dot.style.left = `${100 * x}%`;
      dot.style.top = `${100 * (1 - y)}%`;
      return dot;
    }));
  }

  /** Say why there is no picture. */
  blank(text) {
    this.field = null;
    this.note.textContent = text;
    this.note.hidden = false;
    this.low.textContent = this.high.textContent = this.reading.textContent = this.size = "";
    this.canvas.getContext("2d").clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.canvas.setAttribute("aria-label", `${this.label}: ${text}`);
  }

  #drawBar(map) {
    const context = this.bar.getContext("2d");
    const image = context.createImageData(256, 1);
    for (let i = 0; i < 256; i += 1) {
      image.data.set([map[3 * i], map[3 * i + 1], map[3 * i + 2], 255], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }

  #read(event) {
    if (!this.field) return;
    const { values, n } = this.field;
    const box = this.canvas.getBoundingClientRect();
    const i = Math.min(n - 1, Math.max(0, Math.floor((n * (event.clientX - box.left)) / box.width)));
    const j = Math.min(n - 1, Math.max(0, Math.floor(n * (1 - (event.clientY - box.top) / box.height))));
    const at = (k) => (k / (n - 1)).toFixed(2);
    this.reading.textContent = `${number(values[i * n + j])} at (${at(i)}, ${at(j)})`;
  }
}

/** The ends of a scale; that of a signed field has zero in its middle, whatever its values are. */
export function extent(values, signed) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const largest = Math.max(-low, high) || 1;
  return signed ? { low: -largest, high: largest } : { low, high: high > low ? high : low + 1 };
}
