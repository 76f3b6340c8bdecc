"""ens demo: what the package does, in one table, one picture and the flows in motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Seed
from neuralsolver.errors import InvalidInput

PICTURES = (".png", ".pdf", ".svg")


def demo(
    *,
    seed: Seed = 2026,
    output: Annotated[Path, typer.Option(help="The picture to write.")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Solve a fresh instance of every equation with the shipped models."""
    import json
    from dataclasses import asdict

    import torch

    from neuralsolver.files import check_output
    from neuralsolver.plotting.demo_cases import demonstrate
    from neuralsolver.plotting.demo_picture import animations, picture, table
    from neuralsolver.progress import Progress

    if output.suffix.lower() not in PICTURES:
        raise InvalidInput("--output", f"a file name ending in {', '.join(PICTURES)}", output)
    check_output(output)
    torch.set_num_threads(1)
    with Progress("demo") as progress:
        rows, scenes = demonstrate(seed, lambda name: progress.fraction(0.0, f"solving {name}"))
        progress.fraction(0.8, "drawing")
        drawn = [str(path) for path in (picture(scenes, output), *animations(scenes, output))]
        progress.fraction(0.9, "reconstructing from sensors")
        samples, pair = _reconstruction(seed)
        drawn.append(str(output.with_name(f"{output.stem}-sensors{output.suffix}")))
        samples.plot(drawn[-1], pair)
    if as_json:
        print(json.dumps({"pictures": drawn, "rows": [asdict(row) for row in rows]}))
        return
    print(f"{table(rows)}\n\n{samples.summary()}\n")
    print(f"seed {seed}, one thread; written: {', '.join(drawn)}")


def _reconstruction(seed: int) -> tuple[Any, Any]:
    """A few samples of a source and its solution from 500 sensors, and the true pair."""
    import torch

    from neuralsolver.data.reference_solution import solve_reference
    from neuralsolver.equations import Observed, Problem, Sensors, equation_named
    from neuralsolver.samplers.exact import ExactPosterior

    equation = equation_named("helmholtz")
    problem = Problem.random(equation, 64, seed=seed, key=1)
    solution = torch.from_numpy(solve_reference(equation, problem.inputs.numpy()).solution)[0, 0]
    source = problem.inputs[0, 0]
    sensors = Sensors.random({"source": source.numpy()}, 500, seed)
    return ExactPosterior().sample(Observed(equation, 64, sensors), 4, seed), (source, solution)
