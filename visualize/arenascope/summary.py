# SPDX-License-Identifier: MIT
"""A dump as the summary's JSON, schema "arenascope.summary/1" (docs/summary.schema.json).

Value for value what inspector/cli/summary_json.c prints of the same dump. What is not known is None.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from arenascope import format as fmt
from arenascope.dump import text

if TYPE_CHECKING:
    import enum

    from arenascope.dump import Dump

    Json = dict[str, Any]

SCHEMA: Final = "arenascope.summary/1"
MOST_SLOT_SIZES: Final = 32  # that are listed: Ruby has some five
TUNABLES: Final = (
    "trim_threshold",
    "top_pad",
    "mmap_threshold",
    "arena_max",
    "arena_test",
    "no_dyn_threshold",
    "tcache_count",
    "tcache_max_bytes",
    "thp_pagesize",
    "hp_pagesize",
)


def summarize(dump: Dump, *, from_dump: bool = True) -> Json:
    """The whole summary. `from_dump`: the target that was named is a dump file, not what was dumped just now."""
    main = dump.mallocs[0] if len(dump.mallocs) else None
    return {
        "schema": SCHEMA,
        "target": _target(dump, from_dump=from_dump),
        "allocator": _allocator(dump, main),
        "snapshot": _snapshot(dump.meta),
        "kernel": _kernel(dump),
        **_ledger(dump.totals["ledger"]),
        "chunks": _chunks(dump.totals["chunks"]),
        "arenas": _arenas(dump),
        "tunables": _tunables(main),
        "mallocs": [_malloc(dump, record) for record in dump.mallocs],
        "pins": _pins(dump.sizes),
        "ruby": _ruby(dump),
        "warnings": [_warning(dump, record) for record in dump.warnings],
    }


def number(value: Any) -> int | None:
    """A 64-bit field of a record: None where it says that it is not known."""
    return None if int(value) == fmt.UNKNOWN else int(value)


def _address(value: Any) -> str | None:
    return None if int(value) == fmt.UNKNOWN else f"{int(value):#x}"


def _name(value: Any, names: type[enum.IntEnum]) -> str:
    return names(int(value)).name.lower().replace("_", "-")


def _fixed(value: Any) -> str:
    """A char array of a record, which ends at its first NUL."""
    return text(bytes(value).split(b"\0")[0])


def _target(dump: Dump, *, from_dump: bool) -> Json:
    meta = dump.meta
    kind = _name(meta["target_kind"], fmt.TargetKind)
    arches = {fmt.Arch.X86_64: "x86_64", fmt.Arch.AARCH64: "aarch64"}
    return {
        "kind": "dump" if from_dump else kind,
        "dump_of": kind if from_dump else None,
        "pid": int(meta["pid"]) or None,
        "comm": _fixed(meta["comm"]),
        "exe": dump.string(meta["exe"]) or None,
        "cmdline": dump.string(meta["cmdline"]) or None,
        "arch": arches.get(int(meta["arch"])),  # type: ignore[call-overload]  # an IntEnum is found by its int
        "page_size": int(meta["page_size"]),
        "threads": int(meta["thread_count"]),
    }


def _layout(dump: Dump, malloc: Any) -> Json:
    """What "allocator" and each of "mallocs" have in common."""
    if malloc is None:
        keys = ("glibc", "layout_source", "layout_versions", "main_arena", "mp", "heap_max_size")
        return dict.fromkeys(keys)
    found = int(malloc["layout_source"]) != fmt.LayoutSource.NONE
    return {
        "glibc": dump.string(malloc["version"]) or None,
        "layout_source": _name(malloc["layout_source"], fmt.LayoutSource) if found else None,
        "layout_versions": dump.string(malloc["layout_versions"]) or None,
        "main_arena": _address(malloc["main_arena"]),
        "mp": _address(malloc["mp"]),
        "heap_max_size": number(malloc["heap_max_size"]),
    }


def _allocator(dump: Dump, malloc: Any) -> Json:
    return {
        "malloc": _name(dump.meta["malloc_kind"] or dump.meta["malloc_later"], fmt.MallocKind),
        "detail": dump.string(dump.meta["malloc_detail"]) or None,
        **_layout(dump, malloc),
    }


def _tunables(malloc: Any) -> Json:
    return {name: None if malloc is None else number(malloc[name]) for name in TUNABLES}


def _malloc(dump: Dump, malloc: Any) -> Json:
    return {
        "path": dump.string(malloc["path"]) or None,
        "build_id": dump.string(malloc["build_id"]) or None,
        **_layout(dump, malloc),
        "proven": bool(malloc["proven"]),
        "n_mmaps": number(malloc["n_mmaps"]),
        "mmapped_mem": number(malloc["mmapped_mem"]),
        "lost_tcaches": _lost(malloc),
        "tunables": _tunables(malloc),
    }


def _lost(malloc: Any) -> Json | None:
    """What is in tcaches that no thread has; None where that is not known."""
    if not malloc["lost_known"]:
        return None
    names = {"tcaches": "lost_tcaches", "count": "lost_chunks", "bytes": "lost_bytes"}
    return {name: number(malloc[field]) for name, field in names.items()}


def _snapshot(meta: Any) -> Json:
    flags = int(meta["flags"])
    return {
        "mode": _name(meta["mode"], fmt.Mode),
        "pause_ms": _milliseconds(meta["pause_ns"]),
        "read_ms": _milliseconds(meta["read_ns"]),
        "torn_chunks": number(meta["torn_chunks"]),
        "time": _time(meta["time_ns"]),
        "exact": bool(flags & fmt.MetaFlag.EXACT),
        "residency_known": bool(flags & fmt.MetaFlag.RESIDENCY_KNOWN),
    }


def _milliseconds(nanoseconds: Any) -> float | None:
    """Milliseconds with three decimals, cut off and not rounded, so that no large number loses digits on the way."""
    known = number(nanoseconds)
    if known is None:
        return None
    whole, thousandths = divmod(known // 1000, 1000)
    return float(f"{whole}.{thousandths:03}")


def _time(nanoseconds: Any) -> str | None:
    known = number(nanoseconds)
    if known is None:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    when = epoch + timedelta(seconds=known // 10**9)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{known // 10**6 % 1000:03}Z"


def _kernel(dump: Dump) -> Json:
    hugetlb = [int(value) for value in dump.mappings["hugetlb"]]
    # A sum that overflows, because a part of it is unknown (all ones) or the dump lies, is unknown.
    known = sum(hugetlb) < fmt.UNKNOWN
    return {
        "rss": number(dump.meta["rss"]),
        "swap": number(dump.meta["swap"]),
        "hugetlb": sum(hugetlb) if known else None,
    }


def _ledger(ledger: Any) -> Json:
    parts = {"ledger": fmt.LEDGER_ROWS, "absent": fmt.ABSENT_ROWS, "forecast": fmt.FORECAST_ROWS}
    return {
        **{part: {row: number(ledger[row]) for row in rows} for part, rows in parts.items()},
        "hugetlb": number(ledger["hugetlb"]),
    }


def _chunks(tallies: Any) -> Json:
    return {
        name: {"count": number(tallies[name]["count"]), "bytes": number(tallies[name]["bytes"])}
        for name in fmt.TALLY_NAMES
    }


def _arenas(dump: Dump) -> list[Json]:
    threads: dict[int, list[Json]] = {}
    for thread in dump.threads:
        threads.setdefault(int(thread["arena"]), []).append(_thread(thread))
    return [_arena(record, threads.get(index, [])) for index, record in enumerate(dump.arenas)]


def _arena(arena: Any, threads: list[Json]) -> Json:
    flags = int(arena["flags"])
    return {
        "address": _address(arena["address"]),
        "main": bool(flags & fmt.ArenaFlag.MAIN),
        "malloc": int(arena["malloc_index"]),
        "heaps": int(arena["heap_count"]),
        "system_mem": number(arena["system_mem"]),
        "max_system_mem": number(arena["max_system_mem"]),
        "attached_threads": number(arena["attached_threads"]),
        "top": _address(arena["top"]),
        "noncontiguous": bool(flags & fmt.ArenaFlag.NONCONTIGUOUS),
        "corrupt": bool(flags & fmt.ArenaFlag.CORRUPT),
        "locked": bool(flags & fmt.ArenaFlag.LOCKED),
        "torn_chunks": number(arena["torn_chunks"]),
        "threads": threads,
        **_ledger(arena["ledger"]),
        "chunks": _chunks(arena["chunks"]),
    }


def _thread(thread: Any) -> Json:
    return {
        "tid": int(thread["tid"]),
        "name": _fixed(thread["name"]),
        "tcache_count": number(thread["tcache_count"]),
        "tcache_bytes": number(thread["tcache_bytes"]),
    }


def _pins(sizes: Any) -> list[Json]:
    """The sizes that keep something, most stranded bytes first: unknown is more than any."""
    keeping = sizes[(sizes["pin_count"] != 0) | (sizes["tail_count"] != 0)]
    stranded = keeping["pin_stranded"] + keeping["tail_bytes"]
    # A sum that overflows, because a part of it is unknown (all ones) or the dump lies, is unknown.
    overflown = (stranded < keeping["pin_stranded"]) | (keeping["pin_stranded"] == fmt.UNKNOWN)
    stranded[overflown | (keeping["tail_bytes"] == fmt.UNKNOWN)] = fmt.UNKNOWN
    order = np.lexsort((keeping["chunk_size"], ~stranded))
    return [_pin(keeping[index]) for index in order]


def _pin(size: Any) -> Json:
    return {
        "chunk_size": number(size["chunk_size"]),
        "count": number(size["pin_count"]),
        "pages": number(size["pin_pages"]),
        "stranded": number(size["pin_stranded"]),
        "tails": number(size["tail_count"]),
        "tail_bytes": number(size["tail_bytes"]),
        "in_use": number(size["in_use"]),
    }


def _ruby(dump: Dump) -> Json | None:
    """Ruby's own pages; None where there is no Ruby, or they could not be proven."""
    if int(dump.meta["ruby"]) != fmt.RubyState.FOUND:
        return None
    sizes, first = np.unique(dump.ruby["slot_size"], return_index=True)
    return {
        "releases": dump.string(dump.meta["ruby_releases"]) or None,
        **_slots(dump.ruby),
        "slot_sizes": [
            {"slot_size": int(size), **_slots(dump.ruby[dump.ruby["slot_size"] == size])}
            for size in sizes[np.argsort(first)][:MOST_SLOT_SIZES]
        ],
    }


def _slots(pages: Any) -> Json:
    return {
        "pages": len(pages),
        "slots": int(pages["total_slots"].sum(dtype=np.uint64)),
        "free_slots": int(pages["free_slots"].sum(dtype=np.uint64)),
    }


def _warning(dump: Dump, warning: Any) -> Json:
    arena, heap = int(warning["arena"]), int(warning["heap"])
    return {
        "code": _name(warning["code"], fmt.WarningCode),
        "text": dump.string(warning["text"]),
        "arena": _address(dump.arenas[arena]["address"]) if arena != fmt.NO_INDEX else None,
        "heap": _address(dump.heaps[heap]["start"]) if heap != fmt.NO_INDEX else None,
        "address": _address(warning["address"]),
    }
