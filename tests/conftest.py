# SPDX-License-Identifier: MIT
"""What all tests share. With CI set, a test that would be skipped fails instead: nothing goes untested unseen."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tools import debian, harness, kernel, programs, turns
from tools.keeps import Keeps
from tools.keeps import running as running_keeps
from tools.stage import Stage

LONG = 20  # tests without the mark "slow" last as long as one with it, about


def pytest_configure() -> None:
    """Who runs us in the background (`make test &`) has Ctrl-C ignored, and children inherit that, tested ones too."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes, modules that run alone come first: later they would wait, idle, for the end of others.

    Then come the longest, by the number of tests, so that no process has a long one left in the end.
    """
    if not hasattr(config, "workerinput"):
        return
    lasts: Counter[Path] = Counter()
    for item in items:
        lasts[item.path] += LONG if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: (item.get_closest_marker("alone") is None, -lasts[item.path], item.path))


@pytest.hookimpl
def pytest_collection_finish() -> None:
    """What has been collected stays. To look through it for garbage was a fifth of the tests' own time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.fixture(scope="module", autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """`make test` has several processes: a module of tests that trouble the whole machine runs alone."""
    with turns.turn(alone=request.node.get_closest_marker("alone") is not None):
        yield


@pytest.fixture(scope="session")
def arenadump() -> harness.Arenadump:
    path = harness.arenadump_path()
    if not path.exists():
        pytest.fail(f"{path} does not exist: make build, or set $ARENADUMP")
    return harness.Arenadump(path)


@pytest.fixture(scope="session")
def agent(arenadump: harness.Arenadump) -> Path:
    return harness.agent_path(arenadump.path)


@pytest.fixture(scope="session", params=debian.SUITES)
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    """libc6 of each suite in turn, of this machine's architecture."""
    return fetched(request.param)


@pytest.fixture(scope="session")
def churn_program() -> Path:
    """The truth harness's program, to be run under any `libc`."""
    try:
        return programs.build_portable("churn")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def actor() -> Path:
    try:
        return programs.build_portable("actor")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def selfcheck() -> Path:
    try:
        return programs.build_portable("selfcheck")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def pages_stay() -> Iterator[None]:
    """For modules that compare what is resident now with what was, or with a forecast."""
    with kernel.pages_stay():
        yield


@pytest.fixture
def stage(tmp_path: Path, agent: Path) -> Iterator[Stage]:
    tmp_path.chmod(0o777)
    with ExitStack() as stack:
        yield Stage(tmp_path, agent, stack)


def fetched(suite: str, arch: str = debian.NATIVE) -> debian.Libc:
    try:
        return debian.libc(suite, arch)
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def keeps(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeps]:
    """A program that knows what keeps its pages, and its dump with the graph."""
    with running_keeps(arenadump, tmp_path_factory.mktemp("keeps")) as made:
        yield made
