"""The stored solutions solve the stored equations."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from neuralsolver.data.reference_solution import (
    ReferenceSolution,
    solve_reference,
    truncate_spectrum,
)
from neuralsolver.equations import (
    Darcy,
    Equation,
    Helmholtz,
    NavierStokes,
    Poisson,
    Problem,
    generator,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.fields.stencils import laplacian
from neuralsolver.reference import cosine_field


@dataclass(frozen=True)
class AllenCahn(Equation):
    """ε²Δu + u − u³ = f, which no reference solver knows."""

    width: float = 0.4

    def residual(self, space, u, inputs):
        return self.width**2 * laplacian(u, space.grid) + space.zero_boundary(u - u**3 - inputs)

    def sample(self, rng, resolution):
        return 2.0 * cosine_field(rng, resolution)[None]


def draw(equation, count=3, n=20):
    return np.stack([equation.sample(generator(1, i), n) for i in range(count)])


@pytest.mark.parametrize(
    "equation",
    [
        Poisson(),
        Helmholtz(wavenumber=3.0),
        Helmholtz(wavenumber=2.0, nonlinearity=1.0),
        Darcy(),
        AllenCahn(),
    ],
    ids=lambda equation: equation.name,
)
def test_the_residual_of_the_truth_is_round_off(equation):
    drawn = draw(equation)
    answer = solve_reference(equation, drawn)
    assert answer.solved.all()
    problem = Problem(equation, torch.from_numpy(answer.inputs))
    residual = problem.residual(torch.from_numpy(answer.solution)).abs().max()
    assert residual < 1e-10 * problem.residual(problem.zeros()).abs().max()
    alone = solve_reference(equation, drawn[1:2])
    np.testing.assert_array_equal(alone.solution[0], answer.solution[1])


def test_darcy_keeps_the_flux_discretisation_whatever_the_residual_stencil():
    drawn = draw(Darcy())
    wide = solve_reference(Darcy(stencil="wide"), drawn)
    np.testing.assert_array_equal(wide.solution, solve_reference(Darcy(), drawn).solution)


def test_fields_without_a_solution_are_flagged():
    hard = Helmholtz(wavenumber=3.0, nonlinearity=4.0, source_amplitude=200.0)
    answer = solve_reference(hard, draw(hard, 12))
    assert not answer.solved.all()


def test_the_default_solver_flags_what_it_cannot_solve():
    @dataclass(frozen=True)
    class Impossible(AllenCahn):
        def residual(self, space, u, inputs):
            return space.zero_boundary(u**2 + 1.0 + 0 * inputs)

    assert not solve_reference(Impossible(), draw(Impossible(), 1)).solved.any()


def test_a_periodic_equation_needs_a_solver_of_its_own():
    @dataclass(frozen=True)
    class Transport(AllenCahn):
        boundary = "periodic"

    with pytest.raises(InvalidInput, match="registered"):
        solve_reference(Transport(), draw(Transport()))

    @solve_reference.register
    def solve(equation: Transport, drawn: np.ndarray) -> ReferenceSolution:
        return ReferenceSolution(drawn, drawn, np.ones(len(drawn), dtype=bool))

    assert solve_reference(Transport(), draw(Transport())).solved.all()


def test_a_flow_starts_at_its_start_time():
    flow = NavierStokes(start_time=0.5, frame_spacing=0.1, frames=2)
    early = NavierStokes(start_time=0.0, frame_spacing=0.5, frames=2)
    drawn = draw(flow, 2, 64)
    late, whole = solve_reference(flow, drawn), solve_reference(early, drawn)
    np.testing.assert_array_equal(late.inputs, late.solution[:, :, 0])
    np.testing.assert_allclose(late.inputs, whole.solution[:, :, 1], atol=1e-6)


def test_truncating_the_spectrum_keeps_what_fits_on_the_grid():
    def wave(n):
        r = np.arange(n) / n
        return np.cos(2 * np.pi * (3 * r[:, None] - 2 * r)) + np.sin(2 * np.pi * 7 * r) + 0.5

    high = np.cos(2 * np.pi * 9 * np.arange(64) / 64)[:, None]
    np.testing.assert_allclose(truncate_spectrum(wave(64) + high, 16), wave(16), atol=1e-13)
    assert truncate_spectrum(wave(64), 64).shape == (64, 64)


def test_the_residual_of_a_true_flow_is_the_error_of_the_time_difference():
    """Halving the frame spacing divides the mean square by 16 inside and by 4 at the ends."""
    levels = []
    for refinement in (1, 2):
        equation = NavierStokes(frame_spacing=0.2 / refinement, frames=6 * refinement)
        answer = solve_reference(equation, draw(equation, count=1, n=64))
        trajectory = torch.from_numpy(answer.solution)
        squares = Problem(equation, torch.from_numpy(answer.inputs)).residual(trajectory).square()
        ends = squares[:, :, [0, -1]].mean()
        levels.append((float(squares[:, :, 1:-1].mean()), float(ends)))
    (inside, ends), (finer_inside, finer_ends) = levels
    assert 1e-7 < inside < 1e-5
    assert 6 < inside / finer_inside < 20
    assert 3 < ends / finer_ends < 5


def test_a_jacobian_that_depends_on_nothing_is_factored_once(monkeypatch):
    @dataclass(frozen=True)
    class Linear(AllenCahn):
        linear = True
        jacobian_depends_on = ()
        shift: float = 1.0

        def residual(self, space, u, inputs):
            return space.zero_boundary(laplacian(u, space.grid) - self.shift * u - inputs)

    made = []
    # the package has a function of the same name as the module
    truth_module = sys.modules["neuralsolver.data.reference_solution"]
    factorised = truth_module.factorised

    def counting(matrix):
        made.append(matrix.shape)
        return factorised(matrix)

    monkeypatch.setattr(truth_module, "factorised", counting)
    for _ in range(3):  # blocks of one dataset
        assert solve_reference(Linear(), draw(Linear(), 4)).solved.all()
    assert len(made) == 1
    # other constants and another grid have factors of their own
    assert solve_reference(Linear(shift=2.0), draw(Linear(), 2)).solved.all()
    assert len(made) == 2
    assert solve_reference(Linear(), draw(Linear(), 2)).solved.all()
    assert len(made) == 3
