"""ens solve: one equation, one input, one answer."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Device, Settings, Threads, parse_settings
from neuralsolver.errors import InvalidInput
from neuralsolver.limits import RESOLUTION, SEED, Real, Text, Whole

if TYPE_CHECKING:
    from neuralsolver.equations import Equation, Problem
    from neuralsolver.solvers import Solution, TrainedSolver

NOT_REACHED = 3
METHODS = ("neural", "reference")
PICTURES = (".png", ".pdf", ".svg", ".gif")
REFERENCE_RESOLUTION = 64


def solve(
    model: Annotated[
        str,
        typer.Argument(help="A shipped model (`ens list`), a model folder, or an equation's name."),
    ],
    *,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="The input field, .npy. [default: random]")
    ] = None,
    walls: Annotated[
        Path | None, typer.Option(help="u on the walls, .npy: the rim of a field. [default: zero]")
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="Points where u is held at the value of --walls: .npy, or dark in .png."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the solution here, .npy.")] = None,
    settings: Settings = None,
    method: Annotated[
        str,
        typer.Option(help="neural, or reference: the classical solver, without a model."),
        Text(METHODS),
    ] = "neural",
    steps: Annotated[
        int | None, typer.Option(help="Number of corrections."), Whole(0, 100_000)
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Residual over that of the zero field. [default: 1e-6]"),
        Real(above=0.0, most=1.0),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Grid of a random input."), RESOLUTION
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a random input."), SEED] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the solution, .png; a flow also as .gif.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files even if the answer is not reached.")
    ] = False,
    threads: Threads = 1,
    device: Device = None,
    as_json: AsJson = False,
) -> int:
    """Solve an equation with a trained model or the reference solver.

    Ends with exit code 3 when the answer asked for was not reached; what is there under the names
    of --output and --plot is then kept, unless --overwrite says otherwise.
    """
    import torch

    from neuralsolver.data.instances import random_problem, read_problem
    from neuralsolver.experiments.reference_solver import ReferenceSolver
    from neuralsolver.training.library import remarks

    if threads:
        torch.set_num_threads(threads)
    if steps is not None and method == "reference":
        raise InvalidInput("--steps", "no --method reference beside it", steps)
    if resolution is not None and input_file is not None:
        raise InvalidInput("--resolution", "no --input beside it", resolution)
    _check_outputs(output, plot, input_file)
    solver = _load(model) if method == "neural" else None
    equation = _equation(model, solver, settings)
    _check_plot(plot, equation)
    if input_file is not None:
        problem = read_problem(equation, input_file)
    else:
        usual = REFERENCE_RESOLUTION if solver is None else solver.resolution
        problem = random_problem(equation, usual if resolution is None else resolution, seed)
    if walls is not None or mask is not None:
        if solver is None:
            raise InvalidInput("--walls and --mask", "no --method reference beside them", method)
        problem = _held(problem, walls, mask)
    if solver is None:
        solution = ReferenceSolver(tolerance).solve(problem)
    else:
        solution = _solve(solver, problem, device, steps, tolerance)
    _write(solution, output, plot, overwrite)
    print(json.dumps(_result(solution)) if as_json else _text(solution, solver))
    for note in remarks(problem, None if solver is None else solver.equation):
        print(f"note: {note}", file=sys.stderr)
    return 0 if solution.good else NOT_REACHED


def _held(problem: Problem, walls: Path | None, mask: Path | None) -> Problem:
    """The problem with values on its walls, and points of a drawn shape held."""
    import numpy as np

    values: Any = 0.0 if walls is None else _field("--walls", walls)
    if mask is None:
        return problem.holding(None, values)
    if mask.suffix.lower() == ".png":
        from matplotlib.image import imread

        try:
            picture = np.asarray(imread(mask))
        except (OSError, SyntaxError, ValueError):
            raise InvalidInput("--mask", "a picture, .png, or a field, .npy", mask.name) from None
        grey = picture if picture.ndim == 2 else picture[..., :3].mean(-1)
        held = grey < 0.5
    else:
        held = _field("--mask", mask) != 0
    if held.shape != problem.grid.shape:
        raise InvalidInput("--mask", f"{problem.grid.shape}, as the input", held.shape)
    return problem.holding(held, values)


def _field(option: str, file: Path) -> Any:
    import numpy as np

    try:
        return np.load(file, allow_pickle=False)
    except (ValueError, EOFError):
        raise InvalidInput(option, "a .npy file of numbers", file.name) from None


def _solve(
    solver: TrainedSolver,
    problem: Problem,
    device: str | None,
    steps: int | None,
    tolerance: float | None,
) -> Solution:
    from neuralsolver.progress import Progress
    from neuralsolver.training.distributed import device_named

    place = device_named(device)
    solver.network.to(place)
    problem = problem.on(place)
    with Progress(f"{problem.equation.name}") as progress:

        def observe(seen: Any) -> None:
            done = problem.batch - len(seen.samples)
            text = f"{seen.stage}, step {seen.step}, {done} of {problem.batch} samples done"
            progress.fraction(done / problem.batch, text)

        # what has a floor is carried on only where more than it offers by itself is asked for
        polish = tolerance is not None or not problem.equation.has_floor
        return solver.solve(
            problem, steps=steps, tolerance=tolerance, polish=polish, observe=observe
        )


def _load(model: str) -> TrainedSolver:
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.training import load
    from neuralsolver.training.library import locate

    if model in EQUATIONS and locate(model) is None:
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
    from neuralsolver.training.library import locate

    if solver is None and model not in EQUATIONS and locate(model) is not None:
        solver = load(model)
    name = model if solver is None else solver.equation.name
    trained = {} if solver is None else solver.equation.constants()
    return equation_named(name, {**trained, **parse_settings(settings)})


def _check_outputs(output: Path | None, plot: Path | None, input_file: Path | None) -> None:
    from neuralsolver.files import check_output

    if output is not None:
        check_output(output, input_file)
    if plot is not None:
        if plot.suffix.lower() not in PICTURES:
            raise InvalidInput("--plot", f"a file name ending in {', '.join(PICTURES)}", plot)
        check_output(plot, input_file, output, field="--plot")


def _check_plot(plot: Path | None, equation: Equation) -> None:
    if plot is not None and plot.suffix.lower() == ".gif" and not equation.frames:
        raise InvalidInput("--plot", f"a .png, because {equation.name} does not move", plot)


def _write(solution: Solution, output: Path | None, plot: Path | None, overwrite: bool) -> None:
    import numpy as np

    from neuralsolver.files import write_whole

    for path in (output, plot):
        if path is None:
            continue
        if path.is_file() and not solution.good and not overwrite:
            print(f"note: {path} is kept as it was: the answer was not reached", file=sys.stderr)
        elif path is output:
            memory = io.BytesIO()
            np.save(memory, np.asarray(solution.u))
            write_whole(path, memory.getvalue())
        elif path.suffix.lower() == ".gif":
            from neuralsolver.report.animation import animate

            residual = solution.problem.residual(solution.tensor)
            fields = {"vorticity": solution.tensor, "residual": residual}
            first = {name: field[0, 0].detach().cpu().numpy() for name, field in fields.items()}
            animate(path, first, solution.problem.equation.frame_times)  # type: ignore[attr-defined]
        else:
            solution.plot(str(path))


def _result(solution: Solution) -> dict[str, Any]:
    estimate = solution.error_estimate if solution.estimate_is_cheap else None
    return {
        "equation": solution.problem.equation.name,
        "constants": solution.problem.equation.constants(),
        "resolution": solution.problem.resolution,
        "status": [status.name for status in solution.status],
        "good": solution.good,
        "steps": solution.steps.tolist(),
        "relative_residual": _numbers(solution.relative_residual),
        "error_bound": _numbers(solution.error_bound),
        "error_estimate": _numbers(estimate),
        "seconds": round(solution.seconds, 4),
        **solution.notes,
    }


def _numbers(values: Any) -> list[float | None] | None:
    """JSON knows neither NaN nor infinity: what is not finite is null."""
    if values is None:
        return None
    return [value if abs(value) < float("inf") else None for value in values.tolist()]


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
        if solution.problem.equation.has_floor and not solution.good:
            lines.append("a true flow leaves a residual, too: --method reference says how much")
    return "\n".join(lines)
