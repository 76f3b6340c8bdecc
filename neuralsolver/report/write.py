"""The report on disk: every table and figure of a results folder, and what could not be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from neuralsolver.files import write_whole
from neuralsolver.report import beyond, flows, matched, settings, tables
from neuralsolver.report.animation import animate
from neuralsolver.report.figures import makers
from neuralsolver.report.flow_panels import animations
from neuralsolver.report.layout import Table, latex, markdown
from neuralsolver.report.rows import Results
from neuralsolver.report.sensors import write_sensors
from neuralsolver.report.style import png

TABLES: tuple[Callable[[Results], Table | None], ...] = (
    *(tables.forward(spec) for spec in tables.FORWARD),
    beyond.ratios,
    settings.extrapolation,
    tables.backbones,
    matched.matched_backbone,
    *(matched.matched_flow(spec) for spec in matched.MATCHED_FLOWS),
    flows.flow_ratios,
    beyond.signals,
    beyond.newton,
    beyond.beyond,
    beyond.seconds,
    beyond.flow_seconds,
    settings.data_generation,
)


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


def write_report(folder: Path) -> Written:
    """Tables and figures of results/<scale>, into its subfolders tables and figures."""
    results, written = Results.read(folder), Written()
    for name in ("tables", "figures"):
        (folder / name).mkdir(exist_ok=True)
    _write_tables(results, folder / "tables", written)
    for name, make in sorted(makers(results).items()):
        figure = make(results)
        if figure is None:
            written.skipped.append(name)
        else:
            written.put(folder / "figures" / f"{name}.png", png(figure))
    for name, (fields, times) in animations(results).items():
        written.files.append(animate(folder / "figures" / f"{name}.gif", fields, times))
    write_sensors(folder, written.put)
    return written


def _write_tables(results: Results, folder: Path, written: Written) -> None:
    pages = [
        "# Tables\n\nWritten by `ens report` from the rows in the folder above; nothing here is "
        "edited by hand. L₂ is the mean relative error, residual the mean square of the residual "
        "field. A paper's number stands beside ours although grid, networks and training budget "
        'differ. "not run" means that there is no row yet.\n'
    ]
    for make in TABLES:
        table = make(results)
        if table is None:
            continue
        text = markdown(table)
        written.put(folder / f"{table.name}.md", text.encode())
        written.put(folder / f"{table.name}.tex", latex(table).encode())
        title = table.name.replace("-", " ").capitalize()
        pages.append(f"## {title}\n\n{text}")
    written.put(folder / "README.md", "\n".join(pages).encode())
