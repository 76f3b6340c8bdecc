"""Studies: curves and fields of single instances, which rows do not hold.

noisy-start    residual and error against CPU seconds, every method from the same noisy field
               (nonlinear Helmholtz, κ = 2, λ = 1)                                  Fig. 3a
starts         ENS from starts whose residuals span seven orders of magnitude       Fig. 3b
conditioning   singular values of the Jacobian at a solution, the field of Proposition 1, and the
               round-off of Newton and Gauss-Newton; flow-conditioning: at trajectories   App. A
residual-floor what the residual of a true flow is made of                          docs/flows.md
fields         final fields, their residuals and snapshots, one instance a regime   Figs. 1, 4, 9-12

A study is a function of an evaluation; it returns plain values (or arrays) to store.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import Darcy, Equation, Helmholtz, Poisson, generator
from neuralsolver.files import write_whole
from neuralsolver.solvers import FixedSteps, Observation
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.norms import relative_error
from neuralsolver.training.card import machine
from paper.baselines.minimisers import noise_start
from paper.conditioning import gap_field, singular_values
from paper.evaluate import Evaluation
from paper.flow_conditioning import flow_conditioning
from paper.flow_fields import flow_fields
from paper.measure import EvaluationSet
from paper.methods import METHODS, methods_of
from paper.metrics import four_digits, residual_mse
from paper.regimes import EXPERIMENTS, Regime
from paper.residual_floor import residual_floor
from paper.rounding import rounding_experiment
from paper.sensor_fields import sensor_fields

NOISY_START = (
    "ens",
    "ens-contractive",
    "ens-accelerated",
    "newton",
    "gauss-newton",
    "gradient-descent",
    "pino-ttop",
    "pinn",
)
START_SIZES = tuple(10.0**power for power in range(-3, 5))
"""Relative size of the noise added to the solution; its residual grows by the same factors."""
STARTED = ("nonlinear-helmholtz", "helmholtz")
NOISE_KEY = 12
"""The random key of that noise."""
STEPS = 60
SNAPSHOTS = (0, 1, 2, 10, 20, 40)
DRAWN: dict[str, tuple[str, ...]] = {
    "helmholtz": ("in-distribution", "shift", "cross-equation", "super-resolution", "noisy-input"),
    "nonlinear-helmholtz": ("shift",),
    "poisson": ("cross-equation",),
    "darcy": ("in-distribution", "shift"),
    "ablations": ("in-distribution",),
}
DRAWN_METHODS = ("fno", "pino", "pino-ttop", "ens", "ens-contractive")
FOLLOWED: dict[str, tuple[str, ...]] = {
    "helmholtz/in-distribution": ("ens",),
    "helmholtz/shift": ("ens", "ens-contractive"),
    "helmholtz/noisy-input": ("ens",),
    "darcy/shift": ("ens",),
    "ablations/in-distribution": ("ens", "ens-zero-field"),
}
"""Whose iterates are kept as snapshots, and where."""
CONDITIONED: tuple[Equation, ...] = (
    Poisson(),
    *(Helmholtz(wavenumber=k) for k in (1.0, 2.0, 3.0, 4.0, 4.2, 4.4, 4.5, 5.0, 6.0)),
    Helmholtz(wavenumber=2.0, nonlinearity=1.0),
    Helmholtz(wavenumber=3.0, nonlinearity=4.0),
    Darcy(),
    Darcy(low=1.0, high=100.0),
)


class Curve:
    """Seconds, residual and error after every step of one instance, as an observer."""

    def __init__(self, drawn: EvaluationSet) -> None:
        self.drawn = drawn
        self.seconds: list[float] = []
        self.residual: list[float] = []
        self.error: list[float] = []
        self.begin = time.process_time()
        self.watching = 0.0

    def __call__(self, seen: Observation) -> None:
        now = time.process_time()
        self.seconds.append(now - self.begin - self.watching)
        u = seen.u.double()
        self.residual.append(float(residual_mse(self.drawn.true_problem, u)[0]))
        self.error.append(float(relative_error(u, self.drawn.exact)[0]))
        # looking is not solving
        self.watching += time.process_time() - now

    def values(self) -> dict[str, list[float | None]]:
        """The curve as lists of plain numbers, None where there is none."""
        columns = {"seconds": self.seconds, "residual": self.residual, "error": self.error}
        return {name: [four_digits(x) for x in column] for name, column in columns.items()}


def noisy_start(evaluation: Evaluation) -> dict[str, Any]:
    """Every method from the same noise, on one instance of the nonlinear Helmholtz equation."""
    here = evaluation.of(EXPERIMENTS["nonlinear-helmholtz"])
    regime = here.experiment.regime("in-distribution")
    drawn = here.draw(regime)
    start = noise_start(drawn.problem, here.seed)
    curves = []
    for key in NOISY_START:
        solver = here.prepare(METHODS[key], regime)
        # the networks of TTOP and PINN are the field: there is nothing to start from
        begin = None if METHODS[key].kind == "optimised" else start
        # one step that is not timed: the first call of a network or a library costs more
        next((seen for seen in solver.iterations(drawn.problem, begin) if seen.step), None)
        curve = Curve(drawn)
        solution = solver.solve(drawn.problem, begin, curve)
        status = solution.status[0].name
        curves.append({"method": key, **curve.values(), "status": status})
    return {"curves": curves, "warmed_up": True, **_conditions(here)}


def _conditions(evaluation: Evaluation) -> dict[str, Any]:
    """What a result has to say about its making."""
    return {
        "resolution": evaluation.resolution,
        "seed": evaluation.seed,
        "machine": machine(),
    }


def starts(evaluation: Evaluation) -> dict[str, Any]:
    """The paper's and the contractive ENS from noise of growing size on top of the solution."""
    curves = []
    for name, key in product(STARTED, ("ens", "ens-contractive")):
        here = evaluation.of(EXPERIMENTS[name])
        drawn = here.draw(here.experiment.regime("in-distribution"))
        rng = generator(here.seed, NOISE_KEY)
        noise = torch.from_numpy(rng.standard_normal(tuple(drawn.exact.shape)))
        noise *= drawn.exact.norm() / noise.norm()
        network = here.model(METHODS[key].recipes[0]).network
        for size in START_SIZES:
            curve = Curve(drawn)
            start = drawn.problem.impose(drawn.exact + size * noise)
            network.solve(drawn.problem, start, curve, stop=FixedSteps(STEPS))
            values = curve.values()
            del values["seconds"]
            about = {"experiment": name, "method": key, "start": f"{size:g} × noise"}
            curves.append({**about, "initial_residual": values["residual"][0], **values})
    return {"curves": curves, **_conditions(evaluation)}


def conditioning(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Extremal singular values, the gap of Proposition 1 and round-off, at a solution of each."""
    return [_conditioned(equation, evaluation) for equation in CONDITIONED]


EPSILON = 1e-2
"""Euclidean norm of the residual of the field of Proposition 1."""
PERTURBATION = 1e-10


def _conditioned(equation: Equation, evaluation: Evaluation) -> dict[str, Any]:
    regime = Regime(equation.name, equation)
    drawn = evaluation.draw(regime)
    problem, exact = drawn.problem, drawn.exact
    found = singular_values(problem, exact)
    gap = gap_field(problem, exact, EPSILON, found)
    small = evaluation.draw(regime, resolution=min(evaluation.resolution, 32))
    rounding = rounding_experiment(small.problem, small.exact, PERTURBATION)
    return {
        "equation": equation.name,
        "constants": equation.constants(),
        **_conditions(evaluation),
        **{k: four_digits(getattr(found, k)[0]) for k in ("smallest", "largest", "condition")},
        "gap": {
            "epsilon": EPSILON,
            **{key: four_digits(getattr(gap, key)[0]) for key in ("residual", "error", "bound")},
        },
        "rounding": {
            "resolution": small.problem.resolution,
            "perturbation": PERTURBATION,
            **{name: four_digits(left) for name, left in rounding.items()},
        },
    }


def fields(evaluation: Evaluation) -> dict[str, np.ndarray[Any, Any]]:
    """Input, truth, errors and residuals of final fields, and snapshots, one instance a regime.

    In single precision an answer that is right to eight digits would be the truth: errors are
    stored, as in flow-fields.npz.
    """
    arrays: dict[str, Tensor] = {}
    for name, regimes in DRAWN.items():
        here = evaluation.of(EXPERIMENTS[name])
        compared = {method.key: method for method in methods_of(here.experiment)}
        for key in regimes:
            regime = here.experiment.regime(key)
            drawn = here.draw(regime)
            place = f"{name}/{key}"
            arrays[f"{place}/input"] = drawn.problem.inputs
            arrays[f"{place}/truth"] = drawn.exact
            for method in (compared[m] for m in DRAWN_METHODS if m in compared):
                answer = here.prepare(method, regime).solve(drawn.problem).tensor.double()
                arrays[f"{place}/{method.key}/error"] = answer - drawn.exact
                residual = drawn.true_problem.residual(answer.to(drawn.true_problem.inputs))
                arrays[f"{place}/{method.key}/residual"] = residual
            for followed in FOLLOWED.get(place, ()):
                solver = here.prepare(METHODS[followed], regime)
                arrays |= _snapshots(f"{place}/{followed}", solver, drawn)
    return {name: u[0, 0].float().numpy() for name, u in arrays.items()}


def _snapshots(place: str, solver: Solver, drawn: EvaluationSet) -> Mapping[str, Tensor]:
    """Error, residual and correction after some of the steps."""
    kept: dict[str, Tensor] = {}

    def observe(seen: Observation) -> None:
        if seen.stage != "solve" or seen.step not in SNAPSHOTS:
            return
        kept[f"{place}@{seen.step}/error"] = seen.u - drawn.exact
        kept[f"{place}@{seen.step}/residual"] = seen.residual
        if seen.correction is not None:
            kept[f"{place}@{seen.step}/correction"] = seen.correction

    solver.solve(drawn.problem, observe=observe)
    return kept


STUDIES: dict[str, Callable[[Evaluation], Any]] = {
    "noisy-start": noisy_start,
    "starts": starts,
    "conditioning": conditioning,
    "flow-conditioning": flow_conditioning,
    "residual-floor": lambda evaluation: residual_floor(seed=evaluation.seed),
    "fields": fields,
    "flow-fields": flow_fields,
    "sensor-fields": sensor_fields,
}


def study_file(name: str, evaluation: Evaluation) -> Path:
    """The file of a study, made if it is not there."""
    kind = "npz" if name.endswith("fields") else "json"
    file = evaluation.results / evaluation.scale.name / f"{name}.{kind}"
    if file.exists():
        return file
    found = STUDIES[name](evaluation)
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "npz":
        stream = io.BytesIO()
        np.savez_compressed(stream, **found)
        write_whole(file, stream.getvalue())
    else:
        write_whole(file, json.dumps(found, indent=1, ensure_ascii=False).encode())
    return file
