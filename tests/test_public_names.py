"""Every public name is documented, with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import neuralsolver as ns

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there():
    assert set(ns.__all__) == set(ns._HOME)
    assert sorted(ns.__all__) == sorted(set(dir(ns)) - {"__version__"})
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ns.nonsense


@pytest.mark.parametrize("name", sorted(ns.__all__))
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documented = getattr(ns, name)
    text = inspect.getdoc(documented)
    assert text is not None
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert examples.examples, f"{name} has no example"
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert not said, "".join(said)


def test_importing_the_package_does_not_wait_for_torch():
    code = "import sys, neuralsolver; assert 'torch' not in sys.modules; neuralsolver.Poisson"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": ROOT})
