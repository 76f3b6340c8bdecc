"""What CI installs: the versions of constraints.txt, each file known by its SHA-256."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions(text: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.M)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_ci_installs_the_versions_of_the_constraints_and_knows_their_files():
    hashed = (ROOT / ".ci" / "hashes.txt").read_text(encoding="utf-8")
    asked = versions((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert asked.pop("torch") == "2.13.0"  # by itself: which build it is depends on the machine
    assert versions(hashed) == asked
    entries = re.split(r"\n(?=\S)", hashed.strip())
    entries = [entry for entry in entries if not entry.startswith("#")]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "--require-hashes" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
