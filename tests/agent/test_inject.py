# SPDX-License-Identifier: MIT
"""The agent carried into processes that run: what does it, what is refused, and what is left as it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tools import debian, harness, odd, programs
from tools.injection import (
    BAD_INPUT,
    DENIED,
    NO_MALLOC,
    TRACER,
    UNSUPPORTED,
    descriptors,
    inject,
    loaded,
    refused,
    selfcheck,
    threads,
)
from tools.stage import let_others_in

pytestmark = pytest.mark.usefixtures("pages_stay")

CAP_SYS_PTRACE = 19


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
    """An arenadump that may inspect any process must not load there what its user names."""
    let_others_in(tmp_path)
    copy = tmp_path / "arenadump"
    shutil.copy(arenadump.path, copy)
    os.setxattr(copy, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << CAP_SYS_PTRACE, 0, 0, 0))
    environment = {**os.environ, "ARENASCOPE_LIBRARY": "/tmp/of-my-own.so"}
    with odd.asleep(user=65534) as target:
        command = [str(copy), "inject", str(target.pid)]
        done = subprocess.run(command, user=65534, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert loaded(target.pid) == 1


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


def test_a_traced_process(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE)
        try:
            odd.wait_for(lambda: odd.tracer(pid) != 0)
            refused(arenadump, pid, DENIED, f"traced by process {tracer.pid}")
        finally:
            tracer.communicate()


OUTSIDE = "takes CAP_SYS_ADMIN, and an arenadump under no filter: run it as root, outside of the container"


def test_a_seccomp_filter(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "filter"]) as pid:
        refused(arenadump, pid, UNSUPPORTED, "--force is safe where the filter allows files, mappings")
        if os.geteuid() == 0:
            sidecar = ["setpriv", "--bounding-set=-sys_admin", str(arenadump.path), "inject", "--force", str(pid)]
            done = subprocess.run(sidecar, capture_output=True, text=True, check=False)
            assert done.returncode == UNSUPPORTED
            assert OUTSIDE in done.stderr
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
    let_others_in(tmp_path)
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
    with odd.running(["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$0" idle', str(program)]) as pid:
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
