# SPDX-License-Identifier: MIT
"""The owners that a dump names, and what makes an owner the same one in two dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arenascope.wire import dump_records as fmt
from arenascope.wire.graph_parts import Owner

if TYPE_CHECKING:
    from collections.abc import Hashable

    from arenascope.wire.dump import Dump


def owner_at(dump: Dump, index: int) -> Owner | None:
    """An owner of a dump; None: the index is none."""
    if index >= len(dump.graph_owners):
        return None
    record = dump.graph_owners[index]
    thread = int(record["thread"])
    names = [bytes(each["name"]) for each in dump.threads if int(each["tid"]) == thread] if thread else []
    return Owner(
        kind=dump.string(record["kind"]),
        name=dump.string(record["name"]) or None,
        type=dump.string(record["type"]) or None,
        address=_hex(record["address"]),
        module=dump.string(record["module"]) or None,
        offset=_hex(record["offset"]),
        thread=thread or None,
        thread_name=names[0].split(b"\0")[0].decode("utf-8", "replace") if names else None,
        mapping=dump.string(record["mapping"]) or None,
    )


def owner_key(owner: Owner) -> Hashable:
    """What is equal for the same owner. A variable is the same one wherever its module is loaded.

    So is the stack of a thread wherever it has grown to.
    """
    place = (owner.module, owner.offset) if owner.module else (owner.address if owner.thread is None else None,)
    return (owner.kind, owner.name, *place, owner.thread, owner.mapping)


def _hex(value: Any) -> str | None:
    return None if int(value) == fmt.UNKNOWN else hex(int(value))
