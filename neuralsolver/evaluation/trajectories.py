"""The extreme singular values of a trajectory's Jacobian, from products alone.

    J d = ∂ₜd + v·∇d + (curl⁻¹d)·∇w − νΔd        d = 0 in the first frame

over the directions d = Pd that are free: P takes away the first frame and, where the 2/3 rule
imposes them, the modes beyond n/3. JᵀJ has eigenvalues from σ_min² < 1 to σ_max² ≈ 10⁴ and a
hundred thousand unknowns, so it is neither formed nor inverted. Instead the linearised flow

    ∂ₜe + v·∇e + (curl⁻¹e)·∇w − νΔe = r,   e(t₀) = 0,       e = Kr

is integrated from frame to frame (Runge-Kutta, w and r linear in between, float32): K is J⁻¹ but
for the differences in time, KKᵀ preconditions JᵀJ, and LOBPCG minimises ‖Jd‖²/‖d‖².
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, eigsh, lobpcg
from torch import Tensor

from neuralsolver.equations import NavierStokes, Problem
from neuralsolver.equations.fourier import symbols, vorticity_derivatives
from neuralsolver.equations.jacobian import linearisation

Vector = npt.NDArray[np.float64]

PRECISION = torch.float32
STABLE = 2.5
"""Largest speed × wavenumber × step of the Runge-Kutta scheme, whose limit is 2.8."""
BLOCK, CYCLE, CYCLES = 4, 20, 12
"""Vectors of LOBPCG, the iterations after which it is looked at, and how often that is done. With
two vectors it has been seen to rest in the second singular value, where the first two are 3 %
apart."""


class Trajectory:
    """J(u) of one trajectory over the free directions, its transpose, and K with its transpose."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        self.problem, self.shape, self.size = problem, u.shape, u.numel()
        self._zero = problem.impose(torch.zeros_like(u))
        self._forward = linearisation(problem, u)
        self._point = u.clone().requires_grad_(True)
        with torch.enable_grad():
            self._residual = problem.residual(self._point)
        self._flow = LinearisedFlow(problem, u)

    def project(self, direction: Vector) -> Vector:
        """P d."""
        field = torch.from_numpy(np.ascontiguousarray(direction)).view(self.shape)
        return (self.problem.impose(field) - self._zero).numpy().reshape(-1)

    def forward(self, direction: Vector) -> Vector:
        """J P d."""
        field = torch.from_numpy(self.project(direction)).view(self.shape)
        return self._forward(field).detach().numpy().reshape(-1)

    def backward(self, values: Vector) -> Vector:
        """P Jᵀ v."""
        field = torch.from_numpy(np.ascontiguousarray(values)).view(self.shape)
        (product,) = torch.autograd.grad(self._residual, self._point, field, retain_graph=True)
        return self.project(product.numpy().reshape(-1))

    def normal(self, direction: Vector) -> Vector:
        """P Jᵀ J P d."""
        return self.backward(self.forward(direction.reshape(-1)))

    def precondition(self, values: Vector) -> Vector:
        """P K Kᵀ P d."""
        field = torch.from_numpy(self.project(values.reshape(-1))).view(self.shape)
        answer = self._flow.forward(self._flow.backward(field))
        return self.project(answer.double().numpy().reshape(-1))


class LinearisedFlow:
    """K: the response e(t_j) of the flow around w to a source r that is given at the frames."""

    def __init__(self, problem: Problem, u: Tensor) -> None:
        equation = problem.equation
        assert isinstance(equation, NavierStokes)
        w, n = u[0, 0].to(PRECISION), u.shape[-1]
        k1, k2, square = symbols(n, PRECISION, w.device)
        kept = (n - 1) // 3 if equation.dealiasing == "2/3" else n // 2 - 1
        edge = 2 * math.pi * (kept + 0.5)
        self.modes = ((k1.abs() <= edge) & (k2 <= edge)).to(PRECISION)
        v1, v2, w1, w2, _ = vorticity_derivatives(self._kept(w))
        self.around = torch.stack([w1, w2, v1, v2], 1)
        inverse = torch.where(square == 0, 0.0, 1 / square.clamp_min(1.0))
        flat = torch.zeros_like(square)
        parts = (k2 * inverse, -k1 * inverse, k1 + flat, k2 + flat)
        self.derivatives = 1j * torch.stack(parts) * self.modes
        self.decay = equation.viscosity * square
        fastest = float((v1.square() + v2.square()).max().sqrt())
        rate = max(fastest * math.sqrt(2) * edge, float((self.decay * self.modes).max()))
        self.steps = max(1, math.ceil(equation.frame_spacing * rate / STABLE))
        self.step = equation.frame_spacing / self.steps
        self._source = torch.zeros_like(w).requires_grad_(True)
        with torch.enable_grad():
            self._answer = self._march(self._source)

    def _kept(self, field: Tensor) -> Tensor:
        n = field.shape[-1]
        found: Tensor = torch.fft.irfft2(torch.fft.rfft2(field) * self.modes, s=(n, n))
        return found

    def forward(self, source: Tensor) -> Tensor:
        """K r."""
        with torch.no_grad():
            return self._march(source.view(self._source.shape).to(PRECISION))

    def backward(self, values: Tensor) -> Tensor:
        """Kᵀ e, through the graph of one march, which is linear and serves all."""
        right = values.view(self._source.shape).to(PRECISION)
        (found,) = torch.autograd.grad(self._answer, self._source, right, retain_graph=True)
        return found

    def _march(self, source: Tensor) -> Tensor:
        transform = torch.fft.rfft2(source) * self.modes
        e, h = torch.zeros_like(transform[0]), self.step
        frames = [e]
        for frame in range(len(source) - 1):
            for step in range(self.steps):
                times = [frame + (step + part) / self.steps for part in (0.0, 0.5, 1.0)]
                first, middle, last = ((_at(self.around, t), _at(transform, t)) for t in times)
                a = self._rate(e, *first)
                b = self._rate(e + h / 2 * a, *middle)
                c = self._rate(e + h / 2 * b, *middle)
                d = self._rate(e + h * c, *last)
                e = e + h / 6 * (a + 2 * b + 2 * c + d)
            frames.append(e)
        answer: Tensor = torch.fft.irfft2(torch.stack(frames), s=source.shape[-2:])
        return answer

    def _rate(self, e: Tensor, around: Tensor, source: Tensor) -> Tensor:
        fields = torch.fft.irfft2(self.derivatives * e, s=around.shape[-2:])
        transport = torch.fft.rfft2((around * fields).sum(0)) * self.modes
        rate: Tensor = source - transport - self.decay * e
        return rate


def _at(values: Tensor, time: float) -> Tensor:
    """Linear between the frames."""
    j = min(int(time), len(values) - 2)
    return torch.lerp(values[j], values[j + 1], time - j)


def trajectory_triplet(
    problem: Problem, u: Tensor, rng: np.random.Generator, settled: float
) -> tuple[float, float, float, Vector, Vector]:
    """(σ_min, σ_max, change, v, w) of one trajectory.

    σ_min = ‖Jv‖ for the v that was found, so it bounds the smallest singular value from above;
    `change` is the fraction by which the last cycle of iterations lowered it, at most `settled`
    unless the cycles ran out.
    """
    jacobian = Trajectory(problem, u)
    normal, inverse = (
        _operator(jacobian.size, apply) for apply in (jacobian.normal, jacobian.precondition)
    )
    start = jacobian.project(rng.standard_normal(jacobian.size))
    _, top = eigsh(normal, k=1, v0=start, ncv=20, tol=1e-2, maxiter=200)
    largest = float(np.linalg.norm(jacobian.forward(top[:, 0])))
    block = np.stack(
        [jacobian.precondition(rng.standard_normal(jacobian.size)) for _ in range(BLOCK)], 1
    )
    smallest = math.inf
    for _ in range(CYCLES):
        with warnings.catch_warnings():  # it says that it is not done yet
            warnings.simplefilter("ignore", UserWarning)
            _, found = lobpcg(normal, block, M=inverse, largest=False, tol=1e-12, maxiter=CYCLE)
        block = np.asarray(found, dtype=np.float64)
        v = block[:, 0] / np.linalg.norm(block[:, 0])
        image = jacobian.forward(v)
        before, smallest = smallest, float(np.linalg.norm(image))
        change = 1 - smallest / before
        if change <= settled:
            break
    return smallest, largest, max(change, 0.0), v, image / smallest


def _operator(size: int, apply: Callable[[Vector], Vector]) -> Any:
    def block(columns: Vector) -> Vector:
        return np.stack([apply(column) for column in columns.T], 1)

    return LinearOperator((size, size), matvec=apply, matmat=block, dtype=np.float64)
