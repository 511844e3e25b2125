# SPDX-License-Identifier: MIT
"""What the report says of who allocated: its tables, its chart, and what they light up on the map."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from profiles.test_profile_pages import SITES, Pinning, pinning_pages
from profiles.test_profile_python import command, truth
from report.test_report_graph import EVIL, rows
from tools import harness, tiers
from tools import synthetic_dump as synthetic
from tools.profiling import profile
from tools.stage import Stage
from tools.tab import Tab, write

from arenascope.humanize import size
from arenascope.profiles.call_tree import DEEPEST, grow, numbered, place_of
from arenascope.profiles.language import OTHER, UNKNOWN, language_of
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.profile import Module, Profile, Site, SourceLine, StackFrame


class Pinned(NamedTuple):
    dump: Dump
    pinning: Pinning
    answer: dict[str, Any]
    page: Path


@pytest.fixture(scope="module")
def kept(agent: Path, arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Pinned:
    folder = tmp_path_factory.mktemp("kept")
    with pinning_pages(agent, "exact") as pinning:
        arenadump.check("dump", "--chunks", "-o", folder / "dump", pinning.process.pid)
    dump = Dump(folder / "dump")
    return Pinned(dump, pinning, profile(arenadump, folder / "dump"), write(folder, dump))


@pytest.fixture
def tab(kept: Pinned, browser: Any) -> Iterator[Tab]:
    opened = Tab(browser, kept.page)
    yield opened
    said = opened.said
    opened.context.close()
    assert not said


def sites(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The sites of the program, by their letter."""
    found = {}
    for site in answer["sites"]:
        name = (site["stack"][0]["functions"] or [{"name": ""}])[-1]["name"]
        if match := re.fullmatch("site_([a-h])", name):
            found[match[1]] = site
    return found


def pages_of(kept: Pinned, letters: str) -> set[int]:
    """The pages on which these sites have a chunk, by the program's own word and the chunks of the dump."""
    found: set[int] = set()
    for heap in range(len(kept.dump.heaps)):
        chunks = kept.dump.heap_chunks(heap)
        for at, length, kind in zip(chunks.addresses.tolist(), chunks.sizes.tolist(), chunks.classes.tolist()):
            if kind == fmt.ChunkClass.IN_USE and kept.pinning.site_of.get(at, "?") in letters:
                found.update(page * 4096 for page in range(at // 4096, (at + length - 1) // 4096 + 1))
    return found


def lit(tab: Tab) -> set[int]:
    script = "() => [...arenascope.masks[0]].flatMap((on, i) => on ? [arenascope.regions.address(i)] : [])"
    return {int(address) for address in tab.js(script)}


def test_tables_are_the_profile(kept: Pinned, tab: Tab) -> None:
    functions = rows(tab, "profile-functions")
    stacks = rows(tab, "pin-sites-table")
    for letter, site in sites(kept.answer).items():
        held, bytes_, allocated = site["pinned"], site["in_use"]["bytes"], site["allocated"]["bytes"]
        # What no sample met is not known, and no number.
        answer = [bytes_, bytes_, *([allocated] if allocated else []), held["pinned"], held["stranded"]]
        assert functions[f"site_{letter}"] == answer
        if held["pinned"]:
            pair = f"{'in_thread' if letter in 'gh' else 'main'} → site_{letter}"
            assert stacks[pair] == [bytes_, held["pinned"], held["stranded"], held["pages"], held["returned"]]
    main = [
        site["in_use"]["bytes"]
        for site in kept.answer["sites"]
        if any(function["name"] == "main" for frame in site["stack"] for function in frame["functions"])
    ]
    assert functions["main"][1] == sum(main)
    pages = sites(kept.answer)["a"]["pinned"]["pages"]
    words = tab.page.locator("#profile .pins li").first.inner_text()
    assert words.startswith(f"{pages:,} pages are kept by nothing but main → site_a, which has ")


@pytest.mark.parametrize("letter", SITES)
def test_a_click_lights_the_pages(kept: Pinned, tab: Tab, letter: str) -> None:
    """In the chart, and in the table: the pages on which the program says it has these blocks."""
    wanted = pages_of(kept, letter)
    tab.page.locator("#profile-functions button", has_text=f"site_{letter}").click()
    assert lit(tab) == wanted
    assert f"allocated by site_{letter}: {len(wanted):,} pages" == tab.page.locator("#lit-name").inner_text()
    tab.js("arenascope.light(null)")
    tab.page.fill("#flame-find", f"site_{letter}")
    tab.page.locator("#flame g.found").first.dispatch_event("click")
    assert lit(tab) == wanted
    assert f"site_{letter}" in tab.page.locator("#flame-said").inner_text()


def test_a_caller_lights_the_pages_of_all_that_it_calls(kept: Pinned, tab: Tab) -> None:
    named = "[...document.querySelectorAll('#flame g')].findIndex(g => g.lastChild.textContent.startsWith('main  '))"
    tab.page.locator("#flame g").nth(tab.js(named)).dispatch_event("click")
    main = lit(tab)
    assert main >= pages_of(kept, "abcdef")
    assert not main & (pages_of(kept, "gh") - pages_of(kept, "abcdef"))
    tab.page.click("#flame-show")
    assert "allocated by __libc_start_call_main → main" in tab.page.locator("#lit-name").inner_text()
    assert "light=call:" in tab.js("new Promise(done => setTimeout(() => done(location.hash), 300))")


def test_a_page_says_who_allocated(kept: Pinned, tab: Tab) -> None:
    for letter, pair in (("a", "main → site_a"), ("g", "in_thread → site_g")):
        alone = min(pages_of(kept, letter) - pages_of(kept, SITES.replace(letter, "") + "?"))
        tab.js("at => arenascope.setMarker(arenascope.regions.find(at))", alone)
        assert f"Allocated by {pair}." in tab.page.locator("#card").inner_text()
        assert f"Allocated by {pair}." in tab.page.locator("#spoken").inner_text()


def test_the_measures_add_up(kept: Pinned, tab: Tab) -> None:
    """The bar of all has the sum of all sites, and each measure its own chart."""
    wanted: dict[str, int] = defaultdict(int)
    for site in kept.answer["sites"]:
        wanted["bytes in use"] += site["in_use"]["bytes"]
        wanted["chunks in use"] += site["in_use"]["count"]
        wanted["pages kept by one chunk each"] += site["pinned"]["pinned"]
        wanted["bytes stranded"] += site["pinned"]["stranded"]
        wanted["bytes returned"] += site["pinned"]["returned"]
    options = tab.page.locator("#flame-measure option").all_inner_texts()
    assert len(options) == 6
    for words, value in wanted.items():
        (option,) = (each for each in options if each.startswith(words))
        tab.page.select_option("#flame-measure", label=option)
        shown = size(value) if words.startswith("bytes") else f"{value:,}"
        assert tab.page.locator("#flame g text").first.inner_html().startswith(f"all  {shown}"), words
        title = tab.page.locator("#flame g title").first.text_content()
        assert re.fullmatch(rf"all: {shown} .*{words.split()[1]}.* \(100\.0 %\)", title), title
    tab.page.select_option("#flame-measure", label=next(each for each in options if each.startswith("pages")))
    tab.page.fill("#flame-find", "site_e")
    few = sites(kept.answer)["e"]["pinned"]["pinned"]
    assert 0 < few < 100
    assert tab.page.locator("#flame-found").inner_text() == f"1 found, {few} kept by one chunk each"


def test_the_chart_can_be_searched_walked_and_turned(tab: Tab) -> None:
    tab.page.fill("#flame-find", "libc")
    assert "found, " in tab.page.locator("#flame-found").inner_text()
    assert tab.page.locator("#flame .found").count() >= 2
    tab.page.fill("#flame-find", "")
    tab.page.locator("#flame").focus()
    said = tab.page.locator("#flame-said")
    for _ in range(4):
        tab.page.keyboard.press("ArrowUp")
    assert "main" in said.inner_text()
    bars = tab.page.locator("#flame g").count()
    tab.page.keyboard.press("ArrowUp")
    first = said.inner_text()
    tab.page.keyboard.press("ArrowRight")
    assert said.inner_text() != first
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("#flame-up").is_enabled()
    assert tab.page.locator("#flame g").count() < bars
    tab.page.keyboard.press("Backspace")
    top = "() => Number(document.querySelector('#flame rect').getAttribute('y'))"
    assert tab.js(top) > 0
    tab.page.click("#flame-down-side")
    assert tab.js(top) == 0
    tab.page.select_option("#flame-group", "modules")
    names = tab.page.locator("#flame g text").all_text_contents()
    assert any(name.startswith("libc.so.6") for name in names)
    assert not any("site_" in name for name in names)


def test_the_chart_by_languages(stage: Stage, arenadump: harness.Arenadump, browser: Any) -> None:
    """All that Python has called is Python's, and what runs Python is not."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    how, environment = command("3.11", str(file))
    pid = stage.start(how, ARENASCOPE_PROFILE="exact", **environment).pid
    truth(file)
    arenadump.check("dump", pid, "-o", dump)
    tab = Tab(browser, write(stage.folder, Dump(dump)))
    tab.page.select_option("#flame-group", "languages")
    names = {name.rstrip("…") for name in tab.page.locator("#flame g text").all_text_contents()} - {""}
    whole = [each for each in names if each.startswith(("Python", OTHER))]
    assert len(whole) >= 2
    assert all(each.startswith("all") or "Python".startswith(each[:6]) or OTHER.startswith(each[:6]) for each in names)
    assert not tab.page.locator("#flame-show").is_enabled()
    tab.page.select_option("#flame-group", "functions")
    assert any("frames.py:" in name for name in tab.page.locator("#flame g text").all_text_contents())
    assert not tab.said
    tab.context.close()


def test_the_language_of_compiled_code() -> None:
    """Names as V8 and HotSpot write them into their perf maps."""

    def of(name: str, file: str = "", module: Module | None = None, *, java: bool = False) -> str:
        return language_of(name, StackFrame(1, module, (SourceLine(name, file, 0),)), java=java)

    library = Module("/lib/libx.so", "", 0)
    assert of("JS:*serve /srv/app.js:10:3") == of("Builtin:ArrayMap") == "JavaScript"
    assert of("java.lang.String java.lang.String.concat(java.lang.String)", java=True) == "Java"
    assert of("jitted") == "compiled at run time"
    assert of("main.main", "/src/main.go", library) == "Go"
    assert of("core::fmt::write", "/src/fmt.rs", library) == "Rust"
    assert of("JS:no", "/src/x.c", library) == of("java", "", library, java=True) == OTHER
    assert language_of("0x1", StackFrame(1), java=True) == UNKNOWN


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_axe_finds_nothing_and_a_phone_has_room(kept: Pinned, browser: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    tab = Tab(browser, kept.page, color_scheme=scheme, bypass_csp=True)
    tab.page.fill("#flame-find", "main")
    tab.js(source)
    for part in ("#profile", "#pin-sites"):
        violations = tab.js(f"axe.run('{part}').then(found => found.violations)")
        shown = [(v["id"], [node["html"][:120] for node in v["nodes"]][:4]) for v in violations]
        assert not shown, json.dumps(shown, indent=1)
    tab.page.set_viewport_size({"width": 400, "height": 800})
    tab.still()
    assert tab.js("document.documentElement.scrollWidth") <= 400
    assert tab.js("document.querySelector('#flame svg').clientWidth") <= 400
    tab.context.close()


def test_a_profile_without_an_allocation(browser: Any, tmp_path: Path) -> None:
    """A sentence, and no chart and no table of nothing."""
    made = synthetic.with_graph()
    for name in ("profile_sites", "profile_places", "profile_pins", "profile_shares"):
        made[name] = made[name][:0]
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    assert "No allocation was recorded: the program made none, or" in tab.page.locator("#profile").inner_text()
    assert tab.page.locator("#flame").count() == tab.page.locator("#profile-functions").count() == 0
    assert not tab.said
    tab.context.close()


def test_names_of_the_target_stay_text(browser: Any, tmp_path: Path) -> None:
    made = synthetic.with_graph()
    strings = bytearray(made["strings"].tobytes())
    evil = len(strings)
    made["strings"] = np.frombuffer(bytes(strings + EVIL.replace(b"/", b"|") + b"\n\\u2028\0"), fmt.STRINGS)
    made["profile_modules"]["path"] = evil
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made))))
    tab.js("arenascope.setMarker(0)")
    tab.page.locator("#flame g").last.dispatch_event("click")
    tab.page.fill("#flame-find", "script")
    tab.page.select_option("#flame-group", "modules")
    assert tab.js("window.owned") is None
    assert tab.js("document.images.length") == 0
    assert tab.js("[...document.scripts].filter(s => !s.type.startsWith('application/')).length") == 1
    assert "<script>" in tab.page.locator("#profile-functions").inner_text()
    assert "<script>" in tab.page.locator("#flame").inner_text()
    assert not tab.said
    tab.context.close()


def test_before_and_after_have_the_calls_of_the_second(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    with pinning_pages(agent, "exact") as pinning:
        arenadump.check("dump", "-o", tmp_path / "before", pinning.process.pid)
        pinning.free("a")
        arenadump.check("dump", "-o", tmp_path / "after", pinning.process.pid)
    tab = Tab(browser, write(tmp_path, Dump(tmp_path / "before"), Dump(tmp_path / "after")))
    assert not any(name == "site_a" and numbers[0] for name, numbers in rows(tab, "profile-functions").items())
    tab.page.locator("#profile-functions button", has_text="site_e").click()
    first, last = tab.js("arenascope.litCounts()")
    assert first == last > 100
    tab.context.close()
    assert not tab.said


def test_estimates_are_called_so(agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path) -> None:
    """With pages left out: what is unknown then has no column, and no measure in the chart."""
    with pinning_pages(agent, "pages=4") as pinning:
        arenadump.check("dump", "-o", tmp_path / "dump", pinning.process.pid)
    tab = Tab(browser, write(tmp_path, Dump(tmp_path / "dump")))
    assert "All numbers are estimates." in tab.page.locator("#profile").inner_text()
    assert "Pins and stranded bytes are estimates" in tab.page.locator("#pin-sites").inner_text()
    assert tab.page.locator("#pin-sites-table thead th").count() == 5
    assert not any("returned" in each for each in tab.page.locator("#flame-measure option").all_inner_texts())
    words = tab.page.locator("#profile .pins li").first.inner_text()
    assert re.match(r"About [0-9]+ pages are kept by single chunks of main → site_a, which has ", words)
    tab.page.locator("#profile-functions button", has_text="site_a").click()
    assert tab.js("arenascope.litCounts()")[0] > 50
    tab.context.close()
    assert not tab.said


def test_a_deep_stack_belongs_to_its_innermost_function(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    """400 calls deep: in table, chart and card the same function has the bytes, and what is missing is said."""
    with pinning_pages(agent, "exact", "deep_sites") as pinning:
        arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", pinning.process.pid)
    answer = profile(arenadump, tmp_path / "dump")
    (deep,) = (site for site in answer["sites"] if not site["complete"])
    dump = Dump(tmp_path / "dump")
    kept = Pinned(dump, pinning, answer, write(tmp_path, dump))
    tab = Tab(browser, kept.page)
    assert f"1 of {len(answer['sites'])} stacks lack outer frames." in tab.page.locator("#profile").inner_text()
    bytes_ = deep["in_use"]["bytes"]
    assert bytes_ == 300 * 1008
    assert rows(tab, "profile-functions")["leaf"][:2] == [0, bytes_]
    tab.page.fill("#flame-find", "leaf")
    assert tab.page.locator("#flame-found").inner_text() == f"1 found, {size(bytes_)} in use"
    tab.page.locator("#flame g.found").dispatch_event("click")
    assert lit(tab) == pages_of(kept, "a")
    alone = min(pages_of(kept, "a") - pages_of(kept, "b?"))
    tab.js("at => arenascope.setMarker(arenascope.regions.find(at))", alone)
    assert "Allocated by keep → ask." in tab.page.locator("#card").inner_text()
    said = tab.page.locator("#flame-said").inner_text()
    assert re.match(r"… . ((odd|even) . ){200,260}leaf: ", said), said
    assert not tab.said
    tab.context.close()


def test_the_marked_bar_of_a_high_chart_is_seen(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    """Keys and Find go to bars far above the root, and leave the chart where it is if they can."""
    with pinning_pages(agent, "exact", "deep_sites") as pinning:
        arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", pinning.process.pid)
    tab = Tab(browser, write(tmp_path, Dump(tmp_path / "dump")))
    tab.page.locator("#flame").scroll_into_view_if_needed()
    scrolled = "document.getElementById('flame').scrollTop"
    bottom = tab.js(scrolled)
    assert bottom > 2000
    seen = """kind => {
        const at = name => document.querySelector(name).getBoundingClientRect();
        const [bar, chart] = [at(`#flame .${kind} rect`), at("#flame")];
        const [first, last] = [Math.max(chart.top, 0), Math.min(chart.bottom, innerHeight)];
        return first - 1 <= bar.top && bar.bottom <= last + 1;
    }"""
    tab.page.locator("#flame").focus()
    for _ in range(60):
        tab.page.keyboard.press("ArrowUp")
        assert tab.js(seen, "marked")
    above = tab.js(scrolled)
    assert 0 < above < bottom - 300
    for _ in range(5):
        tab.page.keyboard.press("ArrowDown")
    assert tab.js(scrolled) == above
    tab.page.fill("#flame-find", "leaf")
    assert tab.js(seen, "found")
    high = tab.js(scrolled)
    assert high < above - 1000
    tab.page.fill("#flame-find", "")
    assert tab.js(seen, "marked")
    tab.page.fill("#flame-find", "ask")
    high = tab.js(scrolled)
    tab.page.locator("#flame g.found").first.dispatch_event(
        "click"
    )  # it calls nothing: it is marked, and not magnified
    assert tab.js(scrolled) == high
    assert tab.js(seen, "marked")
    tab.page.fill("#flame-find", "")
    tab.page.select_option("#flame-measure", index=1)
    assert tab.js(scrolled) == bottom
    tab.page.click("#flame-down-side")
    assert tab.js(scrolled) == 0
    assert not tab.said
    tab.context.close()


def test_what_is_left_out_of_a_deep_stack_is_in_its_middle() -> None:
    """The innermost of more functions than the chart has keeps its bytes, and the outermost its place."""
    frames = tuple(StackFrame(at, None, (SourceLine(f"f{at}"),)) for at in range(3 * DEEPEST))
    root = grow(Profile([Site(frames, {"inuse_space": 7}), Site(frames[1:], {"inuse_space": 5}, complete=False)]))
    for site, outermost in ((frames, f"f{3 * DEEPEST - 1}"), (frames[1:], "…")):
        way, at = [], root.below[outermost, ""]
        while at.below:
            way.append(at.name)
            (at,) = at.below.values()
        assert at.name == site[0].lines[0].function
        assert way.count("…") == (1 if outermost != "…" else 2)
        assert len(way) == DEEPEST
    kept = numbered(root, 10 * DEEPEST, ["inuse_space"])
    assert kept[place_of(root, Site(frames, {}))][1].name == "f0"
    assert kept[place_of(root, Site(frames[1:], {}, complete=False))][1].name == "f1"


def page_at(agent: Path, rates: str, arenadump: harness.Arenadump, browser: Any, folder: Path) -> Tab:
    """The report of a program whose profile was made at these rates."""
    with pinning_pages(agent, rates) as pinning:
        arenadump.check("dump", "-o", folder / "dump", pinning.process.pid)
    return Tab(browser, write(folder, Dump(folder / "dump")))


def test_what_no_sample_met_is_not_known(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    """A function has bytes in use: that it has allocated 0 B would be a false claim."""
    tab = page_at(agent, "exact,bytes=512G", arenadump, browser, tmp_path)
    cells = tab.page.locator("#profile-functions tbody tr", has_text="site_a").first.locator("td").all_inner_texts()
    assert cells[4] == "unknown"
    assert not cells[0].startswith("0 ")
    assert not tab.said
    tab.context.close()


def test_without_samples_nothing_is_said_of_what_was_allocated(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    """No column, and no measure in the chart: a 0 would be a claim."""
    tab = page_at(agent, "exact,bytes=0", arenadump, browser, tmp_path)
    words = tab.page.locator("#profile").inner_text()
    assert "No allocations were sampled (bytes=0): what was allocated is not known." in words
    assert "Allocated: since" not in words
    heads = tab.page.locator("#profile-functions thead th").all_inner_texts()
    assert "with calls" in heads[3]
    assert not any("allocated" in each for each in heads)
    assert not any("allocated" in each for each in tab.page.locator("#flame-measure option").all_inner_texts())
    assert {len(numbers) for numbers in rows(tab, "profile-functions").values()} == {4}
    tab.page.select_option("#flame-group", "threads")
    assert tab.page.locator("#flame g").count() > 5
    assert not tab.said
    tab.context.close()


def test_without_a_profile_there_is_no_section(browser: Any, tmp_path: Path) -> None:
    tab = Tab(browser, write(tmp_path, Dump(synthetic.write(tmp_path / "dump", synthetic.sections()))))
    assert tab.js("document.getElementById('profile')") is None
    assert tab.js("document.getElementById('pin-sites')") is None
    assert not tab.said
    tab.context.close()
