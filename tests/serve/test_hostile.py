"""Two hundred requests that nobody would send in good faith: each gets an answer, none an error."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serve.running import JSON

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["helmholtz", "poisson", "../../etc/passwd", "__import__('os')", "NaN", ""]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["equation", "constants", "input", "grid", "seed", "mode", "steps", "tolerance", "id", "x"]
)
ASKS = st.dictionaries(NAMES, VALUES, max_size=6).map(
    lambda ask: json.dumps({**ask, "grid": 64} if ask.get("grid") == 256 else ask)
)
BODIES = ASKS.map(str.encode) | st.binary(max_size=300) | st.just(b"[" * 5000)
PATHS = st.sampled_from(
    [
        "/solve",
        "/solve?equation=poisson",
        "/solve?equation=%00&wavenumber=1e999",
        "/results/rows/..%2f..%2fpyproject",
        "/results/figures/../../../README.md",
        "/page/..%2f..%2fapp.py",
        "/page/%2e%2e/app.py",
        "//evil.example/",
        "/stream",
        "/models?" + "a" * 2000,
    ]
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
KINDS = st.sampled_from(
    [JSON, {"Content-Type": "application/x-npy"}, {"Content-Type": "x" * 500}, {}]
)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(method=METHODS, path=PATHS, body=BODIES, kind=KINDS)
def test_two_hundred_hostile_requests(server, method, path, body, kind):
    status, headers, content = server.request(method, path, body, kind)
    assert status < 500, (method, path, body[:100], content[:300])
    assert status in (200, 400, 403, 404, 405, 413, 415, 421, 422, 426), status
    assert "content-security-policy" in {name.lower() for name in headers} or status == 400
    assert b"Traceback" not in content
    assert b"[project]" not in content
    if status == 422:
        assert json.loads(content)["error"]["message"]


def test_the_server_is_well_afterwards(server):
    status, answer = server.solve(equation="poisson", tolerance=1e-6)
    assert status == 200
    assert answer["good"]
