# SPDX-License-Identifier: MIT
"""The recorder in a process that runs already, while its threads load, unload, fork, and change their user."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from soaks import soak_profile
from tools import debian, harness, programs
from tools.injection import selfcheck, under
from tools.profiling import hooks_left, profile, profiling, recorded
from tools.stage import Stage, until

RATE = 1000  # one recognised stack in so many may be wrong


def plugins(*rooms: int) -> list[Path]:
    return [programs.build_portable("allocates", debian.NATIVE, "-shared", "-fPIC", f"-DROOM={room}") for room in rooms]


def test_what_is_unloaded_meanwhile_names_nobody_else(
    stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump
) -> None:
    """Libraries by turns at few places, in two threads: each block is that of the library that allocated it, at once.

    No context is taken for that of another time, none lacks frames, and the tables have each library once.
    """
    count, dump = 400, stage.folder / "dump"
    libraries = plugins(64, 4000, 640, 9000)
    files = [stage.folder / "counts1", stage.folder / "counts2"]
    words = [
        ["plugins", *map(str, pair), "allocates", str(count), str(file)]
        for pair, file in zip((libraries[:2], libraries[2:]), files, strict=True)
    ]
    command = libc.command(programs.build_portable("attached"), "threads", "1", *words[0], *words[1])
    process = stage.start(command, LD_PRELOAD="")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    with profiling(arenadump, process.pid, dump, "--exact"):
        time.sleep(1)
        for file in files:
            file.touch()
        until(lambda: all("end" in file.read_text() for file in files), "no counts")
    found = profile(arenadump, dump)
    assert found["checked"] > 0
    assert found["wrong"] <= found["checked"] // RATE
    mine = {library.name for library in libraries}
    names = [Path(module["path"]).name for module in found["modules"]]
    blocks: Counter[str] = Counter()
    for site in found["sites"]:
        modules = [None if frame["module"] is None else names[frame["module"]] for frame in site["stack"]]
        if not site["in_use"]["count"] or not mine & set(modules):
            continue
        assert modules[0] in mine, "it was called by another"
        assert len(modules) > 1, "it lacks its callers"
        blocks[modules[0]] += site["in_use"]["count"]
    assert blocks == dict.fromkeys(mine, count // 2)
    assert max(Counter(names).values()) == 1
    process.terminate()
    assert process.wait(60) == 0


def test_malloc_is_no_cancellation_point(stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump) -> None:
    """Threads that are to be cancelled load a library and unload it, for which the recorder reads files."""
    program, (library,) = programs.build_portable("attached"), plugins(64)
    paths = f"{libc.directory}:{debian.libgcc()}"
    command = [str(libc.loader), "--library-path", paths, str(program), "cancels", str(library), "allocates"]
    process = stage.start(command, LD_PRELOAD="")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    found = recorded(arenadump, process.pid, stage.folder / "dump", 0.5, "--exact")
    assert library.name in {Path(module["path"]).name for module in found["modules"]}
    process.terminate()
    assert process.wait(60) == 0, process.stdout.read()
    # The list of modules is nobody's when a thread has ended.


def test_setuid_meanwhile(libc: debian.Libc, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """It waits for each thread, the agent's too, while hooks come and go."""
    with selfcheck(*under(libc, "setxid=1", "threads=1", "storm=2")) as pid:
        for _ in range(3):
            recorded(arenadump, pid, tmp_path / "dump", 0.1, "--exact")
        until(lambda: not hooks_left(pid), "the hooks stay")


def test_on_and_off_in_a_storm(arenadump: harness.Arenadump, libc: debian.Libc) -> None:
    """A short run of `make soak`'s."""
    counts = soak_profile.soak_for(8, [libc.suite], arenadump, seed=1)
    assert counts.wrong == []
    assert counts.switched == 8
