# SPDX-License-Identifier: MIT
"""The table of docs/kernels.md: a row has what a machine tried at a commit, and no cell is older than its row."""

from __future__ import annotations

from collections.abc import Iterable

from tools import marked

from vm.checks import CHECKS

KEY = ("machine", "commit", "date")
NAMES = tuple(check.name for check in CHECKS)
TABLE = marked.Table("vm", "checks", (*KEY, *NAMES))


def written(page: str, key: tuple[str, str, str], cells: dict[str, str], order: Iterable[str]) -> str:
    """The page with the cells that a machine tried now, by the names of their checks.

    They leave the machine's older rows, and a row without cells goes. `order`: the machines.
    """
    rows = {tuple(row[name] for name in KEY): {name: row[name] for name in NAMES} for row in TABLE.rows(page)}
    for other, older in rows.items():
        if other[0] == key[0]:
            older.update(dict.fromkeys(cells.keys() & set(NAMES), ""))
    rows.setdefault(key, dict.fromkeys(NAMES, "")).update({name: cells[name] for name in NAMES if name in cells})
    places = {name: place for place, name in enumerate(order)}
    kept = sorted(
        (each for each in rows if any(rows[each].values())), key=lambda each: places.get(each[0], len(places))
    )
    return TABLE.written(page, [{**dict(zip(KEY, each)), **rows[each]} for each in kept])
