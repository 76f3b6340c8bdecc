"""Animated trajectories: what is in the file, how large it is, and that it is always the same."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from neuralsolver.errors import InvalidInput
from neuralsolver.plotting.animation import FOOTER, HEADER, MARGIN, animate


def trajectory(frames=21, n=64, seed=0):
    """Waves that move, which differ from seed to seed, with noise that no compression likes."""
    rng = np.random.default_rng(seed)
    r, t = np.arange(n) / n, np.linspace(0, 1, frames)[:, None, None]
    waves = np.sin(2 * np.pi * (3 * r[:, None] + t)) * np.cos(2 * np.pi * (2 * r - t))
    return (4 + 0.2 * seed) * waves + 0.02 * rng.standard_normal((frames, n, n))


def three(frames=21, n=64):
    truth, prediction = trajectory(frames, n), trajectory(frames, n, seed=1)
    return {"truth": truth, "prediction": prediction, "error": prediction - truth}


def test_a_trajectory_is_small_and_complete(tmp_path):
    path = animate(tmp_path / "x.gif", three(), 2 + 0.2 * np.arange(21))
    assert path.stat().st_size < 1_000_000
    with Image.open(path) as picture:
        assert picture.n_frames == 21
        assert picture.info["loop"] == 0
        assert picture.width == 3 * (192 + 2 * MARGIN)


def test_the_same_fields_give_the_same_bytes(tmp_path):
    fields, times = three(4, 16), np.arange(4)
    first = animate(tmp_path / "a.gif", fields, times).read_bytes()
    assert animate(tmp_path / "b.gif", fields, times).read_bytes() == first
    as_single = {name: field.astype(np.float32) for name, field in fields.items()}
    assert animate(tmp_path / "c.gif", as_single, list(times)).read_bytes()[:6] == first[:6]


def colours(path, frame=0):
    with Image.open(path) as picture:
        picture.seek(frame)
        return np.asarray(picture.convert("RGB")).astype(int)


def test_scales_are_symmetric_and_shared(tmp_path):
    """One bright point in each field: r₁ to the right, r₂ up, red for plus and blue for minus."""
    truth, prediction = np.zeros((2, 2, 8, 8))
    truth[0, 7, 0] = 2.0  # right below
    prediction[1, 0, 7] = -2.0  # left above
    error = 1e-3 * prediction
    fields = {"truth": truth, "prediction": prediction, "error": error}
    path = animate(tmp_path / "x.gif", fields, [0, 1])
    first, second = colours(path), colours(path, 1)
    width = 192 + 2 * MARGIN
    above, below = HEADER + 5, HEADER + 192 - 5
    left, right = MARGIN + 5, MARGIN + 192 - 5
    red, blue = first[below, right], second[above, width + left]
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    middle = first[above, left]
    assert middle.min() > 240
    assert first[below, width + right].tolist() == middle.tolist()
    # the error is a thousandth of the prediction and is drawn on its own scale
    assert second[above, 2 * width + left].tolist() == blue.tolist()
    assert first.shape[0] == HEADER + 192 + 4 + 8 + FOOTER


def test_one_field_of_zeros_and_a_large_grid(tmp_path):
    assert animate(tmp_path / "x.gif", {"vorticity": np.zeros((1, 200, 200))}, [0.0]).exists()
    assert animate(tmp_path / "y.gif", {"error": np.ones((2, 9, 9))}, [0.0, 1.0]).exists()


def test_a_rectangle_is_as_wide_as_its_first_axis(tmp_path):
    path = animate(tmp_path / "x.gif", {"u": np.ones((1, 96, 48))}, [0.0])
    height, width = colours(path).shape[:2]
    assert width == 192 + 2 * MARGIN
    assert height == HEADER + 96 + 4 + 8 + FOOTER


@pytest.mark.parametrize(
    ("name", "fields", "times", "word"),
    [
        ("x.png", {"truth": np.zeros((2, 8, 8))}, [0, 1], "ending in .gif"),
        ("no/x.gif", {"truth": np.zeros((2, 8, 8))}, [0, 1], "existing folder"),
        ("x.gif", {}, [], "at least one"),
        ("x.gif", {"truth": np.zeros((2, 8, 8))}, [0], "truth: expected shape"),
        ("x.gif", {"truth": np.zeros((2, 8))}, [0, 1], "truth: expected shape"),
        ("x.gif", {"a": np.zeros((2, 8, 8)), "b": np.zeros((2, 4, 4))}, [0, 1], "b: expected"),
        ("x.gif", {"truth": np.full((2, 8, 8), np.nan)}, [0, 1], "finite"),
    ],
)
def test_bad_input_is_named(tmp_path, name, fields, times, word):
    with pytest.raises(InvalidInput, match=word):
        animate(tmp_path / name, fields, times)
    assert not list(tmp_path.iterdir())


def test_what_is_nowhere_negative_has_a_sequential_scale(tmp_path):
    field = np.zeros((1, 8, 8))
    field[0, 7, 0] = 3.0
    shown = colours(animate(tmp_path / "x.gif", {"u": field}, [0.0]))
    dark, bright = shown[HEADER + 5, MARGIN + 5], shown[HEADER + 187, MARGIN + 187]
    assert np.allclose(dark, [68, 1, 84], atol=2)  # the ends of viridis
    assert np.allclose(bright, [253, 231, 37], atol=2)
