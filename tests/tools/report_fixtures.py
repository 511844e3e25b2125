# SPDX-License-Identifier: MIT
"""Fixtures of the report's tests: a browser, the report of a program that none of us wrote, one of before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arenascope.wire.dump import Dump
from tools import browser as browsers
from tools import harness
from tools.running import RUBY, running, started, trim_itself
from tools.tab import Tab, write


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.chromium() as running:
        yield running


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
