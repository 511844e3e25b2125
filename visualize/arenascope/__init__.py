# SPDX-License-Identifier: MIT
"""arenascope: where did a process's memory go, and what will bring it back?

The C program `arenadump` looks at a process and writes a dump; this package reads dumps and shows what they say.
"""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("arenascope")
except metadata.PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+uninstalled"

__all__ = ["__version__"]
