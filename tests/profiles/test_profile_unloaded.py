# SPDX-License-Identifier: MIT
"""A library with an interpreter goes, seen or unseen: the recorder neither reads nor writes nor calls what is gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from profiles.test_profile_entry import libc_code, symbol
from tools import debian, harness, interpreters, programs
from tools.profiling import Profiling, hooks_left, profile, profiling, recorded
from tools.stage import Stage

FLAGS = ("-shared", "-fPIC", f"-I{programs.SOURCES / 'unloads'}")
LIBRARY = ("forged_libpython", *FLAGS)
PATIENCE = 120  # seconds
PYTHONS = [release for release in interpreters.PYTHONS if release != "3.9"]  # those that have frames


class Answers:
    """A program that says what it has done, and does the next thing when it reads a byte."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.pid = process.pid

    def says(self, wanted: str) -> None:
        assert self.process.stdout
        said = self.process.stdout.readline().decode()
        assert said == f"{wanted}\n", f"{said!r}, {self.process.poll()}"

    def goes_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b" ")
        self.process.stdin.flush()

    def ends(self) -> int:
        self.goes_on()
        return self.process.wait(PATIENCE)


@contextmanager
def loaded(library: interpreters.Library, name: str, *words: str) -> Iterator[Answers]:
    """A program of tests/programs that loads a library of another suite's, under the libc of that suite."""
    command = [*library.prefix, str(programs.build_portable(name)), *words]
    environment = {**os.environ, **library.environment}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            answer = Answers(process)
            answer.says("ready")
            yield answer
        finally:
            process.kill()


def python_of(release: str) -> interpreters.Library:
    try:
        return interpreters.libpython(release)
    except debian.UnavailableError as error:
        pytest.skip(str(error))


def ruby_of(release: str) -> interpreters.Library:
    try:
        return interpreters.libruby(release)
    except debian.UnavailableError as error:
        pytest.skip(str(error))


def functions(arenadump: harness.Arenadump, pid: int) -> set[str]:
    """The functions of Python that have allocated what is in use."""
    frames = (frame for site in profile(arenadump, pid)["sites"] for frame in site["stack"])
    return {frame["functions"][0]["name"] for frame in frames if frame["language"] == "python"}


def jumps(pid: int, name: str) -> bool:
    """Whether a function of libc's begins with a jump."""
    start, code, _ = libc_code(pid)
    entry = code[symbol(pid, name) - start :][:9].removeprefix(b"\xf3\x0f\x1e\xfa")  # endbr64
    return entry[0] == 0xE9


@pytest.mark.parametrize("entry", [False, True], ids=["slots", "entries"])
@pytest.mark.parametrize("then", ["nothing", "used"])
@pytest.mark.parametrize("release", PYTHONS)
def test_unloaded_by_a_copied_address(
    stage: Stage, arenadump: harness.Arenadump, release: str, then: str, *, entry: bool
) -> None:
    """With hooks at entries this is seen."""
    library = python_of(release)
    options = ["--rates=exact", *(["--entry"] if entry else [])]
    with loaded(library, "unloads_unseen", str(library.path), "PyCode_Type", then) as answer:
        with profiling(arenadump, answer.pid, stage.folder / "dump", *options):
            answer.goes_on()
            answer.says("used" if then == "used" else "kept")
            assert (then == "used") == ("f" in functions(arenadump, answer.pid))
            assert entry == jumps(answer.pid, "dlclose")
            answer.goes_on()
            answer.says("unloaded")
            assert library.path.name not in Path(f"/proc/{answer.pid}/maps").read_text()
            answer.goes_on()
            answer.says("allocated")
        assert answer.ends() == 0


@pytest.mark.parametrize("then", ["nothing", "none", "read", "write", "run"])
@pytest.mark.parametrize("release", PYTHONS)
def test_at_the_end_nothing_is_written_to_what_is_there_instead(
    stage: Stage, arenadump: harness.Arenadump, release: str, then: str
) -> None:
    """Though it has the hook's address where the hook stood, and may be written."""
    library = python_of(release)
    with loaded(library, "unloads_unseen", str(library.path), "PyCode_Type", then) as answer:
        with profiling(arenadump, answer.pid, stage.folder / "dump", "--rates=exact"):
            answer.goes_on()
            answer.says("kept")
            assert hooks_left(answer.pid)[str(library.path)] > 0
            answer.goes_on()
            answer.says("unloaded")
        answer.goes_on()
        answer.says("allocated")
        assert answer.ends() == 0


@pytest.mark.parametrize("release", interpreters.RUBIES)
def test_a_ruby_that_is_unloaded_unseen(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    library = ruby_of(release)
    with loaded(library, "unloads_unseen", str(library.path), "ruby_api_version", "nothing") as answer:
        with profiling(arenadump, answer.pid, stage.folder / "dump", "--rates=exact"):
            for said in ("kept", "unloaded", "allocated"):
                answer.goes_on()
                answer.says(said)
        assert answer.ends() == 0


@pytest.mark.parametrize("release", PYTHONS)
def test_libc_unloads_it_as_what_needs_it_fails(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """A build of before died within 50 of these loads, nine times of nine."""
    library = python_of(release)
    flags = ("-shared", "-fPIC")
    broken = programs.build_portable("unresolved", debian.NATIVE, *flags, "-Wl,--no-as-needed", str(library.path))
    other = programs.build_portable("allocates", debian.NATIVE, *flags, "-DROOM=64")
    with loaded(library, "loads_in_vain", str(broken), str(other), "500") as answer:
        made = Profiling(arenadump, answer.pid, stage.folder / "dump", "--rates=exact")
        assert "records who allocates" in made.said, made.said
        assert answer.ends() == 0
        assert "with the process" in made.process.communicate(timeout=120)[1]


def test_unloaded_between_two_profiles(stage: Stage, arenadump: harness.Arenadump) -> None:
    library = programs.build(*LIBRARY)
    command = [str(programs.build("unloads", "-pthread")), "asked", str(library)]
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


def test_a_profile_that_ends_while_a_library_is_unloaded(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Nothing is written to what is unloaded: the type of code objects has its function back afterwards."""
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
        with profiling(arenadump, process.pid, stage.folder / "dump", "--rates=exact"):
            go_on(b"known\n")
            assert hooks_left(process.pid)[str(library.resolve())] > 0
            go_on(b"unloading\n")
        go_on(b"unloaded\n")
        assert not hooks_left(process.pid)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
