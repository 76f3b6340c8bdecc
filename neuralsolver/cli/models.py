"""ens list | export: the trained models at hand, and how they leave the house."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from neuralsolver.cli.heat_and_waves import TRANSIENTS
from neuralsolver.cli.options import AsJson, constants_text
from neuralsolver.limits import Choice

FORMATS = ("onnx", "torch-export")


def list_all(as_json: AsJson = False) -> None:
    """List equations, recipes, scales and shipped models."""
    from neuralsolver.equations import EQUATIONS
    from neuralsolver.training.library import SHIPPED, shipped
    from neuralsolver.training.presets import SCALES, recipes_for

    cards = {name: read_model_card(SHIPPED / name) for name in shipped()}
    if as_json:
        equations = {name: equation.constants() for name, equation in EQUATIONS.items()}
        known = {"equations": equations, "recipes": recipes_for(), "scales": list(SCALES)}
        print(json.dumps({**known, "models": cards}))
        return
    print("equations")
    for name, equation in EQUATIONS.items():
        print(f"  {name:20} {constants_text(equation.constants())}")
    print("  waves                wavenumber, strength, order, length; `ens solve waves`")
    for name, constants in TRANSIENTS.items():
        print(f"  {name:20} {', '.join(constants)}; `ens solve {name}`")
    print(f"recipes\n  {', '.join(recipes_for())}\nscales")
    for scale in SCALES.values():
        print(f"  {scale.name:20} {scale.samples} samples on {scale.resolution} points")
    print("models")
    for name, card in cards.items():
        print(f"  {name:28} {card}")
    for name, text in {"waves": "nonlinear waves", "darcy-inversion": "heads in wells"}.items():
        if (SHIPPED / name).is_dir():
            print(f"  {name:28} {text}")


def read_model_card(folder: Path) -> str:
    """What a model is, in a line."""
    from neuralsolver.training.checkpoint import read_card

    card = read_card(folder)
    constants = constants_text(card["equation"]["constants"])
    return f"{card['resolution']} points, {card.get('scale', 'own')} scale, trained on {constants}"


def export(
    model: Annotated[str, typer.Argument(help="Name of a shipped model, or a model folder.")],
    *,
    output: Annotated[
        Path | None, typer.Option(help="Write to this folder. [default: the name of the model]")
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", help="Format: onnx or torch-export."), Choice(FORMATS)
    ] = "onnx",
    as_json: AsJson = False,
) -> None:
    """Export the networks of a model to ONNX or torch.export.

    The exported networks are run once and compared with the originals.
    """
    from neuralsolver.training import load
    from neuralsolver.training.export import export_networks

    solver = load(model)
    folder = output or Path(Path(model).name)
    rows = export_networks(solver, kind, folder)
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['path']}: largest relative difference {row['difference']:.1e}")
