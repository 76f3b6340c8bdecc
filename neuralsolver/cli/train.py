"""ens train: one command for one process, many devices and many nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralsolver.cli.data import Settings, Threads, parse_settings
from neuralsolver.errors import InvalidInput


def train(
    equation: Annotated[str, typer.Argument(help="Its name; `ens list` shows all.")],
    *,
    recipe: Annotated[str, typer.Option(help="How; `ens list` shows all.")] = "contractive",
    scale: Annotated[str, typer.Option(help="paper, desk or tiny.")] = "desk",
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and batches.")] = 0,
    budget_minutes: Annotated[
        float | None, typer.Option(help="Train for this long instead of the scale's compute.")
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option("--plan", metavar="NAME=VALUE", help="A field of the plan; repeatable."),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    data: Annotated[Path | None, typer.Option(help="Folder of the datasets.")] = None,
    threads: Threads = 1,
    tensorboard: Annotated[bool, typer.Option(help="Also log for TensorBoard.")] = False,
    ship: Annotated[bool, typer.Option(help="Put the model among those of the package.")] = False,
) -> None:
    """Train a model; the same command continues an interrupted run and finds a finished one.

    Several processes: torchrun --nproc-per-node=4 -m neuralsolver.cli train ...
    """
    import torch

    from neuralsolver.experiments.paper import equation_to_train
    from neuralsolver.experiments.run import Training
    from neuralsolver.experiments.run import train as train_model
    from neuralsolver.experiments.trainings import scale_named
    from neuralsolver.training.library import shipped_copy

    if threads:
        torch.set_num_threads(threads)
    chosen = equation_to_train(equation, parse_settings(settings))
    size = scale_named(scale)
    changes = _plan_changes(plan)
    if budget_minutes is not None:
        if "batches" in changes:
            raise InvalidInput("--budget-minutes", "no --plan batches beside it", budget_minutes)
        changes["budget_minutes"] = budget_minutes
    training = Training(chosen, recipe, size, seed, changes=changes)
    first = os.environ.get("RANK", "0") == "0"
    board = training.folder(runs) if tensorboard and first else None
    with _Display(f"{chosen.name} {recipe}", board) as display:
        model = train_model(training, runs, data=data, report=display)
    if first:
        print(shipped_copy(model, f"{chosen.name}-{recipe}") if ship else model)


def _plan_changes(plan: list[str] | None) -> dict[str, Any]:
    from neuralsolver.training import Plan

    kinds = {field.name: str(field.type) for field in fields(Plan)}
    changes: dict[str, Any] = {}
    for name, text in parse_settings(plan).items():
        if name not in kinds or name == "seed":
            known = ", ".join(kind for kind in kinds if kind != "seed")
            raise InvalidInput("--plan", f"one of {known}", name)
        kind = kinds[name].split(" ")[0]
        try:
            changes[name] = READERS[kind](text)
        except (ValueError, KeyError):
            raise InvalidInput(f"--plan {name}", f"a value of type {kind}", repr(text)) from None
    return changes


READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
}


class _Display:
    """A live line on a terminal, a plain one every half minute elsewhere."""

    def __init__(self, title: str, tensorboard: Path | None) -> None:
        from neuralsolver.cli.progress import Progress

        self.progress = Progress(title)
        self.writer: Any = None
        if tensorboard is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                expected = "the extra neuralsolver[track] to be installed"
                raise InvalidInput("--tensorboard", expected, "no tensorboard") from None
            self.writer = SummaryWriter(tensorboard)

    def __enter__(self) -> _Display:
        self.progress.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.progress.__exit__(*details)
        if self.writer is not None:
            self.writer.close()

    def __call__(self, stage: str, done: float, record: Any) -> None:
        loss = sum(record.losses) / max(1, len(record.losses))
        text = f"{stage}, batch {record.batches}, loss {loss:.2e}"
        if record.validation:
            text += f", validation {record.validation[0]:.1e} to {record.validation[-1]:.1e}"
        self.progress.fraction(done, text)
        if self.writer is not None:
            self.writer.add_scalar(f"{stage}/loss", loss, record.updates)
            if record.validation:
                self.writer.add_scalar(f"{stage}/validation", record.validation[-1], record.updates)
