"""Semilinear (nonlinear) Helmholtz equation with zero Dirichlet values.

    F(u) = Δu + κ²u + λu³ − f = 0  in Ω = (0, 1)²,   u = 0 on ∂Ω

Which solution: the branch continued from u = 0 at f = 0 by raising the load t in F(u) = Δu + κ²u
+ λu³ − t f. For λ > 0 the equation is focusing and the branch may end in a fold before t = 1; then
there is no answer, and none is given.

How it is known to be that branch, when κ² < μ₁ (the first eigenvalue of −Δ) and λ > 0: the set
D = {u : −J(u) > 0}, J(u) = Δ + κ² + 3λu², is convex because the lowest eigenvalue of −J(u) is a
minimum of concave functions of u; on a convex set a map with a definite derivative is injective,
so D holds at most one solution, and the branch lies in D from u = 0 to its fold. Membership in D
is *proved*, not estimated: 3λ max u² < μ₁ − κ² suffices (Weyl; between any two eigenvalues the
same bound makes F injective too); otherwise, since −J has no positive off-diagonal entry, it is
positive definite if and only if some x > 0 has −Jx > 0 (an M-matrix), and such an x is found by
solving −Jx = 1 roughly.

How: Newton in the sine basis, in the energy variable y = |L|^½ û, L = Δ + κ², where the Jacobian
is ±1 plus a small compact operator,

    (sgn L + |L|^−½ S 3λu² S |L|^−½) δy = −|L|^−½ F̂,

so that MINRES needs few steps at any resolution (sparse factors take more than ten times as long);
first from the linear solution, and when that fails by continuation in t with tangent prediction.
Corrections are computed in float32 and residuals in float64 (iterative refinement): the answer has
the accuracy of the residual. Samples are solved one by one: the same bits alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuralsolver.cancellation import checkpoint
from neuralsolver.errors import InvalidInput
from neuralsolver.reference.elliptic import checked_fields, shifted_symbol
from neuralsolver.reference.transforms import Array, Real, dot, norm, sine_transform

MACHINE_PRECISION = 1e-14
"""Newton stops when the preconditioned residual |L|^−½F̂ is this small beside y; it is the relative
error of u in the energy norm up to the conditioning of the branch."""

ROUND_OFF = 1e-12
"""Where Newton may stop when it no longer improves: the floor close to a fold or a resonance."""

LEAST_FORCING = 1e-5
"""The relative accuracy of a correction that float32 can always deliver."""

TINY = float(np.finfo(np.float64).tiny)
MAX_NEWTON = 15
MAX_KRYLOV = 300
FIRST_LOAD_STEP = 0.25
SMALLEST_LOAD_STEP = 2.0**-12


@dataclass(frozen=True)
class NewtonResult:
    """Solutions u (B, n, n); per sample whether it converged, the Newton iterations spent, and
    the relative residual ‖|L|^−½F̂‖ / ‖|L|^½û‖ reached.

    Where `converged` is False, u is the zero field and `reasons` says what happened; elsewhere
    `reasons` is empty text.
    """

    u: Array
    converged: npt.NDArray[np.bool_]
    iterations: npt.NDArray[np.int64]
    relative_residual: Array
    reasons: tuple[str, ...]


def solve_semilinear_helmholtz(
    source: npt.ArrayLike, wavenumber: float, nonlinearity: float
) -> NewtonResult:
    """u with Δu + wavenumber²·u + nonlinearity·u³ = source on the branch through zero.

    Args:
        source: Fields (B, n, n).
        wavenumber: κ.
        nonlinearity: λ.

    Returns:
        The solutions, and which of the sources have one.
    """
    fields = checked_fields("source", source)
    for name, value in (("wavenumber", wavenumber), ("nonlinearity", nonlinearity)):
        if not np.isfinite(value):
            raise InvalidInput(name, "a finite number", value)
    u = np.zeros_like(fields)
    converged = np.zeros(len(fields), dtype=np.bool_)
    iterations = np.zeros(len(fields), dtype=np.int64)
    residual = np.full(len(fields), np.inf)
    reasons = []
    for i, sample in enumerate(fields):
        branch = Branch(sample, float(wavenumber), float(nonlinearity))
        with np.errstate(over="ignore", invalid="ignore"):
            answer, reason = branch.solve()
        if answer is not None:
            u[i, 1:-1, 1:-1] = branch.points(answer)
            residual[i] = branch.relative_residual(branch.residual(answer, 1.0), answer)
        converged[i] = answer is not None
        iterations[i] = branch.iterations
        reasons.append(reason)
    return NewtonResult(u, converged, iterations, residual, tuple(reasons))


class Branch:
    """One field's solutions over the load t, in the energy variable y = |L|^½ û."""

    def __init__(self, source: Array, wavenumber: float, nonlinearity: float) -> None:
        symbol = shifted_symbol(len(source), wavenumber**2)
        self.nonlinearity = nonlinearity
        self.iterations = 0
        self.weight = np.abs(symbol) ** -0.5
        self._sign = np.sign(symbol)
        self._single = self._sign.astype(np.float32), self.weight.astype(np.float32)
        self._load = self.energy(source[1:-1, 1:-1])
        self._definite = bool(symbol.max() < 0.0)
        # How far 3λu² can move the spectrum of L before an eigenvalue crosses zero.
        threatened = symbol[nonlinearity * symbol < 0.0]
        self._gap = float(np.min(np.abs(threatened))) if threatened.size else np.inf

    def points(self, y: Array) -> Array:
        """S|L|^−½ y: the point values of u."""
        return np.asarray(sine_transform(self.weight * y), dtype=np.float64)

    def energy(self, values: Array) -> Array:
        """|L|^−½ S v: the energy variable of a right-hand side given by point values."""
        return np.asarray(self.weight * sine_transform(values), dtype=np.float64)

    def solve(self) -> tuple[Array | None, str]:
        """The solution at full load, or None and the reason."""
        y = self.newton(self._sign * self._load, 1.0, MACHINE_PRECISION)
        if y is not None and self.on_branch(y):
            return y, ""
        return self.follow()

    def follow(self) -> tuple[Array | None, str]:
        """Continuation in the load from (t, y) = (0, 0) to t = 1."""
        load, step, y = 0.0, FIRST_LOAD_STEP, np.zeros_like(self._load)
        while load < 1.0:
            target = min(1.0, load + step)
            tangent = self.correction(self.potential(y), self._load, 1e-3)
            if tangent is None:
                break
            predicted = y + (target - load) * tangent
            before = self.iterations
            accuracy = MACHINE_PRECISION if target == 1.0 else 1e-8
            candidate = self.newton(predicted, target, accuracy, slowest=0.5)
            if candidate is not None and self._continues(y, predicted, candidate):
                y, load = candidate, target
                step *= 2.0 if self.iterations - before <= 3 else 1.0
                continue
            step = 0.5 * (target - load)
            if step < SMALLEST_LOAD_STEP:
                break
        else:
            return y, ""
        return None, f"fold: the branch from zero could not be continued past load {load:.4f} of 1"

    def newton(
        self, y: Array, load: float, accuracy: float, *, slowest: float = 10.0
    ) -> Array | None:
        """Newton from y at the given load; None when it does not converge.

        `slowest` is the largest factor from one residual to the next that is not called failure.
        """
        previous = np.inf
        for _ in range(MAX_NEWTON):
            residual = self.residual(y, load)
            reached = self.relative_residual(residual, y)
            if reached <= accuracy or (previous <= ROUND_OFF and reached >= 0.5 * previous):
                return y
            if not reached < slowest * previous:
                return None
            # Inner accuracy that Newton can use and no more: its error is about to be squared.
            forcing = min(0.1, max(0.1 * reached, 0.3 * accuracy / reached, LEAST_FORCING))
            step = self.correction(self.potential(y), -residual, forcing)
            if step is None:
                return None
            y = y + step
            previous = reached
            self.iterations += 1
        return None

    def residual(self, y: Array, load: float) -> Array:
        """|L|^−½ F̂ = sgn(L) y + |L|^−½ S λu³ − t |L|^−½ f̂."""
        u = self.points(y)
        return self.energy(self.nonlinearity * u * u * u) + self._sign * y - load * self._load

    @staticmethod
    def relative_residual(residual: Array, y: Array) -> float:
        """‖|L|^−½ F̂‖ / ‖y‖."""
        return norm(residual) / max(norm(y), TINY)

    def correction(self, potential: Array, right: Array, tolerance: float) -> Array | None:
        """δy with (sgn L + |L|^−½ S 3λu² S |L|^−½) δy = right, in float32; None if not reached."""
        sign, weight = self._single
        narrow = potential.astype(np.float32)

        def apply(direction: Real) -> Real:
            values = narrow * sine_transform(weight * direction)
            product: Real = weight * sine_transform(values) + sign * direction
            return product

        # Scaled to 1 so that float32 neither overflows nor underflows, whatever the units.
        size = norm(right)
        if not (0.0 < size < np.inf and np.isfinite(narrow).all()):
            return None
        solution = minres(apply, (right / size).astype(np.float32), tolerance, MAX_KRYLOV)
        return None if solution is None else np.multiply(solution, size, dtype=np.float64)

    def potential(self, y: Array) -> Array:
        """3λu² at the points."""
        return np.asarray(3.0 * self.nonlinearity * self.points(y) ** 2)

    def on_branch(self, y: Array) -> bool:
        """Whether J(u) provably has the inertia it has at u = 0."""
        potential = self.potential(y)
        if np.max(np.abs(potential)) < self._gap:
            return True
        return self._definite and self._is_m_matrix(potential)

    def _is_m_matrix(self, potential: Array) -> bool:
        """Whether some x > 0 has −Jx > 0.

        z ≈ −J⁻¹1 gives x = (−L)⁻¹(1 + 3λu² z), for which −Jx = 1 − 3λu²(x − z) holds exactly.
        """
        ones = np.ones_like(potential)
        z = self.correction(potential, -self.energy(ones), 1e-3)
        if z is None:
            return False
        guess = self.points(z)
        x = self.points(self.energy(ones + potential * guess))
        return bool(np.min(x) > 0.0 and np.max(potential * (x - guess)) < 0.5)

    def _continues(self, y: Array, predicted: Array, candidate: Array) -> bool:
        """Whether the corrected point is the continuation of y and not another solution."""
        if self._definite:
            return self.on_branch(candidate)
        # No certificate for an indefinite L: the corrector must be small beside the step itself.
        return norm(candidate - predicted) <= 0.2 * norm(predicted - y)


def minres(
    apply: Callable[[Real], Real], right: Real, tolerance: float, max_iterations: int
) -> Real | None:
    """x with ‖right − Ax‖ ≤ tolerance·‖right‖ by Lanczos and plane rotations; None if not reached.

    SciPy's MINRES works in float64 alone, and its bits depend on the number of BLAS threads.
    """
    size = norm(right)
    solution = np.zeros_like(right)
    older, newer = np.zeros_like(right), right
    previous_beta, beta = 1.0, size
    cosine, sine = -1.0, 0.0
    residual, diagonal, corner = size, 0.0, 0.0
    direction, last_direction = np.zeros_like(right), np.zeros_like(right)
    for _ in range(max_iterations):
        checkpoint()
        if residual <= tolerance * size or beta == 0.0:
            return solution
        vector = newer / beta
        product = apply(vector) - (beta / previous_beta) * older
        alpha = dot(vector, product)
        older, newer = newer, product - (alpha / beta) * newer
        previous_beta, beta = beta, norm(newer)
        # The next column of the tridiagonal Lanczos matrix, rotated to upper triangular form.
        last_corner, delta = corner, cosine * diagonal + sine * alpha
        pivot = sine * diagonal - cosine * alpha
        corner, diagonal = sine * beta, -cosine * beta
        gamma = max(float(np.hypot(pivot, beta)), TINY)
        cosine, sine = pivot / gamma, beta / gamma
        vector = (vector - last_corner * last_direction - delta * direction) / gamma
        last_direction, direction = direction, vector
        solution += (cosine * residual) * vector
        residual *= sine
        if not np.isfinite(residual):
            return None
    return solution if residual <= tolerance * size else None
