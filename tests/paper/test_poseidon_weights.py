"""Published weights: every tensor finds its place, and what is missing is named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from neuralsolver.errors import FileDamaged, InvalidInput
from paper.baselines.poseidon import Poseidon
from paper.baselines.poseidon_weights import (
    check_published,
    from_published,
    load_published,
    our_name,
    published_sizes,
)
from paper.baselines.scot import SIZES, ScOT

Shapes = dict[str, tuple[int, ...]]
TINY = {"width": 6, "depths": [2, 1], "heads": [3, 6], "skips": [2, 0]}


def norm_shapes(name: str, width: int) -> Shapes:
    return {
        f"{name}.{part}.{kind}": (width, 1) if kind == "weight" else (width,)
        for part in ("weight", "bias")
        for kind in ("weight", "bias")
    }


def block_shapes(name: str, width: int, heads: int) -> Shapes:
    inside = f"{name}.attention.self"
    return {
        f"{inside}.logit_scale": (heads, 1, 1),
        f"{inside}.continuous_position_bias_mlp.0.weight": (512, 2),
        f"{inside}.continuous_position_bias_mlp.0.bias": (512,),
        f"{inside}.continuous_position_bias_mlp.2.weight": (heads, 512),
        f"{inside}.query.weight": (width, width),
        f"{inside}.query.bias": (width,),
        f"{inside}.key.weight": (width, width),
        f"{inside}.value.weight": (width, width),
        f"{inside}.value.bias": (width,),
        f"{name}.attention.output.dense.weight": (width, width),
        f"{name}.attention.output.dense.bias": (width,),
        **norm_shapes(f"{name}.layernorm_before", width),
        **norm_shapes(f"{name}.layernorm_after", width),
        f"{name}.intermediate.dense.weight": (4 * width, width),
        f"{name}.intermediate.dense.bias": (4 * width,),
        f"{name}.output.dense.weight": (width, 4 * width),
        f"{name}.output.dense.bias": (width,),
    }


def published_shapes(
    width: int, depths: list[int], heads: list[int], skips: list[int], channels: int = 4
) -> Shapes:
    """Names and shapes of the tensors as the published files have them."""
    shapes: Shapes = {
        "embeddings.patch_embeddings.projection.weight": (width, channels, 4, 4),
        "embeddings.patch_embeddings.projection.bias": (width,),
        **norm_shapes("embeddings.norm", width),
        "patch_recovery.projection.weight": (width, channels, 4, 4),
        "patch_recovery.projection.bias": (channels,),
        "patch_recovery.mixup.weight": (channels, channels, 5, 5),
    }
    last = len(depths) - 1
    for level, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        wide, way_in, way_out = width * 2**level, "encoder.layers", "decoder.layers"
        for number in range(depth):
            shapes |= block_shapes(f"{way_in}.{level}.blocks.{number}", wide, count)
            shapes |= block_shapes(f"{way_out}.{last - level}.blocks.{number}", wide, count)
        if level < last:
            down = f"{way_in}.{level}.downsample"
            shapes[f"{down}.reduction.weight"] = (2 * wide, 4 * wide)
            shapes |= norm_shapes(f"{down}.norm", 2 * wide)
        if level > 0:
            up = f"{way_out}.{last - level}.upsample"
            shapes[f"{up}.upsample.weight"] = (2 * wide, wide)
            shapes[f"{up}.mixup.weight"] = (wide // 2, wide // 2)
            shapes |= norm_shapes(f"{up}.norm", wide // 2)
        for number in range(skips[level]):
            skip = f"residual_blocks.{level}.{number}"
            shapes[f"{skip}.weight"] = (wide,)
            shapes[f"{skip}.dwconv.weight"] = (wide, 1, 7, 7)
            shapes[f"{skip}.dwconv.bias"] = (wide,)
            shapes |= norm_shapes(f"{skip}.norm", wide)
            shapes[f"{skip}.pwconv1.weight"] = (4 * wide, wide)
            shapes[f"{skip}.pwconv1.bias"] = (4 * wide,)
            shapes[f"{skip}.pwconv2.weight"] = (wide, 4 * wide)
            shapes[f"{skip}.pwconv2.bias"] = (wide,)
    return shapes


def made_up(shapes: Shapes) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def written(tensors: dict[str, Tensor], folder: Path) -> Path:
    save_file(tensors, folder / "published.safetensors")
    return folder / "published.safetensors"


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    found = made_up(published_shapes(**TINY))
    table = "encoder.layers.0.blocks.0.attention.self.relative_coords_table"
    found[table] = torch.zeros(1, 31, 31, 2)
    found[table.replace("coords_table", "position_index")] = torch.zeros(
        256, 256, dtype=torch.int64
    )
    return found


@pytest.mark.parametrize("size", SIZES)
def test_every_published_tensor_has_its_place(size):
    sizes = {"heads": [3, 6, 12, 24], "skips": [2, 2, 2, 0], **SIZES[size]}
    theirs = {our_name(name, 4): shape for name, shape in published_shapes(**sizes).items()}
    with torch.device("meta"):
        ours = {
            name: tuple(tensor.shape) for name, tensor in ScOT(4, 4, **sizes).state_dict().items()
        }
    assert theirs == ours


def test_sizes_are_read_off_the_tensors(tensors, tmp_path):
    found = published_sizes(written(tensors, tmp_path))
    assert {name: found[name] for name in TINY} == TINY
    assert (found["image_size"], found["patch"], found["window"], found["expansion"]) == (
        128,
        4,
        16,
        4,
    )


def test_weights_go_where_they_belong(tensors, tmp_path):
    network, new = from_published(written(tensors, tmp_path), 1, 1, input_size=2.0)
    assert new == ["lifting", "recovery"]
    assert network.brought
    state = network.scot.state_dict()
    # the way out begins with the coarsest level, there; here levels have one number on both ways
    for ours, theirs in (
        (
            "decoder.1.0.attention.query.weight",
            "decoder.layers.0.blocks.0.attention.self.query.weight",
        ),
        ("decoder.0.1.down.weight", "decoder.layers.1.blocks.1.output.dense.weight"),
        ("split.0.linear.weight", "decoder.layers.0.upsample.upsample.weight"),
        ("merge.0.linear.weight", "encoder.layers.0.downsample.reduction.weight"),
        ("skips.0.1.scale", "residual_blocks.0.1.weight"),
        ("skips.0.0.depthwise.weight", "residual_blocks.0.0.dwconv.weight"),
        ("lifting_norm.scale.weight", "embeddings.norm.weight.weight"),
        (
            "encoder.0.0.attention_norm.shift.bias",
            "encoder.layers.0.blocks.0.layernorm_before.bias.bias",
        ),
    ):
        assert torch.equal(state[ours], tensors[theirs]), ours
    assert state["lifting.weight"].shape == (6, 1, 4, 4)
    assert torch.isfinite(network(torch.randn(1, 1, 32, 32))).all()


def test_with_the_published_channels_nothing_is_new(tensors, tmp_path):
    file = written(tensors, tmp_path)
    sizes = published_sizes(file)
    network = Poseidon(4, 1, **sizes)
    assert load_published(file, network) == ["recovery"]
    lifting = "embeddings.patch_embeddings.projection.weight"
    assert torch.equal(network.scot.lifting.weight, tensors[lifting])
    assert check_published(file, ScOT(4, 4, **sizes)) == []


def test_half_precision_is_read_too(tensors, tmp_path):
    half = {name: t.half() if t.is_floating_point() else t for name, t in tensors.items()}
    network, _ = from_published(written(half, tmp_path), 1, 1)
    name = "encoder.layers.0.blocks.0.attention.self.key.weight"
    assert torch.equal(network.scot.encoder[0][0].attention.key.weight, half[name].float())


def test_what_is_missing_is_named(tensors, tmp_path):
    del tensors["decoder.layers.1.blocks.0.layernorm_after.weight.bias"]
    with pytest.raises(FileDamaged, match=r"decoder\.0\.0\.feedforward_norm\.scale\.bias.*no such"):
        from_published(written(tensors, tmp_path), 1, 1)


def test_what_has_another_shape_is_named(tensors, tmp_path):
    tensors["residual_blocks.0.0.pwconv1.bias"] = torch.zeros(5)
    with pytest.raises(FileDamaged, match=r"skips\.0\.0\.up\.bias of shape \(24,\).*\(5,\)"):
        from_published(written(tensors, tmp_path), 1, 1)


def test_a_lifting_of_other_patches_is_no_matter_of_channels(tensors, tmp_path):
    tensors["embeddings.patch_embeddings.projection.weight"] = torch.zeros(6, 4, 4, 2)
    with pytest.raises(FileDamaged, match="lifting"):
        from_published(written(tensors, tmp_path), 1, 1)


def test_a_claimed_width_is_not_built_before_its_weights_are_there(tensors, tmp_path):
    tensors["embeddings.patch_embeddings.projection.weight"] = torch.zeros(60_000, 4, 4, 4)
    with pytest.raises(FileDamaged):
        from_published(written(tensors, tmp_path), 1, 1)


def test_files_that_are_something_else(tmp_path):
    with pytest.raises(InvalidInput, match="--start"):
        from_published(tmp_path / "nowhere.safetensors", 1, 1)
    with pytest.raises(FileDamaged, match="POSEIDON"):
        from_published(written({"a": torch.zeros(2)}, tmp_path), 1, 1)
    (tmp_path / "pickled.bin").write_bytes(b"\x80\x04" + bytes(100))
    with pytest.raises(FileDamaged):
        from_published(tmp_path / "pickled.bin", 1, 1)
