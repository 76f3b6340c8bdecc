"""The benchmark runs without its peer, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuralsolver.bench import models as bench

TINY = {"tiny": {"width": 4, "layers": 1, "max_wavenumber": 2, "resolution": 8, "batch": 1}}


def test_without_the_peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "_peer_interpreter", lambda given: None)
    rows = bench.measure(repeats=1, cases=TINY)
    ours, *peers = rows
    assert ours["library"] == "neuralsolver"
    assert ours["forward_ms"] > 0
    assert ours["forward_backward_gain"] == 1
    assert [row["note"] for row in peers] == [bench.NOT_INSTALLED] * 2
    text = bench.table(rows)
    assert "FNO, tiny, 1 layers, |k| <= 2" in text
    assert "not installed: make peers" in text


def test_a_missing_interpreter_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENS_PEERS_PYTHON", raising=False)
    assert bench._peer_interpreter("no/such/python") != "no/such/python"
