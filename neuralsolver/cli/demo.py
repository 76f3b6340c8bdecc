"""ens demo: what the package does, in one table, one picture and the flows in motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

    from neuralsolver.experiments.demo import demonstrate
    from neuralsolver.experiments.sensors import reconstruction
    from neuralsolver.files import check_output
    from neuralsolver.progress import Progress
    from neuralsolver.report.demo import animations, picture, table

    if output.suffix.lower() not in PICTURES:
        raise InvalidInput("--output", f"a file name ending in {', '.join(PICTURES)}", output)
    check_output(output)
    torch.set_num_threads(1)
    with Progress("demo") as progress:
        rows, scenes = demonstrate(seed, lambda name: progress.fraction(0.0, f"solving {name}"))
        progress.fraction(0.8, "drawing")
        drawn = [str(path) for path in (picture(scenes, output), *animations(scenes, output))]
        progress.fraction(0.9, "reconstructing from sensors")
        samples, pair = reconstruction(seed)
        drawn.append(str(output.with_name(f"{output.stem}-sensors{output.suffix}")))
        samples.plot(drawn[-1], pair)
    if as_json:
        print(json.dumps({"pictures": drawn, "rows": [asdict(row) for row in rows]}))
        return
    print(f"{table(rows)}\n\n{samples.summary()}\n")
    print(f"seed {seed}, one thread; written: {', '.join(drawn)}")
