"""Records the page as an animation: `python docs/record_page.py docs/page.gif`.

Starts a server, drives a headless Chromium through a short story, and joins the screenshots: the
solver as it was trained, beyond a resonance where it fails, and accelerated, where it recovers.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.serve.browser import Visit, visiting
from tests.serve.running import running

SIZE = {"width": 1280, "height": 1130}
SHOWN = (900, 795)
FRAME_MILLISECONDS, REST_MILLISECONDS = 160, 1800
STORY = (
    ("#/solve?equation=helmholtz&seed=4", 14),
    ("#/solve?equation=helmholtz&seed=4&wavenumber=4.8&mode=plain&steps=24", 10),
    ("#/solve?equation=helmholtz&seed=4&wavenumber=4.8", 14),
    ("#/solve?equation=darcy&seed=3", 12),
)
"""Addresses, and how many iterates of each are shown."""


def record(file: Path) -> None:
    """Write the animation."""
    with running() as server, visiting(server.port, viewport=SIZE) as visit:
        scenes = [scene for path, count in STORY for scene in _scene(visit, path, count)]
    pictures = [picture for picture, _ in scenes]
    palette = _together(pictures).quantize(256, dither=Image.Dither.NONE)
    small = [p.quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    small[0].save(
        file,
        save_all=True,
        append_images=small[1:],
        duration=[rest for _, rest in scenes],
        loop=0,
        optimize=True,
    )
    print(f"{file}: {len(small)} pictures, {file.stat().st_size / 1e6:.2f} MB")


def _together(pictures: list[Image.Image]) -> Image.Image:
    """Every few pictures side by side, for a palette that suits all of them."""
    chosen = pictures[:: max(1, len(pictures) // 8)]
    width, height = chosen[0].size
    joined = Image.new("RGB", (width, height * len(chosen)))
    for number, picture in enumerate(chosen):
        joined.paste(picture, (0, number * height))
    return joined


def _scene(visit: Visit, path: str, count: int) -> list[tuple[Any, int]]:
    """Some iterates of one address, evenly chosen, and the verdict."""
    page = visit.open(path)
    visit.wait_end()
    last = int(page.get_attribute(".stage", "data-index"))
    places = sorted({round(k * last / (count - 1)) for k in range(count)})
    found = []
    for place in places:
        page.evaluate(
            "k => { const s = document.getElementById('scrub'); s.value = k;"
            "s.dispatchEvent(new Event('input')); }",
            place,
        )
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        rest = REST_MILLISECONDS if place == last else FRAME_MILLISECONDS
        found.append((picture.resize(SHOWN, Image.Resampling.LANCZOS), rest))
    return found


if __name__ == "__main__":
    record(Path(sys.argv[1]))
