"""The command `ens`: what it prints, and how it fails."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from neuralsolver.cli import run
from neuralsolver.data import generation
from neuralsolver.progress import Progress

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
ENS = [sys.executable, "-m", "neuralsolver.cli"]
SMALL = ["--count", "3", "--resolution", "12"]


@pytest.fixture
def dataset(tmp_path, capsys):
    assert run(["generate", "helmholtz", *SMALL, "--data", str(tmp_path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["path"]


def failure(arguments, capsys):
    """Exit code and the only line of a command that fails."""
    code = run(arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("ens: error: ")
    return code, printed.err


def test_help_appears_at_once():
    """In seconds of this command's own computing, which a busy machine does not stretch much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*ENS, "--help"], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "generate" in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_help_loads_no_numerical_library():
    code = (
        "import sys, neuralsolver.cli as c; c.run(['--help']); "
        "assert not {'torch', 'numpy', 'matplotlib', 'dask'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, capture_output=True)


def test_no_arguments_show_the_help(capsys):
    assert run([]) == 0
    assert "Usage: ens" in capsys.readouterr().out


def test_list(capsys):
    assert run(["list"]) == 0
    printed = capsys.readouterr().out
    for word in ("wavenumber=1", "ens solve waves", "ens solve heat", "heads in wells"):
        assert word in printed
    assert run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equations"]["darcy"]["high"] == 12.0


def test_generate_twice(tmp_path, capsys):
    command = ["generate", "darcy", *SMALL, "--data", str(tmp_path), "--set", "source=50"]
    assert run(command) == 0
    assert "computed 3" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["computed"], again["kept"], again["rejected"]) == (0, 0, 0)
    assert Path(again["path"]).name.startswith("darcy-train-12-")


def test_the_data_folder_comes_from_the_environment(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ENS_DATA", str(tmp_path / "here"))
    assert run(["generate", "poisson", *SMALL]) == 0
    assert list((tmp_path / "here").glob("poisson-train-12-*.h5"))


def test_info(dataset, capsys):
    assert run(["info", dataset]) == 0
    assert "wavenumber=1" in capsys.readouterr().out
    assert run(["info", dataset, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["inputs"] == [3, 1, 12, 12]
    assert described["seed"] == 0


@pytest.mark.parametrize("equation", ["helmholtz", "darcy", "kolmogorov"])
def test_show_writes_a_picture(tmp_path, capsys, equation):
    options = ["--set", "frames=4", "--set", "start_time=0"] if equation == "kolmogorov" else []
    command = ["generate", equation, "--count", "2", "--resolution", "16", "--data", str(tmp_path)]
    assert run([*command, *options, "--json"]) == 0
    path = json.loads(capsys.readouterr().out)["path"]
    assert run(["show", path, "--output", str(tmp_path / "x.png"), "--count", "9"]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert run(["show", path]) == 0
    assert Path(path).with_suffix(".png").exists()


def test_foreign_files_are_shown_converted_and_described(tmp_path, capsys):
    fields = np.random.default_rng(0).random((3, 12, 12)) + 1.0
    path = str(tmp_path / "x.mat")
    scipy.io.savemat(path, {"coeff": fields, "sol": fields})
    assert run(["show", path]) == 0
    assert "read as FNO Darcy" in capsys.readouterr().out
    assert run(["info", path, "--equation", "darcy", "--set", "source=3"]) == 0
    assert "source=3" in capsys.readouterr().out
    assert run(["convert", path, str(tmp_path / "x.npz")]) == 0
    with np.load(tmp_path / "x.npz") as plain:
        np.testing.assert_array_equal(plain["inputs"][:, 0], fields)


GENERATE = ["generate", "helmholtz", *SMALL]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "helmholz"], ["equation", "did you mean helmholtz", "helmholz"]),
        ([*GENERATE, "--set", "kappa=3"], ["constant of helmholtz", "wavenumber", "kappa"]),
        ([*GENERATE, "--set", "wavenumber=x"], ["wavenumber", "number", "x"]),
        ([*GENERATE, "--set", "wavenumber=nan"], ["wavenumber", "finite", "nan"]),
        ([*GENERATE, "--set", "wavenumber"], ["--set", "NAME=VALUE"]),
        ([*GENERATE, "--set", "source_amplitude=-1"], ["source_amplitude", "at least 0", "-1"]),
        ([*GENERATE, "--resolution", "2"], ["resolution", "at least 8", "2"]),
        (["generate", "kolmogorov", "--resolution", "33"], ["resolution", "even", "33"]),
        ([*GENERATE, "--count", "0"], ["count", "at least 1", "0"]),
        ([*GENERATE, "--seed", "-1"], ["seed", "-1"]),
        ([*GENERATE, "--split", "valid"], ["split", "train or test", "valid"]),
        ([*GENERATE, "--workers", "-2"], ["workers", "-2"]),
        ([*GENERATE, "--data", "/proc/nowhere"], ["/proc/nowhere"]),
        (["info", "absent.h5"], ["absent.h5", "existing"]),
        (["show", "absent.h5"], ["absent.h5", "existing"]),
        (["convert", "absent.h5", "x.npz"], ["absent.h5", "existing"]),
        (["info", __file__], [".mat or HDF5"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, line = failure(arguments, capsys)
    assert code == 1
    assert all(word in line for word in words), line
    assert not list(tmp_path.glob("data/*.h5"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["generate"],
        ["generate", "helmholtz", "--count", "many"],
        ["generate", "helmholtz", "--nonsense"],
        ["info"],
        ["nothing"],
        ["convert", "x.h5"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(capsys, arguments):
    assert failure(arguments, capsys)[0] == 2


def test_bad_outputs(dataset, tmp_path, capsys):
    assert failure(["show", dataset, "--output", str(tmp_path / "x.jpg")], capsys)[0] == 1
    assert failure(["show", dataset, "--output", str(tmp_path / "no" / "x.png")], capsys)[0] == 1
    assert failure(["show", dataset, "--count", "0"], capsys)[0] == 1
    assert failure(["convert", dataset, str(tmp_path / "x.csv")], capsys)[0] == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_plain_lines_elsewhere(capsys, monkeypatch, terminal):
    monkeypatch.setattr("neuralsolver.progress.PAUSE", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with Progress("title") as progress:
        progress.update(2, 8)
        progress.update(8, 8)
    printed = capsys.readouterr().err
    assert "title" in printed
    assert "8/8" in printed


def test_a_truncated_file(dataset, capsys):
    os.truncate(dataset, 3000)
    for command in (["info", dataset], ["show", dataset]):
        assert failure(command, capsys)[0] == 1


def test_running_out_of_memory(tmp_path, capsys, monkeypatch):
    def exhausted(*arguments):
        raise MemoryError

    monkeypatch.setattr(generation, "compute_block", exhausted)
    code, line = failure([*GENERATE, "--data", str(tmp_path)], capsys)
    assert (code, line) == (1, "ens: error: not enough memory\n")


def test_the_process_shows_no_traceback_unless_asked(tmp_path):
    def errors(**more):
        done = subprocess.run(
            [*ENS, "generate", "helmholtz", "--resolution", "1"],
            check=False,
            capture_output=True,
            text=True,
            env={**ENVIRONMENT, **more},
            cwd=tmp_path,
        )
        assert done.returncode == 1
        return done.stderr

    assert errors() == "ens: error: resolution: expected at least 8, got 1\n"
    assert "Traceback" in errors(ENS_DEBUG="1")
