# SPDX-License-Identifier: MIT
"""What several test processes on one machine may do at a time: locks that end with their process, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .paths import ROOT

LOCKS = ROOT / ".cache" / "machine_lock"


@contextlib.contextmanager
def held(*, alone: bool) -> Iterator[None]:
    """Lasts while no other process is holds the lock with alone=True; with alone=True, while none holds it.

    A process that wants to be alone comes before all others. (The kernel does not give a lock to the first that waits.)
    """
    with _opened("poll") as lock:
        if alone:
            with _opened("waits-to-be-alone") as waits:
                fcntl.flock(waits, fcntl.LOCK_SH)
                fcntl.flock(lock, fcntl.LOCK_EX)
        while not alone and not _shared(lock):
            time.sleep(0.1)
        yield


def _shared(lock: IO[str]) -> bool:
    with _opened("waits-to-be-alone") as waits:
        if not _alone(waits):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def setting(path: Path, value: str) -> Iterator[None]:
    """`path`, a setting of the kernel's, has `value` for as long as any process wants it; then what it had before.

    A process that wants another value waits. Raises OSError if the value cannot be written.
    """
    name = str(path).strip("/").replace("/", "-")
    with _opened(name) as users:
        while not _joined(users, name, path, value):
            time.sleep(0.1)
        try:
            yield
        finally:
            with _opened(f"{name}.guard") as guard:
                fcntl.flock(guard, fcntl.LOCK_EX)
                if _alone(users):
                    users.seek(0)
                    path.write_text(users.read().split("\n", 1)[1])


def _joined(users: IO[str], name: str, path: Path, value: str) -> bool:
    with _opened(f"{name}.guard") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if _alone(users):
            before = path.read_text().strip()
            chosen = re.search(r"\[(\S+)\]", before)  # of a list of what can be chosen
            path.write_text(value)
            users.truncate(0)
            users.write(f"{value}\n{chosen[1] if chosen else before}")
            users.flush()
        users.seek(0)
        if users.read().split("\n", 1)[0] != value:
            return False
        fcntl.flock(users, fcntl.LOCK_SH)
        return True


def _alone(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _opened(name: str) -> IO[str]:
    LOCKS.mkdir(parents=True, exist_ok=True)
    return (LOCKS / name).open("a+")
