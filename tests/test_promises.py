"""Every promise in docs/promises.md is held by a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text()


def rows() -> list[str]:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [line for line in lines if "held by |" not in line]


def test_every_promise_names_a_test_that_exists():
    for row in rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert len(named) == 1, row
        file, test = named[0]
        tree = ast.parse((ROOT / file).read_text())
        assert test in {getattr(node, "name", "") for node in tree.body}, row


def test_the_lists_are_complete():
    codes = {row.split("|")[1].strip() for row in rows()} & {"0", "1", "2", "3", "130"}
    assert codes == {"0", "1", "2", "3", "130"}
    assert len(rows()) > 30
