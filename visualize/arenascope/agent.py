# SPDX-License-Identifier: MIT
"""Where the agent's library lies: libarenascope.so, installed beside arenadump."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from arenascope.arenadump import find_arenadump
from arenascope.errors import ArenascopeError, Code

LIBRARY: Final = "libarenascope.so"
OVERRIDE: Final = "ARENASCOPE_LIBRARY"
GDB_SCRIPT: Final = Path(__file__).with_name("arenascope.gdb")  # injects with gdb


def find_agent() -> Path:
    """The library's path: $ARENASCOPE_LIBRARY, else beside arenadump, else where the build left both."""
    override = os.environ.get(OVERRIDE)
    if override:
        if not Path(override).is_file():
            raise ArenascopeError(Code.USAGE, f"${OVERRIDE} names {override}, which is not a file")
        return Path(override).absolute()
    program = Path(find_arenadump()).resolve()
    for place in (program.parent / LIBRARY, program.parent.parent / "agent" / LIBRARY):
        if place.is_file():
            return place
    raise ArenascopeError(
        Code.INTERNAL,
        f"{LIBRARY} was not found beside {program}: install arenascope with pip, or name the library in ${OVERRIDE}",
    )
