"""Training a model from its description to its card."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson, equation_named
from neuralsolver.equations.registry import equation_to_train
from neuralsolver.errors import InvalidInput
from neuralsolver.models import RETIRED
from neuralsolver.training import load, shipped
from neuralsolver.training.checkpoint import read_card
from neuralsolver.training.library import SHIPPED
from neuralsolver.training.presets import NETWORKS, SCALES, recipes_for, scale_named
from neuralsolver.training.recipes import make_solver, make_stages
from neuralsolver.training.run import Training, train
from paper.regimes import EXPERIMENTS
from paper.rows import timed_again

TINY = replace(SCALES["tiny"], samples=16)


def test_a_warm_start_takes_its_share_on_the_coarser_grid(tmp_path):
    scale = replace(TINY, warm_resolution=12)
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


def test_a_run_changes_its_name_with_its_networks_and_nothing_else(tmp_path, monkeypatch):
    training = Training(NavierStokes(frames=6), "paper", TINY)
    before = training.folder(tmp_path)
    key = ("refined", "tiny")
    last = NETWORKS[key][-1]
    monkeypatch.setitem(NETWORKS, key, (replace(last, arguments={**last.arguments, "patch": 4}),))
    assert training.folder(tmp_path) != before
    static = Training(Helmholtz(), "paper", TINY)
    monkeypatch.undo()
    assert static.folder(tmp_path) == Training(Helmholtz(), "paper", TINY).folder(tmp_path)


def test_what_is_trained_is_what_is_evaluated():
    """A plain `ens train navier-stokes` used to train on another residual."""
    for name, experiment in EXPERIMENTS.items():
        if not experiment.ablation:
            assert equation_to_train(name) == experiment.equation
    assert equation_to_train("navier-stokes", {"time_order": "2"}).time_order == 2


@pytest.mark.parametrize("equation", [Poisson(), Darcy(), NavierStokes(frames=6)])
def test_every_recipe_that_suits_has_one_row_and_its_stages(equation):
    for scale in SCALES.values():
        for recipe in recipes_for(equation):
            stages = make_stages(recipe, equation, scale)
            assert stages[-1].resolution == scale.resolution
            assert [s.name for s in stages if s.name == "training"] == ["training"]
            plain = sum(s.plan.batches or 0 for s in stages if s.name != "finish")
            if scale.batches is not None:
                assert plain == scale.batches
    with pytest.raises(InvalidInput, match="recipe: expected one of contractive"):
        make_stages("magic", equation, TINY)


def test_the_shipped_models_are_those_of_the_table():
    """The plans on the cards are what the table says today, to the digit; a model that goes on from
    another was trained as its command said."""
    for name in shipped():
        card = read_card(SHIPPED / name)
        equation = equation_named(card["equation"]["name"], card["equation"]["constants"])
        scale = SCALES[card["scale"]]
        stages = make_stages(card["recipe"], equation, scale, seed=card["seed"])
        if "start" in card:
            own = [stage for stage in card["stages"] if not stage.startswith("before: ")]
            names = [stage.name for stage in stages]
            assert own == [name for name in names if name in ("predictor", "training")]
            assert len(card["stages"]) > 1
        else:
            assert [stage.name for stage in stages] == list(card["stages"])
        for stage in () if "start" in card else stages:
            written = card["stages"][stage.name]
            assert stage.resolution == written["resolution"]
            minutes = (written["plan"].pop("budget_minutes"), stage.plan.budget_minutes)
            by_the_clock = card["sha256"][:8] in timed_again()  # of which a minute was less
            assert by_the_clock or minutes[0] == (minutes[1] and pytest.approx(minutes[1]))
            ours = asdict(stage.plan)
            assert {key: ours[key] for key in written["plan"]} == written["plan"], name
        solver = make_solver(card["recipe"], equation, scale)
        for part in ("predictor", "corrector"):
            network, stored = getattr(solver, part), card["solver"][part]
            assert (network is None) == (stored is None)
            if network is not None:
                arguments = {
                    **{name: value for (_, name), value in RETIRED.items()},
                    **network.arguments,
                }
                assert {k: arguments[k] for k in stored["arguments"]} == stored["arguments"]


def test_a_finish_and_a_warm_start_take_their_shares():
    small = SCALES["small"]
    flow = make_stages("contractive", NavierStokes(frames=6), small)
    assert [(s.name, s.plan.batches, s.plan.unroll) for s in flow] == [
        ("training", 3200, 1),
        ("finish", 200, 12),
    ]
    minutes = make_stages("contractive", NavierStokes(frames=6), small, budget_minutes=16.0)
    assert [s.plan.budget_minutes for s in minutes] == pytest.approx([64 / 7, 48 / 7])
    paper = make_stages("paper", Darcy(), small)
    assert [(s.resolution, s.plan.batches) for s in paper] == [(32, 3600), (64, 1200)]
    coarse = make_stages("paper", Helmholtz(), small, coarsening=2)
    assert [(s.resolution, s.plan.batches) for s in coarse] == [(32, 600)]


def test_a_training_goes_on_from_the_weights_of_another(tmp_path):
    few = {"batches": 2}
    first = Training(Helmholtz(), "paper", TINY, changes=few)
    model = train(first, tmp_path / "runs", data=tmp_path)
    second = Training(Helmholtz(wavenumber=2.0), "paper", TINY, changes=few, start=model)
    begin, before = second.solver().state_dict(), load(model).network.state_dict()
    assert all(bool((begin[name] == values).all()) for name, values in before.items())
    assert second.folder(tmp_path) != replace(second, start=None).folder(tmp_path)
    record = load(train(second, tmp_path / "runs", data=tmp_path)).record
    # what the first weights had cost counts
    assert list(record["stages"]) == ["before: training", "training"]
    assert record["start"] == read_card(model)["sha256"]
    with pytest.raises(InvalidInput, match="the same networks"):
        replace(second, recipe="contractive").solver()
    with pytest.raises(InvalidInput, match="start"):
        replace(second, start="no-such-model").folder(tmp_path)


def test_files_keep_the_old_name_of_the_small_scale(tmp_path):
    assert Training(Poisson(), "paper", SCALES["small"]).folder(tmp_path).name.startswith("desk-")
    assert read_card(SHIPPED / "poisson-contractive")["scale"] == "small"
    with pytest.raises(InvalidInput, match="small"):
        scale_named("desk")
