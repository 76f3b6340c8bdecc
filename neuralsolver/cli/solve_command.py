"""ens solve: one equation, one input, one answer."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.domain import Boundary, Domain, Input, Lengths, Mask, Walls
from neuralsolver.cli.heat_and_waves import (
    TRANSIENTS,
    WAVES,
    Frames,
    Medium,
    Time,
    evolve_in_time,
    solve_waves,
)
from neuralsolver.cli.options import (
    AsJson,
    Device,
    Seed,
    Settings,
    Threads,
    check_picture,
    parse_settings,
)
from neuralsolver.errors import InvalidInput
from neuralsolver.files import check_output, write_whole
from neuralsolver.limits import RESOLUTION, Choice, Float, Int

if TYPE_CHECKING:
    from neuralsolver.equations import Equation, Problem
    from neuralsolver.solvers import Solution, TrainedSolver

NOT_REACHED = 3
METHODS = ("neural", "classical", "reference")
REFERENCE_RESOLUTION = 64


@dataclass(frozen=True)
class Answer:
    """What is written and printed of one solve."""

    good: bool
    u: Any
    draw: Callable[[Path], object]
    described: dict[str, Any]
    text: str
    notes: list[str] = field(default_factory=list)


def solve(
    model: Annotated[
        str,
        typer.Argument(
            help="An equation or a shipped model (`ens list` shows all), a model folder, waves, "
            "heat or advection-diffusion."
        ),
    ],
    *,
    input_field: Input = None,
    medium: Medium = None,
    walls: Walls = None,
    mask: Mask = None,
    lengths: Lengths = None,
    boundary: Boundary = None,
    output: Annotated[Path | None, typer.Option(help="Write the solution here, .npy.")] = None,
    settings: Settings = None,
    method: Annotated[
        str,
        typer.Option(
            help="neural, classical (no network) or reference (an independent solver of the unit "
            "square)."
        ),
        Choice(METHODS),
    ] = "neural",
    steps: Annotated[
        int | None, typer.Option(help="Make exactly this many corrections."), Int(0, 100_000)
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Stop when the residual is this part of the first guess's. [default: 1e-6]"
        ),
        Float(above=0.0, most=1.0),
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(help="Points a side, where no file gives the grid. [default: the model's]"),
        RESOLUTION,
    ] = None,
    seed: Seed = 0,
    frames: Frames = None,
    time: Time = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the solution: .png, .pdf or .svg; flows and heat as .gif."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files even if the tolerance was not reached."),
    ] = False,
    threads: Threads = 1,
    device: Device = None,
    as_json: AsJson = False,
) -> int:
    """Solve an equation with a trained network or a classical method.

    The command either reaches the tolerance or exits with code 3 and explains why. If the network
    stalls, multigrid and Newton take over, and the summary tells you.
    """
    import torch

    from neuralsolver.training.library import remarks

    if threads:
        torch.set_num_threads(threads)
    domain = Domain(input_field, walls, mask, lengths, boundary)
    _check_pairs(model, method, domain, steps=steps, frames=frames, time=time, medium=medium)
    domain.check_reads(resolution)
    given = (None if input_field is None else Path(input_field), mask)
    if output is not None:
        check_output(output, *given)
    if plot is not None:
        check_picture("--plot", plot, *given, output, moving=True)
    if model in TRANSIENTS:
        found = evolve_in_time(
            model, domain, resolution, seed, settings,
            frames or 20, 0.1 if time is None else time, tolerance, plot,
        )  # fmt: skip
        answer = Answer(found.reached, found.u, found.animate, _of_trajectory(found), str(found))
    elif model == WAVES:
        wave = solve_waves(
            medium, input_field, settings,
            resolution=resolution, seed=seed, tolerance=tolerance, network=method == "neural",
        )  # fmt: skip
        answer = Answer(wave.converged, wave.field, wave.plot, wave.described(), str(wave))
    else:
        solver = _load(model) if method == "neural" else None
        equation = _equation(model, solver, settings)
        if plot is not None and plot.suffix.lower() == ".gif" and not equation.frames:
            raise InvalidInput("--plot", f"a .png, because {equation.name} does not move", plot)
        usual = REFERENCE_RESOLUTION if solver is None else solver.resolution
        problem = domain.problem(equation, usual if resolution is None else resolution, seed)
        solution = _solve(solver, problem, method, device, threads, steps, tolerance)
        answer = Answer(
            solution.good,
            solution.u,
            lambda path: _draw(solution, path),
            _of_solution(solution),
            _text(solution, solver),
            remarks(problem, None if solver is None else solver.equation),
        )
    _write(answer, output, plot, overwrite)
    print(json.dumps(answer.described) if as_json else answer.text)
    for note in answer.notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if answer.good else NOT_REACHED


def _check_pairs(model: str, method: str, domain: Domain, **given: Any) -> None:
    """Raise InvalidInput for options that do not belong to what is solved or to each other."""
    given = {name: value for name, value in given.items() if value is not None}
    if model in TRANSIENTS and ({"steps", "medium"} & {*given} or method != "neural"):
        raise InvalidInput(model, "no --steps, --medium or --method beside it", model)
    if model == WAVES and ("steps" in given or domain.changed):
        raise InvalidInput(model, "no options of the domain or --steps beside it", model)
    if model != WAVES and "medium" in given:
        raise InvalidInput("--medium", WAVES, model)
    if model not in TRANSIENTS and {"frames", "time"} & {*given}:
        raise InvalidInput("--frames and --time", " or ".join(TRANSIENTS), model)
    if "steps" in given and method != "neural":
        raise InvalidInput("--steps", f"no --method {method} beside it", given["steps"])
    if domain.changed and method == "reference":
        got = "--walls, --mask, --lengths or --boundary (--method classical knows them)"
        raise InvalidInput("--method reference", "the unit square with u = 0 around it", got)


def _solve(
    solver: TrainedSolver | None,
    problem: Problem,
    method: str,
    device: str | None,
    threads: int,
    steps: int | None,
    tolerance: float | None,
) -> Solution:
    """The answer of a network, of the classical solver or of the reference solver."""
    from neuralsolver.data.reference_solution import ReferenceSolver
    from neuralsolver.progress import Progress
    from neuralsolver.solvers.batches import solve_batch
    from neuralsolver.solvers.solve import solve as solve_classically
    from neuralsolver.training.distributed import device_named

    if solver is None:
        if method == "classical":
            return solve_classically(problem, tolerance)
        return ReferenceSolver(tolerance).solve(problem)
    options: dict[str, Any] = {"steps": steps, "tolerance": tolerance}
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


def _write(answer: Answer, output: Path | None, plot: Path | None, overwrite: bool) -> None:
    """Write the field and the picture; what is there is kept where the answer is not good."""
    import numpy as np

    for path in (output, plot):
        if path is None:
            continue
        if path.is_file() and not answer.good and not overwrite:
            print(f"note: {path} is kept as it was: the answer was not reached", file=sys.stderr)
        elif path is output:
            memory = io.BytesIO()
            np.save(memory, np.asarray(answer.u))
            write_whole(path, memory.getvalue())
        else:
            answer.draw(path)


def _draw(solution: Solution, path: Path) -> None:
    from neuralsolver.plotting.animation import animate

    if path.suffix.lower() != ".gif":
        solution.plot(str(path))
        return
    residual = solution.problem.residual(solution.tensor)
    fields = {"vorticity": solution.tensor, "residual": residual}
    first = {name: values[0, 0].detach().cpu().numpy() for name, values in fields.items()}
    animate(path, first, solution.problem.equation.frame_times)  # type: ignore[attr-defined]


def _of_trajectory(found: Any) -> dict[str, Any]:
    return {
        "shape": list(found.u.shape),
        "times": found.times.tolist(),
        "steps": found.steps,
        "time_error": found.time_error,
        "reached": found.reached,
        "seconds": round(found.seconds, 4),
        "remarks": list(found.remarks),
    }


def _of_solution(solution: Solution) -> dict[str, Any]:
    def numbers(values: Any) -> list[float | None] | None:
        # JSON knows neither NaN nor infinity: what is not finite is null
        if values is None:
            return None
        return [value if abs(value) < float("inf") else None for value in values.tolist()]

    estimate = solution.error_estimate if solution.estimate_is_cheap else None
    return {
        "equation": solution.problem.equation.name,
        "constants": solution.problem.equation.constants(),
        "resolution": solution.problem.resolution,
        "status": [status.name for status in solution.status],
        "good": solution.good,
        "steps": solution.steps.tolist(),
        "relative_residual": numbers(solution.relative_residual),
        "error_bound": numbers(solution.error_bound),
        "error_estimate": numbers(estimate),
        "seconds": round(solution.seconds, 4),
        **solution.notes,
    }


def _text(solution: Solution, solver: TrainedSolver | None) -> str:
    lines = [solution.summary()]
    method = solution.notes.get("method", "reference")
    if solver is None and method != "reference":
        lines.append(f"without a network: {method}")
    elif solver is None:
        line = f"by the reference solver of {solution.problem.equation.name}"
        if not solution.problem.equation.residual_vanishes:
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
        if not solution.problem.equation.residual_vanishes and not solution.good:
            lines.append("a true flow leaves a residual, too: --method reference says how much")
    return "\n".join(lines)
