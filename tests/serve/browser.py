"""A real browser on the page, with everything it complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium() -> str | None:
    """The browser of this system, or the one that ENS_CHROMIUM names."""
    found = (os.environ.get("ENS_CHROMIUM"), *(shutil.which(name) for name in NAMES))
    return next((path for path in found if path), None)


@dataclass
class Visit:
    """A page that is open, and what went wrong on it."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str = "#/solve", state: str | None = "finished") -> Any:
        """Go somewhere and wait until all is computed."""
        self.page.goto("about:blank")
        self.page.goto(self.address + path)
        if state:
            self.wait_state(state)
        return self.page

    def wait_state(self, state: str = "finished") -> None:
        self.page.wait_for_selector(f"main[data-state={state}]", timeout=30_000)

    def wait_end(self) -> None:
        """Until the last iterate is shown and judged."""
        self.page.wait_for_selector("#verdict[data-status]", timeout=30_000)

    def verdict(self) -> str:
        return str(self.page.inner_text("#verdict"))

    def pixels(self, panel: int) -> list[int]:
        """The colours of a picture, by the number of its panel."""
        return list(
            self.page.evaluate(
                "k => { const shown = document.querySelectorAll('.panel .picture canvas')[k];"
                "const copy = new OffscreenCanvas(shown.width, shown.height).getContext('2d');"
                "copy.drawImage(shown, 0, 0);"
                "return [...copy.getImageData(0, 0, shown.width, shown.height).data]; }",
                panel,
            )
        )


@contextmanager
def visiting(port: int, **options: Any) -> Iterator[Visit]:
    """A browser in which nothing plays by itself; its errors and foreign requests are noted."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        context = browser.new_context(
            **{"viewport": {"width": 1360, "height": 1000}, **options},
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        visit = Visit(page, f"http://127.0.0.1:{port}/")
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on("console", lambda message: _complain(visit, message))
        page.on("request", lambda request: _stranger(visit, request.url))
        try:
            yield visit
        finally:
            browser.close()


def _complain(visit: Visit, message: Any) -> None:
    if message.type in ("error", "warning"):
        visit.complaints.append(message.text)


def _stranger(visit: Visit, url: str) -> None:
    if not url.startswith((visit.address, "data:", "blob:", "about:")):
        visit.complaints.append(f"a request to another host: {url}")
