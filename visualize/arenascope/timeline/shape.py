# SPDX-License-Identifier: MIT
"""What form the JSON of a timeline must have: rows, bodies, and types and owners. DamagedError: it does not."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from arenascope.compare.digest import Seen
from arenascope.timeline.columns import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Json = dict[str, Any]

NONE: Final = type(None)
NUMBER: Final[set[Any]] = {int, NONE}
LIMIT: Final = 1 << 64  # no number is larger
DIGITS: Final = 18  # of a chunk size
PAGE_SIZES: Final = {1 << shift for shift in range(12, 17)}
ADDRESS: Final = re.compile(r"[0-9a-f]{1,15}|[0-7][0-9a-f]{15}")  # below 2**63: numpy counts with signs
KINDS_OF: Final[dict[str, set[Any]]] = {
    "str": {str},
    "str | None": {str, NONE},
    "int": {int},
    "int | None": NUMBER,
    "bool": {bool},
    "tuple[int, ...]": {list},
}
"""What JSON has for a field of Seen, by its annotation."""
PARTS: Final = {"types": 0, "owners": None, "leaks": 2, "objects": 2, "classes": 2}
"""What tells things of each kind apart: a name (0), or so many parts; None: any number of these."""


def rows(text: str) -> dict[str, int | None]:
    """The rows of a snapshot."""
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError("snapshots.rows is not JSON") from None
    _numbers(_mapping(made, "snapshots.rows").values(), "snapshots.rows")
    return dict(made)


def body(made: Any) -> Json:
    """What is kept of a snapshot but its rows and pages."""
    whole = _mapping(made, "a snapshot")
    _who(_part(whole, "who"))
    _numbers([whole.get("swap", "")], "swap")
    for name, many in (("chunks", 2), ("pins", 3)):
        for each in _part(whole, name).values():
            _list(each, many, name)
    _sizes(whole["pins"], "pins")
    _numbers(_sizes(_part(whole, "sizes"), "sizes").values(), "sizes")
    _numbers(_part(whole, "findings").values(), "findings")
    for address, arena in _part(whole, "arenas").items():
        _arena(address, arena)
    for address, heap in _mapping(whole["heaps"], "heaps").items():
        _heap(address, heap)
    if "sites" in whole:
        _sites(_part(whole, "sites"))
    return whole


def _who(who: Json) -> None:
    for each in fields(Seen):
        if type(who.get(each.name, NONE)) not in KINDS_OF[str(each.type)]:
            raise DamagedError(f"'{each.name}' of a snapshot is not as it should be")
    if set(who) != {each.name for each in fields(Seen)} or who["page_size"] not in PAGE_SIZES:
        raise DamagedError("'who' of a snapshot is not as it should be")
    _numbers([who["pid"], *who["main_arenas"]], "who")


def _arena(address: str, arena: Any) -> None:
    held = _mapping(arena, "arenas")
    if not ADDRESS.fullmatch(address) or type(held.get("name")) is not str:
        raise DamagedError("'arenas' of a snapshot is not as it should be")
    _numbers([held.get("resident", "")], "arenas")
    _list(held.get("in_use"), 2, "arenas")
    _numbers(_part(held, "rows").values(), "arenas")


def _heap(address: str, heap: Any) -> None:
    if not (
        isinstance(heap, list)
        and list(map(type, heap)) == [str, int]
        and ADDRESS.fullmatch(address)
        and ADDRESS.fullmatch(heap[0])
        and 0 <= heap[1] < LIMIT >> 1
    ):
        raise DamagedError("'heaps' of a snapshot is not as it should be")


def _sites(sites: Json) -> None:
    if type(sites.get("whole")) is not bool:
        raise DamagedError("'sites' of a snapshot is not as it should be")
    numbers = [sites.get("mean", ""), sites.get("page_rate")]
    for each in _part(sites, "listed").values():
        if not isinstance(each, list) or list(map(type, each)) != [str, int, int, int]:
            raise DamagedError("'sites' of a snapshot is not as it should be")
        numbers += each[1:]
    _numbers(numbers, "sites")


def groups(made: Any) -> Json:
    """Types, owners and objects of a snapshot."""
    whole = _mapping(made, "groups.body")
    for kind, packed in whole.items():
        if kind in PARTS:
            _group(kind, _mapping(packed, kind))
    return {kind: packed for kind, packed in whole.items() if kind in PARTS}


def _group(kind: str, packed: Json) -> None:
    if type(packed.get("whole")) is not bool:
        raise DamagedError(f"'{kind}' of a snapshot is not as it should be")
    _list(packed.get("others"), 2, kind)
    for key, held in _part(packed, "listed").items():
        if not isinstance(held, list) or list(map(type, held[:1])) != [str] or not _is_key(kind, key):
            raise DamagedError(f"'{kind}' of a snapshot is not as it should be")
        _list(held[1:], 2, kind)


@lru_cache(maxsize=1 << 14)  # the same names are in snapshot after snapshot
def _is_key(kind: str, text: str) -> bool:
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if PARTS[kind] == 0:
        return isinstance(key, str)
    return isinstance(key, list) and PARTS[kind] in {None, len(key)} and all(map(_is_part, key))


def _is_part(value: Any) -> bool:
    if isinstance(value, list):
        return all(each is None or isinstance(each, (str, int)) for each in value)
    return value is None or isinstance(value, (str, int))


def _mapping(value: Any, name: str) -> Json:
    if not isinstance(value, dict):
        raise DamagedError(f"{name} is no JSON object")
    return value


def _part(whole: Json, name: str) -> Json:
    if not isinstance(whole.get(name), dict):
        raise DamagedError(f"'{name}' of a snapshot is not as it should be")
    found: Json = whole[name]
    return found


def _sizes(held: Json, name: str) -> Json:
    """What has a chunk size as its key."""
    words = "".join(held)
    if held and not (
        words.isascii()
        and words.isdecimal()
        and max(map(len, held)) <= DIGITS
        and all(held)
        and min(map(int, held)) > 0
    ):
        raise DamagedError(f"'{name}' of a snapshot is not as it should be")
    return held


def _list(value: Any, many: int, name: str) -> None:
    if not isinstance(value, list) or len(value) != many:
        raise DamagedError(f"'{name}' of a snapshot is not as it should be")
    _numbers(value, name)


def _numbers(values: Iterable[Any], name: str) -> None:
    held: Sequence[Any] = list(values)
    if not set(map(type, held)) <= NUMBER or any(each is not None and not 0 <= each < LIMIT for each in held):
        raise DamagedError(f"'{name}' has something else than numbers")
