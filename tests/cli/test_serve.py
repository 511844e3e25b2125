# SPDX-License-Identifier: MIT
"""`arenadump serve`: a request is answered as a program that is started for it answers, and leaves nothing behind."""

from __future__ import annotations

import array
import fcntl
import json
import os
import platform
import random
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import timeit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cli.test_diff import growing
from hostile.test_killed_commands import is_as_before, until
from tools import debian, harness, programs

from arenascope import __version__
from arenascope.errors import ArenascopeError, Code
from arenascope.watch.poll import spent
from arenascope.wire import arenadump
from arenascope.wire.arenadump import run_arenadump
from arenascope.wire.arenadump_server import ArenadumpServer, serving
from arenascope.wire.dump import Dump

REQUESTS = int(os.environ.get("REQUESTS", "200"))
KILLS = int(os.environ.get("KILLS", "6"))
RECVMSG = "47" if platform.machine() == "x86_64" else "212"
pytestmark = pytest.mark.usefixtures("own_arenadump")

FREEZE = ("--mode=freeze", "--max-pause=600s")
CHANGES = re.compile(
    r'"(time|pause_ms|read_ms)": [^,\n]*|still for [0-9.]+ .?s, reading took [0-9.]+ .?s|20[-0-9]+T[:0-9]+Z'
)


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Churn]:
    folder = tmp_path_factory.mktemp("churn")
    with harness.Churn([str(programs.build("churn", "-lpthread"))], directory=folder) as made:
        made.ask("go")
        yield made


@contextmanager
def served() -> Iterator[tuple[ArenadumpServer, list[str]]]:
    """A server, and what it has told the user."""
    said: list[str] = []
    with serving(said.append) as server:
        yield server, said


def pid_of(server: ArenadumpServer) -> int:
    assert server._running
    return server._running.child.pid


def ask(server: ArenadumpServer, *words: str | int | Path, output: int | None = None) -> tuple[int, str, str]:
    ended = server.ask([str(word) for word in words], output)
    assert ended, words
    return ended.code, ended.printed, ended.remarks


def kilobytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def descriptors(pid: int) -> list[tuple[str, str]]:
    """Once it waits for a request: it closes the streams of one after its answer."""
    call = Path(f"/proc/{pid}/syscall")
    until(lambda: call.read_text().split()[0] == RECVMSG, "it waits for no request")
    folder = Path(f"/proc/{pid}/fd")
    return sorted((each.name, str(each.readlink())) for each in folder.iterdir())


def test_answers_are_those_of_a_program(churn: harness.Churn, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Exit code, output and errors, also behind requests that have failed in the middle of something."""
    pid, gone = churn.pid, 999_999_999
    cases: list[tuple[str | int | Path, ...]] = [
        ("dump", "-hx"),
        ("summary", "--json", *FREEZE, "--", pid),
        ("summary", "--json", gone),
        ("summary", "--bogus", pid),
        ("summary", *FREEZE, pid),
        ("dump", "-o", tmp_path / "none" / "file", "--", pid),
        ("dump", *FREEZE, "-o", tmp_path / "file", "--", pid),
        ("dump", "-o", "-"),
        ("policy", "--json", "--", pid),
        ("summary", "--help"),
        ("summary", "--mode=sideways", pid),
        ("policy", pid),
    ]
    with served() as (server, said):
        for case in cases:
            fresh = arenadump.run(*case)
            code, printed, remarks = ask(server, *case)
            assert (code, remarks) == (fresh.returncode, fresh.stderr), case
            # By words: a pause of more digits has a line break elsewhere.
            assert CHANGES.sub("", printed).split() == CHANGES.sub("", fresh.stdout).split(), case
        pid_of(server)
    assert not said
    assert Dump(tmp_path / "file").meta["pid"] == pid


def put_libc(folder: Path, libc: debian.Libc, *, in_place: bool, sizes: dict[str, int]) -> None:
    """Libc and its loader in a folder, with zeros behind them: so files of all releases are of one size."""
    for name, file in (("libc.so.6", libc.directory / "libc.so.6"), ("loader", libc.loader)):
        bytes_of = file.read_bytes().ljust(sizes[name], b"\0")
        if in_place:
            with (folder / name).open("r+b") as same:
                same.write(bytes_of)
        else:
            (folder / "new").write_bytes(bytes_of)
            (folder / "new").chmod(0o755)
            (folder / "new").rename(folder / name)


def rest(folder: Path) -> None:
    """Wait until the server may keep what the files say: a file must have rested for two seconds and more."""
    newest = max(each.stat().st_ctime for each in folder.iterdir())
    until(lambda: time.time() > newest + 4, "the files have rested")


@pytest.mark.parametrize("how", ["in place", "renamed"])
def test_a_libc_that_is_replaced_is_read_anew(
    how: str, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """The server keeps what a libc's file says from one request to the next, as long as it is the same file."""
    # Neither is this machine's, whose debug file may be installed: then it would tell them apart.
    first, other = (debian.libc(suite) for suite in [*debian.SUITES][::2][:2])
    files = [(each.directory / "libc.so.6", each.loader) for each in (first, other)]
    sizes = dict(zip(("libc.so.6", "loader"), (max(each.stat().st_size for each in pair) for pair in zip(*files))))
    versions = []
    put_libc(tmp_path, first, in_place=False, sizes=sizes)
    with served() as (server, _):
        for libc in (first, first, other):
            if libc is other:
                put_libc(tmp_path, libc, in_place=how == "in place", sizes=sizes)
            rest(tmp_path)
            command = debian.command_with(tmp_path / "loader", f"{tmp_path}:{libc.directory}", libc.arch)
            with harness.Churn([*command, str(churn_program)], directory=tmp_path) as target:
                target.ask("go")
                words = ("summary", "--json", *FREEZE, "--", target.pid)
                fresh = arenadump.run(*words)
                for _ in range(2):
                    code, printed, remarks = ask(server, *words)
                    assert (code, remarks) == (fresh.returncode, fresh.stderr)
                    assert CHANGES.sub("", printed) == CHANGES.sub("", fresh.stdout)
                versions.append([each["glibc"] for each in json.loads(printed)["mallocs"]])
    assert versions[0] == versions[1]
    assert versions[2] != versions[0]


@pytest.mark.parametrize("command", ["policy", "summary"])  # less than a buffer, and more
def test_what_could_not_be_printed_is_in_no_later_answer(churn: harness.Churn, command: str) -> None:
    with served() as (server, _), Path("/dev/full").open("wb") as full:
        code, _, remarks = ask(server, command, "--json", "--", churn.pid, output=full.fileno())
        assert code == Code.IO
        assert remarks == "arenadump: cannot write to standard output: No space left on device\n"
        code, printed, _ = ask(server, "policy", "--json", "--", churn.pid)
        assert code == Code.OK
        assert json.loads(printed)["pid"] == churn.pid


def test_a_dump_into_a_file_of_ours(churn: harness.Churn, tmp_path: Path) -> None:
    with served() as (server, _), (tmp_path / "dump").open("w+b") as file:
        for _ in range(2):
            code, printed, _ = ask(server, "dump", "-o", "-", "--", churn.pid, output=file.fileno())
            assert (code, printed) == (Code.OK, "")
            assert Dump(tmp_path / "dump").meta["pid"] == churn.pid


def test_what_is_not_served(churn: harness.Churn) -> None:
    """A limit of memory, which lasts; what reads all memory; what loads an agent. A program is started for it."""
    with served() as (server, _):
        for words in (["summary", "--max-memory=1G"], ["dump", "--graph"], ["dump", "--objects"], ["leaks"], ["trim"]):
            assert server.ask([*words, str(churn.pid)], None) is None
        assert server._running is None
        limited = run_arenadump(["summary", "--json", "--max-memory=1G", "--", str(churn.pid)])
        assert json.loads(limited)["target"]["pid"] == churn.pid
        # An option may be shortened. The server refuses the same.
        for words, option in (
            (["summary", "--max-mem=1G"], "summary with"),
            (["dump", "-o", "-", "--gra"], "dump with"),
        ):
            code, _, remarks = ask(server, *words, churn.pid)
            assert code == Code.USAGE
            assert remarks.startswith(f"arenadump: {option} --max-memory, --graph or --objects is not served")


def test_the_server_is_a_process_like_others(churn: harness.Churn) -> None:
    with served() as (server, _):
        ask(server, "policy", churn.pid)
        child = str(pid_of(server))
        assert server.ask(["summary", "--json", "--", child], None) is None
        seen = json.loads(run_arenadump(["summary", "--json", "--", child]))
        assert seen["target"]["comm"] == "arenadump"
        assert pid_of(server) == int(child)


class Raw:
    """The protocol by hand: `arenadump serve` at the other end of a socket."""

    def __init__(self, arenadump: harness.Arenadump, *more: int) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [str(arenadump.path), "serve"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=more,
        )
        theirs.close()
        self.hello = self.socket.recv(1000).decode()

    def __enter__(self) -> Raw:  # noqa: PYI034 - Self is younger than our oldest Python
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.communicate()

    def send(self, request: bytes, *files: int) -> bytes:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        self.socket.sendmsg([request], rights)
        with suppress(ConnectionResetError):
            return self.socket.recv(1000)
        return b""


def test_the_protocol(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """As docs/architecture.md has it."""
    with Raw(arenadump) as raw, (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        assert raw.hello == f"arenadump serve 1 {__version__}"
        code, microseconds = map(int, raw.send(b"summary\0--help\0", out.fileno(), err.fileno()).split())
        assert code == Code.OK
        assert microseconds > 0
        assert (tmp_path / "out").read_text().startswith("arenadump summary TARGET")
        raw.socket.close()
        assert raw.process.wait() == Code.OK


@pytest.mark.parametrize(
    ("request_", "files"),
    [(b"summary", 2), (b"summary\0", 1), (b"summary\0", 0), (b"summary\0", 3), (b"a\0" * 64, 2), (b"", 2)],
)
def test_what_is_no_request_ends_it(arenadump: harness.Arenadump, request_: bytes, files: int) -> None:
    with Raw(arenadump) as raw, ExitStack() as closing:
        open_ones = [closing.enter_context(Path(os.devnull).open("wb")).fileno() for _ in range(files)]
        assert raw.send(request_, *open_ones) == b""
        assert raw.process.wait() == (Code.BAD_INPUT if request_ else Code.OK)


def test_it_is_for_arenascope_alone(arenadump: harness.Arenadump) -> None:
    done = subprocess.run(
        [str(arenadump.path), "serve"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == Code.USAGE
    assert "serve is for arenascope" in done.stderr
    assert "unknown command 'serve'" in arenadump.run("serve", "more").stderr


def test_it_inherits_nothing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, Raw(arenadump, file.fileno()) as raw:
        names = [name for _, name in descriptors(raw.process.pid)]
        assert str(tmp_path / "file") not in names
        assert sum(name.startswith("socket:") for name in names) == 1


def test_another_version_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "arenadump"
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(fake))
    for hello, version in (
        ("arenadump serve 1 0.0.1", "its protocol and its version are 1 0.0.1"),
        (f"arenadump serve 2 {__version__}", f"its protocol and its version are 2 {__version__}"),
        ("", "it does not say its version"),
    ):
        fake.write_text(f"#!/bin/sh\nprintf 'so it is' >&2\nprintf %s '{hello}' >&0\n")
        fake.chmod(0o700)
        with served() as (server, _), pytest.raises(ArenascopeError, match=re.escape(version)) as caught:
            server.ask(["summary", "1"], None)
        assert caught.value.code == Code.INTERNAL
        assert f"whose protocol and version are 1 {__version__}" in str(caught.value)
        assert "so it is" in str(caught.value)


def test_nothing_is_left_behind_a_request(churn: harness.Churn, tmp_path: Path) -> None:
    """Descriptors, memory and children, behind requests that succeed, and some that fail."""
    cases: list[tuple[str | int | Path, ...]] = [
        ("dump", *FREEZE, "-o", "-", "--", churn.pid),
        ("summary", "--json", "--mode=clone", "--", churn.pid),
        ("summary", "--json", "--mode=live", "--", churn.pid),
        ("summary", 999_999_999),
        ("policy", "--json", churn.pid),
        ("dump", "--mode=freeze", "--max-pause=1us", "-o", "-", "--", churn.pid),
        ("dump", "--chunks", "-o", "-", "--", churn.pid),
    ]
    with served() as (server, said), (tmp_path / "dump").open("w+b") as file:
        for case in cases:
            ask(server, *case, output=file.fileno())
        pid = pid_of(server)
        before, open_before = kilobytes(pid), descriptors(pid)
        for number in range(REQUESTS):
            ask(server, *cases[number % len(cases)], output=file.fileno())
        assert descriptors(pid) == open_before
        assert kilobytes(pid) <= before + before // 8
        assert not Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert pid_of(server) == pid
    assert not said
    assert is_as_before(churn.pid)


def queued(server: ArenadumpServer) -> int:
    """Bytes that the server has not taken from its socket."""
    waiting = array.array("i", [0])
    assert server._running
    fcntl.ioctl(server._running._socket, termios.TIOCOUTQ, waiting)
    return waiting[0]


def stop(server: ArenadumpServer) -> None:
    """Have it stand still: what is sent before it does so may still be read."""
    stat = Path(f"/proc/{pid_of(server)}/stat")
    os.kill(pid_of(server), signal.SIGSTOP)
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it has not stopped")


def has_died(pid: int) -> bool:
    """SIGKILL takes its time: until then it can still take a request, which then fails."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@contextmanager
def in_flight(server: ArenadumpServer, *words: object) -> Iterator[list[Any]]:
    """A request that a server which stands still has not read yet. Yields what comes of it, in the end."""
    outcome: list[Any] = []

    def request() -> None:
        try:
            outcome.append(run_arenadump([str(word) for word in words]))
        except ArenascopeError as error:
            outcome.append(error)

    stop(server)
    thread = threading.Thread(target=request)
    thread.start()
    until(lambda: queued(server), "no request")
    try:
        yield outcome
    finally:
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_server_that_dies_fails_one_request(churn: harness.Churn, number: signal.Signals) -> None:
    with served() as (server, said):
        assert ask(server, "policy", churn.pid)[0] == Code.OK
        first = pid_of(server)
        with in_flight(server, "summary", "--json", churn.pid) as outcome:
            os.kill(first, number)
            os.kill(first, signal.SIGCONT)
        (error,) = outcome
        assert isinstance(error, ArenascopeError)
        assert error.code == 128 + number
        assert f"was killed by signal {number:d}" in str(error)
        assert not said
        assert run_arenadump(["summary", "--json", str(churn.pid)])
        assert pid_of(server) != first
    assert said == [f"arenadump serve was killed by signal {number:d}: another one is started"]


def test_a_server_that_died_as_it_started(
    churn: harness.Churn, arenadump: harness.Arenadump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has said its version, by a signal: that is no other version."""
    dies_once = tmp_path / "arenadump"
    dies_once.write_text(
        f'#!/bin/sh\n[ "$1" = serve ] && mkdir "{tmp_path}/once" 2>/dev/null && kill -9 $$\n'
        f'exec "{arenadump.path.resolve()}" "$@"\n'
    )
    dies_once.chmod(0o755)
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(dies_once))
    with served() as (server, said):
        with pytest.raises(ArenascopeError, match="was killed by signal 9"):
            run_arenadump(["summary", "--json", str(churn.pid)])
        assert ask(server, "policy", churn.pid)[0] == Code.OK
    assert said == ["arenadump serve was killed by signal 9: another one is started"]


def test_a_server_that_died_at_rest_is_replaced(churn: harness.Churn) -> None:
    with served() as (server, said):
        ask(server, "policy", churn.pid)
        child = pid_of(server)
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert ask(server, "policy", churn.pid)[0] == Code.OK
    assert said == ["arenadump serve was killed by signal 9: another one is started"]


def test_a_server_that_died_at_rest_is_waited_for(churn: harness.Churn) -> None:
    with served() as (server, said):
        ask(server, "policy", churn.pid)
        child = pid_of(server)
        os.kill(child, signal.SIGKILL)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not Path(f"/proc/{child}").exists()
    assert not said


def test_processor_time_counts_once(churn: harness.Churn) -> None:
    """That of a server that runs, too; and it never goes back when the server has ended."""
    before = arenadump.seconds_of_children()
    with served() as (server, _):
        ask(server, "summary", "--json", churn.pid)
        first = arenadump.seconds_of_children()
        assert first > before
        ask(server, "summary", "--json", churn.pid)
        second = spent()
        running = server.seconds_of_children()
        assert running > first
        assert second > running  # and our own
    assert arenadump.seconds_of_children() >= running


def test_another_thread_starts_a_program(churn: harness.Churn) -> None:
    """One request at a time: who comes meanwhile does not wait for another's target."""
    with served() as (server, _):
        ask(server, "policy", churn.pid)
        with in_flight(server, "policy", "--json", churn.pid) as outcome:
            assert server.ask(["policy", str(churn.pid)], None) is None
            assert "no agent" in run_arenadump(["policy", str(churn.pid)])
            os.kill(pid_of(server), signal.SIGCONT)
        assert json.loads(outcome[0])["policy"] == "no_agent"


CLIENT = """
import sys
from arenascope.wire import arenadump
from arenascope.wire.arenadump import run_arenadump
from arenascope.wire.arenadump_server import serving
with serving() as server:
    run_arenadump(["policy", sys.argv[1]])
    print(server._running.child.pid, flush=True)
    while True:
        run_arenadump(["summary", "--json", "--mode=" + sys.argv[2], "--", sys.argv[1]])
"""


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_kill_9_of_the_client_ends_the_server(mode: str) -> None:
    """At any time: the target is as it was."""
    chance = random.Random(mode)
    with growing() as grows:
        grows.grow(2000)
        for _ in range(KILLS):
            with subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(grows.pid), mode], stdout=subprocess.PIPE, text=True
            ) as client:
                assert client.stdout
                server = int(client.stdout.readline())
                time.sleep(chance.uniform(0, 0.1))
                client.kill()
            until(lambda: not Path(f"/proc/{server}").exists(), "the server has not ended")  # noqa: B023
            until(lambda: is_as_before(grows.pid), "the process is not as it was")


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_kill_9_of_the_server_harms_no_target(mode: str) -> None:
    """At any time: the command goes on, and the target is as it was."""
    chance = random.Random(mode)
    failed = 0
    with growing() as grows, served() as (server, said):
        grows.grow(2000)
        words = ["summary", "--json", f"--mode={mode}", "--", str(grows.pid)]
        longest = min(timeit.repeat(lambda: ask(server, *words), number=1))
        for _ in range(KILLS):
            ask(server, "policy", grows.pid)
            child = pid_of(server)
            timer = threading.Timer(chance.uniform(0, longest), os.kill, [child, signal.SIGKILL])
            timer.start()
            code = ask(server, *words)[0]
            assert code in {Code.OK, -signal.SIGKILL}
            failed += code != Code.OK
            timer.join()
            until(lambda: has_died(child), "the server was killed and lives")  # noqa: B023
            until(lambda: is_as_before(grows.pid), "the process is not as it was")
            assert json.loads(run_arenadump(words))["target"]["pid"] == grows.pid
    assert len(said) == KILLS
    assert failed


def test_a_request_is_interrupted(churn: harness.Churn) -> None:
    """Ctrl-C at a command: the server goes with it, as a program that was started would."""
    with served() as (server, _):
        ask(server, "policy", churn.pid)
        child = pid_of(server)
        stop(server)

        def interrupt() -> None:
            until(lambda: queued(server), "no request")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            server.ask(["policy", str(churn.pid)], None)
        thread.join()
        assert not Path(f"/proc/{child}").exists()
        assert ask(server, "policy", churn.pid)[0] == Code.OK
