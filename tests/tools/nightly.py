# SPDX-License-Identifier: MIT
"""Runs the parts of `make nightly`, and writes how each ended into the table of docs/testing.md.

A part takes at most an hour on two processors that have nothing else to do. Exit status 0: all passed; 1: some failed,
and are named; 2: there is no such part.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools import marked
from tools.paths import ROOT

PAGE = ROOT / "docs" / "testing.md"
LOGS = ROOT / ".cache" / "nightly"
TABLE = marked.Table("nightly", "parts", ("part", "what", "commit", "date", "result", "minutes"))
SLICES = 6  # of the mutants
PYTHON = ".venv/bin/python"
# What programs say in the end of what they have tried, and how it went.
COUNTS = re.compile(
    r"=+ (.*\d+ (?:passed|failed|error).*?) in [\d.]+s.*=|(\d+ faults planted, .*)|^(Ok: +\d+)$", re.MULTILINE
)


@dataclass(frozen=True)
class Part:
    """Commands that run one after the other, and what they need."""

    name: str
    what: str
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()  # groups of scripts/install-deps, beside those of `make test`
    builds: tuple[str, ...] = ()  # targets of make


def pytest(tier: str, environment: str = "") -> str:
    """The command that runs the tests with a mark."""
    processes = min(4, (os.cpu_count() or 1) + 2)
    spread = f"--numprocesses {processes} --dist loadfile --no-loadscope-reorder"
    return f"{environment} {PYTHON} -m pytest {spread} --tier={tier}".strip()


def _slices() -> Iterable[Part]:
    for number in range(1, SLICES + 1):
        name = f"mutants-{number}of{SLICES}"
        what = "each fault of a slice of tests/mutants.txt is caught"
        yield Part(name, what, (f"{PYTHON} tests/tools/mutants.py --slice {number}/{SLICES}",))


AMD64, ARM64 = "5.10,6.1,6.12-strict,6.12", "5.10-arm64,6.1-arm64,6.12-arm64-16k,6.12-arm64"
PARTS = {
    part.name: part
    for part in (
        Part("libcs", "the releases of glibc that `make test` leaves out", (pytest("libcs"),)),
        Part("runtimes", "other releases of Python, Ruby and allocators", (pytest("runtimes"),), ("patches",)),
        Part("compilers", "other compilers, and flags for debug information", (pytest("compilers"),)),
        Part("limits", "what is large, long or many; browsers", (pytest("limits"),)),
        Part("packaging", "wheel, sdist, README's commands", (pytest("packaging"),)),
        Part(
            "release",
            "what `make release` makes, twice",
            (pytest("release"),),
            ("release", "emulation"),
            ("release-tools", "build-static-amd64", "build-static-arm64"),
        ),
        Part("gem", "the gem, installed and tested", (pytest("gem"),), ("gem",)),
        Part("patches", "Ruby, patched, of each release", (pytest("patches"), "make patches-all"), ("patches",)),
        Part("experiments", "each workload in small", (pytest("experiments"),), ("experiments",)),
        Part("emulation", "aarch64 under qemu-user", (pytest("emulation"),), ("emulation",), ("build-static-arm64",)),
        Part("variety", "60 random settings of malloc, five libcs", (pytest("variety", "VARIETY_COUNT=60"),)),
        Part("kills", "kill -9 behind each request and at random times", (pytest("kills"), "make kills KILLS=30")),
        Part("analyze", "clang-tidy without a limit", ("make analyze",), ("lint",)),
        Part("fuzz", "nine fuzzers, five minutes each", ("make fuzz FUZZ_SECONDS=300",), ("fuzz",)),
        Part("sanitize", "the agent under TSan, ASan and UBSan", ("make sanitize",)),
        Part("tsan", "the inspector's threads under TSan", ("make tsan",)),
        Part("suites", "the suites of redis and CPython beside the agent", ("make suites",), ("suites",)),
        Part("soak", "snapshots of storms of malloc", (f"{PYTHON} tests/soaks/soak.py --minutes 30", pytest("soak"))),
        Part("soak-inject", "1,000 injections", (f"{PYTHON} tests/soaks/soak_inject.py --injections 1000",)),
        Part("soak-profile", "1,000 profiles", (f"{PYTHON} tests/soaks/soak_profile.py --rounds 1000",)),
        Part("soak-recorder", "a service that is recorded", (f"{PYTHON} tests/soaks/soak_recorder.py --minutes 50",)),
        Part("soak-storm", "300 profiles of a storm", (f"{PYTHON} tests/soaks/soak_storm.py --profiles 300",)),
        Part(
            "soak-faults",
            "1,000 injections into users of faults",
            (f"{PYTHON} tests/soaks/soak_faults.py --injections 1000",),
        ),
        Part(
            "soak-headroom",
            "snapshots near limits of memory",
            (f"{PYTHON} tests/soaks/soak_headroom.py --snapshots 25",),
        ),
        Part("soak-watch", "a watch of three servers", ("make soak-watch HOURS=0.8",), ("experiments",)),
        Part(
            "vm-amd64",
            "kernels and processors of amd64, emulated",
            (pytest("vm"), f"make vm VM_KERNELS={AMD64}"),
            ("vm",),
            ("build-static-amd64", "build-static-arm64"),
        ),
        Part("vm-arm64", "those of arm64", (f"make vm VM_KERNELS={ARM64}",), ("vm",), ("build-static-arm64",)),
        *_slices(),
    )
}


@dataclass(frozen=True)
class Result:
    """How a part ended."""

    commit: str
    date: str
    ended: str  # "passed" or "FAILED"; then what was counted
    minutes: int


def run(part: Part) -> Result:
    """Runs a part. What it prints is printed, and kept in .cache/nightly/."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, begin, status = LOGS / f"{part.name}.log", time.monotonic(), 0
    log.write_text("")
    prepare = [f"scripts/install-deps {' '.join(part.needs)}"] if part.needs else []
    prepare += [f"make --no-print-directory {' '.join(part.builds)}"] if part.builds else []
    for command in (*prepare, *part.commands):
        shown = ["bash", "-o", "pipefail", "-c", f'{{ {command}; }} 2>&1 | tee -a "$0"', str(log)]
        status |= subprocess.run(shown, cwd=ROOT, check=False).returncode
    counts = counted(log.read_text(errors="replace"))
    ended = ", ".join(["FAILED" if status else "passed", *counts])
    minutes = round((time.monotonic() - begin) / 60)
    return Result(marked.commit(), time.strftime("%Y-%m-%d", time.gmtime()), ended, minutes)


def counted(said: str) -> list[str]:
    """What the programs of a part have counted, in their own words."""
    return [next(filter(None, found)).strip() for found in COUNTS.findall(said)]


def written(page: str, results: dict[str, Result]) -> str:
    """The page with these results; the rows of other parts stay."""
    known = {row["part"]: row for row in TABLE.rows(page)}
    never = {"commit": "", "date": "", "result": "not run yet", "minutes": ""}
    new = {
        name: {"commit": each.commit, "date": each.date, "result": each.ended, "minutes": str(each.minutes)}
        for name, each in results.items()
    }
    return TABLE.written(
        page,
        [
            {**never, **known.get(name, {}), **new.get(name, {}), "part": name, "what": PARTS[name].what}
            for name in PARTS
        ],
    )


def main() -> int:
    """Runs the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="run nothing: only write the rows of the table anew")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        print(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    failed = []
    for name in [] if options.write else options.parts or PARTS:
        result = run(PARTS[name])
        PAGE.write_text(written(PAGE.read_text(), {name: result}))
        print(f"nightly: {name}: {result.ended}, {result.minutes} minutes; {LOGS / name}.log", flush=True)
        failed += [name] if result.ended.startswith("FAILED") else []
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), {}))
    if failed:
        print(f"nightly: these failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
