# SPDX-License-Identifier: MIT
"""What the report says of types, owners and lost chunks: its tables, its chart, and what they light up on the map."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import synthetic_dump as synthetic
from tools import tiers
from tools.keeps import Keeps
from tools.tab import Tab, page_addresses, write

from arenascope.humanize import size
from arenascope.report.map import page_users
from arenascope.report.map.data import DumpPages
from arenascope.report.map.order import regions
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

EVIL = b'</script><script>window.owned=1</script>"><img src=x onerror=window.owned=1>'


@pytest.fixture(scope="module")
def page(keeps: Keeps, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("page"), keeps.dump)


def rows(tab: Tab, table: str) -> dict[str, list[int]]:
    """The numbers of a table's rows, by the words in the first cell."""
    return {
        words: [int(number) for number in numbers]
        for words, numbers in tab.js(
            """id => [...document.querySelectorAll(`#${id} tbody tr`)].map(row =>
            [row.cells[0].innerText, [...row.cells].map(cell => cell.dataset.bytes).filter(n => n !== undefined)])""",
            table,
        )
    }


def test_tables_are_the_dump(keeps: Keeps, page: Path, browser: Any) -> None:
    tab = Tab(browser, page)
    dump = keeps.dump
    types = rows(tab, "graph-types")
    for each in dump.graph_types:
        kept = each["pinned"]
        answer = [each["count"], each["bytes"], each["retained"], kept["pages"], kept["stranded"], kept["part"]]
        assert types[dump.string(each["name"]) or "?"] == [int(number) for number in answer]
    owners = rows(tab, "graph-owners")
    held = next(words for words in owners if words.startswith("variable open_connections (owning"))
    record = next(each for each in dump.graph_owners if dump.string(each["name"]) == "open_connections")
    assert owners[held] == [int(n) for n in (record["retained"], *record["pinned"].tolist())]
    leaks = rows(tab, "graph-leaks")
    assert leaks["Forgotten"] == [48, len(keeps.of["Forgotten"]), 0, 0, 48 * len(keeps.of["Forgotten"])]
    several = list(rows(tab, "graph-several").values())
    assert several == [[int(each["bytes"])] for each in dump.graph_leading][:10]
    assert f"one of {dump.graph_leading[0]['owners']} owners leads to it" in tab.page.locator("#graph").inner_text()
    words = tab.page.locator("#graph .pins li").first.inner_text()
    assert "Connection held by open_connections (owning" in words
    assert "none: these are lost" in tab.page.locator("#graph .hint").first.inner_text()
    tab.context.close()
    assert not tab.said


@pytest.mark.parametrize(("table", "name"), [("types", "Session"), ("leaks", "Forgotten")])
def test_a_click_lights_the_pages(keeps: Keeps, page: Path, browser: Any, table: str, name: str) -> None:
    tab = Tab(browser, page)
    tab.page.locator(f"#graph-{table} button", has_text=name).click()
    lit = {
        int(address)
        for address in tab.js(
            "() => [...arenascope.masks[0]].flatMap((on, i) => on ? [arenascope.regions.address(i)] : [])"
        )
    }
    wanted = {page * 4096 for at in keeps.of[name] for page in (at // 4096, (at + 47) // 4096)}
    assert lit == wanted
    assert name in tab.page.locator("#lit-name").inner_text()
    tab.context.close()
    assert not tab.said


def test_an_owner_and_a_pair_light_the_same_pages(keeps: Keeps, page: Path, browser: Any) -> None:
    tab = Tab(browser, page)
    tab.page.locator("#graph-owners button", has_text="open_connections").click()
    first = tab.js("arenascope.litCounts()")
    tab.page.locator("#graph .pins button").first.click()
    assert tab.js("arenascope.litCounts()") == first
    assert first[0] > 1000
    tab.context.close()


def test_a_page_says_who_holds_it(keeps: Keeps, page: Path, browser: Any) -> None:
    tab = Tab(browser, page)
    near = {
        page
        for name in ("Connection", "Forgotten")
        for at in keeps.of[name]
        for page in (at // 4096, (at + 47) // 4096)
    }
    alone = next(at for at in sorted(keeps.of["Session"]) if at // 4096 not in near)
    tab.js("at => arenascope.setMarker(arenascope.regions.find(at))", alone)
    assert "Session, held by open_sessions (owning" in tab.page.locator("#card").inner_text()
    assert "Session, held by open_sessions (owning" in tab.page.locator("#spoken").inner_text()
    tab.context.close()


def test_the_chart_can_be_searched_and_walked(keeps: Keeps, page: Path, browser: Any) -> None:
    tab = Tab(browser, page)
    chart = tab.page.locator("#icicle")
    assert tab.js("document.querySelector('#icicle title').textContent").startswith("all owners: retains ")
    tab.page.fill("#icicle-find", "connection")
    assert (
        tab.page.locator("#icicle-found").inner_text() == f"2 found, retaining {size(48 * len(keeps.of['Connection']))}"
    )
    assert tab.page.locator("#icicle .found").count() == 2
    tab.page.fill("#icicle-find", "")
    chart.focus()
    said = tab.page.locator("#icicle-said")
    tab.page.keyboard.press("ArrowDown")
    first = said.inner_text()
    tab.page.keyboard.press("ArrowRight")
    assert said.inner_text() != first
    assert "retains" in said.inner_text()
    bars = tab.page.locator("#icicle g").count()
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("#icicle g").count() < bars
    assert tab.page.locator("#icicle-up").is_enabled()
    tab.page.keyboard.press("Backspace")
    assert tab.page.locator("#icicle g").count() == bars
    tab.page.locator("#icicle g", has_text="open_connections").first.click()
    assert "open_connections" in said.inner_text()
    tab.page.click("#icicle-up")
    assert tab.page.locator("#icicle g").count() == bars
    tab.context.close()
    assert not tab.said


COLOURS = """() => [...document.querySelectorAll('#icicle g')].filter(g => g.querySelector('text')).map(
    g => [g.getAttribute('class').split(' ')[0],
        ...['text', 'rect'].map(each => getComputedStyle(g.querySelector(each)).fill)])"""


def contrast(one: str, other: str) -> float:
    """Returns the contrast of two colours, "rgb(r, g, b)", as WCAG 2 counts it."""

    def luminance(colour: str) -> float:
        parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_axe_finds_nothing_and_a_phone_has_room(page: Path, browser: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    tab = Tab(browser, page, color_scheme=scheme, bypass_csp=True)
    tab.page.fill("#icicle-find", "connection")
    tab.js(source)
    violations = tab.js("axe.run('#graph').then(found => found.violations)")
    shown = [(v["id"], [node["html"][:120] for node in v["nodes"]][:4]) for v in violations]
    assert not shown, json.dumps(shown, indent=1)
    tab.page.fill("#icicle-find", "")
    found = tab.js(COLOURS)
    assert {"ice-none", "ice-owner", "ice-1"} <= {kind for kind, _, _ in found}, "the root, an owner, a type"
    for _, written, filled in found:  # axe leaves out what is drawn
        assert contrast(written, filled) >= 4.5, (written, filled)
    tab.page.set_viewport_size({"width": 400, "height": 800})
    tab.still()
    assert tab.js("document.documentElement.scrollWidth") <= 400
    assert tab.js("document.querySelector('#icicle svg').clientWidth") <= 400
    tab.context.close()


def test_names_of_the_target_stay_text(browser: Any, tmp_path: Path) -> None:
    made = synthetic.with_graph()
    strings = bytearray(made["strings"].tobytes())
    evil = len(strings)
    made["strings"] = np.frombuffer(bytes(strings + EVIL + b"\0"), fmt.STRINGS)
    for section, field in (
        ("graph_types", "name"),
        ("graph_types", "evidence"),
        ("graph_owners", "name"),
        ("graph_owners", "kind"),
        ("graph_owners", "module"),
        ("graph_owners", "mapping"),
    ):
        made[section][field] = evil
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    tab.js("arenascope.setMarker(0)")
    tab.page.locator("#icicle g").nth(1).click()
    tab.page.fill("#icicle-find", "script")
    tab.page.locator("#graph-types button.light").first.click()
    assert tab.js("window.owned") is None
    assert tab.js("document.images.length") == 0
    assert tab.js("[...document.scripts].filter(s => !s.type.startsWith('application/')).length") == 1
    for place in ("#graph-types", "#graph-owners", "#graph-several", "#card", "#icicle-said", "#lit-name"):
        assert "<script>" in tab.page.locator(place).inner_text(), place
    assert not tab.said
    tab.context.close()


def lost(dump: Dump) -> int:
    """Bytes of the objects that nobody holds, suspects included."""
    mine = [each for each in dump.graph_leaks if dump.string(dump.graph_types[each["type"]]["name"]) == "Forgotten"]
    return sum(int(each[kind]["bytes"]) for each in mine for kind in ("direct", "indirect", "suspects"))


def test_before_and_after_say_what_grew(keeps: Keeps, browser: Any, tmp_path: Path) -> None:
    before = keeps.taken(tmp_path / "before")
    keeps.change()
    after = keeps.taken(tmp_path / "after")
    path = write(tmp_path, before, after)
    tab = Tab(browser, path)
    changes: Counter[str] = Counter()
    for words, number in (
        pair
        for table in ("types", "owners", "leaks")
        for pair in tab.js(
            """id => [...document.querySelectorAll(`#${id} tbody tr`)].map(row =>
            [`${id} ${row.cells[0].innerText}`, row.querySelector(".change").dataset.bytes])""",
            f"graph-{table}",
        )
    ):
        changes[words] += int(number)  # lost chunks of two sizes are two rows
    assert changes["graph-types Connection"] == -48 * 100
    assert changes["graph-types Forgotten"] == 48 * 20
    assert changes["graph-leaks Forgotten"] == lost(after) - lost(before) > 0
    assert next(n for words, n in changes.items() if "open_connections" in words) == -48 * 100
    assert changes["graph-types Session"] == 0
    assert "Connection \N{MINUS SIGN}4.7\N{NO-BREAK SPACE}KiB" in tab.page.locator("#graph .grew").inner_text()
    tab.page.locator("#graph-types button", has_text="Forgotten").click()
    first, last = tab.js("arenascope.litCounts()")
    assert 0 < first < last
    tab.context.close()
    assert not tab.said


def test_the_map_has_the_users_of_each_page(keeps: Keeps) -> None:
    dump = keeps.dump
    laid = regions([dump])
    names, held = page_users.of_dumps([dump])
    part = DumpPages(dump, laid, 0)
    counts, on_map = page_users.put_in_order(*held[0].on_pages(), part.source[: laid.malloc_total])
    known = held[0].on_map()[0]
    first = np.cumsum(counts, dtype=np.int64) - counts
    wanted: dict[int, list[page_users.PageUser]] = {}
    for place in dump.graph_places:
        wanted.setdefault(int(place["page"]), []).append(held[0].user(dump.graph_page_users[place["user"]]))
    for index, record in enumerate(part.source[: laid.malloc_total].tolist()):
        on = [known[number] for number in on_map[first[index] : first[index] + counts[index]]]
        assert on == wanted.get(record, [])
    assert len(page_addresses(dump)) >= len(wanted) > 1000
    # Without room for all, each page has the one with most bytes on it; without room for these, none.
    all_of_them = part.users(held[0])
    assert all_of_them.layout[1][2] == len(dump.graph_places)
    few = part.users(held[0], len(all_of_them.data) - 1)
    assert few.layout[0][2] == laid.malloc_total
    assert few.layout[1][2] == len(wanted)
    assert part.users(held[0], 1).layout[1][2] == 0
    assert names.types.shown


def test_without_a_graph_there_is_no_section(browser: Any, tmp_path: Path) -> None:
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", synthetic.sections()))))
    assert tab.js("document.getElementById('graph')") is None
    assert not tab.said
    tab.context.close()
