# SPDX-License-Identifier: MIT
"""A Java virtual machine's memory is untrusted input: what is not HotSpot's is not believed, and costs bounded time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tools import harness
from tools.bounded import MEMORY, take_snapshot
from tools.forged import named, running

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

HEAP, GRANULE = 1 << 20, 65536
CODE = GRANULE + 4096
COMMITTED = HEAP // 2


def forged(kind: str, scratch: Path) -> AbstractContextManager[int]:
    """The PID of a program that is called libjvm.so and says so."""
    return running(named("libjvm.so", scratch, "forged_jvm", "-rdynamic"), kind)


def dump_of(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with forged(kind, scratch) as pid:
        dump = take_snapshot(arenadump, pid, scratch, MEMORY)
    assert dump is not None
    managed = int(dump.totals["ledger"]["managed"])
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "managed"]
    assert sum(rows) + (0 if managed == fmt.UNKNOWN else managed) == int(dump.meta["rss"])
    return dump


def states(dump: Dump) -> dict[int, int]:
    return {int(record["kind"]): int(record["state"]) for record in dump.runtimes}


@pytest.mark.parametrize("kind", ["stride", "endless", "names", "heap", "shared", "huge"])
def test_what_is_not_hotspots_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert states(dump)[fmt.RuntimeKind.JVM_HEAP] == fmt.RuntimeState.UNPROVEN
    assert int(dump.totals["ledger"]["managed"]) == fmt.UNKNOWN
    assert fmt.RuntimeKind.JVM_HEAP not in {int(dump.runtimes[int(r["runtime"])]["kind"]) for r in dump.regions}


def test_overlapping_parts_are_both_rejected(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("code", arenadump, tmp_path)
    assert set(states(dump).values()) == {fmt.RuntimeState.UNPROVEN}
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["managed"]) == fmt.UNKNOWN


def test_code_that_is_not_believed_leaves_the_heap(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("many", arenadump, tmp_path)
    assert states(dump) == {
        fmt.RuntimeKind.JVM_HEAP: fmt.RuntimeState.FOUND,
        fmt.RuntimeKind.JVM_CODE: fmt.RuntimeState.UNPROVEN,
        fmt.RuntimeKind.JVM_METASPACE: fmt.RuntimeState.UNPROVEN,
    }
    assert int(dump.totals["ledger"]["managed"]) == COMMITTED // 2


@pytest.mark.parametrize("kind", ["counters", "beyond"])
def test_counters_that_make_no_sense_are_none(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    heap = dump.runtimes[0]
    assert int(heap["state"]) == fmt.RuntimeState.FOUND
    assert int(heap["used"]) == fmt.UNKNOWN
    assert int(heap["committed"]) == COMMITTED


def test_what_is_as_hotspot_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = dump_of("true", arenadump, tmp_path)
    heap, code, metaspace = dump.runtimes
    assert states(dump)[fmt.RuntimeKind.JVM_HEAP] == states(dump)[fmt.RuntimeKind.JVM_CODE] == fmt.RuntimeState.FOUND
    assert (int(metaspace["used"]), int(metaspace["committed"])) == (4096, 8192)
    assert (int(heap["used"]), int(heap["committed"])) == (COMMITTED // 4, COMMITTED)
    assert (int(code["used"]), int(code["committed"])) == (fmt.UNKNOWN, CODE)
    assert "say the same" in dump.string(int(heap["evidence"]))
    assert dump.string(int(heap["releases"])) == "99.9+9"
    assert int(dump.totals["ledger"]["managed"]) == COMMITTED // 2 + CODE


def test_metaspace_that_is_some_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("metaspace", arenadump, tmp_path)
    metaspace = dump.runtimes[2]
    assert states(dump)[fmt.RuntimeKind.JVM_METASPACE] == fmt.RuntimeState.FOUND
    assert (int(metaspace["used"]), int(metaspace["committed"])) == (4096, 2 * GRANULE)
    assert [int(region["size"]) for region in dump.regions if int(region["runtime"]) == 2] == [GRANULE, GRANULE]
    assert int(dump.totals["ledger"]["managed"]) == COMMITTED // 2 + CODE + 2 * GRANULE


@pytest.mark.parametrize("kind", ["less", "short", "ring", "astray", "twice"])
def test_metaspace_that_is_none(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    metaspace = dump.runtimes[2]
    assert states(dump)[fmt.RuntimeKind.JVM_METASPACE] == fmt.RuntimeState.UNPROVEN
    assert not [region for region in dump.regions if int(region["runtime"]) == 2]
    if kind != "twice":  # there the ranges overlap, and the rest is as it must be
        assert (int(metaspace["used"]), int(metaspace["committed"])) == (4096, 8192)
        assert int(dump.totals["ledger"]["managed"]) == COMMITTED // 2 + CODE
