"""The version of a method notices new code, and nothing else."""

from __future__ import annotations

import linecache
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from paper import versions
from paper.methods import METHODS
from paper.results import tidy
from paper.versions import meaning, version_of


def test_every_method_has_a_version_and_every_module_it_names_is_there():
    for method in METHODS.values():
        assert len(method.version) == versions.LENGTH
    assert METHODS["ens"].version != METHODS["ens-plateau"].version
    assert METHODS["ens-newton"].version != METHODS["without-network-newton"].version


@pytest.mark.parametrize("changed", ["solvers.newton", "solvers.safeguard"])
def test_new_code_of_a_module_is_a_new_version_of_the_methods_that_name_it(monkeypatch, changed):
    before = {key: method.version for key, method in METHODS.items()}
    original = versions._module
    monkeypatch.setattr(
        versions, "_module", lambda name: "new" if name == changed else original(name)
    )
    after = {key: method.version for key, method in METHODS.items()}
    assert before["ens-newton"] != after["ens-newton"]
    assert before["fno"] == after["fno"]


def test_a_method_of_yours_changes_with_its_file(tmp_path):
    versions_of_it = []
    for number in (1, 2):
        (tmp_path / "own.py").write_text(
            f"SIZE = {number}\n\ndef prepare(setting):\n    return SIZE\n"
        )
        spec = spec_from_file_location(f"own_{number}", tmp_path / "own.py")
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        linecache.clearcache()
        versions_of_it.append(version_of(module.prepare))
    assert len(set(versions_of_it)) == 2


def test_words_do_not_count_and_numbers_do():
    code = "def f(x):\n    return x + 1\n"
    told = 'def f(x):\n    """Add one."""\n    # plainly\n    return (x + 1)\n'
    assert meaning(code) == meaning(told)
    assert meaning(code) != meaning(code.replace("1", "2"))


def test_what_a_method_is_given_counts():
    prepare = METHODS["fno"].prepare
    assert isinstance(prepare, partial)
    assert version_of(prepare) != version_of(partial(prepare.func, "pino"))


def test_answers_of_the_safeguard_are_no_merit_of_the_network():
    def credited(experiment, method, **content):
        row = {"experiment": experiment, "regime": "shift", "method": method, "samples": 8}
        return tidy([{**row, **content}]).iloc[0].credited

    assert credited("kolmogorov", "ens-newton", network_answers=5)
    assert not credited("kolmogorov", "ens-newton", network_answers=4)
    assert credited("kolmogorov", "ens-newton", status={"PLATEAU": 5, "WITHOUT_NETWORK": 3})
    assert not credited("kolmogorov", "ens-newton", status={"PLATEAU": 8})  # nobody recorded whose
    assert credited("darcy", "ens-contractive", status={"TOLERANCE": 8})
