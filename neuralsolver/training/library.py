"""The trained models at hand: those shipped with the package and those in a user's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.samplers.samples import Sampler
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.checkpoint import CARD, WEIGHTS, load_model, read_card

SHIPPED = Path(__file__).parents[1] / "weights"
DEFAULT_RECIPE = "contractive"


def shipped() -> list[str]:
    """Names of the trained solvers that come with the package."""
    return sorted(name for name, kind in _kinds() if kind == "neural-solver")


def shipped_denoisers() -> list[str]:
    """Names of the denoisers that come with the package, for `ens reconstruct`."""
    return sorted(name for name, kind in _kinds() if kind != "neural-solver")


def _kinds() -> list[tuple[str, str]]:
    folders = [path.parent for path in SHIPPED.glob(f"*/{CARD}")]
    return [(folder.name, read_card(folder).get("kind", "neural-solver")) for folder in folders]


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
            if not isinstance(network, NeuralSolver):
                expected = "a solver (`ens reconstruct` uses denoisers)"
                raise InvalidInput("model", expected, f"the denoiser {name}")
            return TrainedSolver(network, card.equation, card.resolution, card.record)
    known = ", ".join(shipped()) or "none shipped"
    raise InvalidInput("model", f"one of {known}, or a folder with {CARD}", str(name))


def load_sampler(equation: str, method: str, steps: int | None = None) -> Sampler:
    """A sampler of fields from sensors by its name, with the shipped denoiser of an equation."""
    from neuralsolver.samplers import methods

    return methods.build(method, equation, steps, _denoiser, load)


def _denoiser(name: str) -> Any:
    folder = SHIPPED / name
    if not (folder / CARD).is_file():
        known = ", ".join(shipped_denoisers()) or "none shipped"
        raise InvalidInput("denoiser", f"one of {known}", name)
    return load_model(folder)[0]
