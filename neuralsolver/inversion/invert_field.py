"""One call for every field that is seen by sensors.

    samples = ns.invert(ns.Observed(ns.Darcy(), 64, sensors), samples=64)

The method is chosen by the problem unless it is named:

    exact                      the posterior is Gaussian, or the sign of a Gaussian field
    ens                        heads of a medium of two phases with high/low of 4 to 10
    gauss-newton               heads of another medium with a Gaussian field behind it
    es-mda                     heads of channels or ellipses with another contrast
    spline                     what is left: one answer, without error bars

Every sample's solution is solved exactly. `notes` say how the answer was made and what is wrong
with the data: a head that no permeability of the prior can produce, or a misfit that stays large.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from neuralsolver.equations import Darcy, Helmholtz, Poisson
from neuralsolver.equations.sensors import Observed
from neuralsolver.errors import InvalidInput
from neuralsolver.inversion.chain import run_chains
from neuralsolver.inversion.corrector import KINDS, Corrector
from neuralsolver.inversion.ens import network_samples
from neuralsolver.inversion.ensemble import smooth_ensemble
from neuralsolver.inversion.forward import WellData, embed, solve_heads
from neuralsolver.inversion.gauss_newton import gauss_newton_samples, total_variation
from neuralsolver.inversion.priors import Prior
from neuralsolver.samplers.samples import Samples, Told

Array = npt.NDArray[np.float64]

WEIGHTS = Path(__file__).parent.parent / "weights" / "darcy-inversion"
CONTRASTS = (4.0, 10.0)
"""high / low of the network's training, and the largest at which it was measured to be better."""
WELL_METHODS = ("ens", "es-mda", "gauss-newton", "total-variation", "chain")
FEWEST = 4
"""Sensors that learned samplers and fills need; the others take any number."""
BAD_MISFIT, BAD_MISFIT_OF_ENS = 2.0, 4.0
"""Above this many times the noise even the best sample tells of bad data; samples of the network
miss sound data by 2 to 4 (docs/inversion.md)."""


def invert(
    observed: Observed,
    method: str | None = None,
    samples: int = 16,
    *,
    prior: str | None = None,
    seed: int = 0,
    steps: int | None = None,
    told: Told | None = None,
) -> Samples:
    """The distribution of an unknown field seen by sensors.

    Args:
        observed: Equation, grid and sensors of the input, of the solution, or of both.
        method: `exact`, `ens`, `es-mda`, `gauss-newton`, `total-variation`, `chain`, `spline`,
            `palette`, `diffusion-ens`; chosen by the problem unless given.
        samples: Number of samples.
        prior: Of a permeability: `two-phase`, `channels`, `ellipses`, `log-normal`; the equation's
            medium unless given. Of a source: `fitted`, amplitude and correlation length under
            which the sensors are most likely; those of the equation unless given.
        seed: The same seed gives the same samples.
        steps: Of an iterative method.
        told: Is told the part of the work that is done.

    Returns:
        Samples of input and solution, with mean, deviation, quantiles, misfit and notes.

    Raises:
        InvalidInput: The method does not know this equation, prior or kind of sensor.

    >>> import neuralsolver as ns
    >>> places = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    >>> sensors = ns.Sensors(places, "source", [1.0, -1.0, 0.5, 0.0])
    >>> ns.invert(ns.Observed(ns.Poisson(), 16, sensors), samples=3).method
    'exact'
    """
    if samples < 1:
        raise InvalidInput("samples", "at least 1", samples)
    begin = time.perf_counter()
    chosen = method or default_method(observed, prior)
    if chosen in WELL_METHODS:
        data = well_data(observed, prior)
        answer = _by_wells(observed, data, chosen, samples, seed, steps, told)
    else:
        fitted = prior == "fitted"
        if prior is not None and not (fitted and chosen == "exact"):
            expected = "fitted with the exact method, or a permeability's with one for heads"
            raise InvalidInput("prior", expected, f"{prior} with {chosen}")
        answer = _by_sampler(observed, chosen, samples, seed, steps, told, fitted)
    seconds = time.perf_counter() - begin
    answer.notes.setdefault("warnings", []).extend(_warnings(answer))
    return Samples(
        observed, answer.inputs, answer.solutions, seconds, chosen, answer.notes, answer.marginal
    )


def default_method(observed: Observed, prior: str | None = None) -> str:
    """The method that `invert` takes for a problem."""
    equation = observed.equation
    if isinstance(equation, Poisson) or (isinstance(equation, Helmholtz) and equation.linear):
        return "exact"
    if not isinstance(equation, Darcy):
        return "spline"
    name = prior or equation.medium
    if observed.inputs_only and name == "two-phase" and not observed.sensors.noise:
        return "exact" if len(observed.sensors) else "ens"
    medium = Prior(name, equation.low, equation.high)
    if fits_network(medium) and equation.stencil == "flux" and WEIGHTS.is_dir():
        return "ens"
    return "gauss-newton" if name in ("two-phase", "log-normal") else "es-mda"


def fits_network(prior: Prior) -> bool:
    """Whether the network is known to be good for such permeabilities, up to their unit."""
    least, most = CONTRASTS
    return prior.name in KINDS and 0.999 * least <= prior.high / prior.low <= 1.001 * most


def well_data(observed: Observed, prior: str | None = None) -> WellData:
    """An observed Darcy problem as wells and known cells."""
    equation, sensors, n = observed.equation, observed.sensors, observed.resolution
    if not isinstance(equation, Darcy):
        raise InvalidInput("equation", "darcy for this method", equation.name)
    if equation.stencil != "flux":
        raise InvalidInput("stencil", "flux for this method", equation.stencil)
    medium = Prior(prior or equation.medium, equation.low, equation.high)
    solution = np.array([field == "solution" for field in sensors.fields], dtype=bool)
    cells = np.rint(sensors.positions[~solution] * (n - 1)).astype(np.int64)
    heads = sensors.values[solution]
    top = equation.constant_source / (4 * np.pi * equation.low)  # Talenti: no head is higher
    for i in np.flatnonzero(solution):
        value, noise = sensors.values[i], 4 * sensors.deviations[i]
        if not min(0.0, top) - noise <= value <= max(0.0, top) + noise:
            expected = f"a head between 0 and {top:.4g}, all that this source and prior can produce"
            raise InvalidInput(f"sensor {i + 1}", expected, f"{value:g}")
    for i in np.flatnonzero(~solution):
        value, kinds = sensors.values[i], (equation.low, equation.high)
        if medium.binary and not np.isclose(value, kinds).any():
            expected = f"a permeability of one of the phases, {kinds[0]:g} or {kinds[1]:g}"
            raise InvalidInput(f"sensor {i + 1}", expected, f"{value:g}")
        if value <= 0:
            raise InvalidInput(f"sensor {i + 1}", "a positive permeability", f"{value:g}")
    return WellData(
        medium,
        n,
        equation.constant_source,
        sensors.positions[solution],
        heads,
        sensors.deviations[solution],
        cells.reshape(-1, 2),
        sensors.values[~solution],
    )


def _by_wells(
    observed: Observed,
    data: WellData,
    method: str,
    count: int,
    seed: int,
    steps: int | None,
    told: Told | None,
) -> Samples:
    """Samples of a permeability by one of the methods of this package."""
    notes: dict[str, Any] = {"prior": data.prior.name}
    if data.prior.binary:
        notes["phases"] = (data.prior.low, data.prior.high)
    marginal = None
    if method == "ens":
        if data.prior.name not in KINDS:
            raise InvalidInput("prior", f"one of {', '.join(KINDS)} for ens", data.prior.name)
        if not fits_network(data.prior):
            ratio = data.prior.high / data.prior.low
            notes["warnings"] = [f"the network is good for high/low of 4 to 10, not {ratio:.3g}"]
        fields, share = network_samples(shipped_corrector(), data, count, seed, told)
        marginal = torch.from_numpy(data.prior.low + (data.prior.high - data.prior.low) * share)
    elif method == "es-mda":
        members = max(200, count)
        fields = smooth_ensemble(data, members, steps or 6, seed=seed)[:count]
        notes["forward_solves"] = members * (steps or 6)
    elif method == "gauss-newton":
        if not data.prior.gaussian:
            raise InvalidInput("prior", "two-phase or log-normal for Gauss-Newton", data.prior.name)
        sampling = "laplace" if data.prior.binary else "rml"
        fields = gauss_newton_samples(data, count, seed=seed, sampling=sampling)
    elif method == "chain":
        found = run_chains(data, steps or 2000, keep=-(-count // 2), seed=seed)
        fields = found.samples[:: max(1, len(found.samples) // count)][:count]
        notes |= {"r_hat": found.r_hat, "effective": found.effective}
        notes["forward_solves"] = found.solves
    else:
        fields = total_variation(data)[None]
        notes["single"] = True
    if not notes.get("single") and count == 1:
        notes["single"] = True
    if len(data.heads):
        notes["misfit"] = [round(float(value), 3) for value in data.misfit(fields)]
    heads = np.stack([solve_heads(a, data.source) for a in fields])
    u = embed(heads.reshape(len(fields), -1), data.resolution)
    return Samples(
        observed,
        torch.from_numpy(fields)[:, None],
        torch.from_numpy(u)[:, None],
        0.0,
        method,
        notes,
        marginal,
    )


def _by_sampler(
    observed: Observed,
    method: str,
    count: int,
    seed: int,
    steps: int | None,
    told: Told | None,
    fitted: bool,
) -> Samples:
    from neuralsolver.samplers.exact import FILLS, ExactPosterior
    from neuralsolver.training.library import load_sampler

    if method != "exact" and len(observed.sensors) < FEWEST:
        raise InvalidInput("sensors", f"at least {FEWEST} for {method}", len(observed.sensors))
    name = observed.equation.name
    sampler = ExactPosterior(fitted=True) if fitted else load_sampler(name, method, steps)
    single = method in FILLS
    drawn = sampler.sample(observed, 1 if single else count, seed, told)
    if single or count == 1:
        drawn.notes["single"] = True
    return drawn


def _warnings(answer: Samples) -> list[str]:
    """What is wrong with the data, in words."""
    misfit = answer.notes.get("misfit")
    found = []
    largest = BAD_MISFIT_OF_ENS if answer.method == "ens" else BAD_MISFIT
    if misfit and min(misfit) > largest:
        found.append(
            f"even the best sample misses the heads by {min(misfit):.1f} times the noise: the "
            "noise is too small for this prior, or a head is wrong"
        )
    if answer.notes.get("r_hat", 1.0) > 1.1:
        found.append(f"the chains have not converged (R-hat {answer.notes['r_hat']:.2f})")
    return found


@lru_cache(maxsize=1)
def shipped_corrector() -> Corrector:
    """The network that comes with the package."""
    from neuralsolver.training.checkpoint import load_model

    if not WEIGHTS.is_dir():
        raise InvalidInput("method", "one that needs no network; none is installed", "ens")
    network: Corrector = load_model(WEIGHTS)[0]
    return network
