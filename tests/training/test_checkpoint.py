"""Models on disk: whole or refused, never unpickled."""

from __future__ import annotations

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import neuralsolver
from neuralsolver.equations import EQUATIONS, Helmholtz, Problem, equation_named
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.solvers import FixedSteps, State
from neuralsolver.training import Card, load, load_model, save_model
from neuralsolver.training.card import check_sizes
from neuralsolver.training.checkpoint import load_state, save_state
from neuralsolver.training.presets import SCALES, recipes_for
from neuralsolver.training.recipes import make_solver


@pytest.fixture
def folder(tmp_path):
    solver = make_solver("paper", Helmholtz(wavenumber=2.0), SCALES["tiny"], seed=4)
    save_model(tmp_path / "m", solver, Card(Helmholtz(wavenumber=2.0), 16, {"note": "hello"}))
    return tmp_path / "m"


@pytest.mark.parametrize("recipe", recipes_for(Helmholtz()))
@pytest.mark.parametrize("name", ["helmholtz", "darcy", "nonlinear-helmholtz"])
def test_what_is_loaded_gives_the_same_answer(recipe, name, tmp_path):
    equation = EQUATIONS[name]
    solver = make_solver(recipe, equation, SCALES["tiny"], seed=4)
    save_model(tmp_path, solver, Card(equation, 16, {"recipe": recipe}))
    again, card = load_model(tmp_path)
    problem = Problem.random(equation, 16, count=2)
    stop = FixedSteps(0 if solver.corrector is None else 2)
    assert torch.equal(
        solver.solve(problem, stop=stop).tensor, again.solve(problem, stop=stop).tensor
    )
    assert card.equation == equation
    assert card.record["recipe"] == recipe


@pytest.mark.parametrize(("recipe", "clock_steps"), [("paper", 5), ("contractive", None)])
def test_a_model_of_a_flow_keeps_its_clock(recipe, clock_steps, tmp_path):
    equation = equation_named("kolmogorov", {"frames": 4, "time_order": 4, "dealiasing": "2/3"})
    solver = make_solver(recipe, equation, SCALES["tiny"])
    with torch.no_grad():  # a corrector that has not begun to answer knows no clock
        for parameter in solver.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    save_model(tmp_path, solver, Card(equation, 16, {}))
    again, card = load_model(tmp_path)
    assert again.clock_steps == solver.clock_steps == clock_steps
    assert card.equation == equation
    problem = Problem.random(equation, 16)
    u = problem.first_guess()
    now = State.of(problem, u)
    with torch.no_grad():
        early, late = (again.correction(now, number) for number in (0, 3))
        assert torch.equal(late, solver.correction(now, 3))
    assert torch.equal(early, late) == (clock_steps is None)


def test_load_takes_a_folder(folder):
    solver = load(folder)
    assert solver.equation == Helmholtz(wavenumber=2.0)
    assert solver.resolution == 16
    assert solver.record["note"] == "hello"


def test_unknown_model_lists_what_there_is(tmp_path):
    with pytest.raises(InvalidInput, match="model: expected one of"):
        load("hemlholtz")


@pytest.mark.parametrize("part", ["model.safetensors", "card.json"])
def test_truncated_or_changed_files_are_refused(folder, part):
    path = folder / part
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:100] + b"\x00" + whole[101:], b""):
        path.write_bytes(damaged)
        if damaged == whole:
            continue
        with pytest.raises(InvalidInput, match="expected"):
            load_model(folder)
    path.unlink()
    with pytest.raises(InvalidInput, match="expected"):
        load_model(folder)


def test_a_card_of_another_time_is_refused(folder):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, "format": 99}))
    with pytest.raises(FileDamaged, match="format"):
        load_model(folder)
    card["solver"]["predictor"]["arguments"]["colour"] = "blue"
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(InvalidInput, match="colour"):
        load_model(folder)


def test_a_model_without_its_card_is_not_there(folder):
    (folder / "card.json").unlink()
    with pytest.raises(InvalidInput, match=r"card\.json"):
        load_model(folder)


def test_a_pickle_is_never_opened(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "exploded",))

    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileDamaged):
        load_model(folder)
    assert not (tmp_path / "exploded").exists()


def test_nothing_in_the_package_unpickles():
    """No torch.load, no pickle, no numpy file with objects in it."""
    for path in Path(neuralsolver.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names]
                assert "pickle" not in names, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in ("torch.load", "pickle.load", "yaml.load"), path
                if called == "np.load":
                    given = {k.arg: ast.unparse(k.value) for k in node.keywords}
                    assert given.get("allow_pickle") == "False", path


def test_training_state_round_trip_and_damage(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(path, {"a": torch.arange(4.0)}, {"batches": 7})
    tensors, counters = load_state(path)
    assert torch.equal(tensors["a"], torch.arange(4.0))
    assert counters == {"batches": 7}
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FileDamaged, match="training state"):
        load_state(path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.safetensors"]


def test_a_list_on_a_card_is_at_most_as_long_as_a_side_of_the_weights():
    """A transformer of 41 frames has one size for each of its 83 channels."""
    arguments = {"corrector": {"input_sizes": [4.0] * 83}}
    check_sizes("card", arguments, {"lifting": torch.zeros(96, 83)})
    with pytest.raises(FileDamaged, match="input_sizes"):
        check_sizes("card", arguments, {"lifting": torch.zeros(64, 80)})


def test_loading_imports_no_compiler():
    """Some operators of torch's device "meta" import it, which takes a second."""
    program = """
import sys
from neuralsolver.training.library import SHIPPED, shipped_wave_corrector
from neuralsolver.training.checkpoint import load_model
for name in ("darcy", "darcy-shapes", "darcy-diffusion-ens", "darcy-inversion", "kolmogorov"):
    found = [SHIPPED / name, SHIPPED / f"{name}-contractive"]
    load_model(next(folder for folder in found if folder.is_dir()))
shipped_wave_corrector()
print("torch._dynamo" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
