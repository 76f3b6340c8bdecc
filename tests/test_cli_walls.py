"""ens solve with values on the walls and points held by a drawn shape."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imsave

from neuralsolver.cli import run

POINTS = 40


@pytest.fixture
def files(tmp_path):
    x, y = np.meshgrid(*2 * [np.linspace(0, 1, POINTS)], indexing="ij")
    shape = (x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.04
    np.save(tmp_path / "f.npy", np.zeros((POINTS, POINTS)))
    np.save(tmp_path / "g.npy", x - 2 * y)
    np.save(tmp_path / "shape.npy", shape)
    np.save(tmp_path / "small.npy", np.zeros((8, 8)))
    np.save(tmp_path / "nan.npy", np.full((POINTS, POINTS), np.nan))
    imsave(tmp_path / "shape.png", np.where(shape, 0.0, 1.0), cmap="gray", vmin=0, vmax=1)
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.png").write_text("hello")
    return tmp_path


def command(files, *options):
    places = [option.format(files=files) for option in options]
    output = ["--input", f"{files}/f.npy", "--output", f"{files}/u.npy"]
    return ["solve", "poisson", *output, *places]


@pytest.mark.parametrize("mask", ["shape.npy", "shape.png"])
def test_a_harmonic_field_is_found_around_a_shape(files, mask, capsys):
    """x − 2y is harmonic: held on the walls and on the shape, it is the answer."""
    options = ("--walls", "{files}/g.npy", "--mask", f"{{files}}/{mask}", "--tolerance", "1e-9")
    assert run(command(files, *options)) == 0
    assert np.allclose(np.load(files / "u.npy"), np.load(files / "g.npy"), atol=1e-7)
    assert "no points held inside" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--walls", "{files}/small.npy"), ["walls", "(40, 40)"]),
        (("--walls", "{files}/nan.npy"), ["walls", "finite"]),
        (("--walls", "{files}/text.npy"), ["--walls", ".npy"]),
        (("--mask", "{files}/small.npy"), ["--mask", "(40, 40)"]),
        (("--mask", "{files}/text.png"), ["--mask", ".png"]),
        (("--walls", "{files}/g.npy", "--method", "reference"), ["--walls", "reference"]),
    ],
)
def test_what_cannot_be_held_is_one_line(files, options, words, capsys):
    assert run(command(files, *options)) in (1, 2)
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
