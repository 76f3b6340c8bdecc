"""Every command with options that no user should give, drawn from their types and boundaries.

A call is a command that works, of which some options are replaced. Whatever is drawn, it ends
within `PATIENCE` seconds, with an exit code of the table in docs/promises.md, without a traceback,
and without a change to any file that it does not name as output. Numbers that ask for much honest
work (a million samples) are not drawn inside their range, only beyond it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import math
import os
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuralsolver.cli import run
from neuralsolver.data import DatasetSpec, generate
from neuralsolver.equations import EQUATIONS, NavierStokes, Poisson
from neuralsolver.limits import RESOLUTION, SEED, Choice, Float, Int
from neuralsolver.training import Card, save_model
from neuralsolver.training.library import SHIPPED
from neuralsolver.training.plan import LIMITS as PLAN
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver

PATIENCE = 30

WORDS = st.sampled_from(
    ["", " ", "-1", "0", "nan", "inf", "-inf", "1e999", "1e200", "1e-320", "9" * 5000, "x", "ä",
     "None", "true", "[1]", "../..", "/", ".", "~", "=", "--help", "0x10", "1,5", "²", "\n"]
)  # fmt: skip


def beyond(limit) -> st.SearchStrategy[str]:
    """Words, and numbers at and beyond the ends of a range."""
    if isinstance(limit, Int):
        ends = [limit.least - 1, limit.least, limit.most + 1, -(2**63), 2**64]
        return st.one_of(WORDS, st.sampled_from([str(end) for end in ends]))
    if isinstance(limit, Float):
        ends = [limit.above, limit.most * 2, -abs(limit.least) * 2 - 1, math.nan, -1.0, 0.0]
        return st.one_of(WORDS, st.sampled_from([repr(end) for end in ends]))
    if isinstance(limit, Choice):
        return st.one_of(WORDS, st.sampled_from([*limit.choices] or ["x"]))
    return WORDS


def mostly(good: list[str], hostile: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Two in three are good, so that calls get past their first option."""
    return st.one_of(st.sampled_from(good), st.sampled_from(good), hostile)


PLACES = (
    "field.npy", "batch.npy", "nan.npy", "junk", "empty", "folder", "pipe", "own.h5", "foreign.mat",
    "links.h5", "poisson", "flow", "broken-card", "absent", "no/where", "precious.npy",
    "/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "x" * 300, "locked/x",
)  # fmt: skip
PATHS = st.sampled_from(PLACES)
MODELS = mostly(["./poisson", "./flow"], st.one_of(st.just("./broken-card"), PATHS, WORDS))
NAMES = mostly(sorted(EQUATIONS), WORDS)
OUTPUTS = st.sampled_from(
    ["out.npy", "out.png", "out.gif", "out.xyz", "out.npz", "/dev/null", "/dev/full", "folder", "",
     "no/where.png", "x" * 300, "field.npy", "locked/x.npy"]
)  # fmt: skip
JSON = st.sampled_from([[], ["--json"]])


@st.composite
def constants(draw):
    """Some --set options, of the right names and the wrong values or the other way round."""
    if draw(st.booleans()):
        return []
    limits = draw(st.sampled_from([equation.limits() for equation in EQUATIONS.values()]))
    chosen = draw(st.lists(st.sampled_from(sorted(limits)), max_size=2))
    pairs = [f"{name}={draw(beyond(limits[name]))}" for name in chosen]
    return [part for pair in (*pairs, *draw(st.sampled_from([[], ["x"], ["=3"], ["a="]])))
            for part in ("--set", pair)]  # fmt: skip


@st.composite
def options(draw, **known):
    """Some of the options with values of their strategies."""
    chosen = draw(st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4))
    return [part for name in chosen
            for part in (f"--{name.replace('_', '-')}", draw(known[name]))]  # fmt: skip


STEPS, TOLERANCE = Int(0, 100_000), Float(above=0.0, most=1.0)


@st.composite
def solve(draw):
    reference = draw(st.booleans())
    model = draw(NAMES if reference else MODELS)
    drawn = options(
        input=mostly(["field.npy", "batch.npy"], PATHS),
        output=mostly(["out.npy"], OUTPUTS),
        plot=mostly(["out.png", "out.gif"], OUTPUTS),
        steps=mostly(["0", "3"], beyond(STEPS)),
        tolerance=mostly(["1e-3", "1e-14"], beyond(TOLERANCE)),
        resolution=mostly(["16", "24"], beyond(RESOLUTION)),
        seed=mostly(["7"], beyond(SEED)),
        threads=mostly(["1"], beyond(Int(0, 1024))),
        method=mostly(["neural", "reference"], WORDS),
        device=mostly(["cpu"], st.one_of(WORDS, st.sampled_from(["cuda", "cuda:7"]))),
    )
    # four frames from the beginning: a whole flow is honest work
    flow = model in ("navier-stokes", "kolmogorov")
    brief = ["--set", "frames=4", "--set", "start_time=0"] if flow else []
    small = ["--resolution", "16", "--method", "reference"] if reference else []
    return ["solve", model, *small, *brief, *draw(drawn), *draw(constants()), *draw(JSON)]


@st.composite
def make_data(draw):
    name = draw(NAMES)
    drawn = options(
        count=mostly(["1", "3"], beyond(Int(1, 10**9))),
        resolution=mostly(["16", "18"], beyond(RESOLUTION)),
        seed=mostly(["1"], beyond(SEED)),
        split=mostly(["test"], WORDS),
        workers=st.sampled_from(["-1", "1", "0", "x", "99999"]),
        scheduler=st.sampled_from(["", "x", "nonsense://x", "tcp://127.0.0.1:1", "tcp://:"]),
        data=st.sampled_from(["data", "junk", "/dev/null", "no/where", "locked"]),
    )
    flow = name in ("navier-stokes", "kolmogorov")
    brief = ["--set", "frames=4", "--set", "start_time=0"] if flow else []
    small = ["--count", "2", "--resolution", "16", *brief]
    return ["generate", name, *small, *draw(drawn), *draw(constants()), *draw(JSON)]


@st.composite
def look(draw):
    command = draw(st.sampled_from(["info", "show", "convert"]))
    named = options(equation=NAMES, **({"count": beyond(Int(1, 1000)), "output": OUTPUTS}
                                       if command == "show" else {}))  # fmt: skip
    target = [draw(mostly(["out.npz"], OUTPUTS))] if command == "convert" else []
    file = draw(mostly(["own.h5", "foreign.mat"], PATHS))
    return [command, file, *target, *draw(named), *draw(constants())]


@st.composite
def train(draw):
    name = draw(st.sampled_from([n for n in sorted(PLAN) if n not in ("compile", "bfloat16")]))
    long = {"budget_minutes": WORDS, "batches": WORDS}
    plan = ["--plan", f"{name}={draw(long.get(name, beyond(PLAN[name])))}"]
    plan = draw(st.sampled_from([[], plan]))
    drawn = options(
        recipe=mostly(["fno", "paper"], WORDS), scale=mostly(["tiny"], WORDS),
        seed=mostly(["1"], beyond(SEED)), threads=mostly(["1"], beyond(Int(0, 1024))),
        budget_minutes=st.sampled_from(["0", "-1", "nan", "inf", "x", "1e-9"]),
        runs=st.sampled_from(["junk", "/dev/null", "locked"]),
    )  # fmt: skip
    base = ["--scale", "tiny", "--plan", "batches=1", "--runs", "runs", "--data", "data"]
    return ["train", draw(mostly(["poisson"], WORDS)), *base, *plan, *draw(drawn)]


@st.composite
def others(draw):
    return draw(
        st.sampled_from(
            [
                ["list"],
                ["list", "--json"],
                ["--version"],
                ["-h"],
                ["--debug"],
                ["--equation-module", draw(PATHS), "list"],
                ["export", draw(MODELS), "--format", draw(WORDS), "--output", draw(OUTPUTS)],
                ["demo", "--output", draw(st.sampled_from(["x.xyz", "", "no/x.png", "folder"]))],
                ["demo", "--seed", draw(st.sampled_from(["-1", "x", "nan"]))],
                [draw(WORDS)],
            ]
        )
    )


CALLS = st.one_of(solve(), make_data(), look(), train(), others())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with files of every kind, good and bad."""
    folder = tmp_path_factory.mktemp("hostile")
    before = Path.cwd()
    os.chdir(folder)
    fields = np.random.default_rng(0).random((3, 16, 16)) + 1.0
    for name, values in (("field", fields[0]), ("batch", fields), ("precious", fields[1])):
        np.save(f"{name}.npy", values)
    np.save("nan.npy", np.full((16, 16), np.nan))
    Path("junk").write_bytes(bytes(range(256)))
    Path("empty").touch()
    Path("folder").mkdir()
    Path("locked").mkdir()
    os.mkfifo("pipe")
    made = generate(DatasetSpec(Poisson(), 2, 16), folder / "made")
    Path(made.inputs.path).rename("own.h5")
    (folder / "made").rmdir()
    scipy.io.savemat("foreign.mat", {"coeff": fields, "sol": fields})
    with h5py.File("links.h5", "w") as file:
        file["coeff"], file["sol"] = h5py.ExternalLink("own.h5", "inputs"), fields
    flow = NavierStokes(frames=4)
    for name, equation in (("poisson", Poisson()), ("flow", flow), ("broken-card", Poisson())):
        solver = make_solver("contractive", equation, SCALES["tiny"])
        save_model(Path(name), solver, Card(equation, 16, {}))
    Path("broken-card/card.json").write_text('{"format": 1, "resolution": "many"}')
    Path("locked").chmod(0o500)
    yield folder
    Path("locked").chmod(0o700)
    os.chdir(before)


def contents() -> dict[str, object]:
    """What every regular file here holds, and when the installed weights were written."""
    here = [path for path in Path().rglob("*") if path.is_file() and not path.is_symlink()]
    weights = [path for path in SHIPPED.rglob("*") if path.is_file()]
    return {
        **{str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in here},
        **{str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in weights},
    }


MAY_WRITE = {"generate": ("data", "locked"), "train": ("runs", "data")}


def expected_to_change(path: str, arguments: list[str]) -> bool:
    named = {Path(argument) for argument in arguments if argument}
    inside = {*Path(path).parents, Path(path)}
    if arguments[0] in MAY_WRITE and inside & {Path(p) for p in MAY_WRITE[arguments[0]]}:
        return True
    beside = {name.with_suffix(".png") for name in named} if arguments[0] == "show" else set()
    exported = {Path(arguments[1]).name} if arguments[0] == "export" else set()
    outputs = {
        Path(value)
        for option, value in itertools.pairwise(arguments)
        if option in ("--output", "--plot", "--data", "--runs", "--results") and value
    }
    if arguments[0] == "convert":
        outputs.add(Path(arguments[2]))
    if arguments[0] == "demo":  # the flows and the sensors are drawn beside the picture
        pictures = {(output.parent, output.stem) for output in outputs}
        if (Path(path).parent, Path(path).stem.partition("-")[0]) in pictures:
            return True
    return bool(inside & (outputs | beside | {Path(name) for name in exported if name}))


def too_long(number, frame):
    raise AssertionError(f"it did not end within {PATIENCE} seconds")


def call(arguments: list[str]) -> None:
    """One call, and everything that is promised of it."""
    before = contents()
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    finally:
        signal.alarm(0)
    said = err.getvalue()
    assert code in (0, 1, 2, 3), (arguments, code)
    assert "Traceback" not in out.getvalue() + said, (arguments, said)
    assert "it did not end within" not in said, arguments
    assert "unforeseen" not in said, (arguments, said)
    if code in (1, 2):
        assert said.splitlines()[-1].startswith("ens: error: "), (arguments, said)
    after = contents()
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert not [path for path in changed if not expected_to_change(path, arguments)], arguments
    for name in ("field.npy", "own.h5"):
        if name in changed:  # named as output, and written anew
            _restore(name, before)


KEPT: dict[str, bytes] = {}


def _restore(name: str, before: dict[str, object]) -> None:
    content = KEPT[name]
    assert hashlib.sha256(content).hexdigest() == before[name]
    Path(name).write_bytes(content)


@pytest.fixture(autouse=True)
def surroundings(place, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("field.npy", "own.h5"):
        KEPT[name] = Path(name).read_bytes()


RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, derandomize=True, **RELAXED)
@given(CALLS)
def test_hostile_calls_end_in_a_line(arguments):
    call(arguments)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=2000, **RELAXED)
@given(CALLS)
def test_two_thousand_hostile_calls_end_in_a_line(arguments):
    call(arguments)
