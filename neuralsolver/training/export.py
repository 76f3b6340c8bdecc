"""Networks for other programs: ONNX or torch.export, with the batch free and the grid fixed.

A file is made in memory and then written whole, so that a full disk leaves no half of it.

What is exported is a network N of the solver, from the channels it reads to its bare output; the
loop around it (residual, scaling, known values) is a few lines in any language and stays outside.
"""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuralsolver.errors import InvalidInput
from neuralsolver.files import write_whole
from neuralsolver.solvers import TrainedSolver

FORMATS = ("onnx", "torch-export")


def export_networks(solver: TrainedSolver, kind: str, folder: Path) -> list[dict[str, Any]]:
    """Export predictor and corrector; each row has the path and the difference of the answers."""
    if kind not in FORMATS:
        raise InvalidInput("format", " or ".join(FORMATS), kind)
    created = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _export(solver, kind, folder)
    except FileExistsError:
        raise InvalidInput("--output", "a folder", folder) from None
    except BaseException:
        with suppress(OSError):  # what holds a file is kept
            for place in created:
                place.rmdir()
        raise


def _export(solver: TrainedSolver, kind: str, folder: Path) -> list[dict[str, Any]]:
    rows = []
    for name in ("predictor", "corrector"):
        network = getattr(solver.network, name)
        if network is None:
            continue
        channels = network.arguments["in_channels"]
        generator = torch.Generator().manual_seed(0)
        shape = (2, channels, *solver.equation.dimension * (solver.resolution,))
        example = torch.randn(shape, generator=generator)
        path = folder / f"{name}{'.onnx' if kind == 'onnx' else '.pt2'}"
        answer = (_onnx if kind == "onnx" else _torch_export)(network.eval(), example, path)
        with torch.no_grad():
            expected = network(example)
        difference = float((answer - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
        rows.append({"path": str(path), "channels": channels, "difference": difference})
    return rows


def _torch_export(network: nn.Module, example: Tensor, path: Path) -> Tensor:
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (example,), dynamic_shapes=({0: batch},))
    memory = io.BytesIO()
    torch.export.save(program, memory)
    write_whole(path, memory.getvalue())
    memory.seek(0)
    answer: Tensor = torch.export.load(memory).module()(example).detach()
    return answer


def _onnx(network: nn.Module, example: Tensor, path: Path) -> Tensor:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        expected = "the extra neuralsolver[onnx] to be installed"
        raise InvalidInput("format", expected, f"no {error.name}") from None
    batch = torch.export.Dim("batch", min=1)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # packages that nobody needs here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: batch},),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    content = program.model_proto.SerializeToString()
    write_whole(path, content)
    session = onnxruntime.InferenceSession(content)
    (answer,) = session.run(None, {session.get_inputs()[0].name: example.numpy()})
    return torch.from_numpy(answer)
