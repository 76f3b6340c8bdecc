"""How long the way through the package is: what one `ens solve` visits. It may only get shorter."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import neuralsolver
from neuralsolver.cli import run

PACKAGE = str(Path(neuralsolver.__file__).parent)
FUNCTIONS, FILES = 245, 41
"""Issue 19 asks for 120 and 25."""
NEW_LOCALS = 2
"""The flag of code that is a function, not the body of a class."""


def visited(arguments: list[str]) -> Counter[tuple[str, str]]:
    """The functions of the package that a command calls, by file and name, with their calls."""
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame, event, argument):
        code = frame.f_code
        inside = event == "call" and code.co_filename.startswith(PACKAGE)
        if inside and code.co_flags & NEW_LOCALS and not code.co_name.startswith("<"):
            calls[code.co_filename, code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        assert run(arguments) == 0
    finally:
        sys.setprofile(before)
    return calls


def test_one_solve_visits_few_functions_and_builds_its_grid_once(capsys):
    command = ["solve", "helmholtz", "--resolution", "64"]
    assert run(command) == 0  # imports are not the way
    calls = visited(command)
    assert len(calls) <= FUNCTIONS
    assert len({file for file, _ in calls}) <= FILES
    by_name = Counter({name: count for (_, name), count in calls.items()})
    assert by_name["Grid.__post_init__"] <= 1
    assert by_name["Problem.__init__"] == 1
    assert by_name["SolveOptions.__post_init__"] == 1
    assert by_name["TrainedSolver.check"] == 1
