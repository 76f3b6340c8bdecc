"""The trained models at hand: those shipped with the package and those in a user's folder."""

from __future__ import annotations

from pathlib import Path

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.solvers import TrainedSolver
from neuralsolver.training.checkpoint import CARD, WEIGHTS, load_model

SHIPPED = Path(__file__).parents[1] / "weights"
DEFAULT_RECIPE = "contractive"


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CARD}"))


def shipped_copy(model: Path, name: str) -> Path:
    """Copy a model folder among those of the package; the card comes last."""
    place = SHIPPED / name
    place.mkdir(parents=True, exist_ok=True)
    (place / CARD).unlink(missing_ok=True)
    for part in (WEIGHTS, CARD):
        write_whole(place / part, (model / part).read_bytes())
    return place


def load(name: str | Path) -> TrainedSolver:
    """A trained solver: an equation's name, "equation-recipe", or the path of a model folder."""
    for folder in (SHIPPED / f"{name}-{DEFAULT_RECIPE}", SHIPPED / str(name), Path(name)):
        if (folder / CARD).is_file():
            network, card = load_model(folder)
            return TrainedSolver(network, card.equation, card.resolution, card.record)
    known = ", ".join(shipped()) or "none shipped"
    raise InvalidInput("model", f"one of {known}, or a folder with {CARD}", str(name))
