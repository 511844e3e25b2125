# SPDX-License-Identifier: MIT
"""Writes small dump files from Python, for tests of readers: valid by default, and bent by whoever asks for it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.dump_records import SECTIONS

PAGE = 4096
SECTION_ALIGN = 64
# Sections with records in the process below.
FILLED = {"meta", "totals", "mallocs", "arenas", "heaps", "pages", "sizes", "threads", "mappings", "warnings"}
FILLED |= {"strings", "ruby", "chunks"}
HEAP_START = 0x5555_0000_0000


class Strings:
    """Section "strings" as it grows."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def add(self, text: bytes) -> int:
        offset = len(self.data)
        self.data += text + b"\0"
        return offset


def chunk(size: int, kind: fmt.ChunkClass) -> list[int]:
    """The chunk records of one chunk: several of them from 4 GiB on."""
    units, records = size // fmt.UNIT, []
    most = (1 << fmt.CHUNK_SIZE_BITS) - 1
    while units > most:
        records.append(most | fmt.CHUNK_MORE | kind << fmt.CHUNK_CLASS_SHIFT)
        units -= most
    return [*records, units | kind << fmt.CHUNK_CLASS_SHIFT]


def sections() -> dict[str, np.ndarray[Any, Any]]:
    """A process with one arena, one heap of two pages with three chunks, one thread, one warning."""
    strings = Strings()
    made: dict[str, np.ndarray[Any, Any]] = {
        name: np.zeros(int(name in FILLED), dtype) for name, dtype in SECTIONS.items()
    }
    meta = made["meta"][0]
    meta["target_kind"], meta["arch"], meta["page_size"] = fmt.TargetKind.PROCESS, fmt.Arch.X86_64, PAGE
    meta["pid"], meta["thread_count"], meta["comm"] = 4242, 1, b"synthetic"
    meta["malloc_kind"], meta["mode"] = fmt.MallocKind.GLIBC, fmt.Mode.FREEZE
    meta["flags"] = fmt.MetaFlag.RESIDENCY_KNOWN | fmt.MetaFlag.HAS_CHUNKS | fmt.MetaFlag.EXACT
    meta["time_ns"], meta["pause_ns"], meta["read_ns"] = 1_700_000_000_123_456_789, 1_234_567, 2_345_678
    meta["rss"], meta["swap"] = 3 * PAGE, 0
    meta["exe"], meta["cmdline"] = strings.add(b"/usr/bin/synthetic"), strings.add(b"synthetic --all")
    meta["tool_version"] = strings.add(b"synthetic")

    malloc = made["mallocs"][0]
    malloc["path"], malloc["version"] = strings.add(b"/lib/libc.so.6"), strings.add(b"2.36")
    malloc["build_id"], malloc["layout_versions"] = strings.add(b"00ff"), strings.add(b"2.35-2.42")
    malloc["layout_source"], malloc["proven"] = fmt.LayoutSource.RELOCATION, 1
    malloc["main_arena"], malloc["mp"] = 0x7FFF_0000_1000, fmt.UNKNOWN
    malloc["trim_threshold"], malloc["arena_max"] = 131072, fmt.UNKNOWN

    arena = made["arenas"][0]
    arena["address"], arena["flags"], arena["system_mem"] = 0x7FFF_0000_1000, fmt.ArenaFlag.MAIN, 2 * PAGE
    arena["attached_threads"], arena["top"], arena["heap_count"] = 1, HEAP_START + PAGE, 1
    for ledger in (arena["ledger"], made["totals"][0]["ledger"]):
        ledger["in_use"], ledger["stranded"], ledger["malloc_trim"], ledger["deep_trim"] = PAGE, PAGE, 0, fmt.UNKNOWN
    made["totals"][0]["ledger"]["other_file"] = PAGE
    for tallies in (arena["chunks"], made["totals"][0]["chunks"]):
        tallies["in_use"], tallies["top"] = (2, 4096), (1, 4096)

    heap = made["heaps"][0]
    heap["start"], heap["end"], heap["protected_end"] = HEAP_START, HEAP_START + 2 * PAGE, HEAP_START + 2 * PAGE
    heap["kind"], heap["page_count"], heap["chunk_count"] = fmt.HeapKind.BRK, 2, 3
    made["pages"] = np.zeros(2, fmt.PAGE)
    made["pages"][0]["in_use"], made["pages"][0]["state"] = 256, fmt.PageState.USED
    made["pages"][1]["top"], made["pages"][1]["state"] = 256, fmt.PageState.STRANDED
    made["pages"]["residency"] = fmt.Residency.PRESENT
    layout = ((1024, fmt.ChunkClass.IN_USE), (3072, fmt.ChunkClass.IN_USE), (4096, fmt.ChunkClass.TOP))
    made["chunks"] = np.array([record for size, kind in layout for record in chunk(size, kind)], fmt.CHUNKS)

    made["sizes"][0]["chunk_size"], made["sizes"][0]["in_use"], made["sizes"][0]["pin_count"] = 1024, 2, 1
    made["sizes"][0]["pin_pages"], made["sizes"][0]["pin_stranded"] = 1, 64
    thread = made["threads"][0]
    thread["tid"], thread["name"], thread["tcache"] = 4242, b"synth\x1b[31m", fmt.UNKNOWN
    thread["tcache_count"] = thread["tcache_bytes"] = fmt.UNKNOWN
    mapping = made["mappings"][0]
    mapping["start"], mapping["end"], mapping["kind"] = HEAP_START, HEAP_START + 2 * PAGE, fmt.MappingKind.ANON
    mapping["path"], mapping["rss"], mapping["malloc_rss"] = strings.add(b"[heap]"), 2 * PAGE, 2 * PAGE
    warning = made["warnings"][0]
    warning["text"], warning["code"] = strings.add(b"thread 4242: its tcache was not found"), fmt.WarningCode.TCACHE
    warning["arena"] = warning["heap"] = fmt.NO_INDEX
    warning["address"] = fmt.UNKNOWN
    made["strings"] = np.frombuffer(bytes(strings.data), fmt.STRINGS).copy()
    return made


def add_string(made: dict[str, np.ndarray[Any, Any]], text: bytes) -> int:
    """Adds a string to sections, and returns its offset."""
    offset = len(made["strings"])
    made["strings"] = np.concatenate([made["strings"], np.frombuffer(text + b"\0", fmt.STRINGS)])
    return offset


def sections_of(dump: Dump) -> dict[str, np.ndarray[Any, Any]]:
    """Those of a dump, to be changed; without its summary, which would not be theirs."""
    made = {name: np.atleast_1d(getattr(dump, name)).copy() for name in SECTIONS}
    return made | {"summary": made["summary"][:0]}


def with_graph() -> dict[str, np.ndarray[Any, Any]]:
    """The same process, whose two chunks a variable holds and nobody holds."""
    made = sections()
    strings = Strings()
    strings.data = bytearray(made["strings"].tobytes())
    for name in SECTIONS:
        if name.startswith(("graph", "profile")):
            made[name] = np.zeros(1, SECTIONS[name])
    head = made["graph"][0]
    head["chunks"], head["bytes"], head["reached"], head["unreached"] = 2, PAGE, 3072, 1024
    head["direct"] = (1, 1024)
    kind = made["graph_types"][0]
    kind["name"], kind["evidence"], kind["count"] = strings.add(b"app::Connection"), strings.add(b"vtable"), 2
    kind["bytes"], kind["retained"], kind["pinned"] = PAGE, 3072, (1, 512, 0)
    made["graph_owners"] = np.zeros(2, fmt.GRAPH_OWNER)
    made["graph_owners"]["kind"] = [strings.add(b"variable"), strings.add(b"lost")]
    made["graph_owners"]["address"] = made["graph_owners"]["offset"] = fmt.UNKNOWN
    owner = made["graph_owners"][0]
    owner["name"], owner["module"], owner["retained"] = strings.add(b"connections"), strings.add(b"app"), 3072
    made["graph_branches"] = np.zeros(2, fmt.GRAPH_BRANCH)
    made["graph_branches"]["depth"], made["graph_branches"]["retained"] = [0, 1], 3072
    made["graph_branches"]["owner"], made["graph_branches"]["type"] = [0, fmt.NO_INDEX], [fmt.NO_INDEX, 0]
    made["graph_leaks"][0]["size"], made["graph_leaks"][0]["direct"] = 1024, (1, 1024)
    made["graph_page_users"] = np.zeros(3, fmt.GRAPH_PAGE_USER)
    made["graph_page_users"]["flags"] = [fmt.GraphRecordFlag.OTHERS, 0, 0]
    made["graph_page_users"]["type"] = [fmt.NO_INDEX, 0, 0]
    made["graph_page_users"]["owner"] = [fmt.NO_INDEX, 0, 1]
    made["graph_page_users"]["leak"] = [fmt.NO_INDEX, fmt.NO_INDEX, 0]
    made["graph_page_users"]["bytes"] = [0, 3072, 1024]
    made["graph_page_users"]["pinned"]["pages"], made["graph_page_users"]["pinned"]["stranded"] = (
        [0, 20, 0],
        [0, 512, 0],
    )
    made["profile"][0]["page_rate"], made["profile"][0]["known_bytes"] = 64, PAGE
    made["profile"][0]["hooks"] = fmt.Hooks.IN_SLOTS
    made["profile_modules"][0]["path"] = strings.add(b"/usr/bin/app")
    made["profile_stacks"] = np.array([(0, fmt.NO_INDEX), (0, 0)], fmt.PROFILE_STACK)
    made["profile_sites"][0]["stack"], made["profile_sites"][0]["bytes"] = 1, PAGE
    made["profile_threads"][0]["tid"], made["profile_shares"][0]["bytes"] = 7, PAGE
    made["profile_pins"][0]["stranded"] = made["profile_pins"][0]["returned"] = 512
    made["graph_leading"][0] = (0, 2, 512)
    made["graph_places"] = np.array([(0, 1), (0, 2)], fmt.GRAPH_PLACE)
    made["strings"] = np.frombuffer(bytes(strings.data), fmt.STRINGS).copy()
    return made


def everything() -> dict[str, np.ndarray[Any, Any]]:
    """The same process, with records in every section. The numbers stay as they are: tests/golden has files of them."""
    made = with_graph()
    for name, records in made.items():
        if len(records):
            continue
        made[name] = np.zeros(1, SECTIONS[name])
        for field in made[name].dtype.names or ():
            if made[name].dtype[field].kind == "u" and not made[name].dtype[field].shape:
                made[name][field] = 1 + zlib.crc32(f"{name}.{field}".encode()) % 200
        for index in fmt.INDEXES.get(name, ()):
            made[name][index.name] = 0
        for of in fmt.RANGES.get(name, ()):
            made[name][of.name] = of.highest
    made["regions"]["size"], made["classes"]["count"], made["types"]["count"] = 1 << 20, 1 << 20, 1 << 20
    made["runtime_pages"]["address"] = 7 * PAGE
    return made


def write(path: Path, made: dict[str, np.ndarray[Any, Any]], minor: int = fmt.MINOR) -> Path:
    """Write the sections as a dump file."""
    body = bytearray(fmt.DATA_START)
    table = np.zeros(len(made), fmt.SECTION)
    for entry, (name, records) in zip(table, made.items()):
        body += bytes(-len(body) % SECTION_ALIGN)
        entry["name"], entry["offset"] = name.encode(), len(body)
        entry["count"], entry["record_size"] = len(records), records.dtype.itemsize
        body += records.tobytes()
    body += bytes(-len(body) % SECTION_ALIGN)
    header = np.zeros(1, fmt.HEADER)[0]
    header["magic"], header["major"], header["minor"] = fmt.MAGIC, fmt.MAJOR, minor
    header["header_size"], header["section_size"] = fmt.HEADER.itemsize, fmt.SECTION.itemsize
    header["table_offset"], header["section_count"] = len(body), len(table)
    header["file_size"] = len(body) + table.nbytes
    body[: fmt.HEADER.itemsize] = header.tobytes()
    path.write_bytes(bytes(body) + table.tobytes())
    return path
