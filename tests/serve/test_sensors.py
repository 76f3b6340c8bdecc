from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from neuralsolver.equations import Problem, equation_named
from neuralsolver.serve.frames import decode_frame
from tests.serve.running import JSON

FEW = [[0.2, 0.2], [0.8, 0.3], [0.5, 0.5], [0.2, 0.9]]
MANY = [[i / 63, j / 63] for i in range(4, 63, 6) for j in range(4, 63, 6)]


def reconstruct(server, **ask):
    status, _, body = server.request("POST", "/sensors", json.dumps(ask), JSON)
    assert status == 200, body
    return decode_frame(body)


@pytest.mark.parametrize("equation", ["helmholtz", "poisson", "darcy"])
def test_more_sensors_know_more_and_every_sample_agrees_with_them(server, equation):
    few, _ = reconstruct(server, equation=equation, places=FEW, seed=3)
    many, fields = reconstruct(server, equation=equation, places=MANY, seed=3)
    assert many["sensors"] == len(MANY)
    assert many["input"]["spread"] < 0.7 * few["input"]["spread"]
    assert many["solution"]["error"] < 0.2
    hidden = Problem.random(equation_named(equation), 64, seed=3, key=1).inputs[0, 0]
    assert np.array_equal(fields["input truth"], hidden.float().numpy())
    index = torch.tensor(np.rint(np.array(MANY) * 63).astype(int))
    seen = hidden[index[:, 0], index[:, 1]].numpy()
    for name in ("input sample 1", "input sample 2"):
        sample = fields[name][index[:, 0], index[:, 1]]
        assert np.allclose(sample, seen, atol=1e-3 * np.abs(seen).max())
    assert not np.array_equal(fields["input sample 1"], fields["input sample 2"])


def test_sensors_of_the_solution(server):
    header, _ = reconstruct(server, equation="poisson", see="solution", places=MANY)
    assert header["solution"]["error"] < 0.01
    assert header["table"].startswith("x,y,field,value\n")
    assert header["table"].count(",solution,") == len(MANY)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"places": []}, "places"),
        ({"places": [[2.0, 0.1]] * 4}, "places.0.0"),
        ({"places": [[0.5, i / 300] for i in range(300)]}, "places"),
        ({"samples": 10**6}, "samples"),
        ({"equation": "kolmogorov"}, "equation"),
        ({"equation": "darcy", "see": "solution"}, "sensors"),
    ],
)
def test_what_cannot_be_reconstructed_is_refused(server, change, field):
    ask = json.dumps({"places": FEW, **change})
    status, _, body = server.request("POST", "/sensors", ask, JSON)
    assert status == 422
    assert json.loads(body)["error"]["field"] == field
