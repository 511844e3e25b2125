# SPDX-License-Identifier: MIT
"""The report's histograms in a real Chromium: each bar is as high as its bytes, and the names of the axes are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.tab import Tab

from arenascope.report.charts import histograms
from arenascope.report.map.data import DumpPages
from arenascope.report.map.order import regions
from arenascope.wire.dump import Dump

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
PANELS = """section => [...document.querySelectorAll(`#${section} .bars > svg`)].slice(0, -1).map(panel => {
    const floor = panel.querySelector(".floor").getBoundingClientRect().top;
    const texts = [...panel.querySelectorAll("text")];
    return {
        bars: [...panel.querySelectorAll("rect")].map(each => {
            const at = each.getBBox();
            return {title: each.textContent, height: at.height, bottom: at.y + at.height, x: at.x};
        }),
        lines: texts.map(each => [each.textContent, each.previousElementSibling.getBoundingClientRect().top]),
        floor, height: panel.clientHeight,
    };
})"""
OVERLAPS = """section => {
    const shown = [...document.querySelectorAll(`#${section} .bars > svg`)].flatMap(panel =>
        [...panel.querySelectorAll("text")].map(each => each.getBoundingClientRect()).filter(each => each.width));
    const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    return shown.filter((a, i) => shown.some((b, j) => j > i && !apart(a, b))).length
        + shown.filter(each => each.left < 0 || each.right > innerWidth).length;
}"""


def read_bytes(words: str) -> float:
    number, unit = re.split("[  ]", words)
    return float(number) * UNITS[unit]


def bars_of(dump: Dump) -> dict[str, histograms.Histogram | None]:
    laid = regions([dump])
    states = DumpPages(dump, laid, 0).states()[: laid.malloc_total]
    return {
        "sizes": histograms.by_chunk_size(dump),
        "runs": histograms.by_free_run(states, laid, int(dump.meta["page_size"])),
    }


@pytest.mark.parametrize("section", ["sizes", "runs"])
def test_bars_are_as_high_as_their_bytes(
    browser: Any, one: tuple[Path, Dump], two: tuple[Path, Dump, Dump], section: str
) -> None:
    """By the lines of the grid and what these say; those of a class stand one upon the other, and pins apart."""
    for path, dump in ((one[0], one[1]), (two[0], two[2])):
        histogram = bars_of(dump)[section]
        assert histogram
        tab = Tab(browser, path)
        panels = tab.js(PANELS, section)
        drawn: dict[str, list[float]] = {}
        for panel in panels:
            scales = [(panel["floor"] - y) / read_bytes(words) for words, y in panel["lines"]]
            assert scales == pytest.approx([scales[-1]] * len(scales), rel=0.02), "the grid's lines say one scale"
            upon: dict[float, float] = {}
            for bar in panel["bars"]:
                drawn.setdefault(bar["title"].partition(":")[0], []).append(bar["height"] / scales[-1])
                assert bar["bottom"] == pytest.approx(upon.get(bar["x"], panel["height"]), abs=0.01)
                upon[bar["x"]] = bar["bottom"] - bar["height"]
        held = {name: [float(each) for each in series if each] for name, series in histogram.series.items()}
        held = {name: series for name, series in held.items() if series}
        assert set(drawn) == set(held)
        for name, series in held.items():
            largest = max(max(each) for each in held.values())
            assert drawn[name] == pytest.approx(series, rel=0.02, abs=largest / 1000), name
        assert len(panels) == 1 + (section == "sizes" and histograms.PINNING in held)
        tab.context.close()


@pytest.mark.parametrize("width", [320, 720, 1280])
def test_no_name_lies_upon_another(browser: Any, one: tuple[Path, Dump], width: int) -> None:
    tab = Tab(browser, one[0], viewport={"width": width, "height": 900})
    assert [tab.js(OVERLAPS, section) for section in ("sizes", "runs")] == [0, 0]
    assert tab.js("document.documentElement.scrollWidth") <= width
    tab.context.close()


def test_classes_have_their_names(browser: Any, one: tuple[Path, Dump]) -> None:
    """A bar stands in the middle above the bound of its class."""
    histogram = bars_of(one[1])["sizes"]
    assert histogram
    tab = Tab(browser, one[0])
    ticks = tab.js("""[...document.querySelectorAll("#sizes .bars > svg:last-child text")].slice(0, -1).map(
        each => [each.textContent, each.x.baseVal[0].value])""")
    middles = tab.js("""[...document.querySelectorAll("#sizes .bars rect:not(.swatch rect)")].map(
        each => [each.textContent, each.getBBox().x + each.getBBox().width / 2])""")
    assert len(ticks) <= 7
    for label, x in ticks:
        above = [middle for title, middle in middles if f", {label} to less than" in title]
        assert above == pytest.approx([x] * len(above), abs=0.05)
    first, last = histogram.bounds[0], histogram.bounds[-1]
    assert read_bytes(ticks[0][0]) == first
    assert read_bytes(ticks[-1][0]) <= last
    assert np.count_nonzero([histogram.series[name] for name in histogram.series]) == len(middles)
    tab.context.close()
