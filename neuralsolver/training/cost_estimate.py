"""What a training will take, before it is begun: operations, memory, hours.

One batch of one sample is computed, forwards and backwards, and counted:

    products of real numbers      2 m n k        (torch's own counter: matrices, convolutions)
    products of complex numbers   8 m n k
    transforms of n points        5 n log₂ n     (half of it for real values)

Operations grow with the batch. Memory is what autograd keeps of a sample, times the batch, and 16
bytes for each weight (itself, its gradient, two moments). Seconds on this machine are a straight
line through batches of one and four samples.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from neuralsolver.data.random_shapes import ShapedExamples
from neuralsolver.equations import Problem
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.objectives import OBJECTIVES, Batch
from neuralsolver.training.plan import CHANCES
from neuralsolver.training.presets import preset
from neuralsolver.training.recipes import Stage
from neuralsolver.training.run import Training

BYTES_PER_WEIGHT = 16
FEW = 4


@dataclass(frozen=True)
class StageCost:
    """The cost of one stage of a training.

    Attributes:
        name: The stage.
        resolution: Points a side.
        batch_size: Samples of a batch.
        batches: How many, or None where a budget of minutes says when to stop.
        minutes: That budget.
        flops: Floating-point operations of a batch.
        memory: Bytes that a device needs.
        seconds: CPU seconds of a batch on this machine.
    """

    name: str
    resolution: int
    batch_size: int
    batches: int | None
    minutes: float | None
    flops: float
    memory: float
    seconds: float

    def hours(self, teraflops: float | None = None) -> float:
        """Hours at this many 10¹² operations a second, or on one core of this machine; where a
        budget says when to stop, the budget."""
        if self.batches is None:
            return (self.minutes or 0.0) / 60
        one = self.seconds if teraflops is None else self.flops / (teraflops * 1e12)
        return self.batches * one / 3600


def estimate(training: Training) -> list[StageCost]:
    """The cost of every stage of a training.

    Args:
        training: What would be trained.

    Returns:
        One row for each stage. Nothing is written, no data are generated.
    """
    return [_stage_cost(training, training.solver(), stage) for stage in training.stages]


def _stage_cost(training: Training, solver: NeuralSolver, stage: Stage) -> StageCost:
    plan = stage.plan
    counter = FlopCounterMode(display=False, custom_mapping=_MORE)
    saved: dict[int, int] = {}
    most = 0

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    objective = OBJECTIVES[plan.objective]
    with counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for loss in objective(solver, _batch(training, stage, 1)):
            most = max(most, sum(saved.values()))
            saved.clear()
            loss.backward()  # type: ignore[no-untyped-call]
    weights = sum(p.numel() for p in solver.parameters())
    one, few = (_seconds(solver, objective, _batch(training, stage, n)) for n in (1, FEW))
    slope = max(0.0, few - one) / (FEW - 1)
    return StageCost(
        stage.name,
        stage.resolution,
        plan.batch_size,
        plan.batches,
        plan.budget_minutes,
        float(counter.get_total_flops()) * plan.batch_size,
        float(BYTES_PER_WEIGHT * weights + most * plan.batch_size),
        one + (plan.batch_size - 1) * slope,
    )


def _batch(training: Training, stage: Stage, count: int) -> Batch:
    """Problems as they are drawn, with solutions that are none: their values cost nothing."""
    if preset(training.recipe, training.equation).reads == "shape":
        problem = ShapedExamples(count, stage.resolution, 0).posed(range(count))[0]
    else:
        equation = training.equation
        problem = Problem.random(equation, stage.resolution, count).in_precision(equation.precision)
    noise = torch.randn(problem.zeros().shape, generator=torch.Generator().manual_seed(0))
    target = problem.impose(noise.to(problem.inputs))
    plan = stage.plan
    batch = Batch(problem, target, round((plan.shortest_unroll + plan.unroll) / 2))
    batch.chance = torch.full((count, CHANCES), 0.5, dtype=torch.float64)
    if plan.replay:
        batch.start = problem.impose(0.5 * target)
    return batch


def _seconds(solver: NeuralSolver, objective: Any, batch: Batch) -> float:
    begin = time.process_time()
    for loss in objective(solver, batch):
        loss.backward()
    return (time.process_time() - begin) / torch.get_num_threads()


def _raw(formula: Any) -> Any:
    formula._get_raw = True
    return formula


@_raw
def _product(a: Tensor, b: Tensor, *rest: Any, out_val: Any = None, **more: Any) -> int:
    complex_numbers = a.is_complex() or b.is_complex()
    return (8 if complex_numbers else 2) * math.prod(a.shape) * b.shape[-1]


@_raw
def _transform(x: Tensor, axes: Any, *rest: Any, out_val: Any = None, **more: Any) -> int:
    whole = x if x.numel() >= out_val.numel() else out_val
    points = math.prod(whole.shape[axis] for axis in axes)
    real = not (x.is_complex() and out_val.is_complex())
    return round(5 * whole.numel() * math.log2(max(2, points)) / (2 if real else 1))


_ATEN = torch.ops.aten
_MORE = {
    _ATEN.mm: _product,
    _ATEN.bmm: _product,
    _ATEN._fft_r2c: _transform,
    _ATEN._fft_c2r: _transform,
    _ATEN._fft_c2c: _transform,
}
