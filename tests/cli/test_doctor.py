# SPDX-License-Identifier: MIT
"""`arenascope doctor`: what it finds on this machine, and what it says of what is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness
from tools.command import arenascope
from tools.odd import needs_root
from tools.running import started

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


def found_by(*prefix: str) -> dict[str, dict[str, str]]:
    """What each check of a doctor that is started in some way has found."""
    command = [*prefix, sys.executable, "-m", "arenascope", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@needs_root
@pytest.mark.parametrize("weak", [[], ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]])
def test_doctor_promises_what_processes_grant(arenadump: harness.Arenadump, weak: list[str]) -> None:
    """Process 1 and another user's: what it says of each is what a snapshot of it says."""
    other = ["setpriv", "--reuid=64000", "--clear-groups", "sh", "-c", "echo ready; exec sleep 1000"]
    with started(other, "ready") as pid:
        check = found_by(*weak)["ptrace"]
        said = dict(re.findall(r"process ([0-9]+) (can be|cannot be)", check["found"]))
        assert "1" in said
        assert len(said) >= 2, f"another user's, too, such as {pid}"
        for each, words in said.items():
            command = [*weak, str(arenadump.path), "summary", "--mode=live", each]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            gone = done.returncode == 3
            assert gone or (done.returncode == 4) == (words == "cannot be"), (each, words, done.stderr)
    assert "every process" not in check["found"]
    assert check["status"] == ("limited" if "cannot be" in said.values() and not weak else "ok")


@needs_root
def test_doctor_knows_what_it_could_not_read(tmp_path: Path) -> None:
    """A kernel has none of what is not there; what is hidden is not known."""
    hide = 'mount -t tmpfs none /sys && mount --bind "$0" /proc/meminfo && exec "$@"'
    locked = tmp_path / "locked"
    locked.touch(mode=0)
    blind = ["unshare", "--mount", "sh", "-c", hide, str(locked)]
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    found = {name: check["found"] for name, check in found_by(*blind, *without).items()}
    assert found["transparent huge pages"] == "not readable: /sys/kernel/mm is not mounted here"
    assert found["swap"] == "not readable: Permission denied: run arenascope with sudo"
