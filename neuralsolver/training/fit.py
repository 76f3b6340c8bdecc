"""The one training loop.

What comes next is a function of the plan and the position, so a run that was killed and resumed
makes the same updates as one that was not, and a second process changes rounding only.

Ctrl-C and SIGTERM end it after the batch that is being computed, with a state from which the same
call goes on; a second Ctrl-C does not wait. One process trains in a folder at a time.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from neuralsolver.equations import Equation, Problem
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import exclusive
from neuralsolver.solvers.history import History
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.solvers.stopping import FixedSteps
from neuralsolver.training.checkpoint import load_state, save_state
from neuralsolver.training.distributed import World
from neuralsolver.training.objectives import OBJECTIVES, Batch
from neuralsolver.training.plan import Plan, Record

VALIDATION_STEPS = 10
MAX_BAD_UPDATES = 20
"""Consecutive non-finite losses after which a run is given up."""


class Examples(Protocol):
    """Problems with their solutions, such as a `Dataset`."""

    @property
    def equation(self) -> Equation: ...

    def __len__(self) -> int: ...

    def tensors(self, index: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]: ...


@runtime_checkable
class Posed(Protocol):
    """Examples that are more than inputs: they come as problems, with what is known of each."""

    def __len__(self) -> int: ...

    def posed(self, index: Any) -> tuple[Problem, Tensor]: ...


class Source(Protocol):
    """Batches drawn fresh, which bring everything their objective needs."""

    def draw(self, seed: int, number: int, share: Any) -> Any: ...


Progress = Callable[[float, Record], None]


def fit(
    solver: nn.Module,
    examples: Examples | Posed | Source,
    plan: Plan,
    folder: Path,
    *,
    validation: Examples | Posed | None = None,
    progress: Progress | None = None,
    world: World | None = None,
) -> Record:
    """Train `solver` in place, resuming from `folder` if it holds a state of the same plan.

    Without a `world`, this call joins the one that torchrun set up and leaves it at the end.
    KeyboardInterrupt is raised after the state has been written.
    """
    joined = world is None
    world = world or World.join()
    size = min(plan.batch_size, len(examples) if isinstance(examples, Sized) else plan.batch_size)
    if size % world.size:
        expected = f"a multiple of the {world.size} processes"
        raise InvalidInput("batch_size", expected, size)
    run = _Run(solver.to(world.device), plan, folder, world)
    with run.alone(), _Interruption() as interruption:
        run.resume()
        while (done := run.progress()) < 1.0:
            run.batch(examples, done)
            if world.largest(float(interruption.asked)):
                run.save()
                raise KeyboardInterrupt
            run.report(validation, progress, done)
        run.finish(validation)
    if progress is not None and world.rank == 0:
        progress(1.0, run.record)
    if joined:
        world.leave()
    return run.record


class _Interruption:
    """Ctrl-C and SIGTERM as a wish that is asked after, in the main thread; the second is heard
    at once."""

    def __init__(self) -> None:
        self.asked = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *unused: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


class _Run:
    """A training run: weights, optimiser, averages and position, and how they are kept."""

    def __init__(self, solver: nn.Module, plan: Plan, folder: Path, world: World) -> None:
        self.solver, self.plan, self.folder, self.world = solver, plan, folder, world
        self._fix_predictor(plan.fixed_predictor)
        self.parameters = [p for p in solver.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(parameter_groups(solver, plan), lr=plan.learning_rate)
        self.average: Any = None
        if plan.ema:
            decay: Any = get_ema_multi_avg_fn(plan.ema)  # type: ignore[no-untyped-call]
            self.average = AveragedModel(solver, multi_avg_fn=decay)
            self.average.n_averaged.fill_(1)  # the initial weights count as the first
        self.record = Record()
        self.bad = 0
        self.memory: Tensor | None = None
        self.clock = busy_seconds(world.device)
        self.saved, self.validated = time.monotonic(), self.clock
        self.objective = OBJECTIVES[plan.objective]
        self.state_file = folder / "state.safetensors"
        if plan.compile:
            for name in ("predictor", "corrector"):
                network = getattr(solver, name, None)
                if network is not None:
                    network.compile()

    def _fix_predictor(self, fixed: bool) -> None:
        predictor = getattr(self.solver, "predictor", None)
        if predictor is not None:
            predictor.requires_grad_(not fixed)

    def alone(self) -> AbstractContextManager[None]:
        """The right to train in the folder, which the first process holds for all."""
        if self.world.rank:
            return nullcontext()
        return exclusive(self.folder / "lock", f"training in {self.folder}")

    def progress(self) -> float:
        """The part of the run that is done, the same in every process."""
        now = busy_seconds(self.world.device)
        self.record.seconds += now - self.clock
        self.clock = now
        if self.plan.batches is not None:
            return self.record.batches / self.plan.batches
        assert self.plan.budget_minutes is not None
        return self.world.largest(self.record.seconds / (60 * self.plan.budget_minutes))

    def batch(self, examples: Examples | Posed | Source, progress: float) -> None:
        """One batch: all its losses, each back-propagated as it comes."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["share"] * self.plan.rate(self.record.updates, progress)
        if hasattr(examples, "draw"):
            share = range(self.plan.batch_size)[self.world.rank :: self.world.size]
            self._learn(examples.draw(self.plan.seed, self.record.batches, share))
        else:
            self._visit(examples)
        self.record.batches += 1

    def _visit(self, examples: Examples | Posed) -> None:
        """Learn from the next samples of a dataset, from where their last visit ended."""
        index = self.plan.samples(self.record.batches, len(examples))
        ours = slice(self.world.rank, None, self.world.size)
        problem, target = _posed(examples, index[ours], self.world.device)
        chance = self.plan.chances(self.record.batches, len(index))[ours]
        if self.plan.symmetries:
            move = problem.equation.moved
            problem = Problem(problem.equation, move(problem.inputs, chance))
            target = move(target, chance)
        batch = Batch(problem, target, self.plan.corrections(self.record.batches))
        batch.chance = torch.from_numpy(chance)
        if self.plan.replay:
            if self.memory is None:
                self.memory = target.new_full((len(examples), *target.shape[1:]), torch.nan)
            recalled = self.memory[index]
            recalled[self.plan.restarts(self.record.batches, len(index))] = torch.nan
            batch.start = recalled[ours].to(self.world.device)  # NaN where a sample starts afresh
        self._learn(batch)
        if batch.end is not None and self.memory is not None:
            self.memory[index] = self.world.gather(batch.end).cpu()

    def _learn(self, batch: Any) -> None:
        """All losses of a batch, then one update, or an update after each."""
        self.record.losses = []
        kind, half = self.world.device.type, self.plan.bfloat16
        with torch.autocast(kind, dtype=torch.bfloat16) if half else nullcontext():
            for loss in self.objective(self.solver, batch):
                loss.backward()  # type: ignore[no-untyped-call]
                self.record.losses.append(float(loss.detach()))
                if self.plan.update_each_loss:
                    self._update()
            if not self.plan.update_each_loss:
                self._update()

    def _update(self) -> None:
        """One optimiser step, unless the gradient is not finite."""
        self.world.average_gradients(self.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.plan.clip)
        if bool(torch.isfinite(norm)):
            self.optimizer.step()
            self.record.updates += 1
            self.bad = 0
            if self.average is not None:
                self.average.update_parameters(self.solver)
        else:
            self.record.skipped += 1
            self.bad += 1
            if self.bad > MAX_BAD_UPDATES:
                got = f"{self.bad} non-finite gradients in a row"
                raise InvalidInput("training", "a finite loss (try a smaller learning_rate)", got)
        self.optimizer.zero_grad(set_to_none=True)

    def report(
        self, validation: Examples | Posed | None, progress: Progress | None, done: float
    ) -> None:
        """Validate, log and checkpoint when it is time; show progress always."""
        # validation is paid from the budget, so it is timed by the clock of the budget: on a busy
        # machine it would otherwise follow every batch
        if self.clock - self.validated >= self.plan.validate_seconds:
            self.validate(validation)
            self.validated = busy_seconds(self.world.device)
        now = time.monotonic()
        if now - self.saved >= self.plan.checkpoint_seconds:
            self.saved = now
            self.save()
        if progress is not None and self.world.rank == 0:
            progress(done, self.record)

    def validate(self, validation: Examples | Posed | None) -> None:
        """Relative error after 0, 1, … K corrections on held-out samples, to the log."""
        if self.world.rank:
            return
        if validation is not None and isinstance(self.solver, NeuralSolver):
            solver = self.solver if self.average is None else self.average.module
            steps = max(self.plan.unroll, VALIDATION_STEPS)
            self.record.validation = error_history(solver, validation, steps)
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log.jsonl", "a") as file:
            file.write(json.dumps(asdict(self.record)) + "\n")

    def finish(self, validation: Examples | Posed | None) -> None:
        """The last state, and the averaged weights in the solver."""
        self.validate(validation)
        self.save()
        for parameter, average in zip(self.parameters, self._averages(), strict=False):
            parameter.data.copy_(average)
        self._fix_predictor(False)

    def _averages(self) -> list[Tensor]:
        """The averages of `parameters`, if there are any."""
        parameters = [] if self.average is None else self.average.module.parameters()
        return [parameter.data for parameter in parameters if parameter.requires_grad]

    def save(self) -> None:
        """Everything that the next update depends on, in one file."""
        if self.world.rank:
            return
        tensors = {}
        for i, parameter in enumerate(self.parameters):
            tensors[f"weight.{i}"] = parameter.data
            for name, value in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{i}.{name}"] = value
        for i, average in enumerate(self._averages()):
            tensors[f"average.{i}"] = average
        if self.memory is not None:
            tensors["memory"] = self.memory
        self.folder.mkdir(parents=True, exist_ok=True)
        save_state(self.state_file, tensors, {"plan": asdict(self.plan), **asdict(self.record)})

    def resume(self) -> None:
        """Continue from the state in the folder, if there is one of this plan."""
        if not self.state_file.exists():
            return
        tensors, counters = load_state(self.state_file)
        if counters.pop("plan", None) != asdict(self.plan):
            raise InvalidInput("run folder", "a state of the same plan", str(self.folder))
        try:
            self._take(tensors)
            self.record = Record(**counters)
        except (KeyError, RuntimeError, TypeError) as error:
            expected = "a state of these networks"
            raise FileDamaged(str(self.state_file), expected, str(error)[:100]) from None

    def _take(self, tensors: dict[str, Tensor]) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data.copy_(tensors[f"weight.{i}"])
            prefix = f"optimizer.{i}."
            for name in (name for name in tensors if name.startswith(prefix)):
                kind, value = name.removeprefix(prefix), tensors[name]
                # the optimiser counts its steps on the CPU
                place = value.device if kind == "step" else parameter.device
                self.optimizer.state[parameter][kind] = value.to(place)
        for i, average in enumerate(self._averages()):
            average.copy_(tensors[f"average.{i}"])
        self.memory = tensors.get("memory")


def parameter_groups(solver: nn.Module, plan: Plan) -> list[dict[str, Any]]:
    """The parameters with their share of the learning rate and their decay.

    Both are those of the plan, unless a network whose weights were brought along has `rate_shares`:
    for a parameter its share of the learning rate, and whether it decays.
    """
    shares: dict[nn.Parameter, tuple[float, bool]] = {}
    for module in solver.modules():
        own: Any = getattr(module, "rate_shares", None)
        if own is not None:
            shares |= own()
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in solver.parameters():
        if parameter.requires_grad:
            groups.setdefault(shares.get(parameter, (1.0, True)), []).append(parameter)
    return [
        {"params": chosen, "share": share, "weight_decay": plan.weight_decay if decays else 0.0}
        for (share, decays), chosen in groups.items()
    ]


def busy_seconds(device: torch.device) -> float:
    """A clock of what a budget counts: CPU seconds of a thread, or the time of day elsewhere.

    What else the machine does then takes nothing from a budget, so budgets can be equal.
    """
    if device.type != "cpu":
        return time.monotonic()
    return time.process_time() / torch.get_num_threads()


def _posed(examples: Examples | Posed, index: Any, device: torch.device) -> tuple[Problem, Tensor]:
    """Some of the examples as a problem, and their solutions."""
    if isinstance(examples, Posed):
        problem, target = examples.posed(index)
        return problem.on(device), target.to(device)
    inputs, target = examples.tensors(index, dtype=examples.equation.precision)
    return Problem(examples.equation, inputs.to(device)), target.to(device)


def error_history(solver: NeuralSolver, examples: Examples | Posed, steps: int) -> list[float]:
    """Mean relative L2 error of the prediction and after each correction."""
    device = next(solver.parameters()).device
    problem, target = _posed(examples, slice(None), device)
    history = History.of_errors(target.cpu())
    stop = FixedSteps(0 if solver.corrector is None else steps)
    solver.solve(problem, observe=history, stop=stop)
    return history.means()
