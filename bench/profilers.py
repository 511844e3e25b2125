# SPDX-License-Identifier: MIT
"""Other heap profilers that this machine has, preloaded, to compare the recorder with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from arenascope.experiment.expand import UnavailableError, library

if TYPE_CHECKING:
    from pathlib import Path

# heaptrack: its library alone, without what compresses and interprets the record: this is the program's own part of the
# cost. jemalloc and tcmalloc stand in place of glibc's malloc. jemalloc's profiler samples once in 512 KiB, tcmalloc's
# sees each allocation.
LIBRARIES = {
    "heaptrack": "/usr/lib/heaptrack/libheaptrack_preload.so|/usr/lib64/heaptrack/libheaptrack_preload.so",
    "jemalloc": "libjemalloc.so.2",
    "jemalloc, profile": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc.so.4",
    "tcmalloc, profile": "libtcmalloc.so.4",
}
SETTINGS = {
    "heaptrack": {"DUMP_HEAPTRACK_OUTPUT": "{output}/heaptrack.$$"},
    "jemalloc, profile": {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19,prof_prefix:{output}/jemalloc"},
    "tcmalloc, profile": {"HEAPPROFILE": "{output}/tcmalloc"},
}


def available(output: Path) -> dict[str, dict[str, str]]:
    """The environment's variables that bring each into a program, by its name. They write to `output`, a directory."""
    found: dict[str, dict[str, str]] = {}
    for name, soname in LIBRARIES.items():
        with suppress(UnavailableError):
            settings = {key: value.format(output=output) for key, value in SETTINGS.get(name, {}).items()}
            found[name] = {"LD_PRELOAD": library(soname), **settings}
    return found
