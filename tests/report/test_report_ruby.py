# SPDX-License-Identifier: MIT
"""Ruby's own heap in the report: of real Rubies, whose pages lie in malloc's arenas (2.7) and beside them (3.1)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import cores, harness, interpreters, tiers
from tools import synthetic_dump as synthetic
from tools.tab import Tab, page_addresses, write

from arenascope.humanize import share, size
from arenascope.report.map.order import regions
from arenascope.report.page import ruby
from arenascope.report.page.inputs import PageFacts
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of

# As the demo: threads make strings and drop most of them; of the objects every third is dropped.
BURST = """
done = Queue.new
threads = Array.new(6) do |seed|
  Thread.new do
    random, kept = Random.new(seed), Array.new(40)
    2_000.times { kept[random.rand(40)] = "x" * (1024 * 64**random.rand).to_i }
    kept.fill(nil, 4)
    done << true
    sleep
  end
end
6.times { done.pop }
objects = Array.new(50_000) { |i| "object #{i}" }
(0...50_000).step(3) { |i| objects[i] = nil }
GC.start
$stdout.puts "ready"
$stdout.flush
sleep
"""


def burst(arenadump: harness.Arenadump, release: str, folder: Path, *, core: bool = False) -> Dump:
    interpreter = interpreters.ruby(release)
    command = interpreter.command("-e", BURST)
    with subprocess.Popen(command, env=interpreter.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            target = cores.gcore(process.pid, folder) if core else process.pid
            arenadump.check("dump", "-o", folder / "dump", target)
        finally:
            process.kill()
    return Dump(folder / "dump")


@pytest.fixture(scope="module", params=tiers.runtimes(["2.7", "3.1"]))
def bloated(
    request: pytest.FixtureRequest, arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory
) -> Dump:
    return burst(arenadump, request.param, tmp_path_factory.mktemp("ruby"))


def section(*dumps: Dump) -> Any:
    laid = regions(dumps)
    return ruby.section([PageFacts(dump) for dump in dumps], laid)


def test_the_chart_is_rss_and_its_first_parts_are_rubys_heap(bloated: Dump) -> None:
    summary = document_of(bloated)
    held = ruby.parts(PageFacts(bloated))
    assert sum(number or 0 for number in held.values()) == summary["kernel"]["rss"]
    assert held["unsplit"] == 0
    live = sum(of["slot_size"] * (of["slots"] - of["free_slots"]) for of in summary["ruby"]["slot_sizes"])
    assert held["live"] == live > 33_000 * 40  # two thirds of those objects
    ledger = summary["ledger"]
    assert live + (held["free"] or 0) == ledger["ruby_pages"]
    # The other third, and less than a page's head and remainder a page besides.
    slots = sum(of["slot_size"] * of["free_slots"] for of in summary["ruby"]["slot_sizes"])
    assert slots > 16_000 * 40
    assert abs((held["free"] or 0) - slots) < 4096 * summary["ruby"]["pages"]
    assert held["whole"] == ledger["releasable"] + ledger["withheld"]
    assert held["scattered"] == ledger["stranded"] + ledger["tcache"] + ledger["fastbin"]


def test_the_conclusion_is_this_processs(bloated: Dump) -> None:
    summary, facts = document_of(bloated), PageFacts(bloated)
    rss, held, of = summary["kernel"]["rss"], summary["ledger"]["ruby_pages"], summary["ruby"]
    says = ruby.sentences(facts)
    assert says[0].startswith(f"Ruby's own heap is {size(held)}, {share(held, rss)} of Rss; ")
    assert f"{share(of['free_slots'], of['slots'])} of its slots are free" in says[0]
    whole = summary["ledger"]["releasable"] + summary["ledger"]["withheld"]
    assert f"{size(whole)} of whole free pages, {share(whole, rss)} of Rss" in says[1]
    assert says[2].startswith("Whole free pages make this process large, as in the article")


def test_of_each_arena(bloated: Dump) -> None:
    summary = document_of(bloated)
    lines = {line.name: line for line in section(bloated).arenas}
    assert len(lines) == len(summary["arenas"]) > 5
    for arena in summary["arenas"]:
        line, ledger = lines[arena["name"]], arena["ledger"]
        assert line.resident.exact == sum(ledger.values()) == sum(cell.exact for cell in line.cells)
        own, whole, scattered, _ = (cell.exact for cell in line.cells)
        assert own == ledger["ruby_pages"]
        assert whole == ledger["releasable"] + ledger["withheld"]
        assert scattered == ledger["stranded"] + ledger["tcache"] + ledger["fastbin"]
    in_arenas = sum(line.cells[0].exact for line in lines.values())
    release = summary["ruby"]["releases"]
    assert in_arenas == (summary["ledger"]["ruby_pages"] if release == "2.6 to 3.0" else 0)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_on_the_page(browser: Any, bloated: Dump, tmp_path: Path, width: int, scheme: str) -> None:
    summary = document_of(bloated)
    tab = Tab(browser, write(tmp_path, bloated), viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert tab.js("document.documentElement.scrollWidth") <= width
    shown = tab.js("""() => Object.fromEntries([...document.querySelectorAll("#ruby tr[data-part]")]
        .map(row => [row.dataset.part, Number(row.querySelector("td").dataset.bytes)]))""")
    assert shown == {name: held for name, held in ruby.parts(PageFacts(bloated)).items() if held}
    slots = tab.js("""() => [...document.querySelectorAll("#ruby .slots tbody tr")].map(row =>
        [row.querySelector("th").textContent,
         ...[...row.querySelectorAll("td[data-count]")].map(cell => Number(cell.dataset.count))])""")
    of = summary["ruby"]
    by_size = sorted(of["slot_sizes"], key=lambda line: (line["slot_size"] == 0, line["slot_size"]))
    sizes = [(f"{line['slot_size']} B" if line["slot_size"] else "in reserve", line) for line in by_size]
    assert slots == [
        [name, line["pages"], line["slots"], line["slots"] - line["free_slots"], line["free_slots"]]
        for name, line in [*sizes, ("all", of)]
    ]
    # The bar has its parts' lengths, in colours that differ.
    bar = tab.js("""() => [...document.querySelectorAll("#ruby .bar rect")].map(part =>
        [parseFloat(part.getAttribute("width")), getComputedStyle(part).fill])""")
    assert [per_cent for per_cent, _ in bar] == pytest.approx(
        [100 * held / summary["kernel"]["rss"] for held in shown.values()], abs=0.001
    )
    assert len({colour for _, colour in bar}) == len(bar)
    column = tab.js("[...document.querySelectorAll('#arenas thead th')].some(th => th.textContent == \"Ruby's pages\")")
    assert column == (of["releases"] == "2.6 to 3.0")
    tab.page.locator("#ruby .arenas button.light").first.click()
    assert tab.js("arenascope.spec").startswith("arena:")
    assert not tab.said
    tab.context.close()


def test_on_the_map(browser: Any, bloated: Dump, tmp_path: Path) -> None:
    """Those in malloc's arenas: they light up, and each of their pages tells of its slots."""
    tab = Tab(browser, write(tmp_path, bloated))
    buttons = tab.page.locator("button[data-light='row:ruby_pages']")
    if (bloated.ruby["heap"] == fmt.NO_INDEX).all():
        buttons.first.click()
        assert tab.js("arenascope.litCounts()") == [int(bloated.totals["ledger"]["ruby_pages"]) // 4096]
        assert "separate mappings" in tab.page.locator("#ruby").inner_text()
        tab.context.close()
        return
    resident = {
        int(address) for address in page_addresses(bloated)[bloated.pages["residency"] & fmt.Residency.PRESENT > 0]
    }
    rubys = {
        address: page
        for page in bloated.ruby
        for address in range(int(page["address"]), int(page["address"] + page["size"]), 4096)
        if address in resident
    }
    assert len(rubys) > 500
    for button in (buttons.first, tab.page.locator("#ruby .show button")):
        tab.js("arenascope.light(null)")
        button.click()
        assert tab.js("arenascope.litCounts()") == [len(rubys)]
    for address in (min(rubys), max(rubys)):
        page = rubys[address]
        words = f"{page['free_slots']} of {page['total_slots']} slots of 40 bytes are free"
        tab.page.fill("#address", hex(address))
        tab.page.press("#address", "Enter")
        assert words in tab.page.locator("#card").inner_text()
        assert words in tab.page.locator("#spoken").inner_text()
    other = next(address for address in sorted(resident) if address not in rubys)
    tab.page.fill("#address", hex(other))
    tab.page.press("#address", "Enter")
    assert "slots" not in tab.page.locator("#card").inner_text()
    assert not tab.said
    tab.context.close()


def test_two_snapshots_of_one_process(bloated: Dump) -> None:
    both = section(bloated, bloated)
    assert both.bars[0] == both.bars[1]
    assert both.parts
    assert all(line.change.exact == 0 for line in both.parts)


def test_where_residency_is_not_known_slots_are_counted_still(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = burst(arenadump, "3.1", tmp_path, core=True)
    assert not document_of(dump)["snapshot"]["residency_known"]
    of = section(dump)
    assert of.slots[-1].numbers[0] == document_of(dump)["ruby"]["pages"] > 100
    assert of.says == of.bars == of.parts == of.arenas == []


def made(folder: Path, rss: int, swap: int, free: int, **ledger: int) -> PageFacts:
    """A dump that says so: of a Ruby with one page of 10,000 slots, so many of which are free."""
    sections = synthetic.sections()
    page = np.zeros(1, fmt.RUBY_PAGE)
    page["address"], page["size"], page["slot_size"], page["heap"] = 0x7E0000000000, 400_000, 40, fmt.NO_INDEX
    page["total_slots"], page["free_slots"], page["resident"] = 10_000, free, ledger["ruby_pages"]
    sections["ruby"] = page
    sections["meta"]["ruby"], sections["meta"]["rss"], sections["meta"]["swap"] = fmt.RubyState.FOUND, rss, swap
    own = sections["totals"]["ledger"]
    for name in ("in_use", "tcache", "fastbin", "stranded", "releasable", "withheld", "metadata"):
        own[name] = 0
    for name, value in ledger.items():
        own[name] = value
    return PageFacts(Dump(synthetic.write(folder / "dump", sections)))


@pytest.mark.parametrize(
    ("most", "held"),
    [
        ("Whole free pages", {"free": 2_000, "withheld": 400_000, "stranded": 100_000}),
        ("Fragmentation of malloc's heaps", {"free": 2_000, "withheld": 100_000, "stranded": 400_000}),
        ("Ruby's own heap could be smaller", {"free": 9_000, "withheld": 100_000, "stranded": 100_000}),
        ("Little of Rss is free", {"free": 1_000, "withheld": 50_000, "stranded": 50_000}),
    ],
)
def test_what_makes_it_large(tmp_path: Path, most: str, held: dict[str, int]) -> None:
    free = held.pop("free")
    facts = made(tmp_path, 1_000_000, 0, free, ruby_pages=400_000, **held)
    assert ruby.parts(facts)["live"] == 40 * (10_000 - free)
    assert ruby.sentences(facts)[-1].startswith(most)


def test_what_is_swapped_out_is_not_told_apart(tmp_path: Path) -> None:
    facts = made(tmp_path, 1_000_000, 100_000, 9_000, ruby_pages=300_000)
    held = ruby.parts(facts)
    assert (held["unsplit"], held["live"], held["free"]) == (300_000, 0, 0)
    assert "in fragmented pages" not in ruby.sentences(facts)[0]
