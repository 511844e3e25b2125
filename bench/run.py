# SPDX-License-Identifier: MIT
"""Performance as ratios: what we do against what the machine can do, measured in turn in one run (`make bench`).

Absolute figures say more of the machine than of the program; a ratio whose sides were measured in turn travels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import live
from children import line, peak, raw_read, ready, seconds
from figures import ROOT, Figure, Limit, parser, publish

from arenascope.wire.dump import Dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Target = subprocess.Popen[str]

GIGABYTE = 1_000_000_000
PAGE = os.sysconf("SC_PAGESIZE")
COPY = "process_vm_readv of it all"
COPY_GOAL = 1.25  # 80 % of its speed
# The goals for a heap of so many chunks and names of such a length, and for the memory of any, in seconds and MB.
GRAPH, GRAPH_MEMORY = (16_000_000, "20"), 1500
GRAPH_GOALS = {"leaks": 1.2, "types": 1.5, "owners": 4.0}


# Rows as an application keeps them, until so many bytes are resident.
OBJECTS = """
import os, sys
class Point:
    def __init__(self, x):
        self.x, self.y = x, (x, x)
wanted, kept = int(sys.argv[1]), {}
while True:
    for i in range(len(kept), len(kept) + 10000):
        kept[i] = [i, str(i), {"a": i}] if i % 4 == 0 else Point(i)
    with open("/proc/self/statm") as statm:
        if int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") >= wanted:
            break
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def hoard(program: Path, megabytes: int, threads: int = 16, mean: int = 200) -> Iterator[Target]:
    """bench/hoard.c, parked with its heap."""
    with ready([program, str(megabytes), str(threads), str(mean)]) as target:
        yield target


def clone_ns(target: Target) -> int:
    """How long one raw clone() of itself takes a hoard."""
    assert target.stdin
    target.stdin.write("clone\n")
    target.stdin.flush()
    return int(line(target))


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Bench:
    def __init__(self, build: Path, runs: int, megabytes: list[int]) -> None:
        self.arenadump = str(build / "inspector/cli/arenadump")
        self.build, self.programs = build, build / "bench"
        self.runs = runs
        self.megabytes = megabytes
        # In memory: how long a disk takes to take 4 MB for each GB of heap is the disk's affair.
        self.temporary = tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm")
        self.directory = Path(self.temporary.name)
        self.figures: list[Figure] = []

    def pairs(self, ours: Callable[[], float], limit: Callable[[], float]) -> tuple[list[float], list[float]]:
        """Both in turn, after one round that does not count."""
        rounds = [(ours(), limit()) for _ in range(self.runs + 1)][1:]
        return [a for a, _ in rounds], [b for _, b in rounds]

    def dump_command(self, pid: int, *options: str, mode: str = "freeze") -> list[str]:
        dump = str(self.directory / "bench.dump")
        return [self.arenadump, "dump", str(pid), "--mode", mode, "-o", dump, *options]

    def summary(self, pid: int, mode: str) -> dict[str, Any]:
        command = [self.arenadump, "summary", "--json", "--mode", mode, str(pid)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def add(self, what: str, ours: float | list[float], unit: str, limit: Limit) -> None:
        self.figures.append(Figure(what, ours, unit, limit))

    def dump(self, target: Target, what: str, goal: float | None, *options: str) -> list[float]:
        """Read, walk, classify and write, against the bare copy of the same bytes."""
        command = self.dump_command(target.pid, *options)
        ours, bound = self.pairs(lambda: seconds(command), lambda: raw_read(self.build, target.pid))
        self.add(what, ours, "s", Limit(bound, COPY, goal))
        return bound

    def sizes(self) -> None:
        for megabytes in self.megabytes:
            print(f"{megabytes} MB …", file=sys.stderr)
            self.outside(megabytes)

    def outside(self, megabytes: int) -> None:
        with hoard(self.programs / "hoard", megabytes) as target:
            size = f"{megabytes / 1000:g} GB in 16 arenas"
            copies = self.dump(target, f"dump of {size}", COPY_GOAL)
            self.dump(target, f"dump --chunks of {size}", None, "--chunks")
            self.of_clone(target, size, copies)
            answer = self.summary(target.pid, "freeze")
            if not answer["snapshot"]["exact"]:
                raise SystemExit(f"not exact: {answer['warnings']}")
            bound = 64 + int(answer["kernel"]["rss"]) / PAGE * 16 / 1e6
            own = peak(self.dump_command(target.pid))[1] / 1e6
            self.add(f"own memory, dump of {size}", own, "MB", Limit(bound, "64 MB and 16 bytes a page"))
            self.pause(target, size)

    def of_clone(self, target: Target, size: str, copies: list[float]) -> None:
        """The same of a clone, against the same copy: once the pages have been shared with a clone, it is slower."""
        command = self.dump_command(target.pid, mode="clone")
        ours = [seconds(command) for _ in copies]
        self.add(f"dump in mode clone of {size}", ours, "s", Limit(copies, COPY, None))

    def pause(self, target: Target, size: str) -> None:
        """How long the target stands still for a snapshot, against a clone() that it makes itself."""

        def paused() -> float:
            snapshot = self.summary(target.pid, "clone")["snapshot"]
            if snapshot["mode"] != "clone":
                raise SystemExit(f"no snapshot could be had here: {snapshot}")
            return float(snapshot["pause_ms"])

        ours, bound = self.pairs(paused, lambda: clone_ns(target) / 1e6)
        self.add(f"pause of a clone, {size}", ours, "ms", Limit(bound, "a raw clone() by the target", COPY_GOAL))

    def large_chunks(self) -> None:
        """Only the headers of large chunks are read."""
        with hoard(self.programs / "hoard", 1000, 4, 80000) as target:
            self.dump(target, "dump of 1 GB in chunks of 80 kB", 1)

    def one_arena(self) -> None:
        """Nobody to share the work with: a second thread reads on."""
        with hoard(self.programs / "hoard", 1000, 1) as target:
            self.dump(target, "dump of 1 GB in one arena", None)

    def in_place(self, megabytes: int) -> None:
        out = subprocess.run(
            [self.programs / "inplace", str(megabytes), "200"], check=True, capture_output=True, text=True
        ).stdout
        bare, walk, fastbins, finders, *_ = zip(*([int(word) for word in line.split()] for line in out.splitlines()))
        size = f"{megabytes / 1000:g} GB"
        walks = [ns / 1e6 for ns in walk]
        bares = [ns / 1e6 for ns in bare]
        self.add(
            f"walk in place, {size}", walks, "ms", Limit(bares, "a bare prefetched loop over the headers", COPY_GOAL)
        )
        lists = [(a + b) / 1e6 for a, b in zip(fastbins, finders)]
        self.add(
            f"lists of fastbins and tcaches, and all else before the walk, {size}",
            lists,
            "ms",
            Limit(walks, "that walk"),
        )

    def python_arenas(self, pid: str) -> list[str]:
        """Where they are, those that follow each other as one range."""
        dump = self.directory / "python.dump"
        subprocess.run([self.arenadump, "dump", pid, "--mode=freeze", "-o", dump], check=True)
        ranges: list[tuple[int, int]] = []
        for region in Dump(dump).regions:
            start, end = int(region["address"]), int(region["address"]) + int(region["size"])
            if ranges and ranges[-1][1] == start:
                start, _ = ranges.pop()
            ranges.append((start, end))
        return [f"{start:x}-{end:x}" for start, end in ranges]

    def objects(self, gigabytes: float) -> None:
        """Objects by type of a Python of so many gigabytes, against bare copies of its arenas and of all its memory."""
        with ready([sys.executable, "-c", OBJECTS, str(int(gigabytes * GIGABYTE))]) as python:
            pid = str(python.pid)
            arenas = self.python_arenas(pid)
            command = [self.arenadump, "summary", "--json", "--objects", "--mode", "freeze", pid]
            what = f"summary --objects of a Python of {gigabytes:g} GB"
            for limit, ranges in (("process_vm_readv of its arenas", arenas), (COPY, [])):
                ours, bound = self.pairs(lambda: seconds(command), lambda: raw_read(self.build, pid, *ranges))  # noqa: B023
                self.add(f"{what}, beside {'its arenas' if ranges else 'all'}", ours, "s", Limit(bound, limit, 2))

    def graphs(self, sizes: str) -> None:
        for size in sizes.split(","):
            chunks, _, length = size.partition(":")
            self.graph(int(chunks) * 1_000_000, length or GRAPH[1])

    def graph(self, chunks: int, length: str) -> None:
        """Leaks, types and owners of a C++ program with so many chunks, and long names, against the bare copy of it."""
        program = self.directory / "graph"
        subprocess.run(["g++", "-O1", "-o", program, ROOT / "bench/graph.cc"], check=True)
        with ready([program, str(chunks // 12), length]) as target:
            pid = str(target.pid)
            size = f"{chunks / 1e6:g} M chunks, names of {length} bytes"
            for what, goal in GRAPH_GOALS.items():
                command = [self.arenadump, what, "--json", pid]
                ours, bound = self.pairs(lambda: seconds(command), lambda: raw_read(self.build, pid))  # noqa: B023
                self.add(f"{what}, {size}", ours, "s", Limit(bound, COPY, None))
                if (chunks, length) == GRAPH:
                    self.add(f"{what}, {size}, beside the goal", ours, "s", Limit(goal))
                self.add(f"own memory of {what}, {size}", peak(command)[1] / 1e6, "MB", Limit(GRAPH_MEMORY))

    def small(self) -> None:
        with hoard(self.programs / "hoard", 100, 4) as target:
            summary = [self.arenadump, "summary", str(target.pid)]
            ours = [seconds(summary) * 1000 for _ in range(self.runs + 1)][1:]
            self.add("summary of a process of 100 MB", ours, "ms", Limit(100))

    def top(self) -> None:
        os.environ["ARENASCOPE_ARENADUMP"] = str(self.arenadump)
        self.add("top, 200 processes: of a processor", live.percent(200, self.runs), "%", Limit(1))

    def top_profile(self) -> None:
        os.environ["ARENASCOPE_ARENADUMP"] = str(self.arenadump)
        for profile in (False, True):
            ours = live.percent_of_one(self.runs, profile=profile)
            self.add(f"top PID, {'its profile on' if profile else 'no profile'}: of a processor", ours, "%", Limit(1))

    def unwinding(self) -> None:
        """Measures our own process: what the libraries of python3 and clang take, and a stack of 36 frames."""
        for program, path in (("python3", sys.executable), ("clang", str(shutil.which("clang")))):
            needed = output("ldd", path)
            libraries = [word for word in needed.split() if word.startswith("/")]
            command = [str(self.programs / "unwind_bench"), *libraries]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            _, made, cached, ours, glibcs = zip(*([float(word) for word in line.split()] for line in out.splitlines()))
            what = f"unwind tables of {program}'s libraries, from the cache"
            self.add(what, [ns / 1e6 for ns in cached], "ms", Limit([ns / 1e6 for ns in made], "made", 0.1))
        self.add("a stack of 36 frames", list(ours), "ns", Limit(list(glibcs), "glibc's backtrace()", 0.1))


# The parts, and the table of the page that each has its rows in.
PARTS = {
    "small": "inspector",
    "objects": "inspector",
    "graph": "graph",
    "in-place": "inspector",
    "large": "inspector",
    "one-arena": "inspector",
    "unwinding": "unwinder",
    "top": "live",
    "top-profile": "live",
    "sizes": "inspector",
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--sizes", default="100,1000,4000,8000", help="megabytes, comma-separated")
    arguments.add_argument(
        "--graph", default="16", help="millions of chunks, comma-separated; 40:600: with names of 600 bytes and more"
    )
    arguments.add_argument("--only", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    options = arguments.parse_args()
    bench = Bench(options.build, options.runs, [int(size) for size in options.sizes.split(",")])
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        arguments.error(f"there is no part {', '.join(sorted(unknown))}: of {', '.join(PARTS)}")
    measures: dict[str, Callable[[], None]] = {
        "small": bench.small,
        "objects": lambda: bench.objects(1),
        "graph": lambda: bench.graphs(options.graph),
        "in-place": lambda: bench.in_place(min(1000, bench.megabytes[-1])),
        "large": bench.large_chunks,
        "one-arena": bench.one_arena,
        "unwinding": bench.unwinding,
        "top": bench.top,
        "top-profile": bench.top_profile,
        "sizes": bench.sizes,
    }
    for name, table in PARTS.items():
        if name in parts:
            measures[name]()
            publish(options.page, table, bench.figures)
            bench.figures.clear()


if __name__ == "__main__":
    main()
