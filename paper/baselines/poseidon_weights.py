"""The published weights of POSEIDON: which of its tensors is which of ours.

The files are safetensors, of which nothing but tensors is read. Sizes are inferred from their names
and shapes. Everything a network needs must be there in its shape; what else there is, such as
tables of positions that older versions stored, is left alone. The lifting and the recovery are kept
new where the number of channels differs: there are 4 in the published networks, 1 in most of ours.

Published weights are made for 128 × 128 points, patches of 4 and windows of 16 tokens.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from neuralsolver.errors import FileDamaged, InvalidInput
from paper.baselines.poseidon import Poseidon
from paper.baselines.scot import ScOT
from paper.rows import tensor_shapes

IMAGE_SIZE, WINDOW = 128, 16
CHANNELS = {
    "lifting": ("lifting.weight", "lifting.bias"),
    "recovery": ("recovery.weight", "recovery.bias", "mixup.weight"),
}
"""The parts that depend on the number of channels, which the first tensor of each shows."""
NAMES = (
    (r"embeddings\.patch_embeddings\.projection", "lifting"),
    (r"embeddings\.norm", "lifting_norm"),
    (r"patch_recovery\.projection", "recovery"),
    (r"patch_recovery\.mixup", "mixup"),
    (r"(encoder|decoder)\.layers\.(\d+)\.blocks", r"\1.\2"),
    (r"encoder\.layers\.(\d+)\.downsample\.reduction", r"merge.\1.linear"),
    (r"encoder\.layers\.(\d+)\.downsample", r"merge.\1"),
    (r"decoder\.layers\.(\d+)\.upsample\.upsample", r"split.\1.linear"),
    (r"decoder\.layers\.(\d+)\.upsample\.mixup", r"split.\1.mix"),
    (r"decoder\.layers\.(\d+)\.upsample", r"split.\1"),
    (r"attention\.self\.continuous_position_bias_mlp", "attention.position"),
    (r"attention\.self", "attention"),
    (r"attention\.output\.dense", "attention.output"),
    (r"intermediate\.dense", "up"),
    (r"\.output\.dense", ".down"),
    (r"layernorm_before", "attention_norm"),
    (r"layernorm_after", "feedforward_norm"),
    (r"residual_blocks\.(\d+)\.(\d+)\.weight$", r"skips.\1.\2.scale"),
    (r"residual_blocks", "skips"),
    (r"dwconv", "depthwise"),
    (r"pwconv1", "up"),
    (r"pwconv2", "down"),
    (r"norm\.weight\.", "norm.scale."),
    (r"norm\.bias\.", "norm.shift."),
)
"""Their names and ours, applied one after the other."""


def our_name(name: str, levels: int) -> str:
    """Our name of a published tensor; the way out is counted from its finest level here."""
    for theirs, ours in NAMES:
        name = re.sub(theirs, ours, name)
    if name.startswith(("decoder.", "split.")):
        part, number, *rest = name.split(".")
        # what splits tokens is counted by the level it leads to
        level = levels - 1 - int(number) - (part == "split")
        name = ".".join([part, str(level), *rest])
    return name


def published_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a file, under our names."""
    if not file.is_file():
        raise InvalidInput("--start", "a safetensors file of published weights", str(file))
    found = tensor_shapes(file)
    stages = [re.match(r"encoder\.layers\.(\d+)\.", name) for name in found]
    levels = 1 + max((int(stage[1]) for stage in stages if stage), default=-1)
    if not levels:
        expected = "weights of POSEIDON: encoder.layers.0… and so on"
        raise FileDamaged(str(file), expected, ", ".join(list(found)[:2]) or "nothing")
    return {our_name(name, levels): shape for name, shape in found.items()}


def published_sizes(file: Path) -> dict[str, Any]:
    """The arguments of `Poseidon` that the tensors of a file show."""
    shapes = published_shapes(file)
    try:
        width, _, patch, _ = shapes["lifting.weight"]
        inner = shapes["encoder.0.0.up.weight"][0]
        levels = 1 + max(int(name.split(".")[1]) for name in shapes if name.startswith("encoder."))
        depths = [_count(shapes, f"encoder.{level}.") for level in range(levels)]
        heads = [shapes[f"encoder.{level}.0.attention.logit_scale"][0] for level in range(levels)]
    except (KeyError, ValueError, IndexError) as error:
        raise FileDamaged(str(file), "weights of POSEIDON", f"no usable {error}"[:100]) from None
    return {
        "image_size": IMAGE_SIZE,
        "patch": patch,
        "width": width,
        "depths": depths,
        "heads": heads,
        "skips": [_count(shapes, f"skips.{level}.") for level in range(levels)],
        "window": WINDOW,
        "expansion": inner // width,
    }


def _count(shapes: dict[str, Any], prefix: str) -> int:
    """How many blocks there are under a name."""
    return len(
        {name.removeprefix(prefix).split(".")[0] for name in shapes if name.startswith(prefix)}
    )


def check_published(file: Path, network: nn.Module) -> list[str]:
    """The parts that stay new; raises FileDamaged for a tensor that is missing or of another shape.

    `network` may be on torch's device "meta": nothing of it is read but names and shapes.
    """
    shapes = published_shapes(file)
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    new = []
    for part, names in CHANNELS.items():
        first = shapes.get(names[0])
        if first is not None and _other_channels(first, wanted[names[0]]):
            new.append(part)
            wanted = {name: shape for name, shape in wanted.items() if name not in names}
    for name, shape in wanted.items():
        got = shapes.get(name)
        if got != shape:
            expected = f"{name} of shape {shape} (our name)"
            raise FileDamaged(str(file), expected, "no such tensor" if got is None else str(got))
    return new


def _other_channels(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether two shapes are equal but for their channels, which are the second number in both."""
    same = len(found) == len(wanted) and found[0] == wanted[0] and found[2:] == wanted[2:]
    return same and found[1] != wanted[1]


def load_published(file: Path, network: Poseidon) -> list[str]:
    """Put published weights into a network of their size; the parts that stay new are returned."""
    new = check_published(file, network.scot)
    kept = {name for part in new for name in CHANNELS[part]}
    levels = len(network.scot.encoder)
    own = network.scot.state_dict()
    try:
        with safe_open(file, framework="pt") as stored, torch.no_grad():
            for theirs in stored.keys():  # noqa: SIM118 - not a mapping
                name = our_name(theirs, levels)
                if name in own and name not in kept:
                    own[name].copy_(stored.get_tensor(theirs))
    except (SafetensorError, OSError) as error:
        raise FileDamaged(str(file), "a whole safetensors file", str(error)[:100]) from None
    return new


def from_published(
    file: Path, in_channels: int, out_channels: int, **more: Any
) -> tuple[Poseidon, list[str]]:
    """A network of the size of a file with its weights, and the parts of it that are new."""
    sizes = published_sizes(file)
    try:
        with torch.device("meta"):  # a file may claim any size: first it must have the weights
            check_published(file, ScOT(in_channels, 1, **sizes))
    except FileDamaged:
        raise
    except InvalidInput as error:
        raise FileDamaged(str(file), "sizes that make a network", str(error)) from None
    network = Poseidon(in_channels, out_channels, **sizes, **more, brought=True)
    return network, load_published(file, network)
