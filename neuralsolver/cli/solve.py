"""ens solve: a problem in, a solution out, by a trained model or the reference solver."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.data import AsJson, Settings, Threads, parse_settings
from neuralsolver.errors import InvalidInput

if TYPE_CHECKING:
    from neuralsolver.equations import Equation, Problem
    from neuralsolver.solvers import Solution, TrainedSolver

NOT_REACHED = 3
"""Exit code when the answer asked for was not reached."""

METHODS = ("neural", "reference")
PICTURES = (".png", ".pdf", ".svg", ".gif")
REFERENCE_RESOLUTION = 64

NOTED_MEAN = 1e-6
"""A mean vorticity above this part of its size is no rounding of a float32 file."""


def solve(
    model: Annotated[
        str,
        typer.Argument(help="A shipped model (`ens list`), a model folder, or an equation's name."),
    ],
    *,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="The input field, .npy. [default: random]")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the solution here, .npy.")] = None,
    settings: Settings = None,
    method: Annotated[
        str, typer.Option(help="neural, or reference: the classical solver, without a model.")
    ] = "neural",
    steps: Annotated[int | None, typer.Option(help="Number of corrections.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Residual over that of the zero field. [default: 1e-6]")
    ] = None,
    resolution: Annotated[int | None, typer.Option(help="Grid of a random input.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of a random input.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the solution, .png; a flow also as .gif.")
    ] = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> int:
    """Solve an equation with a trained model or the reference solver.

    Ends with exit code 3 when the answer asked for was not reached.
    """
    import torch

    from neuralsolver.experiments.reference_solver import ReferenceSolver

    if method not in METHODS:
        raise InvalidInput("--method", " or ".join(METHODS), method)
    if threads:
        torch.set_num_threads(threads)
    solver = _load(model) if method == "neural" else None
    equation = _equation(model, solver, settings)
    _check_plot(plot, equation)
    usual = REFERENCE_RESOLUTION if solver is None else solver.resolution
    problem = _problem(equation, input_file, resolution, usual, seed)
    if solver is not None:
        solution = solver.solve(problem, steps=steps, tolerance=tolerance, polish=True)
    elif steps is None:
        solution = ReferenceSolver(tolerance).solve(problem)
    else:
        raise InvalidInput("--steps", "no --method reference beside it", steps)
    _write(solution, output, plot)
    print(json.dumps(_result(solution)) if as_json else _text(solution, solver))
    for note in (*_unlike_training(problem, solver), *_mean_vorticity(problem)):
        print(f"note: {note}", file=sys.stderr)
    return 0 if solution.good else NOT_REACHED


def _load(model: str) -> TrainedSolver:
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.training import load
    from neuralsolver.training.library import DEFAULT_RECIPE, shipped

    missing = f"{model}-{DEFAULT_RECIPE}" not in shipped() and not Path(model).exists()
    if model in EQUATIONS and missing:
        expected = (
            f"a model folder, since no model of {model} is shipped "
            f"(`ens train {model}` makes one, `--method reference` needs none)"
        )
        raise InvalidInput("model", expected, model)
    return load(model)


def _equation(model: str, solver: TrainedSolver | None, settings: list[str] | None) -> Equation:
    """The equation of a model, or the one called `model`, with the constants that are set."""
    from neuralsolver.equations import EQUATIONS, equation_named
    from neuralsolver.training import load
    from neuralsolver.training.library import shipped

    if solver is None and model not in EQUATIONS and (model in shipped() or Path(model).is_dir()):
        solver = load(model)
    name = model if solver is None else solver.equation.name
    trained = {} if solver is None else solver.equation.constants()
    return equation_named(name, {**trained, **parse_settings(settings)})


def _check_plot(plot: Path | None, equation: Equation) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in PICTURES:
        raise InvalidInput("--plot", f"a file name ending in {', '.join(PICTURES)}", plot)
    if plot.suffix.lower() == ".gif" and len(equation.solution_shape(8)) == 3:
        raise InvalidInput("--plot", f"a .png, because {equation.name} does not move", plot)


def _problem(
    equation: Equation, input_file: Path | None, resolution: int | None, usual: int, seed: int
) -> Problem:
    import numpy as np

    from neuralsolver.equations import Problem

    if input_file is None:
        return _random(equation, resolution or usual, seed)
    if resolution is not None:
        raise InvalidInput("--resolution", "no --input beside it", resolution)
    try:
        field = np.load(input_file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInput("--input", "a .npy file of numbers", f"{input_file}: {error}") from None
    if not isinstance(field, np.ndarray):
        raise InvalidInput("--input", "a .npy file with one array", str(input_file))
    return Problem(equation, field)


def _random(equation: Equation, resolution: int, seed: int) -> Problem:
    """A random problem; a flow starts from what its random field has become at `start_time`."""
    from neuralsolver.data.truth import truncate_spectrum, truth, working_resolution
    from neuralsolver.equations import NavierStokes, Problem
    from neuralsolver.equations.base import check_resolution

    check_resolution(equation, resolution)
    fine = working_resolution(equation, resolution)
    drawn = Problem.random(equation, fine, seed=seed, key=1)
    if not isinstance(equation, NavierStokes):
        return drawn
    # only the first frame is wanted; the others are as near as possible
    brief = dataclasses.replace(equation, time_order=2, frames=2, frame_spacing=1e-6)
    start = truth(brief, drawn.inputs.numpy()).inputs
    return Problem(equation, truncate_spectrum(start, resolution)[0, 0])


def _write(solution: Solution, output: Path | None, plot: Path | None) -> None:
    if output is not None:
        import io

        import numpy as np

        from neuralsolver.files import write_whole

        memory = io.BytesIO()
        np.save(memory, np.asarray(solution.u))
        write_whole(output, memory.getvalue())
    if plot is not None and plot.suffix.lower() == ".gif":
        from neuralsolver.report.animation import animate

        residual = solution.problem.residual(solution.tensor)
        fields = {"vorticity": solution.tensor, "residual": residual}
        first = {name: field[0, 0].detach().cpu().numpy() for name, field in fields.items()}
        animate(plot, first, solution.problem.equation.frame_times)  # type: ignore[attr-defined]
    elif plot is not None:
        solution.plot(str(plot))


def _result(solution: Solution) -> dict[str, Any]:
    estimate = solution.error_estimate if solution.estimate_is_cheap else None
    return {
        "equation": solution.problem.equation.name,
        "constants": solution.problem.equation.constants(),
        "resolution": solution.problem.resolution,
        "status": [status.name for status in solution.status],
        "good": solution.good,
        "steps": solution.steps.tolist(),
        "relative_residual": solution.relative_residual.tolist(),
        "error_bound": None if solution.error_bound is None else solution.error_bound.tolist(),
        "error_estimate": None if estimate is None else estimate.tolist(),
        "seconds": round(solution.seconds, 4),
        **solution.notes,
    }


def _text(solution: Solution, solver: TrainedSolver | None) -> str:
    lines = [solution.summary()]
    if solver is None:
        line = f"by the reference solver of {solution.problem.equation.name}"
        if solution.problem.equation.has_floor:
            line += "; its residual is the floor that a true flow leaves (docs/flows.md)"
        lines.append(line)
    elif solution.problem.resolution != solver.resolution:
        grid = f"note: trained on {solver.resolution} points, "
        flow = solution.problem.equation.frames
        lines.append(grid + ("where the flow was solved" if flow else "so steps are V-cycles"))
    if "classical_iterations" in solution.notes:
        used = solution.notes["classical_iterations"]
        word = "finished" if solution.good else "carried on"
        lines.append(f"{word} classically: {sum(used.values())} Krylov iterations")
    return "\n".join(lines)


def _unlike_training(problem: Problem, solver: TrainedSolver | None) -> list[str]:
    """The constants that the networks were not trained with."""
    if solver is None:
        return []
    notes = []
    for field in dataclasses.fields(problem.equation):  # type: ignore[arg-type]
        value, trained = (getattr(e, field.name) for e in (problem.equation, solver.equation))
        if value != trained:
            now, then = (f"{v:g}" if isinstance(v, float) else str(v) for v in (value, trained))
            notes.append(f"{field.name} = {now} was {then} in training")
    return notes


def _mean_vorticity(problem: Problem) -> list[str]:
    """A word on a mean that no periodic flow has."""
    from neuralsolver.equations import NavierStokes

    if not isinstance(problem.equation, NavierStokes):
        return []
    fields = problem.inputs.double().flatten(1)
    mean, size = fields.mean(1).abs(), fields.square().mean(1).sqrt()
    if bool((mean <= NOTED_MEAN * size).all()):
        return []
    return [
        f"the initial vorticity has the mean {float(mean.max()):.3g}, which no periodic velocity "
        "has: it stays in the solution and moves nothing"
    ]
