"""ens invert: unknown fields from a few sensors, with error bars."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Seed, Settings, Threads, check_picture, parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.files import check_output
from neuralsolver.limits import FINITE, Float, Int

if TYPE_CHECKING:
    from torch import Tensor

    from neuralsolver.equations import Equation
    from neuralsolver.equations.sensors import Sensors, Table
    from neuralsolver.samplers import Samples

OUTPUTS = (".npz", ".csv", ".nc")


def invert(
    equation: Annotated[str, typer.Argument(help="poisson, helmholtz or darcy.")],
    *,
    sensors: Annotated[
        Path | None,
        typer.Option(help="Table x,y,field,value (.csv), or arrays of these names (.npz)."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Names of the columns of your own table: x,y,value or x,y,value,noise."),
    ] = None,
    sees: Annotated[
        str | None,
        typer.Option(help="With --columns: the field that was measured. [default: solution]"),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Sides of the domain in units of the table, as 12,12.")
    ] = None,
    offset: Annotated[
        float, typer.Option(help="With --columns: subtract this from every value."), FINITE
    ] = 0.0,
    unit: Annotated[
        float, typer.Option(help="With --columns: then multiply every value by this."), FINITE
    ] = 1.0,
    noise: Annotated[
        float,
        typer.Option(help="Standard deviation of the measurement errors."),
        Float(0.0, 1e12),
    ] = 0.0,
    count: Annotated[
        int, typer.Option(help="Without --sensors: number of random ones."), Int(1, 4096)
    ] = 64,
    samples: Annotated[int, typer.Option(help="Number of samples."), Int(1, 10_000)] = 16,
    method: Annotated[
        str | None,
        typer.Option(
            help="exact, ens, es-mda, gauss-newton, total-variation, chain, spline, palette, "
            "diffusion-ens or diffusion-ens+ens. [default: chosen by the problem]"
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Darcy: two-phase, channels, ellipses or log-normal. Poisson and Helmholtz: "
            "fitted, from the sensors. [default: the equation's]"
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of an iterative method."), Int(2, 100_000)
    ] = None,
    resolution: Annotated[int, typer.Option(help="Grid points a side."), Int(16, 256)] = 64,
    settings: Settings = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(help="Write mean, spread and coordinates: .npz, .csv or .nc."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw sensors, mean, spread: .png, .pdf or .svg.")
    ] = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Find a field with error bars from a few measurements.

    The summary names the method, the misfit in units of the noise, the spread and the seconds.
    Without --sensors a random problem is drawn, and the truth is shown beside the answer.
    """
    import numpy as np
    import torch

    from neuralsolver.data.array_files import write_fields
    from neuralsolver.equations import equation_named
    from neuralsolver.equations.sensors import Observed, Sensors
    from neuralsolver.inversion.invert_field import WELL_METHODS
    from neuralsolver.inversion.invert_field import invert as answer
    from neuralsolver.progress import Progress
    from neuralsolver.samplers.methods import METHODS

    known = (*WELL_METHODS, *METHODS)
    if method is not None and method not in known:
        raise InvalidInput("--method", f"one of {', '.join(known)}", method)
    if output is not None:
        if output.suffix.lower() not in OUTPUTS:
            raise InvalidInput("--output", f"a file name ending in {', '.join(OUTPUTS)}", output)
        check_output(output, sensors)
    if plot is not None:
        check_picture("--plot", plot, sensors, output)
    if threads:
        torch.set_num_threads(threads)
    chosen = equation_named(equation, parse_settings(settings))
    size = _lengths(lengths)
    if size[0] != 1.0 and hasattr(chosen, "source"):
        # −∇·(a∇u) = f in metres is −∇·(a∇u) = L²f on the unit square
        chosen = replace(chosen, source=chosen.source * size[0] ** 2)  # type: ignore[type-var]
    truth, table = None, _table(columns, sees, size, offset, unit)
    if sensors is None:
        seen, truth = _random(chosen, count, seed, noise, resolution)
    else:
        seen = Sensors.read(sensors, noise, table)
    observed = Observed(chosen, resolution, seen)
    with Progress(f"{equation} invert") as progress:
        drawn = answer(
            observed,
            method,
            samples,
            prior=prior,
            seed=seed,
            steps=steps,
            told=lambda done: progress.fraction(done, "of the work"),
        )
    if output is not None:
        line = np.linspace(0.0, size[0], resolution)
        write_fields(output, {"x": line, "y": line}, _fields(drawn, table))
    if plot is not None:
        drawn.plot(str(plot), truth, length=size[0])
    print(json.dumps(_result(drawn, truth)) if as_json else _text(drawn, truth))
    if as_json:
        for told in drawn.notes.get("warnings", []):
            print(f"warning: {told}", file=sys.stderr)


def _lengths(text: str | None) -> tuple[float, float]:
    try:
        numbers = [float(part) for part in text.split(",")] if text else [1.0, 1.0]
        first, second = numbers
    except ValueError:
        raise InvalidInput("--lengths", "two numbers, as 12,12", text) from None
    if not (0 < first < float("inf") and first == second):
        raise InvalidInput("--lengths", "two equal positive numbers: a square", text)
    return first, second


def _table(
    columns: str | None, sees: str | None, lengths: tuple[float, float], offset: float, unit: float
) -> Table | None:
    from neuralsolver.equations.sensors import Table

    if columns is None:
        if sees or offset or unit != 1.0:
            expected = "the names of your table's columns, as --sees, --offset and --unit need them"
            raise InvalidInput("--columns", expected, "none")
        return None
    if not (abs(unit) > 0 and abs(unit) + abs(offset) < float("inf")):
        raise InvalidInput("--unit and --offset", "a factor but zero, and a number", (unit, offset))
    names = tuple(name.strip() for name in columns.split(","))
    return Table(names, sees or "solution", lengths, offset, unit)


def _random(
    equation: Equation, count: int, seed: int, noise: float, resolution: int
) -> tuple[Sensors, tuple[Tensor, Tensor]]:
    """Random sensors of the input of a random problem, and the pair they belong to."""
    import torch

    from neuralsolver.data.reference_solution import solve_reference
    from neuralsolver.equations import Problem
    from neuralsolver.equations.sensors import Sensors

    drawn = Problem.random(equation, resolution, seed=seed, key=1).inputs
    u = torch.from_numpy(solve_reference(equation, drawn.numpy()).solution)
    name = equation.input_names[0]
    seen = {name: drawn[0, 0]} if name != "permeability" else {"solution": u[0, 0]}
    fields = {key: value.numpy() for key, value in seen.items()}
    return Sensors.random(fields, count, seed, noise), (drawn[0, 0], u[0, 0])


def _fields(samples: Samples, table: Table | None) -> dict[str, Any]:
    """What is written of samples; the field that was seen in the units of its table."""
    name = samples.observed.equation.input_names[0]

    def told(key: str, values: Any, origin: float = 1.0) -> Any:
        if table is None or key != table.field:
            return values.numpy()
        return values.numpy() / table.unit + origin * table.offset

    fields = {
        name: told(name, samples.inputs[:, 0]),
        "solution": told("solution", samples.solutions[:, 0]),
        "relative_residual": samples.relative_residual.numpy(),
    }
    for key, mean, deviation, (low, high) in zip(
        (name, "solution"),
        samples.mean,
        samples.deviation,
        samples.quantiles((0.05, 0.95)),
        strict=True,
    ):
        fields[f"{key}_mean"] = told(key, mean)
        if not samples.notes.get("single"):
            fields[f"{key}_deviation"] = abs(told(key, deviation, 0.0))
            fields[f"{key}_quantile_05"] = told(key, low)
            fields[f"{key}_quantile_95"] = told(key, high)
    if samples.probability is not None:
        fields["probability"] = samples.probability.numpy()
    return fields


def _errors(samples: Samples, truth: tuple[Tensor, Tensor]) -> dict[str, float]:
    true = truth[1]
    size = true.norm()
    one = float(((samples.solutions[:, 0] - true).flatten(1).norm(dim=1) / size).mean())
    return {"sample": one, "mean": float((samples.mean[1] - true).norm() / size)}


def _result(samples: Samples, truth: tuple[Tensor, Tensor] | None) -> dict[str, Any]:
    observed = samples.observed
    spread = samples.deviation[1].square().mean().sqrt() / samples.mean[1].square().mean().sqrt()
    return {
        "equation": observed.equation.name,
        "constants": observed.equation.constants(),
        "resolution": observed.resolution,
        "method": samples.method,
        "sensors": len(observed.sensors),
        "samples": len(samples),
        "mismatch": samples.mismatch.tolist(),
        "spread": None if samples.notes.get("single") else float(spread),
        "relative_residual": samples.relative_residual.tolist(),
        "error": None if truth is None else _errors(samples, truth),
        "seconds": round(samples.seconds, 4),
        **samples.notes,
    }


def _text(samples: Samples, truth: tuple[Tensor, Tensor] | None) -> str:
    lines = [samples.summary()]
    if truth is not None:
        errors = _errors(samples, truth)
        lines.append(
            f"relative error of the solution: {errors['mean']:.2%} of the mean, "
            f"{errors['sample']:.2%} of one sample"
        )
    return "\n".join(lines)
