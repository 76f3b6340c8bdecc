"""The command `ens`. Every command is thin: it reads its options, calls the library, prints.

Numerical libraries are imported inside the commands, so that help appears at once. Whatever goes
wrong ends as one line on stderr: exit code 1 for bad input and failures, 2 for wrong usage, 130
after Ctrl-C. ENS_DEBUG=1 shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from neuralsolver.cli import (
    bench,
    data,
    demo,
    evaluate,
    models,
    reconstruct,
    report,
    serve,
    solve,
    train,
)
from neuralsolver.errors import InvalidInput, ReferenceFailure

_CommandError: Any = typer.BadParameter.__mro__[2]
"""Click's base class of usage errors; Typer carries a copy of Click that has no public name."""

INTERRUPTED = 130

app = typer.Typer(
    name="ens",
    help="Error-conditioned neural solvers for partial differential equations.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("list")(models.list_all)
app.command("solve")(solve.solve)
app.command("reconstruct")(reconstruct.reconstruct)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.command("export")(models.export)
app.command("generate")(data.generate)
app.command("info")(data.info)
app.command("show")(data.show)
app.command("convert")(data.convert)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.add_typer(bench.app, name="bench")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    raise SystemExit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command."""
    try:
        code = app(args=list(arguments) or ["--help"], prog_name="ens", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _CommandError as error:
        return _fail(error.format_message(), 2)
    except (InvalidInput, ReferenceFailure, OSError, MemoryError) as error:
        if os.environ.get("ENS_DEBUG") == "1":
            raise
        return _fail(_sentence(error), 1)
    if code == INTERRUPTED:  # also what Typer makes of Ctrl-C
        print("ens: interrupted; run the same command again to resume", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory {error}".strip()
    return str(error)


def _fail(message: str, code: int) -> int:
    print(f"ens: error: {' '.join(message.split())}", file=sys.stderr)
    return code
