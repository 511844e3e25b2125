# SPDX-License-Identifier: MIT
"""Programs with the agent preloaded, in a directory for their dumps, logs and marks, and what can be seen of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from . import harness

PATIENCE = 240  # seconds: after a snapshot that takes a second of a processor, the agent rests for 200


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

    def go(self) -> None:
        """Lets programs go on that wait "until go"."""
        (self.folder / "go").touch()

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


def until(true: Callable[[], Any], what: str, more: Callable[[], str] = str, seconds: float = PATIENCE) -> Any:
    """Asks again and again; a question that takes long is not asked all the time."""
    deadline = time.monotonic() + seconds
    while (asked := time.monotonic()) < deadline:
        found = true()
        if found:
            return found
        time.sleep(max(0.02, time.monotonic() - asked))
    raise AssertionError(f"{what} within {seconds} s: {more()}")


def let_others_in(folder: Path) -> None:
    """Other users get through to a directory of pytest's, which lets none but its own user into those above."""
    for each in [folder, *folder.parents][:4]:  # with a directory for each process of `make test`
        if each == Path(tempfile.gettempdir()):
            break
        each.chmod(each.stat().st_mode | 0o755)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


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
    """The signals that wait for the process, a bit each."""
    return _signals(pid, "ShdPnd")


def caught(pid: int) -> int:
    """The signals that it has a handler for, likewise."""
    return _signals(pid, "SigCgt")


def _signals(pid: int, which: str) -> int:
    found = re.search(rf"^{which}:\s+([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1], 16) if found else 0


def in_use(arenadump: harness.Arenadump, dump: Path) -> int:
    return int(arenadump.summary(dump)["ledger"]["in_use"])
