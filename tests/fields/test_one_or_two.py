"""Whatever works for one unknown field works for two: the same tests for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.data import read
from neuralsolver.fields.jacobian import linearisation, sparse_jacobian
from neuralsolver.plotting.pictures import draw_dataset
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.network_free import without_network
from neuralsolver.solvers.norms import field_norms
from neuralsolver.training.presets import scale_named
from neuralsolver.training.run import Training


@dataclass(frozen=True)
class Alone(ns.Equation):
    """Δu − u³ = f."""

    jacobian_depends_on = ("solution",)

    def residual(self, space, u, inputs):
        return ns.laplacian(u, space.grid) - space.zero_boundary(u**3 + inputs)

    def sample(self, rng, resolution):
        return 20.0 * ns.cosine_field(rng, resolution)[None]


@dataclass(frozen=True)
class Coupled(Alone):
    """Δu − v³ − f = 0, s(Δv − 5u + 4v − f) = 0, the second in other units."""

    unknowns: ClassVar[tuple[str, ...]] = ("first", "second")
    size: float = 1e-3

    def residual(self, space, u, inputs):
        a, b = u[:, :1], u[:, 1:]
        reaction = space.zero_boundary(torch.cat([-(b**3) - inputs, 4 * b - 5 * a - inputs], 1))
        return u.new_tensor([1.0, self.size]).view(2, 1, 1) * (
            ns.laplacian(u, space.grid) + reaction
        )


@pytest.fixture(scope="module", params=[1, 2])
def fields(request):
    """The number of unknown fields."""
    return request.param


@pytest.fixture(scope="module")
def equation(fields):
    return ns.register(Alone() if fields == 1 else Coupled())


@pytest.fixture(scope="module")
def solver(equation):
    """A solver that has not been trained: what it is given must still come out right."""
    torch.manual_seed(0)
    network = Training(equation, "contractive", scale_named("tiny"), 0).solver()
    return TrainedSolver(network, equation, 16, {})


def test_a_dataset_holds_every_field(equation, fields, tmp_path):
    ns.generate(ns.DatasetSpec(equation, count=3, resolution=12), tmp_path)
    (file,) = tmp_path.glob("*.h5")
    dataset = read(file)
    inputs, solution = dataset.tensors()
    assert solution.shape == (3, fields, 12, 12)
    residual = ns.Problem(equation, inputs).residual(solution)
    assert bool((field_norms(residual) < 1e-9).all())
    assert draw_dataset(dataset, tmp_path / "samples.png").stat().st_size > 10_000


@pytest.mark.parametrize("resolution", [16, 27])
def test_a_trained_solver_reaches_its_tolerance_in_every_field(solver, equation, resolution):
    problem = ns.Problem.random(equation, resolution, 3, seed=2)
    exact = ns.solve(problem, tolerance=1e-11).tensor
    for one in (solver, without_network(solver, 8)):
        solution = one.solve(problem, tolerance=1e-8)
        assert solution.good
        for value in solution.relative_residual_by_field.values():
            assert bool((value < 1e-7).all())
        assert bool((field_norms(solution.tensor - exact) < 1e-6 * field_norms(exact)).all())


def test_samples_are_solved_independently(solver, equation):
    problem = ns.Problem.random(equation, 16, 3, seed=2)
    together = solver.solve(problem, steps=3).tensor
    alone = solver.solve(problem.select([1]), steps=3).tensor
    torch.testing.assert_close(together[1:2], alone, rtol=1e-5, atol=1e-6)


def test_the_corrector_of_a_cycle_sees_every_field(solver, equation, fields):
    problem = ns.Problem.random(equation, 20, 1)
    u = ns.solve(problem).tensor
    inverse = solver.inverse(problem, u)
    for number in range(fields):
        right = torch.zeros_like(u)
        right[:, number, 8:12, 8:12] = 1.0
        assert bool((field_norms(inverse(right)) > 0).all())


def test_gradients_are_those_of_the_solution(solver, equation, fields):
    problem = ns.Problem.random(equation, 16, 1, seed=4)
    weights = torch.linspace(1, 2, 256 * fields).view(1, fields, 16, 16)

    def objective(inputs, tolerance=1e-11):
        u = solver.solve(ns.Problem(equation, inputs), tolerance=tolerance).tensor
        return (weights * u).sum()

    given = problem.inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(given), given)
    direction = torch.from_numpy(equation.sample(np.random.default_rng(8), 16))[None]
    with torch.no_grad():
        plus, minus = (objective(problem.inputs + s * 1e-3 * direction) for s in (1, -1))
    slope = float((gradient * direction).sum())
    assert slope == pytest.approx(float(plus - minus) / 2e-3, rel=1e-5)


def test_the_estimate_is_the_error(solver, equation):
    problem = ns.Problem.random(equation, 16, 2, seed=5)
    exact = ns.solve(problem, tolerance=1e-12).tensor
    solution = solver.solve(problem, tolerance=1e-4)
    error = (solution.tensor - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    np.testing.assert_allclose(solution.error_estimate, error, rtol=0.05)


def test_the_preconditioner_covers_every_unknown(solver, equation):
    problem = ns.Problem.random(equation, 16)
    (matrix,) = sparse_jacobian(problem, problem.first_guess())
    right = np.random.default_rng(0).standard_normal(matrix.shape[0])
    operator = solver.preconditioner(problem, linear=True)
    np.testing.assert_allclose(matrix @ (operator @ right), right, atol=1e-8)


def test_fixed_values_hold_in_the_field_they_are_given_for(equation, fields):
    mask = np.zeros((fields, 17, 17), dtype=bool)
    mask[-1, 6:9, 6:9] = True
    source = equation.sample(np.random.default_rng(3), 17)[0]
    problem = ns.Problem(equation, source, fixed=ns.FixedValues(mask, 0.25 * np.ones(mask.shape)))
    solution = ns.solve(problem, tolerance=1e-10)
    assert solution.good
    u = solution.u.reshape(fields, 17, 17)
    assert (u[mask] == 0.25).all()
    assert fields == 1 or not (u[0, 6:9, 6:9] == 0.25).any()
    free = torch.from_numpy(~mask)
    direction = torch.randn(1, fields, 17, 17, dtype=torch.float64) * free
    (matrix,) = sparse_jacobian(problem, solution.tensor)
    image = linearisation(problem, solution.tensor)(problem.space.zero_boundary(direction))
    vector = matrix @ problem.space.flatten(direction)[0].numpy()
    np.testing.assert_allclose(vector, problem.space.flatten(image)[0].numpy(), atol=1e-8)


def test_walls_hold_the_values_they_are_given(equation, fields):
    problem = ns.Problem(equation, np.zeros((17, 17)), walls=0.5)
    solution = ns.solve(problem, tolerance=1e-10)
    u = solution.u.reshape(fields, 17, 17)
    assert solution.good
    assert (u[:, 0] == 0.5).all()


def test_a_picture_shows_every_field(solver, equation, fields, tmp_path):
    solution = solver.solve(ns.Problem.random(equation, 16), tolerance=1e-6)
    figure = solution.plot(str(tmp_path / "solution.png"))
    titles = [axis.get_title() for axis in figure.axes]
    assert (tmp_path / "solution.png").stat().st_size > 10_000
    shown = ("solution",) if fields == 1 else equation.unknowns
    assert set(shown) <= set(titles)


def test_another_number_of_fields_is_refused(solver, fields):
    other = Coupled() if fields == 1 else Alone()
    with pytest.raises(ns.InvalidInput, match="an equation for"):
        solver.solve(ns.Problem.random(other, 16))


@pytest.mark.parametrize("domain", [{"lengths": (2, 1)}, {"sides": ("walls", "flux")}])
def test_other_boxes_need_nothing_from_the_equation(solver, equation, domain):
    drawn = ns.Problem.random(equation, 24, 2).inputs[..., :20]
    problem = ns.Problem(equation, drawn, **domain)
    exact = ns.solve(problem, tolerance=1e-11)
    found = solver.solve(problem, tolerance=1e-8)
    assert exact.good
    assert found.good
    difference = field_norms(found.tensor - exact.tensor)
    assert bool((difference < 1e-6 * field_norms(exact.tensor)).all())
