# SPDX-License-Identifier: MIT
"""Profiles with hooks at the entries of libc's functions: what they see, what they leave, where they are refused."""

from __future__ import annotations

import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from profiles.test_profile import FUNCTIONS, by_stack, compare, truth
from profiles.test_profile_attach import go, is_clean, start
from tools import debian, harness, programs
from tools.profiling import Profiling, hooks_left, profile, profiling, recorded
from tools.stage import Stage, kill, until

from arenascope.wire.profile_json import profile_of, read_profile

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="entries are patched on x86-64 alone")
DENIED, UNSUPPORTED, GONE = 4, 5, 7
KILLS = int(os.environ.get("KILLS", "8"))  # `make kills`: 100
KINDS = ("", "_calloc", "_realloc", "_grown", "_small", "_valloc", "_pvalloc", "_posix")
POINTERS = {f"leaf_pointer{kind}" for kind in KINDS}
FUNCTIONS.update({*POINTERS, "leaf_line", "leaf_print"})
KIN = ("malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc")


def libc_code(pid: int) -> tuple[int, bytes, bytes]:
    """Where libc's code is, what is there, and what its file has."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and re.search(r"/libc(-2\.31)?\.so", words[5]) and "x" in words[1]:
            start, end = (int(word, 16) for word in words[0].split("-"))
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(start)
                there = memory.read(end - start)
            with Path(f"/proc/{pid}/map_files/{words[0]}").open("rb") as file:
                file.seek(int(words[2], 16))
                return start, there, file.read(end - start)
    raise AssertionError("no libc")


def changed(pid: int) -> list[int]:
    """The addresses of libc's code that differ from its file."""
    start, there, file = libc_code(pid)
    pages = (at for at in range(0, len(there), 4096) if there[at : at + 4096] != file[at : at + 4096])
    return [start + i for at in pages for i in range(at, min(at + 4096, len(there))) if there[i] != file[i]]


def is_as_before(pid: int) -> bool:
    return not changed(pid) and is_clean(pid)


def entries(pid: int) -> int:
    """How many functions have another first instruction."""
    starts: list[int] = []
    for address in changed(pid):
        if not starts or address > starts[-1] + 5:
            starts.append(address)
    return len(starts)


# --- What it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acts", [["calls", "thread"], ["small", "signal", "coroutine", "calls"]])
def test_each_chunk_since_has_its_stack(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, acts: list[str]
) -> None:
    """Those that were allocated through a copied pointer, too. What realloc and memalign call counts once."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "calls", "thread", "pointers", "wait", *acts), file)
    with profiling(arenadump, pid, dump, "--exact", "--entry"):
        assert entries(pid) in {7, 8, 9}  # aligned_alloc was memalign once; dlclose has been libdl's
        assert not hooks_left(pid), "a slot has a hook"
        go(file)
        truth(file)
    found = profile(arenadump, dump)
    assert found["hooks"] == "entries"
    assert found["every_page"]
    assert found["checked"] > 0
    assert found["wrong"] == 0
    assert found["without_stack"]["count"] == 0
    compare(found, sites, file)
    assert {stack[0] for stack in by_stack(found, sites)[0]} >= POINTERS
    assert is_as_before(pid)


def test_without_it_what_goes_through_pointers_is_not_seen(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    """All else is, callers inside libc among it: its own slots have hooks.

    A block of the same size as one that was recorded at its place counts as that one's: so there may be more of these.
    """
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "pointers", "wait", "calls", "thread"), file)
    with profiling(arenadump, pid, dump, "--exact"):
        assert not changed(pid)
        go(file)
        truth(file)
    found = profile(arenadump, dump)
    assert found["hooks"] == "slots"
    counts = truth(file)[1]
    seen = by_stack(found, sites)[0]
    bypassed = sum(count for stack, count in counts.items() if stack[0] in POINTERS)
    assert not {stack[0] for stack in seen} & POINTERS
    assert all(seen[stack] >= count for stack, count in counts.items() if stack[0] not in POINTERS)
    assert {stack[0] for stack in seen} >= {"leaf_string", "leaf_line", "leaf_print"}
    assert bypassed > 5000
    assert found["unseen"]["count"] > 1000


def test_what_is_allocated_altogether_counts_once(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    """Samples of realloc, memalign and posix_memalign that call malloc would otherwise count twice."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "nested", "wait", "many", "100000"), file)
    with profiling(arenadump, pid, dump, "--rates=pages=1,bytes=4K", "--entry"):
        go(file)
        truth(file)
    found = sum(site["allocated"]["bytes"] for site in profile(arenadump, dump)["sites"])
    # Some 30,000 samples: the error is about half a percent.
    assert 0.95 < found / int(file.read_text().split()[-1]) < 1.05


# --- The end ----------------------------------------------------------------------------------------------------------


@pytest.mark.nearest
@pytest.mark.parametrize("frozen", [False, True])
def test_an_inspector_that_is_killed_leaves_no_entries(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, *, frozen: bool
) -> None:
    """Or, while it is held, until another one ends the profile."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "calls", "pointers", "wait", "calls"), file)
    made = Profiling(arenadump, pid, dump, "--exact", "--entry")
    assert "records who allocates" in made.said, made.said + made.end()
    assert entries(pid) >= 7
    if frozen:
        made.process.send_signal(signal.SIGSTOP)
        arenadump.check("profile", pid, "--stop")
        assert is_as_before(pid)
    made.process.kill()
    made.end()
    until(lambda: is_as_before(pid), "the entries stay")
    with profiling(arenadump, pid, dump, "--exact", "--entry"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)


def guards(commander: int | None = None) -> set[int]:
    """The PIDs of all guards, or of this commander's. Those of other tests may end meanwhile."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, fields = each.joinpath("stat").read_bytes().rsplit(b")", 1)
            if name.endswith(b"(arenadump-guard") and commander in {None, int(fields.split()[1])}:
                found.add(int(each.name))
    return found


@pytest.mark.nearest
@pytest.mark.parametrize("then", ["stop", "slots", "entries"])
def test_when_its_guard_is_killed_too_the_next_one_mends_it(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, then: str
) -> None:
    """Calls pass through the hooks meanwhile."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "calls", "pointers", "wait", "calls", "thread"), file)
    made = Profiling(arenadump, pid, dump, "--exact", "--entry")
    assert "records who allocates" in made.said, made.said + made.end()
    (guard,) = guards(made.process.pid)
    kill(guard)
    made.process.kill()
    made.end()
    assert entries(pid) >= 7
    if then == "stop":
        go(file)
        truth(file)
        arenadump.check("profile", pid, "--stop")
    else:
        how = ["--entry"] if then == "entries" else []
        with profiling(arenadump, pid, dump, "--exact", *how):
            assert bool(changed(pid)) == (then == "entries")
            go(file)
            truth(file)
        if then == "entries":
            found = profile(arenadump, dump)
            assert (found["without_stack"]["count"], found["wrong"]) == (0, 0)
            compare(found, sites, file)
    assert is_as_before(pid)


def test_a_guard_that_is_killed_is_replaced(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "pointers", "wait", "calls"], file)
    with profiling(arenadump, pid, dump, "--exact", "--entry") as made:
        (guard,) = guards(made.process.pid)
        kill(guard)
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)
    assert is_as_before(pid)


@pytest.mark.nearest
def test_a_child_of_fork_passes_on_and_can_be_mended(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    acts = ["pointers", "wait", "calls", "fork", "calls", "thread"]
    pid = start(stage, libc.command(sites, str(file), *acts), file)
    with profiling(arenadump, pid, dump, "--exact", "--entry"):
        go(file)
        child, _, _ = truth(stage.folder / "truth.child")
        try:
            truth(file)
            assert entries(child) >= 7
            arenadump.check("profile", child, "--stop", "--timeout=120s")
            assert not changed(child)
            assert entries(pid) >= 7
        finally:
            kill(child)
    compare(profile(arenadump, dump), sites, file)
    assert is_as_before(pid)


def test_the_program_may_end_meanwhile(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    process = stage.start([str(sites), str(file), "wait", "calls"], LD_PRELOAD="")
    until(lambda: Path(f"{file}.waiting").exists(), "it does not wait")
    made = Profiling(arenadump, process.pid, stage.folder / "dump", "--entry")
    mine = guards(made.process.pid)
    assert mine
    process.kill()
    process.wait()
    made.process.communicate(timeout=60)
    assert made.process.returncode == GONE
    until(lambda: not mine & guards(), "a guard stays")


# --- While threads allocate -------------------------------------------------------------------------------------------


def storm(stage: Stage, libc: debian.Libc) -> subprocess.Popen[bytes]:
    process = stage.start(libc.command(programs.build_portable("attached"), "threads", "16"), LD_PRELOAD="")
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    return process


def is_well(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout
    assert process.poll() is None, process.stdout.read()
    process.terminate()
    assert process.wait(120) == 0, process.stdout.read()


@pytest.mark.slow
def test_on_and_off_in_a_storm(stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump) -> None:
    """Some times on each glibc."""
    process = storm(stage, libc)
    for _ in range(8):
        arenadump.check(
            "profile", process.pid, "-o", stage.folder / "dump", "--for=5ms", "--entry", "--timeout=120s", "--mode=live"
        )
        assert not changed(process.pid)
    is_well(process)


@pytest.mark.nearest
@pytest.mark.slow
def test_killed_at_random_times(stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump) -> None:
    """The commander alone, or its guard with it: whatever is left is mended by the next one, and nothing is harmed."""
    seed = int(os.environ.get("SEED", str(time.time_ns() % 100000)))
    chance = random.Random(seed)
    process = storm(stage, libc)
    arenadump.check("inject", process.pid, "--timeout=120s")
    command = [str(arenadump.path), "profile", str(process.pid), "-o", str(stage.folder / "dump"), "--entry"]
    for poll in range(KILLS):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as made:
            time.sleep(chance.uniform(0, 0.6))
            mine = guards(made.pid)
            made.kill()
            for guard in mine if poll % 2 else []:
                kill(guard)
        if poll % 2:
            arenadump.check("profile", process.pid, "--stop")
            assert not changed(process.pid), seed
        else:
            until(lambda: not changed(process.pid), f"the entries stay, seed {seed}")
    is_well(process)


# --- Refusals ---------------------------------------------------------------------------------------------------------


def symbol(pid: int, name: str) -> int:
    """The address of a function of libc's."""
    start, _, _ = libc_code(pid)
    line = next(x for x in Path(f"/proc/{pid}/maps").read_text().splitlines() if int(x.split("-")[0], 16) == start)
    path, offset = line.split(None, 5)[5], int(line.split()[2], 16)
    table = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    (value,) = {int(row.split()[1], 16) for row in table.splitlines() if re.search(rf" {name}@@", row)}
    headers = subprocess.run(["readelf", "-W", "-l", path], capture_output=True, text=True, check=True).stdout
    loads = re.findall(r"LOAD +0x(\w+) 0x(\w+)", headers)
    (bias,) = {start - int(address, 16) for at, address in loads if int(at, 16) == offset}
    return bias + value


def write(pid: int, address: int, code: bytes) -> None:
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(code)


FORGED = [  # a function, the offset behind its endbr64, what is written there, and what is said
    ("valloc", 0, b"\xcc", "not one of those that may be moved"),  # as a debugger's or a uprobe's
    ("pvalloc", 0, b"\xff\x25\x00\x00\x00\x00", "not one of those that may be moved"),  # another's detour
    ("memalign", 0, b"\xc5\xf8\x77", "is not known"),
    ("aligned_alloc", 0, b"\x55\xe8\x00\x00\x00\x00", "not one of those that may be moved"),
    ("posix_memalign", 0, b"\x90" * 20 + b"\xeb\xeb", "leads back into the bytes"),  # to the second one
    ("calloc", 250, b"\xe9\x03\xff\xff\xff", "other code of libc's leads into the bytes"),  # too far for a short jump
]


@pytest.mark.nearest
@pytest.mark.parametrize("forged", FORGED, ids=[name for name, _, _, _ in FORGED])
def test_what_cannot_be_moved(
    stage: Stage,
    libc: debian.Libc,
    sites: Path,
    arenadump: harness.Arenadump,
    forged: tuple[str, int, bytes, str],
) -> None:
    """A function is forged in a process that does not call it. Nothing is changed then, and slots can be used."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "wait"), file)
    arenadump.check("inject", pid, "--timeout=120s")  # which calls calloc
    name, at, code, why = forged
    function = symbol(pid, name)
    names = [each for each in KIN if symbol(pid, each) == function]  # aligned_alloc was memalign once
    base, there, _ = libc_code(pid)
    begin = 4 if there[function - base :].startswith(b"\xf3\x0f\x1e\xfa") else 0
    write(pid, function + begin + at, code)
    before = changed(pid)
    done = arenadump.run("profile", pid, "--for=1s", "-o", dump, "--entry", "--timeout=120s")
    assert (done.returncode, why in done.stderr) == (UNSUPPORTED, True), done.stderr
    assert any(f" {each} " in done.stderr for each in names), done.stderr
    assert "Nothing was changed" in done.stderr
    assert not dump.exists()
    assert changed(pid) == before
    assert is_clean(pid)
    assert recorded(arenadump, pid, dump, 0.1)["on"]


def test_a_thread_in_the_first_instructions_is_waited_for(
    stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump
) -> None:
    """It would go on in the middle of the jump: it is in a handler that has interrupted it there, until it is told."""
    # With the agent at work: nothing can be loaded into it while it is there.
    process = stage.start(libc.command(programs.build_portable("interrupted")), ARENASCOPE_TRIM="every=1h")
    assert process.stdout
    said = process.stdout.readline().split()
    assert said[0] == b"interrupted", said
    assert int(said[1], 16) > symbol(process.pid, "calloc")
    dump = stage.folder / "dump"
    done = arenadump.run("profile", process.pid, "--for=1s", "-o", dump, "--entry", "--timeout=120s")
    assert (done.returncode, "a signal handler" in done.stderr) == (DENIED, True), done.stderr
    assert not changed(process.pid)
    os.kill(process.pid, signal.SIGUSR2)  # the handler returns
    assert process.stdout.readline() == b"gone on\n"
    recorded(arenadump, process.pid, dump, 0.1, "--entry")
    assert not changed(process.pid)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


# --- Code that is marked for CET --------------------------------------------------------------------------------------


def test_code_that_is_marked_for_cet(stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump) -> None:
    """An entry keeps its endbr64."""
    program = programs.build_portable("sites", debian.NATIVE, "-fcf-protection")
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(program, str(file), "pointers", "wait", "calls", "thread"), file)
    with profiling(arenadump, pid, dump, "--exact", "--entry"):
        base, there, own = libc_code(pid)
        for name in KIN:
            at = symbol(pid, name) - base
            if own[at : at + 4] == b"\xf3\x0f\x1e\xfa":
                assert there[at : at + 4] == own[at : at + 4]
                assert there[at + 4] == 0xE9
            else:
                assert there[at] == 0xE9
        go(file)
        truth(file)
    compare(profile(arenadump, dump), program, file)
    assert is_as_before(pid)


# --- arenascope -------------------------------------------------------------------------------------------------------


def test_arenascope_records(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "pointers", "wait", "calls"], file)
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    command = [sys.executable, "-m", "arenascope", "profile", str(pid), "--exact", "--entry", "-o", str(dump)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert "records who allocates" in process.stderr.readline()
        go(file)
        truth(file)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    compare(profile(arenadump, dump), sites, file)
    assert is_as_before(pid)
    says_its_hooks(stage, arenadump, dump, "Hooks at the entries of malloc and its kin: calls")
    # The next profile is without: nothing of this one is left in its tables.
    slots = stage.folder / "slots"
    with profiling(arenadump, pid, slots, "--exact"):
        pass
    says_its_hooks(stage, arenadump, slots, "Hooks in slots: calls through pointers that")


def says_its_hooks(stage: Stage, arenadump: harness.Arenadump, dump: Path, said: str) -> None:
    """On every surface."""
    assert said.lower() in arenadump.check("sites", dump).lower()
    tell = [sys.executable, "-m", "arenascope"]
    environment = {**os.environ, "COLUMNS": "200", "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    top = [*tell, "profile", "top", str(dump)]
    assert said in subprocess.run(top, capture_output=True, text=True, check=True, env=environment).stdout
    page = stage.folder / "page.html"
    subprocess.run([*tell, "report", "-o", str(page), str(dump)], check=True, env=environment)
    assert said in page.read_text()
    assert any(said.lower() in comment.lower() for comment in profile_of(read_profile(str(dump))).comments)
