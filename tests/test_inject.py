# SPDX-License-Identifier: MIT
"""The agent carried into processes that run: what does it, what is refused, and what is left as it was."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import soak
import soak_inject
from tools import debian, harness, odd, programs

DENIED, UNSUPPORTED, NO_MALLOC, BAD_INPUT = 4, 5, 10, 6
CAP_SYS_PTRACE = 19
SCRIPT = harness.ROOT / "visualize" / "arenascope" / "arenascope.gdb"


def inject(arenadump: harness.Arenadump, pid: int, *options: str, **how: Any) -> dict[str, Any]:
    # How long dlopen takes on a slow machine, or an emulated one, is not what is tested.
    done = arenadump.run(
        "inject", "--json", *(() if "--timeout" in options else ("--timeout", "120s")), *options, pid, **how
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def refused(arenadump: harness.Arenadump, pid: int, code: int, words: str, *options: str) -> None:
    """An injection is refused for that reason, and nothing has been loaded."""
    done = arenadump.run("inject", *options, pid)
    assert done.returncode == code, done
    assert words in done.stderr, done.stderr
    assert not loaded(pid)


def loaded(pid: int) -> int:
    """How many copies of the agent are mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return len(re.findall(r"r-xp .*(?:memfd:arenascope-agent|libarenascope\.so)", maps))


def threads(pid: int) -> list[str]:
    """Their names, without what tells one build of a program from another."""
    names = (comm.read_text().strip() for comm in Path(f"/proc/{pid}/task").glob("*/comm"))
    return sorted(name.partition("-")[0] for name in names)


def descriptors(pid: int) -> list[str]:
    return sorted(str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def selfcheck(*command: str, **environment: str) -> Iterator[int]:
    """A program that checks itself; unharmed in the end, and able to end."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        out, _ = process.communicate("quit\n", timeout=60)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def test_every_libc(arenadump: harness.Arenadump, libc: debian.Libc) -> None:
    program = programs.build_portable("selfcheck")
    with selfcheck(*libc.command(program, "storm=2", "waits=1", "lives=1", "spins=1")) as pid:
        assert inject(arenadump, pid)["how"] == "loaded"
        assert inject(arenadump, pid)["how"] == "present"
        assert loaded(pid) == 1
        forecast = json.loads(arenadump.check("trim", "--forecast", "--json", pid))
        assert forecast["trimmed"] is False
        assert forecast["agent_version"] is None
        assert forecast["returned"] is None
        trim = json.loads(arenadump.check("trim", "--deep", "--max-hold", "5ms", "--json", pid))
        assert trim["returned"] == sum(arena["returned"] for arena in trim["arenas"])
        assert trim["injected"] is False


def under(libc: debian.Libc, *options: str) -> list[str]:
    """The program that checks itself, with whatever libc loads of its own accord."""
    program = programs.build_portable("selfcheck")
    return [str(libc.loader), "--library-path", f"{libc.directory}:{debian.libgcc()}", str(program), *options]


def test_setuid_meanwhile(arenadump: harness.Arenadump, libc: debian.Libc) -> None:
    """It waits for every thread to handle a signal, with a lock held that dlopen needs."""
    for _ in range(3):
        with selfcheck(*under(libc, "setxid=1", "threads=1")) as pid:
            # Each signal costs the call seven stops, and they come in bursts.
            assert inject(arenadump, pid, "--timeout", "120s")["how"] == "loaded"
            assert json.loads(arenadump.check("trim", "--deep", "--json", pid))["injected"] is False


@pytest.mark.parametrize("protocol", ["plugins", "cancels", "clocks", "rseqs", "kernels", "spawns"])
def test_other_protocols_meanwhile(arenadump: harness.Arenadump, libc: debian.Libc, protocol: str) -> None:
    """Through a thread that takes part in them, if that comes first: see docs/injection.md."""
    for _ in range(3):
        with selfcheck(*under(libc, "shy=1", f"{protocol}=1"), SELFCHECK_PLUGIN=str(plugin())) as pid:
            assert inject(arenadump, pid, "--timeout", "120s")["how"] == "loaded"


def plugin() -> Path:
    return programs.build_portable("plugin", "amd64", "-shared", "-fPIC")


def test_the_only_thread_waits_in_setuid(arenadump: harness.Arenadump) -> None:
    """It holds the lock itself, for as long as another thread does not answer."""
    with odd.running([str(odd.build("posing", "-pthread")), "setuid"]) as pid:
        refused(arenadump, pid, DENIED, "it waits in setuid", "--timeout", "1s")
        os.kill(pid, signal.SIGUSR1)
        assert inject(arenadump, pid)["how"] == "loaded"


def test_a_child_of_vfork(arenadump: harness.Arenadump) -> None:
    """It runs in its parent's memory: what is started in it is the parent's, and it would wait for ever."""
    with odd.running([str(odd.build("posing", "-pthread")), "setuid"]) as pid:
        children = {
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        }
        assert len(children) == 1
        refused(arenadump, children.pop(), DENIED, f"in the memory of its parent, process {pid} (vfork)")
        os.kill(pid, signal.SIGUSR1)
        assert inject(arenadump, pid)["how"] == "loaded"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file capabilities")
def test_the_environment_of_who_borrows_rights_is_not_heeded(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """An arenadump that may look at any process must not load there what its user names."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    copy = tmp_path / "arenadump"
    shutil.copy(arenadump.path, copy)
    os.setxattr(copy, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << CAP_SYS_PTRACE, 0, 0, 0))
    environment = {**os.environ, "ARENASCOPE_LIBRARY": "/tmp/of-my-own.so"}
    with subprocess.Popen(["sleep", "60"], user=65534) as target:
        command = [str(copy), "inject", str(target.pid)]
        done = subprocess.run(command, user=65534, env=environment, capture_output=True, text=True, check=False)
        target.kill()
        assert "/tmp/of-my-own.so" not in done.stderr
        assert "was not found beside arenadump" in done.stderr, done.stderr


def test_it_leaves_a_thread_and_a_library(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        before = descriptors(pid)
        mappings = Path(f"/proc/{pid}/maps").read_text().count("\n")
        facts = inject(arenadump, pid)
        assert facts["thread"] == pid
        assert facts["where"] == f"waiting in system call {odd.READ}"
        assert descriptors(pid) == before, "descriptors are left"
        assert threads(pid) == ["arenascope", "posing"]
        # The library's four to six, the thread's stack and its guard; an arena at most.
        assert Path(f"/proc/{pid}/maps").read_text().count("\n") - mappings <= 12
        assert odd.state(pid) == "S"
        assert odd.tracer(pid) == 0


def test_a_forecast_loads_nothing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        forecast = json.loads(arenadump.check("trim", "--forecast", "--deep", "--json", pid))
        assert forecast["pid"] == pid
        assert forecast["forecast"] == arenadump.summary(pid)["forecast"]["deep_trim"]
        assert not loaded(pid)
        dump = tmp_path / "dump"
        arenadump.check("dump", pid, "-o", dump)
        assert json.loads(arenadump.check("trim", "--forecast", "--deep", "--json", dump)) == forecast
        done = arenadump.run("trim", "--forecast", "--arena", "0x1230", pid)
        assert done.returncode == 2
        assert "there is no arena at 0x1230" in done.stderr


def test_trim_injects(arenadump: harness.Arenadump) -> None:
    with odd.running([str(programs.build("causes", "-lpthread")), "free-pages"]) as pid:
        assert json.loads(arenadump.check("trim", "--json", pid))["injected"] is True
        assert "returned" in arenadump.check("trim", pid)
        watched = json.loads(arenadump.check("trim", "--deep", "--watch", "100ms", "--json", pid))
        assert watched["watched_ms"] == 100
        assert watched["faulted_back"] == 0, "it stands still"
        assert watched["minor_faults"] < 100
        done = arenadump.run("trim", "--forecast", "--watch", "1s", pid)
        assert done.returncode == 2


def test_the_only_thread_spins(arenadump: harness.Arenadump) -> None:
    """Nothing that only the thread itself can know has changed: errno, how it rounds."""
    process = subprocess.Popen([odd.build("posing"), "spins"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        process.stdout.readline()
        assert inject(arenadump, process.pid)["where"].startswith("running in posing")
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def test_the_only_thread_stays_in_libc(arenadump: harness.Arenadump) -> None:
    """It is met where it comes back to its own code for an instant."""
    process = subprocess.Popen([odd.build("posing"), "libc"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        process.stdout.readline()
        assert inject(arenadump, process.pid)["where"].startswith("running in posing")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def test_preloaded_and_asleep(arenadump: harness.Arenadump, agent: Path) -> None:
    with odd.running([str(odd.build("posing")), "idle"], LD_PRELOAD=str(agent)) as pid:
        assert threads(pid) == ["posing"]
        assert inject(arenadump, pid)["how"] == "woken"
        assert loaded(pid) == 1
        assert inject(arenadump, pid)["how"] == "present"


def test_several_at_once(arenadump: harness.Arenadump) -> None:
    """One loads it; the others find it there."""
    with odd.running([str(odd.build("posing")), "idle"]) as pid, ThreadPoolExecutor(6) as pool:
        facts = list(pool.map(lambda _: inject(arenadump, pid), range(6)))
        assert [fact["how"] for fact in facts].count("loaded") == 1
        assert {fact["how"] for fact in facts} <= {"loaded", "present", "woken"}
        assert loaded(pid) == 1
        assert threads(pid) == ["arenascope", "posing"]


def test_in_a_signal_handler(arenadump: harness.Arenadump) -> None:
    """The signal has interrupted a system call, and so nothing that holds a lock."""
    with odd.running([str(odd.build("posing")), "handler"]) as pid:
        assert inject(arenadump, pid)["how"] == "loaded"


def test_the_loader_is_busy(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "loader"]) as pid:
        refused(arenadump, pid, DENIED, "holds the loader's lock", "--timeout", "300ms")
        assert odd.tracer(pid) == 0


def test_a_stopped_process(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        os.kill(pid, signal.SIGSTOP)
        odd.wait_for(lambda: odd.state(pid) == "T")
        refused(arenadump, pid, DENIED, f"kill -CONT {pid}")
        os.kill(pid, signal.SIGCONT)
        assert inject(arenadump, pid)["how"] == "loaded"


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0  # PTRACE_SEIZE
sys.stdin.read()
"""


def test_a_traced_process(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE)
        try:
            odd.wait_for(lambda: odd.tracer(pid) != 0)
            refused(arenadump, pid, DENIED, f"traced by process {tracer.pid}")
        finally:
            tracer.communicate()


def test_a_seccomp_filter(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "filter"]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "--force")
        if os.geteuid() == 0:
            assert inject(arenadump, pid, "--force")["how"] == "loaded"


@odd.needs_root
def test_a_seccomp_filter_stays(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What the target's own code does while it is called for us, it does under its filter."""
    meddler, escaped = odd.build("meddler", "-shared", "-fPIC", "-ldl"), tmp_path / "escaped"
    command = [str(odd.build("posing")), "sandbox"]
    with odd.running(command, LD_PRELOAD=str(meddler), MEDDLER_ESCAPED=str(escaped)) as pid:
        assert inject(arenadump, pid, "--force")["how"] == "loaded"
        assert not escaped.exists()


def test_a_static_program(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing", "-static")), "idle"]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "a static program?")


def test_another_libc(arenadump: harness.Arenadump) -> None:
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    with odd.running([str(odd.build("alloc", compiler="musl-gcc"))]) as pid:
        refused(arenadump, pid, NO_MALLOC, "musl")


@odd.needs_root
def test_a_setuid_program(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = tmp_path / "posing"
    shutil.copy(odd.build("posing"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    with odd.running([str(program), "idle"]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "other rights")


@odd.needs_root
@pytest.mark.parametrize("kinds", [["--net"], ["--pid", "--fork", "--kill-child", "--mount-proc"]], ids=["net", "pid"])
def test_another_namespace(arenadump: harness.Arenadump, kinds: list[str]) -> None:
    with odd.running(["unshare", *kinds, str(odd.build("posing")), "idle"]) as outer:
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        pid = int(children[0]) if children else outer
        assert inject(arenadump, pid)["how"] == "loaded"
        assert inject(arenadump, pid)["how"] == "present"


@odd.needs_root
def test_no_proc(arenadump: harness.Arenadump) -> None:
    """What dlopen says, we say."""
    program = odd.build("posing")
    with odd.running(["unshare", "--mount", "sh", "-c", f"umount -l /proc && exec {program} idle"]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "dlopen failed")
        assert descriptors(pid)[0].startswith("/dev/null")


def test_another_library(arenadump: harness.Arenadump, libc_library: Path) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("inject", pid, env={**os.environ, "ARENASCOPE_LIBRARY": str(libc_library)})
        assert done.returncode == BAD_INPUT
        assert "is not the agent's library" in done.stderr


@pytest.fixture
def libc_library() -> Path:
    maps = Path("/proc/self/maps").read_text()
    return Path(re.findall(r"/\S*/libc[.-]\S*", maps)[0])


def test_a_call_that_takes_long(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The watchdog says so; the thread is let finish, and put back."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), tmp_path / "go"
    with odd.running([str(odd.build("posing")), "idle"], LD_AUDIT=str(audit), SLOW_AUDIT_UNTIL=str(until)) as pid:
        done = arenadump.run("inject", "--timeout", "500ms", pid)
        assert done.returncode == DENIED
        assert "has been in dlopen for 500 ms" in done.stderr
        assert odd.tracer(pid) != 0
        done = arenadump.run("inject", "--timeout", "200ms", pid)
        assert done.returncode == DENIED
        assert "another arenadump is loading the library" in done.stderr
        until.touch()
        odd.wait_for(lambda: odd.tracer(pid) == 0)
        odd.wait_for(lambda: odd.state(pid) == "S")
        # The agent's thread may not have opened its door yet; it is asked to once more then.
        assert inject(arenadump, pid)["how"] in ("present", "woken")
        assert loaded(pid) == 1


@contextmanager
def in_the_middle(
    arenadump: harness.Arenadump, folder: Path, what: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process of which one thread is in our dlopen, until the file is made, and another does something else now."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), folder / "go"
    environment = {**os.environ, "LD_AUDIT": str(audit), "SLOW_AUDIT_UNTIL": str(until)}
    command = [str(odd.build("posing", "-pthread")), what]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            odd.wait_for(lambda: odd.state(process.pid) == "S")
            done = arenadump.run("inject", "--timeout", "500ms", process.pid)
            assert done.returncode == DENIED
            assert "has been in dlopen for 500 ms" in done.stderr
            # Its first thread waits in a call for which others are taken first.
            assert f"thread {process.pid} " not in done.stderr
            process.send_signal(signal.SIGUSR1)
            yield process, until
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def carriers(arenadump: harness.Arenadump) -> list[str]:
    return soak.lookers(arenadump)


def test_it_is_cancelled_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The thread ends when it is its own again, with its clean-up handlers, and without the loader's lock."""
    with in_the_middle(arenadump, tmp_path, "cancel") as (process, until):
        time.sleep(0.3)
        assert carriers(arenadump), "it is not in dlopen any more"
        until.touch()
        assert line(process) == "cancelled\n"
        assert process.wait(timeout=60) == 0


def test_another_thread_execs_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with in_the_middle(arenadump, tmp_path, "exec") as (process, _):
        odd.wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n")
        out, _ = process.communicate("still here\n", timeout=60)
        assert out == "still here\n"
        assert process.returncode == 0
    odd.wait_for(lambda: not carriers(arenadump))


def test_the_process_exits_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """exit() waits for the loader's lock, as it does for anybody's dlopen."""
    with in_the_middle(arenadump, tmp_path, "exit") as (process, until):
        time.sleep(0.3)
        assert process.poll() is None
        until.touch()
        assert process.wait(timeout=60) == 7
    odd.wait_for(lambda: not carriers(arenadump))


def test_the_process_leaves_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with in_the_middle(arenadump, tmp_path, "leave") as (process, _):
        assert process.wait(timeout=60) == 7
    odd.wait_for(lambda: not carriers(arenadump))


def test_another_thread_forks_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """fork() does not wait for us, and the child has a malloc and a loader that work."""
    with in_the_middle(arenadump, tmp_path, "fork") as (process, until):
        assert line(process) == "forked\n"
        until.touch()
        odd.wait_for(lambda: not carriers(arenadump))
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")


def test_who_holds_a_robust_mutex_is_killed_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The kernel finds the thread's list of them, and gives the mutex to the next."""
    with in_the_middle(arenadump, tmp_path, "rob") as (process, _):
        assert line(process) == "inherited\n"


def test_the_process_is_stopped_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """By SIGSTOP: it stays stopped when the injection is over, and goes on when it is told to."""
    with in_the_middle(arenadump, tmp_path, "fork") as (process, until):
        assert line(process) == "forked\n"
        process.send_signal(signal.SIGSTOP)
        until.touch()
        odd.wait_for(lambda: not carriers(arenadump), 60)
        odd.wait_for(lambda: all(state(task) == "T" for task in Path(f"/proc/{process.pid}/task").iterdir()))
        process.send_signal(signal.SIGCONT)
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")
        process.send_signal(signal.SIGUSR1)
        assert line(process) == "forked\n"


def state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]


def test_a_debugger_attaches_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The kernel does not give it the thread that we have; the others it may have, and stop."""
    with in_the_middle(arenadump, tmp_path, "fork") as (process, until):
        assert line(process) == "forked\n"
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(process.pid)], stdin=subprocess.PIPE)
        odd.wait_for(lambda: odd.tracer(process.pid) == tracer.pid)
        until.touch()
        odd.wait_for(lambda: not carriers(arenadump), 60)
        tracer.communicate()
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")


@pytest.mark.parametrize("mode", ["snapshot", "freeze"])
def test_a_look_beside_setuid(arenadump: harness.Arenadump, mode: str) -> None:
    """All signals of the thread that makes a call for us are blocked, for that one call."""
    with selfcheck(str(programs.build_portable("selfcheck")), "setxid=2", "storm=1", "threads=1") as pid:
        for _ in range(10):
            arenadump.check("summary", "--mode", mode, pid)


@pytest.mark.parametrize("how", ["idle", "spins"])
def test_the_carrier_is_killed(arenadump: harness.Arenadump, tmp_path: Path, how: str) -> None:
    """In the middle of dlopen, by SIGKILL: the thread finds back to its work by itself."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), tmp_path / "go"
    process = subprocess.Popen(
        [odd.build("posing"), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_AUDIT": str(audit), "SLOW_AUDIT_UNTIL": str(until)},
    )
    try:
        assert process.stdout
        process.stdout.readline()
        arenadump.run("inject", "--timeout", "500ms", process.pid)
        carrier = odd.tracer(process.pid)
        assert carrier != 0
        os.kill(carrier, signal.SIGKILL)
        odd.wait_for(lambda: odd.tracer(process.pid) == 0)
        until.touch()
        time.sleep(0.2)
        assert process.poll() is None
        assert inject(arenadump, process.pid)["how"] == "woken"
        assert loaded(process.pid) == 1
        if how != "idle":
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate("", timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def arenascope(arenadump: harness.Arenadump, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    return subprocess.run(
        [sys.executable, "-m", "arenascope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )


def test_what_was_held_for_longer_is_said(arenadump: harness.Arenadump) -> None:
    """No pass through an arena is done within a microsecond, and any within an hour."""
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        inject(arenadump, pid)
        for most, ms in (("1us", 0.001), ("3600s", 3.6e6)):
            facts = json.loads(arenadump.check("trim", "--json", "--max-hold", most, pid))
            assert facts["max_hold_ms"] == ms
            over = facts["longest_hold_ms"] > ms
            assert over == (most == "1us")
            said = [arenadump.check("trim", "--max-hold", most, pid)]
            said.append(" ".join(arenascope(arenadump, "trim", "--max-hold", most, pid).stdout.split()))
            for text in said:
                assert ("longer than the" in text and "--max-hold" in text) == over, text
        facts = json.loads(arenadump.check("trim", "--json", pid))
        assert facts["max_hold_ms"] is None


def test_a_limit_of_looks_is_none_of_locks(arenadump: harness.Arenadump) -> None:
    """--max-pause once bounded a trim's locks: who still means that is told, and nothing is done."""
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("trim", "--max-pause=5ms", pid)
        assert done.returncode == 2
        assert "--max-hold" in done.stderr
        assert loaded(pid) == 0
        assert arenadump.run("summary", "--max-hold=5ms", pid).returncode == 2
        forecast = json.loads(arenadump.check("trim", "--forecast", "--max-pause=60s", "--json", pid))
        assert forecast["trimmed"] is False


def test_the_python_commands(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        done = arenascope(arenadump, "inject", pid)
        assert done.returncode == 0, done.stderr
        assert f"answers in process {pid}: loaded by thread {pid} (waiting in system call {odd.READ})" in done.stdout
        done = arenascope(arenadump, "trim", "--forecast", pid)
        assert re.search(r"A trim would return [\d.]+ \w+\.", done.stdout), done
        done = arenascope(arenadump, "trim", "--deep", "--max-hold", "5ms", "--watch", "10ms", pid)
        for words in (
            "A deep trim returned ",
            "No arena was locked for longer than",
            "is resident again",
            "locked for",
        ):
            assert words in done.stdout, done
        facts = json.loads(arenascope(arenadump, "trim", "--json", pid).stdout)
        assert facts["schema"] == "arenascope.trim/1"
        arena = facts["arenas"][0]["address"]
        facts = json.loads(arenascope(arenadump, "trim", "--json", "--arena", arena, pid).stdout)
        assert [found["address"] for found in facts["arenas"]] == [arena]
        done = arenascope(arenadump, "trim", "--arena", "main", pid)
        assert done.returncode == 2
        assert "--arena 'main'" in done.stderr


def test_where_the_gdb_script_is(arenadump: harness.Arenadump) -> None:
    assert arenascope(arenadump, "gdb-script").stdout == f"{SCRIPT}\n"


@pytest.mark.parametrize("what", ["1", "nothing", "core"])
def test_what_is_no_process(arenadump: harness.Arenadump, tmp_path: Path, what: str) -> None:
    targets = {"1": "99999999", "nothing": str(tmp_path / "none"), "core": "/bin/true"}
    for command in ("inject", "trim"):
        assert arenadump.run(command, targets[what]).returncode in (2, 3, BAD_INPUT)


def gdb_is_able() -> bool:
    """Can gdb call functions here? Before release 14 it has no room for the registers that AMX brings."""
    told = subprocess.run(["gdb", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    release = re.search(r"(\d+)\.\d+\S*$", told)
    assert release, told
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return int(release[1]) >= 14 or not flags or "amx_tile" not in flags[1].split()


def load_with_gdb(pid: int, agent: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["gdb", "-p", str(pid), "-batch", "-x", str(SCRIPT)],
        env={**os.environ, "ARENASCOPE_LIBRARY": str(agent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_gdb(agent: Path, arenadump: harness.Arenadump) -> None:
    """The script does the same, to a process whose every thread is in a storm; or says that this gdb cannot."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    process = subprocess.Popen([programs.build("allbusy"), "4"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        process.stdout.readline()
        done = load_with_gdb(process.pid, agent)
        if gdb_is_able():
            assert f"the agent is in process {process.pid}" in done.stdout, done.stdout + done.stderr
            assert inject(arenadump, process.pid)["how"] == "present"
        else:
            assert done.returncode == 1, done
            assert f"`arenascope inject {process.pid}`" in done.stderr, done.stderr
            assert not loaded(process.pid)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def test_gdb_harms_nobody_who_waits(agent: Path) -> None:
    """A wait with a time limit goes on as before, whether the script loads the agent or says that this gdb cannot.

    A gdb that fails to write all registers back leaves such a wait with an error that no program knows.
    """
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            done = load_with_gdb(process.pid, agent)
            assert (f"the agent is in process {process.pid}" in done.stdout) == gdb_is_able(), done.stdout + done.stderr
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
        finally:
            process.kill()


def judge_of_the_gdb_script() -> Any:
    """why_not(), as it stands in the script, with the constants that it reads."""
    python = SCRIPT.read_text().partition("\npython\n")[2].partition("\nend\n")[0]
    wanted = ("why_not", "MOST_STATE", "DYNAMIC_SINCE")
    names: dict[str, Any] = {"re": re}
    for node in ast.parse(python).body:
        if (isinstance(node, ast.FunctionDef) and node.name in wanted) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in wanted
        ):
            exec(compile(ast.Module([node], []), str(SCRIPT), "exec"), names)
    return names["why_not"]


@pytest.mark.parametrize(
    ("version", "size", "amx", "able"),
    [
        ("13.1", 11008, True, False),  # Sapphire Rapids
        ("Debian 13.1-3", 11008, True, False),
        ("Ubuntu 12.1-0ubuntu1~22.04", 0, True, False),  # the kernel did not say how many
        ("13.1", 2704, False, False),  # a processor of another day
        ("13.1", 2696, False, True),  # AVX-512 and protection keys
        ("13.1", 832, False, True),  # AVX
        ("13.1", 2696, True, True),  # AMX that the kernel does not use
        ("13.1", 0, False, True),
        ("Fedora Linux 14.2-1.fc40", 11008, True, True),
        ("16.3", 11008, True, True),
        ("of tomorrow", 11008, True, False),  # not known to be able
    ],
)
def test_which_gdb_is_able(version: str, size: int, *, amx: bool, able: bool) -> None:
    reason = judge_of_the_gdb_script()(version, size, amx)
    assert (reason is None) == able
    assert able or version in reason


def test_a_debugger_may_attach_later(agent: Path, arenadump: harness.Arenadump) -> None:
    """It opens what is loaded by the name under which that was loaded, as a file of its own: never one of its pipes."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            assert inject(arenadump, process.pid)["how"] == "loaded"
            done = load_with_gdb(process.pid, agent)
            assert f"the agent is in process {process.pid} already" in done.stdout, done.stdout + done.stderr
        finally:
            process.kill()


@pytest.mark.slow
def test_a_short_soak(arenadump: harness.Arenadump) -> None:
    """Each load at least once, under one libc or another; `make soak` does so a thousand times."""
    count = 2 * len(soak_inject.LOADS)
    counts = soak_inject.soak_for(count, list(debian.SUITES), arenadump, seed=int(time.time()))
    assert not counts.wrong, counts.report()
    assert counts.targets == count
    assert counts.done["loaded"] + counts.done["woken"] + counts.done["present"] > 0, "nothing was injected at all"
