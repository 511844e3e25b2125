# SPDX-License-Identifier: MIT
"""The page map when memory is short: what is swapped out is told, and stays there."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from conftest import fetched
from tools import debian, harness, kernel, parts, programs, tiers
from tools.pressure import LARGE, SUITES, Scenario, Snapshot, check, own_pages, pressed
from tools.running import started

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

pytestmark = [pytest.mark.usefixtures("pages_stay"), pytest.mark.alone]

CAP_SYS_NICE, PR_CAPBSET_DROP = 23, 24


@pytest.fixture(scope="module", params=tiers.by_tier(SUITES))
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    return fetched(request.param)


def page_out(pid: int) -> None:
    kernel.advise(pid, [(m.start, m.end) for m in own_pages(pid)], kernel.MADV_PAGEOUT)


def page_out_by_halves(pid: int) -> None:
    """Every other 28 KiB: the holes fall differently into every window that is read."""
    step = 7 * kernel.PAGE
    spans = [(at, min(at + step, m.end)) for m in own_pages(pid) for at in range(m.start, m.end, 2 * step)]
    kernel.advise(pid, spans, kernel.MADV_PAGEOUT)


SWAPPED = [
    Scenario("swapped", press=page_out),
    Scenario("swapped-by-halves", LARGE, press=page_out_by_halves),
    Scenario("swapped-perturbed", tunables="glibc.malloc.perturb=165", press=page_out_by_halves),
    # Pages that the program gave away and nobody took yet: under pressure they are dropped and not swapped.
    Scenario("given-away-and-taken", then="advise 8", press=page_out),
]


@pytest.mark.nearest
@pytest.mark.usefixtures("swap")
@pytest.mark.parametrize("scenario", SWAPPED, ids=str)
def test_swap(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (_, p):
        check(p)
        snapshot = p.snapshots["freeze"]
        assert kernel.total(snapshot.before.mappings, "Swap") > 1 << 20
        assert snapshot.dump.totals["ledger"]["swapped_in_use"] > 1 << 20


@pytest.mark.usefixtures("swap")
def test_chunks_that_are_swapped_out_are_no_part_of_what_is_resident(arenadump: harness.Arenadump) -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        page_out(pid)
        parts.check_verdict(arenadump.check("summary", "--json", "--graph", pid))


def drop_sys_nice() -> None:
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)


@pytest.mark.usefixtures("swap")
def test_without_the_right_to_send_pages_back(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """The numbers are exact all the same, and how much came back is said, to the byte."""
    scenario = Scenario("swapped", press=page_out)
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (churn, p):
        snapshot = Snapshot(arenadump, churn.pid, tmp_path / "dump", "freeze", preexec_fn=drop_sys_nice)
        assert snapshot.in_use == p.snapshots["freeze"].in_use
        came_back = kernel.total(snapshot.before.mappings, "Swap") - kernel.total(snapshot.after.mappings, "Swap")
        assert came_back > 0
        notes = [snapshot.dump.string(w["text"]) for w in snapshot.dump.warnings]
        assert len([n for n in notes if "swapped out" in n]) == 1, notes


@pytest.mark.usefixtures("swap")
def test_cgroup_that_is_too_small(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """It lives, is read while it runs; what is swapped out is not read (tests/inspector/test_tight_swap.py)."""
    try:
        group = kernel.Cgroup(f"arenascope-test-{os.getpid()}")
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group, harness.Churn(harness.under(libc, churn_program, *LARGE)) as churn:
        group.squeeze(churn.pid, 1 << 40)
        churn.ask("go")  # with room: what is met then is a limit that comes, not one that was there
        for size in (96, 64, 48, 32):
            group.squeeze(churn.pid, size << 20)
        for attempt, how in enumerate(([], ["--mode", "live"])):
            arenadump.check("dump", "--chunks", "-o", tmp_path / f"{attempt}", *how, churn.pid)
            assert churn.held()  # it lives
            dump = Dump(tmp_path / f"{attempt}")
            assert dump.meta["mode"] == fmt.Mode.LIVE
            assert not dump.meta["flags"] & fmt.MetaFlag.EXACT
            assert int(dump.meta["swap"]) > 4 << 20
        refused = arenadump.run("dump", "--mode", "clone", "-o", tmp_path / "none", churn.pid)
        assert refused.returncode == 4
        assert "has room for" in refused.stderr
        assert churn.held()
