# SPDX-License-Identifier: MIT
"""A process in a session of its own, what it prints as events, and its end: politely, then not.

Lines that begin with "arenascope " are for us (docs/experiments.md):

    arenascope mark NAME             take a sample now; an empty line on its stdin says that it was taken
    arenascope report KEY=VALUE...   operations, p99_ms, ...: numbers become figures of the run, words notes
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import exit_stop
from arenascope.private_files import create

if TYPE_CHECKING:
    import queue
    import resource
    from pathlib import Path

MOST_OUTPUT: Final = 1 << 20  # bytes that are kept of what it prints
MOST_LINE: Final = 1 << 16
GRACE: Final = 5.0  # seconds between asking it to end and ending it
PREFIX: Final = "arenascope "


class Event(NamedTuple):
    """Something that happened to a process."""

    source: str  # the process: "workload", "load"
    kind: str  # "line", "exiting" (`release` lets it go on), "exit"
    text: str
    time: float  # time.monotonic()


class Program:
    """A started process. What it prints goes to a file, and to `events` line by line."""

    def __init__(  # noqa: PLR0913 - what a process is started with
        self,
        source: str,
        command: list[str],
        env: dict[str, str],
        folder: Path,
        events: queue.Queue[Event],
        *,
        attended: bool = False,
        spoken_to: bool = True,
    ) -> None:
        """`source` names its events, and the file in `folder` that its output is kept in.

        `attended`: it is stopped for an "exiting" event when it is about to end. `spoken_to`: its stdin is ours; else
        there is nothing to read.
        """
        self._source, self._events, self._attended = source, events, attended
        self._released = threading.Event()
        self.begin = time.monotonic()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if spoken_to else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise ArenascopeError(Code.USAGE, f"{command[0]} could not be started: {error.strerror}") from error
        self.pid = self._process.pid
        self.status: int | None = None  # as subprocess counts: -N for signal N
        self.usage: resource.struct_rusage | None = None  # of its whole life
        self._reader = threading.Thread(target=self._read, args=(folder / f"{source}.txt",), daemon=True)
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._reader.start()
        self._waiter.start()

    def say(self, text: str) -> None:
        """Write to its stdin; nothing happens when it does not listen any more."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError, ValueError):
                self._process.stdin.write(text.encode())
                self._process.stdin.flush()

    def release(self) -> None:
        """Let it end."""
        self._released.set()

    def end(self) -> None:
        """End it and its process group, and reap it. It may have ended already."""
        self.release()
        if self.status is None:
            self._signal(signal.SIGTERM)
            self._waiter.join(GRACE)
            self._signal(signal.SIGKILL)
            self.reap()
        self._reader.join(GRACE)
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def reap(self) -> None:
        """Wait for the end of the process, whose pid is its own until then; keep its status and usage."""
        if self.status is None:
            self._waiter.join()
            self._signal(signal.SIGKILL)  # what is left of its group, whose number is taken until it is reaped
            _, status, self.usage = os.wait4(self.pid, 0)
            self._process.returncode = self.status = os.waitstatus_to_exitcode(status)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _wait(self) -> None:
        if self._attended:
            exit_stop.attend(self.pid, self._exiting)
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        now = time.monotonic()
        self._reader.join(1)  # what it said before its end comes before it, unless a child keeps the pipe open
        self._events.put(Event(self._source, "exit", "", now))

    def _exiting(self) -> None:
        self._events.put(Event(self._source, "exiting", "", time.monotonic()))
        self._released.wait()

    def _read(self, path: Path) -> None:
        assert self._process.stdout  # noqa: S101 - for the type: it was asked for
        room = MOST_OUTPUT
        with self._process.stdout as pipe, create(path) as kept:
            while True:
                line = pipe.readline(MOST_LINE)
                now = time.monotonic()
                if not line:
                    return
                if room > 0:
                    kept.write(line[:room])
                    kept.flush()
                    room -= len(line)
                    if room <= 0:
                        kept.write(b"\n[what followed was not kept]\n")
                self._events.put(Event(self._source, "line", line.decode("utf-8", "replace").rstrip("\r\n"), now))
