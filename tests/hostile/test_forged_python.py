# SPDX-License-Identifier: MIT
"""A Python's memory is untrusted input: what is not as pymalloc has it is not believed, and costs bounded time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tools import harness
from tools.bounded import MEMORY, take_snapshot
from tools.forged import named, running

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump


def forged(kind: str, scratch: Path) -> AbstractContextManager[int]:
    """The PID of a program that is called python3 and says so."""
    return running(named("python3", scratch, "forged_python"), kind)


@pytest.mark.parametrize("kind", ["lies", "counts", "overlap", "endless"])
def test_what_is_not_pymallocs_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with forged(kind, tmp_path) as pid:
        dump = take_snapshot(arenadump, pid, tmp_path, MEMORY)
    assert dump is not None
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == len(dump.size_classes) == 0
    assert int(dump.totals["ledger"]["python_arenas"]) == fmt.UNKNOWN
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "python_arenas"]
    assert sum(rows) == int(dump.meta["rss"])


@pytest.mark.parametrize("kind", ["true", "late", "copy"])
def test_what_is_as_pymalloc_has_it_is_found(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    with forged(kind, tmp_path) as pid:
        dump = take_snapshot(arenadump, pid, tmp_path, MEMORY)
    assert dump is not None
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    (region,) = dump.regions
    pools = int(region["in_use"]) // (100 * 32)
    assert pools in {63, 64}
    assert [tuple(map(int, record)) for record in dump.size_classes] == [(0, 32, pools, 100 * pools, 410 * pools)]


@pytest.mark.parametrize(("kind", "arenas"), [("interpreters", 3), ("numbers", 1), ("circle", 1), ("first", 1)])
def test_interpreters_without_offsets(kind: str, arenas: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """3.12 has their list, and no more. tests/runtimes/test_python_interpreters.py inspects a real one."""
    with forged(kind, tmp_path) as pid:
        dump = take_snapshot(arenadump, pid, tmp_path, MEMORY)
    assert dump is not None
    assert list(dump.runtimes["state"]) == [fmt.RuntimeState.FOUND]
    assert len(dump.regions) == arenas


LISTS = 20 * 64 * 127  # in forged_python.c
BLOCK = 64


def objects(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with forged(kind, scratch) as pid:
        dump = take_snapshot(arenadump, pid, scratch, MEMORY, "--objects")
    assert dump is not None
    (runtime,) = dump.runtimes
    assert runtime["state"] == fmt.RuntimeState.FOUND
    if runtime["objects"] != fmt.ObjectsState.UNKNOWN:
        counted = int(dump.types["bytes"].sum() + dump.types["owned_bytes"].sum() + runtime["other_bytes"])
        assert counted == int(dump.regions["in_use"].sum())
    return dump


def test_objects_that_are_some_are_counted(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = objects("objects", arenadump, tmp_path)
    assert list(dump.runtimes["objects"]) == [fmt.ObjectsState.COUNTED]
    (kind,) = dump.types
    assert dump.string(kind["name"]) == "list"
    assert int(kind["count"]) == int(kind["tracked"]) == LISTS
    assert int(kind["bytes"]) == int(kind["owned_bytes"]) == LISTS * BLOCK
    assert int(dump.runtimes[0]["other_blocks"]) == 20 * 64


def test_a_list_of_free_blocks_without_an_end(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = objects("loop", arenadump, tmp_path)
    assert int(dump.types[0]["count"]) == LISTS
    assert int(dump.runtimes[0]["other_blocks"]) == 0


def test_a_block_has_one_owner(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = objects("shared", arenadump, tmp_path)
    assert int(dump.types[0]["owned_bytes"]) == 20 * BLOCK


@pytest.mark.parametrize("kind", ["ring", "types"])
def test_types_that_are_none(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = objects(kind, arenadump, tmp_path)
    assert list(dump.runtimes["objects"]) == [fmt.ObjectsState.UNKNOWN]
    assert len(dump.types) == 0
    assert any("could not be counted by type" in dump.string(warning["text"]) for warning in dump.warnings)
