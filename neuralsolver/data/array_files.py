"""One field of a user: a number, an array, a table of numbers, or a picture.

    1.5                  the same value at every point
    f.npy                an array as numpy.save writes it
    f.csv, f.txt         rows of numbers, as numpy.savetxt writes them: row i is x = i h
    f.mat, f.mat:NAME    an array of MATLAB, the only one of the file or the one with this name
    shape.png            a mask, dark where u is fixed: as it looks, x to the right and y up

Only regular files are opened, so a pipe does not wait for a writer. Sizes are read and compared
with the free memory before anything is allocated.
"""

from __future__ import annotations

import io
import math
import os
import stat
from pathlib import Path
from tokenize import TokenError
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from scipy.io import netcdf_file

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.limits import check_memory

FORMATS = ".npy, .csv, .txt or .mat"
DARK = 0.5
"""Pixels with less than this part of white are dark."""
LARGEST_PICTURE = 10_000
"""Pixels along a side of a mask."""


def read_field(option: str, given: str | Path) -> npt.NDArray[Any]:
    """The number or the one array that an option names.

    Args:
        option: The option, for the message of a refusal.
        given: A number, or a file ending in .npy, .csv, .txt or .mat; any other is read as .npy.

    Returns:
        The array; of a number, without axes.

    Raises:
        InvalidInput: The file is none of these, is no regular file, or does not fit in memory.
    """
    number = _number(given)
    if number is not None:
        return np.asarray(number)
    text = os.fspath(given)
    file, _, name = text.rpartition(":") if ".mat:" in text.lower() else (text, "", "")
    path = Path(file)
    check_regular(option, path)
    try:
        if path.suffix.lower() == ".mat":
            return _read_matlab(option, path, name)
        table = path.suffix.lower() in (".csv", ".txt")
        return _read_table(option, path) if table else _read_npy(option, path)
    except (InvalidInput, MemoryError):
        raise
    except (ValueError, EOFError, SyntaxError, TokenError, OverflowError, RecursionError) as error:
        # numpy's own words advise to allow pickle, which would run what the file says
        got = str(error).splitlines()[0][:80] if "pickle" not in str(error) else "Python objects"
        raise InvalidInput(option, f"a {FORMATS} file of numbers", f"{path}: {got}") from None


def read_mask(option: str, file: Path) -> npt.NDArray[np.bool_]:
    """The fixed points that a picture or an array draws: dark, or not zero."""
    if file.suffix.lower() != ".png":
        values = read_field(option, file)
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise InvalidInput(option, "finite real numbers", f"{file.name}, {values.dtype}")
        return np.asarray(values != 0)
    check_regular(option, file)
    from matplotlib.image import imread
    from PIL import Image

    try:
        with Image.open(file) as opened:
            size = opened.size
        if max(size) > LARGEST_PICTURE:
            raise InvalidInput(option, f"at most {LARGEST_PICTURE} pixels a side", size)
        picture = np.asarray(imread(file))
    except InvalidInput:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise InvalidInput(option, "a picture, .png, or an array", file.name) from None
    grey = picture if picture.ndim == 2 else picture[..., :3].mean(-1)
    # rows of a picture run downwards; of a field the first axis is x and the second is y
    return np.asarray(grey[::-1].T < DARK)


def check_regular(option: str, path: Path) -> None:
    """Raise InvalidInput for a folder, a pipe or a device, and OSError for nothing at all."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InvalidInput(option, "a regular file", path)


def _number(given: str | Path) -> float | None:
    try:
        number = float(given) if isinstance(given, str) and len(given) < 40 else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _read_npy(option: str, path: Path) -> npt.NDArray[Any]:
    with open(path, "rb") as opened:
        version = np.lib.format.read_magic(opened)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read_header is None:
            raise ValueError("an unknown version of the format")
        shape, _, kind = read_header(opened)
    if kind.hasobject:
        raise ValueError("Python objects")
    check_memory(option, f"shape {shape}", float(math.prod(shape)) * kind.itemsize)
    return np.asarray(np.load(path, allow_pickle=False))


def _read_table(option: str, path: Path) -> npt.NDArray[Any]:
    # a number takes two characters and eight bytes at least, as text and as objects of Python more
    check_memory(option, path, 60.0 * path.stat().st_size)
    text = path.read_text(encoding="utf-8-sig")
    for separator in ";\t":
        text = text.replace(separator, ",")
    if not text.strip():
        raise ValueError("no numbers")
    delimiter = "," if "," in text else None
    return np.asarray(np.loadtxt(io.StringIO(text), delimiter=delimiter, ndmin=2))


def _read_matlab(option: str, path: Path, name: str) -> npt.NDArray[Any]:
    import scipy.io

    try:
        if h5py.is_hdf5(path):  # MATLAB 7.3 stores all axes in reverse
            with h5py.File(path, "r") as file:
                listed = {key: value.shape for key, value in file.items() if hasattr(value, "ndim")}
                chosen = _chosen(option, path, name, listed)
                check_memory(option, path, 2.0 * file[chosen].nbytes)
                return np.asarray(file[chosen][...].T)
        listed = {key: shape for key, shape, _ in scipy.io.whosmat(path)}
        chosen = _chosen(option, path, name, listed)
        check_memory(option, path, 16.0 * math.prod(listed[chosen]))
        return np.asarray(scipy.io.loadmat(path, variable_names=[chosen])[chosen])
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # a broken file makes the libraries raise anything at all
        raise ValueError(" ".join(str(error).split()) or "no MATLAB file") from None


def _chosen(option: str, path: Path, name: str, listed: dict[str, tuple[int, ...]]) -> str:
    fields = [key for key, shape in listed.items() if max(shape, default=1) > 1]
    if name in listed or (not name and len(fields) == 1):
        return name or fields[0]
    names = ", ".join(fields[:12]) or "no arrays"
    raise InvalidInput(option, f"the name of one array, as {path.name}:NAME", f"{path}: {names}")


def write_fields(path: Path, axes: dict[str, Any], fields: dict[str, Any]) -> None:
    """Write fields on a grid with their coordinates.

    Args:
        path: A .npz, .csv (a row for every point) or .nc file.
        axes: Coordinates along each axis of the fields, by name.
        fields: Arrays by name; of those with other axes only .npz has room.
    """
    kind, shape, memory = path.suffix.lower(), tuple(map(len, axes.values())), io.BytesIO()
    on_grid = {name: values for name, values in fields.items() if values.shape == shape}
    if kind == ".npz":
        np.savez_compressed(memory, **axes, **fields)
    elif kind == ".csv":
        columns = [*np.meshgrid(*axes.values(), indexing="ij"), *on_grid.values()]
        rows = np.stack([column.ravel() for column in columns], 1)
        np.savetxt(memory, rows, "%.9g", ",", header=",".join([*axes, *on_grid]), comments="")
    else:
        file = netcdf_file(memory, "w")  # closes `memory` when it is deleted
        for name, values in axes.items():
            file.createDimension(name, len(values))
            file.createVariable(name, "d", (name,))[:] = values
        for name, values in on_grid.items():
            file.createVariable(name, "d", tuple(axes))[:] = values
        file.flush()
    write_whole(path, memory.getvalue())
