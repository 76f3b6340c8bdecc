// The iterates that have arrived, and which of them is shown: play, pause, one step, back.

const MOST_BYTES = 160e6;
const SECONDS = 3.2;
const SPEEDS = { slow: 2, usual: 5 };

export class Player {
  constructor(onshow) {
    this.onshow = onshow;
    this.speed = "usual";
    this.clear();
    this.tick = this.tick.bind(this);
    requestAnimationFrame(this.tick);
  }

  clear() {
    this.frames = [];
    this.bytes = 0;
    this.at = -1;
    this.playing = false;
    this.complete = false;
    this.shown = null;
    this.since = 0;
  }

  /** A new iterate; one with the same index takes the place of that before. */
  add(frame) {
    const last = this.frames.at(-1);
    if (last && last.index === frame.index) {
      this.frames[this.frames.length - 1] = frame;
      if (this.at === this.frames.length - 1) this.show(this.at);
      return;
    }
    this.frames.push(frame);
    this.bytes += sizeOf(frame);
    if (this.bytes > MOST_BYTES) this.#thin();
    if (this.at < 0) this.show(0);
  }

  /** Every second of the older iterates is forgotten: what is kept is bounded. */
  #thin() {
    const shown = this.frames[this.at];
    this.frames = this.frames.filter((frame, k) => k % 2 === 0 || k >= this.frames.length - 2);
    this.bytes = this.frames.reduce((sum, frame) => sum + sizeOf(frame), 0);
    this.at = Math.max(0, this.frames.findIndex((frame) => frame.index >= (shown?.index ?? 0)));
  }

  get current() {
    return this.frames[this.at] ?? null;
  }

  /** Whether everything has arrived and been shown. */
  get ended() {
    return this.complete && this.at === this.frames.length - 1;
  }

  show(place) {
    this.at = Math.max(0, Math.min(this.frames.length - 1, place));
    this.since = performance.now();
    this.onshow();
  }

  play() {
    if (this.ended) this.show(0);
    this.playing = true;
    this.since = performance.now();
    this.onshow();
  }

  pause() {
    this.playing = false;
    this.onshow();
  }

  step(by) {
    this.playing = false;
    this.show(this.at + by);
  }

  /** The newest iterate at once: while something is dragged. */
  jump() {
    this.playing = false;
    if (this.frames.length) this.show(this.frames.length - 1);
  }

  tick(now) {
    requestAnimationFrame(this.tick);
    if (!this.playing || !this.frames.length) return;
    const rate = this.speed === "slow" ? SPEEDS.slow : Math.max(SPEEDS.usual, this.frames.length / SECONDS);
    const due = Math.floor(((now - this.since) / 1000) * rate);
    if (due < 1) return;
    if (this.at < this.frames.length - 1) this.show(this.at + due);
    if (this.ended) {
      this.playing = false;
      this.onshow();
    }
  }
}

function sizeOf(frame) {
  return Object.values(frame.fields).reduce((sum, { values }) => sum + values.byteLength, 0);
}
