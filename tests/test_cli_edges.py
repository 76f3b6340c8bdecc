"""The program as a process: its edges to terminals, signals, files of the user's and scripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest
import scipy.io

from neuralsolver.cli import run
from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import EQUATIONS, Darcy, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.training import load
from paper.__main__ import run as study

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
ENS = [sys.executable, "-m", "neuralsolver"]

MEMBRANE = '''
from dataclasses import dataclass
import neuralsolver as ns

@dataclass(frozen=True)
class StretchedMembrane(ns.Equation):
    """Δu − s²u = f."""
    stiffness: float = 2.0
    linear = True
    jacobian_depends_on = ()

    def residual(self, space, u, inputs):
        inside = space.zero_boundary(self.stiffness**2 * u + inputs)
        return ns.laplacian(u, space.grid) - inside

    def sample(self, rng, resolution):
        return ns.cosine_field(rng, resolution)[None]

ns.register(StretchedMembrane())
'''


def ens(*arguments: str, folder: Path, **more: object) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "timeout": 120, **more}
    return subprocess.run([*ENS, *arguments], cwd=folder, env=ENVIRONMENT, check=False, **options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--version"], "neuralsolver 0."), (["-h"], "Usage: ens"), (["solve", "-h"], "--tolerance")],
)
def test_version_and_help(arguments, words, capsys):
    assert run(arguments) == 0
    assert words in capsys.readouterr().out


def test_the_shell_completes_commands(tmp_path):
    asked = {"_ENS_COMPLETE": "complete_bash", "COMP_WORDS": "ens sol", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from neuralsolver.cli import main; main()"],
        env={**ENVIRONMENT, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["solve"]


def test_the_unforeseen_is_one_line_and_debug_shows_where(capsys, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("neuralsolver.training.library.shipped", broken)
    assert run(["list"]) == 1
    line = capsys.readouterr().err
    assert line.startswith("ens: error: unforeseen ZeroDivisionError: of all things")
    assert line.count("\n") == 1
    assert run(["--debug", "list"]) == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert printed.splitlines()[-1].startswith("ens: error: unforeseen")
    assert "ENS_DEBUG" not in os.environ


@pytest.mark.slow
def test_output_that_nobody_takes(tmp_path):
    """Closed, full, broken, or a terminal without our letters: never a traceback."""
    closed = ens("list", folder=tmp_path, capture_output=False, stdout=None,
                 stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))  # fmt: skip
    assert (closed.returncode, closed.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        done = ens("list", folder=tmp_path, capture_output=False, stdout=full,
                   stderr=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    shell = f"{sys.executable} -m neuralsolver list --json | head -c 1"
    piped = subprocess.run(
        shell, shell=True, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert piped.stderr == ""
    ascii_only = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    spoken = subprocess.run(
        [*ENS, "generate", "pöisson"], env=ascii_only, capture_output=True, text=True, check=False
    )
    assert spoken.returncode == 1
    assert spoken.stderr.count("\n") == 1
    assert "p\\xf6isson" in spoken.stderr


@pytest.fixture
def forgotten():
    """What a test makes known is forgotten after it."""
    known, modules = dict(EQUATIONS), set(sys.modules)
    yield
    EQUATIONS.clear()
    EQUATIONS.update(known)
    for name in set(sys.modules) - modules:
        if name in ("membranes",):
            cloudpickle.unregister_pickle_by_value(sys.modules.pop(name))


def test_an_equation_of_the_users_is_known_to_every_command(
    tmp_path, capsys, monkeypatch, forgotten
):
    monkeypatch.chdir(tmp_path)
    Path("membranes.py").write_text(MEMBRANE)
    own = ["--equation-module", "membranes.py"]
    assert run([*own, "list"]) == 0
    assert "stretched-membrane" in capsys.readouterr().out
    small = ["--count", "40", "--resolution", "16", "--data", "data", "--json"]
    assert run([*own, "generate", "stretched-membrane", *small]) == 0
    path = json.loads(capsys.readouterr().out)["path"]
    assert run([*own, "info", path]) == 0
    assert "stiffness=2" in capsys.readouterr().out
    options = ["--scale", "tiny", "--plan", "batches=3", "--data", "data"]
    assert run([*own, "train", "stretched-membrane", *options]) == 0
    model = capsys.readouterr().out.strip()
    assert run([*own, "solve", model, "--set", "stiffness=3"]) == 0
    assert "stiffness = 3 was 2 in training" in capsys.readouterr().err
    del EQUATIONS["stretched-membrane"]
    assert run(["solve", model]) == 1
    assert "stretched-membrane" in capsys.readouterr().err


@pytest.mark.slow
def test_workers_are_sent_an_equation_of_the_users(tmp_path):
    (tmp_path / "membranes.py").write_text(MEMBRANE)
    command = ["--equation-module", "membranes.py", "generate", "stretched-membrane"]
    command += ["--count", "40", "--resolution", "16", "--workers", "2"]
    done = ens(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "an existing Python file"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("1 +", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_a_module_that_cannot_be_imported(tmp_path, capsys, content, words):
    file = tmp_path / "broken_module.py"
    if content is not None:
        file.write_text(content)
    assert run(["--equation-module", str(file), "list"]) == 1
    line = capsys.readouterr().err
    assert words in line
    assert line.count("\n") == 1
    assert "broken_module" not in sys.modules


def test_training_and_measuring_on_a_file_of_the_users(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = generate(DatasetSpec(Darcy(source=1.0), 12, 16), tmp_path)
    fields, solutions = made[:]
    scipy.io.savemat("mine.mat", {"coeff": fields[:, 0], "sol": solutions[:, 0]})
    for file in ("mine.mat", str(made.inputs.path)):
        command = ["train", "--dataset", file, "--scale", "tiny", "--plan", "batches=3"]
        assert run(command) == 0
        model = capsys.readouterr().out.strip()
        record = load(model).record
        assert record["data"]["samples"] == 11
        assert record["errors"]["samples"] == 1
        assert run(command) == 0
        assert capsys.readouterr().out.strip() == model
        measured = ["evaluate", file, "--model", model, "--samples", "5"]
        assert study([*measured, "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["samples"] == 5
        assert row["error"] < 1e-3
        assert study(measured) == 0
        assert "darcy" in capsys.readouterr().out
    assert run(["train"]) == 1
    assert "an equation or --dataset" in capsys.readouterr().err
    assert study(["evaluate", "helmholtz", "--model", "x"]) == 1
    assert "--model" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_with_workers_prints_one_line(tmp_path):
    """As a terminal does it: every process of the group is told."""
    command = [*ENS, "generate", "helmholtz", "--count", "4000", "--resolution", "96"]
    process = subprocess.Popen(
        [*command, "--workers", "2", "--data", str(tmp_path)],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 90
    while not list(tmp_path.glob("*.partial/*.h5")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert errors == "ens: interrupted; run the same command again to resume\n"
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


def test_a_script_without_a_guard_generates(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import neuralsolver as ns\n"
        "from neuralsolver.data import generation\n"
        "generation.PATIENCE = 0.0\n"
        "print('begun')\n"
        "print(len(ns.generate(ns.DatasetSpec(ns.Poisson(), 100, 16), 'data')))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("begun\n100\n", "")


NO_WORKERS = """
from distributed import LocalCluster
from neuralsolver.cli import run
from neuralsolver.data import cluster
cluster.WORKER_SECONDS = 1
settings = dict(n_workers=0, processes=False, protocol="tcp", host="127.0.0.1")
with LocalCluster(dashboard_address="127.0.0.1:0", **settings) as empty:
    code = run(["generate", "poisson", "--count", "2", "--resolution", "16",
                "--scheduler", empty.scheduler_address, "--data", "data"])
    print(code)
"""


def test_a_scheduler_without_workers_says_so(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", NO_WORKERS],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "1"
    # Dask may add a word on a port of its own that is taken
    lines = [line for line in done.stderr.splitlines() if line.startswith(("waiting", "ens:"))]
    assert lines[0].startswith("waiting for a worker to join tcp://")
    assert "a Dask cluster with workers" in lines[1]


def test_a_scheduler_that_is_not_there_is_refused_at_once(tmp_path, capsys):
    begin = time.monotonic()
    command = ["generate", "poisson", "--count", "2", "--resolution", "16", "--data", str(tmp_path)]
    assert run([*command, "--scheduler", "tcp://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert time.monotonic() - begin < 10


def test_two_evaluations_exclude_each_other(tmp_path, capsys):
    from neuralsolver.files import exclusive

    command = ["evaluate", "helmholtz", "--scale", "tiny", "--results", str(tmp_path)]
    with exclusive(tmp_path / "tiny" / ".helmholtz.jsonl.lock", "evaluation"):
        assert study(command) == 1
    assert "no other process" in capsys.readouterr().err


def field(n: int = 64) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((n, n))


@pytest.mark.parametrize("options", [{"steps": 3}, {"tolerance": 1e-8}, {}])
def test_the_precision_of_an_answer_is_that_of_the_equation(options):
    for kind in (np.float32, np.float64):
        solution = load("poisson").solve(Problem(Poisson(), field().astype(kind)), **options)
        assert solution.u.dtype == np.float64
        assert solution.u.shape == (64, 64)


def test_a_start_has_the_layout_of_the_input_or_of_the_solution():
    solver, problem = load("poisson"), Problem(Poisson(), field())
    exact = solver.solve(problem, tolerance=1e-12)
    for start in (exact.u, exact.tensor, exact.tensor.numpy()):
        assert solver.solve(problem, start, tolerance=1e-8).steps.tolist() == [0]
    for wrong in (np.zeros((32, 32)), np.zeros((2, 64, 64)), np.full((64, 64), np.nan)):
        with pytest.raises(InvalidInput, match="u0"):
            solver.solve(problem, wrong)


def test_inputs_that_are_no_fields():
    masked = np.ma.masked_array(field(16), np.zeros((16, 16), dtype=bool))
    assert Problem(Poisson(), masked).batch == 1
    masked[3, 4] = np.ma.masked
    for wrong, word in (
        (masked, "1 masked values"),
        (np.zeros((0, 1, 16, 16)), "at least one sample"),
        (np.zeros((0, 16, 16)), "at least one sample"),
        ([[1.0, 2.0], [3.0]], "an array of numbers"),
        (np.array([["a"] * 16] * 16), "real numbers"),
    ):
        with pytest.raises(InvalidInput, match=word):
            Problem(Poisson(), wrong)


def test_a_forcing_that_the_grid_cannot_carry_is_refused(capsys):
    flow = NavierStokes(forcing_wavenumber=8, frames=4)
    with pytest.raises(InvalidInput, match="forcing_wavenumber"):
        Problem(flow, np.zeros((16, 16)))
    Problem(flow, np.zeros((18, 18)))
    command = ["solve", "kolmogorov", "--method", "reference", "--resolution", "16"]
    assert run([*command, "--set", "forcing_wavenumber=8", "--set", "frames=4"]) == 1
    assert "forcing_wavenumber" in capsys.readouterr().err


def test_what_is_described_is_plain(capsys):
    assert run(["list", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["equations"]) == set(EQUATIONS)
