# SPDX-License-Identifier: MIT
"""The map: runtimes' heaps are on it, its legend has the ledger's bytes, and from afar it is what it is close by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import harness, interpreters, tiers
from tools import synthetic_dump as synthetic
from tools.running import started
from tools.tab import Tab, near, write

from arenascope.report.colours import Colour
from arenascope.report.map.data import DumpPages
from arenascope.report.map.order import regions
from arenascope.report.map.page_colours import encoded, light_of
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

PAGE = 4096
MOST = 0.7  # of Rss: "most of it is on the map"
PYTHON = """
import time
kept = [(i, str(i) * 3, float(i)) for i in range(150000)]
kept[::3] = [None] * 50000
kept[60000:90000] = []
print("ready", flush=True); time.sleep(1000)
"""
RUBY = """
kept = Array.new(400_000) { |i| "object #{i}" }
(0...400_000).step(3) { |i| kept[i] = nil }
GC.start
$stdout.puts "ready"; $stdout.flush; sleep
"""


def dumped(arenadump: harness.Arenadump, folder: Path, runtime: str, release: str, source: str) -> Dump:
    """A dump of a program for an interpreter of that release."""
    option = "-c" if runtime == "python" else "-e"
    found = interpreters.python(release) if runtime == "python" else interpreters.ruby(release)
    command = ["env", *(f"{name}={value}" for name, value in found.environment.items())]
    with started([*command, *found.command(option, source)], "ready") as pid:
        arenadump.check("dump", "--chunks", "-o", folder / "dump", pid)
    return Dump(folder / "dump")


def legend(dump: Dump) -> dict[str, dict[Colour, int]]:
    return DumpPages(dump, regions([dump]), 0).legend().held


def resident_pages(dump: Dump) -> int:
    return int(((dump.runtime_pages["residency"] & fmt.Residency.PRESENT) != 0).sum())


@pytest.mark.parametrize("release", tiers.runtimes(["3.9", "3.11", "3.13"]))
def test_pythons_pages_are_the_ledgers_row(arenadump: harness.Arenadump, tmp_path: Path, release: str) -> None:
    dump = dumped(arenadump, tmp_path, "python", release, PYTHON)
    row, pages = int(dump.totals["ledger"]["python_arenas"]), dump.runtime_pages
    assert row > 1 << 23
    assert resident_pages(dump) * PAGE == row
    assert set(pages["kind"]) == {fmt.RuntimeKind.CPYTHON}
    assert int(pages["in_use"].sum(dtype="u8")) * fmt.RUNTIME_UNIT == int(dump.regions["in_use"].sum())
    free = int(dump.regions["free"].sum() + dump.regions["empty"].sum())
    assert int(pages["free"].sum(dtype="u8")) * fmt.RUNTIME_UNIT == free
    held = legend(dump)["Python (pymalloc)"]
    assert sum(held.values()) == int(dump.regions["size"].sum())
    assert sum(held[colour] for colour in (Colour.USED, Colour.STRANDED, Colour.METADATA)) == row
    # The pools of 3.9 are pages, of which the header tells everything.
    means = (pages["flags"] & fmt.RuntimePageFlag.MEAN) != 0
    assert means.any() == (release != "3.9")
    assert not means[(pages["in_use"] == 0) | (pages["free"] == 0)].all()


@pytest.mark.parametrize("release", tiers.runtimes(["3.1", "3.3"]))
def test_rubys_pages_are_the_ledgers_row(arenadump: harness.Arenadump, tmp_path: Path, release: str) -> None:
    dump = dumped(arenadump, tmp_path, "ruby", release, RUBY)
    row, ruby, pages = int(dump.totals["ledger"]["ruby_pages"]), dump.ruby, dump.runtime_pages
    assert row > 1 << 23
    assert resident_pages(dump) * PAGE == row
    slots = (ruby["total_slots"] - ruby["free_slots"]).astype("u8") * ruby["slot_size"]
    assert int(pages["in_use"].sum(dtype="u8")) * fmt.RUNTIME_UNIT == int(slots.sum())
    free = ruby["free_slots"].astype("u8") * ruby["slot_size"]
    assert int(pages["free"].sum(dtype="u8")) * fmt.RUNTIME_UNIT == int(free.sum())
    assert not (pages["flags"] & fmt.RuntimePageFlag.MEAN).any()
    held = legend(dump)["Ruby"]
    assert sum(held[colour] for colour in (Colour.USED, Colour.STRANDED, Colour.METADATA)) == row


def test_rubys_pages_in_mallocs_heaps_are_there_once(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dumped(arenadump, tmp_path, "ruby", "2.7", RUBY)
    assert len(dump.ruby)
    assert len(dump.runtime_pages) == 0
    assert set(legend(dump)) == {"malloc"}


@pytest.mark.parametrize("runtime", ["python", "ruby"])
def test_most_of_a_runtime_is_on_the_map(
    arenadump: harness.Arenadump, browser: Any, tmp_path: Path, runtime: str
) -> None:
    release, source = ("3.11", PYTHON * 1) if runtime == "python" else ("3.1", RUBY)
    dump = dumped(arenadump, tmp_path, runtime, release, source)
    row, name = ("python_arenas", "Python (pymalloc)") if runtime == "python" else ("ruby_pages", "Ruby")
    laid = regions([dump])
    ledger = dump.totals["ledger"]
    mallocs = sum(int(dump.mappings["malloc_rss"][i]) for i in range(len(dump.mappings)))
    assert mallocs + int(ledger[row]) > MOST * int(dump.meta["rss"])
    assert laid.total == len(dump.pages) + len(dump.runtime_pages)

    tab = Tab(browser, write(tmp_path, dump))
    tab.page.locator(f"button[data-light='row:{row}']").first.click()
    assert tab.js("arenascope.litCounts()") == [resident_pages(dump)]
    tab.page.locator("#unlit").click()
    light = dict(zip(dump.runtime_pages["address"].tolist(), dump.runtime_pages))
    addresses = sorted(light)
    for address in addresses[:: len(addresses) // 7]:
        page = light[address]
        probe = tab.goto(address, 14)
        assert int(probe["address"], 16) == address
        words = tab.js(
            "index => { arenascope.setMarker(index); return document.getElementById('card').innerText }", probe["index"]
        )
        tab.js("arenascope.clear()")
        assert name in words
        if page["in_use"] and page["residency"] & fmt.Residency.PRESENT:
            assert f"{int(page['in_use']) * fmt.RUNTIME_UNIT:,} B" in words
        if page["block_size"]:
            assert f"Blocks of {int(page['block_size']) * fmt.RUNTIME_UNIT} bytes." in words
        assert ("means over its pool" in words) == bool(page["flags"] & fmt.RuntimePageFlag.MEAN)
    tab.context.close()
    assert not tab.said


def check_legend(dump: Dump, of: dict[Colour, int]) -> None:
    ledger = {name: int(dump.totals["ledger"][name]) for name in fmt.LEDGER.names or () if name != "reserved"}
    in_arenas = int(dump.arenas["ledger"]["ruby_pages"].sum())
    wanted = {
        Colour.USED: ledger["in_use"] + ledger["mmapped_in_use"] + in_arenas - of[Colour.PINNED],
        Colour.METADATA: ledger["metadata"] + ledger["mmapped_slack"],
        Colour.CACHED: ledger["tcache"] + ledger["fastbin"],
        Colour.STRANDED: ledger["stranded"],
        Colour.RELEASABLE: ledger["releasable"],
        Colour.WITHHELD: ledger["withheld"],
        Colour.RETURNED: ledger["returned"],
        Colour.UNTOUCHED: ledger["untouched"],
        Colour.USED_SWAPPED: ledger["swapped_in_use"],
        Colour.FREE_SWAPPED: ledger["swapped_free"],
        Colour.UNKNOWN: 0,
    }
    assert {colour: of[colour] for colour in wanted} == wanted


def test_the_legend_has_the_ledgers_bytes(
    one: tuple[Path, Dump], two: tuple[Path, Dump, Dump], arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    """Legend and ledger of four processes agree to the byte: they stand on one screen."""
    dumps = [one[1], two[1], two[2], dumped(arenadump, tmp_path, "ruby", "2.7", RUBY)]
    for dump in dumps:
        check_legend(dump, legend(dump)["malloc"])
    tab = Tab(browser, two[0])
    stranded = tab.page.locator("button[data-light='bytes:4']").get_attribute("data-exact")
    assert stranded == " ".join(str(int(dump.totals["ledger"]["stranded"])) for dump in two[1:])
    tab.context.close()


def four_fifths_free(tmp_path: Path) -> Dump:
    """A heap in which each page is a fifth in use."""
    made = synthetic.sections()
    count = 1 << 16
    end = synthetic.HEAP_START + count * PAGE
    made["heaps"][0]["end"] = made["heaps"][0]["protected_end"] = end
    made["heaps"][0]["page_count"], made["heaps"][0]["chunk_count"] = count, 0
    made["pages"] = np.zeros(count, fmt.PAGE)
    made["pages"]["in_use"], made["pages"]["binned"] = 51, 205
    made["pages"]["residency"], made["pages"]["state"] = fmt.Residency.PRESENT, fmt.PageState.USED
    made["chunks"] = np.zeros(0, fmt.CHUNKS)
    return Dump(synthetic.write(tmp_path / "dump", made))


def test_an_arena_is_from_afar_what_it_is_close_by(browser: Any, tmp_path: Path) -> None:
    dump = four_fifths_free(tmp_path)
    tab = Tab(browser, write(tmp_path, dump), viewport={"width": 640, "height": 600})
    wanted = tuple(int(c) for c in encoded(light_of(dump.pages))[0])
    for scale in (0.25, 0.5, 14):
        probe = tab.goto(synthetic.HEAP_START + PAGE * 30_000, scale)
        assert near(tab.seen(probe), wanted), scale
    tab.js("index => arenascope.setMarker(index)", probe["index"])
    words = tab.page.locator("#card").inner_text()
    assert "mixed, 20 % in use" in words
    assert "816 B" in words
    assert "3,280 B" in words
    shown = tab.page.locator("button[data-light='state:14']").inner_text()
    assert f"{len(dump.pages):,}" in shown
    tab.context.close()
    assert not tab.said


def test_a_page_that_is_named_twice_is_shown_once(tmp_path: Path) -> None:
    """A dump that lies: pages out of order, twice, of no region, of a runtime that has no heap."""
    made = synthetic.sections()
    start = 0x7F00_0000_0000
    made["runtimes"] = np.zeros(1, fmt.RUNTIME)
    made["runtimes"]["kind"], made["runtimes"]["state"] = fmt.RuntimeKind.CPYTHON, fmt.RuntimeState.FOUND
    made["regions"] = np.zeros(1, fmt.REGION)
    made["regions"]["address"], made["regions"]["size"], made["regions"]["heap"] = start, 4 * PAGE, fmt.NO_INDEX
    pages = np.zeros(7, fmt.RUNTIME_PAGE)
    pages["address"] = [start + PAGE * at for at in (2, 0, 2, 9, 1, 3, 3)]
    pages["kind"] = [1, 1, 1, 1, 1, 7, 16]
    pages["residency"] = fmt.Residency.PRESENT
    made["runtime_pages"] = pages
    laid = regions([Dump(synthetic.write(tmp_path / "dump", made))])
    assert laid.total - laid.malloc_total == 3
    assert laid.areas[0].heaps["page_count"].tolist()[1:] == [3]


def test_on_a_hilbert_curve_arenas_have_their_names(tab: Tab) -> None:
    tab.js("""() => {
        const draw = CanvasRenderingContext2D.prototype.fillText;
        window.drawn = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            window.drawn.push(text);
            return draw.call(this, text, ...rest);
        };
    }""")
    tab.page.locator("#layout-hilbert").click()
    tab.still()
    drawn = set(tab.js("window.drawn"))
    large = tab.js("arenascope.layout.labels.filter(each => each.count > 400).map(each => each.arena)")
    assert large
    names = {"Ruby", "mmapped", "main arena", *(f"arena {index}" for index in range(1, 9))}
    assert drawn <= names
    assert len(drawn) >= len(large) - 1  # the middle of one may be beside the picture


def test_differences_are_not_clipped_on_a_phone(
    one: tuple[Path, Dump], two: tuple[Path, Dump, Dump], browser: Any, tmp_path: Path
) -> None:
    tab = Tab(browser, write(tmp_path, two[1], one[1]), viewport={"width": 400, "height": 800})
    assert tab.js("(e => e.scrollWidth - e.clientWidth)(document.querySelector('#ledger .scroll'))") <= 0
    tab.context.close()


def test_on_paper_a_heading_stands_with_its_chart(tab: Tab) -> None:
    tab.page.emulate_media(media="print")
    for section in ("#sizes", "#runs"):
        assert tab.js("at => getComputedStyle(document.querySelector(at)).breakInside", section) == "avoid"
    assert tab.js("getComputedStyle(document.querySelector('.columns')).display") == "block"
    assert tab.js("getComputedStyle(document.querySelector('#pins .hint')).breakAfter") == "avoid"
