"""Test-time optimisation and the PINN: weights as unknowns, the residual as loss."""

from __future__ import annotations

import pytest
import torch

from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, NavierStokes, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.models import FNO
from neuralsolver.solvers import NeuralSolver, Status
from paper.physics_informed import PINN, TestTimeOptimisation
from tests.networks import Constant, sine_solver

STATIC = ("helmholtz", "nonlinear-helmholtz", "darcy")


def tiny(channels: int = 1, **settings: object) -> NeuralSolver:
    torch.manual_seed(0)
    network = FNO(1, channels, width=8, layers=2, max_wavenumber=(4, 4))
    return NeuralSolver(network, **settings)


def problem_of(name: str, count: int = 1) -> Problem:
    return Problem.random(EQUATIONS[name], 16, count=count, seed=1)


def short(network: NeuralSolver, steps: int = 5) -> TestTimeOptimisation:
    return TestTimeOptimisation(network, steps=steps, milestones=(steps // 2,))


@pytest.mark.parametrize("name", STATIC)
def test_optimisation_lowers_the_residual_and_leaves_the_network_alone(name):
    problem, network = problem_of(name), tiny()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    solution = TestTimeOptimisation(network, steps=150).solve(problem)
    assert solution.status == (Status.FINISHED,)
    assert solution.steps.tolist() == [150]
    assert float(solution.residual_norms[-1, 0]) < 0.6 * float(solution.residual_norms[0, 0])
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(weight.grad is None for weight in network.parameters())


def test_optimisation_starts_from_the_prediction_and_is_observed():
    problem, network, seen = problem_of("helmholtz", count=2), tiny(), []
    solution = short(network).solve(problem, observe=seen.append)
    with torch.no_grad():
        prediction = network.predict(problem)
    for i in range(2):
        steps = [one for one in seen if one.samples.tolist() == [i]]
        assert [one.step for one in steps] == list(range(6))
        assert torch.allclose(steps[0].u[0], prediction[i], rtol=1e-4, atol=1e-6)
        # the last iterate is the answer
        assert torch.equal(steps[-1].u[0], solution.tensor[i])
        assert solution.residual_norms[:, i].isfinite().all()
    assert not any(one.u.requires_grad for one in seen)


def test_one_step_is_one_step_of_adam_on_the_relative_residual():
    problem, network = problem_of("nonlinear-helmholtz").in_precision(torch.float32), tiny()
    solution = TestTimeOptimisation(network, steps=3, learning_rate=1e-3, milestones=(2,)).solve(
        problem
    )
    copy = tiny()
    optimiser = torch.optim.Adam(copy.parameters(), 1e-3)
    scale = problem.residual(problem.zeros()).norm()
    for step in range(3):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 if step < 2 else 0.5e-3
        optimiser.zero_grad()
        (problem.residual(copy.predict(problem)).norm() / scale).backward()
        optimiser.step()
    with torch.no_grad():
        assert torch.allclose(solution.tensor, copy.predict(problem), rtol=1e-5, atol=1e-5)


def test_frozen_weights_and_a_corrector_are_no_obstacle():
    network = tiny(corrector=Constant(1.0)).requires_grad_(False)
    solution = short(network).solve(problem_of("helmholtz"))
    assert solution.good
    assert not torch.equal(solution.residual_norms[0], solution.residual_norms[-1])
    assert not any(weight.requires_grad for weight in network.parameters())


def test_a_flow_keeps_its_first_frame_exactly():
    problem = Problem.random(NavierStokes(frames=3), 16, count=1)
    solution = short(tiny(channels=4), steps=20).solve(problem)
    assert float(solution.residual_norms[-1, 0]) < float(solution.residual_norms[0, 0])
    assert torch.equal(solution.tensor[:, :, 0], problem.inputs)


@pytest.mark.parametrize("name", STATIC)
def test_pinn_solves_with_exact_walls(name):
    problem = problem_of(name)
    solution = PINN(width=20, depth=3, steps=400).solve(problem)
    assert solution.good
    assert float(solution.relative_residual[0]) < 0.5 * float(
        solution.residual_norms[0, 0] / solution.residual_scale[0]
    )
    assert torch.equal(solution.tensor, problem.impose(solution.tensor))
    exact = torch.from_numpy(solve_reference(problem.equation, problem.inputs.numpy()).solution)
    assert float((solution.tensor - exact).norm() / exact.norm()) < 0.35


def test_pinn_depends_on_its_seed_and_not_on_the_global_one():
    problem, state = problem_of("helmholtz"), torch.get_rng_state()
    first, other = (PINN(steps=2, seed=seed).solve(problem).tensor for seed in (0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert torch.equal(first, PINN(steps=2).solve(problem).tensor)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("solver", [short(tiny()), PINN(width=8, depth=2, steps=5)])
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_solving_together_is_solving_alone(solver, precision):
    problem = problem_of("nonlinear-helmholtz", count=3).in_precision(precision)
    inputs = problem.inputs.clone()
    together, again = solver.solve(problem), solver.solve(problem)
    assert torch.equal(together.tensor, again.tensor)
    assert torch.equal(problem.inputs, inputs)
    assert together.tensor.dtype == precision
    for i in range(3):
        alone = solver.solve(problem.select([i]))
        assert torch.equal(alone.tensor[0], together.tensor[i])
        assert torch.equal(alone.residual_norms[:, 0], together.residual_norms[:, i])


def test_solution_comes_as_the_inputs_did():
    problem = Problem(EQUATIONS["helmholtz"], problem_of("helmholtz").inputs[0, 0].numpy())
    assert short(tiny()).solve(problem).u.shape == (16, 16)


def test_not_finite_is_divergence_of_its_sample():
    inputs = problem_of("helmholtz", count=2).inputs.clone()
    inputs[0] *= 1e36  # the residual of what the network makes of it does not fit into float32
    solution = short(tiny()).solve(Problem(EQUATIONS["helmholtz"], inputs))
    assert solution.status == (Status.DIVERGED, Status.FINISHED)
    assert torch.isfinite(solution.tensor).all()
    assert solution.residual_norms[-1, 0].isnan()


def test_large_numbers_are_no_obstacle():
    """Units are free: residuals whose square overflows in float32 are optimised all the same."""
    problem = Problem(EQUATIONS["helmholtz"], 1e30 * problem_of("helmholtz").inputs)
    solution = short(tiny(), steps=60).solve(problem)
    assert solution.good
    assert float(solution.residual_norms[-1, 0]) < 0.5 * float(solution.residual_norms[0, 0])


def test_a_vanishing_source_has_a_loss_too():
    problem = Problem(EQUATIONS["helmholtz"], torch.zeros(1, 1, 16, 16))
    solution = PINN(width=8, depth=2, steps=60).solve(problem)
    assert solution.good
    assert float(solution.residual_norms[-1, 0]) < 0.5 * float(solution.residual_norms[0, 0])


def test_no_memory_is_a_status(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch.optim.Adam, "step", full)
    solution = PINN(width=8, depth=2).solve(problem_of("helmholtz", count=2))
    assert solution.status == (Status.OUT_OF_MEMORY,) * 2


def test_bad_settings_name_the_field():
    problem = problem_of("helmholtz")
    flow = Problem.random(NavierStokes(frames=2), 16)
    for build in (
        lambda: TestTimeOptimisation(sine_solver()),
        lambda: TestTimeOptimisation(tiny(), steps=-1),
        lambda: TestTimeOptimisation(tiny(), learning_rate=0.0),
        lambda: short(tiny()).solve(problem, problem.zeros()),
        lambda: PINN(width=0),
        lambda: PINN(depth=0),
        lambda: PINN().solve(flow),
        lambda: PINN().solve(problem, problem.zeros()),
    ):
        with pytest.raises(InvalidInput, match=r"expected .* got"):
            build()
