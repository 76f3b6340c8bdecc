"""Reading rows back: the last one counts, half a line at the end does not."""

import json
import math

import pytest

from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.training.library import SHIPPED
from paper.results import Results, series
from tests.paper.made_up import row

PLACE = ("helmholtz", "shift", "ens")


def written(folder, lines, end="\n"):
    path = folder / "helmholtz.jsonl"
    path.write_text("\n".join(lines) + end)
    return path


def read(folder, lines, end="\n"):
    written(folder, lines, end)
    return Results.read(folder).get(*PLACE)


def test_the_last_of_equal_rows_counts_and_most_samples_before_it(tmp_path):
    rows = [row(*PLACE, error=1.0), row(*PLACE, error=2.0), row(*PLACE, error=3.0, samples=2)]
    assert read(tmp_path, [json.dumps(r) for r in rows]).error == 2.0


def test_a_mean_over_few_samples_is_known_as_such(tmp_path):
    rows = [row(*PLACE), row("helmholtz", "shift", "pino-ttop", samples=2)]
    written(tmp_path, [json.dumps(r) for r in rows])
    results = Results.read(tmp_path)
    assert not results.get(*PLACE).few
    assert results.get("helmholtz", "shift", "pino-ttop").few


def test_half_a_line_at_the_end_is_no_row(tmp_path):
    text = json.dumps(row(*PLACE, error=1.0))
    assert read(tmp_path, [text, text[:50]], end="").error == 1.0


def test_half_a_line_elsewhere_is_damage(tmp_path):
    text = json.dumps(row(*PLACE))
    with pytest.raises(FileDamaged, match="line 1"):
        read(tmp_path, [text[:50], text])


def test_the_published_seed_counts_before_more_samples(tmp_path):
    rows = [row(*PLACE, seed=20412, error=1.0, samples=50), row(*PLACE, seed=7, error=2.0)]
    found = read(tmp_path, [json.dumps(r) for r in rows])
    assert (found.error, found.fresh) == (1.0, True)


def test_what_older_rows_did_not_say_is_looked_up(tmp_path):
    """The budget from a shipped card with the same weights, the effort from the steps made."""
    card = json.loads((SHIPPED / "helmholtz-paper" / "card.json").read_text())
    known = row(*PLACE, weights=card["sha256"], training=None)
    found = read(tmp_path, [json.dumps(known)])
    assert found.training["batches"] == sum(s["batches"] for s in card["stages"].values())
    assert math.isnan(found.effort)
    strange = row(*PLACE, weights="unknown", training=None)
    assert read(tmp_path, [json.dumps(strange)]).training is None
    place = ("helmholtz", "shift", "pino-ttop")
    written(tmp_path, [json.dumps(row(*place, steps=100.0))])
    assert Results.read(tmp_path).get(*place).effort == 0.2


def test_a_series_has_only_numbers_to_draw(tmp_path):
    history = {"step": [0, 3, 6, 9], "error": [1.0, None, float("nan"), 0.5]}
    found = read(tmp_path, [json.dumps(row(*PLACE, history=history))])
    assert series(found, "error") == ([0.0, 9.0], [1.0, 0.5])
    assert series(found, "residual") == ([], [])


def test_no_folder_is_said(tmp_path):
    with pytest.raises(InvalidInput, match="nowhere"):
        Results.read(tmp_path / "nowhere")
