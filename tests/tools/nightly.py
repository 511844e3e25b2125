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

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"
LOGS = ROOT / ".cache" / "nightly"
BEGIN, END = "<!-- make nightly writes this table: -->", "<!-- to here -->"
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
    return f"{environment} {PYTHON} -m pytest {spread} --tier {tier}".strip()


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


NEVER = ("", "", "not run yet", "")


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
    return Result(commit(), time.strftime("%Y-%m-%d", time.gmtime()), ended, minutes)


def counted(said: str) -> list[str]:
    """What the programs of a part have counted, in their own words."""
    return [next(filter(None, found)).strip() for found in COUNTS.findall(said)]


def commit() -> str:
    """The commit that is tested; with a + where files differ from it (but for the page that this program writes)."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    others = [*git, "diff", "--quiet", "HEAD", "--", ".", f":!{PAGE.relative_to(ROOT)}"]
    return name.strip() + ("+" if subprocess.run(others, check=False).returncode else "")


def table(page: str) -> dict[str, tuple[str, ...]]:
    """The last four columns of each part's row."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {name: tuple(cells) for name, _, *cells in rows[2:]}


def written(page: str, results: dict[str, Result]) -> str:
    """The page with these results; the rows of other parts stay."""
    known = table(page)
    for name, result in results.items():
        known[name] = (result.commit, result.date, result.ended, str(result.minutes))
    lines = ["| part | what | commit | date | result | minutes |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [" | ".join(["| " + part.name, part.what, *known.get(part.name, NEVER)]) + " |" for part in PARTS.values()]
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}"


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
