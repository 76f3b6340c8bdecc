"""The flows in the report: every line of every table, the way up of every ratio, what is drawn."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from neuralsolver.equations import NavierStokes, Problem
from neuralsolver.plotting.animation import animate
from paper import studies as flow_fields
from paper.figures import accuracy, evolution
from paper.methods import methods_of
from paper.panels import animations
from paper.regimes import EXPERIMENTS, Regime
from paper.results import Results
from paper.tables import flow_ratios, forward, matched, tables
from paper.write import makers as figures
from paper.write import write_report
from tests.paper.made_up import lines_of
from tests.paper.made_up_flows import FLOOR, FLOWS, HARDNESS, METHODS, fill_flows, flow_row

ENS = ("ENS (paper's recipe), transformer", "ENS, contractive, transformer")
ENS += ("ENS, accelerated, transformer", "ENS, contractive, CNN-FNO-CNN")
FREE = ("without network (Picard + Anderson)", "without network (Picard)")
FREE += ("without network, then Newton-Krylov", "without network, Newton-Krylov to its end")
COARSE = tuple(f"classical solver, {n} × {n}" for n in (16, 24, 32, 48, 64))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flows")
    fill_flows(folder, size=16)
    return Results.read(folder)


def few(folder, *rows):
    """Results of these rows only."""
    (folder / "flows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Results.read(folder)


def ours(table):
    """The cells of our lines by label."""
    return {labels[0]: texts for labels, texts in lines_of(table) if labels[1] == "here"}


def test_the_made_up_rows_are_those_of_every_method():
    for flow in FLOWS:
        assert {method.key for method in methods_of(EXPERIMENTS[flow])} == METHODS.keys()


@pytest.mark.parametrize("flow", FLOWS)
def test_forward_has_every_line(results, flow):
    lines = ours(forward(results, EXPERIMENTS[flow]))
    learned = (*ENS, "ENS, then Newton-Krylov", "FNO-3D", "FNO-3D, H¹ loss")
    learned += ("PINO-3D", "PINO-3D(TTOP)", "POSEIDON")
    others = (*FREE, *COARSE, "classical solver")
    others += ("still flow", "ground truth (floor)", "zero field")
    assert tuple(lines) == (*learned, *others)
    row = results.get(flow, "forcing-shift", "fno")
    *budget, seconds = lines["FNO-3D"][:4]
    cells = lines["FNO-3D"][4:]
    assert budget == ["18", "4,095", "1.9 M"]
    assert seconds.strip("*") == f"{row.seconds_batch_1:.2e}"
    assert cells[4:6] == [f"{row.error:.2e} ±11%", f"{row.residual:.2e}"]
    floor = f"{FLOWS[flow] ** 2 * FLOOR:.2e}"
    assert lines["ground truth (floor)"][5::2] == [floor] * 4


def test_what_is_missing_is_said_and_marks_nothing(results):
    lines = ours(forward(results, EXPERIMENTS["kolmogorov"]))
    assert set(lines[ENS[2]]) == {"", "not run"}
    assert lines["PINO-3D(TTOP)"][-1] == "out of memory"
    assert lines[ENS[3]][4].startswith("**")
    assert lines[ENS[1]][4].startswith("*")
    diverged = lines[ENS[0]][8]
    assert "16 of 32 diverged" in diverged
    assert "*" not in diverged


def test_one_row_is_enough_for_everything(tmp_path):
    one = few(tmp_path, flow_row("navier-stokes", "forcing-shift", "ens"))
    found = {table.name: table for table in tables(one)}
    floors = ours(found["matched-backbone-navier-stokes"])["ground truth (floor)"]
    assert set(floors) == {"", "not run"}
    assert set(lines_of(found["flow-ratios"])[2][1][2:]) == {"not run"}
    assert not any("kolmogorov" in name for name in found)
    drawn = {name for name, make in figures(one).items() if make(one) is not None}
    assert drawn == {"evolution-navier-stokes"}


@pytest.mark.parametrize("flow", FLOWS)
def test_each_backbone_is_a_block(results, flow):
    table = matched(results, EXPERIMENTS[flow])
    transformer, convolutional, floors = table.blocks
    labels = [*transformer.index.get_level_values(0)]
    plain = ["transformer", "", "transformer(PINO)", "", "transformer(TTOP)", ""]
    assert labels == [ENS[0], "", ENS[1], ENS[2], *plain]
    assert [*convolutional.index.get_level_values(0)] == [ENS[3], "CNN-FNO-CNN"]
    assert floors.index[0][0] == "ground truth (floor)"
    for block in (transformer, convolutional):
        assert block.xs("here", level="source").iloc[:, 3].str.startswith("**").sum() == 1
    alone = transformer.iloc[5, 3]
    assert alone.strip("*") == {"navier-stokes": "3.02e-02", "kolmogorov": "4.12e-02"}[flow]


def test_ratios_of_the_paper_and_targets(results):
    lines = dict(lines_of(flow_ratios(results)))
    assert len(lines) == 2 * 5
    shown = [texts[:2] for texts in lines.values()]
    assert shown[:5] == [
        ["13.6", "≥ 8"],
        ["4", "≥ 3"],
        ["99.8", "≥ 12"],
        ["9.7", ""],
        ["17.9", "≤ 2"],
    ]
    assert shown[5:] == [
        ["5.1", "≥ 4"],
        ["15.8", "≥ 4"],
        ["24.5", "≥ 6"],
        ["28.1", ""],
        ["2.45", "≤ 2"],
    ]


def test_a_ratio_is_alone_over_inside(tmp_path):
    """Errors by hand, different for every backbone, recipe and regime."""
    errors = {
        ("in-distribution", "operator"): 0.8,
        ("in-distribution", "ens"): 0.1,
        ("in-distribution", "operator-cnn"): 0.6,
        ("in-distribution", "ens-contractive-cnn"): 0.1,
        ("forcing-shift", "operator"): 0.9,
        ("forcing-shift", "ens-contractive"): 0.06,
        ("forcing-shift", "ens-accelerated"): 0.09,
        ("forcing-shift", "operator-cnn"): 0.5,
        ("forcing-shift", "ens-contractive-cnn"): 0.1,
        ("super-resolution", "ens"): 0.25,
        ("super-resolution", "ens-contractive-cnn"): 0.15,
    }
    rows = [flow_row("navier-stokes", *place, error=error) for place, error in errors.items()]
    found = [texts[2:] for _, texts in lines_of(flow_ratios(few(tmp_path, *rows)))]
    trained, viscosity, forcing, _, growth = found
    assert trained == ["**8**", "not run", "not run", "6"]
    assert set(viscosity) == {"not run"}
    assert forcing == ["not run", "**15**", "10", "5"]
    assert growth == ["2.5", "not run", "not run", "**1.5**"]


def test_a_ratio_of_diverged_samples_meets_no_target(results):
    text = dict(lines_of(flow_ratios(results)))["Kolmogorov flow", "forcing 8π → 10π"][2]
    assert "diverged" in text
    assert "*" not in text


@pytest.mark.parametrize("flow", FLOWS)
def test_the_floor_is_drawn_in_every_regime(results, flow):
    figure = evolution(results, flow)
    residuals = figure.axes[len(HARDNESS) : 2 * len(HARDNESS)]
    for axis in residuals:
        dashed = [line for line in axis.lines if "floor" in str(line.get_label())]
        assert [line.get_ydata()[0] for line in dashed] == [pytest.approx(FLOWS[flow] ** 2 * FLOOR)]
        assert dashed[0].get_linestyle() == "--"


def test_the_classical_solver_is_a_front(results):
    figure = accuracy(results, "kolmogorov")
    assert len(figure.axes) == 4
    for axis in figure.axes:
        (front,) = (line for line in axis.lines if line.get_label() == "classical solver, coarser")
        seconds, errors = front.get_data()
        # one of the five grids is missing
        assert len(seconds) == 4
        assert list(seconds) == sorted(seconds)
        assert list(errors) == sorted(errors, reverse=True)
        assert [text.get_text() for text in axis.texts] == ["16", "32", "48", "64"]


def test_trajectories_are_drawn_and_animated(results, tmp_path):
    """From an archive of two regimes, without any row."""
    kept = ("navier-stokes/in-distribution", "kolmogorov/forcing-shift")
    archive = {name: f for name, f in results.fields.items() if name.startswith(kept)}
    np.savez(tmp_path / "flow-fields.npz", **archive)
    written = {path.name: path for path in write_report(tmp_path).files}
    names = {path.replace("/", "-") for path in kept}
    assert {name for name in written if name.endswith(".png")} == {
        f"qualitative-{name}.png" for name in names
    }
    for name in names:
        with Image.open(written[f"flow-{name}.gif"]) as picture:
            assert picture.n_frames == 21


def test_what_diverges_leaves_the_picture(tmp_path):
    history = {"step": [0, 1, 2], "error": [0.1, 1e3, 1e7], "residual": [1.0, 1e8, 1e16]}
    rows = [flow_row("kolmogorov", "forcing-shift", "ens", history=history)]
    error, residual, correction = evolution(few(tmp_path, *rows), "kolmogorov").axes
    assert error.get_ylim()[1] == pytest.approx(1.0)
    assert residual.get_ylim()[1] == pytest.approx(10.0)
    assert not correction.lines


def test_fields_that_are_not_finite_are_left_out(tmp_path):
    fill_flows(tmp_path, size=8)
    archive = dict(np.load(tmp_path / "flow-fields.npz"))
    archive["kolmogorov/forcing-shift/ens-contractive-cnn/error"][3, 0, 0] = np.inf
    np.savez(tmp_path / "flow-fields.npz", **archive)
    results = Results.read(tmp_path)
    assert "flow-kolmogorov-forcing-shift" not in animations(results)
    figure = figures(results)["qualitative-kolmogorov-forcing-shift"](results)
    assert "error of\nCNN-FNO-CNN" in figure.axes[2].get_title()


def test_stored_errors_keep_their_digits():
    truth = 50 * torch.randn(2, 1, 41, 128, 128, dtype=torch.float64)
    error = 1e-4 * torch.randn_like(truth)
    stored = flow_fields.thinned(0.05 * np.arange(41), truth, {"ens": truth + error})
    assert stored["truth"].shape == stored["ens/error"].shape == (21, 64, 64)
    assert stored["times"][-1] == pytest.approx(2.0)
    kept = error[0, 0, ::2, ::2, ::2].numpy()
    assert np.abs(stored["ens/error"] - kept).max() < 1e-3 * np.abs(kept).max()
    # two flows, two regimes, a truth and two errors
    assert 2 * 2 * 3 * stored["truth"].nbytes < 3_000_000


def test_the_worst_trajectory_is_a_small_file(tmp_path):
    noise = np.random.default_rng(0).standard_normal((21, 64, 64))
    fields = {"truth": noise, "ENS": noise[::-1], "error": noise - noise[::-1]}
    assert animate(tmp_path / "x.gif", fields, np.arange(21)).stat().st_size < 2_000_000


def test_the_study_solves_each_flow_and_regime(monkeypatch):
    """With a solver that answers with zero."""
    equation = NavierStokes(frames=4)
    regimes = tuple(Regime(key, equation) for key in ("in-distribution", "forcing-shift"))
    for flow in FLOWS:
        short = replace(EXPERIMENTS[flow], equation=equation, regimes=regimes)
        monkeypatch.setitem(flow_fields.EXPERIMENTS, flow, short)
    truth = torch.randn(1, 1, 5, 8, 8)
    problem = Problem(equation, truth[:, :, 0])
    zero = SimpleNamespace(solve=lambda problem: SimpleNamespace(tensor=torch.zeros_like(truth)))
    here = SimpleNamespace(
        draw=lambda regime: SimpleNamespace(problem=None, true_problem=problem, exact=truth),
        prepare=lambda method, regime: zero,
    )
    arrays = flow_fields.flow_fields(SimpleNamespace(of=lambda experiment: here))
    assert len(arrays) == 2 * 2 * 7
    for flow in FLOWS:
        error = arrays[f"{flow}/forcing-shift/operator/error"]
        assert np.array_equal(error, -arrays[f"{flow}/forcing-shift/truth"])
        stored = arrays[f"{flow}/forcing-shift/truth/residual"]
        assert stored == pytest.approx(problem.residual(truth)[0, 0].numpy(), rel=1e-2, abs=1e-2)
        assert arrays[f"{flow}/in-distribution/times"].tolist() == pytest.approx(
            equation.frame_times.tolist()
        )
