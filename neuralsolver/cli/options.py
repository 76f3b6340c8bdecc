"""Options that several commands have, and the one place where options are checked.

The range of an option stands beside its type, `Annotated[int, typer.Option(...), Int(1)]`;
`checked` makes a command read all of its options by their ranges before it does anything.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from neuralsolver.errors import InvalidInput
from neuralsolver.limits import SEED, Bool, Choice, Float, Int, Limit

LIMITS = (Int, Float, Choice, Bool)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a constant of the equation; repeatable."),
]
Threads = Annotated[int, typer.Option(help="Threads of PyTorch; 0 lets it choose."), Int(0, 1024)]
"""One by default: on fields of this size more gain little, and cost much on a busy machine."""
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="cpu, cuda or cuda:N. [default: cuda if available]"),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers."), SEED]
DataFolder = Annotated[
    Path | None, typer.Option(help="Folder of datasets. [default: $ENS_DATA or ./data]")
]
PICTURES = (".png", ".pdf", ".svg")


def check_picture(option: str, path: Path, *others: Path | None, moving: bool = False) -> None:
    """Raise InvalidInput unless a picture can be written to `path`, which is none of the others."""
    from neuralsolver.files import check_output

    endings = (*PICTURES, ".gif") if moving else PICTURES
    if path.suffix.lower() not in endings:
        raise InvalidInput(option, f"a file name ending in {', '.join(endings)}", path)
    check_output(path, *others, field=option)


def checked(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with its options read by their ranges."""

    @functools.wraps(command)
    def reading(**options: Any) -> Any:
        ranges = limits_of(command)
        for name, value in options.items():
            if name in ranges and value is not None:
                read, option = ranges[name].read, f"--{name.replace('_', '-')}"
                several = isinstance(value, list)
                options[name] = [read(option, v) for v in value] if several else read(option, value)
        return command(**options)

    return reading


def limits_of(command: Callable[..., Any]) -> dict[str, Limit]:
    """The ranges of a command's options by parameter name."""
    hints = get_type_hints(inspect.unwrap(command), include_extras=True)
    found: dict[str, Limit] = {}
    for name, hint in hints.items():
        for extra in get_args(hint) if get_origin(hint) is Annotated else ():
            if isinstance(extra, LIMITS):
                found[name] = extra
    return found


def parse_settings(
    settings: list[str] | None, option: str = "--set", known: Sequence[str] | None = None
) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary; with `known`, of no other names."""
    values: dict[str, str] = {}
    for setting in settings or []:
        name, separator, value = setting.partition("=")
        name, value = name.strip(), value.strip()
        if not (separator and name and value):
            raise InvalidInput(option, "NAME=VALUE", repr(setting))
        if known is not None and name not in known:
            raise InvalidInput(option, f"one of {', '.join(known)}", name)
        values[name] = value
    return values


def constants_text(constants: dict[str, Any]) -> str:
    """Constants as name=value, for a line of text."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in constants.items()
    )
