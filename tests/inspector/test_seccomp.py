# SPDX-License-Identifier: MIT
"""Processes that sleep under a seccomp filter.

A snapshot never ends one, and no sleep ends early or late because of it.

Linux goes on with some interrupted sleeps by another system call, restart_syscall
(inspector/target/process/stop/restart.h). A filter may kill for it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from inspector.test_modes import caught, children, is_over, supervisors, wait_until
from soaks import soak
from tools import harness, programs
from tools.odd import running
from tools.postures import notes

pytestmark = pytest.mark.usefixtures("pages_stay")

X86_64 = platform.machine() == "x86_64"
RESTART = 219 if X86_64 else 128
PPOLL = 271 if X86_64 else 73

# A sleep with a limit of its own begins anew if it is made again; the others end when they would have ended.
LIMITED = ["nanosleep", "clock_nanosleep", "futex", *(["poll"] if X86_64 else [])]
ALIKE = [
    "nanosleep_in_place",
    "clock_nanosleep_until",
    "futex_until",
    "futex_endless",
    *(["poll_endless"] if X86_64 else []),
    "ppoll",
    "pselect",
    "epoll_endless",
]
FOR_EVER = 100_000_000  # ms
THREADS = [0, 3]
INSPECTORS = 3
SNAPSHOTS = 60  # of each: with these, a supervisor that leaves too early kills the program in nearly each run
SEVERAL = 16  # threads
MANY = 200_000  # blocks, for a snapshot that takes a while


@pytest.fixture(scope="session")
def sleeper() -> Path:
    return programs.build("sleeper")


@contextmanager
def sleeping(
    program: Path, rule: str, call: str, *, milliseconds: int = FOR_EVER, threads: int = 0, blocks: int = 0
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [str(program), rule, call, str(milliseconds), str(threads), str(blocks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        if milliseconds == FOR_EVER:
            assert wait_until(lambda: all_sleep(process.pid, threads))
        yield process
    finally:
        process.kill()
        process.communicate()


def calls(pid: int) -> list[str]:
    """What its threads sleep in, by number; the first is the first thread, as the kernel lists them."""
    texts = [soak.read(task / "syscall") for task in Path(f"/proc/{pid}/task").iterdir()]
    return [text.split(" ")[0] for text in texts if text]


def all_sleep(pid: int, threads: int) -> bool:
    """Each thread waits in a call, and nobody traces it."""
    statuses = [soak.read(task / "status") for task in Path(f"/proc/{pid}/task").iterdir()]
    asleep = all("State:\tS" in text and "TracerPid:\t0\n" in text for text in statuses)
    return asleep and len(statuses) == max(1, threads + 1) and all(call.isdecimal() for call in calls(pid))


def check_unharmed(process: subprocess.Popen[str], threads: int) -> None:
    """It sleeps again (or has been killed for it by now), and no sleep has ended."""
    assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, threads))
    assert process.poll() is None, f"ended by signal {-process.returncode}"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert out == ""


def may_suspend() -> bool:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return bool(int(fields["CapEff"], 16) >> 21 & 1) and fields["Seccomp"] == "0"


def rights(name: str, arenadump: harness.Arenadump) -> list[str]:
    """How to start arenadump with the right to suspend a filter, or without it."""
    if name == "without":
        if not may_suspend():
            return [str(arenadump.path)]
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed: it takes rights away")
        return ["setpriv", "--bounding-set=-sys_admin", str(arenadump.path)]
    if not may_suspend():
        pytest.skip("to suspend a seccomp filter takes CAP_SYS_ADMIN, and no filter of one's own")
    return [str(arenadump.path)]


def run(command: list[str], *options: str | int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *map(str, options)], capture_output=True, text=True, check=False)


def summary_of(command: list[str], *options: str | int) -> dict[str, Any]:
    done = run(command, "summary", "--json", *options)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("mode", ["freeze", "clone", "auto"])
@pytest.mark.parametrize("call", [*LIMITED, *ALIKE])
def test_with_rights(sleeper: Path, arenadump: harness.Arenadump, call: str, mode: str, threads: int) -> None:
    """The filter is suspended for the one call that the kernel goes on with: exact, and nobody notices."""
    command = rights("with", arenadump)
    with sleeping(sleeper, "kill", call, threads=threads) as process:
        for _ in range(2):  # the second finds the sleep restarted
            summary = summary_of(command, process.pid, "--max-pause=60s", f"--mode={mode}")
            assert summary["snapshot"]["mode"] == ("freeze" if mode == "auto" else mode), notes(summary)
            assert summary["snapshot"]["exact"]
            assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, threads))
        assert call not in LIMITED or calls(process.pid)[-1] == str(RESTART)  # its deadline is kept
        check_unharmed(process, threads)


@pytest.mark.skipif(not X86_64, reason="on aarch64 no interrupted call can be made again")
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("mode", ["freeze", "clone", "auto"])
@pytest.mark.parametrize("call", ALIKE)
def test_without_rights_made_again(
    sleeper: Path, arenadump: harness.Arenadump, call: str, mode: str, threads: int
) -> None:
    """A call without a limit, or with an absolute one, is made again by its own number, which the filter let pass."""
    command = rights("without", arenadump)
    with sleeping(sleeper, "kill", call, threads=threads) as process:
        before = calls(process.pid)
        summary = summary_of(command, process.pid, "--max-pause=60s", f"--mode={mode}")
        assert summary["snapshot"]["mode"] == "freeze", notes(summary)  # no clone is made under a filter
        assert summary["snapshot"]["exact"]
        assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, threads))
        assert calls(process.pid) == before
        check_unharmed(process, threads)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("call", LIMITED)
def test_without_rights_not_stopped(sleeper: Path, arenadump: harness.Arenadump, call: str, threads: int) -> None:
    """Nobody knows what the filter says, and the sleep would begin anew: auto stops nothing, other modes ask first."""
    command = rights("without", arenadump)
    with sleeping(sleeper, "kill", call, threads=threads) as process:
        before = calls(process.pid)
        summary = summary_of(command, process.pid)
        assert summary["snapshot"]["mode"] == "live"
        assert summary["snapshot"]["pause_ms"] == 0
        assert "sleeps under a seccomp filter" in notes(summary)
        for mode in "freeze", "clone":
            done = run(command, "summary", process.pid, f"--mode={mode}")
            assert done.returncode == 4
            assert "nothing was stopped" in done.stderr
            assert "--force" in done.stderr
        assert calls(process.pid) == before
        assert all_sleep(process.pid, threads)
        check_unharmed(process, threads)


@pytest.mark.skipif(not X86_64, reason="on aarch64 no interrupted call can be made again")
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("call", LIMITED)
def test_forced(sleeper: Path, arenadump: harness.Arenadump, call: str, threads: int) -> None:
    """Then the sleep begins anew, by its own call."""
    command = rights("without", arenadump)
    with sleeping(sleeper, "kill", call, threads=threads) as process:
        before = calls(process.pid)
        summary = summary_of(command, process.pid, "--mode=freeze", "--force")
        assert summary["snapshot"]["mode"] == "freeze"
        assert summary["snapshot"]["exact"]
        assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, threads))
        assert calls(process.pid) == before
        check_unharmed(process, threads)


@pytest.mark.parametrize("rule", ["none", "allow"])
@pytest.mark.parametrize("call", LIMITED)
def test_a_filter_that_allows_it(sleeper: Path, arenadump: harness.Arenadump, call: str, rule: str) -> None:
    """Exact, and the deadline is kept, as without a filter."""
    command = rights("with", arenadump)
    with sleeping(sleeper, rule, call, threads=2) as process:
        for mode in "freeze", "clone":
            summary = summary_of(command, process.pid, f"--mode={mode}")
            assert summary["snapshot"]["mode"] == mode
            assert summary["snapshot"]["exact"]
            assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, 2))
            assert calls(process.pid)[1:] == [str(RESTART)] * 2
        check_unharmed(process, 2)


@pytest.mark.parametrize("which", ["with", "without"])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("call", LIMITED)
def test_sleeps_that_end(sleeper: Path, arenadump: harness.Arenadump, call: str, threads: int, which: str) -> None:
    """A snapshot meets each part of a short sleep, and what is between: none ends early, the program runs on."""
    command = rights(which, arenadump)
    with sleeping(sleeper, "kill", call, milliseconds=2, threads=threads) as process:
        for mode in ["freeze", "clone", "auto"] * 3:
            done = run(command, "summary", "--json", "--max-pause=60s", process.pid, f"--mode={mode}")
            assert process.poll() is None, done.stderr
            assert done.returncode == 0, done.stderr
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        assert out == ""


@pytest.mark.slow
@pytest.mark.parametrize("call", ["clock_nanosleep", "futex"])
def test_several_inspectors_at_once(sleeper: Path, arenadump: harness.Arenadump, call: str) -> None:
    """Each waits for the other two: none fails, and no thread is left before it has passed its filter."""
    command = rights("with", arenadump)
    with sleeping(sleeper, "kill", call, milliseconds=2, threads=SEVERAL) as process:

        def inspect(_: int) -> None:
            for _ in range(SNAPSHOTS):
                summary_of(command, "--max-pause=60s", "--mode=freeze", process.pid)

        with ThreadPoolExecutor(INSPECTORS) as inspectors:
            list(inspectors.map(inspect, range(INSPECTORS)))
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        assert out == ""


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """Its threads run when nobody else wants their processor, and others want it all the time."""
    processor = {max(os.sched_getaffinity(0))}
    spin = f"import os\nos.sched_setaffinity(0, {processor})\nwhile True: pass"
    spinners = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(8)]
    try:
        assert wait_until(lambda: all(os.sched_getaffinity(each.pid) == processor for each in spinners))
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), processor)
            os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


@pytest.mark.parametrize("threads", THREADS)
def test_a_thread_that_no_processor_runs(sleeper: Path, arenadump: harness.Arenadump, threads: int) -> None:
    """We have ended its sleep, and go before it has run: it would be killed for what the kernel goes on with."""
    command = [*rights("with", arenadump), "summary", "--mode=freeze", "--max-pause=1us"]
    with sleeping(sleeper, "kill", "futex", threads=threads) as process:
        with starved(process.pid):
            snapshot = subprocess.Popen([*command, str(process.pid)], stderr=subprocess.PIPE, text=True)
            with suppress(subprocess.TimeoutExpired):
                snapshot.wait(2)  # most go on until a processor is free
        _, said = snapshot.communicate()
        assert snapshot.returncode == 4, said
        assert "was resumed after" in said
        check_unharmed(process, threads)


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_code_that_is_changed_meanwhile(arenadump: harness.Arenadump, mode: str) -> None:
    """A thread that never goes on with its sleep is left, too: its process may be hostile."""
    with running([str(programs.build("changed_call", "-pthread"))]) as pid:
        summary_of(rights("with", arenadump), "--max-pause=60s", f"--mode={mode}", pid)
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        assert wait_until(lambda: all("TracerPid:\t0\n" in soak.read(task / "status") for task in tasks))


@contextmanager
def held_clone(process: subprocess.Popen[str], arenadump: harness.Arenadump) -> Iterator[int]:
    """While the inspector stands still, and with it the reading of the clone: the supervisor's PID."""

    class Target:
        pid = process.pid

    inspector, supervisor = caught(Target, arenadump)  # type: ignore[arg-type]
    try:
        yield supervisor
    finally:
        inspector.kill()
        inspector.communicate()
        assert wait_until(lambda: is_over(supervisor))
        assert children(process.pid) == []


def sleeps(process: subprocess.Popen[str]) -> int:
    assert process.stdin
    assert process.stdout
    process.stdin.write("?")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line.endswith(" sleeps\n"), line
    return int(line.split()[0])


@pytest.mark.parametrize("call", LIMITED)
def test_a_sleep_ends_while_the_clone_is_read(sleeper: Path, arenadump: harness.Arenadump, call: str) -> None:
    """Its thread goes on by itself, and under its filter again."""
    rights("with", arenadump)
    with sleeping(sleeper, "kill", call, milliseconds=100, threads=3, blocks=MANY) as process:
        with held_clone(process, arenadump):
            before = sleeps(process)
            assert wait_until(lambda: sleeps(process) > before + 10)
            assert wait_until(lambda: "TracerPid:\t0" in soak.read(Path(f"/proc/{process.pid}/status")))
        check = sleeps(process)
        assert wait_until(lambda: sleeps(process) > check + 10)


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGWINCH"])
@pytest.mark.parametrize("call", LIMITED)
def test_a_signal_comes_while_the_clone_is_read(
    sleeper: Path, arenadump: harness.Arenadump, call: str, name: str
) -> None:
    """One with a handler ends the sleep; one that is ignored does not, though it reaches a traced thread."""
    rights("with", arenadump)
    with sleeping(sleeper, "kill", call, blocks=MANY) as process:
        with held_clone(process, arenadump):
            assert wait_until(lambda: calls(process.pid) == [str(RESTART)])
            process.send_signal(signal.Signals[name])
            if name == "SIGUSR1":
                assert process.stdout
                assert "Interrupted system call" in process.stdout.readline()
            assert wait_until(lambda: process.poll() is not None or "State:\tS" in soak.read(status_of(process)))
            assert process.poll() is None
        check_unharmed(process, 0)


def status_of(process: subprocess.Popen[str]) -> Path:
    return Path(f"/proc/{process.pid}/status")


@pytest.mark.skipif(not X86_64, reason="on aarch64 no interrupted call can be made again")
@pytest.mark.parametrize("call", LIMITED)
def test_the_supervisor_is_killed(sleeper: Path, arenadump: harness.Arenadump, call: str) -> None:
    """While all stand still: the sleep begins anew; one that an earlier snapshot restarted fails with EINTR."""
    rights("with", arenadump)
    with sleeping(sleeper, "kill", call, threads=2) as process:
        inspector, supervisor = frozen(process.pid, arenadump)
        os.kill(supervisor, signal.SIGKILL)
        inspector.kill()
        inspector.communicate()
        assert wait_until(lambda: process.poll() is not None or all_sleep(process.pid, 2))
        assert str(RESTART) not in calls(process.pid)
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM
        assert all("Interrupted system call" in line for line in out.splitlines())


def waits_or_has_ended(supervisor: int) -> bool:
    return soak.read(Path(f"/proc/{supervisor}/syscall")).partition(" ")[0] in {str(PPOLL), ""}


def is_traced(pid: int) -> bool:
    return "State:\tt" in soak.read(Path(f"/proc/{pid}/status"))


def frozen(pid: int, arenadump: harness.Arenadump) -> tuple[subprocess.Popen[bytes], int]:
    """A freeze that is held (SIGSTOP of the inspector), and its supervisor."""
    for _attempt in range(200):
        inspector = subprocess.Popen(
            [str(arenadump.path), "chunks", "--mode=freeze", "--max-pause=60s", str(pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda one=inspector: one.poll() is not None or is_traced(pid))
        inspector.send_signal(signal.SIGSTOP)
        for supervisor in supervisors(inspector.pid):
            # What interrupted sleeps go on with is settled once it waits for the inspector: docs/hazards.md.
            if wait_until(lambda one=supervisor: waits_or_has_ended(one)) and is_traced(pid):
                return inspector, supervisor
        inspector.kill()
        inspector.communicate()
    raise AssertionError("no snapshot was caught while the target stood still")


@pytest.mark.parametrize("which", ["with", "without"])
@pytest.mark.parametrize("command", ["summary", "dump", "leaks", "owners", "types", "why", "chunks", "png"])
def test_every_command(sleeper: Path, arenadump: harness.Arenadump, tmp_path: Path, command: str, which: str) -> None:
    start = rights(which, arenadump)
    more: dict[str, list[str]] = {"dump": ["-o", f"{tmp_path}/d"], "png": ["-o", f"{tmp_path}/p"], "why": ["1"]}
    for threads in THREADS:
        with sleeping(sleeper, "kill", "clock_nanosleep", threads=threads) as process:
            done = run(start, command, process.pid, *more.get(command, []))
            assert done.returncode in ((0,) if command != "why" else (0, 2, 3)), done.stderr
            check_unharmed(process, threads)


ARENASCOPE = [sys.executable, "-m", "arenascope"]


@pytest.mark.parametrize(
    "words",
    [
        ["watch", "{}", "-o", "t.arenascope", "--every", "300ms", "--for", "1s"],
        ["watch", "{}", "-o", "t.arenascope", "--every", "300ms", "--for", "1s", "--mode", "freeze"],
        ["top", "{}", "--once"],
    ],
    ids=["watch", "watch-freeze", "top"],
)
@pytest.mark.parametrize("which", ["with", "without"])
def test_commands_that_snapshot_again(
    sleeper: Path, arenadump: harness.Arenadump, tmp_path: Path, words: list[str], which: str
) -> None:
    start = rights(which, arenadump)[:-1]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    with sleeping(sleeper, "kill", "clock_nanosleep", threads=3) as process:
        command = [*start, *ARENASCOPE, *(word.format(process.pid) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        if "freeze" not in words:
            assert done.returncode == 0, done.stderr
        check_unharmed(process, 3)
