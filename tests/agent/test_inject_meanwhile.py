# SPDX-License-Identifier: MIT
"""What the threads of a process do to each other while the agent is loaded into it: see docs/injection.md."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soaks import soak_inject
from tools import debian, harness, odd, programs
from tools.injection import (
    DENIED,
    TRACER,
    carriers,
    in_the_middle,
    inject,
    line,
    loaded,
    plugin,
    refused,
    selfcheck,
    state,
    under,
)

pytestmark = pytest.mark.usefixtures("pages_stay")


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


def test_the_only_thread_waits_in_setuid(arenadump: harness.Arenadump) -> None:
    """It holds the lock itself, for as long as another thread does not answer."""
    with odd.running([str(odd.build("posing", "-pthread")), "setuid"]) as pid:
        refused(arenadump, pid, DENIED, "it waits in setuid", "--timeout", "1s")
        os.kill(pid, signal.SIGUSR1)
        assert inject(arenadump, pid)["how"] == "loaded"


def test_it_is_cancelled_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The thread ends when it is its own again, with its clean-up handlers, and without the loader's lock."""
    with in_the_middle(arenadump, tmp_path, "cancel") as (process, until):
        time.sleep(0.3)
        assert carriers(arenadump, process.pid), "it is not in dlopen any more"
        until.touch()
        assert line(process) == "cancelled\n"
        assert process.wait(timeout=60) == 0


def test_another_thread_execs_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with in_the_middle(arenadump, tmp_path, "exec") as (process, _):
        odd.wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "cat\n")
        out, _ = process.communicate("still here\n", timeout=60)
        assert out == "still here\n"
        assert process.returncode == 0
    odd.wait_for(lambda: not carriers(arenadump, process.pid))


def test_the_process_exits_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """exit() waits for the loader's lock, as it does for anybody's dlopen."""
    with in_the_middle(arenadump, tmp_path, "exit") as (process, until):
        time.sleep(0.3)
        assert process.poll() is None
        until.touch()
        assert process.wait(timeout=60) == 7
    odd.wait_for(lambda: not carriers(arenadump, process.pid))


def test_the_process_leaves_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with in_the_middle(arenadump, tmp_path, "leave") as (process, _):
        assert process.wait(timeout=60) == 7
    odd.wait_for(lambda: not carriers(arenadump, process.pid))


def test_another_thread_forks_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """fork() does not wait for us, and the child has a malloc and a loader that work."""
    with in_the_middle(arenadump, tmp_path, "fork") as (process, until):
        assert line(process) == "forked\n"
        until.touch()
        odd.wait_for(lambda: not carriers(arenadump, process.pid))
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
        odd.wait_for(lambda: not carriers(arenadump, process.pid), 60)
        odd.wait_for(lambda: all(state(task) == "T" for task in Path(f"/proc/{process.pid}/task").iterdir()))
        process.send_signal(signal.SIGCONT)
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")
        process.send_signal(signal.SIGUSR1)
        assert line(process) == "forked\n"


def test_a_debugger_attaches_meanwhile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The kernel does not give it the thread that we have; the others it may have, and stop."""
    with in_the_middle(arenadump, tmp_path, "fork") as (process, until):
        assert line(process) == "forked\n"
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(process.pid)], stdin=subprocess.PIPE)
        odd.wait_for(lambda: odd.tracer(process.pid) == tracer.pid)
        until.touch()
        odd.wait_for(lambda: not carriers(arenadump, process.pid), 60)
        tracer.communicate()
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")


@pytest.mark.parametrize("mode", ["clone", "freeze"])
def test_a_snapshot_beside_setuid(arenadump: harness.Arenadump, mode: str) -> None:
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


@pytest.mark.nightly("soak")
@pytest.mark.slow
def test_a_short_soak(arenadump: harness.Arenadump) -> None:
    """Each load at least once, under one libc or another; `make soak` does so a thousand times."""
    count = 2 * len(soak_inject.LOADS)
    counts = soak_inject.soak_for(count, list(debian.SUITES), arenadump, seed=int(time.time()))
    assert not counts.wrong, counts.report()
    assert counts.targets == count
    assert counts.done["loaded"] + counts.done["woken"] + counts.done["present"] > 0, "nothing was injected at all"
