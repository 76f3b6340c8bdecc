"""The backbones leave Python: torch.export, ONNX, and a compiled graph give the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from neuralsolver.models import build

# torch's exporter about its own internals
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning")

SPECTRAL = {"width": 6, "layers": 1, "max_wavenumber": [3, 3]}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "fno": ("fno", SPECTRAL),
    "cnn-fno-cnn": ("fno", {**SPECTRAL, "layers": 2, "lifting": "cnn", "projection": "cnn"}),
    "circular": ("fno", {**SPECTRAL, "lifting": "cnn", "padding_mode": "circular"}),
    "unet": ("unet", {"width": 4, "multipliers": [1, 2]}),
}


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    kind, arguments = NETWORKS[name]
    return build(kind, in_channels=2, out_channels=1, **arguments).eval()


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def exported(model: nn.Module) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1, max=1024)
    return torch.export.export(model, (torch.randn(3, 2, 16, 16),), dynamic_shapes=[{0: batch}])


@pytest.mark.parametrize("name", ["cnn-fno-cnn", "unet"])
def test_torch_export_with_any_batch(name: str) -> None:
    model = network(name)
    program = exported(model)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        assert not (isinstance(value, Tensor) and value.is_complex()), node
    for batch in (1, 5):
        x = torch.randn(batch, 2, 16, 16)
        assert relative(program.module()(x), model(x)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn-fno-cnn", "circular"])
def test_onnx_with_any_batch(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = network(name)
    path = tmp_path / "model.onnx"
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.onnx.export(
        model,
        (torch.randn(3, 2, 16, 16),),
        dynamo=True,
        dynamic_shapes=[{0: batch}],
        input_names=["x"],
        verbose=False,
    )
    assert program is not None
    program.save(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (1, 5):
        x = torch.randn(count, 2, 16, 16)
        with torch.no_grad():
            expected = model(x)
        result = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
        assert relative(result, expected) < 1e-5


def test_eager_after_export_is_unharmed() -> None:
    """Tables made while tracing must not be found in the cache afterwards."""
    model = network("fno")
    x = torch.randn(1, 2, 14, 22)
    torch.export.export(model, (x,))
    model(x).sum().backward()


def test_compiled_graph_without_breaks() -> None:
    model = network("cnn-fno-cnn")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 2, 16, 16)
    assert relative(compiled(x), model(x)) < 1e-6
    ours = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4 * float(a.abs().max()))
