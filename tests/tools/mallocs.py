# SPDX-License-Identifier: MIT
"""Programs that run on another malloc, and what a look says of it."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from . import debian

MIB = 1 << 20


@contextmanager
def running(command: Sequence[str | Path], **environment: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def library(name: str) -> str:
    """The file name of an installed library. Skips the test where there is none."""
    found = ctypes.util.find_library(name)
    if not found:
        pytest.skip(f"lib{name} is not installed")
    return found


def allocator(summary: dict[str, Any], name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [r for r in summary["runtimes"] if r["runtime"] == name]
    assert len(found) == 1
    assert found[0]["row"] == "other_malloc"
    return found[0]


def check_rows(summary: dict[str, Any], resident: int) -> None:
    ledger, rss = summary["ledger"], summary["kernel"]["rss"]
    assert sum(ledger.values()) == rss
    assert ledger["other_malloc"] == resident
    assert ledger["other_anon"] < 0.1 * rss


def packaged(package: str, file: str, suite: str = "bookworm") -> str:
    """The path of a library of a Debian package, which is not installed for it."""
    try:
        root = debian.unpack(package, suite, debian.NATIVE, {"root": [package]})
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
    (path,) = root.glob(f"root/usr/lib/*/{file}")
    return str(path)
