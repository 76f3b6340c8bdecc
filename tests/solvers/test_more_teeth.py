"""Four more small changes that must not pass unnoticed: noise, clipping, averages, a lock."""

from __future__ import annotations

import asyncio
import collections
from dataclasses import replace

import pytest
import torch

from neuralsolver.data.reference_solution import ReferenceSolver
from neuralsolver.equations import Helmholtz, Observed, Poisson, Sensors
from neuralsolver.serve.service import Telemetry
from neuralsolver.serve.stream import Mailbox
from neuralsolver.training import fit
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_plan, make_solver
from paper.baselines.mismatch_correction import Correction
from tests.samplers.test_samplers import N, observed
from tests.training.job import InMemory


def test_the_correction_sampler_does_not_fit_noise_that_it_is_told_of():
    problem, _, _ = observed(Poisson(), 60, noise=20.0)
    seen = problem.sensors
    exact = Sensors(seen.positions, seen.fields, seen.values, noise=0.0)
    told = Correction(ReferenceSolver()).sample(problem, 1)
    not_told = Correction(ReferenceSolver()).sample(Observed(Poisson(), N, exact), 1)
    assert float(not_told.mismatch.max()) < 0.02
    assert float(told.mismatch.max()) > 5 * float(not_told.mismatch.max())
    assert told.inputs.norm() < not_told.inputs.norm()


@pytest.fixture
def steps(monkeypatch):
    """The weights before every update, and the norms of the gradients that it was made with."""
    seen: dict[str, list[object]] = {"weights": [], "norms": []}
    usual = torch.optim.AdamW.step

    def step(self, closure=None):
        weights = [p for group in self.param_groups for p in group["params"]]
        squares = [p.grad.square().sum() for p in weights if p.grad is not None]
        seen["norms"].append(float(torch.stack(squares).sum().sqrt()))
        found = usual(self, closure)
        seen["weights"].append({id(p): p.detach().clone().double() for p in weights})
        return found

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    return seen


def trained(tmp_path, **changes):
    torch.manual_seed(0)
    solver = make_solver("contractive", Helmholtz(), SCALES["tiny"])
    before = [p.detach().clone() for p in solver.parameters() if p.requires_grad]
    plan = make_plan("contractive", Helmholtz(), SCALES["tiny"], batches=4)
    fit(solver, InMemory(Helmholtz(), 8, 16), replace(plan, **changes), tmp_path)
    return before, [p for p in solver.parameters() if p.requires_grad]


def test_gradients_are_clipped(steps, tmp_path):
    trained(tmp_path, clip=1e-4)
    assert steps["norms"]
    assert max(steps["norms"]) == pytest.approx(1e-4, rel=1e-3)


def test_averaged_weights_follow_at_the_speed_of_the_plan(steps, tmp_path):
    before, after = trained(tmp_path, ema=0.75)
    average = [part.double() for part in before]
    assert len(steps["weights"]) > 2
    for weights in steps["weights"]:
        pairs = zip(average, after, strict=True)
        average = [0.75 * part + 0.25 * weights[id(parameter)] for part, parameter in pairs]
    for part, parameter in zip(average, after, strict=True):
        torch.testing.assert_close(parameter.detach().double(), part, rtol=1e-4, atol=1e-7)


def test_a_mailbox_is_touched_under_its_lock_only():
    class Guarded(collections.deque):
        def __init__(self, lock):
            super().__init__()
            self.lock = lock

        def append(self, item):
            assert self.lock.locked()
            super().append(item)

        def popleft(self):
            assert self.lock.locked()
            return super().popleft()

        def remove(self, item):
            assert self.lock.locked()
            super().remove(item)

    async def scene():
        mailbox = Mailbox(Telemetry(), room=2)
        mailbox.waiting = Guarded(mailbox.lock)
        for frame in range(4):
            mailbox.show(bytes([frame]))
        mailbox.say("done")
        return [await mailbox.take() for _ in range(3)]

    assert asyncio.run(scene()) == [b"\x02", b"\x03", '{"type": "done"}']
