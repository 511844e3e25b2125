# SPDX-License-Identifier: MIT
"""Processes under the rules that services have: they are recorded like others, or it is said why not."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import socket
import subprocess
from pathlib import Path

import pytest
from profiles.test_profile import compare, truth
from profiles.test_profile_attach import go, start, waits
from tools import debian, harness, programs
from tools.control import RECORDER_ROOM, ask, control_socket
from tools.odd import needs_root
from tools.profiling import hooks_left, libc_as_in_its_file, profile, profiling
from tools.stage import Stage

DENIED, UNSUPPORTED = 4, 5
NO_RULE = 77


@pytest.fixture(params=["kernel", "filter"])
def hardened(request: pytest.FixtureRequest) -> list[str]:
    """What begins a command of a process that may not make memory executable."""
    command = [str(programs.build("hardened")), request.param]
    if subprocess.run([*command, "true"], check=False).returncode == NO_RULE:
        pytest.skip("the kernel has no such rule (Linux 6.3)")
    return command


def force(hardened: list[str]) -> list[str]:
    """What is needed for a process under a seccomp filter."""
    if hardened[1] == "filter" and os.geteuid() != 0:
        pytest.skip("to load the agent under a seccomp filter needs root")
    return ["--force"] if hardened[1] == "filter" else []


def is_program(executable: Path, program: Path, file: Path) -> bool:
    """Whether a process, by its /proc/PID/exe, runs this program with this file."""
    try:
        return executable.resolve() == program.resolve() and str(file) in (executable.parent / "cmdline").read_text()
    except OSError:
        return False


def maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def is_code(pid: int, address: str) -> bool:
    """Whether a mapping that begins there is executable."""
    return any(line.startswith(f"{address}-") and " r-xp " in line for line in maps(pid).splitlines())


def no_tracer_may_write_to_code() -> bool:
    """Whether the kernel forbids it, to a process itself, too: then its code cannot be loaded in any way."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(page)
        try:
            return memory.write(b"x") == 0
        except OSError:
            return True


def check(stage: Stage, sites: Path, arenadump: harness.Arenadump, pid: int, *options: str) -> None:
    """The profile knows each call stack since, and leaves no hook."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    with profiling(arenadump, pid, dump, "--exact", *options):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)
    assert libc_as_in_its_file(pid)
    # The loader keeps addresses of its own of a library that was preloaded, on aarch64 in its own data.
    assert "memfd:arenascope-agent" not in maps(pid) or not hooks_left(pid)


def test_a_running_process(stage: Stage, sites: Path, arenadump: harness.Arenadump, hardened: list[str]) -> None:
    """The agent is injected, and the recorder's code is written where no code was."""
    file = stage.folder / "truth"
    pid = start(stage, [*hardened, str(sites), str(file), "wait", "calls", "thread"], file)
    if no_tracer_may_write_to_code():
        done = arenadump.run("profile", pid, *force(hardened), "--for=1s", "-o", stage.folder / "none")
        assert (done.returncode, "may not be run where it was written" in done.stderr) == (DENIED, True), done
        return
    check(stage, sites, arenadump, pid, *force(hardened))


def test_a_preloaded_agent(stage: Stage, sites: Path, arenadump: harness.Arenadump, hardened: list[str]) -> None:
    file = stage.folder / "truth"
    command = [*hardened, str(sites), str(file), "wait", "calls", "thread"]
    pid = start(stage, command, file, LD_PRELOAD=str(stage.agent))
    check(stage, sites, arenadump, pid, *force(hardened))


@needs_root
def test_no_sockets(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """The agent cannot be asked for anything, and arenadump says why. The process runs on."""
    file = stage.folder / "truth"
    pid = start(stage, [str(programs.build("hardened")), "sockets", str(sites), str(file), "wait", "calls"], file)
    for command in (["profile", "--for=1s", "-o", stage.folder / "none"], ["trim"]):
        done = arenadump.run(*command, "--force", pid)
        assert (done.returncode, "RestrictAddressFamilies" in done.stderr) == (UNSUPPORTED, True), done
    go(file)
    truth(file)


@needs_root
def test_no_prctl(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """The agent's thread, by whose name it is found, has its name nevertheless."""
    file = stage.folder / "truth"
    command = [str(programs.build("hardened")), "prctl", str(sites), str(file), "wait", "calls", "thread"]
    check(stage, sites, arenadump, start(stage, command, file), "--force")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="entries are patched on x86-64 alone")
def test_hooks_at_entries_are_refused_in_words(
    stage: Stage, sites: Path, arenadump: harness.Arenadump, hardened: list[str]
) -> None:
    """They need a page of code that did not exist. What is recorded afterwards, by slots, is complete."""
    file = stage.folder / "truth"
    pid = start(stage, [*hardened, str(sites), str(file), "wait", "calls", "thread"], file)
    options = force(hardened)
    if no_tracer_may_write_to_code():
        pytest.skip("the kernel lets no tracer write to code (proc_mem.force_override)")
    done = arenadump.run("profile", pid, "--entry", *options, "--for=1s", "-o", stage.folder / "none")
    assert (done.returncode, "MemoryDenyWriteExecute" in done.stderr) == (UNSUPPORTED, True), done
    assert not (stage.folder / "none").exists()
    check(stage, sites, arenadump, pid, *options)


def test_where_no_tracer_may_write_to_code(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """With proc_mem.force_override=never: the agent makes the room writable when asked, and it is code afterwards."""
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait", "calls", "thread"], file)
    arenadump.check("inject", pid)
    (room,) = re.findall(r"^(\w+)-\w+ r-xp 00000000 00:00 0 *$", maps(pid), re.MULTILINE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(control_socket(pid))
        for _ in range(2):
            assert ask(client, RECORDER_ROOM) == 0
            assert not is_code(pid, room)
    check(stage, sites, arenadump, pid)
    assert is_code(pid, room)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(control_socket(pid))
        assert ask(client, RECORDER_ROOM) == 0  # the code is there: nothing to do
    assert is_code(pid, room)


@needs_root
def test_libcs_table_of_symbols_cannot_be_written(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """As on aarch64, where it lies with code. Slots that the loader has not bound have their hooks nevertheless."""
    file = stage.folder / "truth"
    # The program is under the same libc as this one.
    found = re.search(r"^(\w+)-(\w+) r--p 00000000 .*libc\.so\.6$", maps(os.getpid()), re.MULTILINE)
    if not found:
        pytest.skip("the table lies with code here, too")
    rule = f"table={int(found[2], 16) - int(found[1], 16)}"
    command = [str(programs.build("hardened")), rule, str(sites), str(file), "wait", "calls", "thread"]
    pid = start(stage, command, file, LD_BIND_NOW="")
    check(stage, sites, arenadump, pid, "--force")


@needs_root
def test_no_memfd_may_be_executable(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """The strictest of the kernel's rules for them (vm.memfd_noexec=2, since Linux 6.3), in a namespace of its own."""
    if not Path("/proc/sys/vm/memfd_noexec").exists():
        pytest.skip("the kernel has no such rule (Linux 6.3)")
    file = stage.folder / "truth"
    rule = 'mount -t proc proc /proc && echo 2 > /proc/sys/vm/memfd_noexec && umount /proc && exec "$@"'
    command = ["unshare", "--pid", "--fork", "--mount", "--kill-child", "sh", "-c", rule, "sh"]
    stage.start([*command, str(sites), str(file), "wait", "calls", "thread"], LD_PRELOAD="")
    waits(file)
    (pid,) = (int(path.parent.name) for path in Path("/proc").glob("[0-9]*/exe") if is_program(path, sites, file))
    check(stage, sites, arenadump, pid)


SANDBOXED: dict[str, dict[str, str]] = {
    "off": {},
    "default": {"ARENASCOPE_PROFILE": "1"},
    "exact": {"ARENASCOPE_PROFILE": "exact"},
}


def build_id(library: Path) -> str:
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    return notes.split("Build ID: ")[1].split()[0]


@pytest.mark.parametrize("who", ["thread", "process"])
@pytest.mark.parametrize("how", SANDBOXED)
def test_a_process_that_goes_into_a_sandbox(stage: Stage, who: str, how: str) -> None:
    """Its filter ends it for a call that malloc, libc's threads and the loader do not need: the agent makes none."""
    library = programs.build_portable("allocates", debian.NATIVE, "-shared", "-fPIC", "-DROOM=64")
    command = [str(programs.build("sandboxed")), who, str(library)]
    cache = stage.folder / "cache"
    cache.mkdir()
    plain = subprocess.run(command, check=False, env={**os.environ, "LD_PRELOAD": ""}, timeout=60)
    assert plain.returncode == 0
    process = stage.start(command, XDG_CACHE_HOME=str(cache), **SANDBOXED[how])
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    tables = {path.name.split(".")[0] for path in cache.glob("arenascope/*.unwind*")}
    assert bool(tables) == (how != "off"), "what was loaded before the filter"
    assert build_id(library) not in tables


def test_a_filter_that_was_there_is_no_reason_to_do_without_the_cache(stage: Stage) -> None:
    """All processes of a container are under one."""
    cache = stage.folder / "cache"
    cache.mkdir()
    preloaded = ["env", f"LD_PRELOAD={stage.agent}", "ARENASCOPE_PROFILE=exact", f"XDG_CACHE_HOME={cache}"]
    command = [str(programs.build("hardened")), "prctl", *preloaded, "sort", os.devnull]
    process = stage.start(command, LD_PRELOAD="")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert list(cache.glob("arenascope/*.unwind*"))
