"""Solving on the page in a real browser: without an error and without another host."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import neuralsolver as ns
from neuralsolver.cli import run
from neuralsolver.serve.frames import write_npy


def test_it_solves_when_it_is_opened_and_shows_the_bound(visit):
    page = visit.open()
    visit.wait_end()
    assert page.title() == "Solve · neuralsolver"
    text = visit.verdict()
    assert "Solved" in text
    assert "Proven from the residual alone" in text
    assert page.get_attribute("#verdict", "data-status") == "TOLERANCE"
    rows = page.eval_on_selector_all("tr[data-method]", "rows => rows.map(r => r.dataset.method)")
    assert rows[0] == "ens-accelerated"
    assert {"fno", "paper", "newton", "networkless", "classical"} <= set(rows)
    assert len(set(visit.pixels(1))) > 50


PANEL = "figure.panel:has(h3:text-is('{}'))"


@pytest.mark.parametrize(
    ("address", "unknown", "colours"),
    [
        ("#/solve?equation=helmholtz", "Displacement u", "diverging"),
        ("#/solve?equation=poisson&mode=plain&steps=8", "Potential u", "diverging"),
        ("#/solve?equation=darcy", "Pressure u", "sequential"),
    ],
)
def test_every_step_has_the_colours_and_the_scale_of_the_first(visit, address, unknown, colours):
    page = visit.open(address)
    visit.wait_end()
    scales: dict[str, set[str]] = {"Residual": set(), "Error": set(), "Correction": set()}
    for index in range(1, int(page.get_attribute(".stage", "data-index")) + 1):
        page.fill("#scrub", str(index))
        for title in (unknown, *scales):
            wanted = colours if title == unknown else "diverging"
            assert page.get_attribute(PANEL.format(title), "data-colours") == wanted
        for title, seen in scales.items():
            seen.add(page.inner_text(f"{PANEL.format(title)} .scale"))
    for seen in scales.values():
        (ends,) = seen
        low, high = ends.split("\n")
        assert low.lstrip("−-") == high
    page.select_option("select[aria-label=Scale]", "own")
    assert page.inner_text(f"{PANEL.format('Residual')} .scale") not in scales["Residual"]


def test_the_text_names_the_acceleration_that_is_used(visit):
    for address, words in (
        ("equation=helmholtz", "conjugate gradients"),
        ("equation=helmholtz&wavenumber=6", "GMRES"),
        ("equation=nonlinear-helmholtz", "Anderson"),
        ("equation=helmholtz&mode=plain", "added as it is"),
    ):
        page = visit.open(f"#/solve?{address}")
        assert words in page.inner_text("#how")


def test_scrub_step_and_back(visit):
    page = visit.open()
    visit.wait_end()
    last = int(page.get_attribute(".stage", "data-index"))
    assert last > 5
    page.click("button[aria-label='First iterate']")
    assert page.get_attribute(".stage", "data-index") == "0"
    assert "first guess" in page.inner_text("#counter")
    before = visit.pixels(4)
    page.click("#step")
    assert page.get_attribute(".stage", "data-index") == "1"
    assert visit.pixels(4) != before
    page.click("button[aria-label='One step back']")
    assert page.get_attribute(".stage", "data-index") == "0"
    page.fill("#scrub", "3")
    assert page.get_attribute(".stage", "data-index") == "3"
    assert "at=3" in page.url
    page.click("button[aria-label='Play']")
    page.wait_for_selector(f".stage[data-index='{last}']")


def test_a_painted_source_is_solved_and_shared(visit):
    page = visit.open("#/solve?equation=poisson")
    page.click("#empty")
    for _ in range(100):  # the solve of the field before may still be shown
        if len(set(visit.pixels(1))) < 10:
            break
        page.wait_for_timeout(100)
    assert len(set(visit.pixels(1))) < 10
    box = page.locator("canvas.paint").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 90, steps=6)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('paint=')")
    page.wait_for_selector("#verdict[data-status=TOLERANCE]")
    visit.wait_end()
    painted, solved, address = visit.pixels(0), visit.pixels(1), page.url
    assert len(set(solved)) > 50
    visit.open(address.partition("/#")[2].join(["#", ""]))
    visit.wait_end()
    page.click("button[aria-label='Last iterate']")
    assert visit.pixels(0) == painted
    assert visit.pixels(1) == solved


def test_painting_is_answered_while_the_brush_moves(visit):
    page = visit.open("#/solve?equation=poisson")
    visit.wait_end()
    before = int(page.get_attribute("main", "data-solves"))
    box = page.locator("canvas.paint").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    for place in (60, 80):
        page.mouse.move(box["x"] + place, box["y"] + place)
        page.wait_for_function(
            "n => Number(document.querySelector('main').dataset.solves) > n", arg=before
        )
        before = int(page.get_attribute("main", "data-solves"))
    page.mouse.up()
    visit.wait_end()


def test_painting_with_the_keyboard(visit):
    page = visit.open("#/solve?equation=darcy")
    page.focus("canvas.paint")
    for key in ("ArrowLeft", "ArrowUp", " "):
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash.includes('paint=')")
    visit.wait_end()
    values = visit.pixels(0)
    assert 1 < len(set(values)) < 12


def test_a_slider_is_followed_while_it_is_dragged(visit):
    page = visit.open()
    visit.wait_end()
    before = int(page.get_attribute("main", "data-solves"))
    for value in ("1.4", "1.8", "2.2", "2.6"):
        page.evaluate(
            "v => { const s = document.getElementById('c-wavenumber'); s.value = v;"
            "s.dispatchEvent(new Event('input', {bubbles: true})); }",
            value,
        )
        page.wait_for_timeout(120)
    page.wait_for_function(
        "n => Number(document.querySelector('main').dataset.solves) > n", arg=before
    )
    page.dispatch_event("#c-wavenumber", "change")
    page.wait_for_selector("tr[data-method=classical]")
    assert "wavenumber=2.6" in page.url
    assert "trained at 1" in page.inner_text(".badge")
    assert "10⁻⁴" in page.inner_text("select[name=tolerance]")


def test_another_equation_mode_and_grid(visit):
    page = visit.open()
    page.select_option("select[name=equation]", "darcy")
    page.wait_for_selector("text=Permeability a")
    page.wait_for_selector("#verdict[data-status=TOLERANCE]")
    page.click("[data-choice=mode-plain]")
    page.fill("input[name=steps]", "6")
    page.dispatch_event("input[name=steps]", "change")
    page.wait_for_selector("#verdict[data-status=FINISHED]")
    assert "6 corrections" in visit.verdict()
    page.click("[data-choice=grid-128]")
    page.wait_for_function("() => location.hash.includes('grid=128')")
    page.wait_for_function("() => document.querySelectorAll('.panel canvas')[2].width === 128")
    assert "multigrid" in page.inner_text(".controls")


def test_beyond_resonance_it_fails_and_accelerated_it_recovers(visit):
    page = visit.open()
    page.click("text=Beyond resonance it fails")
    page.wait_for_selector("#verdict[data-status=FINISHED]")
    assert "It fails" in visit.verdict()
    page.click("text=accelerated, it recovers")
    page.wait_for_selector("#verdict[data-status=TOLERANCE]")
    assert "Solved" in visit.verdict()


def test_a_flow_plays(visit):
    page = visit.open("#/flows?mode=plain&steps=4")
    visit.wait_end()
    first = visit.pixels(1)
    page.click("#move")
    page.wait_for_function("k => Number(document.getElementById('moment').value) !== k", arg=0)
    page.wait_for_timeout(300)
    assert visit.pixels(1) != first
    page.click("#move")
    page.fill("#moment", "20")
    assert "moment 20 of 20" in page.inner_text(".moments")
    page.click("button[aria-label='First iterate']")
    standing = visit.pixels(3)
    page.click("button[aria-label='Last iterate']")
    assert visit.pixels(3) != standing


def test_a_shared_link_shows_the_same(visit):
    page = visit.open("#/solve?equation=helmholtz&wavenumber=2&seed=5&mode=plain&steps=7&at=4")
    page.wait_for_selector(".stage[data-index='4']")
    assert page.input_value("#seed") == "5"
    assert page.inner_text(".slider .value") == "κ = 2"
    assert page.get_attribute("[data-choice=mode-plain]", "aria-pressed") == "true"
    page.click("#copy-link")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_the_copied_code_gives_what_the_page_shows(visit, capsys):
    page = visit.open("#/solve?equation=helmholtz&wavenumber=2&seed=5&tolerance=1e-8")
    visit.wait_end()
    shown = page.inner_text("tr[data-method=ens-accelerated] td:nth-of-type(1)")
    page.click("#copy-shell")
    line = page.evaluate("navigator.clipboard.readText()")
    assert run([*line.split()[1:], "--json"]) == 0
    assert f'"steps": [{shown}]' in capsys.readouterr().out
    page.click("#copy-python")
    code = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"TOLERANCE (the residual fell below the tolerance); steps {shown}," in done.stdout


def test_files_that_can_and_cannot_be_used(visit):
    page = visit.open()
    good = write_npy(np.random.default_rng(0).normal(size=(64, 64)))
    for content, words in (
        (b"not a file of numpy", "is not a .npy file"),
        (write_npy(np.zeros((64, 32))), "expected a square field (n, n), got (64, 32)"),
        (write_npy(np.zeros((300, 300), dtype=np.float32)), "at most 256"),
        (good[:-8], "is not complete"),
        (write_npy(np.full((64, 64), np.nan)), "expected finite values"),
    ):
        upload(page, content)
        page.wait_for_function(
            "w => document.getElementById('verdict').innerText.includes(w)", arg=words
        )
    upload(page, good)
    page.wait_for_selector("#verdict[data-status=TOLERANCE]")
    assert "mine.npy" in page.inner_text(".controls")


def upload(page, content):
    page.set_input_files(
        "#file", {"name": "mine.npy", "mimeType": "application/octet-stream", "buffer": content}
    )


def test_the_downloads_are_files_of_numpy(visit):
    page = visit.open("#/solve?equation=poisson&seed=2&tolerance=1e-8")
    visit.wait_end()
    arrays = {}
    for name in ("input", "solution"):
        with page.expect_download() as got:
            page.click(f"#save-{name}")
        arrays[name] = np.load(got.value.path(), allow_pickle=False)
    problem = ns.Problem.random(ns.Poisson(), 64, seed=2, key=1)
    assert np.array_equal(arrays["input"], problem.inputs[0, 0].float().double().numpy())
    expected = ns.load("poisson").solve(problem, tolerance=1e-8).tensor[0, 0].numpy()
    assert np.array_equal(arrays["solution"], expected)
