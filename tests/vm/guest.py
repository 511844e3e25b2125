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
        """Of some check, and of a libc that is here."""
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
            say("test", **self.told(report), checks=[c.name for c in self.checks if c.takes(report.nodeid)])

    def told(self, report: pytest.TestReport) -> dict[str, Any]:
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


def describe() -> None:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", cpuinfo, re.MULTILINE)
    say(
        "machine",
        kernel=platform.release(),
        arch=platform.machine(),
        page=os.sysconf("SC_PAGESIZE"),
        flags=flags[1].split() if flags else [],
    )


def doctor() -> None:
    """What the doctor says here, for the table's foot."""
    command = [sys.executable, "-m", "arenascope", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    say("doctor", code=done.returncode, out=done.stdout[-20000:], err=done.stderr[-2000:])


def main() -> None:
    plan = json.loads(PLAN.read_text())
    describe()
    if plan["command"]:
        say("end", code=subprocess.run(["bash", "-c", plan["command"]], check=False).returncode)
        return
    doctor()
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
    say("end", code=int(code))


if __name__ == "__main__":
    main()
