"""ens demo: what the package does, in one table, one picture and the flows in motion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from neuralsolver.cli.data import AsJson


def demo(
    *,
    seed: Annotated[int, typer.Option(help="Another seed, other instances.")] = 2026,
    output: Annotated[Path, typer.Option(help="The picture to write.")] = Path("demo.png"),
    as_json: AsJson = False,
) -> None:
    """Solve a fresh instance of every equation with the shipped models."""
    import json
    from dataclasses import asdict

    import torch

    from neuralsolver.experiments.demo import demonstrate
    from neuralsolver.report.demo import animations, picture, table

    torch.set_num_threads(1)
    rows, scenes = demonstrate(seed)
    drawn = [str(path) for path in (picture(scenes, output), *animations(scenes, output))]
    if as_json:
        print(json.dumps({"pictures": drawn, "rows": [asdict(row) for row in rows]}))
        return
    print(f"{table(rows)}\n\nseed {seed}, one thread; written: {', '.join(drawn)}")
