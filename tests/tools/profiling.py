# SPDX-License-Identifier: MIT
"""Profiles of running processes, and what they leave there."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import harness

AGENT = ("memfd:arenascope-agent", "libarenascope.so")
HOOKS = ("malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc", "dlclose")


def has_agent(pid: int) -> bool:
    """Whether the agent's library is mapped, by injection or by preloading."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return any(word in maps for word in AGENT)


class Profiling:
    """`arenadump profile`, from the time at which it records."""

    def __init__(self, arenadump: harness.Arenadump, pid: int, file: Path, *options: str) -> None:
        self.file = file
        command = [str(arenadump.path), "profile", str(pid), "-o", str(file), "--timeout=120s", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        self.said = self.process.stderr.readline()

    def end(self, by: int = signal.SIGINT) -> str:
        """Has it write its dump; what it said last."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        _, said = self.process.communicate(timeout=120)
        return said


@contextmanager
def profiling(arenadump: harness.Arenadump, pid: int, file: Path, *options: str) -> Iterator[Profiling]:
    """Records meanwhile; the dump is there afterwards."""
    made = Profiling(arenadump, pid, file, *options)
    try:
        assert "records who allocates" in made.said, made.said + made.end()
        yield made
        said = made.end()
        assert made.process.returncode == 0, said
    finally:
        made.process.kill()
        made.process.communicate()


def write_stacks_out(answer: dict[str, Any]) -> None:
    """Gives each site its frames, of the tree that it has an index in. Sites share the objects of frames."""
    frames, stacks = answer["frames"], answer["stacks"]
    for site in answer["sites"]:
        at, site["stack"] = site["stack"], []
        while at is not None:
            site["stack"].append(frames[stacks["frame"][at]])
            at = stacks["caller"][at]


def profile(arenadump: harness.Arenadump, target: int | Path) -> dict[str, Any]:
    """What arenadump says of a profile, each site with its frames."""
    found: dict[str, Any] = json.loads(arenadump.check("sites", "--json", target))
    write_stacks_out(found)
    return found


def recorded(arenadump: harness.Arenadump, pid: int, file: Path, seconds: float, *options: str) -> dict[str, Any]:
    """The profile of so many seconds."""
    arenadump.check("profile", pid, "-o", file, f"--for={seconds}s", "--timeout=120s", *options)
    return profile(arenadump, file)


@cache
def ending() -> int:
    """Where in the agent the function is that libc calls at the end of the first thread: no hook, and it stays."""
    agent = harness.agent_path(harness.arenadump_path())
    symbols = subprocess.run(["nm", agent], capture_output=True, text=True, check=True).stdout
    (address,) = re.findall(r"^(\w+) t first_leaves$", symbols, re.MULTILINE)
    return int(address, 16)


@cache
def length() -> int:
    """How many bytes the agent takes, from its first segment to its last."""
    agent = harness.agent_path(harness.arenadump_path())
    headers = subprocess.run(["readelf", "-lW", agent], capture_output=True, text=True, check=True).stdout
    segments = re.findall(r"^ +LOAD +\S+ 0x(\w+) \S+ \S+ 0x(\w+)", headers, re.MULTILINE)
    return max(int(start, 16) + int(size, 16) for start, size in segments)


def hooks_left(pid: int) -> Counter[str]:
    """How many words of each file's mappings, but the agent's, are addresses in the agent's code, but for `ending`."""
    maps = re.findall(r"^(\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    ours = [int(start, 16) for start, _, _, name in maps if any(word in name for word in AGENT)]
    if not ours:
        return Counter()
    # The recorder's code is the last segment: of the file where that was preloaded, else anonymous, behind the others.
    # What is behind it is not the agent's: the loader may put a thread's block there. Addresses of its variables are no
    # hooks: the first thread's block has one.
    low = min(ours)
    code = [
        (int(start, 16), int(end, 16))
        for start, end, access, _ in maps
        if "x" in access and low <= int(start, 16) < low + length()
    ]
    stays = low + ending()
    found: Counter[str] = Counter()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end, access, name in maps:
            if not name.startswith("/") or access[0] != "r" or any(word in name for word in AGENT):
                continue
            memory.seek(int(start, 16))
            try:
                words = memory.read(int(end, 16) - int(start, 16))
            except OSError:  # it has been unmapped since
                continue
            values = np.frombuffer(words[: len(words) // 8 * 8], "<u8")
            inside = sum((values >= start) & (values < end) for start, end in code)
            count = int((inside & (values != stays)).sum())
            if count:
                found[name] += count
    return found


def libc_as_in_its_file(pid: int) -> bool:
    """Whether what libc's file has at its beginning, its table of symbols among it, is so in memory."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        if len(words) == 6 and re.search(r"/libc(-2\.31)?\.so", words[5]) and words[2] == "00000000":
            start, end = (int(word, 16) for word in words[0].split("-"))
            with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                memory.seek(start)
                there = memory.read(end - start)
            return Path(f"/proc/{pid}/map_files/{words[0]}").read_bytes()[: end - start] == there
    raise AssertionError("no libc")
