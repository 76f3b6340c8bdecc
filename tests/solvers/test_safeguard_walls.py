"""Between walls: a corrector that leads nowhere, and inputs far from any it has seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.equations import EQUATIONS, Darcy, Equation, Helmholtz, Poisson, Problem
from neuralsolver.models import FNO
from neuralsolver.solvers import NeuralSolver, Status, TrainedSolver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.training import load

POINTS = 32
CUBIC = EQUATIONS["nonlinear-helmholtz"]


def harmful(equation: Equation) -> TrainedSolver:
    """A corrector of random weights that answers with noise as large as a solution."""
    torch.manual_seed(3)
    reads = (*equation.jacobian_depends_on, "error")
    network = FNO(len(reads), 1, width=8, layers=2, max_wavenumber=[4, 4])
    neural = NeuralSolver(
        None,
        network,
        error="scaled_residual",
        corrector_reads=reads,
        smoothing=2,
        step_size=1.0,
    )
    return TrainedSolver(neural, equation, POINTS, {})


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("equation", [Poisson(), Helmholtz(), CUBIC, Darcy()])
def test_a_harmful_corrector_ends_as_well_as_none(equation, accelerate):
    solver, problem = harmful(equation), Problem.random(equation, POINTS, 2, seed=1)
    options = {"tolerance": 1e-8, "accelerate": accelerate}
    guarded = solver.solve(problem, **options)
    assert guarded.good
    free = without_network(solver).solve(problem, **options)
    assert (guarded.relative_residual <= free.relative_residual.clamp_min(1e-8)).all()
    # flexible methods make something of any direction; the plain iteration does not
    if not accelerate:
        assert guarded.notes["answer_by"] == ["classical"] * 2
        assert "without the network" in guarded.summary()


@pytest.mark.parametrize("points", [POINTS, 50])
def test_the_samples_that_fail_are_solved_again_and_no_others(points):
    class Selective(torch.nn.Module):
        """Harms the samples whose permeability is small in the middle."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            middle = x[:, :1, x.shape[-2] // 2, x.shape[-1] // 2, None, None]
            return torch.where(middle < 0, 100.0 * x[:, 1:].sign(), 0.0 * x[:, 1:])

    network = NeuralSolver(
        None,
        Selective(),
        error="scaled_residual",
        corrector_reads=("inputs", "error"),
        smoothing=2,
        step_size=1.0,
    )
    solver = TrainedSolver(network, Darcy(), POINTS, {})
    inputs = np.full((2, 1, points, points), 12.0)
    inputs[0] = 3.0
    inputs[0, 0, 0, 0] = inputs[1, 0, 0, 0] = 12.0
    inputs[1, 0, 0, 1] = 3.0
    problem = Problem(Darcy(), inputs)
    # the second is solved by sweeps alone
    solution = solver.solve(problem, tolerance=1e-2, accelerate=True)
    assert solution.good
    assert solution.notes["answer_by"] == ["classical", "network"] or points != POINTS


def test_what_is_at_its_tolerance_costs_nothing_more():
    solver = load("darcy")
    problem = Problem.random(Darcy(), 64, seed=3)
    stages = []
    solution = solver.solve(problem, tolerance=1e-8, observe=lambda seen: stages.append(seen.stage))
    assert solution.status == (Status.TOLERANCE,)
    assert set(stages) == {"solve"}
    assert "without the network" not in solution.summary()


def far_away(kind: str) -> torch.Tensor:
    source = torch.zeros(1, 1, 64, 64, dtype=torch.float64)
    if kind == "white noise":
        generator = torch.Generator().manual_seed(0)
        source = 100 * torch.randn(source.shape, generator=generator, dtype=torch.float64)
    elif kind == "point source":
        source[..., 20, 40] = 1e4
    else:
        i = torch.arange(64)
        source[:] = 100.0 * (-1.0) ** (i[:, None] // 4 + i // 4)
    return source


@pytest.mark.parametrize("kind", ["white noise", "point source", "checkerboard"])
@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz"])
def test_far_away_sources_converge(name, kind):
    solver = load(name)
    problem = Problem(solver.equation, far_away(kind))
    assert solver.solve(problem, tolerance=1e-8).good
    assert solver.solve(problem, tolerance=1e-8, accelerate=False).good


@pytest.mark.parametrize("kind", ["white noise", "point source", "checkerboard"])
def test_far_away_permeabilities_converge(kind):
    solver = load("darcy")
    pattern = far_away(kind)
    permeability = torch.exp(3.0 * pattern / pattern.abs().max())
    problem = Problem(Darcy(), permeability)
    assert solver.solve(problem, tolerance=1e-8).good


def test_contrasts_that_a_corrector_may_not_know_converge():
    solver = load("darcy")
    for medium in ("two-phase", "log-normal"):
        problem = Problem.random(Darcy(low=0.5, high=150.0, medium=medium), 64, 2, seed=4)
        assert solver.solve(problem, tolerance=1e-8).good
