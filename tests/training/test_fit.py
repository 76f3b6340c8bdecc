"""The training loop: what it minimises, that it resumes bit for bit, that processes agree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
import torch

from neuralsolver.equations import Helmholtz, Problem
from neuralsolver.errors import InvalidInput
from neuralsolver.solvers import State
from neuralsolver.training import Plan, error_history, fit, load_model
from neuralsolver.training.fit import busy_seconds
from neuralsolver.training.objectives import (
    Batch,
    contraction,
    physics_informed,
    reconstruction,
    squared_norm,
)
from neuralsolver.training.presets import SCALES, recipes_for
from neuralsolver.training.recipes import make_plan, make_solver
from tests.training.job import InMemory

TINY = SCALES["tiny"]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def examples():
    return InMemory(Helmholtz(), 24, 16)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    torch.set_num_threads(1)


def awake(recipe):
    """A solver of the recipe whose networks no longer answer zero."""
    solver = make_solver(recipe, Helmholtz(), TINY)
    with torch.no_grad():
        for parameter in solver.parameters():
            parameter.add_(1e-3 * torch.randn_like(parameter))
    return solver


def test_loss_of_a_correction_does_not_reach_the_prediction(examples):
    solver = make_solver("paper", Helmholtz(), TINY)
    inputs, target = examples.tensors(slice(0, 2))
    batch = Batch(Problem(Helmholtz(), inputs), target, steps=3)
    reached = []
    for loss in reconstruction(solver, batch):
        solver.zero_grad()
        loss.backward()
        reached.append(any(p.grad is not None for p in solver.predictor.parameters()))
    assert reached == [True, False, False, False]


def test_reconstruction_averages_all_predictions(examples):
    solver = awake("paper")
    inputs, target = examples.tensors(slice(0, 2))
    problem = Problem(Helmholtz(), inputs)
    batch = Batch(problem, target, steps=2)
    total = sum(loss.detach().item() for loss in reconstruction(solver, batch))
    u, expected = solver.predict(problem).detach(), 0.0
    for _ in range(3):
        expected += float((u - target).square().mean()) / 3
        u = solver.stepper()(State.of(problem, u)).detach()
    assert total == pytest.approx(expected, rel=1e-5)


def test_reconstruction_goes_on_from_the_iterates_of_earlier_batches(examples):
    solver = awake("paper")
    inputs, target = examples.tensors(slice(0, 2))
    problem = Problem(Helmholtz(), inputs)
    start = torch.stack([0.9 * target[0], torch.full_like(target[0], torch.nan)])
    batch = Batch(problem, target, steps=1, start=start)
    losses = [loss.detach().item() for loss in reconstruction(solver, batch)]
    prediction = solver.predict(problem).detach()
    begin = torch.stack([start[0], prediction[1]])
    u = solver.stepper()(State.of(problem, begin)).detach()
    assert losses[0] == pytest.approx(float((prediction - target).square().mean()) / 2, rel=1e-5)
    assert losses[1] == pytest.approx(float((u - target).square().mean()) / 2, rel=1e-5)
    assert torch.allclose(batch.end[0], u[0])


def test_the_physics_informed_loss_weighs_data_and_residual(examples):
    solver = awake("pino").requires_grad_(False)
    inputs, target = examples.tensors(slice(0, 3))
    problem = Problem(Helmholtz(), inputs)
    (loss,) = physics_informed(solver, Batch(problem, target, steps=0))
    u = solver.predict(problem)
    error = (u - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)
    residual = problem.residual(u).flatten(1).norm(dim=1)
    zero = problem.residual(problem.zeros()).flatten(1).norm(dim=1)
    assert float(loss) == pytest.approx(float((5 * error + residual / zero).mean()), rel=1e-5)
    exact = Batch(problem, target, steps=0)
    exact.target = u.detach()
    (only_residual,) = physics_informed(solver, exact)
    assert float(only_residual) == pytest.approx(float((residual / zero).mean()), rel=1e-5)


def test_contraction_is_the_ratio_of_squared_errors(examples):
    solver = awake("contractive")
    inputs, target = examples.tensors(slice(0, 2))
    problem = Problem(Helmholtz(), inputs)
    batch = Batch(problem, target, steps=1)
    losses = [loss.detach().item() for loss in contraction(solver, batch)]
    u = solver.predict(problem)
    v = solver.stepper()(State.of(problem, u))
    ratio = squared_norm(v - target) / squared_norm(u - target)
    assert losses[1] == pytest.approx(float(ratio.mean().detach()), rel=1e-4)


def test_memory_does_not_grow_with_the_number_of_corrections(examples):
    """Bytes kept for back-propagation, alive at the same time."""

    def peak(steps: int) -> int:
        solver = make_solver("paper", Helmholtz(), TINY)
        inputs, target = examples.tensors(slice(0, 4))
        batch = Batch(Problem(Helmholtz(), inputs), target, steps)
        alive, highest = 0, 0

        class Kept:
            def __init__(self, tensor):
                self.tensor = tensor

        def release(size):
            nonlocal alive
            alive -= size

        def pack(tensor):
            nonlocal alive, highest
            kept = Kept(tensor)
            size = tensor.numel() * tensor.element_size()
            alive += size
            highest = max(highest, alive)
            weakref.finalize(kept, release, size)
            return kept

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor):
            for loss in reconstruction(solver, batch):
                loss.backward()
        return highest

    assert peak(12) <= 1.05 * peak(2)
    assert peak(2) > 0


@pytest.mark.slow
@pytest.mark.parametrize("recipe", recipes_for(Helmholtz()))
def test_every_recipe_learns(recipe, examples, tmp_path):
    solver = make_solver(recipe, Helmholtz(), TINY, seed=1)
    steps = 0 if solver.corrector is None else 3
    before = error_history(solver, examples, steps)
    plan = make_plan(recipe, Helmholtz(), TINY, batches=120, learning_rate=4e-3)
    record = fit(solver, examples, plan, tmp_path, validation=examples)
    after = error_history(solver, examples, steps)
    # a corrector that reads nothing of its error has nothing to learn from but the prediction
    assert after[-1] < (1.0 if recipe == "paper-zero-field" else 0.7) * before[-1]
    assert record.batches == 120
    assert record.validation == pytest.approx(
        error_history(solver, examples, len(record.validation) - 1)
    )
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["batches"] == 120


def test_bfloat16_and_averaged_weights_are_options(examples, tmp_path):
    solver = make_solver("contractive", Helmholtz(), TINY)
    start = [p.detach().clone() for p in solver.parameters()]
    plan = make_plan("contractive", Helmholtz(), TINY, batches=5, bfloat16=True, ema=0.5)
    record = fit(solver, examples, plan, tmp_path)
    assert record.skipped == 0
    assert any(not torch.equal(a, b) for a, b in zip(start, solver.parameters(), strict=True))
    assert all(p.dtype is torch.float32 for p in solver.parameters())


def test_finished_run_is_a_no_op(examples, tmp_path):
    plan = make_plan("contractive", Helmholtz(), TINY, batches=3)
    first = make_solver("contractive", Helmholtz(), TINY)
    fit(first, examples, plan, tmp_path)
    again = make_solver("contractive", Helmholtz(), TINY)
    record = fit(again, examples, plan, tmp_path)
    assert record.batches == 3
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_another_plan_does_not_continue_a_run(examples, tmp_path):
    solver = make_solver("contractive", Helmholtz(), TINY)
    fit(solver, examples, make_plan("contractive", Helmholtz(), TINY, batches=2), tmp_path)
    with pytest.raises(InvalidInput, match="same plan"):
        fit(solver, examples, make_plan("contractive", Helmholtz(), TINY, batches=4), tmp_path)


def test_a_budget_of_busy_minutes_is_kept(examples, tmp_path):
    plan = make_plan("fno", Helmholtz(), TINY, budget_minutes=0.02)
    record = fit(make_solver("fno", Helmholtz(), TINY), examples, plan, tmp_path)
    assert 1.2 <= record.seconds < 6.0
    assert record.batches > 1


def test_what_a_core_does_for_others_takes_nothing_from_a_budget():
    before = busy_seconds(torch.device("cpu"))
    time.sleep(0.5)
    assert busy_seconds(torch.device("cpu")) - before < 0.25


def test_non_finite_gradients_are_skipped_and_counted(tmp_path):
    """A sample of nothing but zeros has no relative error: its batch must not spoil the weights."""
    examples = InMemory(Helmholtz(), 16, 16)
    examples.solution[:8] = 0.0
    examples.inputs[:8] = 0.0
    plan = make_plan("fno", Helmholtz(), TINY, batches=8, batch_size=2)
    solver = make_solver("fno", Helmholtz(), TINY)
    record = fit(solver, examples, plan, tmp_path)
    assert record.skipped > 0
    assert all(torch.isfinite(p).all() for p in solver.parameters())


def test_hopeless_training_is_given_up_with_a_reason(tmp_path):
    examples = InMemory(Helmholtz(), 8, 16)
    examples.solution[:] = 0.0
    plan = make_plan("fno", Helmholtz(), TINY, batches=100)
    with pytest.raises(InvalidInput, match=r"learning_rate"):
        fit(make_solver("fno", Helmholtz(), TINY), examples, plan, tmp_path)


def test_plan_is_checked():
    for build in (
        Plan,
        lambda: Plan(batches=1, budget_minutes=1.0),
        lambda: Plan(batches=1, objective="hope"),
        lambda: Plan(batches=1, unroll=2, shortest_unroll=3),
        lambda: make_plan("magic", Helmholtz(), TINY),
        lambda: make_solver("magic", Helmholtz(), TINY),
    ):
        with pytest.raises(InvalidInput, match=r"expected .* got"):
            build()


def test_every_sample_is_seen_once_in_an_epoch():
    plan = Plan(batches=1, batch_size=4, seed=9)
    epoch = [i for batch in range(6) for i in plan.samples(batch, 24)]
    assert sorted(epoch) == list(range(24))
    assert list(plan.samples(0, 24)) != list(plan.samples(6, 24))


def run_job(folder: Path, batches: int, pause: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.training.job", str(folder), str(batches), str(pause)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder / "model")[0].state_dict()


@pytest.mark.slow
def test_killed_at_many_points_resumes_bit_for_bit(tmp_path):
    whole = run_job(tmp_path / "whole", 24)
    whole.communicate(timeout=120)
    assert whole.returncode == 0
    killed = tmp_path / "killed"
    seen: list[int] = []
    for stop_at in (1, 4, 9, 10, 17):
        process = run_job(killed, 24, pause=0.02)
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(int(line))
            if int(line) >= stop_at:
                break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    last = run_job(killed, 24)
    output, _ = last.communicate(timeout=120)
    assert int(output.split()[0]) > 10, "it started over instead of resuming"
    expected, found = weights_of(tmp_path / "whole"), weights_of(killed)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    one = run_job(tmp_path / "one", 6)
    one.communicate(timeout=120)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "tests.training.job", str(tmp_path / "two"), "6"]
    environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected, found = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    for name, tensor in expected.items():
        assert torch.allclose(tensor, found[name], rtol=1e-3, atol=2e-5), name
