# SPDX-License-Identifier: MIT
"""arenascope's own look at the end of a run: the dump, and the ledger as the summary's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.capture import run_arenadump
from arenascope.dump import Dump
from arenascope.errors import ArenascopeError
from arenascope.files import write_json
from arenascope.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

DUMP: Final = "dump.arenascope"
LEDGER: Final = "ledger.json"


def take(pid: int, folder: Path, *options: str) -> str | None:
    """Write the dump and the ledger of a process; why there is none, or None. `options` are arenadump's."""
    try:
        run_arenadump(["dump", *options, "-o", str(folder / DUMP), "--", str(pid)])
        summary = summarize(Dump(str(folder / DUMP)), from_dump=False)
    except ArenascopeError as error:
        return str(error)
    write_json(folder / LEDGER, summary)
    return None
