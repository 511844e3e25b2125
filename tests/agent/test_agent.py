# SPDX-License-Identifier: MIT
"""The agent: preloaded into programs of every libc, and asked by a signal for dumps."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import debian, harness, programs
from tools.stage import PATIENCE, Stage, caught, descriptors, in_use, let_others_in, pending, threads, until

# --- The library itself -----------------------------------------------------------------------------------------------


def readelf(agent: Path, what: str) -> str:
    return subprocess.run(["readelf", "-W", what, str(agent)], capture_output=True, text=True, check=True).stdout


def test_library_needs_nothing_but_libc(agent: Path) -> None:
    dynamic = readelf(agent, "-d")
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"]
    assert "TEXTREL" not in dynamic
    assert "BIND_NOW" in dynamic


def test_library_has_no_thread_local_variables(agent: Path) -> None:
    """To make room for them the loader waits for the lock of the list of threads, which setuid() holds."""
    assert "TLS" not in readelf(agent, "-l")
    assert "STATIC_TLS" not in readelf(agent, "-d")


def test_library_asks_for_no_symbol_younger_than_2_17(agent: Path) -> None:
    found = re.findall(r"Name: GLIBC_([\d.]+)", readelf(agent, "-V"))
    versions = {tuple(map(int, version.split("."))) for version in found}
    assert versions
    assert max(versions) <= (2, 17)


def test_library_shows_its_own_names_only(agent: Path) -> None:
    symbols = readelf(agent, "--dyn-syms")
    defined = re.findall(r"(?:FUNC|OBJECT)\s+\w+\s+DEFAULT\s+\d+\s+(\S+)", symbols)
    assert {name.split("@")[0] for name in defined} == {
        "arenascope_dump",
        "arenascope_dump_at",
        "arenascope_dump_fd",
        "arenascope_dump_on_signal",
        "arenascope_error",
        "arenascope_forecast",
        "arenascope_policy_statistics",
        "arenascope_request_dump",
        "arenascope_set_policy",
        "arenascope_summarize",
        "arenascope_trim",
        "arenascope_version",
        "arenascope_wake",
    }
    assert all(name.endswith("@@ARENASCOPE_0.1") for name in defined)


# --- On every libc ----------------------------------------------------------------------------------------------------


def test_nothing_is_started_before_the_signal(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    process = stage.start(own_libc.command(actor, "mark", "mark", "sleep"))
    pid = stage.marked()
    assert process.pid == pid
    assert len(threads(pid)) == 1
    assert stage.log() == ""


def test_signal_brings_a_dump(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    stage.start(libc.command(actor, "hold", "20000", "200", "mark", "mark", "sleep"))
    pid = stage.marked()
    opened = descriptors(pid)
    first = stage.ask(pid)
    second = stage.ask(pid, 2)
    for dump in (first, second):
        assert dump.stat().st_mode & 0o777 == 0o600
        summary = arenadump.summary(dump)
        assert summary["target"]["pid"] == pid
        assert summary["snapshot"]["mode"] == "in-process"
        assert summary["snapshot"]["torn_chunks"] == 0
        # The program sleeps: what it holds is what it held, but for the thread's own little.
        assert 20000 * 208 <= summary["ledger"]["in_use"] <= 20000 * 208 + 64 * 1024
    assert len(threads(pid)) == 2
    assert "arenascope" in threads(pid)
    assert descriptors(pid) == opened


def test_same_chunks_as_seen_from_outside(
    stage: Stage, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stage.environment(ARENASCOPE_CHUNKS="1").items():
        monkeypatch.setenv(name, value)
    with harness.Churn(harness.under(libc, churn_program, "4", "20000"), directory=stage.folder) as churn:
        monkeypatch.delenv("LD_PRELOAD")
        inside = arenadump.chunks(stage.ask(churn.pid))
        outside = arenadump.chunks(churn.pid)
        for name in sorted({*inside.of, *outside.of}):
            assert inside[name] == outside[name], name
        assert inside.mmapped == outside.mmapped
        assert set(churn.held()) <= set(inside["in_use"])


def test_dumps_in_a_storm(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    process = stage.start(libc.command(actor, "hold", "20000", "200", "storm", "4", "mark", "mark", "sleep"))
    pid = stage.marked()
    for number in range(1, 9):
        summary = arenadump.summary(stage.ask(pid, number))
        assert summary["snapshot"]["torn_chunks"] == 0
        assert summary["snapshot"]["exact"] is False
        assert summary["ledger"]["in_use"] >= 20000 * 208
    assert process.poll() is None


def test_disk_that_is_slow(stage: Stage, actor: Path, arenadump: harness.Arenadump) -> None:
    """Nobody waits for it: what is written while an arena is locked goes to memory."""
    disk = programs.build("slow_disk", "-shared", "-fPIC")
    acts = "hold 400000 100 mark mark hurry 2000 go"
    process = stage.start([str(actor), *acts.split()], LD_PRELOAD=f"{disk} {stage.agent}", ARENASCOPE_CHUNKS="1")
    dump = stage.ask(stage.marked())
    stage.go()
    assert process.wait(PATIENCE) == 0, process.communicate()[0]
    assert len(arenadump.chunks(dump)["in_use"]) >= 400_000


def test_thread_that_is_always_in_malloc(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(libc.command(actor, "mark", "mark", "busy"))
    pid = stage.marked()
    for number in range(1, 4):
        stage.ask(pid, number)
    assert process.poll() is None


@pytest.mark.parametrize("act", ["compute", "epoll"])
def test_thread_that_computes_or_waits(stage: Stage, own_libc: debian.Libc, actor: Path, act: str) -> None:
    process = stage.start(own_libc.command(actor, "mark", "mark", act))
    stage.ask(stage.marked())
    assert process.poll() is None


def test_thread_that_ends_in_the_meantime(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    process = stage.start(own_libc.command(actor, "block", str(int(signal.SIGUSR2)), "mark", "mark", "brief"))
    stage.dump(stage.marked())
    assert process.poll() is None


@pytest.fixture(scope="session")
def sets_user() -> Path:
    # Bound at its start: where the loader has just found a function, its addresses are on the stack.
    return programs.build_portable("sets_user", debian.NATIVE, "-Wl,-z,now")


def waits_for_futex(pid: int) -> bool:
    futex = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
    return Path(f"/proc/{pid}/syscall").read_text().startswith(f"{futex} ")


def test_setuid_that_waits_for_another_thread(stage: Stage, libc: debian.Libc, sets_user: Path) -> None:
    """It waits for a futex, and holds the lock that a new thread's stack needs: the handler must wait, too."""
    stage.start(libc.command(sets_user, "held"))
    pid = stage.marked()
    until(lambda: waits_for_futex(pid), "seteuid() does not wait")
    os.kill(pid, signal.SIGUSR2)
    until(lambda: not pending(pid) & 1 << 11, "the signal is not handled")
    stage.go()
    stage.marked("returned")
    stage.dump(pid)


@pytest.mark.parametrize("how", ["join", "cond"])
def test_thread_that_waits_for_a_futex(stage: Stage, libc: debian.Libc, sets_user: Path, how: str) -> None:
    """Even after seteuid(), whose addresses are among the old words of the stack."""
    stage.start(libc.command(sets_user, how))
    pid = stage.marked("returned")
    until(lambda: waits_for_futex(pid), "it does not wait")
    stage.ask(pid)


def test_child_of_fork_has_its_own(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    acts = "storm 2 mark parent until go fork hold 20000 200 mark mark sleep"
    stage.start(libc.command(actor, *acts.split()))
    parent = stage.marked("parent")
    stage.ask(parent)  # so that its thread runs when it forks
    stage.go()
    child = stage.marked()
    assert threads(child).count("arenascope") == 0
    assert in_use(arenadump, stage.ask(child)) >= 20000 * 208
    stage.ask(parent, 2)


def test_program_replaced_by_exec(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    again = own_libc.command(actor, "mark", "second", "sleep")
    stage.start(own_libc.command(actor, "mark", "first", "until", "go", "exec", *again))
    pid = stage.marked("first")
    stage.ask(pid)
    stage.go()
    assert stage.marked("second") == pid
    assert threads(pid).count("arenascope") == 0
    (stage.folder / f"{pid}.1.dump").unlink()
    stage.ask(pid)


def test_daemon_without_descriptors(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    stage.start(own_libc.command(actor, "daemon", "mark", str(stage.folder / "mark"), "sleep"))
    pid = stage.marked()
    stage.ask(pid)
    assert descriptors(pid) == {}


def test_process_that_ends_with_its_last_thread(stage: Stage, actor: Path) -> None:
    process = stage.start([str(actor), "mark", "mark", "until", "go", "leave"])
    stage.ask(stage.marked())
    stage.go()
    assert process.wait(PATIENCE) == 0


def test_program_that_never_loaded_libpthread(stage: Stage, libc: debian.Libc, tmp_path: Path) -> None:
    """Before 2.34 that is where pthread_create is: the agent loads it."""
    program = tmp_path / "simple"
    # With as little room for its handlers as is usual, and an end to it.
    source = """
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    char *volatile held = malloc(100);
    char *room = mmap(0, 16384 + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = room + 16384, .ss_size = 8192};
    if (mprotect(room + 16384, 8192, PROT_READ | PROT_WRITE) != 0 || sigaltstack(&stack, 0) != 0)
        return 1;
    while (held)
        pause();
    return 0;
}
"""
    command = [*programs.portable_command(), *programs.FLAGS, "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=source, text=True, check=True)
    process = stage.start(libc.command(program))
    until(lambda: caught(process.pid) & 1 << 11, "the signal is not taken")
    assert ("libpthread" in Path(f"/proc/{process.pid}/maps").read_text()) is False
    stage.ask(process.pid)


# --- The signal -------------------------------------------------------------------------------------------------------


def test_any_signal_will_do(stage: Stage, actor: Path) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_SIGNAL="RTMIN+3")
    stage.ask(stage.marked(), 1, signal.SIGRTMIN + 3)


@pytest.mark.parametrize("act", ["handle", "ignore"])
def test_application_that_takes_the_signal_keeps_it(stage: Stage, actor: Path, act: str) -> None:
    process = stage.start([str(actor), act, str(int(signal.SIGUSR2)), "mark", "mark", "sleep"])
    pid = stage.marked()
    os.kill(pid, signal.SIGUSR2)
    time.sleep(0.5)
    assert process.poll() is None
    assert not list(stage.folder.glob("*.dump"))
    assert len(threads(pid)) == 1


def test_signal_that_is_ignored_from_the_start_is_left_alone(stage: Stage, actor: Path) -> None:
    stage.start([str(actor), "ignore", "12", "exec", str(actor), "mark", "mark", "sleep"])
    pid = stage.marked()
    stage.logged("signal 12 is taken: the application ignores it")
    os.kill(pid, signal.SIGUSR2)
    time.sleep(0.3)
    assert not list(stage.folder.glob("*.dump"))


def test_none_and_nonsense(stage: Stage, actor: Path) -> None:
    process = stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_SIGNAL="none")
    stage.marked()
    process.send_signal(signal.SIGUSR2)
    assert process.wait(PATIENCE) == -signal.SIGUSR2
    stage.start([str(actor), "mark", "other", "sleep"], ARENASCOPE_SIGNAL="SIGKILLED")
    stage.logged("'SIGKILLED' is not a signal")


def test_signal_that_the_program_waits_for_is_not_stolen(stage: Stage, actor: Path) -> None:
    acts = "mark mark until go block 12 mark blocked await 12 1000 mark done sleep"
    process = stage.start([str(actor), *acts.split()])
    pid = stage.marked()
    stage.ask(pid)  # so that the agent's thread runs
    stage.go()
    stage.marked("blocked")
    # Each is sent as soon as the one before it has been taken: none is merged, and 1,000 must do.
    for _ in range(1000):
        os.kill(pid, signal.SIGUSR2)
        until(lambda: not pending(pid) & 1 << 11, "the signal stays pending", stage.log)
    assert stage.marked("done") == pid
    assert process.poll() is None
    assert not (stage.folder / f"{pid}.2.dump").exists()


def test_pattern(stage: Stage, actor: Path) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_OUT="%e-%p-%t-%n-%%.dump")
    pid = stage.marked()
    os.kill(pid, signal.SIGUSR2)
    (path,) = until(lambda: list(stage.folder.glob("*.dump")), "no dump", stage.log)
    assert re.fullmatch(rf"actor-[0-9a-f]+-?{pid}-\d{{10,}}-1-%\.dump|actor\S*-{pid}-\d+-1-%\.dump", path.name)


def test_symlink_in_the_way_is_not_followed(stage: Stage, actor: Path) -> None:
    (stage.folder / "x.dump").symlink_to(stage.folder / "elsewhere")
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_OUT="x.dump")
    os.kill(stage.marked(), signal.SIGUSR2)
    stage.logged("no dump: will not write .*: a symbolic link stands there")
    assert not (stage.folder / "elsewhere").exists()


def test_log_that_nobody_reads(stage: Stage, actor: Path) -> None:
    """What the agent says ends no program that has a pipe for its stderr, and never writes there."""
    read, write = os.pipe()
    os.close(read)
    environment = stage.environment(ARENASCOPE_LOG="1", ARENASCOPE_SIGNAL="SIGKILLED")
    command = [str(actor), "mark", "mark"]
    done = subprocess.run(command, env=environment, cwd=stage.folder, stderr=write, timeout=PATIENCE, check=False)
    os.close(write)
    assert done.returncode == 0


def test_thread_that_was_told_to_end_does_so_in_its_own_code(stage: Stage, actor: Path) -> None:
    """The handler that interrupts it says why it cannot start a thread; it is no place to end at."""
    process = stage.start([str(actor), "cancelled"])
    stage.logged("no thread could be started for the dump")
    assert process.wait(PATIENCE) == 0, process.communicate()[0]


# --- Other users, other roots -----------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@needs_root
def test_program_that_gives_up_its_rights(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    let_others_in(stage.folder)
    stage.start(own_libc.command(actor, "hold", "20000", "200", "setuid", str(nobody), "mark", "mark", "sleep"))
    dump = stage.ask(stage.marked())
    assert dump.stat().st_uid == nobody


@needs_root
def test_setuid_reaches_the_agent(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    let_others_in(stage.folder)
    (stage.folder / "log").touch()
    (stage.folder / "log").chmod(0o666)
    stage.start(libc.command(actor, "mark", "mark", "until", "go", "setuid", str(nobody), "mark", "other", "sleep"))
    pid = stage.marked()
    stage.ask(pid)
    stage.go()
    stage.marked("other")
    for task in Path(f"/proc/{pid}/task").iterdir():
        assert re.search(rf"^Uid:\s+{nobody}\s+{nobody}", (task / "status").read_text(), re.MULTILINE)
    stage.ask(pid, 2)


@needs_root
def test_chroot_without_proc(stage: Stage, actor: Path) -> None:
    empty = stage.folder / "empty"
    empty.mkdir()
    acts = ["chroot", str(empty), "mark", "mark", "sleep"]
    process = stage.start([str(actor), *acts], ARENASCOPE_LOG="1", ARENASCOPE_OUT="/x.dump")
    pid = int(until(lambda: (empty / "mark").exists() and (empty / "mark").read_text(), "no mark"))
    os.kill(pid, signal.SIGUSR2)
    output = process.stdout
    assert output
    os.set_blocking(output.fileno(), False)
    said = bytearray()

    def has_said() -> bool:
        said.extend(output.read() or b"")
        return b"no dump: /proc is not mounted here" in said

    until(has_said, "no word of /proc", said.decode)
    assert process.poll() is None


@needs_root
def test_chroot_of_a_program_whose_agent_runs(stage: Stage, actor: Path) -> None:
    empty = stage.folder / "empty"
    empty.mkdir()
    # The agent's thread has a root of its own, and keeps it.
    stage.start([str(actor), "mark", "mark", "until", "go", "chroot", str(empty), "mark", "/other", "sleep"])
    pid = stage.marked()
    stage.ask(pid)
    stage.go()
    until((empty / "other").exists, "no mark in the chroot")
    stage.ask(pid, 2)


@needs_root
def test_setuid_program_is_left_alone(stage: Stage, actor: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    copy = stage.folder / "actor"
    shutil.copy(actor, copy)
    os.chown(copy, nobody, -1)
    copy.chmod(0o4755)
    stage.start([str(copy), "mark", "mark", "sleep"])
    assert stage.agent.name not in Path(f"/proc/{stage.marked()}/maps").read_text()


# --- Real programs ----------------------------------------------------------------------------------------------------


@contextmanager
def server(stage: Stage, command: list[str], **variables: str) -> Iterator[int]:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    process = stage.start(command, **variables)
    until(lambda: (stage.folder / "ready").exists() or process.poll() is not None, "the program did not start")
    assert process.poll() is None, process.communicate()[0]
    yield process.pid
    assert process.poll() is None, process.communicate()[0]


def test_python(stage: Stage, arenadump: harness.Arenadump) -> None:
    text = (
        "import time, pathlib; held = [bytes(1000) for _ in range(20000)]; pathlib.Path('ready').touch()\n"
        "while True: time.sleep(0.01)"
    )
    with server(stage, [sys.executable, "-c", text], PYTHONMALLOC="malloc") as pid:
        assert in_use(arenadump, stage.ask(pid)) >= 20000 * 1000


def test_python_arenas_are_in_each_dump(stage: Stage, arenadump: harness.Arenadump) -> None:
    """What the agent has found out about the process's files holds for its next dump, too."""
    text = "import time, pathlib; pathlib.Path('ready').touch()\nwhile True: time.sleep(0.01)"
    with server(stage, [sys.executable, "-c", text]) as pid:
        for number in (1, 2):
            dump = stage.ask(pid, number)
            (found,) = json.loads(arenadump.check("summary", dump, "--json"))["runtimes"]
            assert found["runtime"] == "cpython"
            assert found["found"]


def test_ruby(stage: Stage, arenadump: harness.Arenadump) -> None:
    text = "$held = Array.new(20000) { 'x' * 1000 }; File.write('ready', ''); loop { sleep 0.01 }"
    with server(stage, ["ruby", "-e", text]) as pid:
        assert in_use(arenadump, stage.ask(pid)) >= 20000 * 1000


def test_redis_with_its_jemalloc(stage: Stage) -> None:
    (stage.folder / "ready").touch()
    command = ["redis-server", "--port", "0", "--unixsocket", "sock", "--save", ""]
    # Since Redis 7 its threads tell each other by SIGUSR2 to show their stacks.
    with server(stage, command, ARENASCOPE_SIGNAL="RTMIN+5") as pid:
        until((stage.folder / "sock").exists, "redis does not listen")
        os.kill(pid, signal.SIGRTMIN + 5)
        stage.logged("no dump: malloc is not glibc's in this process")


def test_java(stage: Stage) -> None:
    source = stage.folder / "Main.java"
    source.write_text(
        "public class Main { public static void main(String[] a) throws Exception {"
        ' new java.io.File("ready").createNewFile(); while (true) Thread.sleep(10); } }'
    )
    # HotSpot takes SIGUSR2 for itself.
    with server(stage, ["java", "-Xmx64m", str(source)], ARENASCOPE_SIGNAL="RTMIN+5") as pid:
        stage.ask(pid, 1, signal.SIGRTMIN + 5)
