# SPDX-License-Identifier: MIT
"""What must hold between the records of a dump before any of them is used.

The same checks as inspector/dump/check.c, with the same verdict on every file: indexes within bounds, ranges that do
not overlap (so that work on a dump is bounded by the file's size), enumerators that this major version has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from arenascope import format as fmt

if TYPE_CHECKING:
    import enum
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Sections = Mapping[str, Array]

PAGE_SIZES: Final = (4096, 8192, 16384, 32768, 65536)
_COUNTS: Final = ("in_use", "tcache", "fastbin", "binned", "top", "metadata", "unknown")


def check_records(sections: Sections) -> str | None:
    """The first thing that does not hold, in words; None when all does."""
    for check in (_meta, _arenas, _heaps, _pages, _runtimes, _graph, _profile, _rest):
        for problem in check(sections):
            return problem
    return None


def _meta(sections: Sections) -> Iterator[str]:
    meta, strings = sections["meta"][0], sections["strings"]
    if int(meta["page_size"]) not in PAGE_SIZES:
        yield f"a page size of {meta['page_size']} bytes"
    kinds: tuple[tuple[str, str, type[enum.IntEnum]], ...] = (
        ("target_kind", "target kind", fmt.TargetKind),
        ("malloc_kind", "malloc kind", fmt.MallocKind),
        ("mode", "consistency mode", fmt.Mode),
        ("ruby", "state of Ruby", fmt.RubyState),
    )
    for field, words, known in kinds:
        if int(meta[field]) not in known.__members__.values():
            yield f"{words} {meta[field]}"
    if len(strings) and (strings[0] or strings[-1]):
        yield "its strings are not terminated"
    if bool(int(meta["flags"]) & fmt.MetaFlag.HAS_CHUNKS) != ("chunks" in sections):
        yield "its flags and its sections disagree on chunk records"


def _arenas(sections: Sections) -> Iterator[str]:
    arenas, heaps = sections["arenas"], sections["heaps"]
    outside = arenas["malloc_index"] >= len(sections["mallocs"])
    outside |= _out_of_range(arenas["first_heap"], arenas["heap_count"], len(heaps))
    if outside.any():
        yield f"arena {_first(outside)} points outside the file"
    # With every heap inside its own arena's range (_heaps), this makes the ranges disjoint.
    if int(arenas["heap_count"].sum(dtype=np.uint64)) != int((heaps["arena"] != fmt.NO_INDEX).sum()):
        yield "its arenas share heaps"


def _heaps(sections: Sections) -> Iterator[str]:
    heaps, arenas = sections["heaps"], sections["arenas"]
    page_size = np.uint64(sections["meta"][0]["page_size"])
    kind, owner = heaps["kind"], heaps["arena"]
    bad = (kind < min(fmt.HeapKind)) | (kind > max(fmt.HeapKind)) | (heaps["start"] > heaps["end"])
    bad |= (owner == fmt.NO_INDEX) != (kind == fmt.HeapKind.MMAPPED)
    bad |= _bad_index(owner, len(arenas))
    if bad.any():
        yield f"heap {_first(bad)} does not fit the file"
        return

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
    bad = units > int(sections["meta"][0]["page_size"]) // fmt.UNIT
    bad |= (pages["state"] < min(fmt.PageState)) | (pages["state"] > max(fmt.PageState))
    if bad.any():
        index = _first(bad)
        yield f"page record {index} (state {pages['state'][index]}, {units[index]} units)"


def _rest(sections: Sections) -> Iterator[str]:
    arenas, heaps = len(sections["arenas"]), len(sections["heaps"])
    ruby = sections.get("ruby", np.empty(0, fmt.RUBY_PAGE))
    mallocs, threads, warnings = sections["mallocs"], sections["threads"], sections["warnings"]
    checks = (
        ("thread", _bad_index(threads["arena"], arenas)),
        ("malloc", mallocs["layout_source"] > max(fmt.LayoutSource)),
        ("Ruby page", _bad_index(ruby["heap"], heaps) | (ruby["free_slots"] > ruby["total_slots"])),
        ("warning", _bad_index(warnings["arena"], arenas) | _bad_index(warnings["heap"], heaps)),
        ("warning", warnings["code"] > max(fmt.WarningCode)),
    )
    for record, bad in checks:
        if bad.any():
            yield f"{record} record {_first(bad)}"


def _runtimes(sections: Sections) -> Iterator[str]:
    runtimes = sections.get("runtimes", np.empty(0, fmt.RUNTIME))
    regions = sections.get("regions", np.empty(0, fmt.REGION))
    classes = sections.get("size_classes", np.empty(0, fmt.SIZE_CLASS))
    types = sections.get("types", np.empty(0, fmt.TYPE))
    of_classes = sections.get("classes", np.empty(0, fmt.CLASS))
    marks = of_classes["not_marked"]
    bad_class = (of_classes["runtime"] >= len(runtimes)) | (of_classes["type"] >= len(types))
    bad_class |= (of_classes["kind"] < 1) | (of_classes["kind"] > max(fmt.ClassKind))
    bad_class |= (marks != fmt.UNKNOWN) & (marks > of_classes["count"])
    spaces = sections.get("spaces", np.empty(0, fmt.SPACE))
    fill = sections.get("page_fill", np.empty(0, fmt.FILL))
    pages = sections.get("runtime_pages", np.empty(0, fmt.RUNTIME_PAGE))
    page_size = int(sections["meta"][0]["page_size"])
    crowded = pages["in_use"].astype(np.uint32) + pages["free"] > page_size // fmt.RUNTIME_UNIT
    state, size = runtimes["state"], regions["size"]
    beyond = regions["in_use"] > size
    left = size - regions["in_use"]
    beyond |= regions["free"] > left
    beyond |= regions["empty"] > left - regions["free"]
    unknown = (regions["in_use"] == fmt.UNKNOWN) & (regions["free"] == fmt.UNKNOWN) & (regions["empty"] == fmt.UNKNOWN)
    beyond &= ~unknown
    beyond |= regions["address"] + size < regions["address"]
    checks = (
        ("runtime", (state < 1) | (state > max(fmt.RuntimeState)) | (runtimes["row"] >= fmt.LEDGER_PLACES)),
        ("runtime", runtimes["objects"] > max(fmt.ObjectsState)),
        (
            "region",
            (regions["runtime"] >= len(runtimes)) | _bad_index(regions["heap"], len(sections["heaps"])) | beyond,
        ),
        ("size class", classes["runtime"] >= len(runtimes)),
        ("type", (types["runtime"] >= len(runtimes)) | (types["tracked"] > types["count"])),
        ("class", bad_class),
        ("space", spaces["runtime"] >= len(runtimes)),
        ("page fill", fill["eighths"] >= fmt.FILL_EIGHTHS),
        ("runtime page", (pages["address"] % np.uint64(page_size) != 0) | crowded),
    )
    for record, bad in checks:
        if bad.any():
            yield f"{record} record {_first(bad)}"


def _graph(sections: Sections) -> Iterator[str]:
    types, owners = len(sections.get("graph_types", ())), len(sections.get("graph_owners", ()))
    leaks = sections.get("graph_leaks", np.empty(0, fmt.GRAPH_LEAK))
    holders = sections.get("graph_holders", np.empty(0, fmt.GRAPH_HOLDER))
    places = sections.get("graph_places", np.empty(0, fmt.GRAPH_PLACE))
    branches = sections.get("graph_branches", np.empty(0, fmt.GRAPH_BRANCH))
    leading = sections.get("graph_leading", np.empty(0, fmt.GRAPH_LEADING))
    depth = branches["depth"].astype(np.int64)
    deepest = np.concatenate(([0], depth[:-1] + 1))[: len(depth)]
    owned = (depth == 0) & (branches["flags"] & fmt.GRAPH_OTHERS == 0)
    bad_branch = (depth > deepest) | (depth >= fmt.GRAPH_DEPTH) | _bad_index(branches["type"], types)
    bad_branch |= np.where(owned, branches["owner"] >= owners, branches["owner"] != fmt.NO_INDEX)
    bad_holder = _bad_index(holders["type"], types) | _bad_index(holders["owner"], owners)
    checks = (
        ("graph", np.arange(len(sections.get("graph", ()))) > 0),
        ("graph leak", _bad_index(leaks["type"], types)),
        ("graph holder", bad_holder | _bad_index(holders["leak"], len(leaks))),
        ("graph place", (places["page"] >= len(sections["pages"])) | (places["holder"] >= len(holders))),
        ("graph leading", leading["owner"] >= owners),
        ("graph branch", bad_branch),
    )
    for record, bad in checks:
        if bad.any():
            yield f"{record} record {_first(bad)}"


def _profile(sections: Sections) -> Iterator[str]:
    frames = sections.get("profile_frames", np.empty(0, fmt.PROFILE_FRAME))
    stacks = sections.get("profile_stacks", np.empty(0, fmt.PROFILE_STACK))
    sites = sections.get("profile_sites", np.empty(0, fmt.PROFILE_SITE))
    kept = len(sections.get("profile_kept", ()))
    places = sections.get("profile_places", np.empty(0, fmt.PROFILE_PLACE))
    modules = len(sections.get("profile_modules", ()))
    lines = len(sections.get("profile_lines", ()))
    threads = len(sections.get("profile_threads", ()))
    profiles = sections.get("profile", np.empty(0, fmt.PROFILE))
    releases = np.maximum(profiles["unknown_python"], profiles["unknown_ruby"])
    shares = sections.get("profile_shares", np.empty(0, fmt.PROFILE_SHARE))
    unordered = np.diff(shares["site"].astype(np.int64), prepend=0) < 0
    outwards = (stacks["caller"] < np.arange(len(stacks))) | (stacks["caller"] == fmt.NO_INDEX)
    checks = (
        (
            "profile",
            (np.arange(len(profiles)) > 0)
            | (releases > fmt.PROFILE_SOME_RELEASE)
            | (profiles["hooks"] > max(fmt.Hooks)),
        ),
        ("profile thread", np.arange(threads + 1) >= fmt.PROFILE_MOST_THREADS),
        ("profile frame", _bad_index(frames["module"], modules) | (frames["line"] > lines)),
        ("profile stack", (stacks["frame"] >= len(frames)) | ~outwards),
        ("profile site", sites["stack"] >= len(stacks)),
        ("profile kept", np.arange(kept + 1) > (kept if kept in {0, len(sites)} else kept - 1)),
        ("profile place", (places["page"] >= len(sections["pages"])) | (places["site"] >= len(sites))),
        ("profile share", (shares["site"] >= len(sites)) | _bad_index(shares["thread"], threads) | unordered),
    )
    for record, bad in checks:
        if bad.any():
            yield f"{record} record {_first(bad)}"


def _first(bad: Array) -> int:
    return int(np.argmax(bad))


def _bad_index(values: Array, bound: int) -> Array:
    """Which of these indexes are neither within bounds nor "none"."""
    bad: Array = (values >= bound) & (values != fmt.NO_INDEX)
    return bad


def _out_of_range(first: Array, count: Array, total: int) -> Array:
    """Which of the ranges [first, first + count) do not lie within [0, total), without overflow."""
    start, length, limit = first.astype(np.uint64), count.astype(np.uint64), np.uint64(total)
    outside: Array = (start > limit) | (length > limit - np.minimum(start, limit))
    return outside
