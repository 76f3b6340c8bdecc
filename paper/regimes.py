"""The experiments: what each model is trained on, and what it is then asked to solve.

The regimes of the paper's table of extrapolations (Tab. 6) come first in each experiment; those
marked `beyond` are ours: wavenumbers around and past the first resonance κ = √2 π, a larger
permeability contrast, a log-normal permeability, noise on the input field, and a solver that
assumes a wrong constant.

The paper's caption of Tab. 2 and Tab. 6 disagree on the cross-equation column of Helmholtz. Its
numbers fit a Helmholtz model solving Poisson (a = 2), as in Tab. 6, so that is what is done here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from neuralsolver.data import DatasetSpec, generate
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import (
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
    equation_named,
    generator,
)
from neuralsolver.errors import InvalidInput
from paper.measure import EvaluationSet

NOISE_KEY = 11
"""The random key of the noise on the inputs."""


@dataclass(frozen=True)
class Regime:
    """What a model is asked to solve, what it is called here, and `printed` in the paper's table.

    `corrections` is K_inf, the number of corrections of the paper's ENS: 15 as trained, 80 under a
    shift, 120 on a finer grid, which the appendix gives for Helmholtz and we use for every static
    equation. The flows have their own.
    `refinement` multiplies the trained resolution, `noise` is white noise added to the input field
    relative to its root mean square, and `assumed` is the equation whose residual the solver
    reads when that is not the one to be solved.
    """

    key: str
    equation: Equation
    corrections: int = 80
    refinement: int = 1
    noise: float = 0.0
    assumed: Equation | None = None
    beyond: bool = False
    label: str = ""
    printed: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.key)


@dataclass(frozen=True)
class Experiment:
    """An equation to train on and the regimes to test in; `printed` is the paper's table of it.

    `samples` are the fresh instances per regime. `coarsening` divides the resolution of the scale:
    the ablations train many models, on a grid that allows it.
    """

    name: str
    label: str
    equation: Equation
    regimes: tuple[Regime, ...]
    printed: str = ""
    samples: int = 100
    coarsening: int = 1

    def regime(self, key: str) -> Regime:
        """The regime called `key`."""
        for regime in self.regimes:
            if regime.key == key:
                return regime
        keys = ", ".join(regime.key for regime in self.regimes)
        raise InvalidInput("regime", f"one of {keys}", key)

    @property
    def ablation(self) -> bool:
        """Whether its models compare with each other only."""
        return self.coarsening > 1


IN, CROSS, SUPER = "In-distribution", "Cross-equation", "Super-resolution"
LOW_FLOOR: dict[str, Any] = {"time_order": 4, "dealiasing": "2/3"}
"""How the residual of a flow is taken: with the paper's differences a true trajectory leaves much
more of it (docs/flows.md)."""

LOG_NORMAL = Darcy(low=6.0 * math.exp(-1.5), high=6.0 * math.exp(1.5), medium="log-normal")
CUBIC = Helmholtz(wavenumber=2.0, nonlinearity=1.0)
DIAGONAL = NavierStokes(**LOW_FLOOR)
KOLMOGOROV = equation_named("kolmogorov", LOW_FLOOR)
assert isinstance(KOLMOGOROV, NavierStokes)

# fmt: off
HELMHOLTZ_REGIMES = (
    Regime("in-distribution", Helmholtz(), 15, printed=IN),
    Regime("shift", Helmholtz(3.0), label="shift κ 1 → 3", printed="Wavenumber-shift"),
    Regime("cross-equation", Poisson(), printed=CROSS),
    Regime("super-resolution", Helmholtz(), 120, refinement=2, printed=SUPER),
    Regime("kappa-4.2", Helmholtz(4.2), beyond=True, label="κ = 4.2"),
    Regime("kappa-4.4", Helmholtz(4.4), beyond=True, label="κ = 4.4"),
    Regime("kappa-4.5", Helmholtz(4.5), beyond=True, label="κ = 4.5"),
    Regime("kappa-6", Helmholtz(6.0), beyond=True, label="κ = 6"),
    Regime("noisy-input", Helmholtz(), noise=0.5, beyond=True, label="noisy input"),
    Regime("wrong-constant", Helmholtz(), assumed=Helmholtz(1.5), beyond=True,
           label="wrong constant"),
)
NONLINEAR_REGIMES = (
    Regime("in-distribution", CUBIC, 15, printed=IN),
    Regime("shift", Helmholtz(3.0, 4.0), label="shift κ 2 → 3, λ 1 → 4", printed="Extrapolation"),
    Regime("super-resolution", CUBIC, 120, refinement=2, printed=SUPER),
    Regime("noisy-input", CUBIC, noise=0.5, beyond=True, label="noisy input"),
)
POISSON_REGIMES = (
    Regime("in-distribution", Poisson(), 15, printed=IN),
    Regime("super-resolution", Poisson(), 120, refinement=2, printed=SUPER),
    Regime("shift", Poisson(1.0), label="shift a 2 → 1", printed="Extrapolation"),
    Regime("cross-equation", CUBIC, printed=CROSS),
    Regime("noisy-input", Poisson(), noise=0.5, beyond=True, label="noisy input"),
)
DARCY_REGIMES = (
    Regime("in-distribution", Darcy(), 15, printed=IN),
    Regime("shift", Darcy(source=200.0), label="shift f 100 → 200", printed="Extrapolation"),
    Regime("super-resolution", Darcy(), 120, refinement=2, printed=SUPER),
    Regime("contrast", Darcy(low=1.0, high=100.0), beyond=True, label="higher contrast"),
    Regime("log-normal", LOG_NORMAL, beyond=True, label="log-normal, σ = 1.5"),
)
DIAGONAL_REGIMES = (
    Regime("in-distribution", DIAGONAL, 5, printed=IN),
    Regime("viscosity-shift", replace(DIAGONAL, viscosity=1e-5), 15,
           label="viscosity 1e-4 → 1e-5", printed="Viscosity-shift"),
    Regime("forcing-shift", replace(DIAGONAL, forcing_wavenumber=2), 15,
           label="forcing 2π → 4π", printed="Forcing-shift"),
    Regime("super-resolution", DIAGONAL, 10, refinement=2, printed=SUPER),
)
KOLMOGOROV_REGIMES = (
    Regime("in-distribution", KOLMOGOROV, 12, printed=IN),
    Regime("viscosity-shift", replace(KOLMOGOROV, viscosity=1e-3), 15,
           label="viscosity 5e-4 → 1e-3", printed="Viscosity-shift"),
    Regime("forcing-shift", replace(KOLMOGOROV, forcing_wavenumber=5), 15,
           label="forcing 8π → 10π", printed="Forcing-shift"),
    Regime("super-resolution", KOLMOGOROV, 90, refinement=2, printed=SUPER),
)
ABLATED = tuple(
    regime for regime in HELMHOLTZ_REGIMES
    if regime.key in ("in-distribution", "shift", "noisy-input")
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("helmholtz", "Helmholtz", Helmholtz(), HELMHOLTZ_REGIMES, "forward_helmholtz"),
        Experiment("poisson", "Poisson", Poisson(), POISSON_REGIMES, "forward_poisson"),
        Experiment("darcy", "Darcy", Darcy(), DARCY_REGIMES, "Darcy"),
        Experiment("nonlinear-helmholtz", "nonlinear Helmholtz", CUBIC, NONLINEAR_REGIMES,
                   "nonlinear_hz"),
        Experiment("navier-stokes", "Navier-Stokes", DIAGONAL, DIAGONAL_REGIMES, "forward_NS", 32),
        Experiment("kolmogorov", "Kolmogorov flow", KOLMOGOROV, KOLMOGOROV_REGIMES, "kolmogorov",
                   32),
        Experiment("ablations", "Helmholtz ablations", Helmholtz(), ABLATED, coarsening=2),
    )
}
# fmt: on


def instances(
    regime: Regime, resolution: int, count: int, seed: int, data: Path | None = None
) -> EvaluationSet:
    """`count` problems of the regime, drawn from the test split of `seed`."""
    equation, grid = regime.equation, resolution * regime.refinement
    dataset = generate(DatasetSpec(equation, count, grid, "test", seed), data)
    inputs, exact = dataset.tensors()
    rejected = int(dataset.rejected.sum())
    if regime.noise:
        noise = generator(seed, NOISE_KEY).standard_normal(tuple(inputs.shape))
        size = inputs.square().mean((1, 2, 3), keepdim=True).sqrt()
        inputs = inputs + regime.noise * size * torch.from_numpy(noise)
        found = solve_reference(equation, inputs.numpy())
        solved = torch.from_numpy(found.solved)
        rejected += int((~solved).sum())
        inputs, exact = inputs[solved], torch.from_numpy(found.solution)[solved]
    # flows are solved in single precision, which their errors never come near
    given = inputs.to(equation.precision)
    return EvaluationSet(
        problem=Problem(regime.assumed or equation, given),
        true_problem=Problem(equation, given),
        exact=exact,
        rejected=rejected,
    )
