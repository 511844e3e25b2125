# SPDX-License-Identifier: MIT
"""What must hold between the records of a dump before any of them is used.

The same checks as inspector/dump/check.c, with the same verdict on every file. First each field by what its table says
(inspector/model/records.def): indexes within bounds, values that this major version has. Then what relates records to
each other: ranges that do not overlap, so that work on a dump is bounded by the file's size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from arenascope import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Sections = Mapping[str, Array]

PAGE_SIZES: Final = (4096, 8192, 16384, 32768, 65536)
_COUNTS: Final = ("in_use", "tcache", "fastbin", "binned", "top", "metadata", "unknown")


def check_records(sections: Sections) -> str | None:
    """The first thing that does not hold, in words; None when all does. Only `chunks` may be missing."""
    for check in (_fields, _meta, _arenas, _heaps, _pages, _runtimes, _graph, _profile):
        for problem in check(sections):
            return problem
    return None


def _fields(sections: Sections) -> Iterator[str]:
    for name, records in sections.items():
        for field in fmt.RANGES.get(name, ()):
            values = records[field.name]
            yield from _field(name, field.name, values, (values < field.lowest) | (values > field.highest))
        for index in fmt.INDEXES.get(name, ()):
            values = records[index.name]
            bad = values >= len(sections[index.section]) + index.first
            if index.may_be_none:
                bad &= values != fmt.NO_INDEX
            yield from _field(name, index.name, values, bad)


def _field(section: str, field: str, values: Array, bad: Array) -> Iterator[str]:
    if bad.any():
        yield f'record {_first(bad)} of its section "{section}" has {field} {values[_first(bad)]}'


def _damaged(section: str, bad: Array) -> Iterator[str]:
    if bad.any():
        yield f'record {_first(bad)} of its section "{section}"'


def _meta(sections: Sections) -> Iterator[str]:
    meta, strings = sections["meta"][0], sections["strings"]
    if int(meta["page_size"]) not in PAGE_SIZES:
        yield f"a page size of {meta['page_size']} bytes"
    if len(strings) and (strings[0] or strings[-1]):
        yield "its strings are not terminated"
    if bool(int(meta["flags"]) & fmt.MetaFlag.HAS_CHUNKS) != ("chunks" in sections):
        yield "its flags and its sections disagree on chunk records"


def _arenas(sections: Sections) -> Iterator[str]:
    arenas, heaps = sections["arenas"], sections["heaps"]
    yield from _damaged("arenas", _out_of_range(arenas["first_heap"], arenas["heap_count"], len(heaps)))
    # With every heap inside its own arena's range (_heaps), this makes the ranges disjoint.
    if int(arenas["heap_count"].sum(dtype=np.uint64)) != int((heaps["arena"] != fmt.NO_INDEX).sum()):
        yield "its arenas share heaps"


def _heaps(sections: Sections) -> Iterator[str]:
    heaps, arenas = sections["heaps"], sections["arenas"]
    page_size = np.uint64(sections["meta"][0]["page_size"])
    owner = heaps["arena"]
    bad = heaps["start"] > heaps["end"]
    bad |= (owner == fmt.NO_INDEX) != (heaps["kind"] == fmt.HeapKind.MMAPPED)
    owned = np.flatnonzero(owner != fmt.NO_INDEX)
    first = arenas["first_heap"][owner[owned]].astype(np.uint64)
    behind = first + arenas["heap_count"][owner[owned]]
    bad[owned] |= (owned < first) | (owned >= behind)
    # No more pages than the heap spans. protected_end is what a heap_info said, and may be nonsense.
    end = np.maximum(heaps["end"], heaps["protected_end"])
    last = np.where(end > heaps["start"], end - np.uint64(1), heaps["start"])
    bad |= heaps["page_count"] > last // page_size - heaps["start"] // page_size + np.uint64(1)
    for what, total in (("page", len(sections["pages"])), ("chunk", len(sections.get("chunks", ())))):
        bad |= _out_of_range(heaps[f"first_{what}"], heaps[f"{what}_count"], total)
    if bad.any():
        yield f"heap {_first(bad)} (at {heaps['start'][_first(bad)]:#x}) does not fit the file"
        return
    for what in ("page", "chunk"):
        some = heaps[heaps[f"{what}_count"] != 0]
        ends = some[f"first_{what}"] + some[f"{what}_count"]
        if (some[f"first_{what}"][1:] < ends[:-1]).any():
            yield f"heaps share {what}s"


def _pages(sections: Sections) -> Iterator[str]:
    pages = sections["pages"]
    units = np.zeros(len(pages), np.uint32)
    for name in _COUNTS:
        units += pages[name]
    yield from _damaged("pages", units > int(sections["meta"][0]["page_size"]) // fmt.UNIT)


def _runtimes(sections: Sections) -> Iterator[str]:
    types, classes, ruby = sections["types"], sections["classes"], sections["ruby"]
    marks, pages = classes["not_marked"], sections["runtime_pages"]
    page_size = int(sections["meta"][0]["page_size"])
    crowded = pages["in_use"].astype(np.uint32) + pages["free"] > page_size // fmt.RUNTIME_UNIT
    yield from _damaged("regions", _bad_regions(sections["regions"]))
    yield from _damaged("types", types["tracked"] > types["count"])
    yield from _damaged("classes", (marks != fmt.UNKNOWN) & (marks > classes["count"]))
    yield from _damaged("ruby", ruby["free_slots"] > ruby["total_slots"])
    yield from _damaged("runtime_pages", (pages["address"] % np.uint64(page_size) != 0) | crowded)


def _bad_regions(regions: Array) -> Array:
    size = regions["size"]
    left = size - regions["in_use"]
    beyond: Array = regions["in_use"] > size
    beyond |= regions["free"] > left
    beyond |= regions["empty"] > left - regions["free"]
    beyond &= ~np.logical_and.reduce([regions[name] == fmt.UNKNOWN for name in ("in_use", "free", "empty")])
    beyond |= regions["address"] + size < regions["address"]
    return beyond


def _graph(sections: Sections) -> Iterator[str]:
    branches = sections["graph_branches"]
    depth = branches["depth"].astype(np.int64)
    deepest = np.concatenate(([0], depth[:-1] + 1))[: len(depth)]
    owned = (depth == 0) & (branches["flags"] & fmt.GraphRecordFlag.OTHERS == 0)
    yield from _damaged("graph", np.arange(len(sections["graph"])) > 0)
    yield from _damaged("graph_branches", (depth > deepest) | (owned == (branches["owner"] == fmt.NO_INDEX)))


def _profile(sections: Sections) -> Iterator[str]:
    stacks, sites, kept = sections["profile_stacks"], sections["profile_sites"], sections["profile_kept"]
    yield from _damaged("profile", np.arange(len(sections["profile"])) > 0)
    if len(kept) not in {0, len(sites)}:
        yield f'record {len(kept)} of its section "profile_kept"'
    if len(sections["profile_threads"]) >= fmt.PROFILE_MOST_THREADS:
        yield f'record {fmt.PROFILE_MOST_THREADS} of its section "profile_threads"'
    # A caller stands before whom it calls: every way outwards ends.
    outwards = (stacks["caller"] < np.arange(len(stacks))) | (stacks["caller"] == fmt.NO_INDEX)
    yield from _damaged("profile_stacks", ~outwards)
    unordered = np.diff(sections["profile_shares"]["site"].astype(np.int64), prepend=0) < 0
    yield from _damaged("profile_shares", unordered)


def _first(bad: Array) -> int:
    return int(np.argmax(bad))


def _out_of_range(first: Array, count: Array, total: int) -> Array:
    """Which of the ranges [first, first + count) do not lie within [0, total), without overflow."""
    start, length, limit = first.astype(np.uint64), count.astype(np.uint64), np.uint64(total)
    outside: Array = (start > limit) | (length > limit - np.minimum(start, limit))
    return outside
