# SPDX-License-Identifier: MIT
"""The recorder where stacks, chunks or pointers are others than one expects: nothing is read that is not there."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile import Names, compare, truth
from tools import debian, emulated, harness, programs
from tools.profiling import profile, profiling
from tools.stage import Stage

# These are constants of programs/stepped.c.
SIZE, PATH_BITS, KEPT, ROUNDED = 504, 6, 1000, 8
# The main thread of programs/coroutines_below.c allocates so many blocks on its own stack. One of 1,024 recognised
# contexts is checked.
ON_MAIN = 500 * 20
RECORDED = pytest.mark.parametrize("recorded", [False, True], ids=["profile", "trace"])
STEPS = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has the trap flag")


def said_by(stage: Stage, program: Path, *, recorded: bool) -> str:
    """What a program prints that ends by itself."""
    file = {"ARENASCOPE_PROFILE_TRACE": str(stage.folder / "record")} if recorded else {"ARENASCOPE_PROFILE": "exact"}
    process = stage.start([str(program)], **file)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return said.decode()


@RECORDED
def test_a_thread_with_a_smaller_stack_at_the_same_place(stage: Stage, *, recorded: bool) -> None:
    """What was read of the one that was there before is not there any more."""
    program = programs.build("reused_stack", "-O1", "-fno-inline", "-lpthread")
    said = said_by(stage, program, recorded=recorded)
    assert said.split() == ["1", "ended"], "it is not at the place of another one"


@RECORDED
def test_coroutines_right_below_a_stack_without_a_guard(stage: Stage, *, recorded: bool) -> None:
    """They are not taken for more of it, as their memory may be given back while the thread lives."""
    program = programs.build("coroutines_below", "-O1", "-fno-inline", "-lpthread")
    assert said_by(stage, program, recorded=recorded) == "ended\n"


def profile_of_running(arenadump: harness.Arenadump, folder: Path, how: str) -> dict[str, Any]:
    """The profile of what coroutines_below does between SIGUSR1 and "ended"."""
    program = programs.build("coroutines_below", "-O1", "-fno-inline", "-lpthread")
    with subprocess.Popen([str(program), how], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            pid = int(process.stdout.readline()) if how == "forked" else process.pid
            assert process.stdout.readline() == b"ready\n"
            with profiling(arenadump, pid, folder / "dump", "--rates=exact"):
                os.kill(pid, signal.SIGUSR1)
                assert process.stdout.readline() == b"ended\n"
        finally:
            process.kill()
    return profile(arenadump, folder / "dump")


def test_coroutines_right_below_the_variables_of_the_main_thread(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Who begins a profile of a running process does not know its main thread, whose stack is elsewhere."""
    answer = profile_of_running(arenadump, tmp_path, "main")
    assert answer["checked"] > 0, "stacks of the main thread itself are recognised"


def test_a_main_thread_on_the_stack_of_another(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A child of fork() is recorded: its main thread is on the stack of the thread that called fork()."""
    answer = profile_of_running(arenadump, tmp_path, "forked")
    assert answer["checked"] > 0, "its stacks are recognised"
    assert max(site["in_use"]["count"] for site in answer["sites"]) == ON_MAIN


@STEPS
def test_an_alternate_stack_above_all_that_is_interrupted(stage: Stage, arenadump: harness.Arenadump) -> None:
    """The handler allocates between the recorder's instructions: no block has the other's stack."""
    program = programs.build("stepped", "-O1", "-fno-inline")
    process = stage.start([str(program), "alternate"], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    assert int(process.stdout.readline().split()[0]) > 10_000
    answer = profile(arenadump, process.pid)
    names, found = Names(program), Counter[int]()
    for site in answer["sites"]:
        use = site["in_use"]
        path, rest = divmod(use["bytes"] / use["count"] - (SIZE - ROUNDED), 16) if use["count"] else (-1, 0)
        if not 0 <= path < 1 << PATH_BITS:
            continue
        bits = ["right" if int(path) >> bit & 1 else "left" for bit in range(PATH_BITS)]
        assert rest == 0
        assert list(names.stack(site, answer["modules"], program))[:PATH_BITS] == bits
        found[int(path)] += use["count"]
    assert found == dict.fromkeys(range(1 << PATH_BITS), 1)
    assert answer["without_stack"]["count"] > 1000, "what the handler allocates is counted"
    assert answer["wrong"] == 0


@STEPS
def test_a_handler_that_leaves_the_recorder(stage: Stage, arenadump: harness.Arenadump) -> None:
    """The next call comes from the same place: the thread goes on to be recorded."""
    program = programs.build("stepped", "-O1", "-fno-inline")
    process = stage.start([str(program), "left"], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    process.stdout.readline()
    answer = profile(arenadump, process.pid)
    size = SIZE + 16 - ROUNDED
    made = [site["in_use"]["count"] for site in answer["sites"] if site["in_use"]["bytes"] == size * KEPT]
    assert made == [KEPT]


# Its main() is called by Python.
LEFT = """
import ctypes, sys
def outermost():
    words = (ctypes.c_char_p * 4)(b"stepped", b"left", b"40", None)
    ctypes.CDLL(sys.argv[1]).main(3, words)
outermost()
"""


@STEPS
def test_a_handler_that_leaves_while_pythons_frames_are_read(stage: Stage, arenadump: harness.Arenadump) -> None:
    """There is room for some threads to read frames at the same time: the room that was left is used again."""
    library = programs.build("stepped", "-O1", "-fno-inline", "-shared", "-fPIC")
    process = stage.start([sys.executable, "-c", LEFT, str(library)], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    process.stdout.readline()
    answer = profile(arenadump, process.pid)
    size = SIZE + 16 - ROUNDED
    (made,) = [site for site in answer["sites"] if site["in_use"]["bytes"] == size * KEPT]
    names = [function["name"] for frame in made["stack"] for function in frame["functions"]]
    assert "outermost" in names


def test_requests_that_get_large_chunks(stage: Stage, arenadump: harness.Arenadump) -> None:
    """They are recorded wherever they begin, as large ones: by the chunk, and not by what was asked for."""
    program = programs.build("grown_chunks", "-O1", "-fno-inline")
    process = stage.start([str(program)], ARENASCOPE_PROFILE="pages=65536,bytes=0")
    assert process.stdout
    names = ("by_mapping", "by_alignment", "by_pages")
    large = dict(zip(names, map(int, process.stdout.readline().split()), strict=True))
    assert min(large.values()) > 50
    answer = profile(arenadump, process.pid)
    found: Counter[str] = Counter()
    for site in answer["sites"]:
        for name in {function["name"] for frame in site["stack"] for function in frame["functions"]} & set(names):
            found[name] += site["in_use"]["count"]
    assert found == large
    assert answer["unseen"]["count"] == 0


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_program_with_its_own_malloc(
    stage: Stage, arenadump: harness.Arenadump, libc: debian.Libc, binding: str
) -> None:
    """It calls libc's as __libc_malloc: by a slot that may be bound after the recorder has begun."""
    program = programs.build_portable("own_malloc", debian.NATIVE, f"-Wl,-z,{binding}")
    process = stage.start(libc.command(program, str(KEPT), "stays"), ARENASCOPE_PROFILE="exact")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    answer = profile(arenadump, process.pid)
    assert answer["unseen"]["count"] == 0
    made = [site["in_use"]["count"] for site in answer["sites"]]
    assert made.count(KEPT) == 2
    record = stage.folder / "record"
    ending = stage.start(libc.command(program, str(KEPT)), ARENASCOPE_PROFILE_TRACE=str(record))
    assert ending.wait(timeout=120) == 0
    found = json.loads(arenadump.check("trace", record, "--json"))
    assert found["allocated"]["count"] - found["frees"] == found["in_use"]["count"] == 2 * KEPT
    assert found["frees"] >= KEPT


@pytest.mark.nightly("emulation")
@pytest.mark.parametrize("tagging", [1, 3])
def test_tagged_memory_of_aarch64(stage: Stage, arenadump: harness.Arenadump, tagging: int) -> None:
    """The pointers of malloc have a tag, its headers have none."""
    libc = debian.libc("bookworm", "arm64")
    program = programs.build_portable("sites", "arm64")
    environment = {"GLIBC_TUNABLES": f"glibc.mem.tagging={tagging}", "QEMU_CPU": "max"}
    file = stage.folder / "truth"
    command = libc.command(program, str(file), "calls")
    process = emulated.start(stage, command, ARENASCOPE_PROFILE="exact,memory=64M", **environment)
    truth(Path(file))
    assert process.poll() is None
    with emulated.core(stage, process) as core:
        answer = profile(arenadump, core)
    for module in answer["modules"]:
        module["path"] = module["path"] or str(program)  # the loader was started, and the program has no name
    compare(answer, program, file)
