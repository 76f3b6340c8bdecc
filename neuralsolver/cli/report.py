"""ens report: tables and figures of the measured results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    *,
    scale: Annotated[str, typer.Option(help="Which results: a folder under --results.")] = "desk",
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
) -> None:
    """Write the tables and figures of the rows that `ens evaluate` has left."""
    from neuralsolver.report.write import write_report

    written = write_report(results / scale)
    for path in written.files:
        print(path)
    if written.skipped:
        print(f"without data, not drawn: {', '.join(written.skipped)}")
