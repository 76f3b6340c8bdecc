"""The demonstration: one table, one picture, and an animation of each flow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from neuralsolver.plotting.animation import animate
from neuralsolver.plotting.axes import ERROR_COLOUR, RESIDUAL_COLOUR, draw
from neuralsolver.plotting.demo_cases import Row, Scene


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text, an empty line between equations."""
    head = f"{'equation':20} {'method':16} {'relative L2':>11} {'residual':>9} {'steps':>5}"
    lines = [f"{head} {'seconds':>8}  status"]
    previous = ""
    for row in rows:
        if row.equation != previous:
            lines.append("")
        error = f"{row.error:.1e}" if row.error else "0"
        lines.append(
            f"{row.equation if row.equation != previous else '':20} {row.method:16} {error:>11} "
            f"{row.residual:9.1e} {row.steps:5d} {row.seconds:8.4f}  {row.status}"
        )
        previous = row.equation
    return "\n".join(lines)


def picture(scenes: Sequence[Scene], path: Path) -> Path:
    """Input, solution, error before and after correction, and both curves, a row an equation.

    Of a flow the last frame is shown.
    """
    figure = Figure(figsize=(15, 3.0 * len(scenes)), dpi=110, layout="constrained")
    axes = figure.subplots(len(scenes), 5, squeeze=False)
    for row, scene in zip(axes, scenes, strict=True):
        name = scene.equation.name
        steps = len(scene.errors) - 1
        flow = scene.equation.frames > 0
        start = "still flow" if flow else "prediction"
        panels = (
            (scene.source, f"{name}: {scene.equation.input_names[0]}"),
            (scene.solution, "solution, last frame" if flow else "solution"),
            (scene.error_before, f"error of the {start} ({scene.errors[0]:.0e})"),
            (scene.error_after, f"error after {steps} corrections ({scene.errors[-1]:.0e})"),
        )
        for axis, (field, title) in zip(row, panels, strict=False):
            image = draw(axis, field[-1] if field.ndim == 3 else field, title)
            figure.colorbar(image, ax=axis, shrink=0.85).ax.tick_params(labelsize=7)
        curve = row[4]
        curve.semilogy(scene.errors, color=ERROR_COLOUR, label="relative L2 error")
        curve.semilogy(scene.residuals, color=RESIDUAL_COLOUR, ls="--", label="relative residual")
        curve.set_xlabel("corrections", fontsize=8)
        curve.grid(alpha=0.3)
        curve.tick_params(labelsize=7)
        curve.legend(fontsize=8)
    figure.savefig(path)
    return path


def animations(scenes: Sequence[Scene], picture: Path) -> list[Path]:
    """Truth, answer and error of each flow over time, beside the picture."""
    written = []
    for scene in scenes:
        if scene.equation.frames:
            fields = {
                "truth": scene.solution,
                "ENS": scene.solution + scene.error_after,
                "error": scene.error_after,
            }
            path = picture.with_name(f"{picture.stem}-{scene.equation.name}.gif")
            times = scene.equation.frame_times  # type: ignore[attr-defined]
            written.append(animate(path, fields, times))
    return written
