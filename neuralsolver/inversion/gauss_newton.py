"""Most probable fields: Gauss-Newton with the prior covariance, and total variation.

With a = T(z), z = Bξ, ξ ~ N(0, I) and J = ∂G/∂ξ, the Gauss-Newton step for
½‖R^(−½)(d − G)‖² + ½‖ξ‖²
is taken in the space of the m wells, which are far fewer than cells:

    ξ ← Jᵀ (J Jᵀ + R)⁻¹ (d − G(ξ) + Jξ)

halved until the objective falls. Two phases are smoothed, p = Φ(z/δ). Samples are randomised
maximum likelihood: every sample has its own ξ' ~ N(0, I) in the penalty ½‖ξ − ξ'‖² and its own
data d + ε; or Laplace's, which linearises once at the mode. Total variation

    min over p in [0, 1] of ½‖R^(−½)(d − G(p))‖² + β Σ √(|∇p|² + ε²)

by L-BFGS-B needs no covariance and gives one field, without error bars.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import ndtr

from neuralsolver.inversion.forward import WellData
from neuralsolver.reference.posterior import FieldPrior, field_prior
from neuralsolver.reference.random_fields import cosine_variance

Array = npt.NDArray[np.float64]

SMOOTHING = 0.3
"""Width of the smoothed step between two phases, in deviations of the field."""
ITERATIONS, VARIATION = 12, 0.3
EDGE = 0.05


class LatentModel:
    """G as a function of the normals ξ behind a Gaussian field."""

    def __init__(self, data: WellData) -> None:
        self.data = data
        prior = data.prior
        self.field: FieldPrior = field_prior(data.resolution, 1.0, True, prior.inverse_length)
        self.unit = float(np.sqrt(cosine_variance(inverse_length=prior.inverse_length)))

    def transform(self, normals: Array) -> tuple[Array, Array]:
        """The (smoothed) permeability and its derivative to z, each (n, n)."""
        prior = self.data.prior
        z = self.field.field(normals.reshape(self.field.deviation.shape)) / self.unit
        if not prior.binary:
            rate = 0.5 * np.log(prior.high / prior.low)
            a = np.sqrt(prior.low * prior.high) * np.exp(rate * z)
            return a, rate * a / self.unit
        step = prior.high - prior.low
        density = np.exp(-0.5 * (z / SMOOTHING) ** 2) / (np.sqrt(2 * np.pi) * SMOOTHING)
        return prior.low + step * ndtr(z / SMOOTHING), step * density / self.unit

    def heads(self, normals: Array) -> Array:
        """G(ξ), (m,)."""
        seen: Array = self.data.model.heads(self.transform(normals)[0][None])[0]
        return seen

    def linearise(self, normals: Array) -> tuple[Array, Array]:
        """G(ξ) and ∂G/∂ξ (m, dimension)."""
        a, rate = self.transform(normals)
        u, forms = self.data.model.sensitivities(a)
        seen = np.asarray(self.data.model.rows @ np.ascontiguousarray(u[1:-1, 1:-1]).ravel())
        jacobian = self.field.form(forms * rate).reshape(len(seen), -1)
        return seen, jacobian


def most_probable(
    model: LatentModel, heads: Array, centre: Array, start: Array, iterations: int = ITERATIONS
) -> Array:
    """ξ that minimises ½‖R^(−½)(heads − G(ξ))‖² + ½‖ξ − centre‖²."""
    noise = model.data.safe_noise

    def objective(normals: Array, seen: Array) -> float:
        with np.errstate(over="ignore"):
            missed = (heads - seen) / noise
            return float(missed @ missed + (normals - centre) @ (normals - centre)) / 2

    normals = start
    for _ in range(iterations):
        seen, jacobian = model.linearise(normals)
        present = objective(normals, seen)
        right = heads - seen + jacobian @ (normals - centre)
        gram = jacobian @ jacobian.T + np.diag(noise**2)
        change = centre + jacobian.T @ np.linalg.solve(gram, right) - normals
        length = 1.0
        while length > 0.02:
            trial = normals + length * change
            reached = objective(trial, model.heads(trial))
            if reached < present:
                break
            length /= 2
        else:
            break
        normals = trial
        if present - reached < 1e-3 * present:
            break
    return normals


def gauss_newton_samples(
    data: WellData, count: int, *, seed: int = 0, sampling: str = "rml"
) -> Array:
    """Permeabilities (count, n, n) around the most probable one.

    Args:
        data: A problem whose prior has a Gaussian field behind it.
        count: Number of samples; the first is the most probable field when there is one only.
        seed: Of the samples.
        sampling: "rml" (randomised maximum likelihood) or "laplace".
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(37,)))
    model = LatentModel(data)
    zero = np.zeros(data.prior.dimension(data.resolution))
    mode = most_probable(model, data.heads, zero, zero) if len(data.heads) else zero
    if count == 1:
        return data.fix(data.prior.fields(mode[None], data.resolution))
    drawn = rng.standard_normal((count, len(zero)))
    noise = data.safe_noise * rng.standard_normal((count, len(data.heads)))
    if not len(data.heads):
        found = drawn
    elif sampling == "laplace":
        _, jacobian = model.linearise(mode)
        gram = jacobian @ jacobian.T + np.diag(data.safe_noise**2)
        missed = drawn @ jacobian.T + noise
        found = mode + drawn - (jacobian.T @ np.linalg.solve(gram, missed.T)).T
    else:
        found = np.stack(
            [
                most_probable(model, data.heads + e, centre, mode, 5)
                for e, centre in zip(noise, drawn, strict=True)
            ]
        )
    return data.fix(data.prior.fields(found, data.resolution))


def total_variation(data: WellData, weight: float = VARIATION, iterations: int = 150) -> Array:
    """The field (n, n) of least total variation that fits the wells."""
    n, prior, noise = data.resolution, data.prior, data.safe_noise
    ratio = np.log(prior.high / prior.low)

    def field(p: Array) -> tuple[Array, Array]:
        if prior.binary:
            return prior.low + (prior.high - prior.low) * p, np.full_like(p, prior.high - prior.low)
        a = np.sqrt(prior.low * prior.high) * np.exp(ratio * (p - 0.5))
        return a, ratio * a

    def objective(flat: Array) -> tuple[float, Array]:
        p = flat.reshape(n, n)
        a, rate = field(p)
        missed = (data.heads - data.model.heads(a[None])[0]) / noise
        _, back = data.model.gradient(a, missed, 1 / noise)
        across, along = np.diff(p, axis=0), np.diff(p, axis=1)
        total, gradient = 0.0, -back * rate
        for axis, change in ((0, across), (1, along)):
            size = np.sqrt(change**2 + EDGE**2)
            total += float((size - EDGE).sum())
            part = weight * change / size
            first = [slice(None, -1) if axis == i else slice(None) for i in (0, 1)]
            second = [slice(1, None) if axis == i else slice(None) for i in (0, 1)]
            gradient[tuple(first)] -= part
            gradient[tuple(second)] += part
        return float(missed @ missed) / 2 + weight * total, gradient.ravel()

    bound = (0.0, 1.0) if prior.binary else (-3.0, 4.0)
    found = minimize(
        objective,
        np.full(n * n, 0.5),
        jac=True,
        method="L-BFGS-B",
        bounds=[bound] * (n * n),
        options={"maxiter": iterations, "maxfun": 2 * iterations},
    )
    answer: Array = data.fix(field(found.x.reshape(n, n))[0][None])[0]
    return answer
