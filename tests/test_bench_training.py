"""What the batches of a shipped model take."""

import pytest

from neuralsolver.bench import training
from neuralsolver.training.card import read_card
from neuralsolver.training.library import SHIPPED


def test_every_stage_of_a_model_is_timed_and_its_batches_are_counted():
    rows = training.measure(["helmholtz-contractive"], minutes=1e-3)
    stages = read_card(SHIPPED / "helmholtz-contractive")["stages"]
    assert [row["stage"] for row in rows] == list(stages)
    for row in rows:
        assert row["batches"] == stages[row["stage"]]["batches"]
        assert row["minutes"] == pytest.approx(row["batches"] * row["milliseconds"] / 6e4, rel=0.01)
    assert "together" in training.table(rows)


def test_only_models_trained_by_the_clock_are_timed():
    assert "helmholtz-contractive" in training.timed_models()
    assert "darcy-shapes" not in training.timed_models()
