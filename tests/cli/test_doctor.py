# SPDX-License-Identifier: MIT
"""`arenascope doctor`: what it finds on this machine, and what it says of what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import harness
from tools.command import arenascope

from arenascope.doctor import software
from arenascope.doctor.check import Status


def test_doctor(arenadump: harness.Arenadump) -> None:
    done = arenascope("doctor", "--json", arenadump=arenadump.path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "arenascope.doctor/1"
    assert report["ok"] is True
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["inspection"]["status"] == "ok", checks["inspection"]
    assert checks["libc"]["status"] == "ok", checks["libc"]
    assert {check["status"] for check in report["checks"]} <= {"ok", "limited", "missing"}
    lines = arenascope("doctor", arenadump=arenadump.path).stdout.splitlines()
    assert sum(line.startswith(("ok ", "limited ", "missing ")) for line in lines) == len(checks)


@pytest.mark.parametrize(
    ("words", "processor", "status"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1", "amx", Status.LIMITED),
        ("GNU gdb (Debian 13.1-3) 13.1", "avx", Status.OK),
        ("GNU gdb (Debian 16.3-1) 16.3", "amx", Status.OK),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 10.2-13.el9", "amx", Status.LIMITED),
        ("GNU gdb (GDB; openSUSE Tumbleweed) 14.2", "amx", Status.OK),
        ("", "amx", Status.LIMITED),
    ],
)
def test_doctor_tells_which_gdb_can_load_the_agent(words: str, processor: str, status: Status) -> None:
    check = software.judge_gdb("/usr/bin/gdb", software.gdb_version(words), amx=processor == "amx")
    assert check.status is status
    assert ("arenascope inject" in check.found) == (status is Status.LIMITED)


def test_doctor_without_arenadump(tmp_path: Path) -> None:
    done = arenascope("doctor", "--json", arenadump=tmp_path / "missing")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert report["checks"][0]["status"] == "missing"
    assert report["checks"][0]["fix"]
