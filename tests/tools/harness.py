# SPDX-License-Identifier: MIT
"""The truth harness: tests/programs/churn under some libc, and arenadump's snapshot of it, both as Python values."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from .debian import NATIVE, Libc, emulator
from .preload import preloadable

HEADER = 16  # a chunk begins this many bytes before what malloc returned, on every 64-bit glibc


class Churn:
    """The program at the other end of two pipes. Between commands all of its threads are parked."""

    def __init__(
        self, command: list[str], *, tunables: str = "", directory: Path | None = None, core: bool = False
    ) -> None:
        self.process = subprocess.Popen(
            ["prlimit", f"--core={'unlimited' if core else 0}", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=directory,
            env={**os.environ, "GLIBC_TUNABLES": tunables},
        )
        self._answer()

    def __enter__(self) -> Churn:  # noqa: PYI034 - Self is younger than our oldest Python
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, command: str) -> list[list[str]]:
        """Has the program do a command; its answer, as lines of words."""
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def held(self) -> dict[int, tuple[int, int]]:
        """Chunk address → requested and usable size, of every block the program holds."""
        return {int(a, 16) - HEADER: (int(size), int(usable)) for _, a, size, usable in self.ask("held")}

    def freed(self) -> list[tuple[int, int, int]]:
        """Chunk address, requested size, and which of its thread's frees of that size it was."""
        return [(int(a, 16) - HEADER, int(size), int(ordinal)) for _, a, size, ordinal in self.ask("freed")]

    def mallinfo(self) -> dict[str, int]:
        return {name: int(value) for name, value in self.ask("mallinfo")}

    def _answer(self) -> list[list[str]]:
        assert self.process.stdout
        lines: list[list[str]] = []
        for line in self.process.stdout:
            if line == "end\n":
                return lines
            lines.append(line.split())
        raise AssertionError(f"the program died: {self.process.wait()}")


def under(libc: Libc, program: Path, *options: str) -> list[str]:
    """The command that runs `program` under a libc: by its own loader, or under qemu for another architecture."""
    command = libc.command(program, *options)
    return command if libc.arch == NATIVE else [emulator(libc.arch), *command]


@dataclass
class Chunks:
    """What `arenadump chunks` lists: class → chunk address → size."""

    of: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    mmapped: set[int] = field(default_factory=set)  # those that have a mapping of their own

    def __getitem__(self, name: str) -> dict[int, int]:
        return self.of[name]


class Arenadump:
    """The C program under test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str | int | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs it, whatever comes of it."""
        command = [str(self.path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)

    def check(self, *arguments: str | int | Path, **options: Any) -> str:
        """Runs it; its output. What it says on stderr shows when it fails.

        A freeze may take as long as it needs: by itself it is given up after two seconds, which a busy machine exceeds.
        """
        words = " ".join(map(str, arguments))
        if re.search("--mode[= ]freeze", words) and "--max-pause" not in words:
            arguments = (*arguments, "--max-pause=600s")
        done = self.run(*arguments, **options)
        assert done.returncode == 0, f"arenadump {arguments} ended with {done.returncode}: {done.stderr}"
        return done.stdout

    def summary(self, target: int | Path, *options: str) -> dict[str, Any]:
        return json.loads(self.check("summary", "--json", *options, target))  # type: ignore[no-any-return]

    def chunks(self, target: int | Path, *options: str) -> Chunks:
        found = Chunks()
        for line in self.check("chunks", *options, target).splitlines():
            words = line.split()
            address, size, name = int(words[0], 16), int(words[1]), words[2]
            assert address not in found[name], f"chunk {words[0]} is listed twice"
            found[name][address] = size
            if "mmapped" in words[3:]:
                found.mmapped.add(address)
        return found


def few(answer: Any) -> Any:
    """The same with 50 entries of each array: to validate all of a profile takes seconds."""
    if isinstance(answer, list):
        return [few(each) for each in answer[:50]]
    return {name: few(each) for name, each in answer.items()} if isinstance(answer, dict) else answer


def smaps(pid: int, field_name: str) -> int:
    """The sum of a field of /proc/PID/smaps over all mappings, in bytes: the kernel's own word."""
    text = Path(f"/proc/{pid}/smaps").read_text()
    return 1024 * sum(map(int, re.findall(rf"^{field_name}:\s+(\d+) kB$", text, re.MULTILINE)))


def agent_path(arenadump: Path) -> Path:
    """The agent's library, by a name to preload: beside arenadump when installed, else where the build leaves both."""
    folder = arenadump.resolve().parent
    places = [folder / "libarenascope.so", folder.parent / "agent" / "libarenascope.so"]
    return preloadable(next(place for place in places if place.exists()))


def arenadump_path() -> Path:
    """$ARENADUMP, or the program beside the Python that runs the tests."""
    return Path(os.environ.get("ARENADUMP", Path(sys.executable).parent / "arenadump"))
