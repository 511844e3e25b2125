# SPDX-License-Identifier: MIT
"""The recorder and odd processes: sandboxed, stopped, traced, in a container, with another malloc, about to die."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile import compare, truth
from profiles.test_profile_attach import DENIED, GONE, NO_MALLOC, UNSUPPORTED, go, is_clean, start, waits
from tools import debian, harness, odd, programs
from tools.injection import TRACER
from tools.profiling import Profiling, has_agent, hooks_left, profile, profiling, recorded
from tools.stage import Stage, threads, until


def refused(arenadump: harness.Arenadump, pid: int, code: int, says: str, folder: Path) -> None:
    """In words, and without a trace: nothing in the process, no file."""
    done = arenadump.run("profile", pid, "--for=1s", "-o", folder / "dump", "--timeout=2s")
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert not has_agent(pid)
    assert "arenascope" not in threads(pid)
    assert not list(folder.glob("dump*"))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("dump*"))


# --- Refused in words -------------------------------------------------------------------------------------------------


def test_a_recorder_of_another_build(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """Said at the beginning, not by a dump without a profile after an hour."""
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    other = {**os.environ, "LD_PRELOAD": str(programs.build("other_version", "-shared", "-fPIC"))}
    done = arenadump.run("profile", pid, "--for=20s", "-o", stage.folder / "dump", env=other)
    assert (done.returncode, "of another build" in done.stderr) == (UNSUPPORTED, True), done.stderr
    assert not files_in(stage.folder)
    until(lambda: not hooks_left(pid), "hooks are left")


@pytest.mark.parametrize("posture", ["filter", "sandbox"])
def test_a_seccomp_filter(stage: Stage, arenadump: harness.Arenadump, posture: str) -> None:
    with odd.running([str(odd.build("posing")), posture]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "under a seccomp filter", stage.folder)


def test_a_stopped_process(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """It can be recorded when it goes on."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    os.kill(pid, signal.SIGSTOP)
    odd.wait_for(lambda: odd.state(pid) == "T")
    refused(arenadump, pid, DENIED, f"kill -CONT {pid}", stage.folder)
    os.kill(pid, signal.SIGCONT)
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), sites, file)
    assert is_clean(pid)


def test_a_process_that_gdb_has(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """Refused while gdb stays, and recorded when it has gone."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait"], file)
    command = ["gdb", "-nx", "-q", "-p", str(pid), "-ex", "echo attached\\n"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    ) as gdb:
        try:
            odd.wait_for(lambda: odd.tracer(pid) == gdb.pid and odd.state(pid) == "t")
            refused(arenadump, pid, DENIED, f"traced by process {gdb.pid}", stage.folder)
            gdb.communicate("detach\nquit\n", timeout=60)
        finally:
            gdb.kill()
    assert recorded(arenadump, pid, stage.folder / "dump", 0.2, "--exact")["on"]
    assert is_clean(pid)


def test_a_program_of_musl(stage: Stage, arenadump: harness.Arenadump) -> None:
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    with odd.running([str(odd.build("alloc", compiler="musl-gcc"))]) as pid:
        refused(arenadump, pid, NO_MALLOC, "musl", stage.folder)


# --- redis-server -----------------------------------------------------------------------------------------------------


FILL = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for i in range(2000):
    s.sendall(b"SET key%d %s\\r\\n" % (i, b"x" * 900))
    s.recv(100)
"""


def redis(stage: Stage, **variables: str) -> int:
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    path = stage.folder / "socket"
    pid = stage.start(["redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""], **variables).pid
    until(path.exists, "redis does not start")
    return pid


def test_redis_with_its_own_malloc(stage: Stage, arenadump: harness.Arenadump) -> None:
    pid = redis(stage, LD_PRELOAD="")
    if "jemalloc" not in Path(f"/proc/{pid}/maps").read_text():
        pytest.skip("this redis-server is not linked with jemalloc")
    refused(arenadump, pid, NO_MALLOC, "jemalloc", stage.folder)


def test_redis_with_libcs_malloc(stage: Stage, arenadump: harness.Arenadump) -> None:
    pid = redis(stage, LD_PRELOAD="libc.so.6")
    made = Profiling(arenadump, pid, stage.folder / "dump", "--exact")
    assert "records who allocates" in made.said
    subprocess.run([sys.executable, "-c", FILL, str(stage.folder / "socket")], check=True, timeout=60)
    assert made.end() == ""
    found = profile(arenadump, stage.folder / "dump")
    assert found["known"]["count"] >= 2000
    assert found["known"]["bytes"] >= 2000 * 900
    assert found["without_stack"]["count"] == 0
    assert found["wrong"] <= found["checked"] // 1000
    assert is_clean(pid)


# --- Containers -------------------------------------------------------------------------------------------------------

CONTAINERS = {
    "root": [],
    "mounts": ["unshare", "--mount", "--pid", "--fork", "--kill-child"],
    "user": ["unshare", "--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child"],
    "pivoted": ["unshare", "--mount", "--pid", "--fork", "--kill-child"],
}
# As container runtimes do: the old root is gone, and the kernel tells names without the new one's.
PIVOT = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
root = sys.argv[1].encode()
def done(result):
    assert result == 0, os.strerror(ctypes.get_errno())
done(libc.mount(root, root, None, 4096 | 16384, None))
done(libc.mount(b"proc", root + b"/proc", b"proc", 0, None))
os.chdir(root)
done(libc.syscall({"x86_64": 155, "aarch64": 41}[platform.machine()], b".", b"."))
done(libc.umount2(b".", 2))
os.chdir("/")
os.execv(sys.argv[2], sys.argv[2:])
"""


@odd.needs_root
@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_with_its_own_libc(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, kind: str
) -> None:
    """Its root has nothing but the program, its libc and an empty /proc."""
    root, dump = stage.folder / "root", stage.folder / "dump"
    for folder in ("lib", "tmp", "proc"):
        (root / folder).mkdir(parents=True)
    for library in libc.directory.glob("*.so*"):
        shutil.copy(library, root / "lib" / library.name)
    shutil.copy(libc.loader, root / "lib/loader")
    shutil.copy(sites, root / sites.name)
    if kind == "user" and subprocess.run([*CONTAINERS[kind], "true"], capture_output=True, check=False).returncode != 0:
        pytest.xfail("this machine does not allow user namespaces")
    # Injection opens the agent by /proc/thread-self: a container without /proc has a libc that says so.
    inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    program = ["/lib/loader", "--library-path", "/lib", f"/{sites.name}", "/tmp/truth", "calls", "wait", "calls"]
    shell = [sys.executable, "-c", PIVOT] if kind == "pivoted" else ["sh", "-c", inside]
    command = [*CONTAINERS[kind], *shell, str(root), *program]
    file = root / "tmp/truth"
    outer = stage.start(command if kind != "root" else ["unshare", "--mount", *command], LD_PRELOAD="").pid
    waits(file)
    children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    pid = int(children[0]) if children else outer
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        until(lambda: file.exists() and "end " in file.read_text(), "no truth")
        live = profile(arenadump, pid)
    dumped = profile(arenadump, dump)
    compare(dumped, sites, file)
    # Its files are nowhere else; a dump's are found while the process runs.
    for each in (live, dumped):
        assert functions(each, sites.name) >= FUNCTIONS
    assert is_clean(pid)


FUNCTIONS = {"main", "calls", "leaf_posix"}


def functions(answer: dict[str, Any], module: str) -> set[str]:
    frames = [frame for site in answer["sites"] for frame in site["stack"]]
    own = [frame for frame in frames if frame["module"] is not None]
    inside = [frame for frame in own if answer["modules"][frame["module"]]["path"].endswith(module)]
    return {function["name"] for frame in inside for function in frame["functions"]}


# --- Code that is marked for CET --------------------------------------------------------------------------------------


def test_code_that_is_marked_for_indirect_branches(
    stage: Stage, libc: debian.Libc, arenadump: harness.Arenadump
) -> None:
    """Each function begins with endbr64, and calls go through two tables. Nobody asks for a shadow stack."""
    marked = programs.build_portable("sites", debian.NATIVE, "-fcf-protection=full", "-Wl,-z,ibtplt,-z,ibt,-z,shstk")
    notes = subprocess.run(["readelf", "-n", str(marked)], capture_output=True, text=True, check=True).stdout
    assert "IBT" in notes
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, libc.command(marked, str(file), "calls", "wait", "calls", "thread", "small", "signal"), file)
    with profiling(arenadump, pid, dump, "--exact"):
        go(file)
        truth(file)
    compare(profile(arenadump, dump), marked, file)
    assert is_clean(pid)


# --- The end of the process -------------------------------------------------------------------------------------------


def test_it_is_killed_meanwhile(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait"], file)
    made = Profiling(arenadump, pid, stage.folder / "dump", "--exact")
    os.kill(pid, signal.SIGKILL)
    _, said = made.process.communicate(timeout=60)
    assert (made.process.returncode, "no dump was written" in said) == (GONE, True), said
    assert files_in(stage.folder) == []


@pytest.mark.parametrize("delay", [0, 0.005, 0.02, 0.05, 0.1])
def test_it_is_killed_while_it_is_attached_to(
    stage: Stage, sites: Path, arenadump: harness.Arenadump, delay: float
) -> None:
    """Wherever this comes: words, an exit code, and no file."""
    file = stage.folder / "truth"
    pid = start(stage, [str(sites), str(file), "wait"], file)
    command = [str(arenadump.path), "profile", str(pid), "-o", str(stage.folder / "dump"), "--for=60s", "--exact"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert process.returncode in {3, DENIED, UNSUPPORTED, GONE, NO_MALLOC}, said
    assert re.match(r"arenadump: \S", said), said
    assert files_in(stage.folder) == []


def test_it_is_stopped_meanwhile(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """The hooks go when it goes on; its dump is there."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    made = Profiling(arenadump, pid, dump, "--exact")
    go(file)
    truth(file)
    os.kill(pid, signal.SIGSTOP)
    made.process.send_signal(signal.SIGINT)
    until(dump.exists, "no dump of a stopped process")
    os.kill(pid, signal.SIGCONT)
    _, said = made.process.communicate(timeout=60)
    assert (made.process.returncode, said) == (0, "")
    compare(profile(arenadump, dump), sites, file)
    assert is_clean(pid)


def test_a_tracer_comes_meanwhile(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """What cannot be frozen is not written, which is said, and the hooks go."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    pid = start(stage, [str(sites), str(file), "wait", "calls"], file)
    made = Profiling(arenadump, pid, dump, "--exact")
    tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE)
    try:
        odd.wait_for(lambda: odd.tracer(pid) != 0)
        go(file)
        truth(file)
        said = made.end()
        if made.process.returncode == 0:  # it was inspected in another way
            compare(profile(arenadump, dump), sites, file)
        else:
            assert (made.process.returncode, "traced by" in said) == (DENIED, True), said
            assert files_in(stage.folder) == []
        until(lambda: not hooks_left(pid), "the hooks stay")
    finally:
        tracer.communicate()
    assert is_clean(pid)


EXEC = """
import os, time
open("up", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
os.execv("/bin/sleep", ["sleep", "100"])
"""


def test_it_executes_another_program_meanwhile(stage: Stage, arenadump: harness.Arenadump) -> None:
    """The other program has nothing of it, and the profile ends in words."""
    pid = stage.start([sys.executable, "-c", EXEC], LD_PRELOAD="").pid
    until((stage.folder / "up").exists, "it does not start")
    made = Profiling(arenadump, pid, stage.folder / "dump", "--exact")
    assert "records who allocates" in made.said
    stage.go()
    _, said = made.process.communicate(timeout=60)
    assert (made.process.returncode, "no dump was written" in said) == (GONE, True), said
    assert files_in(stage.folder) == []
    until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "it executes nothing")
    assert not has_agent(pid)
    assert odd.tracer(pid) == 0
