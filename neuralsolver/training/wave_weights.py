"""Wave correctors on disk: a folder with a card and weights, checked before anything is built."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

import safetensors.torch

from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.files import read_regular
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.training.card import (
    CARD,
    FORMAT,
    LARGEST_CARD,
    allowance,
    check_weights,
    read_header,
)
from neuralsolver.training.checkpoint import WEIGHTS
from neuralsolver.training.library import SHIPPED

KIND = "wave-corrector"


def load_corrector(folder: str | Path) -> WaveCorrector:
    """A trained network.

    Args:
        folder: With its card and weights.

    Returns:
        The network in single precision, ready to evaluate.

    Raises:
        FileDamaged: Card and weights do not fit each other or are of another kind.
    """
    place = Path(folder)
    if not (place / CARD).is_file():
        raise InvalidInput("network", f"a folder with {CARD}", str(folder))
    header = read_header(place / WEIGHTS)
    try:
        card = json.loads(read_regular(place / CARD, LARGEST_CARD))
        if (card["format"], card["kind"]) != (FORMAT, KIND):
            raise ValueError(f"{card['kind']} of format {card['format']}")
        with allowance(header):
            network = WaveCorrector(**card["arguments"])
        check_weights(str(place), network, header)
        data = (place / WEIGHTS).read_bytes()
        if hashlib.sha256(data).hexdigest() != card["sha256"]:
            raise ValueError("another checksum than on the card")
        network.load_state_dict(safetensors.torch.load(data))
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # arguments of the right type may still make no network
        raise FileDamaged(str(place), "the card of a wave corrector", str(error)[:200]) from None
    return network.eval()


@functools.cache
def shipped_corrector() -> WaveCorrector | None:
    """The network that comes with the package, or None in a checkout without it."""
    return load_corrector(SHIPPED / "waves") if (SHIPPED / "waves" / CARD).is_file() else None
