// Elements, and numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes; those that begin with "on" are listeners, null ones are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** A button that says what it does. */
export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

const SHAPES = {
  first: "M6 5v14M19 5 9 12l10 7z", back: "M17 5 7 12l10 7z", play: "M7 4v16l13-8z",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z", step: "M7 5v14l10-7zM19 5v14", last: "M5 5v14l10-7zM18 5v14",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
};

/** A small picture on a button; what it means is the label of the button. */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: SHAPES[name] }));
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 10 to a whole power. */
export function power(exponent) {
  return "10" + [...String(exponent)].map((digit) => RAISED[digit]).join("");
}

/** A number in three digits or fewer, in powers of ten where it is small or large. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 0.01 && size < 10000) return String(Number(value.toPrecision(size < 1 ? 2 : 3))).replace("-", "−");
  const [digits, exponent] = value.toExponential(1).split("e");
  return `${digits.replace("-", "−")}·${power(Number(exponent))}`;
}

/** A part of one, in percent. */
export function percent(part) {
  return `${Number((100 * part).toPrecision(2))} %`;
}

/** Seconds. */
export function time(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.00095) return `${Math.round(1e6 * seconds)} µs`;
  if (seconds < 0.0095) return `${(1000 * seconds).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(1000 * seconds)} ms`;
  return `${seconds.toFixed(1)} s`;
}

/** A sentence that appears for a moment, and is read aloud. */
export function toast(text) {
  const place = document.getElementById("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("shown"), 3500);
}

/** Copy a text; says so. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast(`Copying is not allowed here; select the text instead.`);
  }
}

/** Offer bytes as a file. */
export function download(bytes, name) {
  const link = el("a", { href: URL.createObjectURL(new Blob([bytes])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
