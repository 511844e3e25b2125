# SPDX-License-Identifier: MIT
"""Reports in a browser: of a program that none of us wrote, of one before and after a trim, of a timeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report.timeline_pages import MOVES, moved, page_of, written
from timeline.test_timeline import started as timeline_started
from timeline.test_timeline import take_of
from tools import harness
from tools.running import RUBY, running, started, trim_itself
from tools.tab import Tab, write

from arenascope.timeline.store import Taken
from arenascope.wire.dump import Dump
from arenascope.wire.how import How


@pytest.fixture(scope="module")
def one(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dump]:
    """A program that none of us wrote, and its report."""
    folder = tmp_path_factory.mktemp("one")
    with started(["ruby", "-e", RUBY], "ready") as pid:
        arenadump.check("dump", "--chunks", "-o", folder / "dump", pid)
    dump = Dump(folder / "dump")
    return write(folder, dump), dump


@pytest.fixture(scope="module")
def two(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dump, Dump]:
    """A process before and after a trim."""
    folder = tmp_path_factory.mktemp("two")
    with running("free-pages") as program:
        arenadump.check("dump", "--chunks", "-o", folder / "before", program.pid)
        trim_itself(program)
        arenadump.check("dump", "--chunks", "-o", folder / "after", program.pid)
    before, after = Dump(folder / "before"), Dump(folder / "after")
    return write(folder, before, after), before, after


@pytest.fixture
def tab(browser: Any, one: tuple[Path, Dump]) -> Iterator[Tab]:
    opened = Tab(browser, one[0])
    yield opened
    said = opened.said
    opened.context.close()
    assert not said


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A process that is started twice, and grows: 7 polls and 9."""
    polls: list[tuple[int, list[Taken]]] = []
    for generation, many in ((1, 7), (2, 9)):
        with timeline_started(MOVES) as child:
            for _ in range(many):
                moved(child)
                polls.append((generation, [take_of(child.pid, How(mode="freeze"))]))
    return written(tmp_path_factory.mktemp("timeline") / "timeline", polls)


@pytest.fixture(scope="module")
def one_snapshot(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    with timeline_started(MOVES) as child:
        moved(child)
        return take_of(child.pid, How(mode="freeze"))


@pytest.fixture
def time_tab(browser: Any, real: Path) -> Iterator[Tab]:
    opened_tab = Tab(browser, page_of(real))
    yield opened_tab
    said = opened_tab.said
    opened_tab.context.close()
    assert not said
