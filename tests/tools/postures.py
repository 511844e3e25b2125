# SPDX-License-Identifier: MIT
"""tests/programs/postures: a target that can be asked what it has noticed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def posture(program: Path, name: str, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*prefix, str(program), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process: subprocess.Popen[str]) -> str:
    """What the target says for itself now: it lives."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("?")
    process.stdin.flush()
    return process.stdout.readline().strip()


def notes(summary: dict[str, Any], code: str = "note") -> str:
    return "\n".join(warning["text"] for warning in summary["warnings"] if warning["code"] == code)
