"""The report on disk: every table and figure of a results folder, and what could not be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from neuralsolver.files import write_whole
from neuralsolver.plotting.animation import animate
from paper import figures, panels
from paper.pages import renew
from paper.regimes import EXPERIMENTS
from paper.results import Results
from paper.sensor_figures import write_sensor_fields
from paper.sensor_tables import write_sensors
from paper.style import pdf, png
from paper.tables import tables
from paper.typeset import markdown

ROOT = Path(__file__).parents[1]
RESULTS, PAGES = ROOT / "results" / "desk", (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
"""Rows of the repository, and the pages that show them."""
Maker = Callable[[Results], Figure | None]
"""A figure of the results, or None where they lack its data."""


def makers(results: Results) -> dict[str, Maker]:
    """Every figure that exists in principle, by the name of its file without its ending."""
    found: dict[str, Maker] = {
        "noisy-start": figures.noisy_start,
        "starts": figures.starts,
        "refinement": figures.refinement,
        "gradient-conditioning": figures.gradient_conditioning,
        "backbones": figures.backbones,
        "darcy-time-to-accuracy": figures.time_to_accuracy,
        "conditioning": figures.conditioning,
        "flow-conditioning": figures.as_viscosity_falls,
    }
    for name, experiment in EXPERIMENTS.items():
        found[f"evolution-{name}"] = partial(figures.evolution, experiment=name)
        if not experiment.ablation:
            found[f"accuracy-{name}"] = partial(figures.accuracy, experiment=name)
    for place in panels.places(results):
        about: dict[str, Any] = dict(zip(("experiment", "regime"), place, strict=True))
        found[f"qualitative-{'-'.join(place)}"] = partial(panels.qualitative, **about)
    for followed in panels.followed(results):
        about = dict(zip(("experiment", "regime", "method"), followed, strict=True))
        found[f"snapshots-{'-'.join(followed)}"] = partial(panels.snapshots, **about)
    return found


@dataclass
class Written:
    """The files that were written and the figures that lack their data."""

    files: list[Path] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def put(self, path: Path, content: bytes) -> None:
        """Write one file and remember it; a file that is already so is left as it is."""
        if not (path.is_file() and path.read_bytes() == content):
            write_whole(path, content)
        self.files.append(path)


def write_tables(folder: Path, results: Results, written: Written) -> None:
    """Every table, all of them on one page, and the numbers of the documentation."""
    (folder / "tables").mkdir(exist_ok=True)
    pages = [
        "# Tables\n\nWritten by `python -m paper report` from the rows in the folder above; "
        "nothing here is edited by hand. L₂ is the mean relative error, residual the mean square "
        "of the residual field. A paper's number stands beside ours although grid, networks and "
        'training budget differ. "not run" means that there is no row yet.\n'
    ]
    for table in tables(results):
        table.put(folder / "tables", written.put)
        pages.append(f"## {table.name.replace('-', ' ').capitalize()}\n\n{markdown(table)}")
    written.put(folder / "tables" / "README.md", "\n".join(pages).encode())
    write_sensors(folder, written.put)
    if folder.resolve() == RESULTS:
        written.files += renew(PAGES, results)


FORMATS: dict[str, Callable[[Figure], bytes]] = {"png": png, "pdf": pdf}


def write_report(folder: Path, kind: str = "png") -> Written:
    """Tables and figures of results/<scale>, into its subfolders tables and figures.

    Args:
        folder: The results of one scale.
        kind: Of the figures of rows and studies: png or pdf.
    """
    results, written = Results.read(folder), Written()
    (folder / "figures").mkdir(exist_ok=True)
    write_tables(folder, results, written)
    for name, make in sorted(makers(results).items()):
        figure = make(results)
        if figure is None:
            written.skipped.append(name)
        else:
            written.put(folder / "figures" / f"{name}.{kind}", FORMATS[kind](figure))
    for name, (fields, times) in panels.animations(results).items():
        written.files.append(animate(folder / "figures" / f"{name}.gif", fields, times))
    write_sensor_fields(folder, written.put)
    return written
