"""ens demo: what the package does, in one table and one picture."""

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
    """Solve fresh instances of the static equations with the shipped models."""
    import json
    from dataclasses import asdict

    import torch

    from neuralsolver.experiments.demo import demonstrate
    from neuralsolver.report.demo import picture, table

    torch.set_num_threads(1)
    rows, scenes = demonstrate(seed)
    drawn = picture(scenes, output)
    if as_json:
        print(json.dumps({"picture": str(drawn), "rows": [asdict(row) for row in rows]}))
        return
    print(f"{table(rows)}\n\nseed {seed}, one thread; picture: {drawn}")
