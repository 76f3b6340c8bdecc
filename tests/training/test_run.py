"""Training a model from its description to its card."""

from __future__ import annotations

from dataclasses import replace

from neuralsolver.equations import Helmholtz
from neuralsolver.experiments.run import Training, train
from neuralsolver.experiments.scales import SCALES
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
