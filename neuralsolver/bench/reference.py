"""The reference solvers against the obvious classical choice, timed side by side.

One process, one thread (start it with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1), 128 × 128.
Seconds are processor seconds, which do not count waiting but do depend on what else runs. Each
solver and its baseline alternate on the same samples; seconds are means, and the ratio of the pairs
is given with its quarter points. A linear baseline's matrix is assembled before its clock starts.

The two vorticity schemes are compared where the datasets end, on the same grid, with a run that is
converged in time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import spsolve

from neuralsolver import reference
from neuralsolver.bench.pairs import Ratio, ratio
from neuralsolver.reference.time_stepping import PAPER_STEP

Array = npt.NDArray[np.float64]
Row = dict[str, Any]

RESOLUTION = 128
PIECE = 0.5


def measure(seconds_budget: float = 120.0) -> list[Row]:
    """All rows, in about half of `seconds_budget` on an idle core and never far above it.

    A row: equation, method, baseline, seconds and baseline_seconds (per sample), ratio, target,
    reached, error and baseline_error (relative, in the 2-norm, against what `error_against`
    names), note.
    """
    samples, share = 3, 0.3 * seconds_budget
    rng = np.random.default_rng(0)
    fields = np.stack([reference.cosine_field(rng, RESOLUTION) for _ in range(samples)])
    return [
        _linear("Poisson", 100.0 * fields, 0.0),
        _linear("Helmholtz κ=1", 100.0 * fields, 1.0),
        _linear("Helmholtz κ=3", 100.0 * fields, 9.0),
        _darcy(reference.two_phase(fields, 3.0, 12.0)),
        _semilinear(50.0 * fields, 2.0, 1.0),
        _semilinear(50.0 * fields, 3.0, 4.0),
        _vorticity("Navier-Stokes", reference.diagonal_forcing(RESOLUTION), 1e-4, 6.0, share),
        _vorticity("Kolmogorov", reference.kolmogorov_forcing(RESOLUTION), 5e-4, 4.0, share),
    ]


def table(rows: list[Row]) -> str:
    """The rows as text for a terminal."""
    titles = ("equation", "method", "ms", "baseline", "ms", "ratio", "target", "error", "its error")
    body = [
        (
            row["equation"],
            row["method"],
            f"{1e3 * row['seconds']:.2f}",
            row["baseline"],
            f"{1e3 * row['baseline_seconds']:.1f}",
            f"{row['ratio']:.1f}x ({row['ratio_spread'][1]:.0f} to {row['ratio_spread'][2]:.0f})",
            f"{row['target']:.0f}x" + ("" if row["reached"] else " MISSED"),
            f"{row['error']:.1e}",
            f"{row['baseline_error']:.1e}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (titles, *body)) for i in range(len(titles))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (titles, *body)
    ]
    notes = [f"{row['equation']}: {row['note']}" for row in rows if row["note"]]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *notes])


def _linear(equation: str, source: Array, shift: float) -> Row:
    matrix = _laplacian_matrix() + shift * sparse.eye(_unknowns(), format="csc")
    ours, theirs, pairs = _race(
        lambda i: reference.solve_shifted_laplacian(source[i : i + 1], shift)[0],
        lambda i: _with_ring(spsolve(matrix, _interior(source[i]))),
        len(source),
        repeats=20,
    )
    return _row(
        equation,
        "sine transform",
        "spsolve",
        pairs=pairs,
        target=40.0,
        error=_residual(matrix, ours[-1], source[-1]),
        baseline_error=_residual(matrix, theirs[-1], source[-1]),
        error_against="‖f − Au‖ / ‖f‖",
    )


def _darcy(permeability: Array) -> Row:
    matrices = [flux_matrix(a) for a in permeability]
    source = np.full_like(permeability[0], 100.0)
    ours, theirs, pairs = _race(
        lambda i: reference.solve_darcy(permeability[i : i + 1], 100.0).u[0],
        lambda i: _with_ring(spsolve(matrices[i], _interior(source))),
        len(permeability),
        repeats=5,
    )
    return _row(
        "Darcy 3/12",
        "sine-preconditioned CG",
        "spsolve",
        pairs=pairs,
        target=3.0,
        error=_residual(matrices[-1], ours[-1], source),
        baseline_error=_residual(matrices[-1], theirs[-1], source),
        error_against="‖f − Au‖ / ‖f‖",
    )


def _semilinear(source: Array, wavenumber: float, nonlinearity: float) -> Row:
    ours, theirs, pairs = _race(
        lambda i: reference.solve_semilinear_helmholtz(
            source[i : i + 1], wavenumber, nonlinearity
        ).u[0],
        lambda i: _sparse_newton(source[i], wavenumber, nonlinearity),
        len(source),
        repeats=3,
    )
    shifted = _laplacian_matrix() + wavenumber**2 * sparse.eye(_unknowns(), format="csc")
    return _row(
        f"nonlinear Helmholtz κ={wavenumber:g} λ={nonlinearity:g}",
        "Newton-MINRES",
        "Newton with spsolve",
        pairs=pairs,
        target=5.0,
        error=_residual(shifted, ours[-1], source[-1] - nonlinearity * ours[-1] ** 3),
        baseline_error=_residual(shifted, theirs[-1], source[-1] - nonlinearity * theirs[-1] ** 3),
        error_against="‖f − Δu − κ²u − λu³‖ / ‖f − λu³‖",
    )


def _vorticity(
    equation: str, forcing: Array, viscosity: float, last: float, paper_budget: float
) -> Row:
    initial = reference.periodic_field(np.random.default_rng(0), RESOLUTION)[None]

    def run(start: Array, duration: float, **options: Any) -> tuple[Array, float]:
        begin = time.process_time()
        frames = reference.integrate(start, forcing, viscosity, [duration], **options)
        return frames[:, -1], time.process_time() - begin

    # The paper's scheme runs in pieces between which ours is timed; the best piece counts.
    paper, end = initial, 0.0
    pairs: Pairs = [[], []]
    deadline = time.process_time() + paper_budget
    while end < last and time.process_time() < deadline:
        paper, piece = run(paper, PIECE, scheme="paper")
        end += PIECE
        pairs[0].append(run(initial, last)[1])
        pairs[1].append(piece * last / PIECE)
    converged, _ = run(initial, end, tolerance=1e-11)
    ours, _ = run(initial, end)
    return _row(
        f"{equation} to t={last:g}",
        "IFRK4, tolerance 1e-8",
        f"paper's scheme, dt = {PAPER_STEP:g}",
        pairs=[[min(times)] for times in pairs],
        spread=ratio(*pairs),
        target=20.0,
        error=_distance(ours, converged),
        baseline_error=_distance(paper, converged),
        error_against="converged run",
        note=f"errors in time at t = {end:g} against a run with tolerance 1e-11 on the same grid; "
        f"the paper's seconds are the fastest of {end / PIECE:.0f} pieces of {PIECE:g} time units,"
        f" times {last / PIECE:.0f}",
    )


def _row(
    equation: str,
    method: str,
    baseline: str,
    *,
    pairs: Pairs,
    target: float,
    error: float,
    baseline_error: float,
    error_against: str,
    note: str = "",
    spread: Ratio | None = None,
) -> Row:
    seconds, baseline_seconds = map(statistics.fmean, pairs)
    times = baseline_seconds / seconds
    if times < target:
        note = f"{note}; " if note else ""
        note += "below its target: a busy machine or a threaded BLAS is the usual cause"
    return {
        "equation": equation,
        "method": method,
        "baseline": baseline,
        "resolution": RESOLUTION,
        "seconds": seconds,
        "baseline_seconds": baseline_seconds,
        "ratio": times,
        "ratio_spread": spread or ratio(*pairs),
        "target": target,
        "reached": times >= target,
        "error": error,
        "baseline_error": baseline_error,
        "error_against": error_against,
        "note": note,
    }


Pairs = list[list[float]]
"""Seconds of ours and of theirs, measured in turns."""


def _race(
    ours: Callable[[int], Array], theirs: Callable[[int], Array], samples: int, *, repeats: int
) -> tuple[list[Array], list[Array], Pairs]:
    """Answers of both for every sample, and the seconds of pairs: one of theirs with the best of
    several of ours, which are so short that they need it."""
    answers: tuple[list[Array], list[Array]] = ([], [])
    pairs: Pairs = [[], []]
    ours(0)
    for i in range(samples):
        answers[0].append(ours(i))
        answers[1].append(theirs(i))
        for _ in range(2):
            pairs[1].append(_clock(theirs, i))
            pairs[0].append(min(_clock(ours, i) for _ in range(repeats)))
    return answers[0], answers[1], pairs


def _clock(solve: Callable[[int], Array], sample: int) -> float:
    begin = time.process_time()
    solve(sample)
    return time.process_time() - begin


def _sparse_newton(source: Array, wavenumber: float, nonlinearity: float) -> Array:
    """Newton from zero with a sparse direct solve per step, until the step is round-off."""
    linear = _laplacian_matrix() + wavenumber**2 * sparse.eye(_unknowns(), format="csc")
    right, u = _interior(source), np.zeros(_unknowns())
    for _ in range(20):
        residual = linear @ u + nonlinearity * u**3 - right
        step = spsolve(linear + sparse.diags(3.0 * nonlinearity * u**2, format="csc"), residual)
        u -= step
        if np.linalg.norm(step) <= 1e-13 * np.linalg.norm(u):
            break
    return _with_ring(u)


def _laplacian_matrix() -> Any:
    """The 5-point Dirichlet Laplacian on the interior, compressed by columns."""
    return -flux_matrix(np.ones((RESOLUTION, RESOLUTION)))


def flux_matrix(permeability: Array) -> Any:
    """−∇·(a∇·) with arithmetic face means on the interior, compressed by columns."""
    n = len(permeability)
    numbers = np.full((n, n), -1)
    numbers[1:-1, 1:-1] = np.arange((n - 2) ** 2).reshape(n - 2, n - 2)
    rows, columns, values = [], [], []
    for axis in (0, 1):
        a, index = np.moveaxis(permeability, axis, 0), np.moveaxis(numbers, axis, 0)
        face = (0.5 * (n - 1) ** 2 * (a[1:] + a[:-1])).ravel()
        here, there = index[1:].ravel(), index[:-1].ravel()
        for p, q, weight in ((here, here, face), (there, there, face), (here, there, -face)):
            inside = (p >= 0) & (q >= 0)
            rows.append(p[inside])
            columns.append(q[inside])
            values.append(weight[inside])
            if weight is not face:
                rows.append(q[inside])
                columns.append(p[inside])
                values.append(weight[inside])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.coo_matrix(entries, shape=((n - 2) ** 2,) * 2).tocsc()


def _unknowns() -> int:
    return (RESOLUTION - 2) ** 2


def _interior(field: Array) -> Array:
    return field[1:-1, 1:-1].ravel()


def _with_ring(values: Array) -> Array:
    return np.pad(values.reshape(RESOLUTION - 2, -1), 1)


def _residual(matrix: Any, u: Array, source: Array) -> float:
    right = _interior(source)
    return float(np.linalg.norm(matrix @ _interior(u) - right) / np.linalg.norm(right))


def _distance(field: Array, truth: Array) -> float:
    return float(np.linalg.norm(field - truth) / np.linalg.norm(truth))
