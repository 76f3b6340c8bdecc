"""Rows that are kept, measured again, or never written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.training import load_model, save_model
from neuralsolver.training.presets import SCALES
from paper.evaluate import Evaluation
from paper.methods import (
    METHODS,
)
from paper.regimes import EXPERIMENTS
from paper.results import Results
from paper.rows import append_row, ledger, read_rows, stale
from tests.paper.small import evaluation


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    here = evaluation(tmp_path, "poisson")
    first = here.run(["zero", "fno"], ["in-distribution", "shift"])
    monkeypatch.setattr("paper.evaluate.measure", pytest.fail)
    assert here.run(["fno", "zero"], ["shift"]) == [first[3], first[2]]


def test_a_retrained_model_or_a_new_version_makes_its_rows_stale(tmp_path, monkeypatch):
    told = []
    here = replace(evaluation(tmp_path, "poisson"), tell=told.append)
    first = here.run(["zero", "fno"], ["in-distribution"])
    assert first[0]["weights"] == "none"
    card = here.place("fno") / "card.json"
    assert first[1]["weights"] == json.loads(card.read_text())["sha256"]
    assert here.run(["fno", "zero"], ["in-distribution"]) == first[::-1]
    assert told == []
    # another training of the same recipe under the same name
    network, description = load_model(here.place("fno"))
    with torch.no_grad():
        next(network.parameters()).add_(0.1)
    save_model(here.place("fno"), network, description)
    again = here.run(["zero", "fno"], ["in-distribution"])
    assert again[0] == first[0]
    assert again[1]["error"] != first[1]["error"]
    (words,) = told
    assert "in-distribution, fno" in words
    assert f"weights {first[1]['weights'][:12]}, now {again[1]['weights'][:12]}" in words
    before = METHODS["zero"].version
    monkeypatch.setattr("paper.methods.version_of", lambda prepare: "another")
    assert here.run(["zero"], ["in-distribution"])[0]["version"] == "another"
    assert f"version {before} of the method, now another" in told[-1]
    # the new rows have taken the place of the stale ones
    assert [row["method"] for row in read_rows(here.file)] == ["fno", "zero"]


def test_other_samples_are_other_rows(tmp_path):
    for samples in (2, 3):
        evaluation(tmp_path, "poisson", samples=samples).run(["zero"], ["in-distribution"])
    assert [row["samples"] for row in read_rows(evaluation(tmp_path, "poisson").file)] == [2, 3]
    results = Results.read(evaluation(tmp_path, "poisson").file.parent)
    assert results.get("poisson", "in-distribution", "zero").samples == 3


def test_weights_that_are_not_at_hand_contradict_nothing(tmp_path, monkeypatch):
    here = evaluation(tmp_path, "poisson")
    rows = here.run(["fno"], ["in-distribution"])
    monkeypatch.setattr("paper.evaluate.measure", pytest.fail)
    assert replace(here, runs=tmp_path / "elsewhere").run(["fno"], ["in-distribution"]) == rows


def test_two_evaluations_of_one_file_exclude_each_other(tmp_path):
    here = evaluation(tmp_path, "poisson")
    with ledger(here.file), pytest.raises(InvalidInput, match="no other process"):
        here.run(["zero"], ["in-distribution"])
    assert here.run(["zero"], ["in-distribution"])
    assert sorted(path.name for path in here.file.parent.iterdir()) == ["poisson.jsonl"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_is_true_of_the_moment_is_never_a_row(tmp_path, monkeypatch, error):
    def interrupted(setting):
        raise error

    monkeypatch.setitem(METHODS, "zero", replace(METHODS["zero"], prepare=interrupted))
    here = evaluation(tmp_path, "poisson")
    with pytest.raises(type(error)):
        here.run(["zero"], ["in-distribution"])
    assert read_rows(here.file) == []


def test_a_model_that_cannot_be_trained_now_is_no_verdict_on_its_method(tmp_path, monkeypatch):
    def busy(*arguments, **options):
        raise InvalidInput("dataset", "no other run that generates it", "one")

    here = evaluation(tmp_path, "poisson")
    here.draw(here.experiment.regime("in-distribution"), 2)
    monkeypatch.setattr("neuralsolver.training.run.generate", busy)
    with pytest.raises(InvalidInput, match="no other run"):
        here.run(["fno"], ["in-distribution"])
    assert read_rows(here.file) == []


def test_a_killed_writer_loses_its_own_row_only(tmp_path):
    file = tmp_path / "rows.jsonl"
    append_row(file, {"a": 1})
    with file.open("a") as stream:
        stream.write('{"a": 2, "b"')
    assert read_rows(file) == [{"a": 1}]
    append_row(file, {"a": 3})
    assert read_rows(file) == [{"a": 1}, {"a": 3}]
    file.write_text('{"a": 1\n{"a": 3}\n')
    with pytest.raises(FileDamaged, match="line 1"):
        read_rows(file)


def test_the_rows_that_are_shipped_are_those_of_the_shipped_models():
    """Only new code of a method makes one of them stale."""
    desk = Path(__file__).parents[2] / "results"
    for experiment in EXPERIMENTS.values():
        here = Evaluation(experiment, SCALES["small"], desk, runs=Path("no-runs"))
        rows = read_rows(here.file)
        assert rows
        for row in rows:
            method = METHODS[row["method"]]
            assert row["samples"] == here.count(method, experiment.regime(row["regime"]))
            assert stale(row, row["version"], here.weights(method)) is None
