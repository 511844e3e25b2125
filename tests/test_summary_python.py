# SPDX-License-Identifier: MIT
"""The summary that Python makes of a dump: what C prints of it, and what the schema promises."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import synthetic_dump as synthetic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools import harness

from arenascope import format as fmt
from arenascope.dump import Dump
from arenascope.errors import DumpError
from arenascope.summary import summarize

SCHEMA = json.loads((Path(__file__).parent.parent / "docs/summary.schema.json").read_text())
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


def test_synthetic_values(tmp_path: Path) -> None:
    summary = summarize(Dump(synthetic.write(tmp_path / "dump", synthetic.sections())))
    jsonschema.validate(summary, SCHEMA)
    assert summary["target"]["kind"] == "dump"
    assert summary["target"]["dump_of"] == "process"
    assert summary["snapshot"]["time"] == "2023-11-14T22:13:20.123Z"
    assert summary["snapshot"]["pause_ms"] == 1.234
    assert summary["allocator"]["main_arena"] == "0x7fff00001000"
    assert summary["arenas"][0]["threads"][0]["name"] == "synth\x1b[31m"
    assert summary["ledger"]["in_use"] == 4096
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    made = synthetic.sections()
    for row in (*fmt.LEDGER_ROWS, *fmt.ABSENT_ROWS, *fmt.FORECAST_ROWS, "hugetlb"):
        made["totals"][0]["ledger"][row] = fmt.UNKNOWN
    made["mappings"][0]["hugetlb"] = fmt.UNKNOWN
    for field in ("rss", "swap", "time_ns", "pause_ns", "read_ns", "torn_chunks"):
        made["meta"][0][field] = fmt.UNKNOWN
    made["meta"][0]["pid"] = made["meta"][0]["exe"] = made["meta"][0]["arch"] = 0
    made["arenas"][0]["attached_threads"] = fmt.UNKNOWN
    summary = summarize(Dump(synthetic.write(tmp_path / "dump", made)))
    jsonschema.validate(summary, SCHEMA)
    for part in ("ledger", "absent", "forecast", "kernel"):
        assert set(summary[part].values()) == {None}, part
    assert summary["hugetlb"] is None
    snapshot = summary["snapshot"]
    assert [snapshot[key] for key in ("pause_ms", "read_ms", "torn_chunks", "time")] == [None] * 4
    assert [summary["target"][key] for key in ("pid", "exe", "arch")] == [None] * 3
    assert summary["arenas"][0]["attached_threads"] is None


def test_without_any_glibc(tmp_path: Path) -> None:
    made = synthetic.sections()
    for section in ("mallocs", "arenas", "heaps", "pages", "chunks", "sizes", "threads", "ruby", "warnings"):
        made[section] = made[section][:0]
    made["meta"][0]["malloc_kind"] = fmt.MallocKind.MUSL
    summary = summarize(Dump(synthetic.write(tmp_path / "dump", made)))
    jsonschema.validate(summary, SCHEMA)
    assert summary["allocator"]["malloc"] == "musl"
    assert summary["allocator"]["layout_source"] is None
    assert set(summary["tunables"].values()) == {None}


def test_names_that_are_not_utf8(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["comm"] = b'\xe2\x82A\xff"\\\x01\x7f'
    made["threads"][0]["name"] = b"\xed\xa0\x80\xf0\x9f\x92\xa9"
    path = synthetic.write(tmp_path / "dump", made)
    summary = summarize(Dump(path))
    assert summary["target"]["comm"] == '\ufffd\ufffdA\ufffd"\\\x01\x7f'
    assert summary["arenas"][0]["threads"][0]["name"] == "\ufffd\ufffd\ufffd\U0001f4a9"
    assert summary == printed_by_c(arenadump, path)


def test_a_real_dump_says_the_same_in_c_and_in_python(arenadump: harness.Arenadump, real_dump: Path) -> None:
    summary = summarize(Dump(real_dump))
    jsonschema.validate(summary, SCHEMA)
    from_c = printed_by_c(arenadump, real_dump)
    assert summary == from_c
    assert list(summary) == list(from_c)
    assert len(summary["arenas"]) > 1


def test_a_real_dump_holds_together(real_dump: Path) -> None:
    """Chunks cover their heaps, pages count what the chunks say, totals are the sums of the arenas."""
    dump = Dump(real_dump)
    assert len(dump.heaps)
    assert dump.chunks is not None
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
    rows = [int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS]
    assert sum(rows) == int(dump.meta["rss"])


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_c_and_python_judge_a_damaged_dump_alike(
    arenadump: harness.Arenadump, real_dump: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Both refuse it with the same exit code, or both say the same of it."""
    made = bytearray(real_dump.read_bytes())
    table = int.from_bytes(made[24:32], "little")
    sections = {
        bytes(entry["name"]).decode(): entry
        for entry in np.frombuffer(made, fmt.SECTION, int.from_bytes(made[32:36], "little"), table).copy()
    }
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(["header", "table", *sections]))
        if name in sections:
            start, size = int(sections[name]["offset"]), int(sections[name]["count"] * sections[name]["record_size"])
        else:
            start, size = {"header": (0, fmt.HEADER.itemsize), "table": (table, len(made) - table)}[name]
        if size:
            place = start + data.draw(st.integers(0, size - 1))
            made[place] = data.draw(st.sampled_from([0, 1, 127, 255]) | st.integers(0, 255))
    if data.draw(st.integers(0, 9)) == 0:
        del made[data.draw(st.integers(0, len(made) - 1)) :]
    path = tmp_path / "damaged"
    path.write_bytes(made)
    done = arenadump.run("summary", "--json", path)
    try:
        dump, code = Dump(path), 0
    except DumpError as error:
        dump, code = None, error.code
    assert done.returncode == code, done.stderr
    if dump is not None:
        assert summarize(dump) == json.loads(done.stdout)
