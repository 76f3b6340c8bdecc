from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.serve.frames import write_npy
from tests.serve.running import JSON

NPY = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}


def test_state(server):
    health = server.get("/healthz")
    assert health["status"] == "ok"
    assert health["models"] >= 6
    _, _, body = server.request("GET", "/metrics")
    text = body.decode()
    assert "# TYPE ens_solves_total counter" in text
    assert server.metric("process_resident_memory_bytes") > 1e8


def test_models_name_the_constants_of_the_training(server):
    equations = {each["name"]: each for each in server.get("/models")["equations"]}
    assert {"poisson", "helmholtz", "darcy", "navier-stokes"} <= set(equations)
    (wavenumber,) = equations["helmholtz"]["constants"]
    assert wavenumber["trained"] == 1.0
    assert equations["kolmogorov"]["flow"]


def test_the_answer_is_that_of_the_library(server):
    status, answer = server.solve(
        equation="helmholtz", constants={"wavenumber": 1.5}, seed=3, tolerance=1e-8
    )
    assert status == 200
    assert answer["status"] == "TOLERANCE"
    assert answer["good"]
    assert 0 < answer["error_bound"] < 1e-6
    problem = ns.Problem.random(ns.Helmholtz(wavenumber=1.5), 64, seed=3, key=1)
    solution = ns.load("helmholtz").solve(problem, tolerance=1e-8)
    assert answer["steps"] == int(solution.steps[0])
    assert np.array_equal(np.array(answer["u"]), solution.tensor[0, 0].numpy())


def test_an_array_in_and_an_array_out(server):
    source = np.random.default_rng(0).normal(size=(64, 64)) * 30
    path = "/solve?equation=poisson&scale=1&mode=plain&steps=5"
    status, headers, body = server.request("POST", path, write_npy(source), NPY)
    assert status == 200
    assert headers["content-type"] == "application/x-npy"
    verdict = json.loads(headers["x-ens-verdict"])
    assert verdict["status"] == "FINISHED"
    assert verdict["steps"] == 5
    u = np.load(io.BytesIO(body), allow_pickle=False)
    problem = ns.Problem(ns.Poisson(scale=1.0), torch.from_numpy(source))
    expected = ns.load("poisson").solve(problem, steps=5).tensor[0, 0]
    assert np.array_equal(u, expected.double().numpy())


def test_json_in_and_json_out_with_a_field(server):
    field = np.full((64, 64), 3.0)
    field[20:40] = 12.0
    status, answer = server.solve(equation="darcy", input=field.tolist(), tolerance=1e-6)
    assert status == 200
    assert answer["status"] == "TOLERANCE"
    assert np.array(answer["u"]).shape == (64, 64)


def test_a_flow_comes_as_frames(server):
    body = json.dumps({"equation": "navier-stokes", "mode": "plain", "steps": 1})
    headers = {**JSON, "Accept": "application/x-npy"}
    status, _, content = server.request("POST", "/solve", body, headers)
    assert status == 200
    assert np.load(io.BytesIO(content), allow_pickle=False).shape == (21, 64, 64)


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        ({"equation": "heat"}, "equation"),
        ({}, "equation"),
        ({"equation": "helmholtz", "constants": {"wavenumber": 99}}, "wavenumber"),
        ({"equation": "navier-stokes", "constants": {"frames": 10**9}}, "constants"),
        ({"equation": "helmholtz", "tolerance": -1}, "tolerance"),
        ({"equation": "helmholtz", "seed": -1}, "seed"),
        ({"equation": "helmholtz", "mode": "magic"}, "mode"),
        ({"equation": "helmholtz", "pickle": 1}, "pickle"),
        ({"equation": "helmholtz", "input": [[1.0, 2.0], [3.0]]}, "input"),
        ({"equation": "helmholtz", "input": [[1.0]]}, "resolution"),
        ({"equation": "darcy", "input": [[-1.0] * 64] * 64}, "permeability a"),
        ({"equation": "helmholtz", "input": [[1e300] * 64] * 64}, "source f"),
        ({"equation": "helmholtz", "grid": 4}, "grid"),
    ],
)
def test_a_wrong_field_is_named(server, ask, field):
    status, answer = server.solve(**ask)
    assert status == 422
    assert answer["error"]["field"] == field
    assert answer["error"]["expected"] in answer["error"]["message"]


def test_a_pickle_is_refused_unread(server):
    trap = io.BytesIO()
    np.save(trap, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    status, _, body = server.request("POST", "/solve?equation=poisson", trap.getvalue(), NPY)
    assert status == 422
    assert "real numbers" in json.loads(body)["error"]["expected"]


def test_a_header_that_promises_too_much_is_refused_before_memory_is_taken(server):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    status, _, body = server.request("POST", "/solve?equation=poisson", content, NPY)
    assert status == 422
    assert json.loads(body)["error"]["field"] == "grid"


def test_neither_json_nor_npy(server):
    status, _, body = server.request("POST", "/solve", "x", {"Content-Type": "text/plain"})
    assert status == 415
    assert json.loads(body)["error"]["field"] == "content-type"


def test_a_large_answer_in_json_is_refused_with_a_way_out(server):
    status, answer = server.solve(equation="kolmogorov", grid=128, mode="plain", steps=0)
    assert status == 422
    assert "application/x-npy" in answer["error"]["expected"]


def test_the_description_is_whole_and_needs_no_other_host(server):
    description = server.get("/openapi.json")
    assert set(description["paths"]) >= {"/solve", "/models", "/healthz", "/metrics", "/results"}
    body = description["paths"]["/solve"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-npy"}
    assert {"413", "415", "422", "429"} <= set(description["paths"]["/solve"]["post"]["responses"])
    for path in ("/docs", "/redoc"):
        assert server.request("GET", path)[0] == 404


def test_the_page_may_load_from_its_own_host_only(server):
    status, headers, body = server.request("GET", "/")
    assert status == 200
    assert b"watch a neural solver think" in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    for part in ("main.js", "style.css", "views.css", "workbench.js", "icon.svg"):
        status, headers, body = server.request("GET", f"/page/{part}")
        assert status == 200
        assert "content-security-policy" in headers
        assert headers["cache-control"] == "no-cache"
        assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in body


def test_colour_maps_are_those_of_the_figures(server):
    from matplotlib import colormaps

    colours = server.get("/colours")
    assert set(colours) == {"sequential", "diverging"}
    assert colours["sequential"][:3] == [round(255 * v) for v in colormaps["viridis"](0)[:3]]
    assert len(colours["diverging"]) == 768
