# SPDX-License-Identifier: MIT
"""The dumps of a watch: a snapshot that meets a condition is kept whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError

if TYPE_CHECKING:
    from collections.abc import Collection

    from arenascope.processes import Identity, Process
    from arenascope.watch.dump_directory import DumpFolder
    from arenascope.watch.triggers import Triggers
    from arenascope.wire.dump import Dump
    from arenascope.wire.summary import Summary


class TriggeredDumps:
    """Which snapshots become dumps, and where."""

    def __init__(self, triggers: Triggers, folder: DumpFolder, say: Callable[[str], None]) -> None:
        """`say`: tells the user a line."""
        self.triggers: Final = triggers
        self._folder: Final = folder
        self._say: Final = say

    def keep_dump(self, process: Process, summary: Summary, dump: Dump) -> str | None:
        """Keep the dump of a snapshot, if there is a reason. What there is to say of it; None: nothing."""
        reasons = self.triggers.due(process, summary, dump)
        if not reasons:
            return None
        why = "; ".join(f"{reason.kind}: {reason.says}" for reason in reasons)
        try:
            name = self._folder.add(process, "+".join(dict.fromkeys(each.kind for each in reasons)), dump.descriptor)
        except ArenascopeError as error:
            said = f"{error} ({why})"
        else:
            said = f"dump {name} ({why})"
        self._say(said)
        return said

    def besides(self, taken: Collection[Identity]) -> list[str]:
        """What there is to say beside dumps: what was noticed too late for one, and what nobody notices here."""
        said = self.triggers.absent()
        for identity, notice in self.triggers.lost(taken):
            said.append(f"no dump ({notice.kind}: {notice.says}): no snapshot of process {identity.pid} came in time")
        for line in said:
            self._say(line)
        return said
