# SPDX-License-Identifier: MIT
"""inspector/trim in a process under any libc: tests/programs/trim_preload, built with the core, and talked to."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import programs
from .paths import ROOT
from .preload import preloadable

INSPECTOR = ROOT / "inspector"
FOLDERS = ("base", "model", "target", "libc", "malloc", "trim")
UNKNOWN = -1
CONFIG = '#pragma once\n#define AS_VERSION "test"\n'  # neither libdw nor libpng


def build(arch: str = "amd64") -> Path:
    """The library to preload, for every libc that there is a test for. Raises debian.UnavailableError."""
    if "TEST_PROGRAMS" in os.environ:
        return programs.carried("trim-preload")
    sources = [programs.SOURCES / "trim_preload" / "preload.c"]
    other = "_aarch64" if arch == "amd64" else "_x86_64"
    files = (path for folder in FOLDERS for path in sorted((INSPECTOR / folder).rglob("*.c")))
    sources += [path for path in files if not path.stem.endswith(other)]
    # close_range is younger than the oldest headers, and guarded at run time.
    command = [
        *programs.portable_command(arch),
        *programs.FLAGS,
        "-fPIC",
        "-fvisibility=hidden",
        "-D_GNU_SOURCE=",
        "-DSYS_close_range=436",
    ]
    read = [path.read_bytes() for path in [*sources, *sorted(INSPECTOR.rglob("*.h"))]]
    key = hashlib.sha256(b"".join(read) + repr(command).encode()).hexdigest()[:16]
    programs.BUILT.mkdir(parents=True, exist_ok=True)
    library = programs.BUILT / f"trim-preload-{key}.so"
    if library.exists():
        return preloadable(library)
    with tempfile.TemporaryDirectory(dir=programs.BUILT) as scratch:
        (Path(scratch) / "config.h").write_text(CONFIG)
        command += ["-I", str(INSPECTOR), "-I", str(INSPECTOR / "include"), "-I", scratch]

        def compiled(numbered: tuple[int, Path]) -> str:
            out = f"{scratch}/{numbered[0]}.o"
            subprocess.run([*command, "-c", "-o", out, str(numbered[1])], check=True)
            return out

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compiled, enumerate(sources)))
        built = Path(scratch) / "preload.so"
        subprocess.run([*command, "-shared", "-Wl,-z,defs", "-o", str(built), *objects, "-lpthread"], check=True)
        programs.publish(built, library)
    return preloadable(library)


@dataclass
class Arena:
    """struct as_trim_arena; UNKNOWN where it is not known."""

    address: int
    resident: int
    releasable: int
    withheld: int
    returned: int
    returned_swap: int
    released: int
    longest_hold_ns: int
    skipped: int


@dataclass
class Outcome:
    """struct as_trim_outcome."""

    arenas: list[Arena] = field(default_factory=list)
    elapsed_ns: int = 0
    cpu_ns: int = 0
    note: str = ""
    error: str = ""
    trims: int = 0

    def sum(self, name: str) -> int:
        values = [getattr(arena, name) for arena in self.arenas]
        assert UNKNOWN not in values, (name, self)
        return sum(values)

    @property
    def longest_ns(self) -> int:
        return max(arena.longest_hold_ns for arena in self.arenas)


class Trimmer:
    """The preloaded library in one process. `environment` makes a process one of those."""

    def __init__(self, library: Path, directory: Path) -> None:
        self.path = str(directory / "trim")
        self.environment = {"LD_PRELOAD": str(library), "TRIM_SOCKET": self.path}
        self.socket: socket.socket | None = None

    def run(self, *, deep: bool = False, hold_ns: int = 0, arena: int = 0) -> Outcome:
        return self.ask(f"run {int(deep)} {hold_ns} {arena}")

    def forecast(self, *, deep: bool = False, hold_ns: int = 0, arena: int = 0) -> Outcome:
        return self.ask(f"forecast {int(deep)} {hold_ns} {arena}")

    def ask(self, request: str) -> Outcome:
        self.tell(request)
        return self.answer()

    def tell(self, request: str) -> None:
        for _ in range(100):
            if self.socket:
                break
            try:
                tried = socket.socket(socket.AF_UNIX)
                tried.connect(self.path)
                tried.settimeout(120)
                self.socket = tried
            except OSError:
                time.sleep(0.05)
        assert self.socket, "the preloaded library does not answer"
        self.socket.sendall(request.encode() + b"\n")

    def answer(self) -> Outcome:
        assert self.socket
        text = b""
        while not text.endswith(b"end\n"):
            more = self.socket.recv(1 << 16)
            assert more, f"the program died: {text.decode()}"
            text += more
        outcome = Outcome()
        for line in text.decode().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "arena":
                outcome.arenas.append(Arena(*map(int, rest.split())))
            elif kind == "time":
                outcome.elapsed_ns, outcome.cpu_ns = map(int, rest.split())
            elif kind == "note":
                outcome.note = rest
            elif kind == "error":
                outcome.error = rest
            elif kind == "trims":
                outcome.trims = int(rest)
        return outcome
