"""Fields on their way in and out: .npy without pickle, and the binary frames of the stream.

A .npy file says its shape and type in a header of text. Both are read and bounded before a byte of
the numbers is looked at; a file with objects, of which numpy would unpickle, has a type that is
refused here.

A frame is self-describing: four bytes with the length of its header, the header as JSON, padded to
a multiple of four, then the fields it names as float32, one after the other.
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from neuralsolver.errors import InvalidInput

Field = npt.NDArray[np.float64]

FRAME_VALUES = 90_000
"""Values per field in a frame: 256 × 256 points, or 21 times of a flow on 64 × 64."""
LONGEST_HEADER = 16_384
SHOWN_TIMES = 21
KINDS = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}


def read_npy(content: bytes, largest_grid: int) -> Field:
    """A square field (n, n) of real numbers from the bytes of a .npy file."""
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception as error:  # whatever numpy makes of bytes that are no header
        raise InvalidInput("file", "a .npy file", repr(error)[:120]) from None
    if dtype.str[1:] not in KINDS:
        raise InvalidInput("file", "an array of real numbers", f"type {dtype!r}"[:120])
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    check_grid(shape, largest_grid)
    numbers = content[stream.tell() :]
    if len(numbers) != shape[0] * shape[1] * dtype.itemsize:
        expected = f"{shape[0] * shape[1] * dtype.itemsize} bytes of numbers after the header"
        raise InvalidInput("file", expected, len(numbers))
    values = np.frombuffer(numbers, dtype).reshape(shape, order="F" if fortran else "C")
    return np.array(values, dtype=np.float64, order="C")  # a copy that may be written to


def check_grid(shape: tuple[int, ...], largest: int) -> None:
    """Raise InvalidInput unless a shape is that of a square field within the limit."""
    whole = all(type(size) is int and size > 0 for size in shape)
    if len(shape) != 2 or shape[0] != shape[1] or not whole:
        raise InvalidInput("input", "a square field (n, n)", f"shape {shape}"[:80])
    if shape[0] > largest:
        raise InvalidInput("grid", f"at most {largest} points in each direction", shape[0])


def write_npy(values: npt.NDArray[Any]) -> bytes:
    """The bytes of a .npy file."""
    memory = io.BytesIO()
    np.save(memory, values)
    return memory.getvalue()


def shown(field: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """A field (n, n) or (T, n, n) with as many points as a frame carries, every k-th of them."""
    if field.ndim == 3:
        field = field[:: max(1, -(-(field.shape[0] - 1) // (SHOWN_TIMES - 1)))]
    stride = 1
    while field[..., ::stride, ::stride].size > FRAME_VALUES:
        stride += 1
    return np.ascontiguousarray(field[..., ::stride, ::stride], dtype="<f4")


def encode_frame(header: dict[str, Any], fields: dict[str, npt.NDArray[np.float32]]) -> bytes:
    """A frame of the stream."""
    shapes = [{"name": name, "shape": values.shape} for name, values in fields.items()]
    text = json.dumps({**header, "fields": shapes}, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join(
        [struct.pack("<I", len(text)), text, *(values.tobytes() for values in fields.values())]
    )


def decode_frame(frame: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.float32]]]:
    """The header and the fields of a frame."""
    (length,) = struct.unpack_from("<I", frame)
    if length > LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = json.loads(frame[4 : 4 + length])
    place, fields = 4 + length, {}
    for entry in header["fields"]:
        count = int(np.prod(entry["shape"]))
        fields[entry["name"]] = np.frombuffer(frame, "<f4", count, place).reshape(entry["shape"])
        place += 4 * count
    return header, fields
