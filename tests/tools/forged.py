# SPDX-License-Identifier: MIT
"""A program whose memory resembles a runtime's, under the name by which the inspector recognises that runtime."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import programs


@contextmanager
def running(program: Path, *kind: str) -> Iterator[int]:
    """The PID of the program, once it has laid out memory of this kind and says so."""
    with subprocess.Popen([program, *kind], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def named(name: str, scratch: Path, source: str, *flags: str) -> Path:
    """The program of tests/programs/ under another name."""
    return Path(shutil.copy(programs.build(source, *flags), scratch / name))
