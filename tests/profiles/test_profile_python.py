# SPDX-License-Identifier: MIT
"""Python's frames in a profile: a program that knows the functions and lines of each of its blocks, on each release."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile import assert_nested, assert_recognised, assert_ways, ways_pid
from profiles.test_profile_commands import arenascope
from tools import emulated, harness, interpreters, programs, tiers
from tools.paths import PROGRAMS
from tools.profiling import profile
from tools.stage import Stage, kill, until
from tools.tab import write

from arenascope.wire.dump import Dump
from arenascope.wire.profile import rows
from arenascope.wire.profile_json import profile_of, read_profile

PROGRAM = PROGRAMS / "frames.py"
AGAIN = PROGRAMS / "again.py"
WAYS = PROGRAMS / "ways.py"
NESTED = PROGRAMS / "nested.py"
SIZE = 9001
MOST = 256  # frames of a stack, those of C included
# Debian has no 3.12: only a developer's machine may.
RELEASES = [
    each for each in ("3.11", "3.12", "3.13", "3.14") if each in {*interpreters.PYTHONS, *interpreters.OTHER_PYTHONS}
]
Stack = tuple[tuple[str, int, str], ...]


def command(release: str, *arguments: str, program: Path = PROGRAM) -> tuple[list[str], dict[str, str]]:
    """What runs the program on a release, and its environment."""
    if release not in {*interpreters.PYTHONS, *interpreters.OTHER_PYTHONS}:
        pytest.skip(f"no suite of Debian has Python {release}")
    python = interpreters.python(release)
    given = {name: value for name, value in python.environment.items() if name == "PYTHONHOME"}
    return python.command(program, *arguments), given


def truth(path: Path) -> tuple[int, int, Counter[Stack]]:
    """The program's pid, how many code objects it had at one address, and how many blocks it keeps by each stack."""
    until(path.exists, f"no {path.name}")
    *lines, last = map(ast.literal_eval, path.read_text().splitlines())
    return (*last, Counter({stack: count for count, stack in lines}))


def of_python(site: dict[str, Any]) -> Stack:
    frames = [frame["functions"][0] for frame in site["stack"] if frame["language"] == "python"]
    return tuple((each["name"], each["line"], Path(each["file"]).name) for each in frames)


def blocks(answer: dict[str, Any]) -> Counter[Stack]:
    """Those of SIZE bytes, by their Python stacks.

    A bytearray has a byte more, and a chunk a header; and 16 bytes where these alone would be no chunk.
    """
    found: Counter[Stack] = Counter()
    for site in answer["sites"]:
        use = site["in_use"]
        if use["count"] and SIZE + 8 <= use["bytes"] / use["count"] <= SIZE + 40:
            found[of_python(site)] += use["count"]
    return found


def compare(answer: dict[str, Any], stacks: Counter[Stack]) -> None:
    whole = {stack for stack in stacks if len(stack) < MOST // 2}
    found = blocks(answer)
    assert answer["wrong"] == 0
    assert answer["without_stack"]["count"] == 0
    other = sorted(found.keys() - stacks.keys())
    assert {stack: found[stack] for stack in whole} == {stack: stacks[stack] for stack in whole}, other
    # What has more frames than there is room for has the innermost.
    for stack in stacks.keys() - whole:
        ((cut, count),) = (
            (each, n) for each, n in found.items() if len(each) > MOST // 2 and stack[: len(each)] == each
        )
        assert count == stacks[stack], cut
    assert found.total() == stacks.total()


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_each_block_has_the_lines_that_made_it(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file = stage.folder / "truth"
    how, environment = command(release, str(file))
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    pid, reused, stacks = truth(file)
    assert reused > 1, "no code object was made where one had died"
    assert stacks.total() > 1000
    compare(profile(arenadump, pid), stacks)


@pytest.mark.parametrize("release", tiers.daily(RELEASES, tiers.OF_DEBIAN_12, "runtimes"))
def test_the_same_stacks_are_recognised(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """A stack that comes again and again is unwound for the first time alone, and when it is checked."""
    assert_recognised(stage, arenadump, lambda count: command(release, "20", count, program=AGAIN))


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_stacks_that_differ_in_one_frame(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """They come again and again, in no order: each block has its own, and the C function that its size says."""
    file = stage.folder / "truth"
    how, environment = command(release, str(file), program=WAYS)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    assert_ways(profile(arenadump, ways_pid(file)), file, of_python)


@pytest.mark.parametrize("release", tiers.daily(RELEASES, tiers.OF_DEBIAN_12, "runtimes"))
def test_stacks_that_differ_in_a_recursion_in_c(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file = stage.folder / "truth"
    how, environment = command(release, str(file), program=NESTED)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    assert_nested(profile(arenadump, ways_pid(file)), file, of_python)


def test_files_of_one_name_are_told_apart(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Each has a `grow` of its own in its __init__.py: they are two functions, in all that is shown."""
    program, mark = stage.folder / "main.py", stage.folder / "mark"
    for package, count in (("aa", 100), ("bb", 300)):
        (stage.folder / package).mkdir()
        (stage.folder / package / "__init__.py").write_text(
            f"kept = []\ndef grow():\n    for i in range({count}):\n        kept.append(bytearray({SIZE}))\n"
        )
    program.write_text(
        "import os, pathlib, sys, time\n"
        "sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n"
        "import aa, bb\naa.grow()\nbb.grow()\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\ntime.sleep(1000)\n"
    )
    how, environment = command("3.11", str(mark), program=program)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    dump = stage.folder / "dump"
    arenadump.check("dump", stage.marked(), "-o", dump)
    read = read_profile(str(dump))
    found = {row.name: row.cum for row in rows(profile_of(read).sites, "inuse_space") if row.name.endswith(":grow")}
    assert set(found) == {"aa/__init__.py:grow", "bb/__init__.py:grow"}
    assert 100 * SIZE < found["aa/__init__.py:grow"] < 110 * SIZE
    assert 300 * SIZE < found["bb/__init__.py:grow"] < 330 * SIZE
    page = write(stage.folder, Dump(dump)).read_text()
    asked = (["top", "--number=1000"], ["tree"], ["folded"])
    for shown in (page, *(arenascope("profile", *each, dump, arenadump=arenadump) for each in asked)):
        assert "aa/__init__.py:grow" in shown
        assert "bb/__init__.py:grow" in shown
        assert "main.py:<module>" in shown or "main.py:&lt;module&gt;" in shown
        assert f"{stage.folder.name}/main.py:" not in shown


def test_a_child_of_fork_goes_on(stage: Stage, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    how, environment = command("3.11", str(file), "fork")
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    child, _, stacks = truth(stage.folder / "truth.child")
    try:
        compare(profile(arenadump, child), stacks)
        pid, _, stacks = truth(file)
        compare(profile(arenadump, pid), stacks)
    finally:
        kill(child)


def test_estimates_have_their_stacks(stage: Stage, arenadump: harness.Arenadump) -> None:
    """With few pages watched, what is seen of a stack is never more than it has."""
    file = stage.folder / "truth"
    how, environment = command("3.11", str(file))
    stage.start(how, ARENASCOPE_PROFILE="pages=4", **environment)
    pid, _, stacks = truth(file)
    answer = profile(arenadump, pid)
    whole = {stack: count for stack, count in stacks.items() if len(stack) < MOST // 2}
    found = {stack: count for stack, count in blocks(answer).items() if len(stack) < MOST // 2}
    assert found.keys() <= whole.keys()
    assert len(found) > len(whole) / 6
    assert all(count <= 4 * whole[stack] for stack, count in found.items())


def test_dumps_have_them(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Those of arenadump, and those of the agent itself."""
    file = stage.folder / "truth"
    how, environment = command("3.11", str(file))
    stage.start(how, ARENASCOPE_PROFILE="exact", ARENASCOPE_SIGNAL="USR2", **environment)
    pid, _, stacks = truth(file)
    compare(profile(arenadump, stage.ask(pid)), stacks)
    dump = stage.folder / "ours.dump"
    arenadump.run("dump", "-o", str(dump), str(pid))
    compare(profile(arenadump, dump), stacks)
    tell = [sys.executable, "-m", "arenascope", "profile"]
    top = subprocess.run([*tell, "top", "--number=5000", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "frames.py:left" in top
    listed = subprocess.run([*tell, "list", "left", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "keep(bytearray(SIZE))" in listed
    named = subprocess.run(
        [*tell, "list", f"{PROGRAM.name}:left", str(dump)], capture_output=True, text=True, check=True
    )
    assert named.stdout == listed
    folded = subprocess.run([*tell, "folded", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "frames.py:<module>;frames.py:plain;frames.py:left;" in folded


OUTLIVE = """
import ctypes, threading, time
library = ctypes.CDLL(None)
def search():
    # Each comparison allocates, without the interpreter's lock, also when the interpreter is gone.
    count = ctypes.c_size_t(1 << 30)
    library.lfind(b"key", b"", ctypes.byref(count), ctypes.c_size_t(0), library._PyMem_RawStrdup)
for _ in range(3): threading.Thread(target=search, daemon=True).start()
time.sleep(0.1)
kept = [[str(i)] for i in range(100000)]
"""


def test_threads_outlive_the_interpreter(stage: Stage) -> None:
    """What a thread's state leads to is freed, and its memory given back, while the thread allocates."""
    limits = {"ARENASCOPE_PROFILE": "exact", "MALLOC_TRIM_THRESHOLD_": "0"}
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", OUTLIVE],
            env=stage.environment(**limits),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_c_frames_stand_between_them(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """A callback from C stands between the C functions that it calls, and those that call it. The loop is nowhere."""
    file = stage.folder / "truth"
    how, environment = command(release, str(file))
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    pid, _, _ = truth(file)
    for site in callbacks(profile(arenadump, pid)):
        names = {each["name"] for frame in site["stack"] for each in frame["functions"]}
        assert "_PyEval_EvalFrameDefault" not in names


def callbacks(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What functions that C calls have allocated: each stands between C's functions, and those that call them."""
    seen, sites = set(), []
    for site in answer["sites"]:
        python = of_python(site)
        name = python[0][0].rpartition(".")[2] if python else ""
        if name not in {"<lambda>", "__lt__"} or all(each[0] != "callbacks" for each in python):
            continue
        seen.add(name)
        sites.append(site)
        languages = [frame["language"] for frame in site["stack"]]
        first = languages.index("python")
        assert first >= 2, "bytearray's functions"
        assert languages[first : first + 3] == ["python", "native", "native"], "the callback, and the sort"
        assert "python" in languages[first + 3 :]
    assert seen == {"<lambda>", "__lt__"}
    return sites


def on_aarch64(stage: Stage, release: str, **variables: str) -> tuple[subprocess.Popen[bytes], interpreters.Python]:
    python = interpreters.python(release, "arm64")
    environment = {"PYTHONHOME": python.environment["PYTHONHOME"], **variables}
    return emulated.start(stage, python.command(PROGRAM, "truth"), **environment), python


@pytest.mark.nightly("emulation")
@pytest.mark.slow
@pytest.mark.parametrize("release", tiers.runtimes([each for each in RELEASES if each in interpreters.PYTHONS]))
def test_aarch64(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """There a return address is saved below a function's variables. The core has no names of C functions."""
    process, python = on_aarch64(stage, release, ARENASCOPE_PROFILE="exact,memory=64M")
    _, reused, stacks = truth(stage.folder / "truth")
    assert reused > 1, "no code object was made where one had died"
    assert stacks.total() > 1000
    with emulated.core(stage, process) as core:
        answer = profile(arenadump, core)
    assert answer["unknown_interpreters"] == []
    compare(answer, stacks)
    assert callbacks(answer)
    loop = emulated.function(Path(python.program[-1]), "_PyEval_EvalFrameDefault")
    modules = [range(int(each["start"], 16), int(each["end"], 16)) for each in answer["modules"]]
    (module,) = (at for at, each in enumerate(modules) if loop[0] in each)
    for site in answer["sites"]:
        if of_python(site):
            assert all(int(frame["offset"], 16) not in loop for frame in site["stack"] if frame["module"] == module)


@pytest.mark.parametrize("release", ["0x030b", "0x030c"])
def test_frames_that_are_not_what_they_say(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """No pointer is followed to where nothing is, and no frame is named that is none."""
    program = programs.build("forged_frames", f"-DRELEASE={release}", "-rdynamic")
    process = stage.start([str(program)], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    pid, good, blocks_made = map(int, process.stdout.readline().split())
    answer = profile(arenadump, pid)
    found = blocks(answer)
    frame = ("right", 7, "f.py")
    # Some of what is bad is not wrong: a name of one character, bytecode that is longer.
    assert found.keys() <= {(frame, frame), (("r", 7, "f.py"),) * 2, ()}, found
    assert found[frame, frame] >= good
    assert found[()] > blocks_made / 2
    assert found.total() == blocks_made
    assert answer["without_stack"]["count"] == 0


RUNS = """
import ctypes, time
slot = ctypes.c_size_t.from_address(ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "PyCode_Type")) + 48)
before, kept = slot.value, []
def grown():
    kept.append(bytearray(9001))
    eval("1 + 1")
while True:
    grown()
    time.sleep(0.001)
    if len(kept) % 100 == 0: print(slot.value == before, flush=True)
"""


def test_a_process_that_runs_is_left_as_it_was(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Twice: the variable that says when code objects die is set and put back."""
    process = stage.start([sys.executable, "-c", RUNS], LD_PRELOAD="")
    assert process.stdout
    assert process.stdout.readline() == b"True\n"
    dump = stage.folder / "recorded.dump"
    for _ in range(2):
        arenadump.check("profile", process.pid, "-o", dump, "--for", "1s", "--exact")
        assert any(stack[0][0] == "grown" and stack[1][0] == "<module>" for stack in blocks(profile(arenadump, dump)))
    os.set_blocking(process.stdout.fileno(), False)
    seen = process.stdout.read().split()
    assert b"False" in seen
    os.set_blocking(process.stdout.fileno(), True)
    assert process.stdout.readline() == b"True\n"  # the first one after the end
