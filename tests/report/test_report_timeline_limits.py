# SPDX-License-Identifier: MIT
"""The page of a timeline that is odd: large, hostile, damaged, with gaps. The command that writes it."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.timeline_pages import BEGIN, SECOND, held, page_of, show, written
from timeline.test_timeline import opened
from tools.tab import Tab

from arenascope.compare.digest import Pages
from arenascope.errors import ArenascopeError, Code
from arenascope.report.charts.stacked_area import Layer, stacked
from arenascope.report.map import frames as map_frames
from arenascope.report.page.html import render
from arenascope.report.timeline import series as timeline_series
from arenascope.report.timeline.page import build
from arenascope.timeline.reader import digest_of_snapshot, read
from arenascope.timeline.store import Poll, Taken

pytestmark = pytest.mark.usefixtures("own_arenadump")

HOSTILE = "</title></script><script>window.owned=1</script><img src=x onerror=window.owned=1>{{ 7*7 }}"
MOST = 5_000_000  # bytes of a page


def test_stacks_know_the_unknown() -> None:
    at = np.array([0, 0.5, 1])
    some, gap = np.array([1.0, 2, 3]), np.array([5.0, np.nan, 5])
    paths = stacked(at, [Layer("used", "a", gap), Layer("file", "b", some)], [slice(0, 3)], 10)
    assert paths[0].path == "M0,500 1000,1000 2000,500 2000,1000 1000,1000 0,1000Z"
    assert paths[1].path == "M0,400 1000,800 2000,200 2000,500 1000,1000 0,500Z"


def test_unknown_is_said(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    """Rows, then even Rss, that are not known: no number, and no area."""
    digest = one_snapshot.digest
    rows = {**digest.rows, "stacks": None}
    without = dataclasses.replace(one_snapshot, digest=dataclasses.replace(digest, rows=rows))
    nothing = dataclasses.replace(one_snapshot, digest=dataclasses.replace(digest, rss=None, rows=dict.fromkeys(rows)))
    path = written(tmp_path / "timeline", [(1, [each]) for each in (one_snapshot, without, nothing, one_snapshot)])
    course = timeline_series.course(read(str(path)))
    assert course.runs == [slice(0, 2), slice(3, 4)]
    rest = next(layer.held for layer in course.layers() if layer.title == timeline_series.IN_NO_ROW)
    assert rest.tolist() == pytest.approx([0, digest.rows["stacks"], np.nan, 0], nan_ok=True)
    time_tab = Tab(browser, page_of(path))
    show(time_tab, 1)
    assert held(time_tab, "stacks") is None
    assert time_tab.page.locator("td[data-now=stacks]").inner_text() == "unknown"
    assert time_tab.page.locator("td[data-since=stacks]").inner_text() == "unknown"
    assert held(time_tab, "in_use") == digest.rows["in_use"]
    show(time_tab, 2)
    assert "Rss unknown" in time_tab.page.locator("#poll").inner_text()
    assert not time_tab.said
    time_tab.context.close()


def test_a_group_is_added_up(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    """Two processes, of which one has no snapshot of the second poll: sums are of the other, and the page says so."""
    other = dataclasses.replace(
        one_snapshot,
        member=one_snapshot.member._replace(identity=one_snapshot.member.identity._replace(pid=1)),
        digest=dataclasses.replace(one_snapshot.digest, rss=1 << 20),
    )
    path = tmp_path / "timeline"
    with opened(path) as file:
        file.add(Poll(BEGIN, 1, 2, 1, 1, None, [one_snapshot, other]))
        file.add(Poll(BEGIN + SECOND, 1, 2, 1, 1, "no snapshot of process 1", [one_snapshot]))
    time_tab = Tab(browser, page_of(path))
    show(time_tab, 0)
    assert held(time_tab, "rss") == (one_snapshot.digest.rss or 0) + (1 << 20)
    assert held(time_tab, "in_use") == 2 * (one_snapshot.digest.rows["in_use"] or 0)
    show(time_tab, 1)
    assert held(time_tab, "rss") == one_snapshot.digest.rss
    words = time_tab.page.locator(".caveat").all_inner_texts()
    assert "In 1 poll not every process had a snapshot: the sums are of those that had one." in words
    assert "no snapshot of process 1." in words
    time_tab.context.close()


def hostile(snapshot: Taken) -> Taken:
    """All names that a process, or a file, can choose."""
    digest = snapshot.digest
    arenas = {at: dataclasses.replace(arena, name=f"{HOSTILE} {at}") for at, arena in digest.arenas.items()}
    member = snapshot.member._replace(comm="<script>owned=1", exe=HOSTILE, cmdline=f"{HOSTILE}\x1b[31m\u2028")
    named = dataclasses.replace(digest, arenas=arenas, who=dataclasses.replace(digest.who, comm=HOSTILE, exe=HOSTILE))
    return dataclasses.replace(snapshot, member=member, digest=named, findings={HOSTILE: 1 << 20})


def test_a_hostile_timeline_stays_text(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    snapshot = hostile(one_snapshot)
    with opened(path) as file:
        file._db.execute("UPDATE about SET value = ? WHERE name = 'watched'", (HOSTILE,))
        for number in range(3):
            file.add(Poll(BEGIN + number * SECOND, 1, 1, 1, 1, HOSTILE, [snapshot]))
    time_tab = Tab(browser, page_of(path))
    assert time_tab.js("window.owned") is None
    assert time_tab.js("document.images.length") == 0
    assert time_tab.js("[...document.scripts].filter(s => !s.type.startsWith('application/')).length") == 1
    assert HOSTILE in time_tab.page.title()
    for place in ("header", "#arenas", ".found"):
        assert HOSTILE in str(time_tab.page.locator(place).text_content()), place
    assert "\\x1b[31m\\u{2028}" in time_tab.page.locator("header").inner_text()
    time_tab.js("arenascope.setMarker(3)")
    assert HOSTILE in time_tab.page.locator("#card").inner_text()
    assert time_tab.asked == [path.with_suffix(".html").as_uri()]
    assert not time_tab.said
    time_tab.context.close()


def test_the_policy_lets_nothing_in(real: Path, browser: Any) -> None:
    time_tab = Tab(browser, page_of(real))
    time_tab.js("""() => {
        const image = new Image(); image.src = "https://example.invalid/x.png"; document.body.append(image);
        document.body.setAttribute("style", "opacity: 0.5");
    }""")
    time_tab.until("() => true")
    deadline = time.monotonic() + 240
    while not time_tab.refused:
        time_tab.still()
        assert time.monotonic() < deadline
    assert time_tab.refused == ["https://example.invalid/x.png csp"]
    assert time_tab.js("getComputedStyle(document.body).opacity") == "1"
    time_tab.context.close()


def moving(snapshot: Taken, pages: int, polls: int, changing: int) -> Iterator[tuple[int, list[Taken]]]:
    """A large process, of which in each poll so many pages change."""
    chance = np.random.default_rng(17)
    address = 0x7000_0000_0000 + 4096 * np.arange(pages, dtype=np.uint64)
    state = chance.integers(1, 9, pages).astype(np.uint8)
    for _ in range(polls):
        state = state.copy()
        state[chance.integers(0, pages, changing)] = chance.integers(1, 9, changing)
        digest = dataclasses.replace(snapshot.digest, pages=Pages(address, state, None))
        yield 1, [dataclasses.replace(snapshot, digest=digest)]


@pytest.mark.nightly("limits")
@pytest.mark.parametrize("sort", [(1 << 18, 40, 1 << 17), (3 << 20, 3, 1 << 18)])
def test_a_large_timeline_is_told_coarser(
    browser: Any, one_snapshot: Taken, tmp_path: Path, sort: tuple[int, int, int]
) -> None:
    pages, polls, changing = sort
    path = written(tmp_path / "timeline", list(moving(one_snapshot, pages, polls, changing)))
    page = page_of(path)
    assert page.stat().st_size < MOST
    time_tab = Tab(browser, page)
    shown = time_tab.js("arenascope.reel.polls")
    cells = time_tab.js("arenascope.reel.total")
    assert shown[-1] == polls - 1
    assert cells <= map_frames.MOST_CELLS
    hint = time_tab.page.locator("#map .hint").first.inner_text()
    last = read(str(path)).polls[-1].snapshots[0]
    states = digest_of_snapshot(str(path), last.id)[0].pages
    assert states
    if pages > map_frames.MOST_CELLS:
        assert "4 neighbouring pages" in hint
        counts = np.array([(states.state.reshape(-1, 4) == state).sum(axis=1) for state in range(9)])
        wanted = np.argmax(counts, axis=0)
    else:
        assert 1 < len(shown) < polls
        missing = next(at for at in range(polls) if at not in shown)
        show(time_tab, missing)
        seen = 10 * max(poll for poll in shown if poll < missing)
        assert (
            time_tab.page.locator("#map-when").inner_text() == f"The map is of 08:{seen // 60:02}:{seen % 60:02} UTC."
        )
        show(time_tab, polls - 1)
        assert time_tab.page.locator("#map-when").inner_text() == ""
        wanted = states.state
    seen = time_tab.js("""() => arenascope.reel.state.reduce(
        (sum, value, index) => (sum * 31 + value * 7 + index) % 1000003, 0)""")
    check = 0
    for index, value in enumerate(wanted.tolist()):
        check = (check * 31 + value * 7 + index) % 1_000_003
    assert seen == check
    time_tab.context.close()


def test_many_polls_are_shown_by_their_highest(one_snapshot: Taken, tmp_path: Path) -> None:
    polls = [
        (1, [dataclasses.replace(one_snapshot, digest=dataclasses.replace(one_snapshot.digest, rss=rss))])
        for rss in np.random.default_rng(3).integers(1 << 20, 1 << 21, 2000).tolist()
    ]
    path = written(tmp_path / "timeline", polls, every=1)  # old polls would be thinned out
    timeline = read(str(path))
    course = timeline_series.course(timeline)
    assert len(course.polls) == timeline_series.MOST_POLLS
    assert course.polls[0] == timeline.polls[0]
    assert course.polls[-1] == timeline.polls[-1]
    assert course.largest == max(poll.snapshots[0].rss or 0 for poll in timeline.polls)
    assert all(np.diff([poll.time_ns for poll in course.polls]) > 0)
    assert "800 of 2,000 polls are shown" in page_of(path).read_text(encoding="utf-8")


def test_of_many_generations_the_last_have_a_map(browser: Any, one_snapshot: Taken, tmp_path: Path) -> None:
    snapshots = [
        dataclasses.replace(
            one_snapshot,
            member=one_snapshot.member._replace(identity=one_snapshot.member.identity._replace(pid=1000 + number)),
        )
        for number in range(11)
    ]
    path = written(tmp_path / "timeline", [(number + 1, [snapshot]) for number, snapshot in enumerate(snapshots)])
    time_tab = Tab(browser, page_of(path))
    assert time_tab.page.locator("#map-frame").is_visible()
    show(time_tab, 2)
    assert not time_tab.page.locator("#map-frame").is_visible()
    assert time_tab.page.locator("#map-says").inner_text() == "This file has no room for the map of generation 3."
    show(time_tab, 3)
    assert time_tab.page.locator("#map-frame").is_visible()
    assert time_tab.js("arenascope.reel.frame") == 0
    assert not time_tab.said
    time_tab.context.close()


def report(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arenascope", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def test_the_command(real: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old", encoding="utf-8")
    page.chmod(0o644)
    done = report(real, "-o", page)
    assert done.returncode == 0, done.stderr
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.read_text(encoding="utf-8") == render(build(str(real)))
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    assert report(real, "-o", tmp_path / "link").returncode == Code.IO
    assert not (tmp_path / "victim").exists()
    for options in (["--chunks"], ["--no-objects"], ["--graph"], ["--png", tmp_path / "x"], ["--mode", "live"], [real]):
        refused = report(real, *options, "-o", tmp_path / "other.html")
        assert refused.returncode == Code.USAGE, options
        assert "is a timeline" in refused.stderr
    assert not (tmp_path / "other.html").exists()


def test_a_timeline_without_snapshots_and_a_damaged_one(real: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "empty"):
        pass
    with pytest.raises(ArenascopeError, match="has no snapshot yet") as refused:
        build(str(tmp_path / "empty"))
    assert refused.value.code == Code.BAD_INPUT
    whole = real.read_bytes()
    chance = random.Random(11)
    outcomes: set[int] = set()
    for number in range(25):
        broken = bytearray(whole)
        for _ in range(40):
            broken[chance.randrange(4096, len(broken))] ^= 1 << chance.randrange(8)
        path = tmp_path / f"broken{number}"
        path.write_bytes(broken)
        try:
            render(build(str(path)))
            outcomes.add(0)
        except ArenascopeError as error:
            outcomes.add(error.code)
    assert Code.BAD_INPUT in outcomes
    assert outcomes <= {0, Code.BAD_INPUT, Code.NO_TARGET}
