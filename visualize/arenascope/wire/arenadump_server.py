# SPDX-License-Identifier: MIT
"""One `arenadump serve` for a command that takes many snapshots: it answers requests without another start.

docs/architecture.md has the protocol. A request that fails, also because the server dies, fails as an arenadump that is
started for it would; the next request starts a new server.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.signals import held_back, leaving
from arenascope.version import version
from arenascope.wire import arenadump
from arenascope.wire.arenadump import OVERRIDE, PROGRAM, Ended, find_arenadump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HELLO: Final = [PROGRAM, "serve", "1"]  # the last is the protocol's version
SERVED: Final = frozenset({"dump", "summary", "policy"})
APART: Final = ("--graph", "--objects", "--max-memory")  # options with which arenadump refuses to serve
MOST_BYTES: Final = 1 << 16  # of a message
ASKED_AGAIN: Final = 1000  # milliseconds between two questions whether we are to end
GONE: Final = (BrokenPipeError, ConnectionResetError)


class ArenadumpServer:
    """The program, from the first request on. It has one request at a time."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """It is not started yet. `say`: tells the user a line."""
        self._say: Final = say
        self._busy: Final = threading.Lock()
        self._counting: Final = threading.Lock()
        self._running: _Running | None = None
        self._lost: str | None = None  # how the last one ended, of itself
        self._spent = 0.0

    def ask(self, arguments: Sequence[str], output: int | None) -> Ended | None:
        """What came of a command. None: it is not served, or another thread has a request under way."""
        request = b"".join(os.fsencode(word) + b"\0" for word in arguments)
        if len(request) > MOST_BYTES or not self._busy.acquire(blocking=False):
            return None
        try:
            return self._ask(request, output) if self._may_ask(arguments) else None
        except BaseException:
            self._end()
            raise
        finally:
            self._busy.release()

    def close(self) -> None:
        """End it: it has nothing to do. However we end, it sees the end of its socket, and ends."""
        with self._busy:
            self._end()

    def seconds_of_children(self) -> float:
        """Processor time of programs that we have waited for, and of the server until its last answer."""
        with self._counting:
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            return children.ru_utime + children.ru_stime + self._spent

    def _may_ask(self, arguments: Sequence[str]) -> bool:
        """Arenadump does not inspect itself."""
        if arguments[0] not in SERVED or any(word.startswith(APART) for word in arguments):
            return False
        return not self._running or arguments[-1] != str(self._running.child.pid)

    def _ask(self, request: bytes, output: int | None) -> Ended:
        if self._running and self._running.has_ended():
            self._bury(self._running)
        if not self._running:
            if self._lost:
                self._say(f"{PROGRAM} serve {self._lost}: another one is started")
            self._lost = None
            with held_back() as release:
                self._running = _Running()
                release()
                self._running.greet()
        code, seconds, printed, remarks = self._running.answer_to(request, output)
        program = self._running.program
        if code is None:
            remarks += self._running.words()
            code = self._bury(self._running) or Code.INTERNAL  # without an answer nothing has come of it
        else:
            with self._counting:
                self._spent = seconds
        return Ended(program, code, printed.decode("utf-8", "replace"), remarks.decode("utf-8", "replace"))

    def _bury(self, running: _Running) -> int:
        """Its exit code, as Popen has it, once it has ended."""
        os.waitid(os.P_PID, running.child.pid, os.WEXITED | os.WNOWAIT)
        with self._counting:  # from now on it is a child that we have waited for
            code = running.child.wait()
            self._spent = 0.0
        running.close()
        self._running = None
        self._lost = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return code

    def _end(self) -> None:
        if self._running:
            os.kill(self._running.child.pid, signal.SIGKILL)  # Popen's would wait for one that has ended
            self._bury(self._running)
            self._lost = None


class _Running:
    """A server that runs, or has ended and was not waited for yet."""

    def __init__(self) -> None:
        self.program: Final = find_arenadump()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._words: Final = os.memfd_create(PROGRAM, os.MFD_CLOEXEC)  # what it says outside of requests
        command, nothing = [self.program, "serve"], subprocess.DEVNULL
        try:
            self.child: Final[subprocess.Popen[bytes]] = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=nothing, stderr=self._words
            )
        except OSError as error:
            self.close()
            raise ArenascopeError(Code.INTERNAL, f"{self.program} could not be started: {error.strerror}") from error
        finally:
            theirs.close()

    def close(self) -> None:
        self._socket.close()
        os.close(self._words)

    def has_ended(self) -> bool:
        """It says nothing unasked: what there is to read is the end."""
        poll = select.poll()  # select() takes no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def words(self) -> bytes:
        return os.pread(self._words, MOST_BYTES, 0)

    def _was_killed(self) -> bool:
        ended = os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
        return ended is not None and ended.si_code in {os.CLD_KILLED, os.CLD_DUMPED}

    def greet(self) -> None:
        """ArenascopeError: it is not of our version. One that was killed before it said so answers no request."""
        (hello,) = _read_all({self._socket.fileno(): 1})
        if not hello and self._was_killed():
            return
        words = hello.decode("utf-8", "replace").split()
        if words == [*HELLO, version()]:
            return
        known = words[:2] == HELLO[:2]
        found = f"its protocol and its version are {' '.join(words[2:])}" if known else "it does not say its version"
        said = self.words().decode("utf-8", "replace").strip()
        raise ArenascopeError(
            Code.INTERNAL,
            f"{self.program} cannot serve this arenascope, whose protocol and version are {HELLO[-1]} {version()}: "
            f"{found}. Install both of one version, or name another program in ${OVERRIDE}\n{said}".strip(),
        )

    def answer_to(self, request: bytes, output: int | None) -> tuple[int | None, float, bytes, bytes]:
        """Exit code, its processor time until now, stdout and stderr. No code: it has ended."""
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(1 if output is not None else 2)]
        written = [end for _, end in pipes]
        try:
            try:
                with suppress(*GONE):  # then it answers nothing, too
                    socket.send_fds(self._socket, [request], written if output is None else [output, *written])
            finally:
                for end in written:
                    os.close(end)
            answer, *said = _read_all({self._socket.fileno(): 1, **{end: None for end, _ in pipes}})
        finally:
            for end, _ in pipes:
                os.close(end)
        code, _, spent = answer.partition(b" ")
        return int(code) if code else None, int(spent or 0) / 1e6, b"" if output is not None else said[0], said[-1]


def _read_all(wanted: dict[int, int | None]) -> list[bytes]:
    """What there is to read at descriptors, to its end, or so many messages."""
    made: dict[int, list[bytes]] = {descriptor: [] for descriptor in wanted}
    poll = select.poll()
    for descriptor in wanted:
        poll.register(descriptor, select.POLLIN)
    left = set(wanted)
    while left:
        if leaving.is_set():
            raise ArenascopeError(128 + signal.SIGTERM, "the command is being ended")
        for descriptor, _ in poll.poll(ASKED_AGAIN):
            part = _read(descriptor)
            made[descriptor].append(part)
            if not part or len(made[descriptor]) == wanted[descriptor]:
                poll.unregister(descriptor)
                left.remove(descriptor)
    return [b"".join(parts) for parts in made.values()]


def _read(descriptor: int) -> bytes:
    with suppress(ConnectionResetError):  # it has died before it has read the request: the end, too
        return os.read(descriptor, MOST_BYTES)
    return b""


def _nothing(_: str) -> None:
    pass


@contextmanager
def serving(say: Callable[[str], None] = _nothing) -> Iterator[ArenadumpServer]:
    """Meanwhile run_arenadump() asks a server, where that may be. `say`: tells the user a line."""
    server = ArenadumpServer(say)
    before, arenadump.ask_server = arenadump.ask_server, server.ask
    counted, arenadump.seconds_of_children = arenadump.seconds_of_children, server.seconds_of_children
    try:
        yield server
    finally:
        arenadump.ask_server, arenadump.seconds_of_children = before, counted
        server.close()
