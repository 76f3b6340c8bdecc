"""Backbones: tensors in, tensors out. They know no equation.

`build(name, **arguments)` makes one from plain values, as a checkpoint card stores them; a model's
own `arguments` are those values.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from neuralsolver.errors import InvalidInput
from neuralsolver.models.fno import FNO
from neuralsolver.models.gated_unet import GatedUNet
from neuralsolver.models.hdit import HDiT
from neuralsolver.models.song_unet import SongUNet
from neuralsolver.models.spectral import SpectralConvolution
from neuralsolver.models.wave_corrector import UNet

MODELS: dict[str, type[nn.Module]] = {
    "fno": FNO,
    "gated-unet": GatedUNet,
    "hdit": HDiT,
    "song-unet": SongUNet,
    "unet": UNet,
}

__all__ = [
    "FNO",
    "MODELS",
    "GatedUNet",
    "HDiT",
    "SongUNet",
    "SpectralConvolution",
    "UNet",
    "build",
    "name_of",
    "takes",
]


RETIRED = {("hdit", "convolutional_feedforward"): False}
"""Arguments that older cards still have, with the value that networks of today stand for."""


def build(name: str, **arguments: Any) -> nn.Module:
    """The backbone called `name`, made from its constructor arguments."""
    if name not in MODELS:
        raise InvalidInput("model", "one of " + ", ".join(sorted(MODELS)), repr(name))
    parameters = inspect.signature(MODELS[name]).parameters
    for argument in sorted({*arguments} - {*parameters}):
        if RETIRED.get((name, argument), ...) != arguments.pop(argument):
            expected = f"an argument of {name} ({', '.join(parameters)})"
            raise InvalidInput(argument, expected, "an unknown argument")
    for argument, parameter in parameters.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise InvalidInput(argument, f"a value: {name} cannot be built without it", "nothing")
    return MODELS[name](**arguments)


def takes(name: str, argument: str) -> bool:
    """Whether the backbone called `name` has an argument."""
    return name in MODELS and argument in inspect.signature(MODELS[name]).parameters


def name_of(model: nn.Module) -> str:
    """The name under which `build` makes models of this kind."""
    for name, kind in MODELS.items():
        if type(model) is kind:
            return name
    raise InvalidInput("model", "one of " + ", ".join(sorted(MODELS)), type(model).__name__)
