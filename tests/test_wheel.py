"""The wheel: small, complete, and working outside of the tree; every import is declared."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGEST = 40e6
EXTRAS = {"cluster", "onnx", "serve", "solvers", "track"}
"""What a user may choose; `docs` and `dev` are for contributors."""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=! ]", text)[0].lower().replace("_", "-") for text in requirements}


def test_everything_that_is_imported_is_declared():
    declared = names(PROJECT["dependencies"])
    for extra in EXTRAS:
        declared |= names(PROJECT["optional-dependencies"][extra])
    # what a declared package promises to bring along and lets one import
    declared |= {"starlette", "pydantic"} if "fastapi" in declared else set()
    packages = importlib.metadata.packages_distributions()
    missing = {}
    for path in (ROOT / "neuralsolver").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for top in {module.split(".")[0] for module in modules} - {"", "neuralsolver"}:
                known = {name.lower().replace("_", "-") for name in packages.get(top, [top])}
                if top not in sys.stdlib_module_names and not known & declared:
                    missing[top] = str(path.relative_to(ROOT))
    assert not missing


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that nothing of an earlier build is in it."""
    copy, place = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "neuralsolver", copy / "neuralsolver", ignore=shutil.ignore_patterns("__pycache__")
    )
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", place, copy], check=True, timeout=200)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A fresh environment with the wheel, and the packages it needs from the present one."""
    place = tmp_path_factory.mktemp("clean") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install"]
    subprocess.run([*install, "--quiet", "--no-deps", wheel], check=True, timeout=200)
    return place / "bin" / "ens"


def outside(tmp_path: Path) -> dict:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {"cwd": tmp_path, "env": {**kept, "OMP_NUM_THREADS": "1"}}


@pytest.mark.slow
def test_the_wheel_is_small_and_has_what_a_user_needs(wheel):
    assert wheel.stat().st_size < LARGEST, f"{wheel.stat().st_size / 1e6:.1f} MB"
    files = zipfile.ZipFile(wheel).namelist()
    assert "neuralsolver/serve/page/index.html" in files
    assert "neuralsolver/weights/helmholtz-contractive/card.json" in files
    for name in ("waves", "darcy-inversion"):
        assert f"neuralsolver/weights/{name}/model.safetensors" in files
    absent = ("-fno/", "-paper/", "-palette/", "-diffusion-ens/", "darcy-box", "darcy-shapes")
    assert not [name for name in files if any(part in name for part in absent)]
    assert not [name for name in files if name.split("/")[0] in ("paper", "benchmarks", "tests")]


@pytest.mark.slow
def test_the_installed_command_solves(installed, tmp_path):
    def run(*words: str) -> str:
        done = subprocess.run(
            [installed, *words], capture_output=True, text=True, timeout=200, check=False,
            **outside(tmp_path),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    solved = json.loads(run("solve", "helmholtz", "--tolerance", "1e-8", "--json"))
    assert solved["status"] == ["TOLERANCE"]
    assert "TOLERANCE" in run("solve", "darcy", "--plot", "u.svg", "--output", "u.npy")
    assert {"u.svg", "u.npy"} <= {path.name for path in tmp_path.iterdir()}
    assert "samples" in run("invert", "poisson", "--count", "40")
    wave = json.loads(run("solve", "waves", "--set", "strength=0.4", "--json"))
    assert wave["good"]
    assert "helmholtz-contractive" in run("list")
    refused = subprocess.run(
        [installed, "invert", "darcy", "--method", "palette"], capture_output=True, text=True,
        check=False, **outside(tmp_path),
    )  # fmt: skip
    assert refused.returncode == 1
    assert "not in the wheel" in refused.stderr
    assert refused.stderr.count("\n") == 1
    code = "import neuralsolver as n; print(n.__file__, n.load('poisson').resolution)"
    python = installed.with_name("python")
    printed = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, **outside(tmp_path)
    ).stdout
    assert str(installed.parents[1]) in printed


@pytest.mark.slow
def test_the_installed_command_serves(installed, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [installed, "serve", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **outside(tmp_path))
    try:
        for _ in range(600):
            assert process.poll() is None, process.stderr.read()
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read()
                break
            except OSError:
                time.sleep(0.1)
        assert b"<html" in page
    finally:
        process.terminate()
        process.communicate(timeout=60)
