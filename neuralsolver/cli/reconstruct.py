"""ens reconstruct: fields from a few sensors, with honest error bars."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Settings, Threads, parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Real, Whole

if TYPE_CHECKING:
    from torch import Tensor

    from neuralsolver.equations import Equation
    from neuralsolver.equations.sensors import Sensors
    from neuralsolver.samplers import Samples

RESOLUTION = 64
TRAINED_COUNTS = (50, 1000)
PICTURES = (".png", ".pdf", ".svg")


def reconstruct(
    equation: Annotated[str, typer.Argument(help="helmholtz, poisson or darcy.")],
    *,
    sensors: Annotated[
        Path | None,
        typer.Option(help="Table x,y,field,value (.csv) or such arrays (.npz). [default: random]"),
    ] = None,
    count: Annotated[int, typer.Option(help="Number of random sensors."), Whole(1, 4096)] = 500,
    samples: Annotated[int, typer.Option(help="Number of samples."), Whole(1, 10_000)] = 16,
    method: Annotated[
        str,
        typer.Option(
            help="diffusion-ens (+gn, +ens), palette, exact, correction, spline; or a baseline."
        ),
    ] = "diffusion-ens",
    noise: Annotated[
        float, typer.Option(help="Deviation of the sensors' errors."), Real(0.0, 1e12)
    ] = 0.0,
    steps: Annotated[
        int | None, typer.Option(help="Steps of a learned sampler."), Whole(2, 100_000)
    ] = None,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="Seed of samples and random problems."), SEED] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the samples here, .npz.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them, .png.")] = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Reconstruct input and solution from point values: samples, their mean and their spread.

    Without --sensors a random problem is drawn, and the truth is shown beside the answer.
    """
    import torch

    from neuralsolver.equations import equation_named
    from neuralsolver.equations.sensors import Observed, Sensors
    from neuralsolver.progress import Progress
    from neuralsolver.samplers.methods import METHODS
    from neuralsolver.training.library import load_sampler

    if method not in METHODS:
        raise InvalidInput("--method", f"one of {', '.join(METHODS)}", method)
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInput("--plot", f"a file name ending in {', '.join(PICTURES)}", plot)
    if output is not None and output.suffix.lower() != ".npz":
        raise InvalidInput("--output", "a file name ending in .npz", output)
    if threads:
        torch.set_num_threads(threads)
    chosen = equation_named(equation, parse_settings(settings))
    truth = None
    if sensors is None:
        seen, truth = _random(chosen, count, seed, noise)
    else:
        seen = Sensors.read(sensors, noise)
    observed = Observed(chosen, RESOLUTION, seen)
    sampler = load_sampler(equation, method, steps)
    with Progress(f"{equation} {method}") as progress:
        drawn = sampler.sample(
            observed, samples, seed, lambda done: progress.fraction(done, "of the steps")
        )
    if output is not None:
        _write(drawn, output)
    if plot is not None:
        drawn.plot(str(plot), truth)
    print(json.dumps(_result(drawn, truth)) if as_json else _text(drawn, truth))
    for note in _notes(drawn, equation):
        print(f"note: {note}", file=sys.stderr)


def _random(
    equation: Equation, count: int, seed: int, noise: float
) -> tuple[Sensors, tuple[Tensor, Tensor]]:
    """Random sensors of the input of a random problem, and the pair they belong to."""
    import torch

    from neuralsolver.data.truth import truth
    from neuralsolver.equations import Problem
    from neuralsolver.equations.sensors import Sensors

    drawn = Problem.random(equation, RESOLUTION, seed=seed, key=1).inputs
    u = torch.from_numpy(truth(equation, drawn.numpy()).solution)
    name = equation.input_names[0]
    sensors = Sensors.random({name: drawn[0, 0].numpy()}, count, seed, noise)
    return sensors, (drawn[0, 0], u[0, 0])


def _write(samples: Samples, path: Path) -> None:
    import numpy as np

    from neuralsolver.files import write_whole

    memory = io.BytesIO()
    low, high = (t.numpy() for t in samples.quantiles((0.05, 0.95))[1])
    np.savez_compressed(
        memory,
        inputs=samples.inputs[:, 0].numpy(),
        solutions=samples.solutions[:, 0].numpy(),
        mean=samples.mean[1].numpy(),
        deviation=samples.deviation[1].numpy(),
        quantile_05=low,
        quantile_95=high,
        relative_residual=samples.relative_residual.numpy(),
    )
    write_whole(path, memory.getvalue())


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
        "spread": float(spread),
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


def _notes(samples: Samples, equation: str) -> list[str]:
    """What a network was not trained for."""
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.samplers.exact import FILLS

    if samples.method in ("exact", "correction", *FILLS):
        return []
    notes, observed = [], samples.observed
    low, high = TRAINED_COUNTS
    if not low <= len(observed.sensors) <= high:
        notes.append(f"the networks were trained with {low} to {high} sensors")
    if observed.sensors.noise:
        notes.append("the networks take the sensors as exact; --method exact knows their noise")
    if observed.equation != EQUATIONS[equation]:
        notes.append("the networks were trained with other constants of the equation")
    return notes
