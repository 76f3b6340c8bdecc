"""Cards and weights that somebody else wrote: refused in a line, at once, before memory is used."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from neuralsolver.cli import run
from neuralsolver.equations import Helmholtz
from neuralsolver.errors import FileDamaged, InvalidInput
from neuralsolver.training import Card, library, load, load_model, save_model
from neuralsolver.training.library import describe_model, ship
from neuralsolver.training.presets import SCALES
from neuralsolver.training.recipes import make_solver


@pytest.fixture
def folder(tmp_path):
    solver = make_solver("contractive", Helmholtz(), SCALES["tiny"], seed=4)
    save_model(tmp_path / "m", solver, Card(Helmholtz(), 16, {"note": "hello"}))
    return tmp_path / "m"


def change(folder: Path, *keys: str, to: object) -> None:
    card = json.loads((folder / "card.json").read_text())
    place = card
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    (folder / "card.json").write_text(json.dumps(card))


ARGUMENTS = ("solver", "corrector", "arguments")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ((*ARGUMENTS, "layers"), 10_000_000),
        ((*ARGUMENTS, "width"), 10_000_000),
        ((*ARGUMENTS, "width"), -3),
        ((*ARGUMENTS, "max_wavenumber"), [10**9, 4]),
        ((*ARGUMENTS, "layers"), 3),
        ((*ARGUMENTS, "layers"), "two"),
        ((*ARGUMENTS, "layers"), {"a": 1}),
        (ARGUMENTS, [1]),
        (("solver", "corrector", "model"), "unet"),
        (("solver", "corrector", "model"), ["fno"]),
        (("solver", "corrector"), None),
        (("solver",), None),
        (("solver", "step_size"), "NaN"),
        (("solver", "smoothing"), 10**9),
        (("solver", "error"), "magic"),
        (("solver", "clock_steps"), 0),
        (("solver", "predictor_reads"), ["everything"]),
        (("solver", "predictor_reads"), 3),
        (("resolution",), -16),
        (("resolution",), "many"),
        (("resolution",), None),
        (("equation",), "helmholtz"),
        (("equation", "name"), ["helmholtz"]),
        (("equation", "name"), "navier"),
        (("equation", "constants"), [1]),
        (("equation", "constants"), {"wavenumber": 1e200}),
        (("sha256",), 5),
    ],
)
def test_a_card_that_does_not_fit_is_refused_at_once(folder, keys, value):
    change(folder, *keys, to=value)
    begin = time.monotonic()
    with pytest.raises(InvalidInput) as caught:
        load(folder)
    assert time.monotonic() - begin < 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": NaN}',
        b"\xff",
        b"[]",
        b"{}",
    ],
)
def test_cards_that_are_no_cards(folder, content):
    (folder / "card.json").write_bytes(content)
    with pytest.raises(FileDamaged):
        load(folder)


def test_weights_that_are_no_file_are_not_opened(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(FileDamaged, match="regular file"):
        load_model(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(FileDamaged, match="regular file"):
        load_model(folder)
    (folder / "card.json").unlink()
    (folder / "card.json").symlink_to("/dev/zero")
    with pytest.raises(InvalidInput):
        load_model(folder)


@pytest.mark.parametrize("length", [2**63, 10**6, 0])
def test_headers_that_lie(folder, length):
    weights = folder / "model.safetensors"
    weights.write_bytes(length.to_bytes(8, "little") + weights.read_bytes()[8:])
    with pytest.raises(FileDamaged):
        load_model(folder)


def test_a_path_is_a_path_and_a_name_is_a_name(folder, tmp_path, monkeypatch):
    """A folder called as a shipped model, beside one of the same name with its recipe."""
    monkeypatch.chdir(tmp_path)
    folder.rename("poisson")
    assert load("./poisson").equation == Helmholtz()
    assert load(Path("poisson")).equation == Helmholtz()
    assert load(tmp_path / "poisson").equation == Helmholtz()
    with pytest.raises(InvalidInput, match="which is both"):
        load("poisson")
    Path("poisson").rename("mine-contractive")
    with pytest.raises(InvalidInput, match="one of"):
        load("./mine")
    with pytest.raises(InvalidInput, match="one of"):
        load("mine")
    assert load("mine-contractive").equation == Helmholtz()
    assert load("poisson").equation.name == "poisson"
    for nothing in ("", ".", "..", "../weights/poisson-contractive"):
        with pytest.raises(InvalidInput):
            load(nothing)


def test_models_are_shipped_in_a_checkout_only(folder, tmp_path, monkeypatch):
    installed = tmp_path / "site-packages" / "neuralsolver" / "weights"
    installed.mkdir(parents=True)
    monkeypatch.setattr(library, "SHIPPED", installed)
    with pytest.raises(InvalidInput, match="source checkout"):
        ship(folder, "helmholtz-contractive")
    assert not list(installed.iterdir())
    (tmp_path / "site-packages" / "pyproject.toml").touch()
    (tmp_path / "site-packages" / ".git").mkdir()
    place, replaced = ship(folder, "helmholtz-contractive")
    assert replaced == ""
    assert load(place).record["note"] == "hello"
    assert "weights" in ship(folder, "helmholtz-contractive")[1]


def test_a_model_is_described_in_plain_values(folder):
    described = json.loads(json.dumps(describe_model(folder)))
    assert described["equation"]["constants"]["wavenumber"]["value"] == 1.0
    assert described["resolution"] == 16
    assert described["correctable"] is True


@pytest.mark.parametrize("kind", [pytest.param("onnx", marks=pytest.mark.slow), "torch-export"])
def test_an_export_to_a_full_disk_is_one_line_and_leaves_nothing(
    folder, tmp_path, kind, monkeypatch, capsys
):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    place = tmp_path / "out"
    assert run(["export", str(folder), "--format", kind, "--output", str(place)]) == 1
    printed = capsys.readouterr()
    assert printed.err == "ens: error: [Errno 28] No space left on device\n"
    assert not place.exists()
