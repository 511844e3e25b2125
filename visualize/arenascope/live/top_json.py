# SPDX-License-Identifier: MIT
"""What `arenascope top --once --json` prints: schema "arenascope.top/1" (docs/top.schema.json)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from arenascope.coverage import SHORT
from arenascope.humanize import time_words
from arenascope.live.columns import RSS, taken, totals
from arenascope.live.process_table import user_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.live.columns import Listed, Quantity
    from arenascope.live.process_table import Census, Entry, Figures

SCHEMA: Final = "arenascope.top/1"


def to_json(lines: Sequence[Listed], census: Census) -> dict[str, Any]:
    """All of it. `lines`: of processes or of groups, in their order."""
    entries = [entry for line in lines for entry in line.members]
    groups = None if all(line.entry for line in lines) else [_group(line) for line in lines]
    return {
        "schema": SCHEMA,
        "time": time_words(time.time_ns()),
        "census": census._asdict(),
        "total": _sums(totals(entries)) | {"processes": len(entries), "taken": taken(entries)},
        "groups": groups,
        "processes": [_process(entry) for entry in entries],
    }


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


def _sums(helds: dict[str, Quantity]) -> dict[str, Any]:
    return {_key(name): {"bytes": held.bytes, "quick": held.quick, "least": held.least} for name, held in helds.items()}


def _group(line: Listed) -> dict[str, Any]:
    pids = [entry.process.pid for entry in line.members]
    return _sums(line.cells) | {"name": line.title, "pids": pids, "taken": taken(line.members)}


def _process(entry: Entry) -> dict[str, Any]:
    process = entry.process
    return {
        "pid": process.pid,
        "started": process.identity.started,
        "parent": process.parent,
        "comm": process.comm,
        "cmdline": entry.cmdline,
        "uid": entry.uid,
        "user": user_name(entry.uid) or None,
        "cgroup": entry.cgroup or None,
        "rss_quick": entry.quick,
        "standing": entry.standing.value,
        "why": entry.why,
        "snapshot": None if entry.figures is None else _snapshot(entry.figures),
    }


def _snapshot(figures: Figures) -> dict[str, Any]:
    rows = {_key(name): figures.rows[name] for name in SHORT}
    about = {"time": time_words(figures.time_ns), "mode": figures.mode, "exact": figures.exact}
    return about | {_key(RSS): figures.rss, "swap": figures.swap} | rows
