"""The trained models at hand: those shipped with the package and those in a user's folder.

A name is a name and a path is a path: what has a separator in it, or is a `Path`, is a path and
nothing else. A plain word is a shipped model, or a folder here if no shipped model is called so;
a word that could be both is refused. Of a shipped model it is the name, or the equation (then the
recipe is contractive), or a recipe that a single model has.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from pathlib import Path
from typing import Any

from neuralsolver.equations import Equation, NavierStokes, Problem, equation_named
from neuralsolver.equations.registry import describe
from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.samplers.samples import Sampler
from neuralsolver.solvers import TrainedSolver
from neuralsolver.solvers.neural_solver import NeuralSolver
from neuralsolver.training.checkpoint import CARD, WEIGHTS, load_corrector, load_model, read_card

SHIPPED = Path(__file__).parents[1] / "weights"
DEFAULT_RECIPE = "contractive"


def shipped() -> list[str]:
    """Names of the trained solvers that come with the package.

    >>> from neuralsolver.training import shipped
    >>> "helmholtz-contractive" in shipped()
    True
    """
    return _shipped("neural-solver")


def shipped_denoisers() -> list[str]:
    """Names of the denoisers that come with the package, for `ens invert`."""
    return _shipped("denoiser", "error-conditioned")


def _shipped(*kinds: str) -> list[str]:
    """The models of the package of these kinds; its own cards need no second look."""
    cards = {path.parent.name: json.loads(path.read_text()) for path in SHIPPED.glob(f"*/{CARD}")}
    return sorted(
        name for name, card in cards.items() if card.get("kind", "neural-solver") in kinds
    )


def ship(model: Path, name: str) -> tuple[Path, str]:
    """Copy a model folder among those of the package; where to, and what was replaced.

    Only in a source checkout: what was installed is not a user's to change.
    """
    checkout = SHIPPED.parents[1]
    if not (checkout / "pyproject.toml").is_file() or not (checkout / ".git").exists():
        raise InvalidInput("--ship", "a source checkout of neuralsolver", str(SHIPPED))
    place = SHIPPED / name
    replaced = ""
    if (place / CARD).is_file():
        replaced = f"the model of weights {str(read_card(place).get('sha256'))[:12]}"
    copy_model(model, place)
    return place, replaced


def copy_model(model: Path, place: Path) -> None:
    """Copy a model folder; the card comes last, so that what has one is whole."""
    place.mkdir(parents=True, exist_ok=True)
    (place / CARD).unlink(missing_ok=True)
    for part in (WEIGHTS, CARD):
        write_whole(place / part, (model / part).read_bytes())


def locate_denoiser(model: str) -> Path:
    """The folder of a denoiser by the name of a shipped one or by its path."""
    for folder in (SHIPPED / model, Path(model).expanduser()):
        if (folder / CARD).is_file():
            return folder
    known = ", ".join(shipped_denoisers()) or "none shipped"
    expected = (
        f"one of {known}, or a folder with {CARD} (denoisers and the networks of boxes and "
        "shapes are in the repository only, not in the wheel; no default method needs them)"
    )
    raise InvalidInput("denoiser", expected, model)


def locate(model: str | Path) -> Path | None:
    """The folder of a model, or None if there is none."""
    text = os.fspath(model)
    if isinstance(model, Path) or os.path.dirname(text) or text in ("", ".", "..", "~"):
        path = Path(model).expanduser()
        return path if (path / CARD).is_file() else None
    known = shipped()
    names = [name for name in (f"{text}-{DEFAULT_RECIPE}", text) if name in known]
    of_recipe = [name for name in known if name.endswith(f"-{text}")]
    if not names and len(of_recipe) == 1:
        names = of_recipe
    here = Path(text) if (Path(text) / CARD).is_file() else None
    if names and here is not None:
        expected = f"a name or a path: ./{text} is the folder, {names[0]} the shipped model"
        raise InvalidInput("model", expected, f"{text}, which is both")
    return SHIPPED / names[0] if names else here


def _located(model: str | Path) -> Path:
    folder = locate(model)
    if folder is None:
        known = ", ".join(shipped()) or "none shipped"
        raise InvalidInput("model", f"one of {known}, or a folder with {CARD}", str(model))
    return folder


def load(model: str | Path) -> TrainedSolver:
    """A trained solver: an equation's name, "equation-recipe", or the path of a model folder.

    >>> import neuralsolver as ns
    >>> ns.load("helmholtz").resolution
    64
    """
    network, card = load_model(_located(model))
    if not isinstance(network, NeuralSolver):
        expected = "a solver (`ens invert` uses denoisers)"
        raise InvalidInput("model", expected, f"the denoiser {model}")
    return TrainedSolver(network, card.equation, card.resolution, card.record)


def describe_model(model: str | Path) -> dict[str, Any]:
    """A model as JSON values: its equation with the constants it was trained on, its grid, how it
    was trained and what it measured.

    >>> from neuralsolver.training.library import describe_model
    >>> describe_model("helmholtz")["equation"]["name"]
    'helmholtz'
    """
    folder = _located(model)
    card = read_card(folder)
    equation = equation_named(card["equation"]["name"], card["equation"]["constants"])
    kept = ("recipe", "scale", "seed", "errors", "version", "sha256")
    return {
        "name": folder.name,
        "equation": describe(equation),
        "resolution": card["resolution"],
        "correctable": card["solver"]["corrector"] is not None,
        **{key: card[key] for key in kept if key in card},
    }


NOTED_MEAN = 1e-6
"""A mean vorticity above this part of its size is no rounding of a float32 file."""


def remarks(problem: Problem, trained_on: Equation | None = None) -> list[str]:
    """What a user should know of a problem: constants that the networks were not trained with,
    a mean vorticity that no flow has."""
    found = []
    if trained_on is not None and type(trained_on) is type(problem.equation):
        for field in dataclasses.fields(problem.equation):  # type: ignore[arg-type]
            value, trained = (getattr(e, field.name) for e in (problem.equation, trained_on))
            if value != trained:
                now, then = (f"{v:g}" if isinstance(v, float) else str(v) for v in (value, trained))
                found.append(f"{field.name} = {now} was {then} in training")
    if isinstance(problem.equation, NavierStokes):
        fields = problem.inputs.double().flatten(1)
        mean, size = fields.mean(1).abs(), fields.square().mean(1).sqrt()
        if bool((mean > NOTED_MEAN * size).any()):
            found.append(
                f"the initial vorticity has the mean {float(mean.max()):.3g}, which no periodic "
                "velocity has: it stays in the solution and moves nothing"
            )
    return found


def load_sampler(equation: str, method: str, steps: int | None = None) -> Sampler:
    """A sampler of fields from sensors by its name, for `invert` and the study."""
    from neuralsolver.samplers import methods

    denoiser = lambda name: load_model(locate_denoiser(name))[0]  # noqa: E731
    return methods.build(method, equation, steps, denoiser, load)


@functools.cache
def shipped_wave_corrector() -> WaveCorrector | None:
    """The network of waves that comes with the package, or None in a checkout without it."""
    return load_corrector(SHIPPED / "waves") if (SHIPPED / "waves" / CARD).is_file() else None
