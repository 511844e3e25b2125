# SPDX-License-Identifier: MIT
"""The summary that Python makes of a dump: what C prints of it, and what the schema promises."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console
from tools import harness
from tools import synthetic_dump as synthetic

from arenascope import rows
from arenascope.render.summary import render_summary
from arenascope.schema import schema
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of, summarize

SCHEMA = schema("summary")
# Threads that hold arenas and memory of many sizes, then wait.
TARGET = """
import sys, threading
kept, ready = [], threading.Barrier(5)
def work():
    blocks = [bytearray(size) for size in range(1, 40000, 37)]
    kept.append(blocks[::7])
    del blocks
    ready.wait()
    threading.Event().wait()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
ready.wait()
print(".", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def real_dump(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A dump, with chunks, of a Python with threads."""
    path = tmp_path_factory.mktemp("real") / "dump"
    with subprocess.Popen([sys.executable, "-c", TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdout
        target.stdout.readline()
        done = arenadump.run("dump", target.pid, "--chunks", "-o", path)
        assert done.returncode == 0, done.stderr
        yield path


def printed_by_c(arenadump: harness.Arenadump, path: Path) -> dict[str, Any]:
    done = arenadump.run("summary", "--json", path)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.check
def test_synthetic_values(tmp_path: Path) -> None:
    summary = document_of(Dump(synthetic.write(tmp_path / "dump", synthetic.sections())))
    jsonschema.validate(summary, SCHEMA)
    assert summary["target"]["kind"] == "dump"
    assert summary["target"]["dump_of"] == "process"
    assert summary["snapshot"]["time"] == "2023-11-14T22:13:20.123Z"
    assert summary["snapshot"]["pause_ms"] == 1.234
    assert summary["allocator"]["main_arena"] == "0x7fff00001000"
    assert summary["arenas"][0]["threads"][0]["name"] == "synth\x1b[31m"
    assert summary["ledger"]["in_use"] == 4096
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]


@pytest.mark.check
def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    made = synthetic.sections()
    for row in (*fmt.LEDGER_ROWS, *fmt.ABSENT_ROWS, *fmt.FORECAST_ROWS, "hugetlb"):
        made["totals"][0]["ledger"][row] = fmt.UNKNOWN
    made["mappings"][0]["hugetlb"] = fmt.UNKNOWN
    for field in ("rss", "swap", "time_ns", "pause_ns", "read_ns", "torn_chunks"):
        made["meta"][0][field] = fmt.UNKNOWN
    made["meta"][0]["pid"] = made["meta"][0]["exe"] = made["meta"][0]["arch"] = 0
    made["arenas"][0]["attached_threads"] = fmt.UNKNOWN
    summary = document_of(Dump(synthetic.write(tmp_path / "dump", made)))
    jsonschema.validate(summary, SCHEMA)
    for part in ("ledger", "absent", "forecast", "kernel"):
        assert set(summary[part].values()) == {None}, part
    assert summary["hugetlb"] is None
    snapshot = summary["snapshot"]
    assert [snapshot[key] for key in ("pause_ms", "read_ms", "torn_chunks", "time")] == [None] * 4
    assert [summary["target"][key] for key in ("pid", "exe", "arch")] == [None] * 3
    assert summary["arenas"][0]["attached_threads"] is None


@pytest.mark.check
def test_without_any_glibc(tmp_path: Path) -> None:
    made = synthetic.sections()
    for section in ("mallocs", "arenas", "heaps", "pages", "chunks", "sizes", "threads", "ruby", "warnings"):
        made[section] = made[section][:0]
    made["meta"][0]["malloc_kind"] = fmt.MallocKind.MUSL
    summary = document_of(Dump(synthetic.write(tmp_path / "dump", made)))
    jsonschema.validate(summary, SCHEMA)
    assert summary["allocator"]["malloc"] == "musl"
    assert summary["allocator"]["layout_source"] is None
    assert set(summary["tunables"].values()) == {None}


def test_names_that_are_not_utf8(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["comm"] = b'\xe2\x82A\xff"\\\x01\x7f'
    made["threads"][0]["name"] = b"\xed\xa0\x80\xf0\x9f\x92\xa9"
    path = synthetic.write(tmp_path / "dump", made)
    summary = document_of(Dump(path))
    assert summary["target"]["comm"] == '\ufffd\ufffdA\ufffd"\\\x01\x7f'
    assert summary["arenas"][0]["threads"][0]["name"] == "\ufffd\ufffd\ufffd\U0001f4a9"
    assert summary == printed_by_c(arenadump, path)


def test_a_real_dump_says_the_same_in_c_and_in_python(arenadump: harness.Arenadump, real_dump: Path) -> None:
    summary = document_of(Dump(real_dump))
    jsonschema.validate(summary, SCHEMA)
    from_c = printed_by_c(arenadump, real_dump)
    assert summary == from_c
    assert list(summary) == list(from_c)
    assert len(summary["arenas"]) > 1


def test_a_real_dump_holds_together(real_dump: Path) -> None:
    """Chunks cover their heaps, pages count what the chunks say, totals are the sums of the arenas."""
    dump = Dump(real_dump)
    assert len(dump.heaps)
    assert dump.has_chunks
    seen = np.zeros(len(fmt.ChunkClass), np.uint64)
    for index, heap in enumerate(dump.heaps):
        chunks = dump.heap_chunks(index)
        assert not chunks.torn, f"heap {index}"
        if heap["kind"] != fmt.HeapKind.MMAPPED:
            np.add.at(seen, chunks.classes, 1)
            pages = dump.heap_pages(index)
            in_use = chunks.sizes[chunks.classes == fmt.ChunkClass.IN_USE].sum()
            assert int(pages["in_use"].sum(dtype=np.uint64)) * fmt.UNIT == in_use, f"heap {index}"
    for name in ("in_use", "tcache", "fastbin", "binned", "top"):
        total = int(dump.totals["chunks"][name]["count"])
        assert total == int(dump.arenas["chunks"][name]["count"].sum(dtype=np.uint64)), name
        assert total == int(seen[fmt.ChunkClass[name.upper()]]), name
    held = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS]
    assert sum(held) == int(dump.meta["rss"])


def with_rows(**held: int) -> dict[str, Any]:
    """Synthetic sections whose totals have these rows, and 0 in all others."""
    made = synthetic.sections()
    for row in rows.ALL:
        made["totals"][0]["ledger"][row.name] = held.get(row.name, 0)
    return made


@pytest.mark.check
def test_sums_are_of_the_rows_that_they_name(tmp_path: Path) -> None:
    """Each row holds a power of two, so a sum tells which rows are in it."""
    held = {row.name: 1 << index for index, row in enumerate(rows.RESIDENT)}
    made = with_rows(**held, malloc_trim=1000, deep_trim=1234)
    sums = document_of(Dump(synthetic.write(tmp_path / "dump", made)))["sums"]
    cached, free_pages = ("tcache", "fastbin"), ("releasable", "withheld")
    of = {
        "resident": tuple(held),
        "known": tuple(held),
        "used": ("in_use", "mmapped_in_use"),
        "cached": cached,
        "scattered": (*cached, "stranded"),
        "free_pages": free_pages,
        "free": (*cached, "stranded", *free_pages),
        "not_malloc": tuple(row.name for row in rows.RESIDENT if row.owner != "MALLOC"),
    }
    assert sums == {name: sum(held[row] for row in each) for name, each in of.items()} | {"deep_trim_adds": 234}


@pytest.mark.check
def test_a_sum_with_an_unknown_row_is_unknown(tmp_path: Path) -> None:
    made = with_rows(in_use=8, tcache=4, stranded=fmt.UNKNOWN, other_anon=2, deep_trim=fmt.UNKNOWN)
    sums = document_of(Dump(synthetic.write(tmp_path / "dump", made)))["sums"]
    assert {name for name, held in sums.items() if held is None} == {"resident", "scattered", "free", "deep_trim_adds"}
    assert (sums["known"], sums["used"], sums["cached"], sums["not_malloc"]) == (14, 8, 4, 2)


@pytest.mark.check
def test_ruby_pages_that_are_not_known_are_in_other_rows(tmp_path: Path) -> None:
    made = with_rows(in_use=8, other_anon=2, ruby_pages=fmt.UNKNOWN)
    sums = document_of(Dump(synthetic.write(tmp_path / "dump", made)))["sums"]
    assert (sums["resident"], sums["known"], sums["not_malloc"]) == (10, 10, 2)


@pytest.mark.check
def test_a_sum_that_does_not_fit_is_unknown(tmp_path: Path) -> None:
    made = with_rows(in_use=1 << 63, mmapped_in_use=1 << 63, deep_trim=1, malloc_trim=2)
    sums = document_of(Dump(synthetic.write(tmp_path / "dump", made)))["sums"]
    assert sums["used"] is sums["resident"] is sums["known"] is None
    assert sums["deep_trim_adds"] == 0


@pytest.mark.check
def test_arenas_have_their_names(tmp_path: Path) -> None:
    made = synthetic.sections()
    for mains, names in (([True, False], ["main arena", "arena 1"]), ([True, False, True], None)):
        made["arenas"] = np.repeat(synthetic.sections()["arenas"], len(mains))
        for index, arena in enumerate(made["arenas"]):
            arena["flags"], arena["address"] = fmt.ArenaFlag.MAIN * mains[index], 4096 * (index + 1)
            arena["heap_count"] = index == 0
        arenas = document_of(Dump(synthetic.write(tmp_path / "dump", made)))["arenas"]
        assert [arena["name"] for arena in arenas] == (names or ["main arena 1", "arena 1", "main arena 2"])


@pytest.mark.parametrize("kind", fmt.MallocKind)
def test_what_it_means_that_malloc_is_not_glibcs(tmp_path: Path, kind: fmt.MallocKind) -> None:
    """The C program says it, and both programs show its words."""
    made = synthetic.sections()
    made["meta"][0]["malloc_kind"] = kind
    if kind > fmt.MallocKind.GO:  # which came with a later minor version
        made["meta"][0]["malloc_kind"] = 0
    made["totals"][0]["ledger"]["other_anon"] = 4096
    path = synthetic.write(tmp_path / "dump", made)
    summary = document_of(Dump(path))
    jsonschema.validate(summary, SCHEMA)
    words = summary["allocator"]["not_glibc"]
    assert (words is None) == (kind == fmt.MallocKind.GLIBC)
    shown = Console(width=200, file=io.StringIO())
    shown.print(render_summary(summarize(Dump(path))))
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    meaning = rows.BY_NAME["other_anon"].meaning
    if words is None:
        assert meaning in text
        assert "is not glibc's" not in text
    else:
        assert list(words["meanings"]) == ["other_anon"]
        assert words["meanings"]["other_anon"] in text
        assert meaning not in text
        assert f"{words['says']}: " in text
        assert words["memory"] in text
