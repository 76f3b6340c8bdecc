"""Files that people already have, recognised by what they contain.

    f_data, psi_data | phi_data     Helmholtz | Poisson, .mat                   (N, n, n)
    thresh_a_data, thresh_p_data    Darcy, .mat                                 (N, n, n)
    coeff, sol                      Darcy of the FNO paper, .mat                (N, n, n)
    nu, tensor                      Darcy of PDEBench, HDF5, cell centres       tensor (N, 1, n, n)
    a, u, t                         vorticity, .mat or .h5, time last           u (N, n, n, T)

MATLAB 7.3 files are HDF5 with all axes reversed. The constants of the equation are in none of them:
of the regimes that such files are known for, the one with the smallest residual on the first sample
is taken, and the notes say which and how small. Fields are never resampled.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.io
import torch

from neuralsolver.data.dataset import Dataset, canonical
from neuralsolver.data.store import FORMAT, LARGEST_RATIO, is_native, open_dataset, trusted
from neuralsolver.equations import (
    EQUATIONS,
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
)
from neuralsolver.equations.base import Array
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.limits import FINITE, check_memory

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Layout(NamedTuple):
    """A kind of file: its two arrays, by which it is recognised, and the equations it may hold."""

    title: str
    input_key: str
    solution_key: str
    candidates: tuple[Equation, ...]


_SOURCES = tuple(Darcy(source=value) for value in (1.0, 100.0))
LAYOUTS = (
    Layout("Helmholtz", "f_data", "psi_data", tuple(Helmholtz(k) for k in (1.0, 2.0, 3.0))),
    Layout("Poisson", "f_data", "phi_data", (Poisson(1.0), Poisson(2.0))),
    Layout("Darcy", "thresh_a_data", "thresh_p_data", _SOURCES),
    Layout("FNO Darcy", "coeff", "sol", _SOURCES),
    Layout(
        "PDEBench Darcy", "nu", "tensor", tuple(Darcy(b) for b in (0.01, 0.1, 1.0, 10.0, 100.0))
    ),
    Layout("vorticity", "a", "u", (EQUATIONS["navier-stokes"], EQUATIONS["kolmogorov"])),
)


def read(path: str | Path, equation: Equation | None = None) -> Dataset:
    """The dataset in a file of this package or of one of the known layouts.

    `equation` replaces the constants that are guessed for foreign files.

    >>> import neuralsolver as ns, tempfile
    >>> made = ns.generate(ns.DatasetSpec(ns.Poisson(), 3, 16), tempfile.mkdtemp())
    >>> ns.read(made.inputs.path).equation.name
    'poisson'
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput("file", "an existing dataset file", path)
    arrays, attributes, reverse = _load(path)
    if attributes.get("format") == FORMAT:
        return open_dataset(path, equation)
    try:
        return _foreign(path, arrays, attributes, reverse, equation)
    except InvalidInput:
        raise
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        got = " ".join(str(error).split())
        raise FileDamaged(str(path), "arrays that make a dataset", got[:200]) from None


def _foreign(
    path: Path,
    arrays: dict[str, Array],
    attributes: Mapping[str, Any],
    reverse: bool,
    equation: Equation | None,
) -> Dataset:
    layout = _recognise(path, arrays)
    fields, solution = arrays[layout.input_key], arrays[layout.solution_key]
    notes = [
        f"read as {layout.title}: {layout.input_key} → inputs, {layout.solution_key} → solution"
    ]
    if layout.title == "PDEBench Darcy":
        if solution.ndim != 4 or solution.shape[1] != 1:
            raise FileDamaged(f"{path}: tensor", "shape (N, 1, n, n)", solution.shape)
        solution = solution[:, 0]
        notes.append("values lie at cell centres (i+1/2)/n, not on the vertices i/(n-1) with walls")
    fields, solution, note = _oriented(path, fields, solution, reverse)
    notes.append(note)
    inputs = fields[:, None]
    if layout.title == "vorticity":
        solution, candidates, note = _trajectories(path, fields, solution, arrays.get("t"), layout)
        notes.append(note)
    else:
        solution, candidates = solution[:, None], layout.candidates
        if isinstance(candidates[0], Darcy):
            candidates = _darcy_candidates(path, fields, candidates, attributes)
    for name, values in ((layout.input_key, inputs), (layout.solution_key, solution)):
        if not np.isfinite(values).all():
            raise FileDamaged(f"{path}: {name}", "finite values", "NaN or infinite values")
    chosen, note = _best(candidates if equation is None else (equation,), inputs, solution)
    notes.append(note)
    description: dict[str, Any] = {
        "equation": chosen.name,
        "constants": canonical(chosen),
        "count": len(inputs),
        "resolution": inputs.shape[-1],
    }
    times = getattr(chosen, "frame_times", None)
    if times is not None:
        description["frame_times"] = times.tolist()
    rejected = np.zeros(len(inputs), dtype=np.int32)
    return Dataset(inputs, solution, description, rejected, tuple(notes), chosen)


def export_npz(dataset: Dataset, path: str | Path) -> Path:
    """Write a dataset as a plain .npz of `inputs`, `solution`, `rejected` and `description`."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInput("output", "a file name ending in .npz", path)
    memory = io.BytesIO()
    described = json.dumps({**dataset.description, "notes": dataset.notes}, sort_keys=True)
    np.savez_compressed(
        memory,
        inputs=np.asarray(dataset.inputs),
        solution=np.asarray(dataset.solution),
        rejected=dataset.rejected,
        description=np.array(described),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, memory.getvalue())
    return path


WANTED = {"t", *(key for layout in LAYOUTS for key in layout[1:3])}


def _load(path: Path) -> tuple[dict[str, Array], dict[str, Any], bool]:
    """The numeric arrays of a file, its attributes, and whether MATLAB wrote them reversed."""
    with open(path, "rb") as file:
        head = file.read(520)
    matlab_73 = head.startswith(b"MATLAB 7.3")
    try:
        if matlab_73 or head.startswith(HDF5_SIGNATURE) or head[512:].startswith(HDF5_SIGNATURE):
            return (*_load_hdf5(path), matlab_73)
        if head.startswith(b"MATLAB 5.0"):
            return _load_matlab(path), {}, False
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # a broken file makes the libraries raise anything at all
        got = " ".join(str(error).split())
        raise FileDamaged(str(path), "a whole .mat or HDF5 file", got[:200]) from None
    raise FileDamaged(str(path), "a .mat or HDF5 file", f"a file that starts with {head[:8]!r}")


def _load_matlab(path: Path) -> dict[str, Array]:
    """Of a MATLAB 5 file only the arrays of a layout, after their sizes are known."""
    listed = {name: shape for name, shape, _ in scipy.io.whosmat(path)}
    chosen = sorted(WANTED & set(listed))
    needed = sum(16.0 * math.prod(listed[name]) for name in chosen)
    check_memory("file", path, needed)
    if needed > LARGEST_RATIO * 16.0 * path.stat().st_size:
        raise FileDamaged(str(path), "values that are there", f"a claim of {needed:.0f} bytes")
    values = scipy.io.loadmat(path, variable_names=chosen) if chosen else {}
    arrays = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    return {**{name: np.empty(0) for name in listed if name not in WANTED}, **arrays}


def _load_hdf5(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    with h5py.File(path, "r") as file:
        if is_native(file):
            return {}, {"format": FORMAT}
        chosen = {key: trusted(path, file, key) for key in file if key in WANTED}
        check_memory("file", path, sum(2.0 * data.nbytes for data in chosen.values()))
        arrays = {key: data[...] for key, data in chosen.items()}
        others = {key: np.empty(0) for key in file if key not in WANTED}
        attributes = {"beta": file.attrs["beta"]} if "beta" in file.attrs else {}
    return {**arrays, **others}, attributes


def _recognise(path: Path, arrays: Mapping[str, Array]) -> Layout:
    found = [layout for layout in LAYOUTS if set(layout[1:3]) <= set(arrays)]
    if len(found) != 1:
        known = "; ".join(f"{layout.input_key} + {layout.solution_key}" for layout in LAYOUTS)
        names = ", ".join(sorted(key for key in arrays if not key.startswith("__"))[:12])
        expected = f"one of the layouts {known}" if not found else "only one known layout"
        raise FileDamaged(str(path), expected, f"arrays {names or 'none'}")
    for key in found[0][1:3]:
        if arrays[key].dtype.kind not in "fiub":
            raise FileDamaged(f"{path}: {key}", "real numbers", f"dtype {arrays[key].dtype}")
    return found[0]


def _oriented(
    path: Path, fields: Array, solution: Array, matlab_73: bool
) -> tuple[Array, Array, str]:
    """Both arrays with the sample axis first, in float64; refuses shapes that can be read twice."""
    got = f"{fields.shape} and {solution.shape}"
    stored = _fits(fields.shape, solution.shape)
    reverse = _fits(fields.shape[::-1], solution.shape[::-1])
    if not (stored or reverse):
        raise FileDamaged(str(path), "square fields (N, n, n) and as many solutions", got)
    if stored and reverse and not matlab_73 and h5py.is_hdf5(path):
        expected = "shapes that tell samples from grid points (or a MATLAB 7.3 header)"
        raise FileDamaged(str(path), expected, got)
    if reverse and (matlab_73 or not stored):
        fields, solution = fields.transpose(), solution.transpose()
        note = "all axes were stored in reverse (MATLAB 7.3) and put back"
    else:
        note = "axes as stored"
    shapes = f"{note}; {len(fields)} samples of {fields.shape[1]} x {fields.shape[2]}"
    return fields.astype(np.float64), solution.astype(np.float64), shapes


def _fits(fields: tuple[int, ...], solution: tuple[int, ...]) -> bool:
    square = len(fields) == 3 and fields[1] == fields[2] and min(fields) > 0
    return square and len(solution) in (3, 4) and solution[:3] == fields


def _trajectories(
    path: Path, first: Array, frames: Array, times: Array | None, layout: Layout
) -> tuple[Array, tuple[Equation, ...], str]:
    """Frames (N, n, n, T) as solutions (N, 1, T, n, n) that begin with the initial state."""
    if frames.ndim != 4:
        raise FileDamaged(f"{path}: u", "shape (N, n, n, T)", frames.shape)
    count = frames.shape[-1]
    t = np.arange(count, dtype=np.float64) if times is None else np.ravel(times).astype(np.float64)
    spacing = np.diff(t)
    if (
        len(t) != count
        or count < 2
        or not np.isfinite(t).all()
        or not np.allclose(spacing, spacing[0], rtol=1e-3)
    ):
        raise FileDamaged(f"{path}: t", f"{count} evenly spaced times", f"{len(t)} values")
    step, start = float(np.mean(spacing)), float(t[0])
    solution = np.moveaxis(frames, -1, 1)
    if np.allclose(solution[:, 0], first, rtol=1e-5, atol=1e-6):
        note = f"u begins with a; {count} frames, {step:.6g} apart"
    else:
        solution = np.concatenate([first[:, None], solution], axis=1)
        start -= step
        note = f"a put in front of u as the frame before it; {count + 1} frames, {step:.6g} apart"
    known = {
        "frame_spacing": step,
        "start_time": max(start, 0.0),
        "frames": solution.shape[1] - 1,
    }
    flows = [flow for flow in layout.candidates if isinstance(flow, NavierStokes)]
    return solution[:, None], tuple(replace(flow, **known) for flow in flows), note


def _darcy_candidates(
    path: Path, permeability: Array, candidates: Sequence[Equation], attributes: Mapping[str, Any]
) -> tuple[Equation, ...]:
    low, high = float(permeability.min()), float(permeability.max())
    if not low > 0:
        raise FileDamaged(f"{path}: permeability", "positive values", low)
    kinds = [kind for kind in candidates if isinstance(kind, Darcy)]
    if "beta" in attributes:
        beta = np.ravel(np.asarray(attributes["beta"]))
        if beta.dtype.kind not in "fiu" or beta.size != 1:
            raise FileDamaged(f"{path}: beta", "one number", str(attributes["beta"])[:60])
        kinds = [Darcy(source=FINITE.read("beta", beta[0]))]
    return tuple(replace(kind, low=low, high=high) for kind in kinds)


def _best(candidates: Sequence[Equation], inputs: Array, solution: Array) -> tuple[Equation, str]:
    """The candidate with the smallest residual on the first sample, relative to that of zero."""
    u = torch.from_numpy(np.ascontiguousarray(solution[:1]))
    scores = []
    for candidate in candidates:
        problem = Problem(candidate, torch.from_numpy(np.ascontiguousarray(inputs[:1])))
        size = float(problem.residual(problem.zeros()).norm()) or 1.0
        scores.append(float(problem.residual(u).norm()) / size)
    best = int(np.argmin(scores))
    constants = ", ".join(f"{key}={value}" for key, value in candidates[best].constants().items())
    return candidates[best], (
        f"constants are not in the file; taken as {candidates[best].name} with {constants}: "
        f"residual of the first sample {scores[best]:.1e} of that of zero"
    )
