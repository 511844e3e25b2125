# SPDX-License-Identifier: MIT
"""`arenascope run --leaks`: a snapshot of what each process of a command still holds when it ends.

The agent in the process connects at exit(), and waits until the connection is closed (inspector/agent/exit_leaks.c).
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from arenascope import api
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.render.graph import render_leaks
from arenascope.render.terminal import console
from arenascope.signals import heard, waking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from arenascope.suppressions import LeakLimit

VARIABLE: Final = "ARENASCOPE_EXIT_LEAKS"
CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
BACKLOG: Final = 128


class ExitSnapshots:
    """Takes the processes that wait at their exit(), one after the other."""

    def __init__(self, limit: LeakLimit) -> None:
        """Listen at an address that the kernel chooses."""
        self.limit = limit
        self.code = Code.OK
        self.seen: set[int] = set()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.listener.bind("")
        self.listener.listen(BACKLOG)

    @property
    def name(self) -> str:
        """What the agents are told: the address without its leading NUL."""
        name: bytes = self.listener.getsockname()
        return name[1:].decode("ascii")

    def take(self) -> bool:
        """Inspect the next process that waits; False: none does."""
        try:
            waiting, _ = self.listener.accept()
        except BlockingIOError:
            return False
        with waiting:
            pid, uid, _ = CREDENTIALS.unpack(
                waiting.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            )
            # Anybody on this machine may connect. Root's commands may have changed their user.
            if uid == os.geteuid() or os.geteuid() == 0:
                self._snapshot(pid)
        return True

    def _snapshot(self, pid: int) -> None:
        if pid == 0:
            click.echo("arenascope: a process of another PID namespace has ended without a snapshot", err=True)
            return
        try:
            facts = api.leaks(pid).facts
        except ArenascopeError as error:
            click.echo(f"arenascope: no snapshot of the end of process {pid}: {error}", err=True)
            return
        self.seen.add(pid)
        console(stderr=True).print(render_leaks(facts), crop=False)
        excess = self.limit.excess(facts)
        if excess:
            click.echo(f"arenascope: process {pid}: {excess}", err=True)
            self.code = Code.LEAKS


def run_to_its_end(program: str, command: Sequence[str], environment: dict[str, str], snapshots: ExitSnapshots) -> int:
    """Run the command. Return its exit code (128 + the signal that ended it); where it is 0, the snapshots'."""
    passing = _Passing()
    with passing.listening() as woken:
        with subprocess.Popen(command, executable=program, env={**environment, VARIABLE: snapshots.name}) as child:
            passing.to(child)
            _serve(child, snapshots, woken)
            status = child.wait()
        while snapshots.take():
            pass
    snapshots.listener.close()
    if child.pid not in snapshots.seen:
        how = f"was ended by signal {-status}" if status < 0 else "ended without exit()"
        who = printable(command[0])
        click.echo(f"arenascope: {who} {how}, or has no agent: nobody has inspected what it held", err=True)
        if snapshots.limit.most is not None and snapshots.code == Code.OK:
            snapshots.code = Code.TARGET_GONE
    return 128 - status if status < 0 else status or snapshots.code


def _serve(child: subprocess.Popen[bytes], snapshots: ExitSnapshots, woken: int) -> None:
    """Inspect each process that waits, until the child has ended. `woken`: readable when a signal has come."""
    ended = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for waited in (snapshots.listener, ended, woken):
                selector.register(waited, selectors.EVENT_READ)
            while all(key.fd != ended for key, _ in selector.select()):
                heard(woken)
                snapshots.take()
    finally:
        os.close(ended)


class _Passing:
    """Passes on to the command what is sent to this process alone, from before the command is started."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._came: list[int] = []

    @contextmanager
    def listening(self) -> Iterator[int]:
        """For as long as this lasts. Yields the descriptor that a signal makes readable."""
        # Keys of the terminal reach the child by themselves. It would inherit SIG_IGN, but inherits no handler.
        handlers = dict.fromkeys((signal.SIGINT, signal.SIGQUIT), self._leave)
        handlers.update(dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._pass_on))
        with waking({n: each for n, each in handlers.items() if signal.getsignal(n) != signal.SIG_IGN}) as woken:
            yield woken

    def to(self, child: subprocess.Popen[bytes]) -> None:
        """The command has begun: it gets what has come, and what comes."""
        self._child = child
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # what inspects the command's end inherits this: keys do not end it
        while self._came:
            child.send_signal(self._came.pop(0))

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._child:
            self._child.send_signal(number)
        else:
            self._came.append(number)

    def _leave(self, number: int, _: FrameType | None) -> None:
        pass
