"""POSEIDON through the usual ways: pairs of frames, training, fine-tuning, its row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from neuralsolver.equations import Darcy, Helmholtz, NavierStokes, Poisson, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.training import load, run
from neuralsolver.training.fit import parameter_groups
from neuralsolver.training.objectives import OBJECTIVES, Batch
from neuralsolver.training.plan import Plan
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver
from neuralsolver.training.run import Training
from paper.__main__ import run as command_line
from paper.methods import METHODS, methods_of
from paper.regimes import EXPERIMENTS
from tests.paper.test_poseidon_weights import TINY as SIZES
from tests.paper.test_poseidon_weights import made_up, published_shapes, written

TINY = SCALES["tiny"]


class Drift(torch.nn.Module):
    """Answers exactly for fields that grow by one in every frame, and writes down the asked."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(1.0))
        self.asked: list[tuple[float, float]] = []

    def after(self, field, frames):
        self.asked += [(float(w[0, 0, 0]), float(f)) for w, f in zip(field, frames, strict=True)]
        return field + self.rate * frames.view(-1, 1, 1, 1)


def growing(count: int, frames: int) -> Batch:
    """Trajectories that start at 100, 200, … and grow by one in every frame."""
    start = 100.0 * torch.arange(1, count + 1).view(-1, 1, 1, 1, 1)
    grown = start + torch.arange(frames + 1).view(-1, 1, 1).expand(1, 1, -1, 4, 4)
    return Batch(Problem(NavierStokes(frames=frames), torch.zeros(count, 1, 8, 8)), grown, 0)


def asked_by(batch: Batch) -> tuple[float, list[tuple[float, float]]]:
    solver = torch.nn.Module()
    solver.predictor = Drift()
    (loss,) = OBJECTIVES["all_to_all"](solver, batch)
    return float(loss.detach()), solver.predictor.asked


def test_without_chance_every_frame_is_asked_for_from_each_before_it():
    loss, asked = asked_by(growing(1, 3))
    assert loss == 0.0
    assert sorted(asked) == [(100.0 + i, float(k)) for i in range(4) for k in range(4 - i)]


def test_chance_chooses_pairs_of_each_trajectory():
    batch = growing(2, 3)
    # of ten pairs the first, the fourth, the last and the fifth
    batch.chance = torch.tensor([[0.0, 0.39, 0.0, 0.0], [0.999, 0.41, 0.0, 0.0]])
    loss, asked = asked_by(batch)
    assert loss == 0.0
    assert asked == [(100.0, 0.0), (100.0, 3.0), (203.0, 0.0), (201.0, 0.0)]


def test_chance_is_of_the_batch_and_of_nothing_else():
    plan = Plan(batches=5, seed=3)
    first, again, next_one = plan.chances(0, 4), plan.chances(0, 4), plan.chances(1, 4)
    assert (first == again).all()
    assert not (first == next_one).any()
    assert ((first >= 0) & (first < 1)).all()


def test_the_loss_is_relative_to_the_whole_batch():
    solver = torch.nn.Module()
    solver.predict = lambda problem: torch.tensor([[1.0], [8.0]])
    batch = Batch(None, torch.tensor([[2.0], [-10.0]]), 0)  # type: ignore[arg-type]
    (loss,) = OBJECTIVES["relative_l1"](solver, batch)
    assert float(loss) == pytest.approx((1 + 18) / 12)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(run, "TEST_SAMPLES", 2)
    monkeypatch.setattr(run, "VALIDATION_SAMPLES", 2)


def test_it_trains_like_every_other_recipe(few, tmp_path):
    training = Training(Darcy(), "poseidon", TINY, changes={"batches": 3})
    solver = load(run.train(training, tmp_path, data=tmp_path))
    assert solver.network.corrector is None
    problem = Problem.random(Darcy(), 16, 2)
    with torch.no_grad():
        again = solver.network.predict(problem)
    assert torch.isfinite(again).all()


@pytest.mark.parametrize("equation", [Poisson(), NavierStokes(frames=4)], ids=lambda e: e.name)
@pytest.mark.parametrize("points", [16, 24, 32])
def test_it_answers_on_any_grid(equation, points):
    solver = make_solver("poseidon", equation, TINY)
    problem = Problem.random(equation, points, 2).in_precision(equation.precision)
    with torch.no_grad():
        u = solver.predict(problem)
    assert u.shape == (2, *equation.solution_shape(points))
    assert torch.equal(u, problem.impose(u))
    assert not torch.equal(u, problem.impose(problem.first_guess()))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return written(made_up(published_shapes(**SIZES)), tmp_path_factory.mktemp("weights"))


def test_published_weights_are_fine_tuned(published, few, tmp_path):
    scratch = Training(Helmholtz(), "poseidon", TINY, changes={"batches": 1})
    training = Training(
        Helmholtz(), "poseidon", TINY, changes={"batches": 1, "batch_size": 2}, start=published
    )
    assert training.folder(tmp_path) != scratch.folder(tmp_path)
    (stage,) = training.stages
    assert (stage.plan.learning_rate, stage.plan.clip, stage.plan.warmup) == (5e-4, 5.0, 0)
    model = run.train(training, tmp_path, data=tmp_path)
    card = json.loads((model / "card.json").read_text())
    assert len(card["start"]) == 64
    assert card["solver"]["predictor"]["arguments"]["width"] == SIZES["width"]
    assert card["solver"]["predictor"]["arguments"]["image_size"] == 128
    before, after = training.solver(), load(model).network
    for name, old in before.named_parameters():
        # one step of Adam is as long as the rate, whatever the gradient
        moved = float((after.get_parameter(name) - old).detach().abs().max())
        slow = "norm" not in name and not name.startswith(
            ("predictor.scot.lifting", "predictor.scot.recovery", "predictor.scot.mixup")
        )
        assert moved < (6e-5 if slow else 6e-4), name


def test_rates_of_a_brought_network_are_grouped(published):
    training = Training(Helmholtz(), "poseidon", TINY, start=published)
    groups = parameter_groups(training.solver(), training.stages[0].plan)
    kinds = {(group["share"], group["weight_decay"]) for group in groups}
    assert kinds == {(1.0, 1e-6), (1.0, 0.0), (0.1, 1e-6), (0.1, 0.0)}
    plain = parameter_groups(
        make_solver("poseidon", Helmholtz(), TINY), Plan(batches=1, weight_decay=0.5)
    )
    assert [(group["share"], group["weight_decay"]) for group in plain] == [(1.0, 0.5)]


def test_other_recipes_cannot_start_from_it(published, tmp_path):
    for recipe in ("fno", "contractive"):
        with pytest.raises(InvalidInput, match="a shipped model or the folder of one"):
            Training(Helmholtz(), recipe, TINY, start=published).solver()


def test_it_is_a_row_of_every_table_in_which_the_paper_has_it():
    method = METHODS["poseidon"]
    assert method.printed == "POSEIDON"
    for experiment in EXPERIMENTS.values():
        assert (method in methods_of(experiment)) == (not experiment.ablation)


def test_the_command_fine_tunes_and_says_why_not(published, few, tmp_path, capsys):
    folders = ["--runs", str(tmp_path), "--data", str(tmp_path)]
    command = ["train", "poisson", "--scale", "tiny", "--start", str(published), *folders]
    assert command_line([*command, "--recipe", "fno"]) == 1
    assert "a shipped model or the folder of one" in capsys.readouterr().err
    missing = ["--recipe", "poseidon", "--start", str(tmp_path / "none.safetensors")]
    assert command_line([*command[:4], *folders, *missing]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    small = ["--plan", "batches=1", "--plan", "batch_size=2"]
    assert command_line([*command, "--recipe", "poseidon", *small]) == 0
    model = capsys.readouterr().out.strip()
    assert json.loads((Path(model) / "card.json").read_text())["start"]


@pytest.mark.parametrize("objective", ["all_to_all", "denoising"])
@pytest.mark.parametrize("recipe", ["fno", "contractive"])
def test_an_objective_of_other_networks_is_refused(objective, recipe, tmp_path, capsys):
    places = ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "data")]
    plan = ["--plan", "batches=1", "--plan", f"objective={objective}"]
    arguments = ["train", "poisson", "--scale", "tiny", "--recipe", recipe, *plan, *places]
    assert command_line(arguments) == 1
    assert f"objective {objective}: expected" in capsys.readouterr().err
