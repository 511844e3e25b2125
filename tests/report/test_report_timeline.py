# SPDX-License-Identifier: MIT
"""The page of a timeline in a real Chromium: every number and every cell of it is what the file has.

Screenshots are kept in .cache/report, to be inspected; nothing is compared with them.
"""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.timeline_pages import SIZES, held, page_of, screenshots, show, written
from tools import tiers
from tools.tab import Tab, near, rgb, violations

from arenascope.compare.digest import HeapHeld, Pages
from arenascope.report.charts.stacked_area import HIGH, stacked, top_of
from arenascope.report.colours import Colour
from arenascope.report.timeline import series as timeline_series
from arenascope.rows import BY_NAME, RESIDENT
from arenascope.timeline.reader import bodies, digest_of_snapshot, read
from arenascope.timeline.store import Taken

pytestmark = pytest.mark.usefixtures("own_arenadump")

ALL_CELLS = """() => {
    const { regions, state } = arenascope.reel, cells = {};
    for (let cell = 0; cell < state.length; cell++) if (state[cell]) cells[regions.address(cell)] = state[cell];
    return cells;
}"""


def test_every_number_is_the_files(time_tab: Tab, real: Path) -> None:
    assert time_tab.asked == [real.with_suffix(".html").as_uri()]
    timeline = read(str(real))
    shown = {cell.get_attribute("data-now") for cell in time_tab.page.locator("td[data-now]").all()}
    assert {"rss", "in_use", "stranded", "releasable", "metadata"} <= shown
    for place, poll in enumerate(timeline.polls):
        show(time_tab, place)
        begin = timeline.polls[0 if poll.generation == 1 else 7].snapshots[0]
        assert time_tab.page.locator("#poll").inner_text().startswith(f"2027-01-15 08:{place // 6:02}:{place % 6}0 UTC")
        assert f"generation {poll.generation}" in time_tab.page.locator("#poll").inner_text()
        snapshot = poll.snapshots[0]
        wanted = {**snapshot.rows, "rss": snapshot.rss}
        first = {**begin.rows, "rss": begin.rss}
        for name in shown:
            assert held(time_tab, str(name)) == wanted[str(name)], name
            assert held(time_tab, str(name), "since") == wanted[str(name)] - first[str(name)], name  # type: ignore[operator]
        # What the page leaves out is nothing at every poll.
        assert not any(wanted[row.name] for row in RESIDENT if row.name not in shown)


def cells_of(timeline: Path, snapshot: Any) -> dict[int, int]:
    pages = digest_of_snapshot(str(timeline), snapshot.id)[0].pages
    assert pages
    return dict(zip(pages.address.tolist(), pages.state.tolist()))


def test_every_cell_has_its_state_at_every_poll(time_tab: Tab, real: Path) -> None:
    """Forwards, backwards, and in leaps over both generations."""
    polls = read(str(real)).polls
    states = [cells_of(real, poll.snapshots[0]) for poll in polls]
    assert len({tuple(each.items()) for each in states}) == len(polls), "nothing moves: the test shows nothing"
    assert max(max(each.values()) for each in states) <= 8  # so far, numbers of states and of colours are the same
    way = [*range(16), *range(15, -1, -1), *random.Random(5).choices(range(16), k=20)]
    for digest in way:
        show(time_tab, digest)
        assert {int(at): state for at, state in time_tab.js(ALL_CELLS).items()} == states[digest]
        counts = np.bincount(list(states[digest].values()), minlength=12)
        for chip in time_tab.page.locator("[data-state]").all():
            assert chip.inner_text() == f"{counts[int(chip.get_attribute('data-state') or 0)]:,}"


def test_what_changed_is_lit(time_tab: Tab, real: Path) -> None:
    polls = read(str(real)).polls
    states = [cells_of(real, poll.snapshots[0]) for poll in polls]

    def differing(one: int, other: int) -> int:
        both = states[one].keys() | states[other].keys()
        return sum(states[one].get(at) != states[other].get(at) for at in both)

    def lit() -> int:
        return sum(time_tab.js("arenascope.litCounts()"))

    for digest in (3, 6, 7, 12, 5):
        show(time_tab, digest)
        begin = 0 if digest < 7 else 7
        assert lit() == (differing(digest - 1, digest) if digest != begin else 0)
    time_tab.page.locator("button[data-light=since]").click()
    for digest in (14, 9, 4):
        show(time_tab, digest)
        assert lit() == differing(0 if digest < 7 else 7, digest)
    time_tab.page.locator("button[data-light='state:1']").click()
    assert lit() == sum(state == Colour.USED for state in states[4].values())
    time_tab.until("() => document.getElementById('lit-name').textContent.startsWith('in use')")
    time_tab.page.locator("#unlit").click()
    assert lit() == 0


def test_pixels_have_the_state_of_their_cell(time_tab: Tab, real: Path) -> None:
    polls = read(str(real)).polls
    time_tab.js("arenascope.light(null)")
    for digest, layout in ((15, "rows"), (2, "rows"), (11, "hilbert")):
        show(time_tab, digest)
        time_tab.js("name => arenascope.setLayout(name)", layout)
        states = cells_of(real, polls[digest].snapshots[0])
        for state in set(states.values()):
            found = time_tab.nearby(at for at, each in states.items() if each == state)
            assert found, (state, "an arena's name stands on each")
            assert near(time_tab.seen(found[1]), rgb(Colour(state))), (hex(found[0]), state)
        time_tab.js("arenascope.whole()")
    before = cells_of(real, polls[10].snapshots[0])
    time_tab.page.locator("button[data-light=changed]").click()
    changed = time_tab.nearby(at for at, state in states.items() if before.get(at) != state)
    assert changed
    assert near(time_tab.seen(changed[1]), rgb(Colour(states[changed[0]])))
    still = time_tab.nearby(at for at, state in states.items() if before.get(at) == state == 1)
    assert still
    assert not near(time_tab.seen(still[1]), rgb(Colour.USED))


def test_from_afar_a_pixel_is_the_mean_of_its_cells(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    """Half of all pages in use, half returned, in turn: at a small scale every pixel has the same colour."""
    states = np.tile(np.array([Colour.USED, Colour.RETURNED], np.uint8), 1 << 19)
    address = 0x7000_0000_0000 + 4096 * np.arange(len(states), dtype=np.uint64)
    digest = dataclasses.replace(one_snapshot.digest, pages=Pages(address, states, None))
    path = written(tmp_path / "timeline", [(1, [dataclasses.replace(one_snapshot, digest=digest)])])
    time_tab = Tab(browser, page_of(path), viewport={"width": 560, "height": 600})
    time_tab.js("arenascope.light(null)")
    probe = time_tab.goto(int(address[500_000]), 0.25)
    assert probe["scale"] < 0.5  # a pixel for four cells or more
    seen = time_tab.colour(probe["x"], probe["y"])
    light = (np.array(rgb(Colour.USED)) / 255) ** 2.2 / 2 + 0.5
    assert np.abs(np.array(seen) - 255 * light ** (1 / 2.2)).max() < 4
    time_tab.context.close()


def test_each_heap_stands_with_its_arena(time_tab: Tab, real: Path) -> None:
    last = read(str(real)).polls[-1].snapshots[0]
    digest = digest_of_snapshot(str(real), last.id)[0]
    assert len({heap.arena for heap in digest.heaps.values()}) >= 4
    for start, heap in digest.heaps.items():
        for at in (start, start + 4096 * (heap.pages - 1)):
            time_tab.js("at => arenascope.setMarker(arenascope.regions.find(at))", at)
            words = time_tab.page.locator("#card").inner_text()
            assert digest.arenas[heap.arena].name in words.splitlines(), hex(at)


def test_what_is_beside_a_heap_is_not_its_arenas(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    """Pages without a gap: the heap of one arena, then what is of none, then the heap of another one."""
    start, digest = 0x7000_0000_0000, one_snapshot.digest
    one, other = list(digest.arenas)[:2]
    address = start + 4096 * np.arange(100, dtype=np.uint64)
    heaps = {start: HeapHeld(one, 40), start + 60 * 4096: HeapHeld(other, 40)}
    held = dataclasses.replace(digest, pages=Pages(address, np.ones(100, np.uint8), None), heaps=heaps)
    time_tab = Tab(
        browser, page_of(written(tmp_path / "timeline", [(1, [dataclasses.replace(one_snapshot, digest=held)])]))
    )
    for page, name in (
        (39, digest.arenas[one].name),
        (40, "mmapped"),
        (59, "mmapped"),
        (60, digest.arenas[other].name),
    ):
        time_tab.js("at => arenascope.setMarker(arenascope.regions.find(at))", start + 4096 * page)
        assert name in time_tab.page.locator("#card").inner_text().splitlines(), page
    time_tab.context.close()


def test_slider_chart_and_keys_choose_the_same_polls(time_tab: Tab) -> None:
    slider = time_tab.page.locator("#slider")

    def digest() -> int:
        time_tab.still()
        assert slider.input_value() == str(time_tab.js("course.poll"))
        x = float(time_tab.page.locator("#course .now").first.get_attribute("x1").rstrip("%"))
        assert x == pytest.approx(100 * time_tab.js("course.columns.at[course.poll]"))
        return int(time_tab.js("course.poll"))

    assert digest() == 15
    slider.focus()
    for key, wanted in (("ArrowLeft", 14), ("Home", 0), ("ArrowRight", 1), ("End", 15)):
        time_tab.page.keyboard.press(key)
        assert digest() == wanted
    assert slider.get_attribute("aria-valuetext") == time_tab.page.locator("#poll").inner_text()
    box = time_tab.page.locator("#course").bounding_box()
    assert box
    time_tab.page.mouse.click(box["x"] + 0.41 * box["width"], box["y"] + 100)
    assert digest() == 6  # of 0 to 15, evenly spaced
    time_tab.page.mouse.down()
    time_tab.page.mouse.move(box["x"] + 0.98 * box["width"], box["y"] + 100)
    time_tab.page.mouse.up()
    assert digest() == 15
    time_tab.page.locator("#earlier").click()
    assert digest() == 14
    time_tab.page.locator("#play").click()
    time_tab.until("() => course.poll === 15 && document.getElementById('play').textContent === 'Play'")
    time_tab.js("course.show(3)")
    time_tab.until("() => location.hash.includes('poll=3')")


def test_a_link_leads_to_its_poll(browser: Any, real: Path) -> None:
    time_tab = Tab(browser, page_of(real), "#poll=5&light=since&layout=hilbert")
    time_tab.until("() => course.poll === 5 && arenascope.spec === 'since'")
    for fragment in ("#poll=-7&x=1", "#poll=99999&x=2", "#poll=x&x=3"):
        time_tab.js("fragment => { location.hash = fragment; }", fragment)
        time_tab.still()
    assert time_tab.js("course.poll") == 15
    assert not time_tab.said
    time_tab.context.close()


def test_growth_tables_sort_and_have_their_trends(time_tab: Tab, real: Path) -> None:
    polls = read(str(real)).polls[7:]
    ends = [digest_of_snapshot(str(real), poll.snapshots[0].id)[0] for poll in (polls[0], polls[-1])]
    table = time_tab.page.locator("#growth [aria-label='Chunks in use by size: what changed'] table")
    lines = table.locator("tbody tr").all()
    largest = max(
        ends[1].sizes.listed,
        key=lambda size: (ends[1].sizes.held(size).bytes or 0) - (ends[0].sizes.held(size).bytes or 0),
    )
    growth = (ends[1].sizes.held(largest).bytes or 0) - (ends[0].sizes.held(largest).bytes or 0)
    assert lines[0].locator("td.change").get_attribute("data-bytes") == str(growth)
    table.locator("button.sort", has_text="last").click()
    last = [int(cell.get_attribute("data-bytes") or 0) for cell in table.locator("tbody tr td:nth-child(3)").all()]
    assert last == sorted(last, reverse=True)
    counts = {snapshot: body["sizes"] for snapshot, body in bodies(str(real))}
    series = [counts[poll.snapshots[0].id].get(str(largest), 0) for poll in polls]
    drawn = lines[0].locator("polyline").get_attribute("points")
    y = [float(point.split(",")[1]) for point in str(drawn).split()]
    assert y == pytest.approx([2 + 20 * (1 - each / max(series)) for each in series], abs=0.06)


def test_areas_are_as_high_as_their_rows(time_tab: Tab, real: Path) -> None:
    """The upper edge of each row's area, at each poll, is the sum of the rows up to it."""
    timeline = read(str(real))
    course = timeline_series.course(timeline)
    top, _ = top_of(course.largest)
    assert top >= course.largest > 0.5 * top
    sums = np.zeros(16)
    paths = {band.title: band.path for band in stacked(course.at, course.layers(), course.runs, top)}
    assert paths.keys() == set(
        time_tab.js("[...document.querySelectorAll('#course path > title')].map(e => e.textContent)")
    )
    for row in timeline_series.ROWS:
        sums += [poll.snapshots[0].rows[row.name] or 0 for poll in timeline.polls]
        if BY_NAME[row.name].title not in paths:
            continue
        areas = paths[row.title].split("M")[1:]
        corners = [[tuple(map(int, point.split(","))) for point in area.rstrip("Z").split()] for area in areas]
        upper = [y for area in corners for _, y in area[: len(area) // 2]]
        assert upper == pytest.approx(HIGH - sums / top * HIGH, abs=1)
    assert [len(area) // 2 for area in corners] == [7, 9], "generations are not joined"


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_axe_finds_nothing(browser: Any, real: Path, scheme: str) -> None:
    shown = violations(browser, page_of(real), scheme)
    assert not shown, json.dumps(shown, indent=1)


@pytest.mark.nightly("limits")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots_to_inspect(browser: Any, real: Path, scheme: str) -> None:
    screenshots(browser, page_of(real), "timeline", scheme)


def test_the_slider_stays_in_view_with_the_map(browser: Any, real: Path) -> None:
    for width, height in SIZES.values():
        time_tab = Tab(browser, page_of(real), viewport={"width": width, "height": height})
        time_tab.js("document.getElementById('canvas-0').scrollIntoView({ block: 'end' })")
        time_tab.still()
        for place in ("#slider", "#canvas-0"):
            box = time_tab.page.locator(place).bounding_box()
            assert box
            assert 0 <= box["y"] <= box["y"] + box["height"] <= height + 1, place
        time_tab.context.close()
