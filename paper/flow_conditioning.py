"""flow-conditioning: σ_min of a trajectory's Jacobian as the viscosity falls, with Proposition 1.

The paper remarks that a flow grows ill-conditioned as ν → 0. Here, for each flow, one fresh initial
field is carried forward with several viscosities, and at every trajectory u*

    smallest, largest    σ_min and σ_max of J(u*) (`evaluation/trajectories.py`)
    still                σ_min of ∂ₜ − νΔ alone, what advection is not to blame for
    floor                ‖F(u*)‖ over the residual of the still flow, the unit of all residuals
    gap                  Proposition 1 with ε = 10⁻⁴ of that unit: ũ = u* + (ε/2σ_min)v adds less
                         than ε to the residual (`added`, over ε) and has this relative error
    random               relative error of a field u* + d, d a random smooth direction, that adds
                         as much to the residual: what an error costs that is not the worst one

The grid is that of the models; the trained viscosity is measured on half as many points too, to see
whether the grid matters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from neuralsolver.equations import NavierStokes, Problem, generator
from neuralsolver.equations.navier_stokes import time_derivative
from neuralsolver.fields.jacobian import linearisation
from neuralsolver.training.card import machine
from paper.conditioning import gap_field, singular_values
from paper.evaluate import Evaluation
from paper.metrics import four_digits
from paper.regimes import EXPERIMENTS, Regime

VISCOSITIES = {
    "navier-stokes": (1e-3, 1e-4, 1e-5),
    "kolmogorov": (2e-3, 5e-4, 1e-4),
}
"""Around the one that the models are trained with."""
COARSENING = 2
SETTLED = 2e-3
RELATIVE = 1e-4
RANDOM_KEY = 13


def flow_conditioning(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One row per flow, viscosity and grid."""
    return [
        conditioned(evaluation.of(EXPERIMENTS[flow]), viscosity, resolution)
        for flow, viscosity, resolution in cases(evaluation)
    ]


def cases(evaluation: Evaluation) -> Iterator[tuple[str, float, int]]:
    """All viscosities on the grid of the models, and the trained one on the coarser grid."""
    for flow, viscosities in VISCOSITIES.items():
        for viscosity in viscosities:
            yield flow, viscosity, evaluation.resolution
        trained = EXPERIMENTS[flow].equation
        assert isinstance(trained, NavierStokes)
        yield flow, trained.viscosity, evaluation.resolution // COARSENING


def conditioned(evaluation: Evaluation, viscosity: float, resolution: int) -> dict[str, Any]:
    """σ_min, σ_max and the gap of Proposition 1 at one trajectory."""
    begin = time.process_time()
    trained = evaluation.experiment.equation
    assert isinstance(trained, NavierStokes)
    flow = replace(trained, viscosity=viscosity)
    drawn = evaluation.draw(Regime("viscosity", flow), resolution=resolution)
    problem, exact = drawn.problem.in_precision(torch.float64), drawn.exact.double()
    found = singular_values(problem, exact, settled=SETTLED)
    unit = float(problem.residual(problem.first_guess()).norm())
    epsilon = RELATIVE * unit
    gap = gap_field(problem, exact, epsilon, found)
    added = float(gap.residual[0])
    return {
        "experiment": evaluation.experiment.name,
        "viscosity": viscosity,
        "resolution": resolution,
        "frames": flow.frames,
        "seed": evaluation.seed,
        "machine": machine(),
        "smallest": four_digits(found.smallest[0]),
        "largest": four_digits(found.largest[0]),
        "condition": four_digits(found.condition[0]),
        "settled": four_digits(found.mismatch[0]),
        "still": four_digits(still(flow)),
        "floor": four_digits(float(problem.residual(exact).norm()) / unit),
        "gap": four_digits(gap.error[0] / exact.norm()),
        "added": four_digits(added / epsilon),
        "random": four_digits(_random(problem, exact, added, evaluation.seed)),
        "seconds": round(time.process_time() - begin, 1),
    }


def _random(problem: Problem, exact: Tensor, added: float, seed: int) -> float:
    """The relative error of a random direction that adds so much to the residual.

    The direction is another flow: the trajectory with its frames multiplied by random numbers.
    """
    rng = generator(seed, RANDOM_KEY)
    frames = torch.from_numpy(rng.standard_normal(exact.shape[2]))[:, None, None]
    direction = problem.impose(exact * frames) - problem.impose(torch.zeros_like(exact))
    size = added / float(linearisation(problem, exact)(direction).norm())
    return size * float(direction.norm() / exact.norm())


def still(flow: NavierStokes) -> float:
    """σ_min of ∂ₜ − νΔ on the frames after the first: that of the mean, which does not decay."""
    unit = torch.eye(flow.frames + 1, dtype=torch.float64)
    derivative = time_derivative(unit[:, :, None], flow.frame_spacing, flow.time_order)[..., 0]
    return float(torch.linalg.svdvals(derivative[:, 1:])[-1])
