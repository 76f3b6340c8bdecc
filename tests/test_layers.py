"""Imports point one way: the layer rule of docs/design.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "neuralsolver"

MAY_IMPORT = {
    "errors": set(),
    "drawing": set(),
    "files": {"errors"},
    "limits": {"errors"},
    "progress": set(),
    "reference": {"errors"},
    # the random inputs of an equation are drawn by the reference layer, nothing else of it is used
    "equations": {"errors", "limits", "reference.random_fields"},
    "data": {"errors", "files", "limits", "reference", "equations"},
    "models": {"errors"},
    "solvers": {"errors", "drawing", "equations", "reference.newton", "reference.multigrid"},
    # a sampler asks for the exact posterior, and for the solution of a fill
    "samplers": {"errors", "drawing", "reference", "equations", "data.truth", "solvers"},
    "training": {
        "errors",
        "files",
        "limits",
        "equations",
        "data.truth",
        "solvers",
        "samplers",
        "models",
    },
    "evaluation": {"errors", "equations", "solvers"},
    "experiments": {
        "errors",
        "progress",
        "files",
        "equations",
        "data",
        "models",
        "solvers",
        "samplers",
        "training",
        "evaluation",
    },
    "bench": {
        "errors",
        "serve",
        "reference",
        "equations",
        "models",
        "solvers",
        "training",
        "data",
        "evaluation",
        "experiments",
    },
    "report": {
        "errors",
        "files",
        "drawing",
        "equations",
        "solvers",
        "samplers",
        "training",
        "data",
        "evaluation",
        "experiments",
    },
    "serve": {
        "errors",
        "samplers",
        "drawing",
        "equations",
        "solvers",
        "training",
        "data",
        "evaluation",
        "experiments",
    },
    "cli": None,
    "__init__": None,
    "__main__": None,
}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "neuralsolver":
                names = [f"neuralsolver.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.removeprefix("neuralsolver.") for name in names if "neuralsolver." in name}
    return found


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.name))
def test_imports_point_one_way(path):
    layer = layer_of(path)
    allowed = MAY_IMPORT[layer]
    if allowed is None:
        return
    for module in imports_of(path):
        inside = module.split(".")[0] == layer
        assert inside or any(module == a or module.startswith(f"{a}.") for a in allowed), (
            f"{path.name} of layer {layer} imports {module}"
        )


def test_reference_solvers_do_not_know_torch():
    for path in (PACKAGE / "reference").rglob("*.py"):
        assert "torch" not in path.read_text(), path
