"""The other views of the page in a real browser, and what holds for all of them."""

from __future__ import annotations

import json

import pytest

from tests.serve.browser import AXE
from tests.serve.running import SLOW, messages


def test_sensors_are_placed_and_the_spread_falls(visit):
    page = visit.open("#/sensors")
    assert page.get_attribute("main", "data-sensors") == "5"
    before = visit.pixels(2)
    box = page.locator("canvas.paint").bounding_box()
    page.mouse.click(box["x"] + 30, box["y"] + 90)
    page.wait_for_selector("main[data-sensors='6']")
    assert visit.pixels(2) != before
    address, mean = page.url, visit.pixels(1)
    page.click("#more")
    page.wait_for_selector("main[data-sensors='16']")
    page.click("#none")
    page.wait_for_selector("text=No sensor yet")
    visit.open("#" + address.partition("/#")[2])
    page.wait_for_selector("main[data-sensors='6']")
    assert visit.pixels(1) == mean
    hidden = visit.pixels(0)
    page.click("#truth")
    assert visit.pixels(0) != hidden


def test_a_stronger_beam_is_another_wave(visit):
    page = visit.open("#/waves?strength=0.1&seed=1")
    before = visit.pixels(3)
    page.locator("#strength").fill("0.5")
    page.wait_for_function("() => location.hash.includes('strength=0.5')")
    wins = "#verdict:has-text('network was'), #verdict:has-text('Only the network')"
    page.wait_for_selector(wins)
    assert visit.pixels(3) != before


def test_wells_are_drilled_and_filled(visit):
    page = visit.open("#/wells?seed=2")
    assert page.get_attribute("main", "data-wells") == "36"
    before = visit.pixels(0)
    page.click("#more")
    page.wait_for_selector("main[data-wells='46']")
    assert visit.pixels(0) != before
    page.click("#none")
    page.wait_for_selector("text=No well yet")


def test_results_can_be_sorted_and_traced(visit):
    page = visit.open("#/results", state=None)
    page.wait_for_selector("select[aria-label=Table]")
    assert "forward prediction" in page.inner_text("h2")
    assert page.locator("table tbody tr").count() > 5
    page.click("button:text-is('Rows')")
    page.wait_for_selector("table.rows tbody tr")
    page.click("th:has-text('Error') button")
    errors = page.eval_on_selector_all("table.rows tr td:nth-child(3)", "cells => cells.length")
    assert errors > 50
    assert page.get_attribute("th:has-text('Error')", "aria-sort") == "ascending"
    page.fill("input[type=search]", "fno shift")
    page.wait_for_function("() => document.querySelectorAll('table.rows tbody tr').length < 5")
    page.click("table.rows tbody tr:first-child .cell >> nth=0")
    command = page.inner_text("#row-command")
    assert command == "python -m paper evaluate helmholtz --regime shift --method fno"
    page.click("text=Tables")
    page.wait_for_selector("select[aria-label=Table]")
    page.click("button:text-is('Figures')")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.figures img')].some(i => i.naturalWidth > 0)"
    )


def test_the_api_is_described(visit):
    page = visit.open("#/programs", state=None)
    page.wait_for_selector("text=POST /solve")
    assert "wavenumber" in page.inner_text("pre")


def test_a_full_server_says_so(visit, server):
    usual = server.service.settings
    server.service.settings = usual.model_copy(update={"connections": 1})
    visit.page.goto("about:blank")
    server.until(lambda: not server.streams.open)
    try:
        with server.stream() as busy:
            busy.send(json.dumps(SLOW))
            messages(busy, last="begun")
            visit.open(state="refused")
        assert "too many connections" in visit.verdict()
    finally:
        server.service.settings = usual


def test_it_plays_by_itself_for_those_who_do_not_mind(visit):
    visit.page.emulate_media(reduced_motion="no-preference")
    page = visit.open("#/solve?mode=plain&steps=6", state=None)
    page.wait_for_selector("button[aria-label=Pause]")
    assert int(page.get_attribute(".stage", "data-index")) < 6
    page.wait_for_selector(".stage[data-index='6']")
    visit.wait_end()
    page.emulate_media(reduced_motion="reduce")


def test_keys(visit):
    page = visit.open("#/solve?mode=plain&steps=5")
    visit.wait_end()
    page.click("h1")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute(".stage", "data-index") == "4"
    page.keyboard.press("ArrowRight")
    assert page.get_attribute(".stage", "data-index") == "5"
    page.keyboard.press("r")
    page.wait_for_function("() => location.hash.includes('seed=1')")


def test_on_a_phone_nothing_is_cut_off(visit):
    page = visit.page
    page.set_viewport_size({"width": 360, "height": 740})
    try:
        for path, state in (
            ("#/solve", "finished"),
            ("#/flows?mode=plain&steps=1", "finished"),
            ("#/waves", "finished"),
            ("#/wells", "finished"),
            ("#/sensors", "finished"),
            ("#/results", None),
        ):
            visit.open(path, state)
            page.wait_for_timeout(200)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, (path, width)
    finally:
        page.set_viewport_size({"width": 1360, "height": 1000})


def test_light_and_dark(visit):
    page = visit.open()
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != light
    page.reload()
    assert page.evaluate(colour) != light
    page.click("#theme")
    assert page.evaluate(colour) == light


if AXE.exists():

    @pytest.mark.parametrize(
        "path",
        ["#/solve", "#/flows?mode=plain&steps=2", "#/waves", "#/wells", "#/results", "#/programs"],
    )
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_everybody_can_use_it(visit, path, scheme):
        page = visit.page
        page.emulate_media(color_scheme=scheme)
        visit.open(path, None if "results" in path or "programs" in path else "finished")
        page.wait_for_timeout(300)
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        page.emulate_media(color_scheme="light")
        serious = [
            (each["id"], each["help"], [node["target"] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == []
