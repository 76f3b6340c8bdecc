"""`ns.Waves`, `ens solve waves` and the folder of a wave corrector."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.data.wave_media import random_medium
from neuralsolver.models.wave_corrector import WaveCorrector
from neuralsolver.solvers import wave_solver
from neuralsolver.training.checkpoint import load_corrector
from neuralsolver.training.library import shipped, shipped_denoisers, shipped_wave_corrector
from neuralsolver.waves import Waves
from paper.wave_training import save_corrector, train, write_shard

MEDIUM = random_medium(np.random.default_rng(0), 48, "smooth", 0.2)
K = 2 * np.pi * 47 / 8


def test_many_sources_take_one_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    factorise = wave_solver.WaveOperator.complex_factor
    monkeypatch.setattr(
        wave_solver.WaveOperator,
        "complex_factor",
        lambda *given, **options: made.append(1) or factorise(*given, **options),
    )
    waves = Waves(MEDIUM, K)
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 48, 48)) + 1j * rng.standard_normal((2, 48, 48))
    one, two, both = (waves.solve(f) for f in (first, second, first + second))
    assert len(made) == 1
    assert both.converged
    assert np.allclose(one.field + two.field, both.field, atol=1e-9 * np.abs(both.field).max())
    other = ns.solvers.wave_operator.WaveOperator(MEDIUM, first, K, 0.0)
    assert np.allclose(wave_solver.solve_waves(other).field, one.field)


def test_a_beam_focuses_itself() -> None:
    linear = Waves(MEDIUM, K).solve()
    assert linear.method == "sparse LU"
    assert linear.amplitude.max() == pytest.approx(1.0)
    assert np.array_equal(linear.field, linear.linear)
    kerr = Waves(MEDIUM, K, strength=0.3).solve(network=None)
    assert kerr.converged
    assert np.allclose(kerr.linear, linear.field)
    assert kerr.amplitude.max() > 1.2
    assert np.allclose(np.abs(kerr.field) * np.exp(1j * kerr.phase), kerr.field)
    assert Waves(MEDIUM, K, strength=0.02).solve().method.startswith("Anderson")


def test_lengths_scale() -> None:
    """A box twice as long with half the wavenumber holds the same wave."""
    source = np.zeros((48, 48))
    source[20, 22] = 1.0
    one = Waves(MEDIUM, K).solve(source).field
    two = Waves(MEDIUM, K / 2, length=2.0).solve(source).field
    assert np.allclose(two, 4 * one)


def test_boxes_need_not_be_square() -> None:
    wide = np.ones((40, 70))
    answer = Waves(wide, 2 * np.pi * 39 / 10, strength=0.05).solve()
    assert answer.field.shape == (40, 70)
    assert answer.converged


BAD: list[tuple[dict[str, Any], str]] = [
    ({"slowness": np.ones(9)}, "slowness"),
    ({"slowness": np.ones((4, 9))}, "slowness"),
    ({"slowness": -MEDIUM}, "slowness"),
    ({"slowness": MEDIUM * np.nan}, "slowness"),
    ({"slowness": MEDIUM + 0j}, "slowness"),
    ({"slowness": [["a"] * 9] * 9}, "slowness"),
    ({"slowness": [[1.0], [1.0, 2.0]]}, "slowness"),
    ({"wavenumber": 0.0}, "wavenumber"),
    ({"wavenumber": float("inf")}, "wavenumber"),
    ({"wavenumber": 1e300}, "wavenumber"),
    ({"wavenumber": "k"}, "wavenumber"),
    ({"strength": -0.1}, "strength"),
    ({"strength": 1e9}, "strength"),
    ({"order": 3}, "order"),
    ({"layer": -1.0}, "layer"),
    ({"length": 0.0}, "length"),
    ({"source": np.ones((9, 9))}, "source"),
    ({"source": np.zeros((48, 48))}, "source"),
    ({"source": np.full((48, 48), np.inf)}, "source"),
    ({"tolerance": 0.0}, "tolerance"),
    ({"network": "no such folder"}, "network"),
]


@pytest.mark.parametrize(("change", "field"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_named(change: dict[str, Any], field: str) -> None:
    given: dict[str, Any] = {"slowness": MEDIUM, "wavenumber": K, "strength": 0.1} | change
    options = {key: given.pop(key) for key in ("source", "tolerance", "network") if key in given}
    with pytest.raises(ns.InvalidInput) as refused:
        Waves(**given).solve(**options)
    assert refused.value.field == field


def test_remarks() -> None:
    assert not Waves(MEDIUM, K).solve().remarks
    assert "points per shortest wavelength" in Waves(MEDIUM, 1.5 * K).solve().remarks[0]
    assert "fill the box" in Waves(MEDIUM, 5.0).solve().remarks[0]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "s.npy", MEDIUM)
    files = [str(tmp_path / name) for name in ("s.npy", "u.npy", "u.png")]
    command = ["solve", "waves", "--medium", files[0], "--set", f"wavenumber={K}"]
    assert run([*command, "--output", files[1], "--plot", files[2], "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["good"]
    assert said["method"] == "sparse LU"
    field = np.load(files[1])
    assert np.array_equal(field, Waves(MEDIUM, K).solve().field)
    assert (tmp_path / "u.png").stat().st_size > 10_000
    np.save(tmp_path / "f.npy", field)
    assert run([*command, "--input", str(tmp_path / "f.npy"), "--set", "strength=0.1"]) == 0
    assert "residual" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["waves", "--set", "kappa=3"], "wavenumber, strength, order"),
        (["waves", "--set", "wavenumber=x"], "wavenumber"),
        (["waves", "--steps", "3"], "--steps"),
        (["poisson", "--medium", "s.npy"], "waves"),
        (["waves", "--medium", "no.npy"], "no.npy"),
        (["waves", "--mask", "no.npy"], "domain"),
        (["waves", "--frames", "3"], "--frames"),
        (["heat", "--medium", "1"], "--medium"),
        (["waves", "--set", "strength=0.9", "--tolerance", "2"], "--tolerance"),
    ],
)
def test_command_refuses(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["solve", *arguments]) in (1, 2)
    captured = capsys.readouterr().err
    assert said in captured
    assert len(captured.strip().splitlines()) == 1


def test_corrector_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = WaveCorrector(width=8, multipliers=(1, 2))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_corrector(network, tmp_path / "one", {"signal": "preconditioned"})
    inputs = torch.randn(1, 9, 16, 16)
    loaded = load_corrector(tmp_path / "one")
    assert torch.allclose(loaded(inputs), network.half().float()(inputs))
    assert Waves(MEDIUM, K, strength=0.2).solve(network=str(tmp_path / "one")).converged
    card = tmp_path / "one" / "card.json"
    for change in ({"kind": "denoiser"}, {"sha256": "0"}, {"arguments": {"width": 10**9}}):
        content = card.read_text()
        card.write_text(json.dumps(json.loads(content) | change))
        with pytest.raises(ns.InvalidInput):
            load_corrector(tmp_path / "one")
        card.write_text(content)


def test_the_shipped_network_is_no_solver_of_the_paper() -> None:
    assert "waves" not in shipped()
    assert "waves" not in shipped_denoisers()
    network = shipped_wave_corrector()
    assert network is not None
    hard = Waves(random_medium(np.random.default_rng(3), 64, "smooth", 0.2), 2 * np.pi * 63 / 8)
    hard = Waves(hard.slowness, hard.wavenumber, strength=0.4)
    answer = hard.solve()
    assert answer.converged
    assert answer.method == "network, then Newton"


@pytest.mark.slow
def test_training_contracts(tmp_path: Path) -> None:
    from benchmarks.waves import WaveFamily

    write_shard(tmp_path / "64-0-0.npz", WaveFamily(strength=(0.1, 0.2)), 12, [0])
    small = {"width": 8, "multipliers": [1, 2]}
    train(tmp_path, tmp_path / "out", 0.3, arguments=small)
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["kind"] == "wave-corrector"
    problem, factor, linear = WaveFamily(strength=(0.15, 0.15)).draw(np.random.default_rng(7))
    _, after = wave_solver.corrected(load_corrector(tmp_path / "out"), problem, factor, linear)
    _, before = wave_solver.features(problem, factor, linear, linear)
    assert after < 0.8 * before


def test_example(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    script = root / "examples" / "light_that_focuses.py"
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    amplitudes = [float(text) for text in re.findall(r"amplitude (\S+),", done.stdout)]
    assert amplitudes == sorted(amplitudes)
    assert amplitudes[-1] > 1.3 * amplitudes[0]
    residuals = [float(text) for text in re.findall(r"residual (\S+),", done.stdout)]
    assert max(residuals) <= 1e-9
    assert (tmp_path / "light.png").stat().st_size > 10_000
