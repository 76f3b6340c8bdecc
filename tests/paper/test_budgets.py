"""The budget of a row: from the card of its models, and what its minutes are minutes of."""

import json
import shutil
from pathlib import Path

from neuralsolver.training import load, shipped
from neuralsolver.training.library import SHIPPED
from paper.rows import (
    budget_of,
    budget_of_all,
    shipped_budgets,
    timed_again,
)

RESULTS = Path(__file__).parents[2] / "results" / "desk"


def test_a_budget_adds_up_the_stages_of_a_card():
    place = SHIPPED / "darcy-shapes"
    stages = json.loads((place / "card.json").read_text())["stages"].values()
    found = budget_of(place)
    assert found["minutes"] == sum(stage["minutes"] for stage in stages)
    assert found["batches"] == sum(stage["batches"] for stage in stages)
    network = load("shapes").network
    assert found["weights"] == sum(p.numel() for p in network.parameters())


def test_models_trained_by_the_clock_state_what_their_batches_take():
    rows = json.loads((RESULTS / "training.json").read_text())
    for name in {row["model"] for row in rows}:
        stages = [row for row in rows if row["model"] == name]
        found = budget_of(SHIPPED / name)
        assert found["clock"] == "again"
        assert found["batches"] == sum(row["batches"] for row in stages)
        assert found["minutes"] == round(sum(row["minutes"] for row in stages), 1)
        assert timed_again()[stages[0]["sha256"]] == found["minutes"]


def test_the_minutes_of_other_weights_are_cpu_minutes(tmp_path):
    model = shutil.copytree(SHIPPED / "helmholtz-fno", tmp_path / "model")
    card = json.loads((model / "card.json").read_text())
    (model / "card.json").write_text(json.dumps(card | {"sha256": "0" * 64}))
    assert budget_of(model)["clock"] == "CPU"


def test_a_method_of_two_models_has_had_both_budgets():
    places = [SHIPPED / "helmholtz-fno", SHIPPED / "darcy-fno"]
    one, other = map(budget_of, places)
    both = budget_of_all(places)
    assert both["batches"] == one["batches"] + other["batches"]
    assert budget_of_all([]) is None


def test_every_shipped_model_has_its_budget():
    found = shipped_budgets()
    assert len(found) >= len(shipped())
    assert all(b["minutes"] and b["batches"] and b["weights"] for b in found.values())
