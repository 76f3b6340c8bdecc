"""Numbers from users: each has a type and a range, and the machine has a size."""

from __future__ import annotations

import dataclasses
import inspect
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsolver import limits
from neuralsolver.cli import app, run
from neuralsolver.cli.options import limits_of
from neuralsolver.data.dataset import LIMITS as SPEC_LIMITS
from neuralsolver.data.dataset import DatasetSpec
from neuralsolver.equations import EQUATIONS, equation_named
from neuralsolver.equations.registry import describe
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import Bool, Choice, Float, Int
from neuralsolver.training.plan import LIMITS as PLAN_LIMITS
from neuralsolver.training.plan import Plan

ANYTHING = st.one_of(
    st.floats(), st.integers(), st.text(max_size=8), st.booleans(), st.none(), st.lists(st.floats())
)


@given(ANYTHING)
def test_what_is_read_is_in_the_range_or_refused(value):
    for limit in (Int(2, 9), Float(-1.0, 3.0), Float(above=0.0), Choice(("a", "b")), Bool()):
        try:
            read = limit.read("x", value)
        except InvalidInput as refused:
            line = str(refused)
            assert "\n" not in line
            continue
        if isinstance(limit, Int):
            assert type(read) is int
            assert 2 <= read <= 9
        elif isinstance(limit, Float):
            assert type(read) is float
            assert math.isfinite(read)
            assert limit.least <= read <= limit.most
            assert read > limit.above
        assert limit.read("x", read) == read


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "9" * 5000, "", "0x10", "1_0e"])
def test_words_that_are_no_numbers(text):
    for limit in (Int(), Float(), Float(above=0)):
        with pytest.raises(InvalidInput):
            limit.read("x", text)


def test_large_whole_numbers_are_exact():
    assert Int(0, 2**63).read("seed", str(2**62 + 1)) == 2**62 + 1
    with pytest.raises(InvalidInput):
        Int().read("x", 10**5000)


def commands():
    """Every command of the program with its name."""
    for group, prefix in ((app, ""), *((g.typer_instance, g.name) for g in app.registered_groups)):
        for command in group.registered_commands:
            yield f"{prefix} {command.name}".strip(), command.callback


def test_every_number_on_the_command_line_has_a_range():
    seen = 0
    for name, command in commands():
        ranges = limits_of(command)
        hints = inspect.get_annotations(inspect.unwrap(command), eval_str=True)
        for parameter, hint in hints.items():
            kinds = str(getattr(hint, "__origin__", hint))
            if "int" in kinds or "float" in kinds:
                if parameter == "return":
                    continue
                assert parameter in ranges, f"{name} {parameter}"
                seen += 1
    assert seen > 15


def test_every_field_of_a_plan_and_of_a_dataset_has_a_range():
    assert set(PLAN_LIMITS) == {field.name for field in dataclasses.fields(Plan)}
    described = {field.name for field in dataclasses.fields(DatasetSpec)}
    assert set(SPEC_LIMITS) == described - {"equation"}


def test_every_constant_has_a_range_and_its_default_is_in_it():
    for equation in EQUATIONS.values():
        names = {field.name for field in dataclasses.fields(equation)}
        if type(equation).__module__.startswith("neuralsolver."):
            assert all("limit" in field.metadata for field in dataclasses.fields(equation))
        for name, limit in equation.limits().items():
            assert limit.read(name, getattr(equation, name)) == getattr(equation, name)
        assert set(describe(equation)["constants"]) == names - {"dimension"}


@pytest.mark.parametrize(
    ("name", "constant", "value"),
    [
        ("helmholtz", "wavenumber", "1e200"),
        ("helmholtz", "wavenumber", "nan"),
        ("kolmogorov", "frame_spacing", "1e9"),
        ("kolmogorov", "start_time", "1e9"),
        ("kolmogorov", "frames", "2.5"),
        ("darcy", "low", "0"),
        ("darcy", "stencil", "magic"),
    ],
)
def test_constants_out_of_range_are_refused(name, constant, value):
    with pytest.raises(InvalidInput, match=constant):
        equation_named(name, {constant: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"batches": 0},
        {"batches": -5},
        {"batches": None, "budget_minutes": 0.0},
        {"batches": None, "budget_minutes": -1.0},
        {"batches": None, "budget_minutes": math.nan},
        {"batch_size": 0},
        {"learning_rate": math.nan},
        {"learning_rate": -1.0},
        {"ema": 5.0},
        {"seed": -1},
        {"restart": 2.0},
        {"clip": 0.0},
        {"replay": 3},
    ],
)
def test_plans_out_of_range_are_refused(changes):
    with pytest.raises(InvalidInput):
        Plan(**{"batches": 1, **changes})


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "poisson", "--tolerance", "0"],
        ["solve", "poisson", "--tolerance", "inf"],
        ["solve", "poisson", "--tolerance", "nan"],
        ["solve", "poisson", "--resolution", "0"],
        ["solve", "poisson", "--seed", "-1"],
        ["solve", "poisson", "--threads", "-1"],
        ["solve", "poisson", "--steps", "-1"],
        ["train", "poisson", "--budget-minutes", "-1"],
        ["train", "poisson", "--plan", "batches=-1"],
        ["train", "poisson", "--plan", "ema=5"],
        ["invert", "poisson", "--unit", "nan"],
        ["demo", "--output", "x.xyz"],
        ["invert", "poisson", "--samples", "0"],
    ],
)
def test_meaningless_numbers_are_refused_at_once(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    begin = time.monotonic()
    assert run(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert time.monotonic() - begin < 10
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "poisson", "--method", "reference", "--resolution", "100000"],
        ["solve", "kolmogorov", "--method", "reference", "--resolution", "20000"],
        ["generate", "poisson", "--resolution", "20000"],
    ],
)
def test_a_grid_too_large_for_the_machine_is_refused_with_its_size(
    arguments, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "available_memory", lambda: 8 * 10**9)
    begin = time.monotonic()
    assert run(arguments) == 1
    line = capsys.readouterr().err
    assert "which needs about" in line
    assert "GB" in line
    assert time.monotonic() - begin < 10


def test_memory_is_that_of_the_machine():
    assert 10**8 < limits.available_memory() < 10**14
    with pytest.raises(InvalidInput, match="needs about 1e\\+07 GB"):
        limits.check_memory("resolution", 1, 1e16)
    limits.check_memory("resolution", 1, 1e3)
