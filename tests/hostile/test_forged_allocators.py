# SPDX-License-Identifier: MIT
"""The memory of other allocators is untrusted input: what does not fit is not believed, and costs bounded time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tools import harness
from tools.bounded import MEMORY, take_snapshot
from tools.forged import named, running

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

PAGE, CHUNK = 4096, 2 << 20
ANSWERING = {"tcmalloc", "musl", "mimalloc3", "partition"}  # searched for where an unknown malloc answers


def forged(kind: str, scratch: Path) -> AbstractContextManager[int]:
    name = kind.partition("-")[0]
    source = "forged_mallocs" if name in ANSWERING else "forged_allocators"
    exports = ["-rdynamic"] * (name in {*ANSWERING, "php"})
    return running(named(name, scratch, source, *exports), kind)


def dump_of(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with forged(kind, scratch) as pid:
        dump = take_snapshot(arenadump, pid, scratch, MEMORY)
    assert dump is not None
    found = int(dump.totals["ledger"]["other_malloc"])
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS if row != "other_malloc"]
    assert sum(rows) + (0 if found == fmt.UNKNOWN else found) == int(dump.meta["rss"])
    return dump


def regions(dump: Dump) -> int:
    return int(dump.regions["size"].sum())


@pytest.mark.parametrize("kind", ["jemalloc-lies", "jemalloc-endless", "jemalloc-zeros"])
def test_what_is_not_jemallocs_is_none(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Nothing else says that there is a jemalloc here."""
    dump = dump_of(kind, arenadump, tmp_path)
    assert len(dump.runtimes) == len(dump.regions) == int(dump.totals["ledger"]["other_malloc"]) == 0


def test_extent_that_is_mallocs_unproves_all(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("jemalloc-heap", arenadump, tmp_path)
    assert [tuple(map(int, (r["kind"], r["state"]))) for r in dump.runtimes] == [
        (fmt.RuntimeKind.JEMALLOC, fmt.RuntimeState.UNPROVEN)
    ]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["other_malloc"]) == fmt.UNKNOWN


def test_block_that_does_not_add_up_is_left_out(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    assert regions(dump_of("jemalloc-block", arenadump, tmp_path)) == 24 * PAGE


def test_what_is_as_jemalloc_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = dump_of("jemalloc", arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.JEMALLOC, fmt.RuntimeState.FOUND)
    assert regions(dump) == int(record["committed"]) == 24 * PAGE + 2 * CHUNK
    assert int(dump.totals["ledger"]["other_malloc"]) >= 24 * PAGE


@pytest.mark.parametrize(
    ("kind", "slices"), [("mimalloc", 512 + 700), ("mimalloc-small", 2), ("mimalloc-numbers", 512)]
)
def test_what_is_as_mimalloc_has_it_is_found(
    kind: str, slices: int, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """Many headers each ask for another number: those are found whose number stands in a variable."""
    dump = dump_of(kind, arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.MIMALLOC, fmt.RuntimeState.FOUND)
    assert regions(dump) == int(record["committed"]) == slices << 16
    assert int(dump.totals["ledger"]["other_malloc"]) >= PAGE


def test_number_that_no_variable_has_proves_nothing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("mimalloc-cookie", arenadump, tmp_path)
    assert len(dump.runtimes) == len(dump.regions) == int(dump.totals["ledger"]["other_malloc"]) == 0


@pytest.mark.parametrize("kind", ["php-ring", "php-sum", "php-huge", "php-endless"])
def test_what_is_not_phps_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert [tuple(map(int, (r["kind"], r["state"]))) for r in dump.runtimes] == [
        (fmt.RuntimeKind.ZEND, fmt.RuntimeState.UNPROVEN)
    ]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["other_malloc"]) == fmt.UNKNOWN


def test_what_is_as_php_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    dump = dump_of("php", arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.ZEND, fmt.RuntimeState.FOUND)
    assert regions(dump) == int(record["committed"]) == 5 * CHUNK
    assert int(record["used"]) == 1000


# --- tcmalloc and musl, which are searched for where an unknown malloc answers
# ------------------------------------------

TCMALLOC_OWN, TCMALLOC_PAGE = 8 << 20, 8192


def evidence(dump: Dump) -> str:
    return dump.string(int(dump.runtimes[0]["evidence"]))


@pytest.mark.parametrize("kind", ["tcmalloc", "tcmalloc-stale"])
def test_what_is_as_tcmalloc_has_it_is_found(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.TCMALLOC, fmt.RuntimeState.FOUND)
    assert regions(dump) - TCMALLOC_OWN == int(record["committed"]) == 22 * TCMALLOC_PAGE
    assert "as taken, as free, and as returned" in evidence(dump)


def test_sums_that_differ_are_no_evidence(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("tcmalloc-sums", arenadump, tmp_path)
    assert regions(dump) - TCMALLOC_OWN == int(dump.runtimes[0]["committed"]) == 22 * TCMALLOC_PAGE
    assert "as taken" not in evidence(dump)


def test_of_a_chunk_at_least_what_lies_between_its_parts_is_known(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("tcmalloc-free", arenadump, tmp_path)
    assert regions(dump) - 22 * TCMALLOC_PAGE == (128 << 10) + (2 << 20) + PAGE


def test_a_span_between_two_parts_of_a_chunk_is_no_part(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("tcmalloc-between", arenadump, tmp_path)
    assert regions(dump) - 22 * TCMALLOC_PAGE == PAGE + (2 << 20) + PAGE


@pytest.mark.parametrize(
    "kind",
    [
        "tcmalloc-lies",
        "tcmalloc-endless",
        "musl-back",
        "musl-number",
        "musl-endless",
        "mimalloc3-place",
        "mimalloc3-arena",
        "mimalloc3-endless",
        "partition-root",
        "partition-span",
        "partition-pool",
        "partition-endless",
    ],
)
def test_what_does_not_fit_is_not_located(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert [tuple(map(int, (r["kind"], r["state"]))) for r in dump.runtimes] == [
        (fmt.RuntimeKind.UNKNOWN_MALLOC, fmt.RuntimeState.UNPROVEN)
    ]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["other_malloc"]) == fmt.UNKNOWN


@pytest.mark.parametrize("kind", ["tcmalloc-overlap", "musl-overlap"])
def test_what_lies_on_itself_is_not_believed(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of(kind, arenadump, tmp_path)
    assert [int(r["state"]) for r in dump.runtimes] == [fmt.RuntimeState.UNPROVEN]
    assert len(dump.regions) == 0
    assert int(dump.totals["ledger"]["other_malloc"]) == fmt.UNKNOWN


def test_what_is_as_musl_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = dump_of("musl", arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.MUSL, fmt.RuntimeState.FOUND)
    assert regions(dump) == int(record["committed"]) == 6 * PAGE
    assert "2 groups" in evidence(dump)  # the third one lies in a slot


@pytest.mark.parametrize(("kind", "pages"), [("mimalloc3", 2), ("mimalloc3-later", 2), ("mimalloc3-stale", 23)])
def test_what_is_as_mimalloc_3_has_it_is_found(
    kind: str, pages: int, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """Two tables, an arena, and half as much for a page of its own."""
    dump = dump_of(kind, arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.MIMALLOC, fmt.RuntimeState.FOUND)
    tables = CHUNK + PAGE + (64 << 10)
    assert regions(dump) == int(record["committed"]) == tables + TCMALLOC_OWN * 3 // 2
    assert f"each of {pages} pages" in evidence(dump)


def test_what_is_as_partitionalloc_has_it_is_found(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """All of a pool that can be accessed."""
    dump = dump_of("partition", arenadump, tmp_path)
    (record,) = dump.runtimes
    assert (int(record["kind"]), int(record["state"])) == (fmt.RuntimeKind.PARTITIONALLOC, fmt.RuntimeState.FOUND)
    assert regions(dump) == int(record["committed"]) == 3 * TCMALLOC_OWN
    assert evidence(dump).startswith("1 roots of partitions")
