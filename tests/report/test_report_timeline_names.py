# SPDX-License-Identifier: MIT
"""The page of a timeline that has types, owners and call stacks: suspects first, tables that sort, every process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from report.timeline_pages import BEGIN, SECOND, SIZES, moved, page_of, screenshots, written
from timeline.test_suspects import HELD, LOST_RATE, growing_by_type, growing_when_asked
from timeline.test_timeline import opened, started, take_of
from tools import tiers
from tools.tab import Tab, violations

from arenascope.compare.digest import Group, Named, Portion
from arenascope.processes import Identity
from arenascope.timeline.reader import digest_of_snapshot, groups_of, read
from arenascope.timeline.store import Poll, Taken
from arenascope.timeline.suspects import ended_processes, suspects_of
from arenascope.wire.how import How

pytestmark = pytest.mark.usefixtures("own_arenadump")


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that leaks by type and owner: 14 snapshots, all but the first with names.

    Its clock and that of the snapshots are ours: ten seconds stand for a quarter of one, however busy the machine is.
    """
    snapshots = []
    with growing_when_asked(HELD, LOST_RATE, 100) as (pid, grow):
        grow(24)  # the cache is full
        for number in range(14):
            grow(5)
            snapshot = take_of(pid, How(mode="freeze", graph=number > 0))
            snapshots.append((1, [dataclasses.replace(snapshot, time_ns=BEGIN + 10 * number * SECOND)]))
    return written(tmp_path_factory.mktemp("names") / "timeline", snapshots)


@pytest.fixture(scope="module")
def one_snapshot() -> Taken:
    with growing_by_type(0, 0, 10) as pid:
        return take_of(pid, How(mode="freeze", graph=True))


def test_suspects_come_first_with_their_evidence(browser: Any, leaking: Path) -> None:
    tab = Tab(browser, page_of(leaking))
    order = tab.js("[...document.querySelectorAll('main > section, main > div.snapshot')].map(e => e.id)")
    assert order.index("suspects") == 1, "behind the sentence that the page begins with"
    found = suspects_of(str(leaking), read(str(leaking)))
    lines = tab.page.locator(".suspects li").all()
    assert len(lines) == len(found) == 6
    for line, each in zip(lines, found):
        words = line.inner_text()
        assert words.startswith(each.title)
        assert line.locator(".rate").get_attribute("data-bytes") == str(round(each.rate))
        assert f"{each.snapshots} snapshots in " in words
        assert "held" in words
        assert line.locator("polyline").count() == 1
    named = [line.inner_text() for line in lines if "3008-byte" in line.inner_text()]
    assert "as fast grows: chunks of type app::Session, retained by variable app::open_sessions" in named[0]
    tab.context.close()


def test_no_suspect_is_said(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    for many, words in ((3, "Not known yet: a suspect needs 10 snapshots"), (12, "None: nothing grows beyond")):
        tab = Tab(browser, page_of(written(tmp_path / f"timeline{many}", [(1, [one_snapshot])] * many)))
        shown = tab.page.locator("#suspects .hint").all_inner_texts()
        assert shown[0].startswith(words)
        names = "Types and owners are not judged yet: they need 10 snapshots of one process, and have 3."
        assert shown[1:] == ([names] if many == 3 else [])
        tab.context.close()


def table_of(tab: Tab, title: str) -> Any:
    return tab.page.locator(f"#growth [aria-label='{title}: what changed'] table")


def test_tables_of_names_have_the_numbers_of_the_file_and_sort(browser: Any, leaking: Path) -> None:
    tab = Tab(browser, page_of(leaking))
    deep = [snapshot for poll in read(str(leaking)).polls[1:] for snapshot in poll.snapshots]
    first, last = (digest_of_snapshot(str(leaking), snapshot.id)[0] for snapshot in (deep[0], deep[-1]))
    held = [packed for _, packed in groups_of(str(leaking))]
    assert len(held) == 13
    for title, kind, row in (
        ("Chunks in use by type", "types", "app::Session"),
        ("What owners retain", "owners", "variable app::open_sessions"),
        ("Lost chunks", "leaks", "app::Forgotten, 2016 B"),
    ):
        line = table_of(tab, title).locator("tbody tr", has_text=row).first
        before, after = getattr(first, kind), getattr(last, kind)
        key = next(key for key, named in after.listed.items() if named.title.startswith(row))
        numbers = [int(cell.get_attribute("data-bytes") or -1) for cell in line.locator("td[data-bytes]").all()]
        wanted = [group.held(key).bytes for group in (before, after)]
        assert numbers == [*wanted, wanted[1] - wanted[0]]
        series = [
            next(each[1] for each in packed[kind]["listed"].values() if each[0].startswith(row)) for packed in held
        ]
        y = [float(point.split(",")[1]) for point in str(line.locator("polyline").get_attribute("points")).split()]
        assert y == pytest.approx([2 + 20 * (1 - each / max(series)) for each in series], abs=0.06)
    hint = tab.page.locator("#growth .hint", has_text="13 snapshots")
    assert hint.count() == 3
    table = table_of(tab, "Chunks in use by type")
    for _ in range(2):
        table.locator("button.sort", has_text="difference").click()
        grown = [int(each.get_attribute("data-bytes") or 0) for each in table.locator("td.change").all()]
        assert grown in (sorted(grown), sorted(grown, reverse=True))
    assert grown == sorted(grown, reverse=True)
    tab.context.close()


def test_call_stacks_are_a_table(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    def taken(place: int) -> Taken:
        stacks = {"a": ["open < main", 1000 * place, place, 0], "b": ["read < main", 500, 1, 0]}
        return dataclasses.replace(one_snapshot, sites={"mean": 1, "whole": True, "listed": stacks})

    tab = Tab(browser, page_of(written(tmp_path / "timeline", [(1, [taken(place)]) for place in (1, 5, 3)])))
    table = table_of(tab, "What call stacks allocated and is in use")
    (line,) = table.locator("tbody tr").all()
    assert line.locator("th").inner_text() == "open < main"
    assert [cell.get_attribute("data-bytes") for cell in line.locator("td[data-bytes]").all()] == [
        "1000",
        "3000",
        "2000",
    ]
    points = str(line.locator("polyline").get_attribute("points")).split()
    assert [float(point.split(",")[1]) for point in points] == pytest.approx([18, 2, 10], abs=0.06)
    tab.context.close()


def workers(snapshot: Taken, many: int) -> list[Taken]:
    return [
        dataclasses.replace(
            snapshot,
            member=snapshot.member._replace(identity=snapshot.member.identity._replace(pid=4000 + number)),
            digest=dataclasses.replace(snapshot.digest, rss=(1 + number) << 20),
        )
        for number in range(many)
    ]


def test_every_process_of_a_group_has_a_chart(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    four = workers(one_snapshot, 4)
    with opened(path) as file:
        for number in range(4):  # one ends, and another begins
            snapshots = [*four[: 2 + (number < 2)], *four[3 : 3 + (number > 1)]]
            file.add(Poll(BEGIN + number * SECOND, 1, len(snapshots), 1, 1, None, snapshots))
    tab = Tab(browser, page_of(path))
    charts = tab.page.locator("#processes .multiples li")
    names = [text.split(" ")[1] for text in charts.locator("b").all_inner_texts()]
    assert names == ["4003", "4002", "4001", "4000"], "the largest first"
    assert "All 4 processes" in tab.page.locator("#processes .hint").inner_text()
    words = charts.nth(0).inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert words.endswith("4.0 MiB → 4.0 MiB, at most 4.0 MiB")
    areas = [charts.nth(place).locator("path").first.get_attribute("d") for place in range(3)]
    starts = [min(int(point.split(",")[0]) for point in str(area).strip("MZ").split()) for area in areas]
    ends = [max(int(point.split(",")[0]) for point in str(area).strip("MZ").split()) for area in areas]
    assert starts == pytest.approx([1333, 0, 0], abs=1), "where it is not there, nothing is drawn"
    assert ends == pytest.approx([2000, 667, 2000], abs=1)
    tab.context.close()
    path = tmp_path / "many"
    tab = Tab(browser, page_of(written(path, [(1, workers(one_snapshot, 30))] * 2)))
    assert tab.page.locator("#processes .multiples li").count() == 24
    assert "The 24 of 30 processes that were largest" in tab.page.locator("#processes .hint").inner_text()
    tab.context.close()
    tab = Tab(browser, page_of(written(tmp_path / "one", [(1, [one_snapshot])] * 2)))
    assert tab.page.locator("#processes").count() == 0
    tab.context.close()


HOSTILE = "</title></script><script>window.owned=1</script><img src=x onerror=window.owned=1>{{ 7*7 }}\x1b[31m"


def test_hostile_names_stay_text(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    def taken(place: int) -> Taken:
        def group(key: Hashable) -> Group:
            return Group({key: Named(HOSTILE, Portion(place << 20, place))})

        digest = dataclasses.replace(
            one_snapshot.digest, types=group(HOSTILE), owners=group(("variable", HOSTILE)), leaks=group((HOSTILE, 5))
        )
        listed = {"a": [HOSTILE, place << 20, place, 0]}
        sites = {"mean": 1, "whole": True, "listed": listed}
        return dataclasses.replace(one_snapshot, digest=digest, sites=sites, time_ns=BEGIN + 10 * place * SECOND)

    path = written(tmp_path / "timeline", [(1, [taken(place)]) for place in range(12)])
    tab = Tab(browser, page_of(path))
    assert tab.js("window.owned") is None
    assert tab.js("document.images.length") == 0
    for place in ("#suspects", "#growth"):
        assert "</script><script>window.owned=1" in str(tab.page.locator(place).text_content())
        assert "\x1b" not in str(tab.page.locator(place).text_content())
    assert tab.page.locator(".suspects li").count() == 4
    assert not tab.said
    for width, _ in SIZES.values():
        tab.page.set_viewport_size({"width": width, "height": 800})
        tab.still()
        assert tab.js("document.documentElement.scrollWidth") <= width
    tab.context.close()


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_axe_finds_nothing(browser: Any, leaking: Path, one_snapshot: Taken, tmp_path: Path, scheme: str) -> None:
    group = written(tmp_path / "timeline", [(1, workers(one_snapshot, 3))] * 2)
    for path in (leaking, group):
        shown = violations(browser, page_of(path), scheme)
        assert not shown, json.dumps(shown, indent=1)


@pytest.mark.nightly("limits")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots_to_inspect(browser: Any, leaking: Path, scheme: str) -> None:
    screenshots(browser, page_of(leaking), "timeline-names", scheme)


STEPS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
for _ in sys.stdin:
    for _ in range(100):
        ctypes.memset(libc.malloc(7000), 1, 7000)
    print("moved", flush=True)
"""


def timed(pid: int, poll: int) -> Taken:
    """A snapshot of the poll of its number, however fast this machine is."""
    return dataclasses.replace(take_of(pid, How(mode="freeze")), time_ns=BEGIN + poll * 10 * SECOND)


def test_which_processes_have_ended(one_snapshot: Taken, tmp_path: Path) -> None:
    """Not the generation tells, which is that of the first snapshot: snapshots fail, and processes come back."""

    def take_snapshot(pid: int) -> Taken:
        return dataclasses.replace(one_snapshot, member=one_snapshot.member._replace(identity=Identity(pid, 1)))

    def ended(polls: list[list[int]], searched_for: int | None = None) -> set[int]:
        path = tmp_path / f"timeline{len(list(tmp_path.iterdir()))}"
        made = read(
            str(written(path, [(number, [take_snapshot(pid) for pid in pids]) for number, pids in enumerate(polls, 1)]))
        )
        last = made.polls[-1]
        last = dataclasses.replace(last, processes=searched_for or last.processes)
        made = dataclasses.replace(made, polls=(*made.polls[:-1], last))
        pids = {each.id: each.pid for each in made.processes}
        return {pids[each] for each in ended_processes(made)}

    assert ended([[11], [12], [11, 12]]) == set()
    assert ended([[11, 12], [12]]) == {11}
    assert ended([[11, 12], [12]], searched_for=2) == set(), "one was not inspected"
    assert ended([[11, 12], []]) == {11, 12}


def test_suspects_of_what_has_ended_come_last(browser: Any, tmp_path: Path) -> None:
    """The same program twice; at the end, two processes of one generation, of which one has ended before."""
    polls: list[tuple[int, list[Taken]]] = []
    with started(STEPS) as first:
        for _ in range(16):
            moved(first)
            polls.append((1, [timed(first.pid, len(polls))]))
    with started(STEPS) as second, started(STEPS) as third:
        for step in range(20):
            for each in (second, third):
                moved(each)
            left = [second, third] if step < 16 else [third]
            polls.append((2, [timed(each.pid, len(polls)) for each in left]))
    path = written(tmp_path / "timeline", polls)
    found = suspects_of(str(path), read(str(path)))
    assert {(each.pid, each.ended) for each in found} == {(first.pid, True), (second.pid, True), (third.pid, False)}
    ended = [each.ended for each in found]
    assert ended == sorted(ended)
    tab = Tab(browser, page_of(path))
    lines = [line.inner_text() for line in tab.page.locator(".suspects li").all()]
    assert f" {third.pid}" in lines[0]
    running = [line for line in lines if "(ended)" not in line]
    assert lines[: len(running)] == running
    assert len(running) < len(lines)
    assert f"{len(running)} leak suspect" in tab.page.locator(".changes a").inner_text()
    tab.context.close()
