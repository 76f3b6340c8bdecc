"""The version of a method: a hash of the code that computes its rows.

    version = SHA-256( the function that prepares it, what that is given, the modules it names )

Comments, docstrings and layout do not count: the hash is taken of the syntax tree. The weights have
a hash of their own (`paper/rows.py`), so the modules here are those of the solvers around them.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LENGTH = 12
ALWAYS = ("solvers.loop", "paper.metrics", "solvers.stopping")
NETWORK = ("solvers.neural_solver", "solvers.error_signals")
SAFEGUARDED = (*NETWORK, "solvers.trained", "solvers.safeguard", "solvers.krylov")
CLASSICAL = (*SAFEGUARDED, "solvers.network_free", "solvers.multigrid", "solvers.smoothing")
NEWTON = (*CLASSICAL, "solvers.newton", "equations.flow_integration", "solvers.sparse_newton")
OPTIMISED = (*NETWORK, "paper.physics_informed")
GENERATIVE = (
    "paper.baselines.named_samplers",
    "paper.baselines.diffusion_pde",
    "paper.baselines.pcfm",
    "paper.baselines.projection",
)
MINIMISERS = (
    "paper.baselines.minimisers",
    "solvers.newton",
    "solvers.direct",
    "solvers.sparse_newton",
)
MODULES: dict[str, tuple[str, ...]] = {
    "operator": NETWORK,
    "unrolled": (*NETWORK, "paper.step_size"),
    "contractive": CLASSICAL,
    "classical_counterpart": CLASSICAL,
    "carried_on": NEWTON,
    "optimised": OPTIMISED,
    "pinn": ("paper.physics_informed",),
    "generated": GENERATIVE,
    "integrator": ("data.reference_solution", "reference.vorticity"),
    "load_sampler": (*GENERATIVE, "samplers.diffusion_ens", "samplers.exact", "training.library"),
    "started_from": MINIMISERS,
}
"""What computes a row, by the function of `paper/prepare.py` that prepares the method."""
OTHERS = (*MINIMISERS, "data.reference_solution", "solvers.wrappers")
"""Those of methods that are prepared in a line of their own."""


def version_of(prepare: Callable[..., Any] | None) -> str:
    """The version of the method that `prepare` makes ready; of the truth that of its measure."""
    if prepare is None:
        return _combined(ALWAYS, "truth")
    inner, given = prepare, ""
    while isinstance(inner, partial):
        given += repr([*map(_plain, inner.args), *sorted(_named(inner.keywords))])
        inner = inner.func
    name = getattr(inner, "__name__", "")
    return _combined((*ALWAYS, *MODULES.get(name, OTHERS)), given + _text(inner))


def _plain(value: Any) -> str:
    """A value of a method's description, without addresses in memory."""
    name = getattr(value, "__qualname__", None)
    return str(name) if name is not None else repr(value)


def _named(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, _plain(value)) for name, value in values.items()]


def _text(function: Any) -> str:
    """The code of a function; of one that is yours, of the whole file that has it."""
    own = not function.__module__.startswith(("paper.", "neuralsolver."))
    try:
        source = inspect.getsource(inspect.getmodule(function) or function if own else function)
    except (OSError, TypeError):  # typed into a prompt
        return _plain(function)
    try:
        return meaning(inspect.cleandoc(source))
    except SyntaxError:  # a lambda in the middle of a table
        return source


def _combined(modules: tuple[str, ...], more: str) -> str:
    parts = [more, *(_module(name) for name in sorted(set(modules)))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:LENGTH]


@cache
def _module(name: str) -> str:
    """The hash of one module of the library or the study, or of all modules of a folder."""
    found = find_spec(name if name.startswith("paper.") else f"neuralsolver.{name}")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"{name}: a method names it in paper/versions.py")
    path = Path(found.origin)
    files = sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else [path]
    text = "\n".join(meaning(file.read_text(encoding="utf-8")) for file in files)
    return hashlib.sha256(text.encode()).hexdigest()


def meaning(source: str) -> str:
    """A text of Python as its syntax tree, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(line: ast.AST) -> bool:
    value = line.value if isinstance(line, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
