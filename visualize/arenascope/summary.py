# SPDX-License-Identifier: MIT
"""The summary of a target, schema "arenascope.summary/1" (docs/summary.schema.json): computed by arenadump alone.

What is not known is None.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from arenascope.capture import run_arenadump
from arenascope.errors import ArenascopeError, Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.dump import Dump

    Json = dict[str, Any]

SCHEMA: Final = "arenascope.summary/1"


def look(target: str, options: Sequence[str] = ()) -> Json:
    """Look at a target, a PID, a core or a dump file. `options` are arenadump's ("--mode=live")."""
    return parse(run_arenadump(["summary", "--json", *options, "--", target]))


def summarize(dump: Dump, *, from_dump: bool = True) -> Json:
    """The summary of a dump. `from_dump`: the target that was named is a dump file, not what was dumped just now."""
    # By its descriptor: the file may have no name any more, or another file its name.
    name = f"/proc/self/fd/{dump.descriptor}"
    made = parse(run_arenadump(["summary", "--json", "--", name], descriptors=(dump.descriptor,)))
    if not from_dump:
        made["target"] |= {"kind": made["target"]["dump_of"], "dump_of": None}
    return made


def parse(printed: str) -> Json:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such summary."""
    try:
        made: Json = json.loads(printed)
        if made["schema"] == SCHEMA:
            return made
        found = f"schema {made['schema']!r}"
    except (ValueError, TypeError, KeyError) as error:
        found = repr(error)
    raise ArenascopeError(
        Code.INTERNAL, f"arenadump printed no summary of {SCHEMA} ({found}): install arenascope anew, with its program"
    )
