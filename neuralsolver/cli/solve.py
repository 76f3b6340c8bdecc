"""ens list | solve | export: using a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralsolver.cli.data import AsJson, Settings, Threads, constants_text, parse_settings
from neuralsolver.errors import InvalidInput

if TYPE_CHECKING:
    from neuralsolver.equations import Problem
    from neuralsolver.solvers import Solution, TrainedSolver

NOT_REACHED = 3
"""Exit code when the answer asked for was not reached."""


def list_all(as_json: AsJson = False) -> None:
    """List equations, scales, recipes and the models that are at hand."""
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.experiments.recipes import RECIPES
    from neuralsolver.experiments.scales import SCALES
    from neuralsolver.training.library import SHIPPED, shipped

    cards = {name: read_model_card(SHIPPED / name) for name in shipped()}
    if as_json:
        equations = {name: equation.constants() for name, equation in EQUATIONS.items()}
        known = {"equations": equations, "recipes": RECIPES, "scales": list(SCALES)}
        print(json.dumps({**known, "models": cards}))
        return
    print("equations")
    for name, equation in EQUATIONS.items():
        print(f"  {name:20} {constants_text(equation.constants())}")
    print(f"recipes\n  {', '.join(RECIPES)}\nscales")
    for scale in SCALES.values():
        print(f"  {scale.name:20} {scale.samples} samples on {scale.resolution} points")
    print("models")
    for name, card in cards.items():
        print(f"  {name:28} {card}")


def read_model_card(folder: Path) -> str:
    """What a model is, in a line."""
    from neuralsolver.training.checkpoint import read_card

    card = read_card(folder)
    constants = constants_text(card["equation"]["constants"])
    return f"{card['resolution']} points, {card.get('scale', 'own')} scale, trained on {constants}"


def solve(
    model: Annotated[str, typer.Argument(help="A shipped model (`ens list`) or a model folder.")],
    *,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="The input field, .npy. [default: random]")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the solution here, .npy.")] = None,
    settings: Settings = None,
    steps: Annotated[int | None, typer.Option(help="Number of corrections.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Residual over that of the zero field. [default: 1e-6]")
    ] = None,
    resolution: Annotated[int | None, typer.Option(help="Grid of a random input.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of a random input.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the solution, .png.")] = None,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> int:
    """Solve an equation with a trained model.

    Ends with exit code 3 when the answer asked for was not reached.
    """
    import torch

    from neuralsolver.training import load

    if threads:
        torch.set_num_threads(threads)
    solver = load(model)
    problem = _problem(solver, input_file, settings, resolution, seed)
    solution = solver.solve(problem, steps=steps, tolerance=tolerance, polish=True)
    _write(solution, output, plot)
    print(json.dumps(_result(solution)) if as_json else _text(solution, solver))
    return 0 if solution.good else NOT_REACHED


def _problem(
    solver: TrainedSolver,
    input_file: Path | None,
    settings: list[str] | None,
    resolution: int | None,
    seed: int,
) -> Problem:
    import numpy as np

    from neuralsolver.equations import Problem, equation_named

    constants = {**solver.equation.constants(), **parse_settings(settings)}
    equation = equation_named(solver.equation.name, constants)
    if input_file is None:
        return Problem.random(equation, resolution or solver.resolution, seed=seed, key=1)
    if resolution is not None:
        raise InvalidInput("--resolution", "no --input beside it", resolution)
    try:
        field = np.load(input_file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInput("--input", "a .npy file of numbers", f"{input_file}: {error}") from None
    if not isinstance(field, np.ndarray):
        raise InvalidInput("--input", "a .npy file with one array", str(input_file))
    return Problem(equation, field)


def _write(solution: Solution, output: Path | None, plot: Path | None) -> None:
    if output is not None:
        import io

        import numpy as np

        from neuralsolver.files import write_whole

        memory = io.BytesIO()
        np.save(memory, np.asarray(solution.u))
        write_whole(output, memory.getvalue())
    if plot is not None:
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


def _text(solution: Solution, solver: TrainedSolver) -> str:
    lines = [solution.summary()]
    constants, trained = solution.problem.equation.constants(), solver.equation.constants()
    for name, value in constants.items():
        if value != trained[name]:
            lines.append(f"note: {name} = {value:g} was {trained[name]:g} in training")
    if solution.problem.resolution != solver.resolution:
        lines.append(f"note: trained on {solver.resolution} points, so steps are V-cycles")
    if "classical_iterations" in solution.notes:
        used = solution.notes["classical_iterations"]
        needed = solution.notes["classical_iterations_from_zero"]
        lines.append(
            f"finished classically: {sum(used)} Krylov iterations from the neural iterate, "
            f"{sum(needed)} from zero"
        )
    return "\n".join(lines)


def export(
    model: Annotated[str, typer.Argument(help="A shipped model or a model folder.")],
    *,
    output: Annotated[
        Path | None, typer.Option(help="Folder to write to. [default: MODEL]")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="onnx or torch-export.")] = "onnx",
    as_json: AsJson = False,
) -> None:
    """Write the networks of a model in a format other programs run, and compare the answers."""
    from neuralsolver.training import load
    from neuralsolver.training.export import export_networks

    solver = load(model)
    folder = output or Path(Path(model).name)
    rows = export_networks(solver, kind, folder)
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['path']}: largest relative difference {row['difference']:.1e}")
