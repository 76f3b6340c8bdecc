"""ens solve: one equation, one input, one answer."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.domain import Boundary, Domain, Input, Lengths, Mask, Walls
from neuralsolver.cli.in_time import TRANSIENTS, Frames, Time, described, evolve_in_time
from neuralsolver.cli.options import AsJson, Device, Settings, Threads, parse_settings
from neuralsolver.cli.wave_command import WAVES, Medium, solve_waves
from neuralsolver.errors import InvalidInput
from neuralsolver.files import check_output, write_whole
from neuralsolver.limits import RESOLUTION, SEED, Choice, Float, Int

if TYPE_CHECKING:
    from neuralsolver.equations import Equation, Problem
    from neuralsolver.solvers import Solution, TrainedSolver

NOT_REACHED = 3
METHODS = ("neural", "classical", "reference")
PICTURES = (".png", ".pdf", ".svg", ".gif")
REFERENCE_RESOLUTION = 64


def solve(
    model: Annotated[
        str,
        typer.Argument(
            help="A shipped model (`ens list`), a model folder, an equation's name, waves, or in "
            "time: heat or advection-diffusion."
        ),
    ],
    *,
    input_field: Input = None,
    medium: Medium = None,
    walls: Walls = None,
    mask: Mask = None,
    lengths: Lengths = None,
    boundary: Boundary = None,
    shapes: Annotated[
        bool,
        typer.Option(
            "--shapes", help="Correct with the network that reads shapes; multigrid is faster."
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write the solution here, .npy.")] = None,
    settings: Settings = None,
    method: Annotated[
        str,
        typer.Option(
            help="neural; classical, without a network; or reference, the independent solver of "
            "the square."
        ),
        Choice(METHODS),
    ] = "neural",
    steps: Annotated[
        int | None, typer.Option(help="Number of corrections."), Int(0, 100_000)
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Residual over that of the first guess. [default: 1e-6]"),
        Float(above=0.0, most=1.0),
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Points a side of a random or constant input."), RESOLUTION
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a random input."), SEED] = 0,
    frames: Frames = None,
    time: Time = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the solution: .png, .pdf or .svg; what moves also as .gif."),
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

    from neuralsolver.data.reference_solver import ReferenceSolver
    from neuralsolver.training.library import remarks

    if threads:
        torch.set_num_threads(threads)
    domain = Domain(input_field, walls, mask, lengths, boundary)
    _check_pairs(
        model, method, domain,
        steps=steps, frames=frames, time=time, medium=medium, shapes=shapes or None,
    )  # fmt: skip
    domain.check_reads(resolution)
    _check_outputs(output, plot, input_field, mask)
    if model in TRANSIENTS:
        trajectory = evolve_in_time(
            model, domain, resolution, seed, settings, frames, time, tolerance, plot
        )
        field, draw = trajectory.u, trajectory.animate
        _write_answer(output, plot, overwrite, trajectory.reached, lambda: _stored(field), draw)
        print(json.dumps(described(trajectory)) if as_json else trajectory)
        return 0 if trajectory.reached else NOT_REACHED
    if model == WAVES:
        wave = solve_waves(
            medium, input_field, settings,
            resolution=resolution, seed=seed, tolerance=tolerance, network=method == "neural",
        )  # fmt: skip
        _write_answer(output, plot, overwrite, wave.converged, wave.stored, wave.plot)
        print(json.dumps(wave.described()) if as_json else wave)
        return 0 if wave.converged else NOT_REACHED
    solver = _load(model) if method == "neural" else None
    equation = _equation(model, solver, settings)
    if shapes:
        if solver is None:
            raise InvalidInput("--shapes", f"no --method {method} beside it", method)
        solver = _load("shapes")
    if plot is not None and plot.suffix.lower() == ".gif" and not equation.frames:
        raise InvalidInput("--plot", f"a .png, because {equation.name} does not move", plot)
    if domain.changed and method == "reference":
        got = "--walls, --mask, --lengths or --boundary (--method classical knows them)"
        raise InvalidInput("--method reference", "the unit square with u = 0 around it", got)
    usual = REFERENCE_RESOLUTION if solver is None else solver.resolution
    problem = domain.problem(equation, usual if resolution is None else resolution, seed)
    if solver is not None:
        options = {"steps": steps, "tolerance": tolerance}
        solution = _solve(solver, problem, device, threads, **options)
    elif method == "classical":
        from neuralsolver.solvers.solve import solve as solve_classically

        solution = solve_classically(problem, tolerance)
    else:
        solution = ReferenceSolver(tolerance).solve(problem)
    _write(solution, output, plot, overwrite)
    print(json.dumps(_result(solution)) if as_json else _text(solution, solver))
    for note in remarks(problem, None if solver is None else solver.equation):
        print(f"note: {note}", file=sys.stderr)
    return 0 if solution.good else NOT_REACHED


def _check_pairs(model: str, method: str, domain: Domain, **given: Any) -> None:
    """Raise InvalidInput for options that do not belong to what is solved or to each other."""
    given = {name: value for name, value in given.items() if value is not None}
    if model in TRANSIENTS and ({"steps", "medium", "shapes"} & {*given} or method != "neural"):
        expected = "no --shapes, --steps, --medium or --method beside it"
        raise InvalidInput(model, expected, model)
    if model == WAVES and ({"steps", "shapes"} & {*given} or domain.changed):
        raise InvalidInput(model, "no options of the domain, --steps or --shapes beside it", model)
    if model != WAVES and "medium" in given:
        raise InvalidInput("--medium", WAVES, model)
    if model not in TRANSIENTS and {"frames", "time"} & {*given}:
        raise InvalidInput("--frames and --time", " or ".join(TRANSIENTS), model)
    if "steps" in given and method != "neural":
        raise InvalidInput("--steps", f"no --method {method} beside it", given["steps"])


def _solve(
    solver: TrainedSolver,
    problem: Problem,
    device: str | None,
    threads: int,
    **options: Any,
) -> Solution:
    from neuralsolver.progress import Progress
    from neuralsolver.solvers.batches import solve_batch
    from neuralsolver.training.distributed import device_named

    place = device_named(device)
    solver.network.to(place)
    problem = problem.on(place)
    with Progress(f"{problem.equation.name}") as progress:

        def observe(seen: Any) -> None:
            done = problem.batch - len(seen.samples)
            text = f"{seen.stage}, step {seen.step}, {done} of {problem.batch} samples done"
            progress.fraction(done / problem.batch, text)

        if threads > 1 and problem.batch > 1 and place.type == "cpu":
            report = progress.update
            return solve_batch(solver, problem, threads=threads, report=report, **options)
        return solver.solve(problem, observe=observe, **options)


def _load(model: str) -> TrainedSolver:
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.training import load
    from neuralsolver.training.library import locate

    if model in EQUATIONS and locate(model) is None:
        expected = (
            f"a model folder, since no model of {model} is shipped "
            f"(`ens train {model}` makes one, `--method classical` needs none)"
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


def _check_outputs(
    output: Path | None, plot: Path | None, input_field: str | None, mask: Path | None
) -> None:
    given = (None if input_field is None else Path(input_field), mask)
    if output is not None:
        check_output(output, *given)
    if plot is not None:
        if plot.suffix.lower() not in PICTURES:
            raise InvalidInput("--plot", f"a file name ending in {', '.join(PICTURES)}", plot)
        check_output(plot, *given, output, field="--plot")


def _stored(field: Any) -> bytes:
    """A field as the content of a .npy file."""
    import numpy as np

    memory = io.BytesIO()
    np.save(memory, np.asarray(field))
    return memory.getvalue()


def _write_answer(
    output: Path | None,
    plot: Path | None,
    overwrite: bool,
    good: bool,
    content: Callable[[], bytes],
    draw: Callable[[Path], object],
) -> None:
    """Write the field and the picture; what is there is kept where the answer is not good.

    Args:
        output: File of the field.
        plot: File of the picture.
        overwrite: Replace files even so.
        good: Whether the answer asked for was reached.
        content: The field as a file.
        draw: Writes the picture.
    """
    for path in (output, plot):
        if path is None:
            continue
        if path.is_file() and not good and not overwrite:
            print(f"note: {path} is kept as it was: the answer was not reached", file=sys.stderr)
        elif path is output:
            write_whole(path, content())
        else:
            draw(path)


def _write(solution: Solution, output: Path | None, plot: Path | None, overwrite: bool) -> None:
    def draw(path: Path) -> None:
        if path.suffix.lower() != ".gif":
            solution.plot(str(path))
            return
        from neuralsolver.plotting.animation import animate

        residual = solution.problem.residual(solution.tensor)
        fields = {"vorticity": solution.tensor, "residual": residual}
        first = {name: field[0, 0].detach().cpu().numpy() for name, field in fields.items()}
        animate(path, first, solution.problem.equation.frame_times)  # type: ignore[attr-defined]

    _write_answer(output, plot, overwrite, solution.good, lambda: _stored(solution.u), draw)


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
    method = solution.notes.get("method", "reference")
    if solver is None and method != "reference":
        lines.append(f"without a network: {method}")
    elif solver is None:
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
