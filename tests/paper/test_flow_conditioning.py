"""The study of trajectories: its rows at a size where the dense matrix can be asked."""

from dataclasses import replace

import pytest
import torch

from neuralsolver.training.presets import SCALES
from paper import studies as study
from paper.evaluate import Evaluation
from paper.regimes import EXPERIMENTS

FLOW = EXPERIMENTS["navier-stokes"]


def here():
    short = replace(FLOW, equation=replace(FLOW.equation, frames=5, start_time=0.2))
    return Evaluation(short, SCALES["tiny"])


def test_a_row_states_proposition_1(tmp_path):
    row = study.conditioned(replace(here(), data=tmp_path), 1e-3, 12)
    assert 0 < row["smallest"] <= row["largest"]
    # the field of the proposition adds between a half and all of ε, and is wrong by ε/2σ
    assert 0.4 < row["added"] < 1
    # no direction is cheaper than the weakest one
    assert row["random"] <= row["gap"] * (1 + row["settled"]) * 1.01


def test_without_advection_the_mean_is_weakest():
    """∂ₜe for e = 0 at first: σ_min of a one-sided derivative is near π/2T."""
    flow = FLOW.equation
    time = flow.frames * flow.frame_spacing
    assert study.still(flow) == pytest.approx(torch.pi / 2 / time, rel=0.1)


def test_the_trained_viscosity_is_measured_on_both_grids():
    every = list(study.cases(here()))
    for flow, viscosities in study.VISCOSITIES.items():
        trained = EXPERIMENTS[flow].equation.viscosity
        assert trained in viscosities
        assert [n for name, nu, n in every if (name, nu) == (flow, trained)] == [16, 8]
