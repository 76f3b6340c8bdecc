from __future__ import annotations

import pytest

from tests.serve.running import running


@pytest.fixture(scope="session")
def server():
    with running() as found:
        yield found
