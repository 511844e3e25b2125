# SPDX-License-Identifier: MIT
"""Profiles that the live view has switched on: an `arenadump profile` for each, which never outlives the view."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.live.actions import new_file
from arenascope.signals import leaving
from arenascope.watch.poll import still
from arenascope.wire import commands

if TYPE_CHECKING:
    from arenascope.processes import Identity, Process

PROGRAM: Final = "arenadump"
NAP: Final = 0.05  # seconds
LAST: Final = 2.0  # seconds for the profiles to end when the view ends
MOST: Final = 1 << 16  # bytes of what arenadump says


class ProfileJob:
    """One process's profile. Its program ends with its standard input: a pipe that ends if we are killed."""

    def __init__(self, process: Process) -> None:
        """Start it. ArenascopeError, OSError: that is not possible."""
        self.process = process
        self.file = new_file(process, "profile.dump")
        self.since = time.time()
        self._begun: Final = f"{PROGRAM}: process {process.pid} records who allocates"  # what it says then
        # A file takes what it says although nobody reads it.
        self._said = os.memfd_create("arenascope-record", os.MFD_CLOEXEC)
        try:
            self._child: Final = commands.start_profile(str(process.pid), self.file, self._said)
        except OSError:
            os.close(self._said)
            raise

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def has_begun(self) -> bool:
        """Whether the process records."""
        return any(line.startswith(self._begun) for line in self._words().splitlines())

    def _words(self) -> str:
        return os.pread(self._said, MOST, 0).decode("utf-8", "replace")

    def wait(self) -> None:
        """Until it has ended. ArenascopeError: we are to end before."""
        while self.runs():
            if leaving.wait(NAP):
                raise ArenascopeError(128 + signal.SIGTERM, "the view ends")

    def finish(self) -> None:
        """Have it write its dump."""
        self._child.send_signal(signal.SIGTERM)

    def abandon(self) -> None:
        """Have it end without a dump."""
        if self._child.stdin:
            self._child.stdin.close()

    def bury(self, patience: float) -> None:
        """Wait until it has ended; kill it when that takes too long. The agent sees the end of either."""
        self.abandon()
        try:
            self._child.wait(max(patience, 0.0))
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._said)

    def outcome(self) -> str:
        """What came of it, once it has ended. ArenascopeError: there is no dump."""
        code = self._child.returncode
        said = [line for line in self._words().splitlines() if line.startswith(f"{PROGRAM}: ")]
        announced = [line for line in said if not line.startswith(self._begun)]
        self.bury(0.0)
        if code < 0:
            raise ArenascopeError(128 - code, f"{PROGRAM} was killed by signal {-code}: no dump was written")
        if code:
            why = (
                announced[-1].partition(": ")[2]
                if announced
                else f"{PROGRAM} failed with exit code {code} and gave no reason"
            )
            raise ArenascopeError(code, why)
        return f"{self.file}: written, with the profile"


class ProfileJobs:
    """Those that go on. All but reading `on` and `ended` is for the thread that works for the view."""

    def __init__(self) -> None:
        """There are none."""
        self.on: dict[Identity, ProfileJob] = {}
        self.ended: dict[Identity, str] = {}  # by itself, and how

    def begin(self, process: Process) -> str:
        """Have a process record who allocates."""
        if process.identity in self.on:
            return f"process {process.pid} records already"
        self.ended = {identity: words for identity, words in self.ended.items() if identity != process.identity}
        made = ProfileJob(process)
        while made.runs() and not made.has_begun():
            if leaving.wait(NAP):
                made.bury(0.0)
                raise ArenascopeError(128 + signal.SIGTERM, "the view ends")
        if not made.runs():
            made.outcome()
            raise ArenascopeError(Code.INTERNAL, "the profile has ended at once")
        if not still(process):
            made.bury(LAST)
            raise ArenascopeError(Code.TARGET_GONE, "the process has ended")
        self.on = {**self.on, process.identity: made}
        return f"process {process.pid} records who allocates"

    def end(self, process: Process) -> str:
        """End a process's recording, with a dump."""
        made = self.on.get(process.identity)
        if made is None:
            return self.ended.get(process.identity, f"process {process.pid} does not record")
        made.finish()
        made.wait()
        self._drop(made)
        return made.outcome()

    def _drop(self, gone: ProfileJob) -> None:
        self.on = {identity: made for identity, made in self.on.items() if made is not gone}

    def check(self) -> list[str]:
        """What there is to say of those that have ended by themselves."""
        said = []
        for made in [each for each in self.on.values() if not each.runs()]:
            self._drop(made)
            try:
                words = made.outcome()
            except ArenascopeError as error:
                words = f"the profile of process {made.process.pid} has ended: {error}"
            self.ended = {**self.ended, made.process.identity: printable(words)}
            said.append(words)
        return said

    def close(self) -> None:
        """End all, without dumps."""
        end = time.monotonic() + LAST
        for made in self.on.values():
            made.abandon()
        for made in self.on.values():
            made.bury(end - time.monotonic())
        self.on = {}
