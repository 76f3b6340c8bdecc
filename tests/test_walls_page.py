"""The page on walls shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "walls.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_seven_and_each_is_short():
    assert len(BLOCKS) == 7
    for block in BLOCKS:
        lines = [line for line in block.splitlines() if line and "import" not in line]
        assert len(lines) <= 5, block


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:40])
def test_a_block_of_the_page_runs(block, capsys):
    names: dict[str, object] = {}
    exec(block, names)
    printed = capsys.readouterr().out
    assert "TOLERANCE" in printed or "torch.Size([64, 64])" in printed or names["info"] == 0
