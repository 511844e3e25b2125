#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the patches do what they say? Applies each to its release's source, builds it, and runs it.

check.py [--apply] [RELEASE...]: 2.6 to 4.0, all of them unless named; with --apply, nothing is built. README.md says
where sources come from. The exit status is 1 if any check failed. A release without source is named, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from tools import debian, rubies  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 3

# What the setting may be: what a verbose Ruby says of it, and how many trims three full GCs then make. An interval
# counts from the first of them.
SETTINGS = {
    None: ("", 0),
    "": ("", 0),
    "off": ("RUBY_GC_MALLOC_TRIM=off (default value: off)", 0),
    "0": ("RUBY_GC_MALLOC_TRIM=0 (default value: off)", 0),
    "on": ("RUBY_GC_MALLOC_TRIM=on (default value: off)", 3),
    "3600000": ("RUBY_GC_MALLOC_TRIM=3600000 (default value: off)", 1),
    "250ms": ("invalid string for RUBY_GC_MALLOC_TRIM: 250ms", 0),
    "-1": ("invalid string for RUBY_GC_MALLOC_TRIM: -1", 0),
    "yes": ("invalid string for RUBY_GC_MALLOC_TRIM: yes", 0),
    "18446744073710": ("RUBY_GC_MALLOC_TRIM=18446744073710 is ignored because it overflows", 0),
    "99999999999999999999": ("RUBY_GC_MALLOC_TRIM=99999999999999999999 is ignored because it overflows", 0),
}
THREE_FULL_GCS = """
before = GC.stat(:malloc_trim_count)
3.times { GC.start }
p GC.stat(:malloc_trim_count) - before
"""
# Ruby may make a full one of one that was to be minor.
MINOR_GCS = """
GC.start
counts = -> { GC.stat.values_at(:minor_gc_count, :major_gc_count, :malloc_trim_count) }
before = counts.call
10.times { GC.start(full_mark: false) }
minor, major, trims = counts.call.zip(before).map { |now, then_| now - then_ }
p minor > 0 && trims == major
"""
# Children of a process whose other threads are busy in malloc: each counts on from its parent, and trims.
FORKED = """
Array.new(4) { Thread.new { loop { "x" * 5_000 } } }
20.times do
  child = fork do
    count = GC.stat(:malloc_trim_count)
    GC.start
    exit!(GC.stat(:malloc_trim_count) == count + 1)
  end
  Process.wait(child)
  abort unless $?.success?
end
puts :ok
"""


NOT_SILENT = re.compile(
    r"failed with error message\npid \d+ exit 0\n\| RUBY_GC_MALLOC_TRIM=on \(default value: off\)\n\n"
)


class CheckError(Exception):
    """What was expected, and what was found."""


def expect(condition: object, text: str) -> None:
    if not condition:
        raise CheckError(text)


def settings(ruby: list[str | Path], directory: Path) -> str:
    """Every form of RUBY_GC_MALLOC_TRIM, good and bad."""
    for value, (says, trims) in SETTINGS.items():
        env = {} if value is None else {"RUBY_GC_MALLOC_TRIM": value}
        said = rubies.run([*ruby, "-w", "-e", THREE_FULL_GCS], directory, env).splitlines()
        expect(said == [*filter(None, [says]), str(trims)], f"RUBY_GC_MALLOC_TRIM={value}: {said}")
        quiet = rubies.run([*ruby, "-e", THREE_FULL_GCS], directory, env).split()
        expect(quiet == [str(trims)], f"RUBY_GC_MALLOC_TRIM={value} without -w: {quiet}")
    on = {"RUBY_GC_MALLOC_TRIM": "on"}
    expect(rubies.run([*ruby, "-e", MINOR_GCS], directory, on).strip() == "true", "trims after minor GCs")
    forked = rubies.run([*ruby, "-e", FORKED], directory, on, timeout=60).strip()
    expect(forked == "ok", f"forked children: {forked}")
    return f"{len(SETTINGS)} settings understood; none after minor GCs; children trim too"


def own_tests(directory: Path) -> str:
    """Ruby's own tests of its GC, without and with trims."""
    tests = [f"ruby/{path.name}" for path in sorted((directory.parent / "test/ruby").glob("test_gc*.rb"))]
    command = ["make", "--ignore-errors", "test-all", f"TESTS={' '.join(tests)}", "RUN_OPTS=--disable-gems"]
    for env in ({}, {"RUBY_GC_MALLOC_TRIM": "on"}):
        said = rubies.run([*command, "TESTOPTS=-q --tty=no -j1"], directory, env)
        total = re.search(r"^(\d+) tests, \d+ assertions, (\d+) failures, (\d+) errors, \d+ skips", said, re.MULTILINE)
        # Tests that run a verbose Ruby and want it silent fail with any RUBY_GC_ setting, by that alone.
        expected = len(NOT_SILENT.findall(said)) if env else 0
        good = (
            total and int(total[1]) > 10 and int(total[2]) == expected and total[3] == "0" and "cannot load" not in said
        )
        expect(good, f"{env}, {expected} failures expected:\n{said[-3000:]}")
    return f"{', '.join(tests)}: {total[1] if total else 0} tests pass, without trims and with them"


def burst(ruby: list[str | Path], directory: Path) -> str:
    """A burst, then a quiet time: without trims the process keeps the memory, with them it does not."""
    found: dict[str, list[dict[str, float]]] = {"off": [], "on": [], "50": []}
    for _ in range(RUNS):  # interleaved, so that what else the machine does is shared out
        for value, runs in found.items():
            runs.append(json.loads(rubies.run([*ruby, HERE / "burst.rb"], directory, {"RUBY_GC_MALLOC_TRIM": value})))
    for run in found["off"]:
        expect(run["malloc_trim_count"] == run["malloc_trim_time"] == 0, f"off, and yet: {run}")
    for run in found["on"]:
        # The last one may still be sweeping when the numbers are read, and the first may have come before main().
        trims, majors = run["malloc_trim_count"], run["major_gc_count"]
        expect(majors - 2 <= trims <= majors, f"not one trim for each full GC: {run}")
        expect(0 < run["malloc_trim_time"] < 1000 * run["wall_s"], f"the time is not in milliseconds: {run}")
    for run in found["50"]:
        expect(0 < run["malloc_trim_count"] <= 1 + run["wall_s"] / 0.050, f"more often than every 50 ms: {run}")
    rss = {value: statistics.median(run["rss_kb"] for run in runs) / 1024 for value, runs in found.items()}
    cpu = {value: statistics.median(run["cpu_s"] for run in runs) for value, runs in found.items()}
    text = "; ".join(f"{value} {rss[value]:.0f} MiB, {cpu[value]:.2f} s CPU" for value in found)
    # Far apart in each single run, on every release: 300 and more against 30.
    expect(rss["on"] <= 0.35 * rss["off"], f"on keeps more than 0.35 of what off does: {text}")
    return text


def without_malloc_trim(directory: Path) -> str:
    """The same code where malloc is another: compiles without a warning of its own, and calls no malloc_trim."""
    log = (directory / "make.log").read_text()
    compiled = next(
        line for line in log.splitlines() if re.search(r"(^|\s)gcc? .* -c \S*(gc|gc/default/default)\.c$", line)
    )
    with tempfile.NamedTemporaryFile(suffix=".o") as plain:
        command = re.sub(r" -o \S+", "", compiled).split()
        said = rubies.run([*command, "-DRUBY_ALTERNATIVE_MALLOC_HEADER=<malloc.h>", "-o", plain.name], directory)
        symbols = rubies.run(["nm", plain.name], directory)
    expect("malloc_trim" not in said and not re.search(r"U malloc_trim", symbols), f"not free of malloc_trim:\n{said}")
    theirs = [line for line in log.splitlines() if "warning:" in line and "trim" in line]
    expect(not theirs, "\n".join(theirs))
    return "compiles with another malloc, and does not trim there"


def checks(release: rubies.Release, *, apply_only: bool) -> Iterator[str]:
    """Yields what each check found. Raises what the first failed one raises."""
    for patch in [release.patch, *(HERE / "article").glob(f"*-{release.name}.patch")]:
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch) / "ruby"
            touched = re.findall(r"^--- a/(\S+)", patch.read_text(encoding="utf-8"), re.MULTILINE)
            release.unpack(tree, [*touched, "version.h", "include/ruby/version.h"])
            rubies.apply(patch, tree)
            yield f"{patch.relative_to(HERE)} applies to {rubies.version(tree)}"
    if apply_only:
        return
    directory = rubies.build(rubies.patched(release))
    ruby: list[str | Path] = [directory / "ruby", "--disable-gems"]
    yield without_malloc_trim(directory)
    yield settings(ruby, directory)
    yield own_tests(directory)
    yield burst(ruby, directory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apply", action="store_true", help="only see whether the patches apply")
    parser.add_argument("releases", nargs="*", choices=[[], *rubies.RELEASES], metavar="RELEASE", help="3.1, say")
    options = parser.parse_args()
    status = 0
    for name in options.releases or rubies.RELEASES:
        try:
            for text in checks(rubies.RELEASES[name], apply_only=options.apply):
                print(f"{name}: {text}", flush=True)
        except debian.UnavailableError as reason:
            print(f"{name}: not checked: {reason}", flush=True)
        except (CheckError, rubies.BuildError) as error:
            status = 1
            print(f"{name}: FAILED: {error}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
