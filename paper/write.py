"""The report on disk: every table and figure of a results folder, and what could not be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from neuralsolver.files import write_whole
from neuralsolver.plotting.animation import animate
from paper import conditioning_tables as conditioning
from paper import cost, curves, panels
from paper.pages import renew
from paper.regimes import EXPERIMENTS
from paper.results import Results
from paper.sensor_figures import write_sensor_fields
from paper.sensor_tables import write_sensors
from paper.style import png
from paper.tables import tables
from paper.typeset import markdown

RESULTS, DOCS = (Path(__file__).parents[1] / name for name in ("results/desk", "docs"))
"""Rows of the repository, and the pages that show them."""
Maker = Callable[[Results], Figure | None]
"""A figure of the results, or None where they lack its data."""


def figures(results: Results) -> dict[str, Maker]:
    """Every figure that exists in principle, by the name of its file without .png."""
    found: dict[str, Maker] = {
        "noisy-start": curves.noisy_start,
        "starts": curves.starts,
        "refinement": curves.refinement,
        "gradient-conditioning": curves.gradient_conditioning,
        "backbones": curves.backbones,
        "darcy-time-to-accuracy": cost.time_to_accuracy,
        "conditioning": conditioning.conditioning,
        "flow-conditioning": conditioning.as_viscosity_falls,
    }
    for name, experiment in EXPERIMENTS.items():
        found[f"evolution-{name}"] = partial(curves.evolution, experiment=name)
        if not experiment.ablation:
            found[f"accuracy-{name}"] = partial(cost.accuracy, experiment=name)
    for name, regime in panels.places(results):
        found[f"qualitative-{name}-{regime}"] = partial(
            panels.qualitative, experiment=name, regime=regime
        )
    for name, regime, method in panels.followed(results):
        found[f"snapshots-{name}-{regime}-{method}"] = partial(
            panels.snapshots, experiment=name, regime=regime, method=method
        )
        for quantity in ("error", "residual"):
            found[f"iterations-{name}-{quantity}"] = partial(
                panels.iterations, experiment=name, quantity=quantity
            )
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
        written.files += renew(DOCS, results)


def write_report(folder: Path) -> Written:
    """Tables and figures of results/<scale>, into its subfolders tables and figures."""
    results, written = Results.read(folder), Written()
    (folder / "figures").mkdir(exist_ok=True)
    write_tables(folder, results, written)
    for name, make in sorted(figures(results).items()):
        figure = make(results)
        if figure is None:
            written.skipped.append(name)
        else:
            written.put(folder / "figures" / f"{name}.png", png(figure))
    for name, (fields, times) in panels.animations(results).items():
        written.files.append(animate(folder / "figures" / f"{name}.gif", fields, times))
    write_sensor_fields(folder, written.put)
    return written
