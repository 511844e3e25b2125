# SPDX-License-Identifier: MIT
"""One error type, with the exit codes of inspector/base/error.h: `arenascope` and `arenadump` fail alike."""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """enum as_code. Documented for users in docs/user-guide.md; never renumbered."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    NO_TARGET = 3
    DENIED = 4
    UNSUPPORTED = 5
    BAD_INPUT = 6
    TARGET_GONE = 7
    IO = 8
    NO_MEMORY = 9
    NO_MALLOC = 10
    LEAKS = 11  # of arenascope alone: more is lost than --fail-over allows
    PARTIAL = 12  # the answer is there, but the larger part could not be searched


class ArenascopeError(Exception):
    """What was tried, what was found and what to do, with the exit code that says so to a script."""

    def __init__(self, code: int, text: str) -> None:
        """`code` is a Code, or the exit status of an arenadump that was killed (128 + signal)."""
        super().__init__(text)
        self.code = code


class PartialError(ArenascopeError):
    """There is an answer, about the smaller part."""

    def __init__(self, printed: str, text: str) -> None:
        """`printed`: the answer."""
        super().__init__(Code.PARTIAL, text)
        self.printed = printed


class DumpError(ArenascopeError):
    """A dump file that cannot be read: missing, truncated, of a newer format, or lying about itself."""
