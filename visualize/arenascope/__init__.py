# SPDX-License-Identifier: MIT
"""arenascope: where did a process's memory go, and what will bring it back?

The C program `arenadump` looks at a process and writes a dump; this package reads dumps and shows what they say.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """The version, which is read when somebody asks."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from arenascope.version import version  # noqa: PLC0415

    return version()
