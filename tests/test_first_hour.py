"""The four people of the README do what they came for: shell and Python, from the first line on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave
from scipy.io import netcdf_file

import neuralsolver as ns
from neuralsolver.cli import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
N = 48
X, Y = np.meshgrid(np.linspace(0, 1, N), np.linspace(0, 1, N), indexing="ij")


def shell(line: str, capsys) -> str:
    """The output of a command that the README shows in this form."""
    words = line.split()
    assert words[0] == "ens"
    assert run(words[1:]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def shown(beginning: str) -> str:
    (line,) = re.findall(rf"^{re.escape(beginning)}.*$", README, re.MULTILINE)
    return line


def test_an_engineer_draws_a_shape_and_solves(tmp_path, monkeypatch, capsys):
    """Permeability as a table, shape as a picture, a value on the boundary; then heat in time."""
    monkeypatch.chdir(tmp_path)
    disc = (X - 0.5) ** 2 + (Y - 0.4) ** 2 < 0.03
    np.savetxt("permeability.csv", np.where(X > 0.5, 12.0, 3.0), delimiter=",")
    imsave("shape.png", np.where(disc, 0.0, 1.0).T[::-1], cmap="gray", vmin=0, vmax=1)
    text = shell(f"{shown('ens solve darcy')} --output u.npy", capsys)
    assert "TOLERANCE" in text
    assert "relative error at most" in text
    u = np.load("u.npy")
    assert (u[disc] == 1).all()
    assert (u[[0, -1]] == 1).all()
    assert u.min() >= 1  # a source and boundary values of one: nothing is below
    assert Path("u.pdf").read_bytes().startswith(b"%PDF")
    same = ns.Problem(
        ns.Darcy(), np.where(X > 0.5, 12.0, 3.0), walls=1.0,
        fixed=ns.FixedValues(disc, np.ones((N, N))),
    )  # fmt: skip
    assert np.allclose(ns.solve(same, tolerance=1e-9).u, u, rtol=1e-4)
    assert "20 frames" in shell(shown("ens solve heat"), capsys)
    assert Path("heat.gif").read_bytes().startswith(b"GIF")


def test_a_person_with_sensors_gets_a_field_with_error_bars(tmp_path, monkeypatch, capsys):
    """Metres and a column of one's own; the truth lies within the bars as often as they say."""
    monkeypatch.chdir(tmp_path)
    problem = ns.Problem.random(ns.Poisson(), 64, seed=5)
    u = ns.solve(problem).tensor[0, 0].numpy()
    rng = np.random.default_rng(1)
    index = rng.integers(1, 63, (80, 2))
    rows = [f"{12 * i / 63},{12 * j / 63},{u[i, j]}" for i, j in index]
    Path("table.csv").write_text("\n".join(["x_m,y_m,value", *rows]))
    shell(shown("ens invert poisson"), capsys)
    with netcdf_file("field.nc", "r", mmap=False) as file:
        x = file.variables["x"][:].copy()
        mean = file.variables["solution_mean"][:].copy()
        low, high = (file.variables[f"solution_quantile_{q}"][:].copy() for q in ("05", "95"))
    assert x[0] == 0
    assert x[-1] == 12
    assert np.linalg.norm(mean - u) < 0.2 * np.linalg.norm(u)
    assert 0.7 < ((low <= u) & (u <= high))[1:-1, 1:-1].mean() <= 1


RESEARCHER = """
from dataclasses import dataclass
import torch
import neuralsolver as ns

@dataclass(frozen=True)
class Membrane(ns.Equation):
    linear, jacobian_depends_on = True, ()
    def residual(self, space, u, inputs):
        return ns.laplacian(u, space.grid) - space.zero_boundary(inputs)
    def sample(self, rng, resolution):
        return ns.cosine_field(rng, resolution)[None]

def layers(channels, fields):
    wide = torch.nn.Conv2d(channels, 8, 5, padding=2), torch.nn.GELU()
    return torch.nn.Sequential(*wide, torch.nn.Conv2d(8, fields, 5, padding=2))

equation = ns.register(Membrane())
ns.check_equation(equation)
recipe = ns.register_backbone("layers", layers)[0]
if __name__ == "__main__":
    print(ns.train(equation, recipe=recipe, scale="tiny", batches=60, progress=False))
"""


@pytest.mark.slow
def test_a_researcher_trains_an_equation_and_a_backbone(tmp_path):
    """An equation in eight lines and a network in three; the shell knows both by the same file."""
    (tmp_path / "mine.py").write_text(RESEARCHER)
    here = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}}
    subprocess.run([sys.executable, "-W", "error", "mine.py"], check=True, timeout=200, **here)
    (model,) = (card.parent for card in tmp_path.rglob("card.json"))
    command = [sys.executable, "-m", "neuralsolver", "--equation-module", "mine.py", "solve"]
    printed = subprocess.run(
        [*command, f"./{model.relative_to(tmp_path)}", "--tolerance", "1e-8", "--json"],
        check=True, capture_output=True, text=True, timeout=200, **here,
    ).stdout  # fmt: skip
    assert json.loads(printed)["status"] == ["TOLERANCE"]


def test_a_visitor_reads_what_there_is(capsys):
    """`ens list` and `ens --help` name what the README speaks of; the answers are JSON, too."""
    assert "solve" in shell("ens --help", capsys)
    listed = json.loads(shell("ens list --json", capsys))
    assert {"poisson", "helmholtz", "darcy"} <= set(listed["equations"])
    answer = json.loads(shell("ens solve helmholtz --json", capsys))
    assert answer["good"]
    assert answer["error_bound"][0] < 1e-4
