"""Sensors: reading, checking, and what they see of fields."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralsolver.equations import Darcy, Observed, Poisson, Problem, Sensors
from neuralsolver.errors import FileDamaged, InvalidInput

PLACES = [(0.0, 0.0), (0.5, 0.25), (1.0, 1.0), (0.3, 0.7)]


def some(noise=0.0):
    fields = ["source", "solution", "source", "source"]
    return Sensors(PLACES, fields, [1.0, 2.0, -3.0, 0.1], noise)


def test_a_table_comes_back_as_it_was(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(some().table())
    again = Sensors.read(path)
    np.testing.assert_array_equal(again.positions, PLACES)
    assert again.fields == some().fields
    assert again.values.tolist() == [1.0, 2.0, -3.0, 0.1]


def test_arrays_are_read(tmp_path):
    x, y = np.array(PLACES).T
    np.savez(tmp_path / "s.npz", x=x, y=y, field="source", value=np.arange(4.0))
    again = Sensors.read(tmp_path / "s.npz", noise=0.2)
    assert again.fields == ("source",) * 4
    assert again.noise == 0.2
    np.savez(tmp_path / "t.npz", x=x, y=y, value=x)
    with pytest.raises(InvalidInput, match="no field"):
        Sensors.read(tmp_path / "t.npz")
    (tmp_path / "u.npz").write_bytes(b"nothing")
    with pytest.raises(FileDamaged):
        Sensors.read(tmp_path / "u.npz")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.1,0.2,source", "line 3"),
        ("0.1,0.2,source,many", "line 3"),
        ("0.1,0.2,source,nan", "sensor 2: expected finite numbers"),
        ("1.1,0.2,source,1", "sensor 2: expected a position in the unit square"),
        ("0,0,source,7", "sensor 2: expected one value at one place"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    path = tmp_path / "s.csv"
    path.write_text(f"x,y,field,value\n0,0,source,1\n{line}\n")
    with pytest.raises(InvalidInput, match=message):
        Sensors.read(path)


def test_a_foreign_table_is_refused(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="first line x,y,field,value"):
        Sensors.read(path)


def test_a_repeated_sensor_counts_once_unless_there_is_noise():
    twice = [PLACES[0], PLACES[0], *PLACES[1:]]
    assert len(Sensors(twice, "source", [1.0, 1.0, 2.0, 3.0, 4.0])) == 4
    assert len(Sensors(twice, "source", [1.0, 1.5, 2.0, 3.0, 4.0], noise=0.1)) == 5


def test_what_an_equation_does_not_have_is_refused():
    with pytest.raises(InvalidInput, match="one of permeability, solution"):
        Observed(Darcy(), 16, some())


def test_sensors_read_grids_bilinearly_and_exactly_at_grid_points():
    observed = Observed(Poisson(), 17, some())
    line = torch.linspace(0, 1, 17, dtype=torch.float64)
    linear = (1 + line[:, None] - 2 * line).expand(2, 1, 17, 17)
    seen = observed.read_off(linear, 10 * linear)
    expected = [1 + x - 2 * y for x, y in PLACES]
    expected[1] *= 10
    np.testing.assert_allclose(seen.numpy(), np.tile(expected, (2, 1)), atol=1e-12)
    missed = observed.mismatch(linear, 10 * linear)
    np.testing.assert_allclose((seen - missed)[0].numpy(), observed.sensors.values, atol=1e-12)


def test_random_sensors_see_the_field_and_depend_on_the_seed():
    field = Problem.random(Poisson(), 16, seed=1).inputs
    first, again, other = (
        Sensors.random({"source": field[0, 0].numpy()}, 30, seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.positions, again.positions)
    assert not np.array_equal(first.positions, other.positions)
    observed = Observed(Poisson(), 16, first)
    assert float(observed.mismatch(field, torch.zeros_like(field)).abs().max()) < 1e-12
    assert observed.inputs_only
    assert observed.complete(field).batch == 1
