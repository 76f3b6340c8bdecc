"""The two stories of the page: a wave that changes its medium, and wells."""

from __future__ import annotations

import json

import numpy as np
import pytest

from neuralsolver.serve.frames import decode_frame
from tests.serve.running import JSON

WELLS = [[i / 63, j / 63] for i in range(6, 63, 10) for j in range(6, 63, 10)]


def told(server, address, **ask):
    status, _, body = server.request("POST", address, json.dumps(ask), JSON)
    assert status == 200, body
    return decode_frame(body)


def test_a_weak_beam_is_found_by_all_and_changes_little(server):
    header, fields = told(server, "/waves", strength=0.05, seed=4)
    assert all(method["converged"] for method in header["methods"])
    assert np.abs(fields["answer"] - fields["linear"]).max() < 0.2 * fields["linear"].max()


def test_a_strong_beam_is_found_by_the_network_and_is_another_wave(server):
    header, fields = told(server, "/waves", strength=0.5, seed=1)
    found = {method["name"]: method for method in header["methods"]}
    assert not found["anderson"]["converged"]
    assert found["network"]["converged"]
    assert found["network"]["residual"] <= 1e-9
    assert found["network"]["factorisations"] < found["damped"]["factorisations"]
    change = np.abs(fields["answer"] - fields["linear"]).max()
    # the network's iterate is on the way to the answer
    assert np.abs(fields["answer"] - fields["network"]).mean() < 0.5 * change


def test_wells_tell_the_rock(server):
    header, fields = told(server, "/wells", places=WELLS, seed=2, prior="two-phase")
    last = fields[f"correction {header['network']['corrections']}"]
    wrong = np.mean((last > 0.5) != (fields["truth"] > 0.5))
    assert header["network"]["wrong"] == pytest.approx(wrong, abs=2e-3)
    without = min(fields["truth"].mean(), 1 - fields["truth"].mean())
    assert wrong < 0.5 * without
    few, _ = told(server, "/wells", places=WELLS[:2], seed=2, prior="two-phase")
    assert few["network"]["wrong"] > wrong


@pytest.mark.parametrize(
    ("address", "ask", "field"),
    [
        ("/waves", {"strength": 9}, "strength"),
        ("/waves", {"medium": "iron"}, "medium"),
        ("/wells", {"places": []}, "places"),
        ("/wells", {"places": WELLS, "noise": 2}, "noise"),
        ("/wells", {"places": [[0.5, i / 300] for i in range(300)]}, "places"),
    ],
)
def test_what_cannot_be_asked_is_refused(server, address, ask, field):
    status, _, body = server.request("POST", address, json.dumps(ask), JSON)
    assert status in {400, 422}
    assert field in json.loads(body)["error"]["message"]
