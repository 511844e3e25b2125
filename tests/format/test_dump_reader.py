# SPDX-License-Identifier: MIT
"""The Python dump reader on dumps written here: what it hands out, and what it refuses."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools import harness
from tools import synthetic_dump as synthetic

from arenascope.errors import Code, DumpError
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.dump_records import SECTIONS
from arenascope.wire.summary import summarize

pytestmark = pytest.mark.check

Sections = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def dump_path(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "dump", synthetic.sections())


def test_sections_come_back_as_written(dump_path: Path) -> None:
    dump, made = Dump(dump_path), synthetic.sections()
    for name in ("mallocs", "arenas", "heaps", "pages", "chunks", "sizes", "threads", "mappings", "warnings"):
        assert getattr(dump, name).tobytes() == made[name].tobytes(), name
    assert dump.meta.tobytes() == made["meta"].tobytes()
    assert dump.totals.tobytes() == made["totals"].tobytes()
    assert dump.string(dump.meta["exe"]) == "/usr/bin/synthetic"
    assert dump.string(0) == ""
    assert dump.string(1 << 31) == ""


def test_arrays_are_views_that_outlive_the_dump_and_the_file(dump_path: Path) -> None:
    pages = Dump(dump_path).pages
    dump_path.unlink()
    assert not pages.flags.owndata
    assert not pages.flags.writeable
    assert pages["in_use"].tolist() == [256, 0]


def test_chunks_have_addresses_sizes_and_classes(dump_path: Path) -> None:
    chunks = Dump(dump_path).heap_chunks(0)
    start = synthetic.HEAP_START
    assert chunks.addresses.tolist() == [start, start + 1024, start + 4096]
    assert chunks.sizes.tolist() == [1024, 3072, 4096]
    assert chunks.classes.tolist() == [fmt.ChunkClass.IN_USE, fmt.ChunkClass.IN_USE, fmt.ChunkClass.TOP]
    assert not chunks.torn


def test_a_chunk_of_more_than_4_gib_is_one_chunk(tmp_path: Path) -> None:
    made = synthetic.sections()
    sizes = [64, (9 << 30) + 48, 32]
    kinds = [fmt.ChunkClass.IN_USE, fmt.ChunkClass.BINNED, fmt.ChunkClass.TOP]
    records = [r for size, kind in zip(sizes, kinds) for r in synthetic.chunk(size, kind)]
    assert len(records) == 5
    made["chunks"] = np.array(records, fmt.CHUNKS)
    made["heaps"][0]["end"] = synthetic.HEAP_START + sum(sizes)
    made["heaps"][0]["chunk_count"] = len(records)
    chunks = Dump(synthetic.write(tmp_path / "big", made)).heap_chunks(0)
    assert chunks.sizes.tolist() == sizes
    assert chunks.classes.tolist() == kinds
    assert not chunks.torn


@pytest.mark.parametrize("records", [[64], [64, 0, 8128 // 16], [513], [1 << 28], []], ids=str)
def test_chunks_never_leave_their_heap(tmp_path: Path, records: list[int]) -> None:
    """Records that cover too little, nothing, or more than the heap are cut off and called torn."""
    made = synthetic.sections()
    made["chunks"] = np.array(records, fmt.CHUNKS)
    made["heaps"][0]["chunk_count"] = len(records)
    chunks = Dump(synthetic.write(tmp_path / "torn", made)).heap_chunks(0)
    assert chunks.torn
    assert (chunks.sizes > 0).all()
    assert (chunks.addresses + chunks.sizes <= made["heaps"][0]["end"]).all()


def test_without_chunks(tmp_path: Path) -> None:
    made = synthetic.sections()
    del made["chunks"]
    made["meta"][0]["flags"] &= ~np.uint32(fmt.MetaFlag.HAS_CHUNKS)
    made["heaps"][0]["chunk_count"] = 0
    dump = Dump(synthetic.write(tmp_path / "plain", made))
    assert not dump.has_chunks
    assert len(dump.heap_chunks(0).sizes) == 0


@pytest.mark.parametrize(("name", "field"), [("threads", "offset"), ("threads", "count"), ("meta", "count")])
def test_a_table_that_changes_after_the_check(dump_path: Path, name: str, field: str) -> None:
    """It is refused when the file is opened, also where nobody has asked for that section."""
    data = bytearray(dump_path.read_bytes())
    header = np.frombuffer(data, fmt.HEADER, 1)[0]
    table = np.frombuffer(data, fmt.SECTION, int(header["section_count"]), int(header["table_offset"]))
    table[field][table["name"] == name.encode()] = 0 if name == "meta" else 1 << 40
    dump_path.write_bytes(data)
    with dump_path.open("rb") as file, pytest.raises(DumpError, match="was changed while it was read") as raised:
        Dump(dump_path, file.fileno())
    assert raised.value.code == Code.BAD_INPUT


def test_an_unknown_section_is_skipped(tmp_path: Path) -> None:
    made = {"novelty": np.zeros(3, "<u8"), **synthetic.sections()}
    assert Dump(synthetic.write(tmp_path / "newer", made)).meta["pid"] == 4242


def _set(section: str, field: str, value: int, index: int = 0) -> Callable[[Sections], None]:
    def bend(made: Sections) -> None:
        made[section][index][field] = value

    return bend


def _drop(section: str) -> Callable[[Sections], None]:
    def bend(made: Sections) -> None:
        del made[section]

    return bend


def _runtime_page(**fields: int) -> Callable[[Sections], None]:
    def bend(made: Sections) -> None:
        made["runtime_pages"] = np.zeros(1, fmt.RUNTIME_PAGE)
        for name, value in fields.items():
            made["runtime_pages"][name] = value

    return bend


def _circle(made: Sections) -> None:
    """A frame that is its own caller."""
    made["profile_frames"] = np.array([(fmt.NO_INDEX, 0, 0)], fmt.PROFILE_FRAME)
    made["profile_stacks"] = np.zeros(1, fmt.PROFILE_STACK)


def _share_of_nobody(made: Sections) -> None:
    made["profile_sites"], made["profile_shares"] = np.zeros(1, fmt.PROFILE_SITE), np.zeros(1, fmt.PROFILE_SHARE)
    made["profile_frames"] = np.array([(fmt.NO_INDEX, 0, 0)], fmt.PROFILE_FRAME)
    made["profile_stacks"] = np.array([(0, fmt.NO_INDEX)], fmt.PROFILE_STACK)


def _shares_out_of_order(made: Sections) -> None:
    _share_of_nobody(made)
    made["profile_sites"], made["profile_threads"] = np.zeros(2, fmt.PROFILE_SITE), np.zeros(1, fmt.PROFILE_THREAD)
    made["profile_shares"] = np.zeros(2, fmt.PROFILE_SHARE)
    made["profile_shares"]["site"] = [1, 0]


def _graph(section: str, **fields: int) -> Callable[[Sections], None]:
    def bend(made: Sections) -> None:
        made[section] = np.zeros(1, SECTIONS[section])
        for name in ("type", "owner", "leak"):
            if name in made[section].dtype.names:
                made[section][name] = fmt.NO_INDEX
        for name, value in fields.items():
            made[section][name] = value

    return bend


def _in(section: str, index: int = 0) -> str:
    return f'record {index} of its section "{section}"'


def _has(section: str, field: str, value: int, index: int = 0) -> str:
    return f"{_in(section, index)} has {field} {value}"


def _lie(section: str, field: str, value: int, index: int = 0) -> tuple[Callable[[Sections], None], str]:
    """One that the field's own rule refuses."""
    return _set(section, field, value, index), _has(section, field, value, index)


LIES = {
    "page size": (_set("meta", "page_size", 5000), "page size of 5000"),
    "page size zero": (_set("meta", "page_size", 0), "page size of 0"),
    "target kind": _lie("meta", "target_kind", 9),
    "malloc kind": _lie("meta", "malloc_kind", 77),
    "mode": _lie("meta", "mode", 0),
    "chunk flag": (_set("meta", "flags", 0), "disagree on chunk"),
    "malloc index": _lie("arenas", "malloc_index", 1),
    "first heap": (_set("arenas", "first_heap", 2), _in("arenas")),
    "heap count": (_set("arenas", "heap_count", 2**32 - 1), _in("arenas")),
    "heap owner": _lie("heaps", "arena", 1),
    "heap of nobody": (_set("heaps", "arena", fmt.NO_INDEX), "share heaps"),
    "heap kind": _lie("heaps", "kind", 0),
    "heap backwards": (_set("heaps", "end", 1), "heap 0 "),
    "pages": (_set("heaps", "page_count", 3), "heap 0 "),
    "pages overflow": (_set("heaps", "first_page", 2**64 - 1), "heap 0 "),
    "chunks": (_set("heaps", "chunk_count", 4), "heap 0 "),
    "chunks overflow": (_set("heaps", "first_chunk", 2**64 - 2), "heap 0 "),
    "page units": (_set("pages", "tcache", 1), _in("pages")),
    "page units overflow": (_set("pages", "tcache", 65535, 1), _in("pages", 1)),
    "page state": _lie("pages", "state", 11, 1),
    "thread arena": _lie("threads", "arena", 1),
    "layout source": _lie("mallocs", "layout_source", 6),
    "warning arena": _lie("warnings", "arena", 5),
    "warning heap": _lie("warnings", "heap", 5),
    "warning code": _lie("warnings", "code", 10),
    "no totals": (_drop("totals"), 'no section "totals"'),
    "no strings": (_drop("strings"), 'no section "strings"'),
    "no graph": (_drop("graph"), 'no section "graph"'),
    "runtime page units": (_runtime_page(in_use=500, free=13), _in("runtime_pages")),
    "runtime page address": (_runtime_page(address=4097), _in("runtime_pages")),
    "two graphs": (lambda made: made.update(graph=np.zeros(2, fmt.GRAPH)), _in("graph", 1)),
    "graph leak's type": (_graph("graph_leaks", type=0), _has("graph_leaks", "type", 0)),
    "graph page user's type": (_graph("graph_page_users", type=0), _has("graph_page_users", "type", 0)),
    "graph page user's owner": (_graph("graph_page_users", owner=0), _has("graph_page_users", "owner", 0)),
    "graph page user's leak": (_graph("graph_page_users", leak=0), _has("graph_page_users", "leak", 0)),
    "graph place's page": (_graph("graph_places", page=2), _has("graph_places", "page", 2)),
    "graph place's user": (_graph("graph_places", page=1), _has("graph_places", "user", 0)),
    "graph branch without owner": (_graph("graph_branches"), _in("graph_branches")),
    "graph branch's depth": (_graph("graph_branches", depth=1), _in("graph_branches")),
    "graph branch too deep": (_graph("graph_branches", depth=16), _has("graph_branches", "depth", 16)),
    "graph branch's type": (_graph("graph_branches", type=3, flags=1), _has("graph_branches", "type", 3)),
    "graph leading's owner": (_graph("graph_leading", owner=0), _has("graph_leading", "owner", 0)),
    "two profiles": (
        lambda made: made.update(profile=np.repeat(synthetic.everything()["profile"], 2)),
        _in("profile", 1),
    ),
    "unknown release": (_graph("profile", unknown_ruby=1 << 16), _has("profile", "unknown_ruby", 1 << 16)),
    "unknown hooks": (_graph("profile", hooks=3), _has("profile", "hooks", 3)),
    "too many threads": (
        lambda made: made.update(profile_threads=np.zeros(1024, fmt.PROFILE_THREAD)),
        _in("profile_threads", 1024),
    ),
    "profile frame's line": (_graph("profile_frames", module=fmt.NO_INDEX, line=1), _has("profile_frames", "line", 1)),
    "profile frame's module": (_graph("profile_frames", module=0), _has("profile_frames", "module", 0)),
    "profile stack's frame": (
        _graph("profile_stacks", frame=0, caller=fmt.NO_INDEX),
        _has("profile_stacks", "frame", 0),
    ),
    "profile site's stack": (_graph("profile_sites", stack=0), _has("profile_sites", "stack", 0)),
    "profile pin of no site": (
        lambda made: made.update(profile_pins=np.zeros(1, fmt.PROFILE_PIN)),
        _in("profile_pins", 1),
    ),
    "profile place's site": (_graph("profile_places", page=0, site=0), _has("profile_places", "site", 0)),
    "profile share's site": (
        _graph("profile_shares", site=0, thread=fmt.NO_INDEX),
        _has("profile_shares", "site", 0),
    ),
    "profile share's thread": (_share_of_nobody, _has("profile_shares", "thread", 0)),
    "profile shares out of order": (_shares_out_of_order, _in("profile_shares", 1)),
    "profile stack in a circle": (_circle, _in("profile_stacks")),
    "space of nobody": (
        lambda made: made.update(spaces=np.zeros(1, fmt.SPACE)),
        _has("spaces", "runtime", 0),
    ),
    "two metas": (lambda made: made.update(meta=np.repeat(made["meta"], 2)), "one record"),
    "strings open": (lambda made: made.update(strings=made["strings"][:-1]), "not terminated"),
    "records cut within a field": (lambda made: made.update(heaps=np.zeros(1, "V63")), "a size that no version has"),
    "records cut behind a field": (lambda made: made.update(heaps=np.zeros(1, "V56")), "a size that no version has"),
    "wider strings": (lambda made: made.update(strings=np.zeros(1, "V2")), "a size that no version has"),
}


@pytest.mark.parametrize(("bend", "words"), LIES.values(), ids=LIES)
def test_a_lie_is_named(
    arenadump: harness.Arenadump, tmp_path: Path, bend: Callable[[Sections], None], words: str
) -> None:
    made = synthetic.sections()
    bend(made)
    path = synthetic.write(tmp_path / "liar", made)
    with pytest.raises(DumpError, match=re.escape(words)) as caught:
        Dump(path)
    assert caught.value.code == Code.BAD_INPUT
    failed = arenadump.run("summary", path)  # the reader in C says the same
    assert failed.returncode == Code.BAD_INPUT
    assert words in failed.stderr


@pytest.mark.parametrize("section", sorted(fmt.INDEXES))
def test_every_index_is_checked(arenadump: harness.Arenadump, tmp_path: Path, section: str) -> None:
    """By both readers, as the table says."""
    for index in fmt.INDEXES[section]:
        made = synthetic.everything()
        bad = len(made[index.section]) + index.first
        made[section][0][index.name] = bad
        path = synthetic.write(tmp_path / index.name, made)
        with pytest.raises(DumpError, match=re.escape(_has(section, index.name, bad))):
            Dump(path)
        assert _has(section, index.name, bad) in arenadump.run("summary", path).stderr


@pytest.mark.parametrize("section", sorted(fmt.RANGES))
def test_every_range_is_checked(arenadump: harness.Arenadump, tmp_path: Path, section: str) -> None:
    for of in fmt.RANGES[section]:
        for bad in (of.lowest - 1, of.highest + 1):
            if bad < 0:
                continue
            made = synthetic.everything()
            made[section][0][of.name] = bad
            path = synthetic.write(tmp_path / of.name, made)
            with pytest.raises(DumpError, match=re.escape(_has(section, of.name, bad))):
                Dump(path)
            assert _has(section, of.name, bad) in arenadump.run("summary", path).stderr


# --- Records of other minor versions ----------------------------------------------------------------------------------


def test_larger_records_are_read_by_their_beginning(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A later minor version has more fields behind those that are known."""
    made = synthetic.everything()
    later = {
        name: np.array([(record, 7) for record in records], [("known", records.dtype), ("more", "<u8")])
        for name, records in made.items()
        if records.dtype.names
    }
    today = synthetic.write(tmp_path / "today", made)
    newer = synthetic.write(tmp_path / "newer", {**made, **later}, minor=fmt.MINOR + 1)
    ours, theirs = Dump(today), Dump(newer)
    for name in SECTIONS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    assert arenadump.check("summary", "--json", newer) == arenadump.check("summary", "--json", today)


HEADERS = {
    "magic": (0, b"ARENASK\n", "not a dump"),
    "text mode": (0, b"ARENASC\r", "text mode"),
    "newer": (8, struct.pack("<H", 2), "newer arenascope"),
    "version zero": (8, struct.pack("<H", 0), "does not exist"),
    "truncated": (16, struct.pack("<Q", 1 << 40), "truncated"),
    "longer": (16, struct.pack("<Q", 4096), "header does not fit"),
    "table": (24, struct.pack("<Q", 2**64 - 8), "header does not fit"),
    "sections": (32, struct.pack("<I", 2**32 - 1), "header does not fit"),
    "entry size": (36, struct.pack("<I", 8), "header does not fit"),
}


@pytest.mark.parametrize(("offset", "value", "words"), HEADERS.values(), ids=HEADERS)
def test_a_wrong_header_is_named(dump_path: Path, offset: int, value: bytes, words: str) -> None:
    data = bytearray(dump_path.read_bytes())
    data[offset : offset + len(value)] = value
    dump_path.write_bytes(data)
    with pytest.raises(DumpError, match=words):
        Dump(dump_path)


def test_what_is_no_dump_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(fmt.MAGIC)
    (tmp_path / "text").write_text("a" * 10000)
    cases = {"fifo": "regular file", "empty": "only 0 bytes", "short": "only 8 bytes", "text": "not a dump", "": "file"}
    for name, words in cases.items():
        with pytest.raises(DumpError, match=words) as caught:
            Dump(tmp_path / name)
        assert caught.value.code == Code.BAD_INPUT
    with pytest.raises(DumpError, match=re.escape("No such file")) as caught:
        Dump(tmp_path / "missing")
    assert caught.value.code == Code.NO_TARGET


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.none() | st.integers(0, 1 << 20),
)
def test_a_damaged_dump_is_refused_or_safe(dump_path: Path, edits: list[tuple[int, int]], cut: int | None) -> None:
    """Whatever a few wrong bytes say, the reader refuses them, or all that it hands out can be used."""
    made = bytearray(synthetic.write(dump_path, synthetic.sections()).read_bytes())
    for position, value in edits:
        # The records are what matters; the hole before them is 4 KiB of nothing.
        place = position % (len(made) - fmt.DATA_START + fmt.HEADER.itemsize)
        made[place if place < fmt.HEADER.itemsize else place - fmt.HEADER.itemsize + fmt.DATA_START] = value
    if cut is not None:
        del made[cut % len(made) :]
    dump_path.write_bytes(made)
    try:
        dump = Dump(dump_path)
    except DumpError:
        return
    summarize(dump)
    for heap in range(len(dump.heaps)):
        assert len(dump.heap_pages(heap)) == dump.heaps[heap]["page_count"]
        chunks = dump.heap_chunks(heap)
        assert (chunks.addresses >= dump.heaps[heap]["start"]).all()
        assert (chunks.sizes <= dump.heaps[heap]["end"] - chunks.addresses).all()
