"""The printed numbers: a few known by heart, all of them against the TeX source where it is."""

import hashlib
import math
import os
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from paper.results import published
from tests.paper.paper_tables import cells

FILE = "shared/paper/error-conditioned-neural-solvers.tex"
SOURCE = Path(os.environ.get("ENS_PAPER", Path(__file__).parents[3] / FILE))

SHA256 = "cd9b2107be2e6f993f51ab76bb4b0895b32c1bd97b684de00d5ff08c076b6ed4"
COUNTS = {
    "comparison": 6,
    "forward_helmholtz": 63,
    "forward_NS": 63,
    "kolmogorov": 63,
    "diffusion_original": 35,
    "datagen": 6,
    "extrap": 32,
    "forward_poisson": 56,
    "Darcy": 42,
    "nonlinear_hz": 42,
    "Ablation": 20,
    "HZ_AB": 32,
    "NS_AB": 32,
    "KF_AB": 32,
}


def test_the_file_is_the_one_that_was_compared_with_the_paper():
    """In a clone without the paper's source nothing else would notice a changed digit."""
    content = files("paper").joinpath("published.csv").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_every_table_has_its_cells():
    assert Counter(published().index.get_level_values("table")) == COUNTS


@pytest.mark.parametrize(
    ("place", "text", "mark"),
    [
        (("forward_helmholtz", "ENS", "In-distribution", "error"), "3.04e-03", "best"),
        (("forward_helmholtz", "PCFM", "Super-resolution", "residual"), "OOM", ""),
        (("forward_poisson", "FNO", "Extrapolation", "error"), "1.00e+00", ""),
        (("Darcy", "PINO(TTOP)", "Extrapolation", "error"), "3.87e-01", "second"),
        (("Darcy", "PCFM", "In-distribution", "error"), "diverged", ""),
        (("nonlinear_hz", "PCFM", "Extrapolation", "residual"), "5.53e+00", "best"),
        (("forward_NS", "POSEIDON", "Super-resolution", "error"), "8.83e-03", "best"),
        (("kolmogorov", "ENS", "Forcing-shift", "residual"), "3.72e-01", "second"),
        (("KF_AB", "ENS", "Forcing-shift", "residual"), "3.80e-01", "second"),
        (("Ablation", "FNO-CNN", "Helmholtz", "steps"), "45", ""),
        (("diffusion_original", "Palette", "all", "seconds"), "2.8", "best"),
        (("datagen", "Navier-Stokes", "all", "seconds"), "23.30", ""),
        (("extrap", "nonlinear Helmholtz", "Extrapolation", "evaluation"), "κ=3, λ=4", ""),
    ],
)
def test_anchor(place, text, mark):
    assert published()[["value", "mark"]].sort_index().loc[place].tolist() == [text, mark]


def test_a_cell_is_a_number_or_a_word():
    numbers = published()["number"].sort_index()
    assert numbers["HZ_AB", "ENS", "In-distribution", "error"] == 3.04e-3
    assert math.isnan(numbers["kolmogorov", "PCFM", "In-distribution", "error"])


def test_rows_and_columns_keep_the_order_of_the_paper():
    methods = ["ENS", "FNO", "PINO", "PINO(TTOP)", "POSEIDON", "DiffusionPDE", "PCFM"]
    assert [*published().loc["forward_poisson"].index.unique("row")] == methods
    columns = published().loc["extrap"].loc["Darcy flow"].index.unique("column")
    assert [*columns] == ["Forcing shift", "Super-resolution"]


def test_every_cell_is_that_of_the_paper():
    if not SOURCE.is_file():
        pytest.skip("the source of the paper is not part of the repository")
    expected = {tuple(place): (text, mark) for *place, text, mark in cells(SOURCE.read_text())}
    found = {place: (row["value"], row["mark"]) for place, row in published().iterrows()}
    assert found == expected
