# SPDX-License-Identifier: MIT
"""Inside a virtual machine: runs the tests that /checkout/vm.json asks for, and says on the console how each ended.

Each line that is meant for the outside begins with MARK and is JSON; all else on the console is for people.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from vm.checks import BY_NAME, Check
from vm.guest_words import MARK

PLAN = Path("/checkout/vm.json")


def say(event: str, **fields: Any) -> None:
    # A line of its own, whatever the kernel was just saying.
    os.write(1, ("\n" + MARK + json.dumps({"event": event, **fields}) + "\n").encode())


class Reporter:
    """A pytest plugin: selects the tests of some checks, and tells of each of them."""

    def __init__(self, checks: list[Check], suites: list[str]) -> None:
        self.checks, self.suites = checks, suites
        self.began = 0.0

    def wanted(self, item: pytest.Item) -> bool:
        """Returns whether a test is of some check, and of a libc that is here."""
        libc = item.callspec.params.get("libc") if hasattr(item, "callspec") else None
        return (libc is None or libc in self.suites) and any(check.takes(item.nodeid) for check in self.checks)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.wanted(item)]
        say("collected", tests=len(items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began = time.monotonic()
        say("start", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            say("test", **self.answer(report), checks=[c.name for c in self.checks if c.takes(report.nodeid)])

    def answer(self, report: pytest.TestReport) -> dict[str, Any]:
        """An expected failure is pytest's word for what a machine does not allow."""
        why = ""
        if report.skipped:
            why = getattr(report, "wasxfail", "") or (report.longrepr[2] if isinstance(report.longrepr, tuple) else "")
        elif report.failed:
            why = report.longreprtext[-3000:]
        seconds = round(time.monotonic() - self.began, 1)
        return {"test": report.nodeid, "outcome": report.outcome, "when": report.when, "why": why, "seconds": seconds}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            say("broken", why=report.longreprtext[-3000:])


def memory_cgroups() -> str:
    """Which version of cgroups has the memory controller here, and whether there is PSI."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    kinds = [line.partition(" - ")[2].split() for line in mounts]
    first = any(kind[0] == "cgroup" and "memory" in kind[2].split(",") for kind in kinds)
    controllers = Path("/sys/fs/cgroup/cgroup.subtree_control")
    second = controllers.exists() and "memory" in controllers.read_text().split()
    version = "1" if first else "2" if second else "none"
    return f"{version}, {'PSI' if Path('/proc/pressure/memory').exists() else 'no PSI'}"


def describe() -> None:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", cpuinfo, re.MULTILINE)
    say(
        "machine",
        kernel=platform.release(),
        arch=platform.machine(),
        page=os.sysconf("SC_PAGESIZE"),
        cgroups=memory_cgroups(),
        flags=flags[1].split() if flags else [],
    )


def doctor() -> None:
    """What the doctor says here, for the table's foot."""
    command = [sys.executable, "-m", "arenascope", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    say("doctor", code=done.returncode, out=done.stdout[-20000:], err=done.stderr[-2000:])


def soak(check: Check, words: str) -> bool:
    """Runs a program of tests/ and tells of it as of a test; what it counted is its last line."""
    began = time.monotonic()
    say("start", test=words)
    name, *options = words.split()
    with subprocess.Popen(
        [sys.executable, "-u", f"tests/{name}", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            say("progress", test=words, text=line.rstrip("\n"))
            lines.append(line)
    outcome = "failed" if process.returncode else "passed"
    seconds = round(time.monotonic() - began, 1)
    why = "".join(lines[-1:] if outcome == "passed" else lines[-40:]).strip()
    say("test", test=words, outcome=outcome, when="call", why=why, seconds=seconds, checks=[check.name])
    return outcome == "passed"


def main() -> None:
    plan = json.loads(PLAN.read_text())
    describe()
    if plan["command"]:
        say("end", code=subprocess.run(["bash", "-c", plan["command"]], check=False).returncode)
        return
    doctor()
    os.environ["NEAREST_LIBC"], *_ = plan["suites"]  # the disk has no other
    checks = [BY_NAME[name] for name in plan["checks"]]
    files = sorted({name for check in checks for name in check.tests})
    code = pytest.main(
        [
            "-p",
            "no:cacheprovider",
            "--tb=short",
            "-q",
            "--continue-on-collection-errors",
            *(f"tests/{name}" for name in files),
        ],
        plugins=[Reporter(checks, plan["suites"])],
    )
    soaked = [soak(check, words) for check in checks for words in check.soaks]
    say("end", code=int(code) or int(not all(soaked)))


if __name__ == "__main__":
    main()
