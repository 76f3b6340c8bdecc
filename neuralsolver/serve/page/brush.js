// Painted inputs: strokes on the unit square, and the fields they make on any grid.
//
// A stroke is four bytes: x, y, radius and value. Sources and vortices add up bells; rock is laid
// over what was there. The strokes are in the address, so a painting can be shared.

const MOST = 1500;

/** Strokes as text for an address. */
export function encodeStrokes(strokes) {
  const bytes = strokes.flatMap(({ x, y, radius, value }) => [
    Math.round(255 * x), Math.round(255 * y), Math.round(255 * radius), Math.round(127 + 127 * value),
  ]);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The strokes of such a text; one that is damaged has none. */
export function decodeStrokes(text) {
  let bytes;
  try {
    bytes = [...atob(text.replaceAll("-", "+").replaceAll("_", "/"))].map((c) => c.charCodeAt(0));
  } catch {
    return [];
  }
  const strokes = [];
  for (let i = 0; i + 3 < bytes.length && strokes.length < MOST; i += 4) {
    const [x, y, radius, value] = bytes.slice(i, i + 4);
    strokes.push({ x: x / 255, y: y / 255, radius: radius / 255, value: (value - 127) / 127 });
  }
  return strokes;
}

/** A stroke with the precision of its four bytes, so that a link shows the very same field. */
export function rounded(stroke) {
  return decodeStrokes(encodeStrokes([stroke]))[0];
}

/** The field of strokes on n × n points, indexed [r₁, r₂]. */
export function paintedField(strokes, n, equation, constants) {
  if (equation.brush === "phases") return phases(strokes, n, constants.low, constants.high);
  const periodic = equation.brush === "vortices";
  const values = new Float64Array(n * n);
  for (const stroke of strokes) addBell(values, n, stroke, equation.amplitude, periodic);
  if (periodic) {
    // a periodic flow has no mean vorticity
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    for (let i = 0; i < values.length; i += 1) values[i] -= mean;
  }
  return { shape: [n, n], values: Float32Array.from(values) };
}

function addBell(values, n, { x, y, radius, value }, amplitude, periodic) {
  const spacing = periodic ? 1 / n : 1 / (n - 1);
  for (let i = 0; i < n; i += 1) {
    const dx = distance(i * spacing - x, periodic);
    if (dx > 4 * radius) continue;
    for (let j = 0; j < n; j += 1) {
      const dy = distance(j * spacing - y, periodic);
      const square = (dx * dx + dy * dy) / (radius * radius);
      if (square < 16) values[i * n + j] += amplitude * value * Math.exp(-square / 2);
    }
  }
}

function distance(d, periodic) {
  const size = Math.abs(d);
  return periodic ? Math.min(size, 1 - size) : size;
}

function phases(strokes, n, low, high) {
  const values = new Float32Array(n * n).fill(low);
  for (const { x, y, radius, value } of strokes) {
    for (let i = 0; i < n; i += 1) {
      for (let j = 0; j < n; j += 1) {
        const dx = i / (n - 1) - x;
        const dy = j / (n - 1) - y;
        if (dx * dx + dy * dy <= 4 * radius * radius) values[i * n + j] = value > 0 ? high : low;
      }
    }
  }
  return { shape: [n, n], values };
}

/** Lets a canvas be painted on with pointer and keys; `onstroke(stroke, last)` for every stroke. */
export function paintable(canvas, settings, onstroke) {
  let before = null;
  const cursor = { x: 0.5, y: 0.5 };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return {
      x: Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)),
      y: Math.min(1, Math.max(0, 1 - (event.clientY - box.top) / box.height)),
    };
  };
  const stamp = (point, erase, last) => {
    const { radius, sign } = settings();
    onstroke(rounded({ ...point, radius, value: erase ? -sign : sign }), last);
    before = point;
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    stamp(place(event), event.shiftKey || event.button === 2, false);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!before || !event.buttons) return;
    const point = place(event);
    const moved = Math.hypot(point.x - before.x, point.y - before.y);
    if (moved >= settings().radius) stamp(point, event.shiftKey || event.buttons === 2, false);
  });
  const lift = () => {
    if (before) onstroke(null, true);
    before = null;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === " " || event.key === "Enter") {
      stamp({ ...cursor }, event.shiftKey, true);
      before = null;
    } else if (moves[event.key]) {
      const [dx, dy] = moves[event.key];
      cursor.x = Math.min(1, Math.max(0, cursor.x + 0.05 * dx));
      cursor.y = Math.min(1, Math.max(0, cursor.y + 0.05 * dy));
    } else return;
    event.preventDefault();
    event.stopPropagation();
    canvas.dispatchEvent(new CustomEvent("cursor", { detail: { ...cursor } }));
  });
}
