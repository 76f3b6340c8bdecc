// Curves over steps or seconds, the values on a logarithmic axis.

import { el, number, power, svg, time } from "./dom.js";

const MARGIN = { top: 14, right: 14, bottom: 40, left: 52 };
const HEIGHT = 260;
const FLOOR = 1e-16;

export class Chart {
  constructor(title, about) {
    this.title = title;
    this.drawing = svg("svg", { class: "chart", role: "img", "aria-label": `${title}: no curve yet` });
    this.root = el(
      "figure", { class: "plot" },
      el("figcaption", {}, el("h3", {}, title), el("p", {}, about)),
      this.drawing,
    );
    this.series = [];
    new ResizeObserver(() => this.#render()).observe(this.root);
  }

  /** Series: {key, label, x, y, main}; `axis` is "steps" or "seconds"; `at` marks a place on x, `reach` ends it. */
  draw(series, axis, at, reach = Infinity) {
    this.series = series.map((each) => ({ ...each, points: pointsOf(each, reach) }));
    this.axis = axis;
    this.at = at;
    this.#render();
  }

  #render() {
    const width = Math.max(260, this.root.clientWidth);
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.setAttribute("height", HEIGHT);
    const drawn = this.series.filter((each) => each.points.length);
    if (!drawn.length) {
      this.drawing.replaceChildren();
      return;
    }
    const scales = this.#scales(drawn, width);
    const curves = drawn.map((each) => curve(each, scales));
    this.drawing.replaceChildren(...grid(scales, this.axis), ...curves, ...this.#marker(scales));
    const said = drawn.map((each) => `${each.label} ends at ${number(each.points.at(-1)[1])}`);
    this.drawing.setAttribute("aria-label", `${this.title}: ${said.join(", ")}`);
  }

  #scales(drawn, width) {
    const all = drawn.flatMap((each) => each.points);
    const decades = all.map(([, y]) => Math.log10(y));
    const low = Math.floor(Math.min(...decades, -1));
    const high = Math.ceil(Math.max(...decades, 0));
    const last = Math.max(...all.map(([x]) => x), this.axis === "steps" ? 4 : 1e-3);
    const inner = width - MARGIN.left - MARGIN.right;
    return {
      width, low, high, last,
      x: (value) => MARGIN.left + (inner * Math.min(value, last)) / last,
      y: (value) => {
        const share = (high - Math.log10(value)) / (high - low);
        return MARGIN.top + share * (HEIGHT - MARGIN.top - MARGIN.bottom);
      },
    };
  }

  #marker({ x }) {
    if (this.at === null || this.at === undefined) return [];
    const place = x(this.at);
    return [svg("line", { class: "now", x1: place, x2: place, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom })];
  }
}

/** The points of a series that can be drawn; the floor is that of round-off. */
function pointsOf({ x, y }, reach) {
  return x.map((value, k) => [value, y[k] === null ? null : Math.max(y[k], FLOOR)])
    .filter(([place, value]) => place <= reach && value !== null && Number.isFinite(value));
}

function curve({ key, label, main, points }, { x, y, last }) {
  const line = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ");
  const [, end] = points.at(-1);
  const parts = [svg("title", {}, `${label}: ${number(end)}`)];
  if (points.length === 1) {
    // one call: it stays where it is
    parts.push(svg("line", { class: "flat", x1: x(points[0][0]), x2: x(last), y1: y(end), y2: y(end) }));
    parts.push(svg("circle", { class: "dot", cx: x(points[0][0]), cy: y(end), r: 4 }));
  } else {
    parts.push(svg("polyline", { points: line }));
    for (const [px, py] of main ? points : [points.at(-1)]) {
      parts.push(svg("circle", { class: "dot", cx: x(px), cy: y(py), r: main ? 3 : 3.5 }));
    }
  }
  return svg("g", { class: `curve m-${key}${main ? " main" : ""}` }, parts);
}

function grid({ width, low, high, last, x, y }, axis) {
  const parts = [];
  const stride = Math.ceil((high - low) / 8);
  for (let decade = low; decade <= high; decade += stride) {
    const place = y(10 ** decade);
    parts.push(svg("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: place, y2: place }));
    parts.push(svg("text", { class: "tick", x: MARGIN.left - 8, y: place + 4, "text-anchor": "end" }, power(decade)));
  }
  const bottom = HEIGHT - MARGIN.bottom;
  for (const value of ticks(last, axis)) {
    const text = axis === "steps" ? String(value) : value === 0 ? "0" : time(value).replace(".0 ms", " ms");
    parts.push(svg("text", { class: "tick", x: x(value), y: bottom + 17, "text-anchor": "middle" }, text));
  }
  const name = axis === "steps" ? "corrections" : "seconds of computing";
  const middle = (MARGIN.left + width - MARGIN.right) / 2;
  parts.push(svg("text", { class: "name", x: middle, y: HEIGHT - 5, "text-anchor": "middle" }, name));
  return parts;
}

function ticks(last, axis) {
  const rough = last / 5;
  const decade = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((m) => m * decade).find((m) => m >= rough);
  if (axis === "steps") step = Math.max(1, Math.round(step));
  const values = [];
  for (let value = 0; value <= last * 1.001; value += step) values.push(Number(value.toPrecision(6)));
  return values;
}
