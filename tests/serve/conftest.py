from __future__ import annotations

import pytest

from tests.serve.browser import AXE, chromium
from tests.serve.running import running

collect_ignore = [] if chromium() else ["test_browser.py"]


def pytest_terminal_summary(terminalreporter):
    if not chromium():
        terminalreporter.write_line("no browser found: the page was not tested in one")
    elif not AXE.exists():
        terminalreporter.write_line("no axe found: the page was not checked for accessibility")


@pytest.fixture(scope="session")
def server():
    with running() as found:
        yield found
