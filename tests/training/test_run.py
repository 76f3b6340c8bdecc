"""Training a model from its description to its card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson
from neuralsolver.experiments.run import Training, train
from neuralsolver.experiments.trainings import SCALES
from neuralsolver.training import load

TINY = replace(SCALES["tiny"], samples=16)


def test_a_warm_start_takes_its_share_on_the_coarser_grid(tmp_path):
    scale = replace(TINY, warm_start_resolution=12)
    training = Training(Helmholtz(), "contractive", scale, seed=2, changes={"batches": 10})
    seen = []
    model = train(
        training,
        tmp_path / "runs",
        data=tmp_path,
        report=lambda stage, done, record: seen.append((stage, done)),
    )
    record = load(model).record
    stages = record["stages"]
    assert [(name, s["resolution"], s["batches"]) for name, s in stages.items()] == [
        ("warm start", 12, 3),
        ("training", 16, 7),
    ]
    assert seen[0][0] == "warm start"
    assert seen[-1] == ("training", 1.0)
    assert set(record["errors"]["relative_l2"]) == {"0", "1", "2", "5", "10", "20"}


def test_a_run_is_named_by_all_that_determines_it(tmp_path):
    base = Training(Helmholtz(), "contractive", TINY)
    others = [
        replace(base, seed=1),
        replace(base, equation=Helmholtz(wavenumber=2.0)),
        replace(base, scale=replace(TINY, samples=17)),
        replace(base, changes={"learning_rate": 1e-4}),
        replace(base, recipe="paper"),
    ]
    folders = {training.folder(tmp_path) for training in [base, *others]}
    assert len(folders) == 6
    assert base.folder(tmp_path) == Training(Helmholtz(), "contractive", TINY).folder(tmp_path)


@pytest.mark.parametrize(
    ("equation", "recipe", "scale", "name"),
    [
        (Helmholtz(), "contractive", "desk", "desk-4c9f3f357f78"),
        (Darcy(), "paper", "desk", "desk-00824dfb48f6"),
        (Poisson(), "fno", "paper", "paper-67ce704c250f"),
    ],
)
def test_the_runs_that_there_are_keep_their_names(equation, recipe, scale, name, tmp_path):
    """As they were before a scale knew of flows."""
    assert Training(equation, recipe, SCALES[scale]).folder(tmp_path).name == name


def test_a_flow_is_trained_at_the_scale_of_flows(tmp_path):
    scale = replace(TINY, flow={"samples": 3, "batches": 5})
    flow, static = NavierStokes(frames=6), Helmholtz()
    training = Training(flow, "paper", scale)
    assert (training.scale.samples, training.plan.batches) == (3, 5)
    assert Training(static, "paper", scale).scale.samples == TINY.samples
    # sizes of networks that only flows have name the runs of flows only
    wider = replace(scale, transformer={**TINY.transformer, "patch": 4})
    accurate = replace(training, equation=replace(flow, time_order=4))
    runs = [training, replace(training, scale=wider), accurate]
    assert len({run.folder(tmp_path) for run in runs}) == 3
    names = {Training(static, "paper", s).folder(tmp_path) for s in (TINY, scale, wider)}
    assert len(names) == 1


def test_the_plan_of_a_flow_differs_where_it_says():
    plans = [Training(equation, "fno", TINY).plan for equation in (Helmholtz(), NavierStokes())]
    assert [plan.objective for plan in plans] == ["relative_h1", "relative_l2"]
    assert plans[1].learning_rate < plans[0].learning_rate
    assert plans[0].unroll == plans[1].unroll == 0
