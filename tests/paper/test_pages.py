"""Pages show what the rows have."""

from pathlib import Path

import pytest

from neuralsolver.errors import InvalidInput
from paper.pages import PLACE, TABLES, VALUE, renewed
from paper.residual_floor import residual_floor
from paper.results import Results
from paper.write import PAGES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results():
    return Results.read(ROOT / "results" / "desk")


def test_every_page_has_the_numbers_of_its_rows(results):
    """What fails here is renewed by `python -m paper report`."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert renewed(text, results) == text, page.name


def test_the_study_s_pages_have_tables_and_numbers():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {name for _, name, _ in PLACE.findall(text)} == TABLES.keys()
    assert len(VALUE.findall(text)) > 25


def test_a_wrong_number_is_renewed_with_as_many_digits(results):
    row = results.get("helmholtz", "in-distribution", "ens")
    found = renewed("9.9e-9<!--=helmholtz/in-distribution/ens-->", results)
    assert (
        found == f"{row.error:.1e}".replace("e-0", "e-") + "<!--=helmholtz/in-distribution/ens-->"
    )
    found = renewed("9.12<!--=poisson/shift/fno over poisson/shift/fno-->", results)
    assert found == "1.00<!--=poisson/shift/fno over poisson/shift/fno-->"
    with pytest.raises(InvalidInput, match="nobody"):
        renewed("1<!--=poisson/shift/nobody-->", results)


def test_the_floor_of_a_true_flow():
    chosen = {"cases": ((16, 32),), "grids": ((16, 32),), "samples": 1, "frames": 4}
    rows = residual_floor(("navier-stokes",), **chosen)
    floors = [row for row in rows if row["kind"] == "floor"]
    assert len(floors) == 6
    assert all(0 < row["interior"] <= row["nothing_moves"] for row in floors)
