"""The command `ens`. Every command is thin: it reads its options, calls the library, prints.

Numerical libraries are imported inside the commands, so that help appears at once. Here, and
nowhere else, the end of a command becomes one line on stderr and an exit code:

    0      done
    1      refused or failed
    2      wrong usage
    3      solved, but the answer asked for was not reached
    130    interrupted, by Ctrl-C or SIGTERM

`ens --debug COMMAND` (or ENS_DEBUG=1) shows the traceback as well.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

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
from neuralsolver.cli.options import checked
from neuralsolver.errors import InvalidInput, PeerLost, ReferenceFailure

_CommandError: Any = typer.BadParameter.__mro__[2]
"""Click's base class of usage errors; Typer carries a copy of Click that has no public name."""

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="ens",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in (
    ("demo", demo.demo),
    ("list", models.list_all),
    ("solve", solve.solve),
    ("reconstruct", reconstruct.reconstruct),
    ("serve", serve.serve),
    ("train", train.train),
    ("export", models.export),
    ("generate", data.generate),
    ("info", data.info),
    ("show", data.show),
    ("convert", data.convert),
    ("evaluate", evaluate.evaluate),
    ("report", report.report),
):
    app.command(_name)(checked(_command))
app.add_typer(bench.app, name="bench")


def _print_version(asked: bool) -> None:
    if asked:
        from neuralsolver import __version__

        print(f"neuralsolver {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    equation_module: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A Python file that registers equations of yours; repeatable."
        ),
    ] = None,
) -> None:
    """Error-conditioned neural solvers for partial differential equations."""
    if debug:
        os.environ["ENS_DEBUG"] = "1"
    for file in equation_module or []:
        from neuralsolver.equations.modules import import_equations

        import_equations(file)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            # a terminal that lacks a letter shows its number
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:] if arguments is None else arguments)
    _close_output()
    raise SystemExit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command."""
    before = os.environ.get("ENS_DEBUG")
    try:
        with _terminable():
            code = app(args=list(arguments) or ["--help"], prog_name="ens", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough
        return 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except _CommandError as error:
        return _fail(error.format_message(), WRONG_USAGE)
    except Exception as error:
        return _fail(_sentence(error), REFUSED)
    finally:
        _restore("ENS_DEBUG", before)
    if code == INTERRUPTED:  # also what Typer makes of Ctrl-C
        _say("ens: interrupted; run the same command again to resume")
    return code if isinstance(code, int) else 0


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory {error}".strip()
    if isinstance(error, (InvalidInput, ReferenceFailure, PeerLost, OSError)):
        return str(error)
    return f"unforeseen {type(error).__name__}: {error} (`ens --debug ...` shows where)"


def _fail(message: str, code: int) -> int:
    if os.environ.get("ENS_DEBUG") == "1":
        import traceback

        _say(traceback.format_exc().rstrip())
    _say(f"ens: error: {' '.join(message.split())}")
    return code


def _say(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _close_output() -> None:
    """What cannot be printed any more must not become a message of the interpreter."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
