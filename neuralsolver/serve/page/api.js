// The server: JSON by fetch, iterates by a WebSocket.

/** JSON of an address, or an error with the server's own words. */
export async function getJson(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error?.message || `${path}: ${response.status}`);
  return body;
}

/** A frame: the length of its header, the header, float32 fields. */
export function decodeFrame(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const fields = {};
  let place = 4 + length;
  for (const { name, shape } of header.fields) {
    const count = shape.reduce((product, size) => product * size, 1);
    fields[name] = { shape, values: new Float32Array(buffer, place, count) };
    place += 4 * count;
  }
  return { ...header, fields };
}

/** The same the other way, for a field that is painted or read from a file. */
export function encodeFrame(header, name, values, shape) {
  let text = JSON.stringify({ ...header, fields: [{ name, shape }] });
  let bytes = new TextEncoder().encode(text);
  text += " ".repeat((4 - (bytes.length % 4)) % 4);
  bytes = new TextEncoder().encode(text);
  const frame = new Uint8Array(4 + bytes.length + 4 * values.length);
  new DataView(frame.buffer).setUint32(0, bytes.length, true);
  frame.set(bytes, 4);
  frame.set(new Uint8Array(Float32Array.from(values).buffer), 4 + bytes.length);
  return frame.buffer;
}

/** One stream: asks go out, frames and words come in. An ask takes the place of the one before. */
export class Stream {
  constructor(handlers) {
    this.handlers = handlers;
    this.number = 0;
    this.socket = null;
    this.pending = null;
  }

  /** Ask for a solve; `field` is sent along where the input is not random. */
  ask(ask, field = null) {
    this.number += 1;
    const numbered = { ...ask, id: this.number };
    this.pending = field
      ? encodeFrame(numbered, "input", field.values, field.shape)
      : JSON.stringify(numbered);
    this.#send();
    return this.number;
  }

  cancel() {
    this.number += 1;
    this.pending = JSON.stringify({ cancel: true });
    if (this.socket?.readyState === WebSocket.OPEN) this.#send();
  }

  close() {
    this.handlers = {};
    this.socket?.close();
  }

  #send() {
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(this.pending);
      this.pending = null;
    } else if (this.socket?.readyState !== WebSocket.CONNECTING) {
      this.#open();
    }
  }

  #open() {
    const address = new URL("stream", document.baseURI.split("#")[0]);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.pending && this.#send();
    this.socket.onmessage = ({ data }) => this.#receive(data);
    this.socket.onclose = ({ code, reason }) => {
      if (code === 1000 || !this.handlers.refused) return;
      const message = reason || "The connection to the server was lost. Press run to try again.";
      this.handlers.refused({ field: "connection", message });
    };
  }

  #receive(data) {
    const message = typeof data === "string" ? JSON.parse(data) : { type: "frame", ...decodeFrame(data) };
    if (message.id !== this.number) return; // of an ask that is no longer of interest
    this.handlers[message.type]?.(message);
  }
}
