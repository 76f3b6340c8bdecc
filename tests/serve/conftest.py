from __future__ import annotations

import pytest

from tests.serve.browser import AXE, chromium, visiting
from tests.serve.running import running

collect_ignore_glob = [] if chromium() else ["test_browser*.py"]


def pytest_terminal_summary(terminalreporter):
    if not chromium():
        terminalreporter.write_line("no browser found: the page was not tested in one")
    elif not AXE.exists():
        terminalreporter.write_line("no axe found: the page was not checked for accessibility")


@pytest.fixture(scope="session")
def server():
    with running() as found:
        yield found


@pytest.fixture(scope="module")  # while it is open no other event loop runs in this thread
def browser(server):
    with visiting(server.port) as found:
        yield found


@pytest.fixture
def visit(browser):
    """The open page, which must not have complained about anything in the end."""
    browser.complaints.clear()
    yield browser
    assert browser.complaints == []
