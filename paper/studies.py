"""Studies: curves and fields of single instances, which rows do not hold.

noisy-start        residual and error against CPU seconds, every method from the same noisy field
                   (nonlinear Helmholtz, κ = 2, λ = 1)                              Fig. 3a
starts             ENS from starts whose residuals span seven orders of magnitude   Fig. 3b
conditioning       singular values of the Jacobian at a solution, and the round-off of Newton and
                   Gauss-Newton                                                     App. A
flow-conditioning  σ_min of a trajectory's Jacobian as the viscosity falls          App. A
residual-floor     what the residual of a true flow is made of                      docs/flows.md
fields             final fields, their residuals and snapshots, one instance a regime
                                                                                    Figs. 1, 4, 9-12
flow-fields        one trajectory a flow and regime: truth, errors, residuals       Fig. 1

A study is a function of an evaluation; it returns plain values (or arrays) to store.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralsolver.equations import (
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
    generator,
)
from neuralsolver.equations.navier_stokes import time_derivative
from neuralsolver.fields.jacobian import linearisation
from neuralsolver.files import write_whole
from neuralsolver.solvers import FixedSteps, Observation
from neuralsolver.solvers.loop import Solver
from neuralsolver.solvers.norms import relative_error
from neuralsolver.training.card import machine
from neuralsolver.training.presets import moving
from paper.baselines.minimisers import noise_start
from paper.conditioning import gap_field, rounding_experiment, singular_values
from paper.evaluate import Evaluation
from paper.measure import EvaluationSet
from paper.methods import METHODS, methods_of
from paper.metrics import four_digits, residual_mse
from paper.regimes import EXPERIMENTS, Regime
from paper.residual_floor import residual_floor
from paper.sensor_figures import sensor_fields

Arrays = dict[str, np.ndarray[Any, Any]]
NOISY_START = (
    "ens", "ens-contractive", "ens-accelerated", "newton", "gauss-newton", "gradient-descent",
    "pino-ttop", "pinn",
)  # fmt: skip
START_SIZES = tuple(10.0**power for power in range(-3, 5))
"""Relative size of the noise added to the solution; its residual grows by the same factors."""
STARTED = ("nonlinear-helmholtz", "helmholtz")
NOISE_KEY, RANDOM_KEY = 12, 13
"""The random keys of that noise, and of directions of trajectories."""
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
VISCOSITIES = {"navier-stokes": (1e-3, 1e-4, 1e-5), "kolmogorov": (2e-3, 5e-4, 1e-4)}
"""Around the one that the models are trained with."""
SETTLED, RELATIVE = 2e-3, 1e-4
"""Change of σ_min at which its iteration ends; ε of Proposition 1 over the initial frame's
residual."""
FLOW_REGIMES, FLOW_ANSWERS = ("in-distribution", "forcing-shift"), ("operator", "ens-accelerated")
"""The trajectories that are drawn: of a backbone alone, and inside ENS."""
FRAMES, POINTS = 21, 64


class Curve:
    """Seconds, residual and error after every step of one instance, as an observer."""

    def __init__(self, drawn: EvaluationSet) -> None:
        self.drawn = drawn
        self.columns: dict[str, list[float]] = {"seconds": [], "residual": [], "error": []}
        self.begin, self.watching = time.process_time(), 0.0

    def __call__(self, seen: Observation) -> None:
        now, u = time.process_time(), seen.u.double()
        self.columns["seconds"].append(now - self.begin - self.watching)
        self.columns["residual"].append(float(residual_mse(self.drawn.true_problem, u)[0]))
        self.columns["error"].append(float(relative_error(u, self.drawn.exact)[0]))
        # looking is not solving
        self.watching += time.process_time() - now

    def values(self) -> dict[str, list[float | None]]:
        """The curve as lists of plain numbers, None where there is none."""
        return {name: [four_digits(x) for x in column] for name, column in self.columns.items()}


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
        status = solver.solve(drawn.problem, begin, curve).status[0].name
        curves.append({"method": key, **curve.values(), "status": status})
    return {"curves": curves, "warmed_up": True, **_conditions(here)}


def _conditions(evaluation: Evaluation) -> dict[str, Any]:
    """What a result has to say about its making."""
    about = {"resolution": evaluation.resolution, "seed": evaluation.seed}
    return {**about, "machine": machine()}


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
    """Extremal singular values and round-off at a solution of each equation."""
    rows = []
    for equation in CONDITIONED:
        regime = Regime(equation.name, equation)
        drawn = evaluation.draw(regime)
        found = singular_values(drawn.problem, drawn.exact)
        small = evaluation.draw(regime, resolution=min(evaluation.resolution, 32))
        extremes = singular_values(small.problem, small.exact)
        rounding = rounding_experiment(small.problem, small.exact, extremes)
        about = {"equation": equation.name, "constants": equation.constants()}
        values = {k: getattr(found, k)[0] for k in ("smallest", "largest", "condition")}
        rows.append({**about, **_conditions(evaluation), **_rounded(values)})
        rows[-1]["rounding"] = {"resolution": small.problem.resolution, **_rounded(rounding)}
    return rows


def _rounded(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: four_digits(value) for name, value in values.items()}


def flow_conditioning(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One row per flow, viscosity and grid: σ_min of a trajectory's Jacobian, Proposition 1 there.

    The paper remarks that a flow grows ill-conditioned as ν → 0. For each flow, one fresh initial
    field is carried forward with several viscosities.
    """
    return [
        conditioned(evaluation.of(EXPERIMENTS[flow]), viscosity, resolution)
        for flow, viscosity, resolution in cases(evaluation)
    ]


def cases(evaluation: Evaluation) -> Iterator[tuple[str, float, int]]:
    """All viscosities on the grid of the models, and the trained one on half as many points."""
    for flow, viscosities in VISCOSITIES.items():
        for viscosity in viscosities:
            yield flow, viscosity, evaluation.resolution
        yield flow, EXPERIMENTS[flow].equation.constants()["viscosity"], evaluation.resolution // 2


def conditioned(evaluation: Evaluation, viscosity: float, resolution: int) -> dict[str, Any]:
    """σ_min, σ_max and the gap of Proposition 1 at one trajectory u*.

    smallest, largest    σ_min and σ_max of J(u*) (`paper/trajectories.py`)
    still                σ_min of ∂ₜ − νΔ alone, what advection is not to blame for
    floor                ‖F(u*)‖ over the residual of the initial frame repeated, the unit of all
    gap                  Proposition 1 with ε = 10⁻⁴ of that unit: ũ = u* + (ε/2σ_min)v adds less
                         than ε to the residual (`added`, over ε) and has this relative error
    random               relative error of a field u* + d, d a random smooth direction, that adds
                         as much to the residual: what an error costs that is not the worst one
    """
    begin = time.process_time()
    trained = evaluation.experiment.equation
    assert isinstance(trained, NavierStokes)
    flow = replace(trained, viscosity=viscosity)
    drawn = evaluation.draw(Regime("viscosity", flow), resolution=resolution)
    problem, exact = drawn.problem.in_precision(torch.float64), drawn.exact.double()
    found = singular_values(problem, exact, settled=SETTLED)
    unit = float(problem.residual(problem.first_guess()).norm())
    gap = gap_field(problem, exact, RELATIVE * unit, found)
    added = float(gap.residual[0])
    values = {
        "smallest": found.smallest[0],
        "largest": found.largest[0],
        "condition": found.condition[0],
        "settled": found.mismatch[0],
        "still": still(flow),
        "floor": float(problem.residual(exact).norm()) / unit,
        "gap": gap.error[0] / exact.norm(),
        "added": added / (RELATIVE * unit),
        "random": _random(problem, exact, added, evaluation.seed),
    }
    about = {"experiment": evaluation.experiment.name, "viscosity": viscosity}
    about |= _conditions(evaluation) | {"resolution": resolution, "frames": flow.frames}
    return {**about, **_rounded(values), "seconds": round(time.process_time() - begin, 1)}


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


def fields(evaluation: Evaluation) -> Arrays:
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


def flow_fields(evaluation: Evaluation) -> Arrays:
    """One fresh trajectory a flow and regime.

    <flow>/<regime>/times             (T,)       times of the stored frames, the given one first
    <flow>/<regime>/truth             (T, n, n)  vorticity w
    <flow>/<regime>/<method>/error    (T, n, n)  answer of the method minus w
    <flow>/<regime>/<method>/residual (T, n, n)  the residual of its answer; of the truth as well
    """
    arrays: Arrays = {}
    for name, experiment in EXPERIMENTS.items():
        if not moving(experiment.equation):
            continue
        here = evaluation.of(experiment)
        for key in FLOW_REGIMES:
            regime = experiment.regime(key)
            drawn = here.draw(regime)
            answers = {
                method: here.prepare(METHODS[method], regime).solve(drawn.problem).tensor
                for method in FLOW_ANSWERS
            }
            times: np.ndarray[Any, Any] = regime.equation.frame_times  # type: ignore[attr-defined]
            residuals = {
                method: drawn.true_problem.residual(u.to(drawn.true_problem.inputs))
                for method, u in {"truth": drawn.exact, **answers}.items()
            }
            stored = thinned(times, drawn.exact, answers, residuals)
            arrays |= {f"{name}/{key}/{item}": values for item, values in stored.items()}
    return arrays


def thinned(
    times: np.ndarray[Any, Any],
    truth: Tensor,
    answers: Mapping[str, Tensor],
    residuals: Mapping[str, Tensor] | None = None,
) -> Arrays:
    """The first trajectory of a batch with errors and residuals of its answers, as stored.

    Frames and points are thinned out to `FRAMES` and `POINTS`. Everything but the times is in half
    precision: three digits of the truth, and three of each error whatever its size.

    Args:
        times: (T,) of the frames.
        truth: (B, 1, T, n, n).
        answers: Those of some methods.
        residuals: Those of truth and answers, where they are to be stored.
    """
    later = math.ceil((len(times) - 1) / (FRAMES - 1)) or 1
    apart = math.ceil(truth.shape[-1] / POINTS)

    def kept(field: Tensor) -> np.ndarray[Any, Any]:
        return field[0, 0, ::later, ::apart, ::apart].detach().cpu().numpy().astype(np.float16)

    stored = {"times": np.asarray(times[::later], dtype=np.float32), "truth": kept(truth)}
    stored |= {f"{name}/error": kept(u.to(truth) - truth) for name, u in answers.items()}
    stored |= {f"{name}/residual": kept(r) for name, r in (residuals or {}).items()}
    return stored


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
    file = evaluation.results / evaluation.scale.written / f"{name}.{kind}"
    if file.exists():
        return file
    found = STUDIES[name](evaluation)
    file.parent.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    if kind == "npz":
        np.savez_compressed(stream, **found)
    else:
        stream.write(json.dumps(found, indent=1, ensure_ascii=False).encode())
    write_whole(file, stream.getvalue())
    return file
