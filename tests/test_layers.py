"""Imports point one way: the layer rule of docs/design.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "neuralsolver"

MAY_IMPORT = {
    "errors": set(),
    "cancellation": set(),
    "files": {"errors"},
    "limits": {"errors"},
    "progress": set(),
    "reference": {"errors", "cancellation"},
    # the random inputs of an equation are drawn by the reference layer, nothing else of it is used
    "fields": {"errors"},
    "equations": {"errors", "cancellation", "fields", "limits", "reference.random_fields"},
    "data": {"errors", "fields", "files", "limits", "reference", "equations", "solvers"},
    "models": {"errors"},
    "solvers": {
        "errors",
        "cancellation",
        "fields",
        "plotting",
        "equations",
    },
    # a sampler asks for the exact posterior, and for the solution of a fill
    "samplers": {
        "errors",
        "fields",
        "plotting",
        "reference",
        "equations",
        "data.reference_solution",
        "solvers",
    },
    # `invert` asks for the trained networks by name
    "inversion": {
        "errors",
        "cancellation",
        "equations",
        "reference",
        "samplers",
        "training.library",
        "training.checkpoint",
    },
    "training": {
        "errors",
        "inversion",
        "files",
        "limits",
        "progress",
        "equations",
        "data",
        "solvers",
        "samplers",
        "models",
    },
    "plotting": {"errors", "files", "equations", "solvers", "samplers", "data", "training"},
    "serve": {
        "errors",
        "cancellation",
        "inversion",
        "samplers",
        "plotting",
        "equations",
        "solvers",
        "training",
        "data",
    },
    "waves": {"errors", "limits", "data", "solvers", "training", "plotting"},
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


def test_the_library_knows_nothing_of_the_study_and_the_races():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & {"paper", "benchmarks"}, path


def test_reference_solvers_do_not_know_torch():
    for path in (PACKAGE / "reference").rglob("*.py"):
        assert "torch" not in path.read_text(), path


KINDS = {"Poisson", "Helmholtz", "Darcy", "NavierStokes", "AdvectionDiffusion", "Equation"}
MAY_ASK = 15
"""Places that ask which equation they have."""
MAY_ASK_FOR_THE_BOUNDARY = 16
"""Places that ask whether an equation lives on the torus or between walls."""


def questions(path: Path) -> tuple[int, int]:
    """How often a file asks for the kind of an equation, and for its boundary."""
    kinds = boundaries = 0
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            asked = {getattr(part, "id", "") for part in ast.walk(node.args[1])}
            kinds += bool(asked & KINDS)
        if isinstance(node, ast.Compare):
            left = ast.unparse(node.left)
            kinds += left.endswith("equation.name")
            boundaries += left.endswith(".boundary")
    return kinds, boundaries


def test_few_ask_what_kind_of_equation_they_have():
    """Issue 19: no question about an equation's kind outside equations/ and fields/."""
    outside = [p for p in PACKAGE.rglob("*.py") if layer_of(p) not in ("equations", "fields")]
    counts = {str(p.relative_to(PACKAGE)): questions(p) for p in outside}
    asking = {name: found for name, found in counts.items() if any(found)}
    assert sum(kinds for kinds, _ in asking.values()) <= MAY_ASK, asking
    assert sum(found for _, found in asking.values()) <= MAY_ASK_FOR_THE_BOUNDARY, asking


def test_a_module_name_occurs_once():
    files = [p for p in PACKAGE.rglob("*.py") if not p.stem.startswith("__")]
    places: dict[str, list[str]] = {}
    for path in files:
        places.setdefault(path.stem, []).append(str(path.relative_to(PACKAGE)))
    assert [found for found in places.values() if len(found) > 1] == []
