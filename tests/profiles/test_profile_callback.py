# SPDX-License-Identifier: MIT
"""A callback of dl_iterate_phdr waits for a lock that the caller of malloc holds: the recorder hangs nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import debian, harness, programs
from tools.profiling import profile
from tools.stage import Stage, until

LIBRARY = ("allocates", debian.NATIVE, "-shared", "-fPIC", "-DROOM=64")
OTHER = (*LIBRARY[:-1], "-DROOM=640")
BLOCKS, SIZE = 50, 3008  # with the lock, and as many afterwards; with malloc's header


def check(stage: Stage, arenadump: harness.Arenadump, command: list[str], how: str) -> None:
    """With another's code perhaps in a module's place, blocks have no stack, and are counted. All others have one."""
    file = stage.folder / "counts"
    library = programs.build_portable(*LIBRARY)
    process = stage.start([*command, how, str(library), str(file)], ARENASCOPE_PROFILE="exact")
    until(lambda: file.exists() and "end" in file.read_text(), "it hangs")
    assert file.read_text().split() == ["end", str(process.pid), str(BLOCKS), str(BLOCKS)]
    found = profile(arenadump, Path(str(process.pid)))
    lost = 0 if how == "code" else BLOCKS
    assert found["without_stack"] == {"count": lost, "bytes": lost * SIZE}
    uses = [site["in_use"] for site in found["sites"]]
    assert sum(use["count"] for use in uses if use["bytes"] == use["count"] * SIZE) == 2 * BLOCKS - lost


@pytest.mark.parametrize("how", ["code", "thread", "self"])
def test_malloc_waits_for_no_callback(stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump, how: str) -> None:
    check(stage, arenadump, libc.command(programs.build_portable("callback")), how)


@pytest.mark.parametrize("how", ["thread", "self"])
def test_dlclose_is_seen_in_a_program_of_today(stage: Stage, arenadump: harness.Arenadump, how: str) -> None:
    """Since glibc 2.34 dlclose has two versions, and each program is bound to the newer one, when it first calls it."""
    check(stage, arenadump, [str(programs.build("callback", "-Wl,-z,lazy"))], how)


@pytest.mark.parametrize("how", ["callback", "jump"])
def test_the_recorder_leaves_no_lock_behind(stage: Stage, arenadump: harness.Arenadump, how: str) -> None:
    """What another thread loads afterwards is known at once: its blocks have all of their frames."""
    file = stage.folder / "pid"
    libraries = [str(programs.build_portable(*each)) for each in (LIBRARY, OTHER)]
    command = [str(programs.build("left_behind", "-pthread", "-rdynamic")), how, *libraries, str(file)]
    process = stage.start(command, ARENASCOPE_PROFILE="exact", XDG_CACHE_HOME=str(stage.folder))
    until(lambda: process.poll() is not None or (file.exists() and "end" in file.read_text()), "it hangs", seconds=60)
    assert process.poll() is None
    found = profile(arenadump, Path(str(process.pid)))
    named = [
        (site["in_use"]["count"], [frame["functions"][0]["name"] for frame in site["stack"][:3] if frame["functions"]])
        for site in found["sites"]
    ]
    assert (20, ["allocates", "in_other_thread", "loads"]) in named
