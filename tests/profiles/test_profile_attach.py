# SPDX-License-Identifier: MIT
"""The recorder in a process that runs already: begun, ended and taken out again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from profiles.test_profile import by_stack, compare, truth
from tools import debian, harness, odd, programs
from tools.profiling import Profiling, has_agent, hooks_left, libc_as_in_its_file, profile, profiling, recorded
from tools.stage import Stage, kill, until

NO_TARGET, DENIED, UNSUPPORTED, GONE, NO_MEMORY, NO_MALLOC = 3, 4, 5, 7, 9, 10
USAGE = 2


def go(file: Path) -> None:
    file.with_name(f"{file.name}.go").touch()


def waits(file: Path) -> None:
    until(file.with_name(f"{file.name}.waiting").exists, "it does not wait")


def start(stage: Stage, command: list[str], file: Path, **variables: str) -> int:
    """A program without the agent, once it waits."""
    pid = stage.start(command, **{"LD_PRELOAD": "", **variables}).pid
    waits(file)
    return pid


def is_clean(pid: int) -> bool:
    return not hooks_left(pid) and libc_as_in_its_file(pid)


# --- What it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acts", [["calls", "thread"], ["small", "signal", "coroutine", "calls"]])
def test_each_chunk_since_has_its_stack(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, acts: list[str]
) -> None:
    """Those of before the profile have none, although some lie where others were freed."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "calls", "thread", "wait", *acts), file)
    with profiling(arenadump, pid, dump, "--exact"):
        assert hooks_left(pid)
        go(file)
        truth(file)
    found = profile(arenadump, dump)
    assert found["every_page"]
    assert found["checked"] > 0
    assert found["wrong"] == 0
    assert found["without_stack"]["count"] == 0
    assert found["unseen"]["count"] > 4000  # of before
    compare(found, sites, file)
    assert is_clean(pid)


def test_again_and_again(stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump) -> None:
    """Each profile knows nothing of the one before, whatever room its tables have."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    acts = ["calls", "wait", "calls", "thread"]
    pid = start(stage, libc.command(sites, str(file), *acts), file)
    for memory in ("64M", "1G", "128M"):
        assert not recorded(arenadump, pid, dump, 0.2, f"--rates=exact,memory={memory}")["known"]["count"]
        assert is_clean(pid)
    with profiling(arenadump, pid, dump, "--rates=pages=1,bytes=64K"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)


def test_the_main_thread_is_recognised(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """Its stack is not where those of threads are: without its end each allocation would be unwound."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        truth(file)
    found = profile(arenadump, dump)
    assert found["checked"] >= 10  # of those that are recognised one in 1024
    compare(found, sites, file)


def test_a_preloaded_agent_records_when_asked(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "calls", "wait", "calls"], file, LD_PRELOAD=str(stage.agent))
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)


# --- The end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(stage: Stage, sites: Path, arenadump: harness.Arenadump, by: int) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    made = Profiling(arenadump, pid, dump)
    assert made.end(by) == ""
    assert made.process.returncode == 0
    assert is_clean(pid)
    assert profile(arenadump, dump)["on"]


@pytest.mark.parametrize("frozen", [False, True])
def test_an_inspector_that_is_killed_leaves_no_hooks(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, *, frozen: bool
) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "calls", "wait", "calls"), file)
    made = Profiling(arenadump, pid, dump, "--exact")
    if frozen:
        made.process.send_signal(signal.SIGSTOP)
        arenadump.check("profile", pid, "--stop")
    made.process.kill()
    made.end()
    until(lambda: is_clean(pid), "the hooks stay")
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)
    assert not list(stage.folder.glob("*.partial"))


def test_another_may_end_it(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    made = Profiling(arenadump, pid, stage.folder / "dump")
    done = arenadump.run("profile", pid, "--for=1s", "-o", stage.folder / "other")
    assert (done.returncode, "one is being made already" in done.stderr) == (DENIED, True)
    arenadump.check("profile", pid, "--stop")
    _, said = made.process.communicate(timeout=60)
    assert made.process.returncode == GONE
    assert "was ended before its time" in said
    assert not (stage.folder / "dump").exists()
    assert is_clean(pid)
    arenadump.check("profile", pid, "--stop")


def test_another_ends_it_as_it_begins(
    stage: Stage, sites: Path, arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the agent has begun it, and before arenadump has inspected its tables."""
    held, file = stage.folder / "held", stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    recorded(arenadump, pid, stage.folder / "first", 0.1)  # from now on the agent has the recorder's code
    monkeypatch.setenv("LD_PRELOAD", str(programs.build("holds_profile", "-shared", "-fPIC")))
    monkeypatch.setenv("HELD", str(held))
    command = [str(arenadump.path), "profile", str(pid), "-o", str(stage.folder / "dump"), "--rates=exact"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as begun:
        monkeypatch.undo()
        until(held.exists, "the agent did not begin", seconds=60)
        arenadump.check("profile", pid, "--stop")
        held.unlink()
        _, said = begun.communicate(timeout=120)
    assert "was ended before its time" in said
    assert begun.returncode == GONE
    assert is_clean(pid)


def test_what_is_preloaded_with_a_profile_can_be_stopped(
    stage: Stage, sites: Path, arenadump: harness.Arenadump
) -> None:
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait"], file, LD_PRELOAD=str(stage.agent), ARENASCOPE_PROFILE="exact")
    assert hooks_left(pid)
    arenadump.check("profile", pid, "--stop")
    assert is_clean(pid)


def test_a_child_of_fork_does_not_go_on(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    """Nobody would end it there. It can be recorded by itself."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(sites, str(file), "wait", "calls", "fork", "calls", "thread"), file)
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        child, _, _ = truth(stage.folder / "truth.child")
        try:
            truth(file)
            done = arenadump.run("sites", child)
            assert (done.returncode, "has no profile" in done.stderr) == (UNSUPPORTED, True)
            assert recorded(arenadump, child, stage.folder / "of-child", 0.2)["on"]
            assert is_clean(child)
        finally:
            kill(child)
    compare(profile(arenadump, dump), sites, file)


# --- Refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_refused(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait"], file)
    done = arenadump.run("profile", pid, "--for=1s", "-o", dump, "--rates=pages=3")
    assert (done.returncode, "'pages=3' is not a rate" in done.stderr) == (USAGE, True)
    for rates, flags in (("pages=8", ["--exact"]), ("exact,pages=8", []), ("pages=8,exact", [])):
        done = arenadump.run("profile", pid, "--for=1s", "-o", dump, f"--rates={rates}", *flags)
        assert (done.returncode, "exact is pages=1, and pages=8 is another rate" in done.stderr) == (USAGE, True)
    done = arenadump.run("profile", pid, "--for=1s", "-o", dump, "--rates=" + "exact," * 30)
    assert (done.returncode, "too long" in done.stderr) == (USAGE, True)
    assert not dump.exists()
    assert is_clean(pid)
    other = stage.start(["sleep", "100"], LD_PRELOAD="").pid
    odd.wait_for_sleep(other)
    assert arenadump.run("profile", other, "--stop").returncode == NO_TARGET
    assert not has_agent(other)


def test_a_process_without_room_for_the_tables(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """A limit of its address space: it is left as it was, and recorded with smaller tables."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    command = ["prlimit", f"--as={180 << 20}", str(sites), str(file), "wait", "calls"]
    pid = start(stage, command, file)
    done = arenadump.run("profile", pid, "--for=1s", "-o", dump)
    assert (done.returncode, "no memory for its tables" in done.stderr) == (NO_MEMORY, True), done
    assert not dump.exists()
    assert is_clean(pid)
    with profiling(arenadump, pid, dump, "--rates=exact,memory=64M"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)


def test_a_recorder_of_another_build_is_refused(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """One byte of the agent's code is another."""
    file, other = stage.folder / "truth", stage.folder / "libarenascope.so"
    pid = start(stage, [str(sites), str(file), "wait"], file)
    arenadump.check("inject", pid, "--timeout=120s")
    code = bytearray(stage.agent.read_bytes())
    code[0x8000] ^= 1
    other.write_bytes(code)
    environment = {**os.environ, "ARENASCOPE_LIBRARY": str(other)}
    done = arenadump.run("profile", pid, "--for=1s", "-o", stage.folder / "dump", env=environment)
    assert (done.returncode, "another build" in done.stderr) == (UNSUPPORTED, True), done.stderr
    assert is_clean(pid)


def test_a_static_program_is_refused(stage: Stage, arenadump: harness.Arenadump) -> None:
    program = programs.build("sites", "-static")
    file = stage.folder / "truth"
    pid = start(stage, [str(program), str(file), "wait"], file)
    done = arenadump.run("profile", pid, "--for=1s", "-o", stage.folder / "dump")
    assert done.returncode in {UNSUPPORTED, NO_MALLOC}
    assert "static" in done.stderr


# --- Programs of others -----------------------------------------------------------------------------------------------

PYTHON = """
import sys
def busy(kept=[]):
    kept[:] = [bytearray(1000 + i) for i in range(5000)]
while True:
    busy()
"""
RUBY = "def busy = 5000.times.map { |i| 'x' * (1000 + i) }\nloop { $kept = busy }"


@pytest.mark.parametrize(
    ("command", "function"),
    [
        ([sys.executable, "-c", PYTHON], r"PyByteArray"),
        (["ruby", "-e", RUBY], r"rb_str|str_"),
    ],
)
def test_interpreters(stage: Stage, arenadump: harness.Arenadump, command: list[str], function: str) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    process = stage.start(command, LD_PRELOAD="")
    until(lambda: int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) > 3000, "it does not start")
    dump = stage.folder / "dump"
    found = recorded(arenadump, process.pid, dump, 1, "--exact")
    assert found["known"]["bytes"] > 1 << 20
    names = {f["name"] for site in found["sites"] for frame in site["stack"] for f in frame["functions"] if f["name"]}
    assert not names or any(re.search(function, name) for name in names)  # without symbols there are none
    assert found["without_stack"]["count"] == 0
    assert found["wrong"] <= found["checked"] // 1000
    for view in ("top", "tree"):
        done = subprocess.run(
            [sys.executable, "-m", "arenascope", "profile", view, str(dump)],
            env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout
    assert is_clean(process.pid)
    assert process.poll() is None


def test_arenascope_records(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "calls", "wait", "calls"], file)
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    command = [sys.executable, "-m", "arenascope", "profile", str(pid), "--exact", "-o", str(dump)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert "records who allocates" in process.stderr.readline()
        go(file)
        truth(file)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert by_stack(profile(arenadump, dump), sites)[0]
    compare(profile(arenadump, dump), sites, file)
