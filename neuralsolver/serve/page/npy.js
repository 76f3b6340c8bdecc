// .npy files, read in the browser: what is no square field of numbers is refused before it is sent.

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
const LARGEST = 256;
const KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, i2: Int16Array, u1: Uint8Array, i1: Int8Array };

/** The field of a file as float32, or an error that says what is wrong. */
export async function readNpy(file) {
  if (file.size > 4e6) throw new Error(`${file.name}: expected at most 4 million bytes, got ${file.size}.`);
  const buffer = await file.arrayBuffer();
  const bytes = new Uint8Array(buffer);
  if (!MAGIC.every((byte, k) => bytes[k] === byte)) throw new Error(`${file.name} is not a .npy file. numpy.save writes one.`);
  const long = bytes[6] > 1;
  const view = new DataView(buffer);
  const length = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const begin = (long ? 12 : 10) + length;
  const header = new TextDecoder("latin1").decode(bytes.subarray(long ? 12 : 10, begin));
  const [, order, kind] = header.match(/'descr':\s*'([<>|=]?)(\w+)'/) ?? [];
  const shape = (header.match(/'shape':\s*\(([^)]*)\)/)?.[1] ?? "").split(",").filter((part) => part.trim()).map(Number);
  while (shape.length > 2 && shape[0] === 1) shape.shift();
  if (!KINDS[kind] || order === ">") throw new Error(`${file.name}: expected real numbers (float32 or float64), got ${kind ?? "something else"}.`);
  if (shape.length !== 2 || shape[0] !== shape[1]) throw new Error(`${file.name}: expected a square field (n, n), got (${shape.join(", ")}).`);
  if (shape[0] > LARGEST) throw new Error(`${file.name}: expected at most ${LARGEST} points in each direction, got ${shape[0]}.`);
  const Kind = KINDS[kind];
  const count = shape[0] * shape[1];
  if (buffer.byteLength - begin !== count * Kind.BYTES_PER_ELEMENT) throw new Error(`${file.name} is not complete.`);
  const values = Float32Array.from(new Kind(buffer.slice(begin)));
  return { shape, values: header.includes("'fortran_order': True") ? transposed(values, shape[0]) : values };
}

function transposed(values, n) {
  return values.map((_, k) => values[(k % n) * n + Math.floor(k / n)]);
}
