"""The qualitative figure of fields from sensors."""

from __future__ import annotations

import numpy as np

from paper.sensor_figures import COLUMNS, samples_figure, write_sensor_fields


def made_up(name="darcy", n=8):
    rng = np.random.default_rng(0)
    return {
        f"{name}/sensors": rng.random((5, 2)),
        f"{name}/input": rng.standard_normal((n, n)),
        f"{name}/solution": rng.random((n, n)),
        f"{name}/exact/error": 0.01 * rng.standard_normal((4, n, n)),
        f"{name}/spline/error": 0.02 * rng.standard_normal((1, n, n)),
    }


def test_every_method_has_a_row_and_one_answer_has_no_spread():
    arrays = made_up()
    figure = samples_figure(arrays, "darcy")
    panels = np.reshape(figure.axes[: 3 * len(COLUMNS)], (3, len(COLUMNS)))
    drawn = [[len(axis.images) for axis in row] for row in panels]
    assert drawn == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 1]]
    errors = arrays["darcy/exact/error"]
    shown = [panels[1][i].images[0].get_array().T for i in (1, 2, 4)]
    expected = [errors.std(0), errors[0] - errors.mean(0), np.abs(errors.mean(0))]
    for image, field in zip(shown, expected, strict=True):
        np.testing.assert_allclose(image, field)
    assert panels[2][0].get_ylabel() == "thin-plate spline"
    assert len(panels[0][0].collections[0].get_offsets()) == 5


def test_figures_are_written_for_what_was_drawn(tmp_path):
    written = {}
    write_sensor_fields(tmp_path, written.__setitem__)
    assert not written
    np.savez(tmp_path / "sensor-fields.npz", **made_up())
    write_sensor_fields(tmp_path, written.__setitem__)
    assert [path.name for path in written] == ["sensors-darcy.png"]
    assert next(iter(written.values())).startswith(b"\x89PNG")
