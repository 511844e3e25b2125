# SPDX-License-Identifier: MIT
"""Programs of arm64 under qemu, with arm64's agent preloaded. Nobody can trace them: qemu's cores are inspected."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import debian, programs
from .paths import ROOT
from .preload import preloadable
from .stage import Stage

AGENT = ROOT / "build-static-arm64/inspector/agent/libarenascope.so"


def start(stage: Stage, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
    """Starts what arm64's loader, the first word of the command, is to run. Raises UnavailableError."""
    if not AGENT.exists():
        raise debian.UnavailableError(f"{AGENT} does not exist: make build-static-arm64")
    maps = programs.build_portable("emulated_maps", "arm64", "-shared", "-fPIC")
    preloaded = ["-E", f"LD_PRELOAD={maps} {preloadable(AGENT)}"]
    # qemu ends by the same signal, and writes nothing then.
    limited = ["sh", "-c", 'echo 0 > /proc/self/coredump_filter && exec "$@"', "sh", "prlimit", "--core=unlimited"]
    limited.append(debian.emulator("arm64"))
    return stage.start([*limited, *preloaded, *command], LD_PRELOAD="", **variables)


@contextmanager
def core(stage: Stage, process: subprocess.Popen[bytes]) -> Iterator[Path]:
    """The core that qemu writes when the process is ended by a signal, as long as it is inspected: it is large."""
    process.send_signal(signal.SIGTRAP)
    process.wait()
    try:
        (path,) = stage.folder.glob("qemu_*.core")
        yield path
    finally:
        for each in (*stage.folder.glob("qemu_*.core"), *stage.folder.glob("core*")):  # of the program, and of qemu
            each.unlink()


def function(program: Path, name: str) -> range:
    """The addresses behind the instructions of an exported function."""
    listed = subprocess.run(["readelf", "--dyn-syms", "--wide", program], capture_output=True, text=True, check=True)
    found = re.search(rf"([0-9a-f]+) +(\w+) FUNC .* {name}$", listed.stdout, re.MULTILINE)
    assert found, f"{program.name} has no {name}"
    start = int(found[1], 16)
    return range(start + 1, start + int(found[2], 0) + 1)
