"""The models that come with the package do what their cards and the README say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.data.reference_solution import solve_reference, truncate_spectrum
from neuralsolver.equations import EQUATIONS, Problem
from neuralsolver.equations.registry import BOXES
from neuralsolver.solvers.norms import relative_error
from neuralsolver.solvers.solution import GOOD_ERROR
from neuralsolver.training.library import SHIPPED, load_sampler, shipped
from neuralsolver.training.presets import SCALES
from paper.evaluate import Evaluation
from paper.regimes import EXPERIMENTS
from paper.sensors import STEPS, Instances, Task

STATIC = [name for name, equation in EQUATIONS.items() if not equation.frames]
FLOWS = [name for name, equation in EQUATIONS.items() if equation.frames]
EXPECTED = {
    *(f"{name}-{recipe}" for name in STATIC for recipe in ("contractive", "fno", "paper")),
    *(f"{name}-{recipe}" for name in FLOWS for recipe in ("contractive", "paper")),
    *(f"{name}-contractive" for name in BOXES),
    "darcy-shapes",
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    torch.set_num_threads(1)


def test_all_models_are_there_and_small():
    assert set(shipped()) == EXPECTED
    size = sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file())
    assert size < 110e6


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_card_tells_how_the_model_came_about(name):
    card = json.loads((SHIPPED / name / "card.json").read_text())
    boxed = name.startswith(tuple(BOXES))
    assert card["resolution"] == (32 if boxed else 64)
    assert card["recipe"] == name.rsplit("-", 1)[1]
    assert card["scale"] == ("box" if boxed else "desk")
    assert card["stages"]["training"]["minutes"] > 0
    assert card["errors"]["samples"] == (25 if boxed else 100)
    assert len(card["data"]["fingerprint"]) == 64
    assert card["machine"]
    assert card["version"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_error_on_the_card_is_the_error(name):
    """On a few other samples, within a factor of three."""
    solver = ns.load(name)
    card = solver.record["errors"]["relative_l2"]
    steps = "0" if solver.network.corrector is None else "5"
    drawn = Problem.random(solver.equation, solver.resolution, 6, seed=123, key=9)
    found = solve_reference(solver.equation, drawn.inputs.numpy())
    problem = Problem(solver.equation, found.inputs)
    solution = solver.solve(problem, steps=int(steps))
    error = relative_error(solution.tensor, torch.from_numpy(found.solution))
    assert card[steps] / 3 < float(error.mean()) < 3 * card[steps]


@pytest.mark.parametrize(
    ("name", "constants", "steps", "bound"),
    [
        ("poisson", {}, 15, 1e-6),
        ("poisson", {"scale": 1.0}, 15, 1e-6),
        ("helmholtz", {}, 15, 1e-6),
        ("helmholtz", {"wavenumber": 3.0}, 40, 1e-6),
        ("darcy", {}, 20, 1e-6),
        ("darcy", {"source": 200.0}, 20, 1e-6),
        ("nonlinear-helmholtz", {}, 40, 1e-5),
    ],
)
def test_contractive_models_converge(name, constants, steps, bound):
    equation = ns.Problem.random(EQUATIONS[name], 64).equation
    equation = type(equation)(**{**equation.constants(), **constants})
    problem = Problem.random(equation, 64, 3, seed=77, key=9)
    found = solve_reference(equation, problem.inputs.numpy())
    solution = ns.load(name).solve(problem, steps=steps)
    error = (solution.tensor - torch.from_numpy(found.solution)).flatten(1).norm(dim=1)
    error /= torch.from_numpy(found.solution).flatten(1).norm(dim=1)
    assert float(error.max()) < bound


@pytest.mark.parametrize("name", STATIC)
def test_finer_grids_that_are_not_nested(name):
    problem = Problem.random(EQUATIONS[name], 100, 1, seed=5, key=9)
    solution = ns.load(name).solve(problem, tolerance=1e-9)
    assert solution.good
    assert int(solution.steps.max()) <= 40
    found = solve_reference(problem.equation, problem.inputs.numpy())
    error = np.linalg.norm(solution.tensor.numpy() - found.solution)
    assert error < 1e-7 * np.linalg.norm(found.solution)


@pytest.mark.parametrize("wavenumber", [4.4, 6.0])
def test_indefinite_wavenumbers_with_acceleration(wavenumber):
    problem = Problem.random(ns.Helmholtz(wavenumber=wavenumber), 64, 1, seed=5, key=9)
    assert ns.load("helmholtz").solve(problem, tolerance=1e-9).good


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [("navier-stokes", {}), ("navier-stokes", {"forcing_wavenumber": 3}), ("kolmogorov", {})],
)
def test_flows_come_near_the_truth_on_any_grid(name, changes):
    solver = ns.load(name)
    equation = replace(solver.equation, **changes)
    drawn = Problem.random(equation, 96, 1, seed=8, key=9)
    found = solve_reference(equation, drawn.inputs.numpy())
    for points in (48, 64, 96):
        exact = truncate_spectrum(found.solution, points)
        solution = solver.solve(Problem(equation, exact[:, :, 0]))
        assert solution.good
        assert float(relative_error(solution.tensor, torch.from_numpy(exact))) < 0.05
        assert float(solution.relative_residual) < 1.0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("navier-stokes", {}),
        ("navier-stokes", {"viscosity": 1e-3, "forcing_amplitude": 0.5}),
        ("navier-stokes", {"frame_spacing": 0.4}),
        ("kolmogorov", {"viscosity": 1e-3}),
        ("kolmogorov", {"forcing_amplitude": 12.0}),
        ("kolmogorov", {"frame_spacing": 0.1}),
    ],
)
def test_flows_know_how_wrong_they_are(name, changes):
    """The truth is that of a grid twice as fine; half of these regimes have no good answer."""
    solver = ns.load(name)
    equation = replace(solver.equation, **changes)
    drawn = Problem.random(equation, 128, 1, seed=21, key=9)
    exact = truncate_spectrum(solve_reference(equation, drawn.inputs.numpy()).solution, 64)
    solution = solver.solve(Problem(equation, exact[:, :, 0]))
    error = relative_error(solution.tensor, torch.from_numpy(exact))
    ratio = solution.error_estimate / error
    assert bool(((ratio > 1 / 3) & (ratio < 3)).all())
    assert solution.good == (float(solution.error_estimate) <= GOOD_ERROR)
    assert solution.good or float(error) > GOOD_ERROR / 3


def test_units_do_not_matter_to_a_linear_model():
    """A source a million times smaller is solved as well in as many steps."""
    problem = Problem.random(ns.Helmholtz(), 64, 1, seed=6, key=9)
    solver = ns.load("helmholtz")
    large = solver.solve(problem, tolerance=1e-10)
    small = solver.solve(Problem(problem.equation, 1e-6 * problem.inputs), tolerance=1e-10)
    assert large.good
    assert small.good
    assert int(large.steps[0]) == int(small.steps[0])


@pytest.mark.slow
def test_demo_prints_the_table_and_draws_the_picture(tmp_path, capsys):
    assert run(["demo", "--output", str(tmp_path / "demo.png"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (tmp_path / "demo.png").stat().st_size > 50_000
    assert (tmp_path / "demo-sensors.png").stat().st_size > 50_000
    rows = {(row["equation"], row["method"]): row for row in result["rows"]}
    for name in STATIC:
        assert rows[name, "ENS accelerated"]["status"] == "TOLERANCE"
        assert rows[name, "ENS accelerated"]["residual"] <= 1e-10
        assert rows[name, "ENS 40 steps"]["error"] < rows[name, "FNO"]["error"]
        assert rows[name, "classical"]["seconds"] > 0
    for name in FLOWS:
        assert rows[name, "ENS accelerated"]["error"] < 0.1 * rows[name, "initial frame"]["error"]
        assert rows[name, "classical"]["error"] < rows[name, "ENS accelerated"]["error"]
        assert (tmp_path / f"demo-{name}.gif").read_bytes().startswith(b"GIF8")


def test_the_recipes_rank_as_the_readme_says(tmp_path):
    here = Evaluation(
        EXPERIMENTS["helmholtz"], SCALES["small"], tmp_path, data=tmp_path, seed=1, samples=2
    )
    rows = here.run(["fno", "ens", "ens-contractive", "reference"], ["in-distribution"])
    error = {row["method"]: row["error"] for row in rows}
    assert error["ens"] < 0.6 * error["fno"]
    assert error["ens-contractive"] < 1e-6 * error["ens"]
    assert error["reference"] < 1e-12


@pytest.mark.parametrize("name", ["helmholtz", "poisson", "darcy"])
def test_shipped_denoisers_reconstruct_and_agree(name):
    instance = Instances(Task(name, instances=1), 7)
    sampler = load_sampler(name, "diffusion-ens+ens", STEPS)
    samples, true = sampler.sample(instance.observed[0], 4, 7), instance.solutions[0, 0]
    assert float((samples.solutions[0, 0] - true).norm() / true.norm()) < 0.08
    assert float(samples.relative_residual.max()) < 1.01e-10
    spread = samples.deviation[1].norm() / true.norm()
    assert 0.001 < float(spread) < 0.1
