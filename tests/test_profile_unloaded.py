# SPDX-License-Identifier: MIT
"""A library with an interpreter comes and goes while the recorder may be about to call it: it calls what is there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools import harness, programs
from tools.recording import hooks_left, recorded, recording
from tools.stage import Stage

FLAGS = ("-shared", "-fPIC", f"-I{programs.SOURCES / 'unloads'}")
LIBRARY = ("forged_libpython", *FLAGS)
PATIENCE = 60  # seconds


def run(stage: Stage, how: str, *libraries: Path) -> int:
    command = [str(programs.build("unloads", "-pthread")), how, *map(str, libraries)]
    return stage.start(command, ARENASCOPE_PROFILE="exact").wait(PATIENCE)


def test_unloaded_between_two_profiles(stage: Stage, arenadump: harness.Arenadump) -> None:
    library = programs.build(*LIBRARY)
    command = [str(programs.build("unloads", "-pthread")), "told", str(library)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        maps = Path(f"/proc/{process.pid}/maps")
        assert process.stdout.readline() == b"ready\n"
        assert library.name in maps.read_text()
        recorded(arenadump, process.pid, stage.folder / "first", 0.3)
        process.stdin.write(b"u")
        process.stdin.flush()
        assert process.stdout.readline() == b"unloaded\n"
        assert library.name not in maps.read_text()
        recorded(arenadump, process.pid, stage.folder / "second", 0.3)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_unloaded_while_another_thread_calls_it(stage: Stage) -> None:
    assert run(stage, "races", programs.build(*LIBRARY)) == 0


def test_dlclose_waits_for_no_thread_for_ever(stage: Stage) -> None:
    assert run(stage, "stuck", programs.build(*LIBRARY)) == 0


def test_it_is_not_called_before_it_is_relocated(stage: Stage) -> None:
    """It is, as soon as it can be: by the next stack that was not there before."""
    slow = programs.build("slow_relocation", *FLAGS)
    library = programs.build(*LIBRARY, "-Wl,--no-as-needed", str(slow))
    other = programs.build("allocates", "-shared", "-fPIC", "-DROOM=64")
    assert run(stage, "loads", library, other) == 0


def test_a_profile_that_ends_while_a_library_is_unloaded(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Of what is unloaded nothing is written to: the type of code objects has its function back afterwards."""
    library, other = programs.build(*LIBRARY), programs.build("slow_ending", *FLAGS)
    command = [str(programs.build("unloads", "-pthread")), "ends", str(library), str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout

        def go_on(said: bytes) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(b" ")
            process.stdin.flush()
            assert process.stdout.readline() == said

        assert process.stdout.readline() == b"ready\n"
        with recording(arenadump, process.pid, stage.folder / "dump", "--rates=exact"):
            go_on(b"known\n")
            assert hooks_left(process.pid)[str(library.resolve())] > 0
            go_on(b"unloading\n")
        go_on(b"unloaded\n")
        assert not hooks_left(process.pid)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
