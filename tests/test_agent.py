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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, programs

PATIENCE = 30  # seconds that a dump may take on a busy machine


@pytest.fixture(scope="session")
def actor() -> Path:
    try:
        return programs.build_portable("actor")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


class Stage:
    """A directory for one test: where programs with the agent in them leave their dumps, logs and marks."""

    def __init__(self, folder: Path, agent: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.agent = agent
        self._stack = stack

    def environment(self, **variables: str) -> dict[str, str]:
        """With the agent preloaded; a variable given as "" is not there."""
        preset = {
            "LD_PRELOAD": str(self.agent),
            "ARENASCOPE_OUT": f"{self.folder}/%p.%n.dump",
            "ARENASCOPE_LOG": f"{self.folder}/log",
        }
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ARENASCOPE_")}
        return {name: value for name, value in {**clean, **preset, **variables}.items() if value}

    def start(self, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            env=self.environment(**variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._stack.callback(end, process)
        return process

    def marked(self, name: str = "mark") -> int:
        """The pid that the program has left, once it has."""
        pid = int(until(lambda: self._read(name), f"the program did not get to its {name}: {self.log()}"))
        self._stack.callback(kill, pid)
        return pid

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text().strip() if path.exists() else ""

    def log(self) -> str:
        return self._read("log")

    def logged(self, pattern: str) -> None:
        until(lambda: re.search(pattern, self.log()), f"no '{pattern}' in the log", self.log)

    def dump(self, pid: int, number: int = 1, *, seen_as: int | None = None) -> Path:
        """The dump that the signal asked for: complete as soon as it has its name."""
        path = self.folder / f"{seen_as or pid}.{number}.dump"
        until(path.exists, f"no {path.name}", self.log)
        return path

    def ask(self, pid: int, number: int = 1, what: int = signal.SIGUSR2) -> Path:
        os.kill(pid, what)
        return self.dump(pid, number)


def until(true: Callable[[], Any], what: str, more: Callable[[], str] = str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = true()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} within {PATIENCE} s: {more()}")


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def stage(tmp_path: Path, agent: Path) -> Iterator[Stage]:
    tmp_path.chmod(0o777)
    with ExitStack() as stack:
        yield Stage(tmp_path, agent, stack)


def threads(pid: int) -> list[str]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append((task / "comm").read_text().strip())
    return found


def descriptors(pid: int) -> dict[str, str]:
    """What the process has open, in the table that its own threads share."""
    return {path.name: str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}


def pending(pid: int) -> int:
    found = re.search(r"^ShdPnd:\s+([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1], 16) if found else 0


def in_use(arenadump: harness.Arenadump, dump: Path) -> int:
    return int(arenadump.summary(dump)["ledger"]["in_use"])


# --- The library itself ---------------------------------------------------------------------------------------------


def readelf(agent: Path, what: str) -> str:
    return subprocess.run(["readelf", "-W", what, str(agent)], capture_output=True, text=True, check=True).stdout


def test_library_needs_nothing_but_libc(agent: Path) -> None:
    dynamic = readelf(agent, "-d")
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"]
    assert "TEXTREL" not in dynamic
    assert "BIND_NOW" in dynamic


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


# --- On every libc --------------------------------------------------------------------------------------------------


def test_nothing_is_started_before_the_signal(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(libc.command(actor, "mark", "mark", "sleep"))
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


def test_thread_that_is_always_in_malloc(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(libc.command(actor, "mark", "mark", "busy"))
    pid = stage.marked()
    for number in range(1, 4):
        stage.ask(pid, number)
    assert process.poll() is None


@pytest.mark.parametrize("act", ["compute", "epoll"])
def test_thread_that_computes_or_waits(stage: Stage, libc: debian.Libc, actor: Path, act: str) -> None:
    process = stage.start(libc.command(actor, "mark", "mark", act))
    stage.ask(stage.marked())
    assert process.poll() is None


def test_child_of_fork_has_its_own(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    acts = "storm 2 mark parent nap 500 fork hold 20000 200 mark mark sleep"
    stage.start(libc.command(actor, *acts.split()))
    parent = stage.marked("parent")
    stage.ask(parent)  # so that its thread runs when it forks
    child = stage.marked()
    assert threads(child).count("arenascope") == 0
    assert in_use(arenadump, stage.ask(child)) >= 20000 * 208
    stage.ask(parent, 2)


def test_program_replaced_by_exec(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    again = libc.command(actor, "mark", "second", "sleep")
    stage.start(libc.command(actor, "mark", "first", "nap", "500", "exec", *again))
    pid = stage.marked("first")
    stage.ask(pid)
    assert stage.marked("second") == pid
    assert threads(pid).count("arenascope") == 0
    (stage.folder / f"{pid}.1.dump").unlink()
    stage.ask(pid)


def test_daemon_without_descriptors(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    stage.start(libc.command(actor, "daemon", "mark", str(stage.folder / "mark"), "sleep"))
    pid = stage.marked()
    stage.ask(pid)
    assert descriptors(pid) == {}


def test_process_that_ends_with_its_last_thread(stage: Stage, actor: Path) -> None:
    process = stage.start([str(actor), "mark", "mark", "nap", "300", "leave"])
    stage.ask(stage.marked())
    assert process.wait(PATIENCE) == 0


# --- The signal -----------------------------------------------------------------------------------------------------


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
    stage.logged("'SIGKILLED' is no signal")


def test_signal_that_the_program_waits_for_is_not_stolen(stage: Stage, actor: Path) -> None:
    process = stage.start([str(actor), "mark", "mark", "nap", "500", "await", "12", "1000", "mark", "done", "sleep"])
    pid = stage.marked()
    stage.ask(pid)  # so that the agent's thread runs
    time.sleep(1)
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


# --- Other users, other roots ---------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@needs_root
def test_program_that_gives_up_its_rights(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    for folder in [stage.folder, *stage.folder.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    stage.start(libc.command(actor, "hold", "20000", "200", "setuid", str(nobody), "mark", "mark", "sleep"))
    dump = stage.ask(stage.marked())
    assert dump.stat().st_uid == nobody


@needs_root
def test_setuid_reaches_the_agent(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    for folder in [stage.folder, *stage.folder.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    (stage.folder / "log").touch()
    (stage.folder / "log").chmod(0o666)
    stage.start(libc.command(actor, "mark", "mark", "nap", "700", "setuid", str(nobody), "mark", "other", "sleep"))
    pid = stage.marked()
    stage.ask(pid)
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
    stage.start([str(actor), "mark", "mark", "nap", "700", "chroot", str(empty), "mark", "/other", "sleep"])
    pid = stage.marked()
    stage.ask(pid)
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


# --- Real programs --------------------------------------------------------------------------------------------------


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


# --- The policy, and the door -----------------------------------------------------------------------------------------


def test_policy_trims_by_itself(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(
        libc.command(actor, *["storm", "3", "mark", "mark", "sleep"]), ARENASCOPE_TRIM="every=200ms,deep"
    )
    pid = stage.marked()
    until(lambda: threads(pid).count("arenascope") == 1, "no thread of ours from the start")
    for _ in range(3):
        stage.logged(rf"\[{pid}\]: policy \(time\): [1-9]\d* KiB returned")
    assert process.poll() is None


def test_policy_goes_on_in_a_child(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    acts = "storm 2 mark parent nap 300 fork mark mark busy"
    process = stage.start(libc.command(actor, *acts.split()), ARENASCOPE_TRIM="every=200ms,max-pause=5ms")
    parent, child = stage.marked("parent"), stage.marked()
    assert parent != child
    stage.logged(rf"\[{child}\]: policy \(time\)")
    assert process.poll() is None


def test_policy_waits_for_its_conditions(stage: Stage, actor: Path) -> None:
    acts = [str(actor), *["hold", "20000", "200", "storm", "1", "mark", "mark", "sleep"]]
    stage.start(acts, ARENASCOPE_TRIM="every=100ms,min=1G")
    pid = stage.marked()
    time.sleep(1)
    assert "policy" not in stage.log()
    acts = [str(actor), *["hold", "20000", "200", "mark", "idler", "sleep"]]
    stage.start(acts, ARENASCOPE_TRIM="idle=1s")
    idler = stage.marked("idler")
    stage.logged(rf"\[{idler}\]: policy \(idle\)")
    time.sleep(2.5)
    assert stage.log().count(f"[{idler}]: policy (idle)") == 1
    assert pid != idler


@pytest.mark.parametrize(
    "words", ["every", "every=soon", "min=64X", "sometimes=1s", "percent=101", "every=99999999999h"]
)
def test_policy_that_makes_no_sense(stage: Stage, actor: Path, words: str) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_TRIM=words)
    assert len(threads(stage.marked())) == 1
    stage.logged(re.escape(words) if words != "percent=101" else "percentage of more than 100")


def test_door_answers(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    process = stage.start(libc.command(actor, *["hold", "1000", "200", "storm", "3", "mark", "mark", "sleep"]))
    pid = stage.marked()
    stage.ask(pid)
    before = threads(pid)
    forecast = json.loads(arenadump.check("trim", "--forecast", "--json", pid))
    assert len(forecast["arenas"]) >= 2
    trimmed = json.loads(arenadump.check("trim", "--deep", "--json", pid))
    assert trimmed["returned"] > 0
    assert threads(pid) == before  # no second agent was carried in
    assert process.poll() is None


def test_program_that_never_loaded_libpthread(stage: Stage, libc: debian.Libc, tmp_path: Path) -> None:
    """Before 2.34 that is where pthread_create is: the agent loads it."""
    program = tmp_path / "simple"
    source = (
        "#include <unistd.h>\n#include <stdlib.h>\nint main(void)\n{\n    char *volatile p = malloc(100);\n"
        "    while (p)\n        pause();\n    return 0;\n}\n"
    )
    try:
        command = [*programs.portable_command(), "-x", "c", "-", "-o", str(program)]
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
    subprocess.run(command, input=source, text=True, check=True)
    process = stage.start(libc.command(program))
    until(lambda: "libarenascope" in Path(f"/proc/{process.pid}/maps").read_text(), "not loaded")
    time.sleep(0.3)
    assert ("libpthread" in Path(f"/proc/{process.pid}/maps").read_text()) is False
    stage.ask(process.pid)


# --- The commands -----------------------------------------------------------------------------------------------------


def arenascope(stage: Stage, *arguments: str) -> list[str]:
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from arenascope.cli.main import run; run()"
    return [sys.executable, "-c", code, str(harness.ROOT / "visualize"), *arguments]


def test_run(stage: Stage, actor: Path, arenadump: harness.Arenadump) -> None:
    command = arenascope(stage, "run", "--signal", "RTMIN+1", "-o", "run.%n", "--chunks", "--log", "run.log")
    command += ["--", str(actor), "hold", "20000", "200", "mark", "mark", "sleep"]
    variables = {"LD_PRELOAD": "", "ARENASCOPE_OUT": "", "ARENASCOPE_LOG": "", "ARENASCOPE_LIBRARY": str(stage.agent)}
    process = stage.start(command, **variables, ARENASCOPE_ARENADUMP=str(arenadump.path))
    pid = stage.marked()
    assert pid == process.pid
    os.kill(pid, signal.SIGRTMIN + 1)
    until((stage.folder / "run.1").exists, "no dump")
    assert len(arenadump.chunks(stage.folder / "run.1")["in_use"]) >= 20000
    assert "wrote" in (stage.folder / "run.log").read_text()


@pytest.mark.parametrize(
    ("command", "code"),
    [("no-such-program", 127), ("true", 0), ("false", 1), ("sh -c :", 0), ("--sometimes true", 2), ("", 2)],
)
def test_run_ends_as_the_command_does(stage: Stage, arenadump: harness.Arenadump, command: str, code: int) -> None:
    environment = stage.environment(LD_PRELOAD="", ARENASCOPE_ARENADUMP=str(arenadump.path))
    environment["ARENASCOPE_LIBRARY"] = str(stage.agent)
    done = subprocess.run(arenascope(stage, "run", *command.split()), env=environment, check=False)
    assert done.returncode == code


def test_agent_path(stage: Stage, arenadump: harness.Arenadump) -> None:
    environment = stage.environment(LD_PRELOAD="", ARENASCOPE_ARENADUMP=str(arenadump.path))
    done = subprocess.run(arenascope(stage, "agent-path"), env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.rstrip("\n")) == stage.agent


def test_manual_page() -> None:
    page = harness.ROOT / "docs" / "arenascope.7"
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    source = "".join(path.read_text() for path in (harness.ROOT / "inspector" / "agent").glob("*.c"))
    for variable in set(re.findall(r'secure_getenv\("(ARENASCOPE_\w+)"\)', source)):
        assert variable in page.read_text()


# --- The public API -------------------------------------------------------------------------------------------------


def test_header_is_c_and_cpp(tmp_path: Path) -> None:
    header = harness.ROOT / "inspector" / "include"
    for compiler, language in (("gcc", "c"), ("g++", "c++")):
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed")
        text = '#include "arenascope.h"\nint f(void);\nint f(void)\n{\n'
        text += "    struct arenascope_summary s = ARENASCOPE_INIT(s);\n    return (int)s.size;\n}\n"
        command = [compiler, "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        command += ["-Wno-missing-field-initializers"] if language == "c++" else []
        command += [f"-I{header}", "-c", "-o", str(tmp_path / "x.o"), "-"]
        subprocess.run(command, input=text, text=True, check=True)


def test_api_from_python(stage: Stage, arenadump: harness.Arenadump) -> None:
    text = f"""
import ctypes, os
lib = ctypes.CDLL({str(stage.agent)!r})
lib.arenascope_error.restype = lib.arenascope_version.restype = ctypes.c_char_p
assert lib.arenascope_dump(b"by-path", 1) == 0, lib.arenascope_error()
fd = os.memfd_create("x")
assert lib.arenascope_dump_fd(fd, 0) == 0, lib.arenascope_error()
open("by-fd", "wb").write(os.pread(fd, os.fstat(fd).st_size, 0))
assert lib.arenascope_dump(b"no/such/place", 0) == 8
assert b"no/such" in lib.arenascope_error()
assert lib.arenascope_dump_fd(os.open(os.devnull, os.O_RDWR), 0) == 2
assert lib.arenascope_request_dump() == 2
assert lib.arenascope_dump_on_signal(12, b"signalled.%n", 0) == 0
assert lib.arenascope_error() == b""
assert lib.arenascope_request_dump() == 0
summary = (ctypes.c_uint64 * 40)(8 * 40)
assert lib.arenascope_summarize(summary) == 0
assert 0 < summary[3] < summary[1]
print(lib.arenascope_version().decode())
import time
while not os.path.exists("signalled.1"): time.sleep(0.01)
"""
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=stage.folder,
        env=stage.environment(LD_PRELOAD=""),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("by-path", "by-fd", "signalled.1"):
        assert in_use(arenadump, stage.folder / name) > 0
    assert arenadump.check("chunks", stage.folder / "by-path")


def test_application_handler_found_by_the_api(stage: Stage) -> None:
    text = f"""
import ctypes, signal
lib = ctypes.CDLL({str(stage.agent)!r})
signal.signal(signal.SIGUSR2, lambda *_: None)
assert lib.arenascope_dump_on_signal(12, b"x", 0) == 4
"""
    subprocess.run([sys.executable, "-c", text], env=stage.environment(LD_PRELOAD=""), timeout=60, check=True)
