# SPDX-License-Identifier: MIT
"""Types, owners, lost chunks and objects of a snapshot of all memory (--graph, --objects), as a timeline keeps them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from arenascope.compare.digest import NOTHING, Group, Named, Portion
from arenascope.timeline import shape
from arenascope.timeline.delta_codec import unpack_json

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from arenascope.compare.digest import Digest

    Json = dict[str, Any]

KINDS: Final = ("types", "owners", "leaks", "objects", "classes")  # of a digest
MOST: Final = 200  # names of each kind: those with most bytes
LONGEST: Final = 300  # characters of a title
MOST_KEY: Final = 2000  # of what tells a thing from others: one with more is among the others


def packed(digest: Digest) -> Json | None:
    """What is kept of a snapshot. None: it had neither option."""
    held = {kind: getattr(digest, kind) for kind in KINDS}
    return {kind: _packed(group) for kind, group in held.items() if group is not None} or None


def _packed(group: Group) -> Json:
    order = sorted(group.listed.items(), key=lambda each: -(each[1].held.bytes or 0))
    named = [(json.dumps(key, separators=(",", ":")), held) for key, held in order]
    shown = [each for each in named if len(each[0]) <= MOST_KEY][:MOST]
    keys = {key for key, _ in shown}
    rest = [group.others, *(named.held for key, named in named if key not in keys)]
    return {
        "whole": group.whole and len(shown) == len(named),
        "others": [_sum([each.bytes for each in rest]), _sum([each.count for each in rest])],
        "listed": {key: [named.title[:LONGEST], *named.held] for key, named in shown},
    }


def _sum(numbers: list[int | None]) -> int | None:
    return None if None in numbers else sum(number or 0 for number in numbers)


def groups_from(body: Mapping[str, Any]) -> dict[str, Group]:
    """The same as groups of a digest, by kind."""
    return {
        kind: Group(
            {key_from(key): Named(str(held[0]), Portion(held[1], held[2])) for key, held in packed["listed"].items()},
            bool(packed["whole"]),
            NOTHING if packed["whole"] else Portion(*packed["others"]),
        )
        for kind, packed in body.items()
        if kind in KINDS
    }


def key_from(text: str) -> Hashable:
    """What tells a thing from others, as a digest has it."""

    def made(value: Any) -> Any:
        return tuple(made(each) for each in value) if isinstance(value, list) else value

    key: Hashable = made(json.loads(text))
    hash(key)  # TypeError where the file has something else
    return key


def unpacked(data: bytes) -> Json:
    """What was told, of its bytes (pack.pack_body made them). DamagedError: something else."""
    return shape.groups(unpack_json(data))
