"""ens generate | info | show | convert: datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, DataFolder, Settings, constants_text, parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import RESOLUTION, SEED, Choice, Int

if TYPE_CHECKING:
    from neuralsolver.data import Dataset
    from neuralsolver.equations import Equation

File = Annotated[
    Path, typer.Argument(help="Dataset: .h5 of `ens generate`, or a known .mat or .h5.")
]
Override = Annotated[
    str | None,
    typer.Option("--equation", help="Equation of a foreign file, if guessed wrong."),
]


def generate(
    equation: Annotated[str, typer.Argument(help="Name of the equation (`ens list` shows all).")],
    *,
    count: Annotated[int, typer.Option(help="Number of samples."), Int(1, 10**9)] = 1000,
    resolution: Annotated[int, typer.Option(help="Grid points a side."), RESOLUTION] = 128,
    split: Annotated[
        str, typer.Option(help="Which part: train or test."), Choice(("train", "test"))
    ] = "train",
    seed: Annotated[int, typer.Option(help="Seed of the random numbers."), SEED] = 0,
    settings: Settings = None,
    data: DataFolder = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes. [default: all cores, for large datasets]"),
        Int(0, 1024),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Use a running Dask cluster, as tcp://host:8786."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a dataset of random inputs and their solutions.

    The same command continues an interrupted run and finds a finished dataset.
    """
    from neuralsolver.data import DatasetSpec, run_generation
    from neuralsolver.equations import equation_named
    from neuralsolver.progress import Progress

    chosen = equation_named(equation, parse_settings(settings))
    spec = DatasetSpec(chosen, count, resolution, split, seed)
    with Progress(f"{chosen.name} {resolution} x {resolution}") as progress:
        made = run_generation(
            spec,
            data,
            workers="auto" if workers is None else workers,
            scheduler=scheduler,
            report=progress.update,
        )
    size, rejected = made.path.stat().st_size, int(made.dataset.rejected.sum())
    if as_json:
        result = {
            "path": str(made.path),
            "fingerprint": spec.fingerprint,
            "count": count,
            "computed": made.computed,
            "kept": made.kept,
            "rejected": rejected,
            "seconds": round(made.seconds, 3),
            "bytes": size,
        }
        print(json.dumps(result))
        return
    how = f"computed {made.computed} in {made.seconds:.1f} s" if made.computed else "already there"
    if made.kept:
        how += f", kept {made.kept} of an interrupted run"
    print(f"{made.path}: {count} samples, {size / 1e6:.1f} MB, {how}, {rejected} fields rejected")


def info(
    file: File, equation: Override = None, settings: Settings = None, as_json: AsJson = False
) -> None:
    """Describe a dataset: equation, constants, shapes."""
    dataset = open_any(file, equation, settings)
    described = {
        **dataset.description,
        "inputs": list(dataset.inputs.shape),
        "solution": list(dataset.solution.shape),
        "rejected": int(dataset.rejected.sum()),
        "notes": list(dataset.notes),
    }
    described.pop("rejected_total", None)
    if as_json:
        print(json.dumps(described))
        return
    for name, value in described.items():
        for item in value if name == "notes" else [value]:
            print(f"{name.removesuffix('s') if name == 'notes' else name:18} {_text(item)}")


def show(
    file: File,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the picture here: .png, .pdf or .svg. [default: FILE with .png]"),
    ] = None,
    count: Annotated[int, typer.Option(help="Number of samples to draw."), Int(1, 1000)] = 4,
    equation: Override = None,
    settings: Settings = None,
) -> None:
    """Draw some inputs and solutions of a dataset."""
    from neuralsolver.files import check_output
    from neuralsolver.plotting.pictures import draw_dataset

    picture = output or file.with_suffix(".png")
    check_output(picture, file)
    dataset = open_any(file, equation, settings)
    print(draw_dataset(dataset, picture, count))
    _print_notes(dataset)


def convert(
    file: File,
    output: Annotated[Path, typer.Argument(help="Write this .npz file.")],
    equation: Override = None,
    settings: Settings = None,
) -> None:
    """Convert a dataset to a plain .npz file."""
    from neuralsolver.data import export_npz
    from neuralsolver.files import check_output

    check_output(output, file, field="OUTPUT")
    dataset = open_any(file, equation, settings)
    print(export_npz(dataset, output))
    _print_notes(dataset)


def open_any(file: Path, equation: str | None, settings: list[str] | None) -> Dataset:
    """The dataset in a file of any known layout, its equation replaced if one is named."""
    from neuralsolver.data import read

    return read(file, named_equation(equation, settings))


def named_equation(equation: str | None, settings: list[str] | None) -> Equation | None:
    """The equation of that name with the constants that are set, if one is named."""
    from neuralsolver.equations import equation_named

    if equation is None:
        if settings:
            raise InvalidInput("--set", "--equation beside it", "no equation")
        return None
    return equation_named(equation, parse_settings(settings))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return constants_text(value)
    if isinstance(value, list):
        return ", ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in value)
    return str(value)


def _print_notes(dataset: Dataset) -> None:
    for note in dataset.notes:
        print(f"note: {note}")
