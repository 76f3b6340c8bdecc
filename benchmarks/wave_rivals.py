"""Rivals of the wave network that the library does not need.

    line search       Newton with backtracking on ‖F‖
    trust region      Newton's step shortened to Powell's dogleg between it and steepest descent
    continuation      secant steps in ε, each with damped Newton
    nested iteration  the solution on half of the points, with a wavenumber that has the same
                      dispersion there, interpolated; then Newton-GMRES
    one way           the linear wave near its side, marched through the nonlinear medium by the
                      split-step method (beam propagation); then Newton-GMRES
    nearest, POD      a start u₀ r, with r = u / u₀ of the nearest training problem, or by ridge
                      regression on all of them; then Newton-GMRES

Training problems are turned so that the beam enters at the first row, and mirrored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from neuralsolver.solvers.wave_newton import WaveAnswer, damped_newton, newton_krylov
from neuralsolver.solvers.wave_operator import (
    Complex,
    Real,
    WaveOperator,
    inner,
    norm,
    real_solve,
    stencils,
)


def continuation(problem: WaveOperator, linear: Complex) -> WaveAnswer:
    """Secant continuation in ε with damped Newton at every step."""
    previous, u, before, reached = linear, linear, 0.0, 0.0
    step, factorisations = problem.strength / 4, 0
    while step > problem.strength / 32:
        aim = min(reached + step, problem.strength)
        slope = (u - previous) / (reached - before) if reached > before else 0.0 * u
        start = u + (aim - reached) * slope
        answer = damped_newton(replace(problem, strength=aim), start, steps=12)
        factorisations += answer.factorisations
        if not answer.converged:
            step /= 2
            continue
        previous, before, u, reached = u, reached, answer.u, aim
        if reached == problem.strength:
            answer.factorisations = factorisations
            return answer
    return WaveAnswer(u, problem.relative_residual(u), False, factorisations)


def line_search(problem: WaveOperator, linear: Complex) -> WaveAnswer:
    """Newton with backtracking on the residual itself."""

    def step(u: Complex, residual: Complex, newton: Complex) -> Complex | None:
        damping = 1.0
        while damping > 1e-3:
            trial = u + damping * newton
            if norm(problem.residual(trial)) <= (1 - 1e-4 * damping) * norm(residual):
                return trial
            damping /= 2
        return None

    return _newton(problem, linear, step)


def trust_region(problem: WaveOperator, linear: Complex) -> WaveAnswer:
    """Newton with Powell's dogleg in a ball whose radius follows the quality of the model."""
    radius = norm(linear)

    def step(u: Complex, residual: Complex, newton: Complex) -> Complex | None:
        nonlocal radius
        while radius > 1e-6 * norm(linear):
            change = _dogleg(problem, u, residual, newton, radius)
            expected = norm(residual) - norm(residual + problem.tangent(u, change))
            gained = norm(residual) - norm(problem.residual(u + change))
            ratio = gained / max(expected, 1e-300)
            radius *= 0.25 if ratio < 0.25 else 2.0 if ratio > 0.75 else 1.0
            if ratio > 1e-4:
                return u + change
        return None

    return _newton(problem, linear, step)


def _newton(
    problem: WaveOperator,
    start: Complex,
    step: Callable[[Complex, Complex, Complex], Complex | None],
) -> WaveAnswer:
    answer = WaveAnswer(start, problem.relative_residual(start), False)
    while answer.residual > 1e-9 and answer.factorisations < 40:
        residual = problem.residual(answer.u)
        answer.factorisations += 1
        newton = -real_solve(problem.real_factor(answer.u), residual)
        trial = step(answer.u, residual, newton)
        if trial is None:
            break
        answer.u, answer.residual = trial, problem.relative_residual(trial)
    answer.converged = answer.residual <= 1e-9
    return answer


def _dogleg(
    problem: WaveOperator, u: Complex, residual: Complex, newton: Complex, radius: float
) -> Complex:
    if norm(newton) <= radius:
        return newton
    gradient = _adjoint_tangent(problem, u, residual)
    image = problem.tangent(u, gradient)
    steepest: Complex = -((norm(gradient) / norm(image)) ** 2) * gradient
    if norm(steepest) >= radius:
        return steepest * (radius / norm(steepest))
    across = newton - steepest
    a, b = norm(across) ** 2, float(np.vdot(steepest, across).real)
    share = (math.sqrt(b * b + a * (radius**2 - norm(steepest) ** 2)) - b) / a
    return steepest + share * across


def _adjoint_tangent(problem: WaveOperator, u: Complex, w: Complex) -> Complex:
    """F'(u)ᵀ w in the inner product Re⟨v, w⟩."""
    stiffness, average = stencils(problem.shape, problem.order)
    smoothed = average @ w
    medium = problem.linear_medium + 2 * problem.kerr * np.abs(u) ** 2
    return np.asarray(
        medium.conj() * smoothed + problem.kerr * u**2 * smoothed.conj() - stiffness @ w
    )


def nested(problem: WaveOperator, linear: Complex) -> WaveAnswer:
    """Newton-GMRES from the solution on half of the points."""
    ratio = 2 * problem.spacing
    angle = problem.wavenumber * ratio * float(problem.slowness.mean())
    symbol = 2 - 2 * math.cos(angle)
    wavenumber = problem.wavenumber * math.sqrt(symbol / (1 - symbol / 12)) / angle
    points = problem.slowness.shape[0] // 2
    coarse = WaveOperator(
        _resized(problem.slowness, points),
        _resized(problem.source, points),
        wavenumber,
        problem.strength,
        problem.order,
        layer=1.25 * 2 * math.pi / problem.wavenumber,
    )
    scaled, _, first, unit = coarse.normalised()
    found = newton_krylov(replace(scaled, strength=coarse.strength * unit**2), first)
    start = inner(_resized(coarse.embed(unit * found.u), problem.slowness.shape[0]))
    return newton_krylov(problem, start if found.converged else linear)


def one_way(problem: WaveOperator, linear: Complex) -> WaveAnswer:
    """Newton-GMRES from a beam that travels away from its side and is never reflected.

    Row by row, A ← e^{−iδ} F⁻¹ e^{−ihκ} F A with κ² = k̄² − q² for every wavenumber q along the row
    and δ = h (k s √(1 − iγ + ε|A|²) − k̄): outgoing waves are e^{−ikx} where γ ≥ 0 absorbs.
    """
    turns = _side(problem.source)
    u, medium, kerr = (
        np.rot90(problem.embed(field), turns).copy()
        for field in (linear, problem.linear_medium, problem.kerr.astype(complex))
    )
    sizes = np.abs(np.rot90(problem.source, turns)).sum(1)
    first = int(np.flatnonzero(sizes > 1e-3 * sizes.max())[-1]) + 1
    h, mean = problem.spacing, problem.wavenumber * float(problem.slowness.mean())
    along = np.sqrt(mean**2 - (2 * math.pi * np.fft.fftfreq(u.shape[1], h)) ** 2 + 0j).conj()
    for row in range(first, len(u) - 2):
        ahead = np.fft.ifft(np.exp(-1j * h * along) * np.fft.fft(u[row]))
        local = np.sqrt(medium[row + 1] + kerr[row + 1] * np.abs(ahead) ** 2) / h
        u[row + 1] = ahead * np.exp(-1j * h * (local - mean))
    return newton_krylov(problem, inner(np.rot90(u, -turns)))


def _resized(field: Any, points: int) -> Any:
    return ndimage.zoom(field, points / field.shape[0], order=3, grid_mode=False)


class TrainingStarts:
    """Starts from the stored training problems of 64 points.

    Args:
        folder: Of the shards that `paper.wave_training` wrote.
    """

    def __init__(self, folder: Path) -> None:
        names = ("slowness", "source", "wavenumber", "strength", "solution")
        shards = [np.load(path) for path in sorted(folder.glob("64-*.npz"))]
        stored = [zip(*map(shard.__getitem__, names), strict=True) for shard in shards]
        features, ratios = [], []
        for s, f, k, strength, u in itertools.chain(*stored):
            problem = WaveOperator(s.astype(float), f.astype(complex), float(k), float(strength))
            _, _, linear, unit = problem.normalised()
            first = problem.embed(linear * unit)
            small = np.abs(first) < 0.05
            ratio = np.where(small, 1.0, u / np.where(small, 1.0, first))
            for flip in (slice(None), slice(None, None, -1)):
                features.append(_features(problem, first)[..., flip].ravel())
                ratios.append(np.rot90(ratio, _side(problem.source))[..., flip].ravel())
        self.ratios, self.average = np.array(ratios), np.mean(ratios, axis=0)
        self.mean = np.mean(features, axis=0)
        self.features = np.array(features) - self.mean
        gram = self.features @ self.features.T
        ridge = 0.3 * np.trace(gram) / len(gram) * np.eye(len(gram))
        self.weights = np.linalg.solve(gram + ridge, self.ratios - self.average)

    def start(self, problem: WaveOperator, linear: Complex, method: str) -> Complex:
        """u₀ r of a problem of 64 points, by the method "nearest" or "POD"."""
        first = problem.embed(linear)
        own = _features(problem, first).ravel() - self.mean
        if method == "nearest":
            ratio = self.ratios[np.argmin(((self.features - own) ** 2).sum(1))]
        else:
            ratio = self.average + (self.features @ own) @ self.weights
        return inner(np.rot90(ratio.reshape(first.shape), -_side(problem.source)) * first)


def _features(problem: WaveOperator, linear: Complex) -> Real:
    """ε|u₀|² and s², turned so that the beam enters at the first row."""
    fields = np.stack([problem.strength * np.abs(linear) ** 2, problem.slowness**2])
    return np.rot90(fields, _side(problem.source), axes=(-2, -1))


def _side(source: Complex) -> int:
    """Turns by 90 degrees that bring the beam to the first row."""
    sizes, half = np.abs(source), source.shape[0] // 2
    sides = (sizes[:half], sizes[:, half:], sizes[half:], sizes[:, :half])
    return int(np.argmax([side.sum() for side in sides]))
