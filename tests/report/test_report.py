# SPDX-License-Identifier: MIT
"""The report in a real Chromium: what it shows is what the dump says, and what one can do with it works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import synthetic_dump as synthetic
from tools import tiers
from tools.tab import Tab, begins, means, near, page_addresses, rgb, some, write

from arenascope.report.colours import APPEARANCES, Colour, page_bytes
from arenascope.report.image_export import blended
from arenascope.report.map.page_colours import linear
from arenascope.report.map.page_colours import rgb as encoded_of
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of


def test_opens_without_a_word_and_asks_for_nothing(tab: Tab, one: tuple[Path, Dump]) -> None:
    assert tab.asked == [one[0].as_uri()]
    assert tab.page.locator("h1").inner_text().startswith(str(round(int(one[1].meta["rss"]) / 2**20, 1)))


@pytest.mark.parametrize("layout", ["rows", "hilbert"])
def test_pixels_have_the_state_of_their_page(tab: Tab, one: tuple[Path, Dump], layout: str) -> None:
    tab.js("name => arenascope.setLayout(name)", layout)
    chosen = [(tab.nearby(addresses), colour) for addresses, colour in begins(one[1])]
    assert len({colour for found, colour in chosen if found}) >= 4
    wanted = means(one[1])
    for address, colour in [(found[0], colour) for found, colour in chosen if found]:
        probe = tab.goto(address, 14)
        assert probe["states"][0].startswith(APPEARANCES[colour].name)
        assert near(tab.seen(probe), wanted[address]), hex(address)


def test_a_name_stands_where_the_page_says(tab: Tab, one: tuple[Path, Dump]) -> None:
    """On the middle of an arena's patch of the Hilbert curve; a place beside the words is dark, whatever is below."""
    tab.js("arenascope.setLayout('hilbert')")
    address = "index => Number(arenascope.regions.address(index))"
    labels = tab.js("arenascope.layout.labels.filter(each => each.count > 100)")
    assert labels
    for each in labels:
        middle = tab.js(address, each["first"] + each["count"] // 2)
        probe = tab.goto(middle, 14)
        assert probe["named"]
        names = tab.js("arenascope.views[0].names()")
        name = min(names, key=lambda at: abs(at["x"] - probe["x"]) + abs(at["y"] - probe["y"]))
        assert max(tab.colour(name["x"] - name["width"] / 2 + 3, name["y"] + 5)) < 90
        tab.js("arenascope.setLayout('rows')")
        assert not tab.goto(middle, 14)["named"], "rows have the names beside them"
        tab.js("arenascope.setLayout('hilbert')")


def test_safe_palette(tab: Tab, one: tuple[Path, Dump]) -> None:
    tab.page.locator("#palette").click()
    wanted = means(one[1], "safe")
    for address, _ in some(one[1], each=1):
        probe = tab.goto(address, 14)
        assert near(tab.seen(probe), wanted[address])


def test_every_page_of_the_dump_is_where_the_layouts_say(tab: Tab, one: tuple[Path, Dump]) -> None:
    """Index to place and back, for all pages; neighbours on a Hilbert curve are neighbours."""
    result = tab.js("""() => Object.values(arenascope.layouts).map(layout => {
        const total = arenascope.regions.first.at(-1) + arenascope.regions.pages.at(-1);
        let wrong = 0, far = 0, last = null;
        for (let i = 0; i < total; i++) {
            const [x, y] = layout.place(i);
            if (layout.at(x, y) !== i) wrong++;
            if (last && Math.abs(x - last[0]) + Math.abs(y - last[1]) !== 1) far++;
            last = [x, y];
        }
        return [layout.name, wrong, far];
    })""")
    assert [wrong for _, wrong, _ in result] == [0, 0]
    assert {name: far for name, _, far in result}["hilbert"] < 40  # where one row of squares ends


def test_units_have_the_class_of_their_chunk(tab: Tab, one: tuple[Path, Dump]) -> None:
    dump = one[1]
    heap = int(np.argmax(dump.heaps["page_count"]))
    chunks = dump.heap_chunks(heap)
    seen = 0
    for kind, colour in ((fmt.ChunkClass.IN_USE, Colour.USED), (fmt.ChunkClass.METADATA, Colour.METADATA)):
        found = np.flatnonzero(chunks.classes == kind)
        states = dump.heap_pages(heap)["state"]
        base = int(dump.heaps[heap]["start"]) // 4096 * 4096
        for index in found[np.linspace(0, len(found) - 1, 3).astype(int)]:
            address = int(chunks.addresses[index])
            if states[(address - base) // 4096] != fmt.PageState.USED:
                continue
            probe = tab.goto(address, 256)
            unit = address % 4096 // 16
            x = probe["x"] - 128 + (unit % 16 + 0.6) * 16
            y = probe["y"] - 128 + (unit // 16 + 0.6) * 16
            if unit % 16 in (0, 15) or unit // 16 in (0, 15):
                continue  # under the grid
            assert near(tab.colour(x, y), rgb(colour))
            seen += 1
    assert seen


@pytest.mark.parametrize("page_size", tiers.daily([8192, 65536], [65536], "limits"))
def test_larger_pages(browser: Any, tmp_path: Path, page_size: int) -> None:
    """As on arm64 and elsewhere: the first page of a heap, all its units, and the address of the second."""
    made = synthetic.sections()
    made["meta"][0]["page_size"] = page_size
    made["heaps"][0]["end"] = made["heaps"][0]["protected_end"] = synthetic.HEAP_START + 2 * page_size
    made["pages"]["in_use"], made["pages"]["top"] = (page_size // 16, 0), (0, page_size // 16)
    used = synthetic.chunk(page_size, fmt.ChunkClass.IN_USE)
    made["chunks"] = np.array([*used, *synthetic.chunk(page_size, fmt.ChunkClass.TOP)], fmt.CHUNKS)
    made["heaps"][0]["chunk_count"] = len(made["chunks"])
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    for page, colour in ((0, Colour.USED), (1, Colour.STRANDED)):
        probe = tab.goto(synthetic.HEAP_START + page * page_size, 200)
        assert int(probe["address"], 16) == synthetic.HEAP_START + page * page_size
        assert near(tab.colour(probe["x"] - 90, probe["y"] - 90), rgb(colour))
        assert near(tab.colour(probe["x"] + 90, probe["y"] - 10), rgb(colour))
    assert not tab.said
    tab.context.close()


def checkerboard(tmp_path: Path) -> Dump:
    """Pages in use and returned ones in turn."""
    made = synthetic.sections()
    count = 1 << 20
    end = synthetic.HEAP_START + count * 4096
    made["heaps"][0]["end"] = made["heaps"][0]["protected_end"] = end
    made["heaps"][0]["page_count"], made["heaps"][0]["chunk_count"] = count, 0
    made["pages"] = np.zeros(count, fmt.PAGE)
    made["pages"]["in_use"][::2], made["pages"]["binned"][1::2] = 256, 256
    made["pages"]["residency"][::2] = fmt.Residency.PRESENT
    made["pages"]["state"] = np.where(np.arange(count) % 2 == 0, fmt.PageState.USED, fmt.PageState.RETURNED)
    made["chunks"] = np.zeros(0, fmt.CHUNKS)
    return Dump(synthetic.write(tmp_path / "dump", made))


def test_pixels_of_many_pages_blend_as_light_does(browser: Any, tmp_path: Path) -> None:
    tab = Tab(browser, write(tmp_path, checkerboard(tmp_path)), viewport={"width": 640, "height": 600})
    tab.goto(synthetic.HEAP_START + 4096 * 500_000, 0.5)
    assert tab.js("arenascope.camera.scale") == 0.5
    seen = tab.colour(300, 150)
    # Half the light of red, half that of white.
    light = [
        ((a / 255 + 0.055) / 1.055) ** 2.4 / 2 + 0.5 if a > 10 else a / 255 / 12.92 / 2 + 0.5 for a in (214, 39, 40)
    ]
    wanted = tuple(round(255 * (1.055 * c ** (1 / 2.4) - 0.055)) for c in light)
    assert near(seen, wanted), (seen, wanted)
    pair = [linear(encoded_of(APPEARANCES[colour].phusion)) for colour in (Colour.USED, Colour.RETURNED)]
    still = blended(np.tile(np.array(pair, np.float32), (4, 2, 1)), 4)
    assert near(tuple(int(c) for c in still[0, 0]), wanted)
    tab.context.close()


def test_a_single_lit_page_is_seen_among_thousands(browser: Any, tmp_path: Path) -> None:
    dump = checkerboard(tmp_path)
    pages = dump.pages.copy()
    pages["state"], pages["residency"], pages["in_use"], pages["binned"] = fmt.PageState.RETURNED, 0, 0, 256
    pages["state"][40_000], pages["residency"][40_000] = fmt.PageState.WITHHELD, fmt.Residency.PRESENT
    dump.pages = pages
    tab = Tab(browser, write(tmp_path, dump), viewport={"width": 640, "height": 600})
    tab.page.locator("button[data-light='bytes:6']").click()
    probe = tab.goto(synthetic.HEAP_START + 4096 * 40_000, 0.5)
    # Half a pixel large, it lies on this pixel or on one beside it.
    near_by = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
    lit = max(sum(tab.colour(probe["x"] + x, probe["y"] + y)) for x, y in near_by)
    away = max(sum(tab.colour(probe["x"] + 40 + x, probe["y"] + y)) for x, y in near_by)
    assert lit > away + 90
    tab.context.close()


FREE = (Colour.RELEASABLE, Colour.WITHHELD)


def test_what_is_clicked_lights_up(tab: Tab, one: tuple[Path, Dump]) -> None:
    dump = one[1]
    colours, pages = page_bytes(dump.pages) & 0xF, dump.pages
    resident = ((colours >= Colour.USED) & (colours <= Colour.WITHHELD)) | (colours == Colour.MIXED)
    mmapped = np.repeat(dump.heaps["kind"] == fmt.HeapKind.MMAPPED, dump.heaps["page_count"].astype(int))
    rubys = dump.runtime_pages[(dump.runtime_pages["residency"] & fmt.Residency.PRESENT) != 0]
    arena = int(np.argmax(dump.arenas["heap_count"]))
    first, count = dump.arenas[arena]["first_heap"], dump.arenas[arena]["heap_count"]
    wanted = {
        "row:in_use": (resident & ~mmapped & (pages["in_use"] > 0)).sum(),
        "row:tcache": (resident & (pages["tcache"] > 0)).sum(),
        "row:metadata": (resident & (pages["metadata"] > 0)).sum(),
        "bytes:1": (resident & (pages["in_use"] > 0)).sum() + (rubys["in_use"] > 0).sum(),
        "bytes:4": (resident & ~np.isin(colours, FREE) & (pages["binned"] + pages["top"] > 0)).sum()
        + (rubys["free"] > 0).sum(),
        "state:14": (colours == Colour.MIXED).sum() + ((rubys["in_use"] > 0) & (rubys["free"] > 0)).sum(),
        f"arena:{arena}": dump.heaps["page_count"][first : first + count].sum(),
    }
    for spec, pages_lit in wanted.items():
        button = tab.page.locator(f"button[data-light='{spec}'][data-name]:not([data-go])").first
        button.click()
        assert tab.js("arenascope.litCounts()") == [int(pages_lit)], spec
        assert button.get_attribute("aria-pressed") == "true"
        assert f"{int(pages_lit):,} pages" in tab.page.locator("#lit-name").inner_text()
    tab.page.locator("#unlit").click()
    assert tab.js("arenascope.spec") is None
    assert not tab.page.locator("#lit").is_visible()


def test_pins_of_one_size(tab: Tab, one: tuple[Path, Dump]) -> None:
    """Chunk by chunk: the pages on which a chunk of that size is all that is in use."""
    dump = one[1]
    pinned: dict[int, int] = {}
    for index in range(len(dump.heaps)):
        chunks = dump.heap_chunks(index)
        held = chunks.classes == fmt.ChunkClass.IN_USE
        base = int(dump.heaps[index]["start"]) // 4096 * 4096
        for page in np.flatnonzero(dump.heap_pages(index)["state"] == fmt.PageState.PINNED):
            low = base + int(page) * 4096
            on = held & (chunks.addresses < low + 4096) & (chunks.addresses + chunks.sizes > low)
            assert on.sum() == 1
            pinned[int(chunks.sizes[on][0])] = pinned.get(int(chunks.sizes[on][0]), 0) + 1
    assert pinned
    for button in tab.page.locator("button[data-light^='pin:']").all()[:6]:
        button.click()
        size = int((button.get_attribute("data-light") or "").split(":")[1])
        assert tab.js("arenascope.litCounts()") == [pinned[size]]


def test_search_and_link(tab: Tab, browser: Any, one: tuple[Path, Dump]) -> None:
    address, colour = some(one[1])[4]
    tab.page.fill("#address", hex(address + 0x123))
    tab.page.press("#address", "Enter")
    assert hex(address) in tab.page.locator("#spoken").inner_text()
    assert APPEARANCES[colour].name in tab.page.locator("#card").inner_text()
    tab.until("location.hash.includes('mark=')")
    other = Tab(browser, one[0], "#" + tab.page.url.split("#")[1])
    for what in ("arenascope.views[0].marker", "arenascope.camera.x", "arenascope.camera.y", "arenascope.camera.scale"):
        assert other.js(what) == tab.js(what)
    other.context.close()
    tab.page.fill("#address", "0x10")
    tab.page.press("#address", "Enter")
    assert tab.page.locator("#address").get_attribute("aria-invalid") == "true"


def test_link_of_everything(browser: Any, one: tuple[Path, Dump]) -> None:
    tab = Tab(browser, one[0], "#layout=hilbert&palette=safe&light=state:1")
    assert tab.js("[arenascope.layout.name, arenascope.palette, arenascope.spec]") == ["hilbert", "safe", "state:1"]
    # Nonsense is nothing.
    other = Tab(browser, one[0], "#at=zz&scale=-3&layout=__proto__&light=%E0%A4%A&mark=1&palette=%")
    assert other.js("[arenascope.layout.name, arenascope.spec, arenascope.views[0].marker]") == ["rows", None, -1]
    assert not tab.said + other.said
    tab.context.close()
    other.context.close()


def test_keys(tab: Tab) -> None:
    tab.page.focus("#canvas-0")
    press = tab.page.keyboard.press
    before = tab.js("arenascope.camera.scale")
    press("+")
    assert tab.js("arenascope.camera.scale") == pytest.approx(2 * before)
    press("ArrowRight")
    marker = tab.js("arenascope.views[0].marker")
    assert marker >= 0
    press("ArrowDown")
    assert tab.js("arenascope.views[0].marker") > marker
    assert tab.page.locator("#spoken").inner_text().startswith("0x")
    x = tab.js("arenascope.camera.x")
    press("Shift+ArrowRight")
    assert tab.js("arenascope.camera.x") > x
    press("h")
    assert tab.js("arenascope.layout.name") == "hilbert"
    press("c")
    assert tab.js("document.documentElement.dataset.palette") == "safe"
    press("0")
    assert tab.js("arenascope.camera.scale") == tab.js("arenascope.views[0].wholeScale()")
    tab.page.locator("button[data-light='state:2']").click()
    tab.page.focus("#canvas-0")
    press("n")
    first = tab.js("arenascope.views[0].marker")
    press("n")
    assert tab.js("arenascope.views[0].marker") != first
    press("p")
    assert tab.js("arenascope.views[0].marker") == first
    assert "pinned" in tab.page.locator("#spoken").inner_text()
    assert tab.page.locator("#card").is_visible()
    press("Escape")
    assert tab.js("arenascope.spec") is None
    assert tab.js("arenascope.views[0].marker") == -1
    assert tab.page.locator("#card").is_hidden()
    press("/")
    assert tab.js("document.activeElement.id") == "address"


def test_what_lights_up_comes_into_view(tab: Tab) -> None:
    """On a narrow page the map is below the tables."""
    tab.page.set_viewport_size({"width": 400, "height": 700})
    button = tab.page.locator("table button[data-light^='row:']").first
    button.scroll_into_view_if_needed()
    tab.js("() => window.scrollBy(0, -document.getElementById('maps').getBoundingClientRect().top + 900)")
    button.evaluate("button => button.click()")
    tab.until("() => document.getElementById('maps').getBoundingClientRect().top < window.innerHeight")


def test_pointer_wheel_and_pinch(tab: Tab) -> None:
    canvas = tab.page.locator("#canvas-0")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    # How many pages there are differs from run to run: a place that has some around it, near the middle.
    place = tab.js("""() => {
        const view = arenascope.views[0], places = [], near = [-2, 0, 2];
        for (let x = view.gutter + 110; x < view.width - 10; x += 3)
            for (let y = 10; y < view.height - 10; y += 2)
                if (near.every(dx => near.every(dy => view.pageAt(x + dx, y + dy) >= 0))) places.push([x, y]);
        const far = ([x, y]) => Math.abs(x - 600) + Math.abs(y - 200);
        return places.sort((a, b) => far(a) - far(b))[0].map(Math.round);
    }""")
    x, y = box["x"] + place[0], box["y"] + place[1]
    tab.page.mouse.move(x, y)
    below = tab.js("([x, y]) => arenascope.views[0].toCell(x, y)", place)
    before = tab.js("arenascope.camera.scale")
    tab.page.mouse.wheel(0, -1200)
    tab.until("before => arenascope.camera.scale > 2 * before", before)
    # Around the pointer: what is below it stays there.
    assert tab.js("([x, y]) => arenascope.views[0].toCell(x, y)", place) == pytest.approx(below, abs=0.5)
    tab.page.locator("#card").wait_for(state="visible")  # in the frame after this one, when all is drawn
    x0 = tab.js("arenascope.camera.x")
    tab.page.mouse.down()
    tab.page.mouse.move(x - 100, y, steps=4)
    tab.page.mouse.up()
    assert tab.js("arenascope.camera.x") == pytest.approx(x0 + 100 / tab.js("arenascope.camera.scale"), rel=0.05)
    scale = tab.js("arenascope.camera.scale")
    tab.js("""() => {
        const canvas = document.getElementById("canvas-0"), box = canvas.getBoundingClientRect();
        canvas.setPointerCapture = () => {};
        const send = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: id, pointerType: "touch",
            clientX: box.left + x, clientY: box.top + 150, bubbles: true }));
        send("pointerdown", 11, 400); send("pointerdown", 12, 500);
        send("pointermove", 11, 350); send("pointermove", 12, 550);
        send("pointerup", 11, 350); send("pointerup", 12, 550);
    }""")
    assert tab.js("arenascope.camera.scale") == pytest.approx(2 * scale)


def test_numbers_are_those_of_the_json(tab: Tab, one: tuple[Path, Dump]) -> None:
    summary = document_of(one[1])
    shown = tab.js("""() => Object.fromEntries([...document.querySelectorAll("td[data-key]")]
        .map(cell => [cell.dataset.key, Number(cell.dataset.bytes)]))""")
    known = {**summary["ledger"], **summary["absent"], "hugetlb": summary["hugetlb"], "rss": summary["kernel"]["rss"]}
    assert shown == {name: held for name, held in known.items() if held}
    rows = tab.js("""() => [...document.querySelectorAll("#arenas tbody tr")].map(row =>
        [row.querySelector("th code").textContent,
         ...[...row.querySelectorAll("td[data-bytes]")].map(c => Number(c.dataset.bytes))])""")
    wanted = []
    for arena in summary["arenas"]:
        held = arena["ledger"]
        cells = [
            held["in_use"],
            held["tcache"] + held["fastbin"],
            held["stranded"],
            held["releasable"],
            held["withheld"],
        ]
        wanted.append([arena["address"], *cells, sum(cells[1:]), arena["heaps"]])
    assert sorted(rows) == sorted(wanted)
    pins = tab.js("""() => [...document.querySelectorAll("#pins tbody tr")].map(row =>
        [...row.querySelectorAll("[data-bytes]")].map(c => Number(c.dataset.bytes)))""")
    keys = ("chunk_size", "count", "pages", "stranded", "tails", "tail_bytes", "in_use")
    assert pins == [[pin[key] for key in keys] for pin in summary["pins"][: len(pins)]]


def test_bytes_of_a_page_are_those_of_its_record(tab: Tab, one: tuple[Path, Dump]) -> None:
    dump = one[1]
    addresses, bad = page_addresses(dump), []
    for place in np.linspace(0, len(dump.pages) - 1, 200).astype(int):
        counts = tab.js(
            """address => { const m = arenascope, p = m.all[0], i = m.regions.find(address);
            return [p.units.in_use[i], p.units.tcache[i], p.units.fastbin[i], p.binned(i), p.units.top[i],
                    p.units.metadata[i], p.units.unknown[i]]; }""",
            int(addresses[place]),
        )
        if counts != [
            int(dump.pages[place][name])
            for name in ("in_use", "tcache", "fastbin", "binned", "top", "metadata", "unknown")
        ]:
            bad.append(int(place))
    assert not bad


def test_tables_sort(tab: Tab) -> None:
    tab.page.locator("#arenas button.sort", has_text="in use").click()
    column = "[...document.querySelectorAll('#arenas tbody tr')].map(row => Number(row.cells[2].dataset.bytes))"
    assert tab.js(column) == sorted(tab.js(column), reverse=True)
    tab.page.locator("#arenas button.sort", has_text="in use").click()
    assert tab.js(column) == sorted(tab.js(column))


def test_before_and_after(browser: Any, two: tuple[Path, Dump, Dump]) -> None:
    path, before, after = two
    tab = Tab(browser, path)
    released = int(before.meta["rss"]) - int(after.meta["rss"])
    assert re.search(rf"{released / 2**20:.1f}\sMiB less", tab.page.locator("h1").inner_text())
    changed = tab.js("() => { arenascope.light('changed'); return arenascope.litCounts(); }")
    assert changed[0] == changed[1] > released // 4096 * 0.95
    tab.js("arenascope.light(null)")
    places, states = page_addresses(before), page_bytes(before.pages) & 0xF
    address = int(places[np.flatnonzero(states == Colour.RELEASABLE)[100]])
    probe = tab.goto(address, 14)
    assert probe["states"] == ["releasable", "returned"]
    assert near(tab.seen(probe, 0), rgb(Colour.RELEASABLE))
    assert near(tab.seen(probe, 1), rgb(Colour.RETURNED))
    difference = tab.js("""() => [...document.querySelectorAll("#ledger tbody tr")].map(row =>
        [...row.querySelectorAll("td[data-bytes]")].map(c => Number(c.dataset.bytes)))""")
    rows = [line for line in difference if len(line) == 3]
    assert len(rows) > 5
    assert all(last - first == shown for first, last, shown in rows)
    assert not tab.said
    tab.context.close()


def test_what_is_unknown_and_what_is_not_there(browser: Any, tmp_path: Path) -> None:
    """No residency: chunks instead of rows, and never a 0. No heaps: no map, and nothing that would want one."""
    made = synthetic.sections()
    made["meta"][0]["flags"] = fmt.MetaFlag.HAS_CHUNKS
    for row in (*fmt.LEDGER_ROWS, *fmt.ABSENT_ROWS, *fmt.FORECAST_ROWS):
        made["totals"][0]["ledger"][row] = made["arenas"][0]["ledger"][row] = fmt.UNKNOWN
    made["meta"][0]["rss"] = fmt.UNKNOWN
    made["pages"]["residency"], made["pages"]["state"] = fmt.Residency.UNKNOWN, fmt.PageState.UNKNOWN
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    assert "It is unknown" in tab.page.locator("h1").inner_text()
    assert tab.js("document.querySelectorAll('#ledger [data-bytes]').length") == len(fmt.TALLY_NAMES)
    cells = tab.page.locator("#arenas tbody tr").inner_text()
    assert "unknown" not in cells
    assert "in bins" in tab.page.locator("#arenas thead").inner_text()
    assert not tab.said
    tab.context.close()

    for name in ("heaps", "pages", "arenas", "threads", "chunks", "ruby"):
        made[name] = made[name][:0]
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    assert tab.page.locator("canvas, button[data-light]").count() == 0
    assert "nothing to draw" in tab.page.locator("#map").inner_text()
    assert not tab.said
    tab.context.close()
