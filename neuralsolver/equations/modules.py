"""A user's own Python file, imported by its path: the equations it registers are then known.

The file runs with all rights of the user, so that it is imported only where it is named.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from neuralsolver.errors import InvalidInput


def import_equations(file: str | Path) -> ModuleType:
    """Import the file; what it registers stays registered. Importing it again does nothing."""
    path = Path(file).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput("--equation-module", "an existing Python file", file)
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        raise InvalidInput("--equation-module", "a name that no other module has", name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        got = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            f"--equation-module {file}", "a file that can be imported", got
        ) from error
    _send_along(module)
    return module


def _send_along(module: ModuleType) -> None:
    """Workers in other processes cannot find the file: they are sent what it defines."""
    try:
        import cloudpickle
    except ImportError:  # without the extra `cluster` there are no workers
        return
    cloudpickle.register_pickle_by_value(module)
