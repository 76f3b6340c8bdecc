"""ens demo: what the package does, in one table, one picture and the flows in motion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralsolver.cli.options import AsJson, Seed, check_picture


def demo(
    *,
    seed: Seed = 2026,
    output: Annotated[
        Path, typer.Option(help="Write the picture here: .png, .pdf or .svg.")
    ] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Solve and draw a fresh instance of every equation.

    Each row of the table is one method on one instance: error, residual, steps and seconds.
    """
    check_picture("--output", output)
    import torch

    from neuralsolver.data.reference_solution import solve_reference
    from neuralsolver.equations import Helmholtz, Observed, Problem, Sensors
    from neuralsolver.inversion import invert
    from neuralsolver.plotting.demo_run import demonstrate, draw_scenes
    from neuralsolver.progress import Progress

    torch.set_num_threads(1)
    with Progress("demo") as progress:
        rows, scenes = demonstrate(seed, lambda name: progress.fraction(0.0, f"solving {name}"))
        progress.fraction(0.8, "drawing")
        drawn = [str(path) for path in draw_scenes(scenes, output)]
        progress.fraction(0.9, "inverting sensors")
        source = Problem.random(Helmholtz(), 64, seed=seed, key=1).inputs
        solution = torch.from_numpy(solve_reference(Helmholtz(), source.numpy()).solution)
        sensors = Sensors.random({"source": source[0, 0].numpy()}, 500, seed)
        samples = invert(Observed(Helmholtz(), 64, sensors), samples=4, seed=seed)
        drawn.append(str(output.with_name(f"{output.stem}-sensors{output.suffix}")))
        samples.plot(drawn[-1], (source[0, 0], solution[0, 0]))
    if as_json:
        print(json.dumps({"pictures": drawn, "rows": rows}))
        return
    print(f"{_table(rows)}\n\n{samples.summary()}\n")
    print(f"seed {seed}, one thread; written: {', '.join(drawn)}")


def _table(rows: list[dict[str, Any]]) -> str:
    """Rows as aligned text, an empty line between equations."""
    head = f"{'equation':20} {'method':16} {'relative L2':>11} {'residual':>9} {'steps':>5}"
    lines = [f"{head} {'seconds':>8}  status"]
    previous = ""
    for row in rows:
        first = row["equation"] != previous
        error = f"{row['error']:.1e}" if row["error"] else "0"
        lines += [""] if first else []
        lines.append(
            f"{row['equation'] if first else '':20} {row['method']:16} {error:>11} "
            f"{row['residual']:9.1e} {row['steps']:5d} {row['seconds']:8.4f}  {row['status']}"
        )
        previous = row["equation"]
    return "\n".join(lines)
