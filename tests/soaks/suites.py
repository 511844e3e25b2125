#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Test-suites of real programs, each run as it is and with the agent at work in every process: do the same tests pass?

    .venv/bin/python tests/soaks/suites.py [redis] [cpython] [--agent trims|records|writes] [--tests NAME ...]

The agent trims every second, or records the call stack of every chunk, or writes a trace.

What fails in either run is run three times more both ways, as tests that count on time fail now and then by themselves.
Exit code 1 when a test passes without the agent, and never with it. `make suites` runs both suites with an agent that
trims, and with one that records: 80 minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import debian, harness

AGAIN = 3
# Deep, and in slices, is the most that a trimming agent can do to a program. "writes": the file is one of the run's.
AGENTS = {
    "trims": {"ARENASCOPE_TRIM": "every=1s,deep,max-hold=5ms"},
    "records": {"ARENASCOPE_PROFILE": "exact"},
    "writes": {},
}
SIGNAL = "RTMIN+7"  # SIGUSR2 is for the tests to take


@dataclass(frozen=True)
class Suite:
    """One program's tests: where they are run, and how those that are named are (none: all)."""

    directory: Path
    command: Callable[[Sequence[str]], list[str]]
    ended: re.Pattern[str]  # what it prints when it came to its end
    failures: Callable[[str], set[str]]  # the names of the tests that failed


def redis() -> Suite:
    """Returns the suite of the release that Debian has, built with libc's malloc: its units are run by name."""
    work = debian.CACHE.parent / "suites/redis"
    if not (work / "built").exists():
        with tarfile.open(debian.source("bookworm", "redis")) as tar:
            tar.extractall(work, filter="data")
        home = next(path for path in work.iterdir() if path.is_dir())
        subprocess.run(["make", "-j2", "MALLOC=libc"], cwd=home, check=True, stdout=subprocess.DEVNULL)
        (work / "built").touch()

    def command(tests: Sequence[str]) -> list[str]:
        return ["./runtest", "--durable", "--clients", "2", *(word for test in tests for word in ("--single", test))]

    def failures(said: str) -> set[str]:
        return set(re.findall(r"\[(?:err|exception)\S*: .* in tests/(\S+)\.tcl", said))

    home = next(path for path in work.iterdir() if path.is_dir())
    return Suite(home, command, re.compile(r"All tests passed|The following tests failed|\d+ tests? failed"), failures)


def cpython() -> Suite:
    """Returns the suite of the Python that this one was made from, if its tests are installed with it."""
    python = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([python, "-c", "import test.test_gc"], capture_output=True, check=False).returncode != 0:
        raise debian.UnavailableError(f"{python} has been installed without its tests (Debian: libpython3.*-testsuite)")

    def command(tests: Sequence[str]) -> list[str]:
        # Virtual machines differ in what they do with a vsock; some let these wait for ever.
        options = ["-j2", "-u", "none,cpu", "--timeout", "600", "--ignore", "*VSOCK*"]
        return [python, "-m", "test", *options, *tests]

    def failures(said: str) -> set[str]:
        listed = re.findall(r"^\d+ tests? failed:\n((?: +.*\n)+)", said, re.MULTILINE)
        return set(" ".join(listed).split())

    return Suite(
        Path(tempfile.mkdtemp(prefix="suite-")), command, re.compile(r"^Total duration: ", re.MULTILINE), failures
    )


def take_signals() -> None:
    """Tests that interrupt themselves wait for ever where this was started in the background, or by nohup."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def run(suite: Suite, tests: Sequence[str], env: dict[str, str]) -> set[str]:
    """The names of the tests that failed."""
    command = suite.command(tests)
    done = subprocess.run(
        command,
        cwd=suite.directory,
        env={**os.environ, "TERM": "dumb", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=take_signals,
    )
    failed = suite.failures(done.stdout)
    if not suite.ended.search(done.stdout) or (done.returncode != 0 and not failed):
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return failed


def agent_in(scratch: Path, does: str) -> dict[str, str]:
    """The variables of a process with the agent in it."""
    library = harness.agent_path(harness.arenadump_path())
    agent = {"LD_PRELOAD": str(library), "ARENASCOPE_LOG": str(scratch / "log"), "ARENASCOPE_SIGNAL": SIGNAL}
    if does == "writes":
        agent["ARENASCOPE_PROFILE_TRACE"] = str(scratch / "record")
    return {**AGENTS[does], **agent}


def compare(name: str, suite: Suite, tests: Sequence[str], does: str) -> bool:
    """Whether the agent makes no difference."""
    with tempfile.TemporaryDirectory() as scratch:
        agent = agent_in(Path(scratch), does)
        failed = {"without": run(suite, tests, {}), "with": run(suite, tests, agent)}
        print(f"{name}: {len(failed['without'])} fail without the agent, {len(failed['with'])} with one that {does}")
        if does == "trims":
            said = Path(agent["ARENASCOPE_LOG"]).read_text()
            print(f"{name}: {said.count(': ready')} processes had it, and trimmed {said.count('returned in')} times")
        same = True
        for test in sorted(failed["without"] | failed["with"]):
            passed = {
                way: sum(test not in run(suite, [test], env) for _ in range(AGAIN))
                for way, env in (("without", {}), ("with", agent))
            }
            for way in passed:
                passed[way] += test not in failed[way]
            print(f"{name}: {test} passes {passed['without']} of {AGAIN + 1} times without, {passed['with']} with")
            same &= passed["without"] == 0 or passed["with"] > 0
    return same


def main() -> int:
    suites = {"redis": redis, "cpython": cpython}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(suites), default=list(suites))
    parser.add_argument(
        "--agent", action="append", choices=list(AGENTS), help="what it does; trims and records unless told"
    )
    parser.add_argument("--tests", nargs="+", default=[], help="only these")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(suites):
        parser.error(f"no suite: {' '.join(unknown)}")
    try:
        same = [
            compare(name, suites[name](), options.tests, does)
            for name in options.suites
            for does in options.agent or ("trims", "records")
        ]
    except debian.UnavailableError as reason:
        sys.exit(f"{reason}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
