"""Solving without a network, and the same door from Python as from the shell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.equations import Grid
from neuralsolver.solvers.sparse_lu import SparseLU


@dataclass(frozen=True)
class Advected(ns.Equation):
    """A linear equation of a user that is neither symmetric nor of one stencil."""

    linear, jacobian_depends_on = True, ()

    def residual(self, space, u, inputs):
        x = torch.linspace(0, 1, u.shape[-1], dtype=u.dtype)
        return ns.laplacian(u, space.grid) - space.zero_boundary((400 * x) * u + inputs)

    def sample(self, rng, resolution):
        return ns.cosine_field(rng, resolution)[None]


def holding_a_disc(n=24):
    problem = ns.Problem.random(ns.Poisson(), n)
    x, y = np.meshgrid(*[np.linspace(0, 1, n)] * 2, indexing="ij")
    return problem.holding((x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.04, 0.3)


CASES = {
    "poisson": (lambda: ns.Problem.random(ns.Poisson(), 33, count=3), "sine transform"),
    "kappa 40": (lambda: ns.Problem.random(ns.Helmholtz(wavenumber=40.0), 64), "sine transform"),
    "walls": (lambda: ns.Problem.random(ns.Poisson(), 20).holding(None, 2.0), "sine transform"),
    "a disc": (holding_a_disc, "sparse LU"),
    "zero flux": (
        lambda: ns.Problem(ns.Poisson(), np.ones((20, 30)), sides=("walls", "flux")),
        "sparse LU",
    ),
    "darcy": (lambda: ns.Problem.random(ns.Darcy(), 32, count=2), "sparse LU"),
    "of a user": (lambda: ns.Problem.random(Advected(), 24, count=2), "sparse LU"),
    "nonlinear": (lambda: ns.Problem.random(ns.Helmholtz(1.5, 1.0), 24), "Newton"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_problem_chooses_its_method(case):
    make, method = CASES[case]
    solution = ns.solve(make(), tolerance=1e-9)
    assert solution.notes["method"] == method
    assert solution.good
    assert float(solution.relative_residual.max()) <= 1e-9
    assert int(solution.steps.max()) <= (12 if method == "Newton" else 3)


def test_large_definite_problems_go_to_multigrid(monkeypatch):
    monkeypatch.setattr("neuralsolver.solvers.solve.LARGE", {2: 100})
    solution = ns.solve(ns.Problem.random(ns.Darcy(), 48, count=2), tolerance=1e-9)
    assert solution.good
    assert solution.notes["method"] == "multigrid"
    # past resonance V-cycles do not converge: factors at once
    held = ns.Problem.random(ns.Helmholtz(wavenumber=40.0), 48).holding(np.eye(48, dtype=bool), 0.0)
    assert ns.solve(held, tolerance=1e-9).notes["method"] == "sparse LU"


def test_a_flow_needs_no_network_either():
    flow = ns.NavierStokes(viscosity=0.05)
    solution = ns.solve(ns.Problem.random(flow, 16), tolerance=1e-5)
    assert solution.good
    assert float(solution.relative_residual) <= 1e-5


def test_extreme_units_are_left_outside():
    problem = ns.Problem(ns.Poisson(scale=1e-120), 1e-30 * np.ones((16, 16)))
    solution = ns.solve(problem, tolerance=1e-10)
    assert solution.good
    expected = 1e-150 * ns.solve(ns.Problem(ns.Poisson(scale=1.0), np.ones((16, 16))), 1e-12).u
    np.testing.assert_allclose(solution.u, expected, rtol=1e-9)


def counted(monkeypatch):
    count = []

    class Counted(SparseLU):
        def __init__(self, *arguments, **options):
            count.append(1)
            super().__init__(*arguments, **options)

    monkeypatch.setattr("neuralsolver.solvers.direct.SparseLU", Counted)
    return count


def sourced(permeability, count, seed=0):
    rng = np.random.default_rng(seed)
    n = permeability.shape[-1]
    source = rng.standard_normal((count, n, n))
    return ns.Problem(
        ns.Darcy(source="field"), np.stack([np.broadcast_to(permeability, source.shape), source], 1)
    )


def test_many_sources_of_one_operator_take_one_factorisation(monkeypatch):
    count = counted(monkeypatch)
    permeability = ns.Problem.random(ns.Darcy(), 32).inputs[0, 0].numpy()
    prepared = ns.load("darcy").prepare(sourced(permeability, 1))
    for seed in range(1, 4):
        solution = prepared.solve(sourced(permeability, 5, seed), tolerance=1e-9)
        assert solution.good
        assert float(solution.relative_residual.max()) <= 1e-9
    assert len(count) == 1
    assert ns.solve(sourced(permeability, 7), tolerance=1e-9).good
    assert len(count) == 2


def test_another_operator_is_refused():
    permeability = ns.Problem.random(ns.Darcy(), 32).inputs[0, 0].numpy()
    prepared = ns.load("darcy").prepare(sourced(permeability, 1))
    changed = permeability.copy()
    changed[3, 4] *= 1.001
    with pytest.raises(ns.InvalidInput, match="another operator"):
        prepared.solve(sourced(changed, 1))
    with pytest.raises(ns.InvalidInput, match="another operator"):
        prepared.solve(sourced(np.ones((24, 24)), 1))
    both = torch.cat([sourced(permeability, 1).inputs, sourced(changed, 1).inputs])
    with pytest.raises(ns.InvalidInput, match="one operator"):
        ns.load("darcy").prepare(ns.Problem(ns.Darcy(source="field"), both))
    with pytest.raises(ns.InvalidInput, match="linear"):
        ns.load("darcy").prepare(ns.Problem.random(ns.Helmholtz(1.5, 1.0), 24))
    disc = holding_a_disc()
    with pytest.raises(ns.InvalidInput, match="another operator"):
        ns.load("darcy").prepare(disc).solve(ns.Problem.random(ns.Poisson(), 24))


def test_a_singular_operator_is_no_answer():
    n = 24
    resonance = ns.Problem.random(ns.Helmholtz(wavenumber=1.0), n)
    eigenvalue = 2 * (4 * (n - 1) ** 2) * np.sin(np.pi / (n - 1) / 2) ** 2
    singular = ns.Helmholtz(wavenumber=float(np.sqrt(eigenvalue)))
    held = ns.Problem(singular, resonance.inputs, grid=Grid.between_walls(n, n))
    solution = ns.solve(held, tolerance=1e-9)
    assert solution.good == bool(solution.relative_residual <= 1e-9)


def test_python_finishes_as_the_shell_does():
    solver = ns.load("helmholtz")
    problem = ns.Problem.random(ns.Helmholtz(wavenumber=40.0), 64, seed=1)
    solution = solver.solve(problem, tolerance=1e-11)
    assert solution.good
    assert float(solution.relative_residual) <= 1e-11


@pytest.mark.parametrize("points", [64, 96])
def test_many_wavelengths_are_solved_directly_at_once(points):
    """Few points a wavelength and an indefinite operator: no useless steps of a network."""
    problem = ns.Problem.random(ns.Helmholtz(wavenumber=40.0), points, count=2, seed=1)
    seen = []
    solution = ns.load("helmholtz").solve(problem, tolerance=1e-9, observe=seen.append)
    assert solution.good
    assert int(solution.steps.max()) <= 2
    assert len(seen) <= 3
    assert "a direct solver" in solution.summary()
    assert torch.allclose(solution.tensor, ns.solve(problem, tolerance=1e-9).tensor, atol=1e-9)


def test_an_operator_with_empty_columns_is_refused_not_crashed_on():
    """The wide stencil at a few points: SuperLU ends the process on such a matrix."""
    solution = ns.solve(ns.Problem.random(ns.Darcy(stencil="wide"), 12))
    assert not solution.good
