# SPDX-License-Identifier: MIT
"""arenascope: where did a process's memory go, and what will bring it back?

The C program `arenadump` looks at a process and writes a dump; this package reads dumps and shows what they say.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """The version of what is installed, which takes longer to find than most commands take to load."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version("arenascope")
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+uninstalled"
