"""Time every line of docs/which_problem.md, store the rows, and write the seconds into its tables.

    python docs/building/time_problems.py

CPU seconds of one thread, which other work on the machine does not stretch: the median of five runs
after a first one, models loaded anew each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "which_problem.md"
ROWS = ROOT / "results" / "desk" / "which_problem.jsonl"
RUNS = 5
ROW = re.compile(
    r"^\| (?P<problem>[^|]+) \| `(?P<python>[^|]+)` \|(?P<shell>[^|]*)\|(?P<by>[^|]*)\|"
)


def rows(text: str) -> list[dict[str, str]]:
    """The rows of the tables that have a line of Python."""
    found = [ROW.match(line) for line in text.splitlines()]
    return [
        {key: part.strip("` ") for key, part in row.groupdict().items()} for row in found if row
    ]


def setup(text: str) -> str:
    """The fields that the lines use."""
    return text.split("```python\n", 2)[1].split("```", 1)[0]


def timed(line: str, names: dict[str, Any]) -> dict[str, Any]:
    """Median seconds of a line, and the method where the answer says it."""
    taken = []
    for _ in range(RUNS + 1):
        begin = time.process_time()
        answer = eval(line, names)
        taken.append(time.process_time() - begin)
    method = getattr(answer, "notes", {}).get("method")
    seconds = float(f"{statistics.median(taken[1:]):.2g}")
    return {"seconds": seconds, **({"by": method} if method else {})}


def main() -> None:
    """Measure, store, write."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    text, names = PAGE.read_text(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(setup(text), names)
        measured = [{**row, **timed(row["python"], names)} for row in rows(text)]
    host = {"machine": platform.machine(), "torch": torch.__version__, "threads": 1, "runs": RUNS}
    ROWS.write_text("".join(json.dumps({**row, **host}) + "\n" for row in measured))
    of = {row["python"]: row for row in measured}
    lines = []
    for line in text.splitlines():
        found = ROW.match(line)
        row = of[found["python"]] if found else None
        kept = line.rsplit("|", 3)[0]
        lines.append(f"{kept}| {row['by']} | {row['seconds']:g} |" if row else line)
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
