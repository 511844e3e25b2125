# SPDX-License-Identifier: MIT
"""Where the agent's library lies: libarenascope.so, installed beside arenadump."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from arenascope.errors import ArenascopeError, Code
from arenascope.wire.arenadump import find_arenadump

LIBRARY: Final = "libarenascope.so"
OVERRIDE: Final = "ARENASCOPE_LIBRARY"
SEPARATORS: Final = ": \t\n"  # where the loader splits LD_PRELOAD
PLACES: Final = (".", "../lib/arenascope", "../lib", "../agent")  # from arenadump
GDB_SCRIPT: Final = Path(__file__).parents[1] / "arenascope.gdb"  # injects with gdb


def find_agent() -> Path:
    """The library's path for LD_PRELOAD: of $ARENASCOPE_LIBRARY, else beside arenadump, else where the build left both.

    Where that path has a space or a colon it is a link to it, if the user's cache can have one.
    """
    return preloadable(_find())


def _find() -> Path:
    override = os.environ.get(OVERRIDE)
    if override:
        if not Path(override).is_file():
            raise ArenascopeError(Code.USAGE, f"${OVERRIDE} names {override}, which is not a file")
        return Path(override).absolute()
    program = Path(find_arenadump()).resolve()
    owners = {0, program.stat().st_uid}  # beside a program that was copied, another user may have put a file
    for place in PLACES:
        if (found := program.parent / place / LIBRARY).is_file() and found.stat().st_uid in owners:
            return found.resolve()
    raise ArenascopeError(
        Code.INTERNAL,
        f"{LIBRARY} was not found beside {program}: install arenascope with pip, or name the library in ${OVERRIDE}",
    )


def preloadable(library: Path) -> Path:
    """The library, or a link to it that stays: processes that preload it start others later."""
    if not any(separator in str(library) for separator in SEPARATORS):
        return library
    folder = _cache() / f"library-{hashlib.sha256(os.fsencode(library)).hexdigest()[:16]}"
    link = folder / LIBRARY
    if any(separator in str(link) for separator in SEPARATORS):
        return library
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nobody else may say what is loaded: with sudo, $HOME may be another user's.
        if all(each.stat().st_uid in {0, os.geteuid()} for each in (folder, *folder.parents)):
            with suppress(FileExistsError):
                link.symlink_to(library)
            if link.readlink() == library:
                return link
    return library


def _cache() -> Path:
    """Where the agent keeps what it makes, too."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else Path(os.environ.get("HOME", "/"), ".cache")) / "arenascope"
