# SPDX-License-Identifier: MIT
"""V8's memory is untrusted input: what does not fit is not believed, and costs bounded time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import harness
from tools.bounded import MEMORY, take_snapshot
from tools.forged import named, running

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

PAGE = 256 << 10


def dump_of(kind: str, arenadump: harness.Arenadump, scratch: Path, *options: str) -> Dump:
    """The dump of a program that is called node."""
    with running(named("node", scratch, "forged_v8"), kind) as pid:
        dump = take_snapshot(arenadump, pid, scratch, MEMORY, *options)
    assert dump is not None
    assert int(dump.runtimes["kind"][0]) == fmt.RuntimeKind.V8
    managed = int(dump.totals["ledger"]["managed"])
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "managed"]
    assert sum(rows) + (0 if managed == fmt.UNKNOWN else managed) == int(dump.meta["rss"])
    return dump


@pytest.mark.parametrize("kind", ["address", "space", "size", "malloc", "heaps", "number"])
def test_what_is_not_v8s_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["managed"]) == fmt.UNKNOWN


def test_a_reservation_costs_bounded_time(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Each place in memory that a clone has not got costs a system call: there may be 2^28 of them."""
    dump = dump_of("reserve", arenadump, tmp_path, "--mode=clone")
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]


@pytest.mark.parametrize("kind", ["true", "nested"])
def test_what_is_as_v8_has_it_is_found(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = dump_of(kind, arenadump, tmp_path)
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    assert [int(size) for size in dump.regions["size"]] == [2 * PAGE, 3 * PAGE, PAGE]
    assert int(dump.runtimes[0]["committed"]) == 6 * PAGE
    assert int(dump.totals["ledger"]["managed"]) == (5 if kind == "nested" else 4) * 4096


@pytest.mark.parametrize("kind", ["apart", "cage"])
def test_what_later_releases_have_is_found(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert list(dump.runtimes["kind"]) == [fmt.RuntimeKind.V8]
    assert [int(size) for size in dump.regions["size"]] == [3 * PAGE]
    assert int(dump.runtimes[0]["committed"]) == (3 * PAGE if kind == "apart" else fmt.UNKNOWN)
    assert int(dump.totals["ledger"]["managed"]) == 3 * 4096


def test_cppgc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("cppgc", arenadump, tmp_path)
    assert list(dump.runtimes["kind"]) == [fmt.RuntimeKind.V8, fmt.RuntimeKind.V8_CPPGC]
    own = dump.regions[dump.regions["runtime"] == 1]
    assert [int(size) for size in own["size"]] == [PAGE // 2, PAGE // 2, PAGE]
    assert int(dump.totals["ledger"]["managed"]) == (4 + 3) * 4096
    dump = dump_of("cppgc-heap", arenadump, tmp_path)
    assert list(dump.runtimes["kind"]) == [fmt.RuntimeKind.V8]
