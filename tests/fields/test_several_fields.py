"""Several unknown fields: every part of the library treats them as it treats one."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.fields.jacobian import (
    divide_by_blocks,
    jacobian_blocks,
    jacobian_diagonal,
    jacobian_row_sums,
    linearisation,
    sparse_jacobian,
)
from neuralsolver.solvers.direct import newton_correction
from neuralsolver.solvers.norms import field_norms, residual_norm
from neuralsolver.solvers.smoothing import chebyshev_weights, smooth
from neuralsolver.solvers.solve import prepare

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Pair(ns.Equation):
    """Δu − c v = f, s(Δv + u³) = 0: coupled, of different sizes."""

    unknowns: ClassVar[tuple[str, ...]] = ("first", "second")
    coupling: float = 3.0
    size: float = 1.0

    def residual(self, space, u, inputs):
        a, b = u[:, :1], u[:, 1:]
        reaction = space.zero_boundary(torch.cat([-self.coupling * b - inputs, a**3], 1))
        top, bottom = (ns.laplacian(u, space.grid) + reaction).split(1, 1)
        return torch.cat([top, self.size * bottom], 1)

    def sample(self, rng, resolution):
        return 20.0 * ns.cosine_field(rng, resolution)[None]


@dataclass(frozen=True)
class Waves(ns.Equation):
    """Δu + iu = f for a complex u."""

    input_names: ClassVar[tuple[str, ...]] = ns.complex_field("source")
    unknowns: ClassVar[tuple[str, ...]] = ns.complex_field("wave")
    linear, jacobian_depends_on = True, ()

    def residual(self, space, u, inputs):
        i = u.new_tensor([0.0, 1.0]).view(1, 2, 1, 1)
        return ns.laplacian(u, space.grid) + space.zero_boundary(ns.complex_product(i, u) - inputs)

    def sample(self, rng, resolution):
        return np.stack([ns.cosine_field(rng, resolution) for _ in range(2)])


@dataclass(frozen=True)
class Insulated(ns.Equation):
    """Δu = f with u = 0 at the ends; v = Δv − f with zero flux through them."""

    unknowns: ClassVar[tuple[str, ...]] = ("held", "insulated")
    linear, jacobian_depends_on = True, ()

    @property
    def fields(self):
        return (ns.Field("held"), ns.Field("insulated", boundary=("neumann", "neumann")))

    def residual(self, space, u, inputs):
        held, insulated = space.grids
        top = ns.laplacian(u[:, :1], held) - held.zero_walls(inputs)
        bottom = ns.laplacian(u[:, 1:], insulated) - u[:, 1:] - inputs
        return torch.cat([top, bottom], 1)

    def sample(self, rng, resolution):
        return ns.cosine_field(rng, resolution)[None]


def problem_and_field(equation, batch=2, n=9):
    problem = ns.Problem.random(equation, n, batch)
    draw = torch.Generator().manual_seed(1)
    shape = (batch, *equation.solution_shape(n))
    u = problem.impose(torch.randn(shape, generator=draw, dtype=torch.float64))
    return problem, u


def dense(problem, u, index):
    """J of one sample over its unknowns, column by column."""
    jacobian, space = linearisation(problem.select([index]), u[index : index + 1]), problem.space
    columns = []
    for row in torch.eye(space.size, dtype=torch.float64):
        columns.append(space.flatten(jacobian(space.unflatten(row[None], u[:1])))[0])
    return torch.stack(columns, 1).numpy()


@pytest.mark.parametrize("equation", [ns.Helmholtz(nonlinearity=1.0), Pair(), Waves(), Insulated()])
def test_the_sparse_jacobian_is_the_derivative(equation):
    problem, u = problem_and_field(equation)
    for index, matrix in enumerate(sparse_jacobian(problem, u)):
        exact = dense(problem, u, index)
        np.testing.assert_allclose(matrix.toarray(), exact, atol=1e-9)
        rows = problem.space.flatten(jacobian_row_sums(problem, u))[index].numpy()
        sums, middle = np.abs(exact).sum(1), problem.space.size // 2
        assert (rows >= sums * (1 - 1e-12)).all()  # it counts the known neighbours, too
        np.testing.assert_allclose(rows[middle], sums[middle])
        diagonal = problem.space.flatten(jacobian_diagonal(problem, u))[index].numpy()
        np.testing.assert_allclose(diagonal, np.where(np.diag(exact) == 0, 1, np.diag(exact)))


def test_flattening_interleaves_the_fields_and_is_undone():
    problem, u = problem_and_field(Pair())
    vector = problem.space.flatten(u)
    assert torch.equal(vector[:, :2], u[:, :, 1, 1])
    assert torch.equal(problem.space.unflatten(vector, u), u)
    assert problem.space.size == 2 * 7 * 7


def test_blocks_are_solved_point_by_point():
    problem, u = problem_and_field(Pair(coupling=300.0))
    blocks = jacobian_blocks(problem, u)
    r = torch.randn(u.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = divide_by_blocks(r, blocks)
    torch.testing.assert_close(torch.einsum("bijxy,bjxy->bixy", blocks, found), r)


def test_sweeps_smooth_two_coupled_fields():
    problem, u = problem_and_field(Pair(coupling=300.0), n=17)
    blocks, before = jacobian_blocks(problem, u), residual_norm(problem.residual(u))
    _, after = smooth(problem, u, problem.residual(u), blocks, chebyshev_weights(4))
    assert bool((residual_norm(after) < 0.35 * before).all())


def test_the_answer_holds_every_unknown():
    for shape, answer in (((9, 9), (2, 9, 9)), ((3, 9, 9), (3, 2, 9, 9))):
        problem = ns.Problem(Pair(), np.ones(shape), batch=len(shape) == 3)
        u = problem.zeros()
        u[:, 1] = 7.0
        assert problem.restore(u).shape == answer
        assert problem.restore(u)[..., 1, 4, 4].max() == 7.0
        assert torch.equal(problem.adopt(problem.restore(problem.impose(u))), problem.impose(u))


def test_complex_in_complex_out():
    source = np.ones((9, 9)) * (1 + 2j)
    problem = ns.Problem(Waves(), source)
    assert problem.inputs[0, :, 0, 0].tolist() == [1.0, 2.0]
    u = newton_correction(problem, problem.zeros())
    assert float(residual_norm(problem.residual(u))) < 1e-12
    z = problem.restore(u)
    assert z.shape == (9, 9)
    assert z.dtype == np.complex128
    inside = z[1:-1, 1:-1]
    sums = z[2:, 1:-1] + z[:-2, 1:-1] + z[1:-1, 2:] + z[1:-1, :-2] - 4 * inside
    np.testing.assert_allclose(64 * sums + 1j * inside, source[1:-1, 1:-1], rtol=1e-10)
    assert torch.equal(problem.adopt(z), u)
    with pytest.raises(ns.InvalidInput, match="real numbers"):
        ns.Problem(ns.Poisson(), source)


def test_walls_of_a_complex_field_are_complex():
    problem = ns.Problem(Waves(), np.zeros((9, 9), complex), walls=lambda x, y: x + 1j * y)
    solution = ns.solve(problem, tolerance=1e-12)
    assert solution.good
    assert solution.u[0, 8] == 1j
    assert solution.u[8, 0] == 1.0
    with pytest.raises(ns.InvalidInput, match="real values"):
        ns.Problem(ns.Poisson(), np.zeros((9, 9)), walls=1j)
    with pytest.raises(ns.InvalidInput, match="real numbers"):
        ns.FixedValues(np.ones((9, 9), bool), 1j * np.ones((9, 9)))


def test_walls_hold_no_field_without_them():
    problem = ns.Problem(Insulated(), np.ones((9, 9)), walls=2.0)
    held, insulated = ns.solve(problem, tolerance=1e-12).u
    assert (held[0] == 2.0).all()
    np.testing.assert_allclose(insulated, -1.0, rtol=1e-10)  # v = Δv − 1


def test_a_norm_sees_imaginary_parts_and_every_field():
    assert float(residual_norm(torch.full((1, 1, 2, 2), 3 + 4j))) == pytest.approx(5.0)
    fields = torch.stack([torch.full((2, 2), 1.0), torch.full((2, 2), 1e-6)])[None]
    assert field_norms(fields).tolist()[0] == pytest.approx([1.0, 1e-6])


def test_no_field_hides_behind_another():
    problem, u = problem_and_field(Pair(coupling=0.0, size=1e-5), batch=1)
    assert problem.field_units.flatten().tolist() == pytest.approx([1.0, 1e-5], rel=1e-2)
    u = newton_correction(problem, problem.zeros())
    u[:, 1] += problem.impose(torch.ones_like(u))[:, 1]  # wrong in the field of small numbers only
    assert float(residual_norm(problem.preconditioned_residual(problem.residual(u)))) > 1.0


@dataclass(frozen=True)
class Apart(Pair):
    """Δu = f and Δv = s f, which have nothing to do with each other, and are of sizes 1 and s."""

    linear, jacobian_depends_on = True, ()

    def residual(self, space, u, inputs):
        sources = torch.cat([inputs, self.size * inputs], 1)
        return ns.laplacian(u, space.grid) - space.zero_boundary(sources)


@pytest.mark.parametrize("size", [1e6, 1e-6, 1e12])
def test_two_unknowns_of_different_sizes_count_in_their_own_units(size):
    problem = ns.Problem.random(Apart(size=size), 17)
    first, second = problem.field_units.flatten().tolist()
    assert second / first == pytest.approx(size, rel=1e-12)
    solution = ns.solve(problem, tolerance=1e-9)
    assert solution.good
    u = solution.tensor.clone()
    torch.testing.assert_close(u[:, 1], size * u[:, 0], rtol=1e-9, atol=0.0)
    for wrong in (0, 1):  # wrong by a tenth of itself, in one of them
        v = u.clone()
        v[:, wrong] *= 1.1
        relative = [
            float(residual_norm(problem.preconditioned_residual(problem.residual(w))))
            for w in (v, problem.zeros())
        ]
        assert relative[0] / relative[1] == pytest.approx(0.1 / 2**0.5, rel=1e-6)


def test_a_source_next_to_nothing_is_no_unit_of_a_field_that_is_driven_by_another():
    class Driven(Apart):
        def residual(self, space, u, inputs):
            driven = torch.cat([inputs, self.size * inputs + 5 * u[:, :1]], 1)
            return ns.laplacian(u, space.grid) - space.zero_boundary(driven)

    problem = ns.Problem.random(Driven(size=1e-13), 33)
    assert problem.field_units.flatten().tolist() == pytest.approx([1.0, 1.0], rel=0.1)
    assert ns.solve(problem, tolerance=1e-10).good


@pytest.mark.parametrize("equation", [Pair(size=1e-5), Waves(), Insulated()])
def test_the_classical_solver_takes_several_fields(equation):
    problem = ns.Problem.random(equation, 17, 3)
    solution = ns.solve(problem, tolerance=1e-9)
    assert solution.good
    assert solution.notes["method"] == ("sparse LU" if equation.linear else "Newton")
    relative = solution.relative_residual_by_field
    assert tuple(relative) == equation.unknowns
    assert all(bool((value < 1e-8).all()) for value in relative.values())
    assert bool((solution.error_estimate < 1e-6).all())
    if equation.linear:
        prepared = prepare(problem.select([0])).solve(problem, tolerance=1e-9)
        torch.testing.assert_close(prepared.tensor, solution.tensor)


def test_a_sensor_on_a_flow_is_refused_in_words():
    places = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    sensors = ns.Sensors(places, "vorticity", [1.0, -1.0, 0.5, 0.0])
    with pytest.raises(ns.InvalidInput, match="field of a sensor"):
        ns.Observed(ns.NavierStokes(), 16, sensors)
    named = ns.Sensors(places, "second", [1.0, -1.0, 0.5, 0.0])
    observed = ns.Observed(Pair(), 9, named)
    assert not observed.inputs_only
    problem, u = problem_and_field(Pair())
    assert observed.read_off(problem.inputs, u)[0, 0] == u[0, 1, 2, 2]


@pytest.mark.parametrize("equation", [Pair(), Waves(), Insulated()])
def test_the_generic_reference_solves_several_fields(equation):
    ns.check_equation(equation)
    drawn = np.stack([equation.sample(np.random.default_rng(i), 12) for i in range(2)])
    answer = solve_reference(equation, drawn)
    assert answer.solved.all()
    problem = ns.Problem(equation, torch.from_numpy(drawn))
    residual = problem.residual(torch.from_numpy(answer.solution))
    assert bool((field_norms(residual) < 1e-9).all())


def test_declarations_are_tried_field_by_field():
    class Wrong(Pair):
        linear, jacobian_depends_on = True, ()

    with pytest.raises(ns.InvalidInput, match=r"affine in u \(field second\)") as caught:
        ns.check_equation(Wrong(size=1e-9))
    assert "(field first)" in str(caught.value)  # ∂F/∂u₁ depends on u
    assert "affine in u (field first)" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("file", "name"),
    [("reaction_diffusion.py", "reaction-diffusion"), ("damped_helmholtz.py", "damped-helmholtz")],
)
def test_an_example_trains_and_solves_from_python_and_the_shell(tmp_path, file, name):
    assert len((EXAMPLES / file).read_text().splitlines()) <= 40

    def run(*command):
        done = subprocess.run(
            [sys.executable, "-W", "error", *map(str, command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed = run(EXAMPLES / file, "runs")
    assert re.search(r"16x16, \d samples?: TOLERANCE", printed)
    (model,) = tmp_path.glob("runs/**/model")
    ens = ("-m", "neuralsolver.cli", "--equation-module", EXAMPLES / file)
    options = ("--resolution", 24, "--tolerance", "1e-8", "--output", "u.npy", "--plot", "u.png")
    assert "TOLERANCE" in run(*ens, "solve", model, *options)
    u = np.load(tmp_path / "u.npy")
    complex_one = "complex" in printed
    assert u.dtype.kind == ("c" if complex_one else "f")
    assert u.shape == ((1, 24, 24) if complex_one else (2, 24, 24))
    assert name in run(*ens, "list")
