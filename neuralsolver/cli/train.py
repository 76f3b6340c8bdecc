"""ens train: one command for one process, many devices and many nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import DataFolder, Device, Settings, Threads, parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Float

if TYPE_CHECKING:
    from neuralsolver.training.run import Training


def train(
    equation: Annotated[
        str | None,
        typer.Argument(
            help="Name of the equation (`ens list` shows all); not needed with --dataset."
        ),
    ] = None,
    *,
    recipe: Annotated[str, typer.Option(help="Recipe (`ens list` shows all).")] = "contractive",
    scale: Annotated[str, typer.Option(help="Size of the run: paper, small or tiny.")] = "small",
    dataset: Annotated[
        Path | None,
        typer.Option(help="Train on this file: .h5 of `ens generate`, or a known .mat or .h5."),
    ] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="Seed of weights and batches."), SEED] = 0,
    budget_minutes: Annotated[
        float | None,
        typer.Option(help="Train for so many minutes of one core, instead of the scale's."),
        Float(above=0.0, most=1e6),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(
            "--plan", metavar="NAME=VALUE", help="Change a setting of the training; repeatable."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Continue from a shipped model or a model folder."),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Write runs to this folder.")] = Path("runs"),
    data: DataFolder = None,
    threads: Threads = 1,
    device: Device = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log for TensorBoard.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the memory and hours it would take, and exit.")
    ] = False,
    teraflops: Annotated[
        float,
        typer.Option(help="With --dry-run: speed of the device, in TFLOP/s."),
        Float(above=0.0, most=1e9),
    ] = 10.0,
    ship: Annotated[bool, typer.Option("--ship", help="Add the model to the package.")] = False,
) -> None:
    """Train a model on an equation or a dataset.

    The same command continues an interrupted run and finds a finished one. To use several
    processes: torchrun --nproc-per-node=4 -m neuralsolver.cli train ...
    """
    import torch

    from neuralsolver.equations import Equation
    from neuralsolver.equations.registry import equation_to_train
    from neuralsolver.training.library import ship as ship_model
    from neuralsolver.training.presets import scale_named
    from neuralsolver.training.run import Training, train_on
    from neuralsolver.training.run import train as train_model

    if threads:
        torch.set_num_threads(threads)
    if equation is None and dataset is None:
        raise InvalidInput("EQUATION", "an equation or --dataset", "neither")
    constants = parse_settings(settings)
    if constants and equation is None:
        raise InvalidInput("--set", "an equation beside it", "no equation")
    chosen = None if equation is None else equation_to_train(equation, constants)
    size, changes = scale_named(scale), _plan_changes(plan)
    if budget_minutes is not None:
        if "batches" in changes:
            raise InvalidInput("--budget-minutes", "no --plan batches beside it", budget_minutes)
        changes["budget_minutes"] = budget_minutes

    def described(equation: Equation) -> Training:
        return Training(equation, recipe, size, seed, changes=changes, start=start)

    if dry_run:
        if chosen is None:
            raise InvalidInput("--dry-run", "an equation", "a dataset alone")
        print(_cost_table(described(chosen), teraflops))
        return
    first = os.environ.get("RANK", "0") == "0"
    title = f"{'' if chosen is None else chosen.name} {recipe}".strip()
    name = f"{title.replace(' ', '-')}-{scale}-{seed}"
    board = runs / "tensorboard" / name if tensorboard and first else None
    with _Display(title, board) as display:
        if dataset is not None:
            model = train_on(dataset, described, runs, display, chosen, device)
        else:
            assert chosen is not None
            model = train_model(described(chosen), runs, data=data, report=display, device=device)
    if first and ship and chosen is not None:
        place, replaced = ship_model(model, f"{chosen.name}-{recipe}")
        print(f"{place}{', which replaces ' + replaced if replaced else ''}")
    elif first:
        print(model)


def _cost_table(training: Training, teraflops: float) -> str:
    """What a training takes, stage by stage."""
    from neuralsolver.training.cost_estimate import estimate

    lines = [
        f"{'stage':12} {'points':>6} {'batch':>6} {'batches':>8} {'GFLOP/batch':>12} "
        f"{'GB':>6} {'h at ' + format(teraflops, 'g') + ' TFLOP/s':>16} {'h on one core':>14}"
    ]
    for row in estimate(training):
        batches = "minutes" if row.batches is None else str(row.batches)
        lines.append(
            f"{row.name:12} {row.resolution:6} {row.batch_size:6} {batches:>8} "
            f"{row.flops / 1e9:12.4g} {row.memory / 1e9:6.2f} {row.hours(teraflops):16.3g} "
            f"{row.hours():14.3g}"
        )
    return "\n".join(lines)


def _plan_changes(plan: list[str] | None) -> dict[str, Any]:
    from neuralsolver.training.plan import LIMITS

    changes: dict[str, Any] = {}
    for name, text in parse_settings(plan, "--plan").items():
        if name not in LIMITS or name == "seed":
            known = ", ".join(field for field in LIMITS if field != "seed")
            raise InvalidInput("--plan", f"one of {known}", name)
        changes[name] = LIMITS[name].read(f"--plan {name}", text)
    return changes


class _Display:
    """A live line on a terminal, a plain one every half minute elsewhere."""

    def __init__(self, title: str, tensorboard: Path | None) -> None:
        from neuralsolver.progress import Progress

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
        from neuralsolver.training.api import reporting

        reporting(self.progress)(stage, done, record)
        if self.writer is not None:
            loss = sum(record.losses) / max(1, len(record.losses))
            self.writer.add_scalar(f"{stage}/loss", loss, record.updates)
            if record.validation:
                self.writer.add_scalar(f"{stage}/validation", record.validation[-1], record.updates)
