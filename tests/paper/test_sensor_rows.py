"""What is measured about samples, and the rows of exact ones."""

from __future__ import annotations

import json

import pytest
import torch

from paper import sensors
from paper.sensor_tables import calibration, number_of_sensors, other_tasks, sparse
from paper.sensors import Case, Instances, Task, coverage, crps, measure
from paper.typeset import markdown


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_true_draws_hold_what_they_promise(level):
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(33, 1, 200, 200, generator=generator, dtype=torch.float64)
    assert coverage(drawn[1:], drawn[0], level) == pytest.approx(level, abs=0.012)
    assert coverage(0.5 * drawn[1:], drawn[0], level) < level - 0.15


def test_crps_is_its_definition():
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    true = torch.randn(5, generator=generator, dtype=torch.float64)
    pairs = (drawn[:, None] - drawn[None]).abs().sum((0, 1)) / (6 * 5)
    expected = (drawn - true).abs().mean(0) - 0.5 * pairs
    torch.testing.assert_close(crps(drawn, true), expected)


def test_exact_samples_have_the_ratio_one():
    task = Task("poisson", sensors=100, instances=6, samples=16)
    row = measure(Case(task, "exact"), Instances(task, seed=5))
    assert row["ratio_mean"] == 1 == row["crps_ratio"]
    assert 0.7 < row["ratio"] < 1.4
    assert row["error_mean"] < row["error"]
    assert row["residual"] < 1e-20
    assert row["mismatch"] < 1e-6
    assert 0.7 < row["coverage_90"] <= 1
    json.dumps(row, allow_nan=False)
    assert (row["weights"], len(row["version"])) == ("none", 12)


def test_missing_rows_are_measured_once_and_tabulated(tmp_path, monkeypatch):
    few = [
        Case(Task(name, sensors=count, instances=instances), method)
        for name in ("poisson", "darcy")
        for count, instances in ((500, 2), (100, sensors.SWEPT))
        for method in ("exact", "spline")
    ]
    monkeypatch.setattr(sensors, "cases", lambda: few)
    file = sensors.evaluate_sensors(tmp_path, equations=("poisson",))
    first = file.read_text()
    assert len(first.splitlines()) == 4
    sensors.evaluate_sensors(tmp_path, methods=("exact", "spline"))
    assert file.read_text().startswith(first)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == 8
    assert {row["equation"] for row in rows} == {"poisson", "darcy"}
    text = markdown(sparse(rows))
    assert "0.0214" in text
    assert "not run" in text
    assert f"{rows[0]['error']:.4f}" in text
    assert len(number_of_sensors(rows).axes[1].lines) == 2
    assert "not run" in markdown(calibration(rows))
    assert "not run" in markdown(other_tasks(rows))


def test_every_case_is_a_row_of_its_own():
    keys = [json.dumps(case.key) for case in sensors.cases()]
    assert len(keys) == len(set(keys))
