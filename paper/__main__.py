"""python -m paper: measure the rows of the study, and make its tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from neuralsolver import cli
from neuralsolver.cli.options import checked
from neuralsolver.cli.train import train
from paper.commands import evaluate, report
from paper.denoiser_training import denoiser
from paper.inversion import inversion

NAME = "python -m paper"

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("denoiser")(checked(denoiser))
app.command("evaluate")(checked(evaluate))
app.command("inversion")(checked(inversion))
app.command("report")(checked(report))
app.command("train")(checked(train))


@app.callback()
def options(
    plugin: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A Python file that adds methods of yours; repeatable."),
    ] = None,
) -> None:
    """The study of the paper: measure its rows, write its tables and figures."""
    for file in plugin or []:
        from neuralsolver.equations.registry import import_equations

        import_equations(file)


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command."""
    return cli.run(arguments, app, NAME)


if __name__ == "__main__":
    cli.main(commands=app, name=NAME)
