"""`ens solve` for flows and by the reference solver, and its notes on what is unusual."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from neuralsolver.cli import run
from neuralsolver.data.reference_solution import solve_reference
from neuralsolver.equations import EQUATIONS, NavierStokes, equation_named
from neuralsolver.reference import periodic_field
from neuralsolver.training import Card, library, save_model
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver

SHORT = ["--set", "frames=4", "--set", "start_time=0"]
FLOW = NavierStokes(frames=4)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Untrained models of a flow and of a static equation."""
    folder = tmp_path_factory.mktemp("models")
    for equation in (FLOW, EQUATIONS["helmholtz"]):
        solver = make_solver("contractive", equation, SCALES["tiny"])
        save_model(folder / equation.name, solver, Card(equation, 16, {}))
    return folder


def vorticity(n, seed=0):
    return periodic_field(np.random.default_rng(seed), n)


def error_of(arguments, capsys):
    assert run(arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    return printed.err


def test_without_a_model_of_flows_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(library, "SHIPPED", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("navier-stokes", "kolmogorov"):
        line = error_of(["solve", name], capsys)
        assert f"no model of {name} is shipped" in line
        assert "--method classical" in line
    assert "expected one of" in error_of(["solve", "kolmogorof"], capsys)


def test_a_flow_by_the_reference_solver(tmp_path, capsys):
    """A given field is the first frame, all of its modes are kept, and the rest is the truth."""
    initial = vorticity(16)
    np.save(tmp_path / "w.npy", initial)
    command = ["solve", "kolmogorov", "--method", "reference", "--input", str(tmp_path / "w.npy")]
    command += ["--set", "frames=5", "--set", "viscosity=0.01", "--output", str(tmp_path / "u.npy")]
    assert run([*command, "--plot", str(tmp_path / "u.gif"), "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert printed.err == ""
    assert (result["status"], result["method"]) == (["FINISHED"], "reference")
    assert result["relative_residual"][0] < 0.1
    u = np.load(tmp_path / "u.npy")
    assert u.shape == (6, 16, 16)
    assert np.array_equal(u[0], initial)
    with Image.open(tmp_path / "u.gif") as picture:
        assert picture.n_frames == 6
    # the same function on a finer grid flows the same way
    equation = equation_named("kolmogorov", {"viscosity": 0.01, "frames": 5, "start_time": 0})
    fine = solve_reference(equation, vorticity(64)[None, None]).solution[0, 0]
    assert np.linalg.norm(u[5] - fine[5, ::4, ::4]) < 0.02 * np.linalg.norm(u[5])


@pytest.mark.parametrize("name", ["navier-stokes", "kolmogorov"])
def test_random_flows_and_their_text(tmp_path, capsys, name):
    command = ["solve", name, "--method", "reference", "--resolution", "18", *SHORT]
    assert run([*command, "--output", str(tmp_path / "u.npy"), "--seed", "3"]) == 0
    printed = capsys.readouterr()
    assert f"{name} 18x18, 1 sample: FINISHED" in printed.out
    assert "by the reference solver" in printed.out
    first = np.load(tmp_path / "u.npy")
    assert first.shape == (5, 18, 18)
    assert run([*command, "--output", str(tmp_path / "v.npy"), "--seed", "3"]) == 0
    assert np.array_equal(first, np.load(tmp_path / "v.npy"))
    # a finer residual of the same flow is smaller
    assert run([*command, "--seed", "3", "--json", "--set", "time_order=2"]) == 0
    assert run([*command, "--seed", "3", "--json", "--set", "time_order=4"]) == 0
    lines = capsys.readouterr().out.splitlines()[-2:]
    second, fourth = (json.loads(line)["relative_residual"][0] for line in lines)
    assert fourth < second


def test_a_mean_vorticity_is_noted(tmp_path, capsys):
    np.save(tmp_path / "w.npy", (vorticity(16) + 0.25).astype(np.float32))
    command = ["solve", "navier-stokes", "--method", "reference", *SHORT]
    command += ["--input", str(tmp_path / "w.npy"), "--output", str(tmp_path / "u.npy")]
    assert run(command) == 0
    err = capsys.readouterr().err
    assert err.startswith("note: the initial vorticity has the mean 0.25")
    assert err.count("\n") == 1
    assert np.allclose(np.load(tmp_path / "u.npy").mean((1, 2)), 0.25)
    np.save(tmp_path / "w.npy", vorticity(16).astype(np.float32))
    assert run(command) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["poisson", "helmholtz", "nonlinear-helmholtz", "darcy"])
def test_every_static_equation_by_its_reference_solver(capsys, name):
    assert run(["solve", name, "--method", "reference", "--resolution", "20", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == ["TOLERANCE"]
    assert result["relative_residual"][0] < 1e-9


def test_what_the_reference_solver_does_not_reach_is_exit_code_3(capsys):
    flow = ["solve", "navier-stokes", "--method", "reference", "--resolution", "16", *SHORT]
    assert run([*flow, "--tolerance", "1e-9"]) == 3
    assert "STEP_LIMIT" in capsys.readouterr().out
    past_the_fold = ["solve", "nonlinear-helmholtz", "--method", "reference", "--resolution", "16"]
    assert run([*past_the_fold, "--set", "source_amplitude=3000"]) == 3


def test_networks_for_a_flow(models, capsys, tmp_path):
    """The command works without options and on any even grid, but not with other frames."""
    model = str(models / "navier-stokes")
    # an untrained corrector answers nothing, and the same solve without it has an answer
    assert run(["solve", model, "--json", "--plot", str(tmp_path / "w.gif")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == ["PLATEAU"]
    assert result["answer_by"] == ["classical"]
    assert result["resolution"] == 16
    assert run(["solve", model, "--tolerance", "1e-6"]) == 0
    out = capsys.readouterr().out
    assert "TOLERANCE" in out
    assert "the answer of the solve without the network" in out
    # no frames resolve this one: the tolerance is not met, and the command says so
    assert run(["solve", model, "--tolerance", "1e-9", "--set", "frame_spacing=1"]) == 3
    assert "a true flow leaves a residual, too" in capsys.readouterr().out
    assert run(["solve", model, "--steps", "1", "--set", "forcing=kolmogorov"]) == 0
    assert "note: forcing = kolmogorov was diagonal in training" in capsys.readouterr().err
    for resolution in ("12", "24"):
        assert run(["solve", model, "--resolution", resolution, "--steps", "2"]) == 0
        assert "trained on 16 points, where the flow was solved" in capsys.readouterr().out
    assert "frames: expected 4" in error_of(["solve", model, "--set", "frames=5"], capsys)


def test_constants_that_differ_from_training_are_noted(models, capsys):
    command = ["solve", str(models / "helmholtz"), "--tolerance", "1e-8", "--json"]
    assert run([*command, "--set", "wavenumber=3"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "note: wavenumber = 3 was 1 in training\n"
    assert json.loads(printed.out)["good"]
    assert run(command) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--input", "{odd}"], ["resolution", "even", "17"]),
        (["--input", "{small}"], ["resolution", "at least 8", "6"]),
        (["--input", "{oblong}"], ["initial vorticity", "square", "(16, 18)"]),
        (["--input", "{nan}"], ["initial vorticity", "finite"]),
        (["--resolution", "33"], ["resolution", "even", "33"]),
        (["--set", "viscosity=0"], ["viscosity", "positive"]),
        (["--set", "viscosity=-1"], ["viscosity", "positive", "-1"]),
        (["--set", "forcing=none"], ["forcing", "diagonal", "none"]),
        (["--set", "time_order=4", "--set", "frames=3"], ["frames", "at least 4", "3"]),
        (["--steps", "3"], ["--steps", "reference"]),
        (["--tolerance", "0"], ["tolerance", "positive"]),
        (["--plot", "x.txt"], ["--plot", ".gif", "x.txt"]),
        (["--method", "magic"], ["--method", "neural or classical or reference", "magic"]),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    fields = {
        "odd": np.zeros((17, 17)),
        "small": np.zeros((6, 6)),
        "oblong": np.zeros((16, 18)),
        "nan": np.full((16, 16), np.nan),
    }
    for name, field in fields.items():
        np.save(f"{name}.npy", field)
    places = {name: f"{name}.npy" for name in fields}
    command = ["solve", "navier-stokes", "--method", "reference", *SHORT]
    line = error_of([*command, *(a.format(**places) for a in arguments)], capsys)
    assert all(word in line for word in words), line


def test_a_static_equation_has_no_animation(capsys):
    command = ["solve", "poisson", "--method", "reference", "--plot", "x.gif"]
    assert "does not move" in error_of(command, capsys)
