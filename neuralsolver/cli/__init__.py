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
    data,
    demo,
    invert,
    models,
    serve,
    solve_command,
    train,
)
from neuralsolver.cli.options import checked
from neuralsolver.errors import InvalidInput, PeerLost, ReferenceFailure

_CommandError: Any = typer.BadParameter.__mro__[2]
"""Click's base class of usage errors; Typer carries a copy of Click that has no public name."""

REFUSED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
RESUMABLE = ("generate", "train", "evaluate")
"""Commands that continue where they stopped."""

app = typer.Typer(
    name="ens",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in (
    ("demo", demo.demo),
    ("list", models.list_all),
    ("solve", solve_command.solve),
    ("invert", invert.invert),
    ("serve", serve.serve),
    ("train", train.train),
    ("export", models.export),
    ("generate", data.generate),
    ("info", data.info),
    ("show", data.show),
    ("convert", data.convert),
):
    app.command(_name)(checked(_command))


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
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    equation_module: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Import a Python file that registers equations; repeatable."
        ),
    ] = None,
) -> None:
    """Solve partial differential equations with neural and classical solvers.

    Answers come with their residual and, where one is known, a bound of their error. Start with
    `ens demo`, then `ens solve poisson`. `ens COMMAND --help` explains each command.
    """
    if debug:
        os.environ["ENS_DEBUG"] = "1"
    for file in equation_module or []:
        from neuralsolver.equations.registry import import_equations

        import_equations(file)


def main(
    arguments: Sequence[str] | None = None, commands: typer.Typer = app, name: str = "ens"
) -> None:
    """Run one command of `commands` and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            # a terminal that lacks a letter shows its number
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:] if arguments is None else arguments, commands, name)
    _close_output()
    if code == INTERRUPTED:  # threads and half-started workers have nothing more to say
        os._exit(code)
    raise SystemExit(code)


def run(arguments: Sequence[str], commands: typer.Typer = app, name: str = "ens") -> int:
    """The exit code of one command."""
    before = os.environ.get("ENS_DEBUG")
    told: list[int] = []
    try:
        with _terminable(told):
            code = commands(
                args=list(arguments) or ["--help"], prog_name=name, standalone_mode=False
            )
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has seen enough
        return 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except _CommandError as error:
        return _fail(error.format_message(), WRONG_USAGE)
    except Exception as error:
        if not told:  # an import that is interrupted raises anything at all
            return _fail(_sentence(error), REFUSED)
        code = INTERRUPTED
    finally:
        os.environ.pop("ENS_DEBUG", None)
        if before is not None:
            os.environ["ENS_DEBUG"] = before
    if code == INTERRUPTED:  # also what Typer makes of Ctrl-C
        resumes = any(word in RESUMABLE for word in arguments)
        _say(f"ens: interrupted{'; run the same command again to resume' if resumes else ''}")
    return code if isinstance(code, int) else 0


@contextmanager
def _terminable(told: list[int]) -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does; the signals that came are in `told`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        told.append(number)
        raise KeyboardInterrupt

    # who ignores Ctrl-C (nohup, a shell's background job) goes on doing so
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    numbers = (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


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


def _close_output() -> None:
    """What cannot be printed any more must not become a message of the interpreter."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
