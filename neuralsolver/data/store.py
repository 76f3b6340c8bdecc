"""Datasets on disk: one self-describing HDF5 file each, the same bytes every time.

    inputs      (N, C, n, n)                        one chunk per sample, gzip, shuffled, with a
    solution    (N, U, n, n) or (N, U, T, n, n)     checksum: a flipped bit is an error when read
    rejected    (N,)                                drawn fields without a solution, per sample

While it is being generated, a dataset is a folder of blocks, each a small HDF5 file of compressed
samples whose name carries the hash of its bytes. The final file takes over the compressed samples
in the order of their index. Everything is written under another name, flushed and renamed, so a
name never stands for half a file.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from neuralsolver.data.dataset import DTYPE, SPLITS, Dataset, DatasetSpec, check_shapes
from neuralsolver.equations import Equation
from neuralsolver.equations.base import Array
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.limits import RESOLUTION, SEED, Choice, Int, Limit, check_memory

FORMAT = "neuralsolver dataset 1"


def data_folder(given: str | Path | None = None) -> Path:
    """The folder of the datasets: `given`, else $ENS_DATA, else ./data."""
    return Path(given or os.environ.get("ENS_DATA") or "data")


def dataset_path(spec: DatasetSpec, folder: str | Path | None = None) -> Path:
    """Where the dataset of this description is or will be."""
    return data_folder(folder) / f"{spec.name}.h5"


def encode_block(inputs: Array, solution: Array, rejected: npt.NDArray[np.int32]) -> bytes:
    """A few consecutive samples, compressed."""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        _create(file, "inputs", inputs.shape)[...] = inputs
        _create(file, "solution", solution.shape)[...] = solution
        _create_counts(file, rejected)
    return memory.getvalue()


def save_block(folder: Path, number: int, content: bytes) -> None:
    """Keep a finished block."""
    write_whole(folder / f"{number:06d}-{_digest(content)}.h5", content)


def finished_blocks(folder: Path) -> dict[int, Path]:
    """The blocks in `folder` that are whole, by number; what is not whole is deleted."""
    blocks = {}
    for path in sorted(folder.glob("*.tmp")):
        path.unlink()
    for path in sorted(folder.glob("*.h5")):
        number, _, digest = path.stem.partition("-")
        if number.isdecimal() and digest == _digest(path.read_bytes()):
            blocks[int(number)] = path
        else:
            path.unlink()
    return blocks


def assemble(spec: DatasetSpec, blocks: Iterable[Path], temporary: Path, path: Path) -> None:
    """Write the final file from all blocks, in order, and give it its name."""
    n, channels = spec.resolution, len(spec.equation.input_names)
    with h5py.File(temporary, "w", libver=("v110", "v110")) as file:
        file.attrs.update({key: _text(value) for key, value in _attributes(spec).items()})
        dimension = spec.equation.dimension
        inputs = _create(file, "inputs", (spec.count, channels, *dimension * (n,)))
        solution = _create(file, "solution", (spec.count, *spec.equation.solution_shape(n)))
        space = ", ".join(f"r{axis + 1}" for axis in range(dimension))
        inputs.attrs["axes"] = _text(f"sample, channel, {space}")
        inputs.attrs["channels"] = _text(", ".join(spec.equation.input_names))
        frames = "time, " if spec.equation.frames else ""
        solution.attrs["axes"] = _text(f"sample, channel, {frames}{space}")
        rejected = np.zeros(spec.count, dtype="<i4")
        first = 0
        for block in blocks:
            with h5py.File(block, "r") as part:
                size = len(part["rejected"])
                rejected[first : first + size] = part["rejected"][...]
                for source, target in ((part["inputs"], inputs), (part["solution"], solution)):
                    _copy_chunks(source, target, first)
            first += size
        _create_counts(file, rejected)
        file.attrs["rejected_total"] = int(rejected.sum())
    with open(temporary, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)  # the rename survives a power cut
    os.fsync(folder)
    os.close(folder)


def check_space(folder: Path, needed: int) -> None:
    """Raise InvalidInput when the disk has no room for `needed` more bytes."""
    if shutil.disk_usage(folder).free < needed:
        raise disk_full(folder, needed)


def disk_full(folder: Path, needed: int | None = None) -> InvalidInput:
    """The error for a full disk."""
    room = "more free space" if needed is None else f"{needed / 1e6:.0f} MB free"
    free = shutil.disk_usage(folder).free
    return InvalidInput(
        f"disk of {folder}", room, f"{free / 1e6:.0f} MB (finished blocks are kept)"
    )


def is_disk_full(error: OSError) -> bool:
    """Whether an error, of Python or of the HDF5 library, says that the disk is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)


@dataclass(frozen=True)
class StoredFields:
    """An array in an HDF5 file that is open only while it is read."""

    path: Path
    key: str
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        first, *rest = index if isinstance(index, tuple) else (index,)
        rows = np.arange(len(self))[first]
        check_memory(self.key, f"{rows.size} samples", 8.0 * rows.size * math.prod(self.shape[1:]))
        try:
            with h5py.File(self.path, "r") as file:
                values = _read_rows(trusted(self.path, file, self.key), rows)
        except InvalidInput:
            raise
        except (OSError, KeyError, RuntimeError) as error:
            raise FileDamaged(str(self.path), f"readable {self.key}", _line(error)) from None
        return values[(*([slice(None)] if np.ndim(rows) else []), *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


def open_dataset(path: str | Path, equation: Equation | None = None) -> Dataset:
    """The dataset in a file written by this package."""
    path = Path(path)
    if not path.is_file():
        raise InvalidInput("file", "an existing dataset file", path)
    try:
        with h5py.File(path, "r") as file:
            if not is_native(file):
                raise FileDamaged(str(path), f"the format {FORMAT!r}", list(file)[:8])
            description = _description(path, file)
            fields = {key: trusted(path, file, key) for key in ("inputs", "solution", "rejected")}
            shapes = {key: tuple(data.shape) for key, data in fields.items()}
            check_shapes(str(path), shapes["inputs"], shapes["solution"])
            if shapes["rejected"] != shapes["inputs"][:1]:
                raise FileDamaged(str(path), "a count for every sample", shapes["rejected"])
            rejected = fields["rejected"][...]
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise FileDamaged(str(path), "a whole HDF5 dataset file", _line(error)) from None
    inputs, solution = (StoredFields(path, key, shapes[key]) for key in ("inputs", "solution"))
    return Dataset(inputs, solution, description, rejected, (), equation)


LARGEST_RATIO = 1100
"""Deflate makes nothing smaller than by a factor of 1032: a file that claims to hold more than this
many times its size on disk holds nothing but a claim."""


def trusted(path: Path, file: Any, key: str) -> Any:
    """A dataset of real numbers that lies in this file and is as large as it says; nothing is
    read for it, and nothing outside the file is looked at."""
    link = file.get(key, getlink=True)
    if link is None:
        raise FileDamaged(str(path), f"an entry {key}", "none")
    if not isinstance(link, h5py.HardLink):
        raise FileDamaged(f"{path}: {key}", "an entry of the file itself", "a link elsewhere")
    data = file[key]
    if not isinstance(data, h5py.Dataset):
        raise FileDamaged(f"{path}: {key}", "an array", "a group or a type")
    if data.is_virtual or data.external:
        raise FileDamaged(f"{path}: {key}", "values in the file itself", "values in other files")
    if data.shape is None or data.dtype.kind not in "fiub" or data.dtype.subdtype is not None:
        raise FileDamaged(f"{path}: {key}", "an array of real numbers", f"dtype {data.dtype}")
    on_disk = min(data.id.get_storage_size(), 512 * os.stat(path).st_blocks)
    if data.nbytes > LARGEST_RATIO * max(on_disk, 1):
        got = f"{data.nbytes} bytes, of which the file holds {on_disk}"
        raise FileDamaged(f"{path}: {key}", "values that are there", got)
    return data


def _create(file: Any, name: str, shape: tuple[int, ...]) -> Any:
    # every setting is spelled out: the bytes of a file must not depend on a default
    return file.create_dataset(
        name,
        shape,
        dtype=DTYPE,
        chunks=(1, *shape[1:]),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
        fletcher32=True,
        track_times=False,
    )


def _create_counts(file: Any, rejected: npt.NDArray[np.int32]) -> None:
    whole = rejected.shape
    file.create_dataset(
        "rejected", data=rejected, dtype="<i4", chunks=whole, fletcher32=True, track_times=False
    )


def _copy_chunks(source: Any, target: Any, first: int) -> None:
    """Move compressed samples as they are."""
    rest = (0,) * (source.ndim - 1)
    for j in range(source.shape[0]):
        skipped_filters, chunk = source.id.read_direct_chunk((j, *rest))
        target.id.write_direct_chunk((first + j, *rest), chunk, skipped_filters)


def _read_rows(data: Any, rows: Any) -> Any:
    if np.ndim(rows) == 0:
        return data[int(rows)]
    if len(rows) and (np.diff(rows) == 1).all():
        return data[int(rows[0]) : int(rows[-1]) + 1]
    values = np.empty((len(rows), *data.shape[1:]), dtype=data.dtype)
    for position, row in enumerate(rows):
        values[position] = data[int(row)]
    return values


def _attributes(spec: DatasetSpec) -> dict[str, Any]:
    described = spec.describe()
    described["constants"] = json.dumps(described["constants"], sort_keys=True)
    described["format"] = FORMAT
    described["fingerprint"] = spec.fingerprint
    described["units"] = "dimensionless; lengths in sides of the unit square"
    torus = spec.equation.boundary == "periodic"
    described["grid"] = "r = i/n, periodic" if torus else "r = i/(n-1), walls included"
    times = getattr(spec.equation, "frame_times", None)
    if times is not None:
        described["frame_times"] = np.asarray(times, dtype=DTYPE)
    return described


ATTRIBUTES: dict[str, Limit] = {
    "equation": Choice(),
    "fingerprint": Choice(),
    "constants": Choice(),
    "count": Int(1),
    "resolution": RESOLUTION,
    "split": Choice(SPLITS),
    "seed": SEED,
}
"""What every file of ours says of itself."""


def _description(path: Path, file: Any) -> dict[str, Any]:
    values = {key: _native(file.attrs[key]) for key in file.attrs}
    for key, limit in ATTRIBUTES.items():
        try:
            values[key] = limit.read(key, values.get(key))
        except InvalidInput as error:
            raise FileDamaged(str(path), f"{key}: {error.expected}", error.got) from None
    values["constants"] = json.loads(values["constants"])
    if not isinstance(values["constants"], dict):
        raise FileDamaged(str(path), "constants by name", str(values["constants"])[:60])
    if "frame_times" in values:
        times = np.asarray(values["frame_times"])
        if times.dtype.kind not in "fiu" or times.ndim != 1 or not np.isfinite(times).all():
            raise FileDamaged(str(path), "frame_times: finite numbers", str(times)[:60])
    return values


def is_native(file: Any) -> bool:
    """Whether an open HDF5 file was written by this package."""
    return bool(_native(file.attrs.get("format")) == FORMAT)


def _text(value: Any) -> Any:
    # of fixed length, next to their checksum: HDF5 keeps other texts in a heap without one, and
    # reading a damaged heap may never end
    return np.bytes_(value.encode()) if isinstance(value, str) else value


def _native(value: Any) -> Any:
    plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return plain.decode() if isinstance(plain, bytes) else plain


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
