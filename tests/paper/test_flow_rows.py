"""The experiments on flows: their constants, the classical front, and rows at tiny scale."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from neuralsolver.data.reference_solution import CoarseIntegrator, solve_reference
from neuralsolver.equations import Darcy, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.fourier import resample
from neuralsolver.solvers import Status
from neuralsolver.training import load
from neuralsolver.training.presets import SCALES
from paper.evaluate import Evaluation
from paper.measure import failed
from paper.methods import methods_of
from paper.regimes import EXPERIMENTS, instances

NAMES = ("navier-stokes", "kolmogorov")
SHORT = {"frames": 4, "start_time": 0.0}
TINY = replace(SCALES["tiny"], samples=16)
LEARNED = {
    "operator": "operator",
    "fno": "fno",
    "ens": "paper",
    "ens-contractive": "contractive",
    "ens-accelerated": "contractive",
    "operator-ttop": "operator-pino",
}
BOUNDS = ("truth", "still", "reference", "integrator-16", "integrator-32")


def shifts(name, constant):
    """A constant in training and in every regime of an experiment."""
    experiment = EXPERIMENTS[name]
    values = {regime.key: regime.equation.constants()[constant] for regime in experiment.regimes}
    return experiment.equation.constants()[constant], values


@pytest.mark.parametrize(
    ("name", "constant", "trained", "key", "shifted"),
    [
        ("navier-stokes", "viscosity", 1e-4, "viscosity-shift", 1e-5),
        ("navier-stokes", "forcing_wavenumber", 1, "forcing-shift", 2),
        ("kolmogorov", "viscosity", 5e-4, "viscosity-shift", 1e-3),
        ("kolmogorov", "forcing_wavenumber", 4, "forcing-shift", 5),
    ],
)
def test_a_shift_changes_one_constant_as_in_the_paper(name, constant, trained, key, shifted):
    in_training, values = shifts(name, constant)
    assert in_training == trained
    assert values.pop(key) == shifted
    assert set(values.values()) == {trained}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_is_shifted(name):
    experiment = EXPERIMENTS[name]
    for regime in experiment.regimes:
        equation = replace(
            regime.equation,
            viscosity=experiment.equation.viscosity,
            forcing_wavenumber=experiment.equation.forcing_wavenumber,
        )
        assert equation == experiment.equation, regime.key
        assert regime.refinement == (2 if regime.key == "super-resolution" else 1)
        assert regime.corrections >= experiment.regime("in-distribution").corrections
        assert (regime.noise, regime.assumed, regime.beyond) == (0.0, None, False)


@pytest.mark.parametrize(
    ("name", "forcing", "amplitude", "spacing", "frames"),
    [
        ("navier-stokes", "diagonal", 0.1, 0.2, 20),
        ("kolmogorov", "kolmogorov", 4.0, 0.05, 40),
    ],
)
def test_the_flows_are_those_of_the_paper(name, forcing, amplitude, spacing, frames):
    equation = EXPERIMENTS[name].equation
    assert equation.name == name
    found = (equation.forcing, equation.forcing_amplitude, equation.frame_spacing, equation.frames)
    assert found == (forcing, amplitude, spacing, frames)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_compared_on_a_flow(name):
    keys = {method.key for method in methods_of(EXPERIMENTS[name])}
    assert {"truth", "still", "reference", "integrator-32", "ens", "ens-contractive-cnn"} <= keys
    assert not keys & {"newton", "pinn", "ens-plateau", "ens-unet", "gradient-descent"}


@pytest.fixture(scope="module")
def slow():
    """A slow flow on 32 points, integrated there."""
    equation = NavierStokes(viscosity=1e-3, **SHORT)
    answer = solve_reference(equation, 3 * Problem.random(equation, 32, 2, seed=2).inputs.numpy())
    return Problem(equation, torch.from_numpy(answer.inputs)), torch.from_numpy(answer.solution)


def distance(u, exact):
    return float((u.double() - exact).norm() / exact.norm())


def test_the_error_of_the_coarse_integrator_falls_with_its_grid(slow):
    problem, exact = slow
    errors = [
        distance(CoarseIntegrator(points).solve(problem).tensor, exact)
        for points in (8, 12, 16, 24, 32)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.02
    assert errors[-1] < 1e-3  # the same grid: what is left is the long step


def test_the_coarse_integrator_keeps_the_initial_frame_and_reports_on_the_given_grid(slow):
    problem, exact = slow
    solution = CoarseIntegrator(12).solve(problem.in_precision(torch.float32))
    assert solution.tensor.dtype == torch.float64
    assert torch.allclose(solution.tensor[:, :, 0], problem.inputs, atol=1e-6)
    assert solution.status == (Status.FINISHED,) * 2
    assert solution.notes["grid"] == 12
    # no modes but those that 12 points carry without aliasing, 3 of either sign
    moved = solution.tensor[:, :, 1:]
    assert torch.allclose(moved, resample(resample(moved, 8), 32), atol=1e-12)
    alone = CoarseIntegrator(12).solve(problem.select([1])).tensor
    assert torch.allclose(alone, solution.tensor[1:], atol=1e-5)
    assert exact.shape == solution.tensor.shape


def test_a_flow_at_rest_can_be_integrated_coarsely():
    equation = NavierStokes(**SHORT)
    solution = CoarseIntegrator(8).solve(Problem(equation, torch.zeros(1, 1, 16, 16).double()))
    assert solution.good
    # the forcing sets it in motion: w = f t, as long as it is slow
    expected = 0.8 * equation.forcing_field(solution.tensor[0, 0, -1])
    assert torch.allclose(solution.tensor[0, 0, -1], expected, rtol=0.05)


@pytest.mark.parametrize("equation", [Poisson(), Darcy()])
def test_a_static_equation_is_not_integrated(equation):
    with pytest.raises(InvalidInput, match=f"equation: expected a flow, got {equation.name}"):
        CoarseIntegrator(16).solve(Problem.random(equation, 16))


def shortened(name, **changes):
    """An experiment of which a tiny trajectory is left."""
    experiment = EXPERIMENTS[name]
    changes = {**SHORT, **changes}
    return replace(
        experiment,
        equation=replace(experiment.equation, **changes),
        regimes=tuple(
            replace(regime, equation=replace(regime.equation, **changes))
            for regime in experiment.regimes
        ),
    )


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """An evaluation whose models do not exist yet, with as little data as will do."""
    folder = tmp_path_factory.mktemp("flows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neuralsolver.data.reference_solution.FLOW_RESOLUTION", 16)
        patch.setattr("neuralsolver.training.run.TEST_SAMPLES", 2)
        patch.setattr("neuralsolver.training.run.VALIDATION_SAMPLES", 2)
        places = {"results": folder / "r", "runs": folder / "runs", "data": folder / "d"}
        yield Evaluation(shortened("navier-stokes"), TINY, samples=4, **places)


def check_row(row):
    numbers = ["error", "error_spread", "error_worst", "residual", "steps"]
    numbers += [] if row["method"] == "truth" else ["seconds_batch_1"]  # nobody computes it
    assert all(math.isfinite(row[number]) for number in numbers), row["method"]
    assert sum(row["status"].values()) == row["samples"]
    assert "NOT_APPLICABLE" not in row["status"], row["reason"]
    json.dumps(row, allow_nan=False)


@pytest.fixture(scope="module")
def rows(here):
    measured = here.run([*BOUNDS, *LEARNED], ["in-distribution"])
    return {row["method"]: row for row in measured}


@pytest.mark.parametrize("method", [*BOUNDS, *LEARNED])
def test_every_method_gives_a_row_of_a_flow(rows, method):
    check_row(rows[method])
    assert rows[method]["resolution"] == 16


@pytest.mark.parametrize("method", [*BOUNDS[1:], *LEARNED])
def test_no_method_sees_the_true_flow(rows, here, method, monkeypatch, tmp_path):
    answers = []

    def recorded(solver, subject):
        answers.append(solver.solve(subject.select(slice(0, 1)).problem).tensor)
        return failed(subject.problem.batch, "FINISHED")

    def hidden(*arguments):
        drawn = instances(*arguments)
        return replace(drawn, exact=torch.full_like(drawn.exact, torch.nan))

    monkeypatch.setattr("paper.evaluate.measure", recorded)
    replace(here, results=tmp_path / "seen").run([method], ["forcing-shift"])
    monkeypatch.setattr("paper.evaluate.instances", hidden)
    replace(here, results=tmp_path / "hidden").run([method], ["forcing-shift"])
    assert torch.isfinite(answers[1]).all()
    assert torch.equal(*answers)


def test_the_rows_of_a_flow_are_in_order(rows):
    assert rows["truth"]["error"] == 0.0
    assert rows["truth"]["residual"] < 0.01 * rows["still"]["residual"]
    assert rows["integrator-16"]["error"] < 1e-4  # here the truth is integrated on 16 points
    for method in ("reference", "integrator-16", "integrator-32"):
        assert rows[method]["error"] < 0.2 * rows["still"]["error"]


@pytest.mark.parametrize("recipe", sorted(set(LEARNED.values())))
def test_the_models_that_were_missing_are_trained(rows, here, recipe):
    (folder,) = (here.runs / "navier-stokes" / recipe).glob("tiny-*/model")
    stages = load(folder).record["stages"]
    assert sum(stage["batches"] for name, stage in stages.items() if name != "finish") == 20
    assert stages["training"]["resolution"] == 16


def test_the_steps_of_a_row_are_those_of_the_regime(rows, here):
    assert rows["ens"]["steps"] == here.experiment.regime("in-distribution").corrections
    assert rows["operator"]["steps"] == rows["fno"]["steps"] == 0
    assert rows["operator-ttop"]["steps"] == 20
    assert rows["operator-ttop"]["samples"] == 2
    assert rows["ens"]["samples"] == 4


@pytest.mark.parametrize("regime", ["viscosity-shift", "forcing-shift", "super-resolution"])
@pytest.mark.parametrize("method", ["ens", "ens-contractive", "ens-accelerated"])
def test_the_models_are_asked_for_more_than_they_were_trained_for(rows, here, method, regime):
    (row,) = here.run([method], [regime])
    check_row(row)
    fine = regime == "super-resolution"
    assert row["resolution"] == (32 if fine else 16)
    assert row["samples"] == (1 if fine else 4)
    if method == "ens":
        assert row["steps"] == here.experiment.regime(regime).corrections


def test_rows_of_a_flow_are_measured_once(rows, here, monkeypatch):
    monkeypatch.setattr("paper.evaluate.measure", pytest.fail)
    assert here.run(list(rows), ["in-distribution"]) == list(rows.values())
