"""Every public name is documented, with an example that runs; so are those of the reference."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import neuralsolver as ns

ROOT = Path(__file__).parents[1]
PAGES = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
DOCUMENTED = re.findall(r"^::: neuralsolver\.([\w.]+)\.(\w+)$", PAGES, re.MULTILINE)


def test_every_public_name_is_there():
    assert set(ns.__all__) == set(ns._HOME)
    assert len(ns.__all__) <= 30
    assert sorted(ns.__all__) == sorted(set(dir(ns)) - {"__version__"})
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ns.nonsense


@pytest.mark.parametrize("name", sorted(ns.__all__))
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_example(getattr(ns, name)), f"{name} has no example"


@pytest.mark.parametrize(("module", "name"), DOCUMENTED)
def test_the_example_of_a_documented_name_runs(module, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documented = getattr(import_module(f"neuralsolver.{module}"), name)
    run_example(documented, dict(vars(sys.modules[documented.__module__])))


def run_example(documented, known=None):
    """Run the example of a docstring, and say whether there is one."""
    text = inspect.getdoc(documented)
    assert text is not None
    examples = doctest.DocTestParser().get_doctest(text, known or {}, str(documented), None, 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert not said, "".join(said)
    return bool(examples.examples)


def test_importing_the_package_does_not_wait_for_torch():
    code = "import sys, neuralsolver; assert 'torch' not in sys.modules; neuralsolver.Poisson"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": ROOT})
