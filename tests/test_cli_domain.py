"""ens solve says in the shell what Problem says in Python: inputs, domain, boundary, masks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import scipy.io
from matplotlib.image import imsave

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.data.array_files import read_field, read_mask

FIELD = np.random.default_rng(3).standard_normal((24, 20))
CLASSICAL = ["--method", "classical", "--tolerance", "1e-10"]


def solved(tmp_path, *options, equation="poisson"):
    out = tmp_path / "u.npy"
    assert run(["solve", equation, *CLASSICAL, *map(str, options), "--output", str(out)]) == 0
    return np.load(out)


def python(f, **grid):
    return ns.solve(ns.Problem(ns.Poisson(), f, **grid), tolerance=1e-10).u


def letter() -> np.ndarray:
    """An F as a picture shows it: rows from the top, columns from the left; True is dark."""
    dark = np.zeros((12, 9), dtype=bool)
    dark[2:10, 3] = dark[2, 3:7] = dark[5, 3:6] = True
    return dark


def test_a_picture_is_read_as_it_looks(tmp_path):
    imsave(tmp_path / "F.png", np.where(letter(), 0.0, 1.0), cmap="gray", vmin=0, vmax=1)
    mask = read_mask("--mask", tmp_path / "F.png")
    assert mask.shape == (9, 12)  # (x, y)
    top, left = 12 - 1 - 2, 3
    assert mask[left, top]  # the corner where the bars of the F meet is up and to the left
    assert mask[left : left + 4, top].all()  # the long bar runs to the right, along x
    assert mask[left, 2 : top + 1].all()  # the stem runs down, along y
    assert not mask[left + 1 :, 2].any()  # and has no foot
    assert mask.sum() == letter().sum()


def test_a_mask_gives_the_grid_and_its_points_are_fixed(tmp_path):
    imsave(tmp_path / "F.png", np.where(letter(), 0.0, 1.0), cmap="gray", vmin=0, vmax=1)
    u = solved(tmp_path, "--mask", tmp_path / "F.png", "--walls", "2.5", "--input", "0")
    assert u.shape == (9, 12)
    assert np.allclose(u, 2.5)
    random = solved(tmp_path, "--mask", tmp_path / "F.png", "--seed", "4")
    assert not random[read_mask("--mask", tmp_path / "F.png")].any()
    assert random.any()


@pytest.mark.parametrize("kind", ["npy", "csv", "txt", "mat", "mat:f"])
def test_every_kind_of_file_is_the_same_field(tmp_path, kind):
    np.save(tmp_path / "f.npy", FIELD)
    np.savetxt(tmp_path / "f.csv", FIELD, fmt="%.17g", delimiter=",")
    np.savetxt(tmp_path / "f.txt", FIELD, fmt="%.17g")
    scipy.io.savemat(tmp_path / "f.mat", {"f": FIELD, "step": 0.1})
    assert np.array_equal(read_field("--input", f"{tmp_path}/f.{kind}"), FIELD)
    assert np.array_equal(solved(tmp_path, "--input", f"{tmp_path}/f.{kind}"), python(FIELD))


def test_lengths_and_boundary(tmp_path):
    np.save(tmp_path / "f.npy", FIELD)
    options = ["--input", tmp_path / "f.npy", "--lengths", "2,1"]
    u = solved(tmp_path, *options, "--boundary", "neumann,dirichlet")
    sides = ("neumann", "dirichlet")
    assert np.array_equal(u, python(FIELD, lengths=(2.0, 1.0), sides=sides))
    assert np.abs(u[0]).max() > 0
    mixed = solved(tmp_path, *options, "--boundary", "periodic,dirichlet:neumann")
    expected = python(FIELD, lengths=(2.0, 1.0), sides=("periodic", ("dirichlet", "neumann")))
    assert np.array_equal(mixed, expected)


def test_a_box(tmp_path):
    f = np.random.default_rng(1).standard_normal((12, 10, 9))
    np.save(tmp_path / "f.npy", f)
    u = solved(tmp_path, "--input", tmp_path / "f.npy", "--lengths", "1,1,0.5")
    assert np.array_equal(u, python(f, lengths=(1.0, 1.0, 0.5)))
    constant = solved(tmp_path, "--input", "1.0", "--lengths", "1,1,1", "--resolution", "10")
    assert constant.shape == (10, 10, 10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lengths", "2"], ["--lengths", "two or three"]),
        (["--lengths", "2,-1"], ["--lengths", "positive"]),
        (["--boundary", "wood,periodic"], ["sides", "neumann"]),
        (["--boundary", "periodic,periodic,periodic,periodic"], ["--boundary"]),
        (["--lengths", "1,1,1"], ["--input", "3 axes"]),
        (["--input", "{here}/two.mat"], ["--input", "two.mat:NAME", "a, b"]),
        (["--input", "{here}/words.csv"], ["--input", ".csv"]),
        (["--input", "{here}/empty.csv"], ["--input", "no numbers"]),
        (["--input", "{here}/broken.mat"], ["--input", ".mat"]),
        (["--mask", "{here}/nan.npy"], ["--mask", "finite"]),
        (["--resolution", "12", "--mask", "{here}/mask.npy"], ["--resolution", "--mask"]),
    ],
)
def test_what_is_no_domain_is_one_line(tmp_path, options, words, capsys):
    scipy.io.savemat(tmp_path / "two.mat", {"a": FIELD, "b": FIELD})
    (tmp_path / "words.csv").write_text("x,y\n1,2\n")
    (tmp_path / "empty.csv").write_text("\n")
    (tmp_path / "broken.mat").write_bytes(b"MATLAB 5.0 nothing")
    np.save(tmp_path / "nan.npy", np.full((12, 12), np.nan))
    np.save(tmp_path / "mask.npy", np.eye(12))
    given = [option.format(here=tmp_path) for option in options]
    assert run(["solve", "poisson", *CLASSICAL, *given]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(word in message for word in words), message


@pytest.mark.parametrize("option", ["--input", "--walls", "--mask"])
def test_a_pipe_does_not_wait_for_a_writer(tmp_path, option, capsys):
    os.mkfifo(tmp_path / "pipe")
    codes: list[int] = []
    call = ["solve", "poisson", *CLASSICAL, option, str(tmp_path / "pipe")]
    thread = threading.Thread(target=lambda: codes.append(run(call)), daemon=True)
    thread.start()
    thread.join(60)
    assert codes == [1]
    assert "a regular file" in capsys.readouterr().err


def test_heat_in_time(tmp_path, capsys):
    imsave(tmp_path / "F.png", np.where(letter(), 0.0, 1.0), cmap="gray", vmin=0, vmax=1)
    out, picture = tmp_path / "u.npy", tmp_path / "heat.gif"
    call = ["solve", "heat", "--mask", str(tmp_path / "F.png"), "--walls", "1.0", "--input", "0"]
    call += ["--frames", "4", "--time", "0.05", "--boundary", "neumann", "--set", "diffusivity=0.5"]
    assert run([*call, "--output", str(out), "--plot", str(picture)]) == 0
    assert "4 frames to t = 0.05" in capsys.readouterr().out
    mask, u = read_mask("--mask", tmp_path / "F.png"), np.load(out)
    expected = ns.evolve(
        np.zeros((9, 12)), 0.05, frames=4, diffusivity=0.5, sides=("neumann", "neumann"),
        fixed=ns.FixedValues(mask, np.ones((9, 12))),
    )  # fmt: skip
    assert np.array_equal(u, expected.u)
    assert picture.stat().st_size > 1000
    carried = ["solve", "advection-diffusion", "--set", "velocity=1,0", "--set", "diffusivity=0.1"]
    assert run([*carried, "--resolution", "16", "--frames", "2", "--json"]) == 0
    assert '"reached": true' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["heat", "--set", "velocity=1,0"], ["--set", "diffusivity"]),
        (["heat", "--plot", "x.png"], ["--plot", ".gif"]),
        (["heat", "--method", "reference"], ["--method"]),
        (["advection-diffusion", "--set", "velocity=a,b"], ["velocity"]),
        (["poisson", "--frames", "3"], ["--frames"]),
    ],
)
def test_what_does_not_move_so_is_one_line(options, words, capsys):
    assert run(["solve", *options]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(word in message for word in words), message
