# SPDX-License-Identifier: MIT
"""The records of inspector/model/records.h as numpy dtypes, field by field, under the same names.

Little-endian and without implicit padding, so that a section of a dump is an array as it lies in the file. The
ledger's rows are those of inspector/model/rows.def.
tests/test_dump_format.py compiles the C header and compares every offset, size and enumerator with this file.
"""

from __future__ import annotations

import enum
from typing import Final

import numpy as np

from arenascope import rows

MAGIC: Final = b"ARENASC\n"
MAJOR: Final = 1
MINOR: Final = 15
DATA_START: Final = 4096

UNKNOWN: Final = 2**64 - 1  # AS_UNKNOWN in a 64-bit field
NO_INDEX: Final = 2**32 - 1  # "none" in an index
PROFILE_MOST_THREADS: Final = 1024  # fewer have a name
UNIT: Final = 16  # AS_UNIT: what the counts of a page record are in, bytes
RUNTIME_UNIT: Final = 8  # AS_RUNTIME_UNIT: what those of a runtime's page are in, bytes
FILL_CHUNKS: Final = 6  # AS_FILL_CHUNKS
FILL_EIGHTHS: Final = 8  # AS_FILL_EIGHTHS
GRAPH_EXACT: Final = 1  # AS_GRAPH_EXACT
GRAPH_OTHERS: Final = 1  # AS_GRAPH_OTHERS
PROFILE_ON: Final = 1
PROFILE_EXACT: Final = 2
PROFILE_SOME_RELEASE: Final = 0xFFFF
PROFILE_CUT: Final = 1
PROFILE_THREAD_HERE: Final = 1
GRAPH_DEPTH: Final = 16  # AS_GRAPH_DEPTH
RUNTIME_PAGE_MEAN: Final = 1  # AS_RUNTIME_PAGE_MEAN

CHUNK_SIZE_BITS: Final = 28
CHUNK_MORE: Final = 1 << 28
CHUNK_CLASS_SHIFT: Final = 29

U16: Final = "<u2"
U32: Final = "<u4"
U64: Final = "<u8"


def _record(*groups: tuple[str, object]) -> np.dtype[np.void]:
    """A packed dtype from ("name name ...", type) groups, in the order of the C struct."""
    return np.dtype([(name, kind) for names, kind in groups for name in names.split()])


HEADER: Final = _record(
    ("magic", "S8"),
    ("major minor", U16),
    ("header_size", U32),
    ("file_size table_offset", U64),
    ("section_count section_size", U32),
)
SECTION: Final = _record(("name", "S16"), ("offset count", U64), ("record_size reserved", U32))

LEDGER_PLACES: Final = len(rows.IN_LEDGER)  # AS_ROW_PLACES: all are taken
LATER_PLACES: Final = 6  # AS_ROW_LATER_PLACES
LATER_ROWS: Final = tuple(row.name for row in rows.LATER)
"""The rows of the whole process that have no place in a ledger: in the record "meta"."""

META: Final = _record(
    ("target_kind arch page_size pid thread_count malloc_kind mode flags", U32),
    ("time_ns pause_ns read_ns torn_chunks rss swap", U64),
    ("comm", "S16"),
    ("exe cmdline malloc_detail tool_version ruby ruby_releases", U32),
    ("malloc_later", U64),  # later: 0 in an older dump
    ("later_rows", (U64, (LATER_PLACES,))),  # LATER_ROWS; later: 0 in an older dump
)

MALLOC: Final = _record(
    ("path version build_id layout_versions layout_source proven", U32),
    ("main_arena mp", U64),
    ("trim_threshold top_pad mmap_threshold arena_max arena_test no_dyn_threshold tcache_count", U64),
    ("tcache_max_bytes thp_pagesize hp_pagesize n_mmaps mmapped_mem heap_max_size", U64),
    ("lost_known lost_tcaches lost_chunks lost_bytes", U64),  # later: 0 in an older dump
)

LEDGER_ROWS: Final = tuple(row.name for row in rows.RESIDENT if row in rows.IN_LEDGER)
"""The resident rows of a ledger; with those of LATER_ROWS their sum is Rss."""
ABSENT_ROWS: Final = tuple(row.name for row in rows.ABSENT)
FORECAST_ROWS: Final = tuple(row.name for row in rows.FORECAST)
TALLY_NAMES: Final = ("in_use", "tcache", "fastbin", "binned", "top", "mmapped")

LEDGER: Final = _record((" ".join(row.name for row in rows.IN_LEDGER), U64))
TALLY: Final = _record(("count bytes", U64))
TALLIES: Final = _record((" ".join(TALLY_NAMES), TALLY))
TOTALS: Final = _record(("ledger", LEDGER), ("chunks", TALLIES))

ARENA: Final = _record(
    ("address", U64),
    ("malloc_index flags", U32),
    ("system_mem max_system_mem attached_threads top", U64),
    ("first_heap heap_count", U32),
    ("torn_chunks", U64),
    ("ledger", LEDGER),
    ("chunks", TALLIES),
)

HEAP: Final = _record(
    ("start end", U64),
    ("arena kind", U32),
    ("first_page page_count first_chunk chunk_count protected_end", U64),
    ("reserved", (U64, (2,))),
)

PAGE: Final = _record(("in_use tcache fastbin binned top metadata unknown", U16), ("residency state", "u1"))
CHUNK: Final = np.dtype(U32)

SIZE: Final = _record(
    ("chunk_size in_use tcache fastbin binned", U64),
    ("pin_count pin_pages pin_stranded tail_count tail_bytes", U64),
)

THREAD: Final = _record(("tid arena", U32), ("name", "S16"), ("tcache tcache_count tcache_bytes reserved", U64))

MAPPING: Final = _record(
    ("start end", U64),
    ("prot kind path role", U32),
    ("rss swap malloc_rss hugetlb", U64),
)

RUBY_PAGE: Final = _record(("address resident", U64), ("size slot_size total_slots free_slots heap first_slot", U32))

RUNTIME: Final = _record(
    ("kind state row releases evidence objects", U32),
    ("region_size pool_size", U64),
    ("used committed other_blocks other_bytes", U64),  # later: 0 in an older dump
)
REGION: Final = _record(("address size resident in_use free empty empty_resident", U64), ("runtime heap", U32))
SIZE_CLASS: Final = _record(("runtime size", U32), ("pools in_use free", U64))
TYPE: Final = _record(
    ("runtime name", U32),
    ("address count tracked bytes malloc_bytes owned_bytes owned_malloc_bytes", U64),
)
CLASS: Final = _record(
    ("runtime name type kind", U32),
    ("address count bytes owned_malloc_bytes not_marked not_marked_bytes", U64),
)

RUNTIME_PAGE: Final = _record(("address", U64), ("in_use free", U16), ("block_size flags kind residency", "u1"))
SPACE: Final = _record(("runtime name", U32), ("used committed", U64))
FILL: Final = _record(("chunks eighths", U32), ("pages in_use stranded", U64))
SHARER: Final = _record(("chunk_size places stranded", U64))

GRAPH: Final = _record(
    ("chunks bytes objects object_bytes pointers roots unread unsearched reached unreached", U64),
    ("direct indirect suspects", TALLY),
    ("flags asked", U32),
)
KEPT: Final = _record(("pages stranded part", U64))
GRAPH_TYPE: Final = _record(("name evidence flags reserved", U32), ("count bytes retained", U64), ("kept", KEPT))
GRAPH_OWNER: Final = _record(
    ("kind name module mapping thread type", U32), ("address offset retained", U64), ("kept", KEPT)
)
GRAPH_BRANCH: Final = _record(("depth owner type flags", U32), ("count bytes retained", U64))
GRAPH_LEAK: Final = _record(("type flags", U32), ("size", U64), ("direct indirect suspects", TALLY), ("example", U64))
GRAPH_HOLDER: Final = _record(("type owner leak flags", U32), ("count bytes", U64), ("kept", KEPT))
GRAPH_PLACE: Final = _record(("page holder", U32))
GRAPH_LEADING: Final = _record(("owner owners", U32), ("bytes", U64))
PROFILE: Final = _record(
    ("flags page_rate", U32),
    ("large mean started_ns memory known_count known_bytes unseen_count unseen_bytes lost_count lost_bytes", U64),
    ("lost misses checked wrong cut samples unsampled", U64),
    ("unknown_python unknown_ruby", U32),
    ("lost_alloc_count lost_alloc_bytes", U64),
    ("hooks reserved", U32),
    ("reserved_words", U64),
)
PROFILE_MODULE: Final = _record(("path build_id", U32), ("start end bias", U64))
PROFILE_FRAME: Final = _record(("module line", U32), ("offset", U64))
PROFILE_STACK: Final = _record(("frame caller", U32))
PROFILE_SITE: Final = _record(
    ("stack flags", U32),
    ("seen_count seen_bytes count bytes samples alloc_count alloc_bytes", U64),
    ("reserved", (U64, 2)),
)
PROFILE_KEPT: Final = _record(("pinned stranded pages pages_stranded returned", U64), ("reserved", (U64, 3)))
PROFILE_PLACE: Final = _record(("page site", U32))
PROFILE_LINE: Final = _record(("function file line language", U32))
PROFILE_THREAD: Final = _record(("tid flags", U32))
PROFILE_SHARE: Final = _record(("site thread", U32), ("count bytes alloc_count alloc_bytes", U64))
WARNING: Final = _record(("text code arena heap", U32), ("address", U64))

STRINGS: Final = np.dtype("u1")


class TargetKind(enum.IntEnum):
    """enum as_target_kind."""

    PROCESS = 1
    CORE = 2
    SELF = 3


class Arch(enum.IntEnum):
    """enum as_arch."""

    UNKNOWN = 0
    X86_64 = 62
    AARCH64 = 183


class MappingKind(enum.IntEnum):
    """enum as_mapping_kind."""

    ANON = 1
    FILE = 2
    SHMEM = 3
    SPECIAL = 4


class Prot(enum.IntFlag):
    """AS_PROT_*."""

    READ = 1
    WRITE = 2
    EXEC = 4
    SHARED = 8


class MappingRole(enum.IntEnum):
    """enum as_mapping_role."""

    OTHER = 0
    STACK = 1
    UNKNOWN = 2


class Residency(enum.IntFlag):
    """AS_RES_*: what the kernel says of one page."""

    PRESENT = 1
    SWAPPED = 2
    ZERO = 4
    HUGE = 8
    UNKNOWN = 0x80


class MallocKind(enum.IntEnum):
    """enum as_malloc_kind: who answers malloc()."""

    UNKNOWN = 0
    GLIBC = 1
    JEMALLOC = 2
    TCMALLOC = 3
    MIMALLOC = 4
    MUSL = 5
    ASAN = 6
    VALGRIND = 7
    GO = 8
    PARTITIONALLOC = 9  # in malloc_later


class LayoutSource(enum.IntEnum):
    """enum as_layout_source: how main_arena and the layout were found."""

    NONE = 0
    DWARF = 1
    SYMTAB = 2
    RELOCATION = 3
    DECODE = 4
    SCAN = 5


class Mode(enum.IntEnum):
    """enum as_mode: how the target was kept consistent."""

    FREEZE = 1
    SNAPSHOT = 2
    LIVE = 3
    IN_PROCESS = 4
    CORE = 5


class RubyState(enum.IntEnum):
    """enum as_ruby_state: is there a Ruby, and were its pages found?"""

    NONE = 0
    FOUND = 1
    UNPROVEN = 2


class RuntimeKind(enum.IntEnum):
    """enum as_runtime_kind."""

    CPYTHON = 1
    JVM_HEAP = 2
    JVM_CODE = 3
    JVM_METASPACE = 4
    JEMALLOC = 5
    TCMALLOC = 6
    MIMALLOC = 7
    MUSL = 8
    PARTITIONALLOC = 9
    ZEND = 10
    V8 = 11
    GO = 12
    ASAN = 13
    VALGRIND = 14
    UNKNOWN_MALLOC = 15
    RUBY = 16
    INNODB_POOL = 17
    INNODB_LOG = 18
    V8_CODE = 19
    V8_CPPGC = 20
    RECORDER = 21


class RuntimeState(enum.IntEnum):
    """enum as_runtime_state: were its regions found?"""

    FOUND = 1
    UNPROVEN = 2


class ObjectsState(enum.IntEnum):
    """enum as_objects_state: are its objects in section "types"?"""

    NOT_ASKED = 0
    COUNTED = 1
    ESTIMATED = 2
    UNKNOWN = 3


class ClassKind(enum.IntEnum):
    """enum as_class_kind: what the objects of a record of section "classes" are of."""

    NAMED = 1
    ANONYMOUS = 2
    SINGLETON = 3
    INTERNAL = 4


class MetaFlag(enum.IntFlag):
    """AS_META_*."""

    RESIDENCY_KNOWN = 1
    HAS_CHUNKS = 2
    EXACT = 4


class ArenaFlag(enum.IntFlag):
    """AS_ARENA_*."""

    MAIN = 1
    NONCONTIGUOUS = 2
    CORRUPT = 4
    LOCKED = 8


class HeapKind(enum.IntEnum):
    """enum as_heap_kind."""

    BRK = 1
    MMAP = 2
    THREAD = 3
    MMAPPED = 4


class Hooks(enum.IntEnum):
    """Where those of a profile were."""

    UNKNOWN = 0
    IN_SLOTS = 1
    AT_ENTRIES = 2


class PageState(enum.IntEnum):
    """enum as_page_state: the strongest claim on a page."""

    USED = 1
    PINNED = 2
    CACHED = 3
    STRANDED = 4
    RELEASABLE = 5
    WITHHELD = 6
    RETURNED = 7
    UNTOUCHED = 8
    SWAPPED = 9
    UNKNOWN = 10


class ChunkClass(enum.IntEnum):
    """enum as_chunk_class."""

    UNKNOWN = 0
    IN_USE = 1
    TCACHE = 2
    FASTBIN = 3
    BINNED = 4
    TOP = 5
    METADATA = 6


class WarningCode(enum.IntEnum):
    """enum as_warning."""

    NOTE = 0
    CORRUPT = 1
    RESIDENCY = 2
    TCACHE = 3
    MMAPPED = 4
    SUM = 5
    LOCKED = 6
    ALLOCATOR = 7
    LAYOUT = 8
    ESTIMATED = 9
