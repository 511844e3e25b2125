# SPDX-License-Identifier: MIT
"""What all tests share. With CI set, a test that would be skipped fails instead: nothing goes untested unseen."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tools import browser as browsers
from tools import debian, durations, harness, kernel, machine_lock, programs, tiers
from tools.keeps import Keeps
from tools.keeps import running as running_keeps
from tools.stage import Stage

ROOM = 6 << 30  # bytes: `make test` has 2 GiB of files at a time, a part of the night may have more
LONG = 10  # seconds of processor time: a test that takes more and has no mark "slow" is named in the end

costs: dict[str, durations.Cost] = defaultdict(lambda: durations.NOTHING)  # of the tests of this run
slow: set[str] = set()  # of these, those that have the mark
kept = 0.0  # when they were last written down
spent = 0.0  # of the processor time of this process and its children, before the phase of a test that runs now


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.NAMES, help="run the tests of one tier alone; without it, run all")


def pytest_configure() -> None:
    """Who runs us in the background (`make test &`) has Ctrl-C ignored, and children inherit that, tested ones too."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):  # the terminal's that we were started from
        os.environ.pop(name, None)
    with suppress(ImportError):  # a virtual machine of tests/vm has no Hypothesis, and no test that needs it
        from hypothesis import HealthCheck, settings  # noqa: PLC0415

        # Its own limits on time fail where the machine is busy.
        settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("any speed")


def pytest_sessionstart(session: pytest.Session) -> None:
    """On a disk of which less than a twentieth is free, the agent writes no trace and no dump, and its tests fail."""
    disk = shutil.disk_usage(tempfile.gettempdir())
    room = disk.free - disk.total // 20
    if session.config.getoption("--tier") not in {None, tiers.CHECK} and room < ROOM:
        message = (
            f"{tempfile.gettempdir()} has {disk.free >> 20:,} MiB free of {disk.total >> 20:,}; the tests take "
            f"{ROOM >> 20:,} MiB, and leave a twentieth free. Remove old files there, or set TMPDIR to another disk."
        )
        raise pytest.UsageError(message)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make check` does not import what has none of its tests."""
    tier = config.getoption("--tier")
    return True if tier == tiers.CHECK and not tiers.may_have_check(collection_path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of the chosen tier; with several processes, orders their modules.

    Modules that run alone come first: later they would wait, idle, for the end of others. Then come the longest, so
    that no process has a long one left in the end.
    """
    if tier := config.getoption("--tier"):
        others = [item for item in items if not tiers.is_in(item, tier)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if tiers.is_in(item, tier)]
    if hasattr(config, "workerinput"):
        ids = [item.nodeid for item in items]
        lasts = durations.expected(ids, durations.read(), durations.committed_table())
        items.sort(key=lambda item: (item.get_closest_marker("alone") is None, -lasts[item.path.name], item.path))


@pytest.hookimpl
def pytest_collection_finish() -> None:
    """What has been collected stays. To reads through it for garbage was a fifth of the tests' own time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global spent
    report = yield
    now = durations.cpu_seconds()
    report.cpu, spent = now - spent, now  # type: ignore[attr-defined] # a worker's reports carry it to the first process
    report.slow = item.get_closest_marker("slow") is not None  # type: ignore[attr-defined]
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


def pytest_runtest_logstart() -> None:
    """Collection is no test's time."""
    global spent  # noqa: PLW0603
    spent = spent or durations.cpu_seconds()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What was measured until a minute ago is kept when a run is stopped."""
    global kept  # noqa: PLW0603
    costs[report.nodeid] += durations.Cost(report.duration, report.cpu)
    if "PYTEST_XDIST_WORKER" not in os.environ and time.monotonic() > kept + 60:
        durations.merge(costs)
        kept = time.monotonic()
    if report.slow:
        slow.add(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Keeps what the tests took, and names those that are long and do not say so. Nothing fails by a time."""
    if costs and not hasattr(config, "workerinput"):
        durations.merge(costs)
        for test, cost in sorted(costs.items()):
            if cost.cpu > LONG and test not in slow:
                terminalreporter.write_line(f"{test} took {cost.cpu:.0f} s of processor time, and has no mark slow")
        total = sum(cost.cpu for cost in costs.values())
        terminalreporter.write_line(f"the tests took {total:.0f} s of processor time")


@pytest.fixture(scope="module", autouse=True)
def machine_share(request: pytest.FixtureRequest) -> Iterator[None]:
    """`make test` has several processes: a module of tests that trouble the whole machine runs alone."""
    with machine_lock.held(alone=request.node.get_closest_marker("alone") is not None):
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


@pytest.fixture(scope="session", params=tiers.EACH_LIBC)
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    """libc6 of each suite in turn, of this machine's architecture."""
    return fetched(request.param)


@pytest.fixture(scope="session")
def own_libc() -> debian.Libc:
    """libc6 of the suite that is nearest to this machine's: for tests in which the release decides nothing."""
    return fetched(tiers.own_libc())


@pytest.fixture(scope="session")
def churn_program() -> Path:
    """The truth harness's program, to be run under any `libc`."""
    return programs.build_portable("churn")


@pytest.fixture(scope="session")
def actor() -> Path:
    return programs.build_portable("actor")


@pytest.fixture(scope="session")
def selfcheck() -> Path:
    return programs.build_portable("selfcheck")


@pytest.fixture(scope="module")
def pages_stay() -> Iterator[None]:
    """For modules that compare what is resident now with what was, or with a forecast."""
    with kernel.pages_stay():
        yield


@pytest.fixture(scope="module")
def own_arenadump() -> Iterator[None]:
    """The package of Python starts the arenadump that is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARENASCOPE_ARENADUMP", str(harness.arenadump_path().resolve()))
        yield


@pytest.fixture
def stage(tmp_path: Path, agent: Path) -> Iterator[Stage]:
    tmp_path.chmod(0o777)
    with ExitStack() as stack:
        yield Stage(tmp_path, agent, stack)


def fetched(suite: str, arch: str = debian.NATIVE) -> debian.Libc:
    return debian.libc(suite, arch)


@pytest.fixture(scope="module")
def keeps(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeps]:
    """A program that knows what keeps its pages, and its dump with the graph."""
    with running_keeps(arenadump, tmp_path_factory.mktemp("keeps")) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.chromium() as running:
        yield running
