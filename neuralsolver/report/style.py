"""What a method is called and how it is drawn: once, for all tables and figures.

Colours are those of Okabe and Ito, which differ for every kind of colour vision. Colour alone
carries nothing: in black and white, marker and line tell the methods apart. Between walls and in a
flow a method has the same colour and marker, but not the same networks and so not the same name.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralsolver.experiments import paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, GREY = "#000000", "#7F7F7F"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

DPI = 110


@dataclass(frozen=True)
class Style:
    """Name, colour, marker and line of one method."""

    label: str
    colour: str
    marker: str
    line: str = "-"


METHOD_STYLE = {
    "ens": Style("ENS (paper's recipe)", BLUE, "o"),
    "ens-plateau": Style("ENS, stopped by its residual", BLUE, "x", ":"),
    "ens-contractive": Style("ENS, contractive", VERMILION, "s"),
    "ens-accelerated": Style("ENS, accelerated", PURPLE, "D", "-."),
    "ens-zero-field": Style("ENS without the residual", ORANGE, "v", "--"),
    "ens-gradient": Style("ENS on the gradient", PURPLE, "^", "--"),
    "ens-residual-loss": Style("ENS, residual loss", GREEN, "<", ":"),
    "ens-fno": Style("ENS, FNO", ORANGE, "p", "--"),
    "ens-cnn-fno": Style("ENS, CNN-FNO", GREEN, "h", "-."),
    "ens-fno-cnn": Style("ENS, FNO-CNN", SKY, "H", ":"),
    "ens-unet": Style("ENS, U-net", BLACK, "d", "--"),
    "fno": Style("FNO", GREEN, "^", "--"),
    "pino": Style("PINO", ORANGE, "s", "--"),
    "pino-ttop": Style("PINO(TTOP)", BLACK, "X", "-."),
    "operator": Style("CNN-FNO-CNN", SKY, "^", "--"),
    "operator-pino": Style("CNN-FNO-CNN(PINO)", SKY, "v", ":"),
    "operator-ttop": Style("CNN-FNO-CNN(TTOP)", SKY, "X", "-."),
    "pinn": Style("PINN", GREY, "P", "--"),
    "gradient-descent": Style("gradient descent", GREEN, ">", ":"),
    "newton": Style("Newton", PURPLE, "8", "-."),
    "newton-from-noise": Style("Newton from noise", PURPLE, "P", ":"),
    "newton-from-prediction": Style("Newton from the prediction", PURPLE, "s", "-"),
    "newton-from-noised-prediction": Style("Newton, noised prediction", PURPLE, "p", "--"),
    "gauss-newton": Style("Gauss-Newton", ORANGE, "<", ":"),
    "gauss-newton-from-noise": Style("Gauss-Newton from noise", ORANGE, "P", ":"),
    "gauss-newton-from-prediction": Style("Gauss-Newton from the prediction", ORANGE, "D", "-"),
    "gauss-newton-from-noised-prediction": Style(
        "Gauss-Newton, noised prediction", ORANGE, "h", "--"
    ),
    "reference": Style("classical solver", BLACK, "*", ":"),
    "truth": Style("ground truth (floor)", GREY, "_", ":"),
    "zero": Style("zero field", GREY, "|", ":"),
}


def _renamed(method: str, label: str) -> Style:
    return replace(METHOD_STYLE[method], label=label)


COARSE = {f"integrator-{points}": points for points in paper.COARSE_GRIDS}
"""The classical solver of the flows on coarser grids, by the points along a side."""

# of the variants of ENS the colour tells the recipe
FLOW_STYLE = {
    "ens": _renamed("ens", "ENS (paper's recipe), transformer"),
    "ens-contractive": _renamed("ens-contractive", "ENS, contractive, transformer"),
    "ens-accelerated": _renamed("ens-accelerated", "ENS, accelerated, transformer"),
    "ens-contractive-cnn": Style("ENS, contractive, CNN-FNO-CNN", VERMILION, "d", "--"),
    "fno": _renamed("fno", "FNO-3D"),
    "pino": _renamed("pino", "PINO-3D"),
    "pino-ttop": _renamed("pino-ttop", "PINO-3D(TTOP)"),
    "operator": _renamed("operator", "transformer"),
    "operator-pino": _renamed("operator-pino", "transformer(PINO)"),
    "operator-ttop": _renamed("operator-ttop", "transformer(TTOP)"),
    "operator-cnn": Style("CNN-FNO-CNN", SKY, "s", "--"),
    **{
        method: Style(f"classical solver, {n} × {n}", BLACK, f"${n}$")
        for method, n in COARSE.items()
    },
    "reference": METHOD_STYLE["reference"],
    "still": Style("nothing moves", GREY, "1", ":"),
    "truth": METHOD_STYLE["truth"],
    "zero": METHOD_STYLE["zero"],
}

FLOWS = paper.FLOWS


def styles_in(experiment: str) -> Mapping[str, Style]:
    """The methods of an experiment and how they are drawn there, in the order of every legend."""
    return FLOW_STYLE if experiment in FLOWS else METHOD_STYLE


BACKBONES = {
    "ens": "CNN-FNO-CNN",
    "ens-fno": "FNO",
    "ens-cnn-fno": "CNN-FNO",
    "ens-fno-cnn": "FNO-CNN",
    "ens-unet": "U-net",
}
"""The backbones of the ablation, as the paper names them."""

EXPERIMENTS = {
    "helmholtz": "Helmholtz",
    "poisson": "Poisson",
    "darcy": "Darcy",
    "nonlinear-helmholtz": "nonlinear Helmholtz",
    "navier-stokes": "Navier-Stokes",
    "kolmogorov": "Kolmogorov flow",
    "ablations": "Helmholtz ablations",
}

REGIMES = {
    "in-distribution": "in-distribution",
    "shift": "parameter shift",
    "cross-equation": "cross-equation",
    "super-resolution": "super-resolution",
    "kappa-4.2": "κ = 4.2",
    "kappa-4.4": "κ = 4.4",
    "kappa-4.5": "κ = 4.5",
    "kappa-6": "κ = 6",
    "contrast": "higher contrast",
    "noisy-input": "noisy input",
    "wrong-constant": "wrong constant",
}

SHIFTS = {
    "helmholtz": "κ 1 → 3",
    "ablations": "κ 1 → 3",
    "poisson": "a 2 → 1",
    "darcy": "f 100 → 200",
    "nonlinear-helmholtz": "κ 2 → 3, λ 1 → 4",
}
FLOW_SHIFTS = {
    ("navier-stokes", "viscosity-shift"): "viscosity 1e-4 → 1e-5",
    ("navier-stokes", "forcing-shift"): "forcing 2π → 4π",
    ("kolmogorov", "viscosity-shift"): "viscosity 5e-4 → 1e-3",
    ("kolmogorov", "forcing-shift"): "forcing 8π → 10π",
}


def regime_label(experiment: str, regime: str) -> str:
    """What a regime is called in a heading."""
    if regime == "shift" and experiment in SHIFTS:
        return f"shift {SHIFTS[experiment]}"
    if (experiment, regime) in FLOW_SHIFTS:
        return FLOW_SHIFTS[experiment, regime]
    return REGIMES.get(regime, regime)


SPARE = (
    (GREEN, "P", "-."),
    (SKY, "8", "--"),
    (ORANGE, "d", "--"),
    (SKY, "<", "-"),
    (GREY, "h", "-."),
    (GREEN, "s", ":"),
    (GREY, "^", "--"),
    (ORANGE, "8", "-"),
)
"""For methods without a style of their own; none of the colours of ENS is among them."""


def styles_of(methods: Iterable[str], labels: Mapping[str, str] | None = None) -> dict[str, Style]:
    """A style for each method: its own, or one of the spare ones in turn."""
    spare, found = cycle(SPARE), {}
    for method in methods:
        if method in METHOD_STYLE:
            found[method] = METHOD_STYLE[method]
        else:
            label = (labels or {}).get(method) or method.replace("_", " ")
            found[method] = Style(label, *next(spare))
    return found


def curve(axis: Axes, xs: list[float], ys: list[float], style: Style, **options: Any) -> None:
    """One curve of a method, with about ten markers however many points it has."""
    axis.plot(
        xs,
        ys,
        color=style.colour,
        linestyle=style.line,
        marker=style.marker,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        markevery=max(1, len(xs) // 10),
        linewidth=1.5,
        label=style.label,
        **options,
    )


def furnish(axis: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Titles, labels and a quiet grid."""
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(which="both", labelsize=7)
    axis.grid(alpha=0.25, linewidth=0.6)


def shared_legend(figure: Figure, columns: int = 4) -> None:
    """One legend under all panels, a method once."""
    entries: dict[str, Any] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=min(columns, max(1, len(entries))),
        fontsize=8,
        frameon=False,
        handlelength=3.2,
    )


def png(figure: Figure) -> bytes:
    """The picture as a file whose bytes depend on nothing but the picture.

    A palette of 256 colours shows no difference on a screen and takes a third of the space.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.fromarray(pixels[..., :3])
    memory = io.BytesIO()
    picture.quantize(256, dither=Image.Dither.NONE).save(memory, format="png")
    return memory.getvalue()
