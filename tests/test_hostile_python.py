"""The Python door: calls that no user should make end in an answer or in one `InvalidInput`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import neuralsolver as ns
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import Status, TrainedSolver
from tests.networks import sine_solver

N = 12
GOOD = object()
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}
RNG = np.random.default_rng(0)
FIELD = RNG.random((N, N)) + 1.0

NUMBERS = st.sampled_from(
    [0, 1, -1, 2.5, 0.0, 1e200, 1e-200, 5e-324, float("nan"), float("inf"), 10**400, True, None,
     "2", "x", "", b"1", 1 + 2j, [1.0], (2.0,), {}, np.float32(2), np.int64(3), np.array(2.0),
     np.array([1.0, 2.0]), torch.tensor(2.0), torch.tensor([1.0, 2.0]), torch.tensor(1 + 1j),
     np.datetime64("2020-01-01"), object(), lambda: 1]
)  # fmt: skip

ARRAYS = st.sampled_from(
    [FIELD, FIELD.astype(np.float32), FIELD.astype(np.float16), torch.tensor(FIELD), FIELD.tolist(),
     (10 * FIELD).astype(int), FIELD.astype(complex), FIELD.astype(str), FIELD.astype(object),
     FIELD.astype("M8[s]"), FIELD.astype([("a", float)]), FIELD * np.nan, FIELD * 1e200,
     FIELD * 1e-200, FIELD * 1e-320, FIELD * 1e307, -FIELD, 0 * FIELD, FIELD > 1.5, FIELD[:5, :5],
     FIELD[::-1].T, FIELD[None], FIELD[None, None], np.stack([FIELD] * 3), np.zeros((N, N, N)),
     np.ma.masked_greater(FIELD, 1.5), FIELD[0], np.zeros((0, 0)), np.zeros((2, 0, N, N)),
     np.float64(1.0), [[1.0], [1.0, 2.0]], FIELD.astype(">f8"), torch.zeros(N, N).to_sparse(),
     torch.zeros(N, N, dtype=torch.cfloat), np.zeros((N, 2 * N)), "field", None, {}, 3.0, set()]
)  # fmt: skip

SIDES = st.sampled_from(
    ["walls", "flux", "periodic", "mirror", "", ("walls", "flux"), ("walls", ("walls", "flux")),
     ("periodic",) * 3, ["flux", "flux"], (), ("walls",), 3, None, {"left": "walls"}, [None, None],
     (("walls", "flux", "flux"), "walls"), ("periodic", ("periodic", "walls"))]
)  # fmt: skip
LENGTHS = st.one_of(
    NUMBERS,
    st.sampled_from([(2, 1), (1, 1, 1), (1e-200, 1), (1e200, 1e200), ("1", "2"), (1,), (), (0, 1),
                     np.array([2.0, 1.0]), torch.tensor([1.0, 3.0]), (np.nan, 1), {"x": 1}]),
)  # fmt: skip
FIXED = st.one_of(
    ARRAYS,
    st.builds(lambda mask, values: lambda: ns.FixedValues(mask, values), ARRAYS, ARRAYS),
    st.builds(lambda values: lambda: ns.FixedValues(FIELD > 1.8, values), ARRAYS),
)
WALLS = st.one_of(
    ARRAYS,
    NUMBERS.filter(lambda given: not callable(given)),
    st.just({"left": 1}),
    st.just(lambda x, y: x - 2 * y),
)
CONSTANTS = {
    ns.Poisson: ("scale", "source_amplitude"),
    ns.Helmholtz: ("wavenumber", "nonlinearity", "source_amplitude"),
    ns.Darcy: ("source", "low", "high", "stencil", "medium", "dimension"),
}


@dataclass(frozen=True)
class Nothing(ns.Equation):
    """An equation that is none."""

    def residual(self, space, u, inputs):
        return space.zero_boundary(u)

    def sample(self, rng, resolution):
        return rng.standard_normal((1, resolution, resolution))


@st.composite
def equations(draw):
    """A function that makes an equation, most often a good one."""
    kind = draw(st.sampled_from([*CONSTANTS]))
    constants = {}
    if draw(st.integers(0, 2)) == 0:
        name = draw(st.sampled_from(CONSTANTS[kind]))
        constants[name] = draw(NUMBERS)
    good = lambda: kind(**constants)  # noqa: E731
    others = st.sampled_from(["poisson", None, ns.Poisson, Nothing()])
    return draw(st.one_of(st.just(good), st.just(good), others.map(lambda x: lambda: x)))


@st.composite
def calls(draw):
    """(equation, inputs, keywords of Problem, keywords of solve)."""
    # two in three inputs are those of the equation, so that calls get past them
    inputs = draw(st.one_of(st.just(GOOD), st.just(GOOD), ARRAYS))
    keywords = {"lengths": LENGTHS, "sides": SIDES, "walls": WALLS, "fixed": FIXED,
                "grid": ARRAYS, "batch": st.booleans()}  # fmt: skip
    chosen = draw(st.lists(st.sampled_from([*keywords]), unique=True, max_size=2))
    options = {"tolerance": NUMBERS, "u0": ARRAYS, "observe": st.sampled_from([None, 3, "x"])}
    asked = draw(st.lists(st.sampled_from([*options]), unique=True, max_size=1))
    return (
        draw(equations()),
        inputs,
        {name: draw(keywords[name]) for name in chosen},
        {name: draw(options[name]) for name in asked},
    )


def attempt(call, network=False):
    """The solution of a call, or the words in which it was refused."""
    make, inputs, keywords, options = call
    try:
        fixed = keywords.get("fixed")
        if callable(fixed):
            keywords = {**keywords, "fixed": fixed()}
        equation = make()
        if inputs is GOOD:
            names = getattr(equation, "input_names", ("source",))
            inputs = FIELD if len(names) == 1 else np.stack([FIELD] * len(names))
        problem = ns.Problem(equation, inputs, **keywords)
        if network:
            solver = TrainedSolver(sine_solver(), problem.equation, N, {})
            return solver.solve(problem, **options)
        return ns.solve(problem, **options)
    except InvalidInput as refused:
        return str(refused)


def check(call, network=False):
    solution = attempt(call, network)
    if isinstance(solution, str):
        assert "\n" not in solution
        assert len(solution) < 400
        return
    if Status.TOLERANCE in solution.status:
        assert bool(torch.isfinite(solution.tensor).all())
    assert solution.summary()


@settings(max_examples=300, derandomize=True, **RELAXED)
@given(calls(), st.booleans())
def test_hostile_python_calls_are_refused_in_a_line_or_solved(call, network):
    check(call, network)


@pytest.mark.slow
@settings(max_examples=3000, **RELAXED)
@given(calls(), st.booleans())
def test_three_thousand_hostile_python_calls(call, network):
    check(call, network)


@pytest.mark.parametrize("resolution", ["x", -1, 2.5, None, 10**400, [3], float("nan")])
def test_a_random_problem_of_nonsense_is_refused(resolution):
    with pytest.raises(InvalidInput):
        ns.Problem.random(ns.Poisson(), resolution)
    with pytest.raises(InvalidInput):
        ns.Problem.random(ns.Poisson(), 16, seed=resolution)


def test_a_batch_is_asked_for():
    cube = np.random.default_rng(0).random((16, 16, 16))
    with pytest.raises(InvalidInput, match="batch=True"):
        ns.Problem(ns.Poisson(), cube)
    batch = ns.Problem(ns.Poisson(), cube, batch=True)
    assert (batch.batch, batch.grid.dimension) == (16, 2)
    assert "16x16, 16 samples" in ns.solve(batch).summary()
    box = ns.Problem(ns.Poisson(), cube, lengths=1.0, sides=("walls",) * 3)
    assert (box.batch, box.grid.dimension) == (1, 3)
    assert "16x16x16, 1 sample:" in ns.solve(box).summary()
    with pytest.raises(InvalidInput, match="batch"):
        ns.Problem(ns.Darcy(source="field"), cube[:2], batch=True)
    with pytest.raises(InvalidInput, match="True or False"):
        ns.Problem(ns.Poisson(), cube, batch="yes")


def test_one_word_or_number_stands_for_all_axes():
    given = ns.Problem(ns.Helmholtz(), FIELD, sides="flux", lengths=2.0)
    assert given.grid == ns.Problem(ns.Helmholtz(), FIELD, sides=("flux",) * 2, lengths=(2, 2)).grid


@pytest.mark.parametrize("wavenumber", [np.ones(3), torch.ones(2), 1j, "1", [2.0], 10**400])
def test_a_constant_is_one_real_number(wavenumber):
    with pytest.raises(InvalidInput, match="wavenumber"):
        ns.Helmholtz(wavenumber=wavenumber)
    with pytest.raises(InvalidInput, match="wavenumber"):
        replace(ns.Helmholtz(), wavenumber=wavenumber)


@pytest.mark.parametrize(
    "values",
    [FIELD + 1j, FIELD.astype("M8[s]"), FIELD.astype([("a", float)]), {"left": 1}, "x", FIELD[:3]],
    ids=["complex", "dates", "records", "a dictionary", "a text", "another shape"],
)
def test_walls_and_fixed_values_are_checked_as_inputs_are(values):
    with pytest.raises(InvalidInput, match="walls"):
        ns.Problem(ns.Poisson(), FIELD, walls=values)
    with pytest.raises(InvalidInput, match="fixed"):
        ns.FixedValues(FIELD > 1.5, values)


def test_a_mask_of_numbers_is_no_mask():
    with pytest.raises(InvalidInput, match="true or false"):
        ns.FixedValues(np.where(FIELD > 1.5, np.nan, 0.0), FIELD)
    with pytest.raises(InvalidInput, match="FixedValues"):
        ns.Problem(ns.Poisson(), FIELD, fixed=FIELD > 1.5)
