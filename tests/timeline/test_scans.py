# SPDX-License-Identifier: MIT
"""Scans of /proc: what a scan has read before is taken again only where nothing of it has changed."""

from __future__ import annotations

import subprocess
import time

import pytest

from arenascope.processes import PROC, all_processes

pytestmark = pytest.mark.check


def test_a_scan_tells_what_a_process_is_now() -> None:
    with subprocess.Popen(["sh", "-c", "read go; exec sleep 1000"], stdin=subprocess.PIPE) as child:
        try:
            _scan_while_it_changes(child)
        finally:
            child.kill()


def _scan_while_it_changes(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin
    before = all_processes()[child.pid]
    assert all_processes()[child.pid].identity == before.identity
    child.stdin.write(b"\n")
    child.stdin.flush()
    while (PROC / str(child.pid) / "comm").read_text() != "sleep\n":
        time.sleep(0.01)
    after = all_processes()[child.pid]
    assert (before.comm, after.comm) == ("sh", "sleep")
    assert after.identity == before.identity
    child.kill()
    while (PROC / str(child.pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert child.pid not in all_processes()
    assert all_processes(zombies=True)[child.pid].zombie
