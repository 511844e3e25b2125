# SPDX-License-Identifier: MIT
"""Performance as ratios: what we do against what the machine can do, measured in turn in one run (`make bench`).

Absolute figures say more of the machine than of the program; a ratio whose sides were measured in turn travels.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import live
from rich.console import Console
from rich.table import Table

from arenascope.wire.dump import Dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
GIGABYTE = 1_000_000_000
PAGE = os.sysconf("SC_PAGESIZE")


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


@dataclass
class Figure:
    """One line of the result: the median of ours and of the limit, and of their ratio run by run."""

    what: str
    limit: str
    ours: list[float]
    bound: list[float]
    unit: str
    wanted: str

    def ratios(self) -> list[float]:
        return [b / o for o, b in zip(self.ours, self.bound)]


@dataclass
class Growth:
    """One size of heap: bytes, numbers of chunks, seconds."""

    resident: int
    chunks: int
    dump: float
    read: float
    own: int


def line(x: list[float], y: list[float]) -> tuple[float, float, float]:
    """The line through the points by least squares: slope, intercept, and how far the worst point is off."""
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
    intercept = mean_y - slope * mean_x
    return slope, intercept, max(abs(b - slope * a - intercept) for a, b in zip(x, y))


class Hoard:
    """bench/hoard.c, parked with its heap."""

    def __init__(self, program: Path, megabytes: int, threads: int, mean: int) -> None:
        self.process = subprocess.Popen(
            [program, str(megabytes), str(threads), str(mean)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    @property
    def pid(self) -> str:
        return str(self.process.pid)

    def clone_ns(self) -> int:
        """How long one raw clone() of itself takes it."""
        assert self.process.stdin
        self.process.stdin.write("clone\n")
        self.process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the benchmark's target died: not enough memory?")
        return line


@contextmanager
def hoard(program: Path, megabytes: int, threads: int = 16, mean: int = 200) -> Iterator[Hoard]:
    target = Hoard(program, megabytes, threads, mean)
    try:
        yield target
    finally:
        target.process.kill()
        target.process.communicate()


def seconds(command: list[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - before


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def peak_kib(command: list[str]) -> int:
    """The most memory a command had resident."""
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[nowhere])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return usage.ru_maxrss


class Bench:
    def __init__(self, build: Path, runs: int, megabytes: list[int]) -> None:
        self.arenadump = str(build / "inspector/cli/arenadump")
        self.programs = build / "bench"
        self.runs = runs
        self.megabytes = megabytes
        # In memory: how long a disk takes to take 4 MB for each GB of heap is the disk's affair.
        self.temporary = tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm")
        self.directory = Path(self.temporary.name)
        self.figures: list[Figure] = []
        self.growth: list[Growth] = []

    def pairs(self, ours: Callable[[], float], limit: Callable[[], float]) -> tuple[list[float], list[float]]:
        """Both in turn, after one round that does not count."""
        rounds = [(ours(), limit()) for _ in range(self.runs + 1)][1:]
        return [a for a, _ in rounds], [b for _, b in rounds]

    def raw_read(self, pid: str, *ranges: str) -> tuple[float, int]:
        """Seconds and bytes of the bare copy: of all its writable memory, or of what lies in these ranges."""
        size, ns = subprocess.run(
            [self.programs / "limits", "read", pid, *ranges], check=True, capture_output=True, text=True
        ).stdout.split()
        return int(ns) / 1e9, int(size)

    def dump_command(self, pid: str, *options: str, mode: str = "freeze") -> list[str]:
        dump = str(self.directory / "bench.dump")
        return [self.arenadump, "dump", pid, "--mode", mode, "-o", dump, *options]

    def summary(self, pid: str, mode: str) -> dict[str, Any]:
        command = [self.arenadump, "summary", "--json", "--mode", mode, pid]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def dump(self, target: Hoard, what: str, wanted: str, *options: str) -> Figure:
        """Read, walk, classify and write, against the bare copy of the same bytes."""
        command = self.dump_command(target.pid, *options)
        ours, bound = self.pairs(lambda: seconds(command), lambda: self.raw_read(target.pid)[0])
        figure = Figure(what, "process_vm_readv of it all", ours, bound, "s", wanted)
        self.figures.append(figure)
        return figure

    def outside(self, megabytes: int) -> None:
        with hoard(self.programs / "hoard", megabytes) as target:
            size = f"{megabytes / 1000:g} GB in 16 arenas"
            figure = self.dump(target, f"whole dump of {size}", "≥ 0.8")
            self.dump(target, "the same with a record for each chunk", "", "--chunks")
            self.snapshot(target, figure)
            answer = self.summary(target.pid, "freeze")
            if not answer["snapshot"]["exact"]:
                raise SystemExit(f"not exact: {answer['warnings']}")
            self.growth.append(
                Growth(
                    int(answer["kernel"]["rss"]),
                    sum(int(kind["count"]) for kind in answer["chunks"].values()),
                    statistics.median(figure.ours),
                    statistics.median(figure.bound),
                    peak_kib(self.dump_command(target.pid)) * 1024,
                )
            )
            self.pause(target, size)

    def snapshot(self, target: Hoard, frozen: Figure) -> None:
        """The same of a clone, against the same copy: once the pages have been shared with a clone, it is slower."""
        command = self.dump_command(target.pid, mode="clone")
        ours = [seconds(command) for _ in frozen.bound]
        self.figures.append(Figure("the same of a clone", frozen.limit, ours, frozen.bound, "s", ""))

    def pause(self, target: Hoard, size: str) -> None:
        """How long the target stands still for a snapshot, against a clone() that it makes itself."""

        def paused() -> float:
            snapshot = self.summary(target.pid, "clone")["snapshot"]
            if snapshot["mode"] != "clone":
                raise SystemExit(f"no snapshot could be had here: {snapshot}")
            return float(snapshot["pause_ms"])

        ours, bound = self.pairs(paused, lambda: target.clone_ns() / 1e6)
        what = f"pause of a clone, {size}"
        self.figures.append(Figure(what, "raw clone() by the target", ours, bound, "ms", "≥ 0.8"))

    def large_chunks(self) -> None:
        """Only the headers of large chunks are read."""
        with hoard(self.programs / "hoard", 1000, 4, 80000) as target:
            self.dump(target, "whole dump of 1 GB in chunks of 80 kB", "> 1")

    def one_arena(self) -> None:
        """Nobody to share the work with: a second thread reads on."""
        with hoard(self.programs / "hoard", 1000, 1) as target:
            self.dump(target, "whole dump of 1 GB in one arena", "")

    def in_place(self, megabytes: int) -> None:
        out = subprocess.run(
            [self.programs / "inplace", str(megabytes), "200"], check=True, capture_output=True, text=True
        ).stdout
        bare, walk, fastbins, finders, chunks, listed = zip(
            *([int(word) for word in line.split()] for line in out.splitlines())
        )
        what = f"walk in place, {chunks[0] / 1e6:.1f} M chunks"
        self.figures.append(
            Figure(
                what,
                "bare prefetched loop over the headers",
                [ns / 1e6 for ns in walk],
                [ns / 1e6 for ns in bare],
                "ms",
                "≥ 0.8",
            )
        )
        lists = [a + b for a, b in zip(fastbins, finders)]
        what = f"lists of fastbins and tcaches ({listed[0] / 1e6:.2f} M chunks), and all else that is found"
        self.figures.append(
            Figure(what, "that walk", [ns / 1e6 for ns in lists], [ns / 1e6 for ns in walk], "ms", "> 1")
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
        with subprocess.Popen(
            [sys.executable, "-c", OBJECTS, str(int(gigabytes * GIGABYTE))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as python:
            assert python.stdout
            python.stdout.readline()
            pid = str(python.pid)
            arenas = self.python_arenas(pid)
            command = [self.arenadump, "summary", "--json", "--objects", "--mode", "freeze", pid]
            what = f"objects by type of a Python of {gigabytes:g} GB"
            for limit, ranges in (("process_vm_readv of its arenas", arenas), ("process_vm_readv of it all", [])):
                ours, bound = self.pairs(lambda: seconds(command), lambda: self.raw_read(pid, *ranges)[0])  # noqa: B023
                self.figures.append(Figure(what, limit, ours, bound, "s", "≥ 0.5"))
            python.kill()

    def graphs(self, sizes: str) -> None:
        for size in sizes.split(","):
            chunks, _, length = size.partition(":")
            self.graph(int(chunks) * 1_000_000, length or "20")

    def graph(self, chunks: int, length: str) -> None:
        """Leaks, types and owners of a C++ program with so many chunks, and long names, against the bare copy of it."""
        program = self.directory / "graph"
        subprocess.run(["g++", "-O1", "-o", program, ROOT / "bench/graph.cc"], check=True)
        with subprocess.Popen(
            [program, str(chunks // 12), length], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as target:
            assert target.stdout
            target.stdout.readline()
            pid = str(target.pid)
            for what, wanted in (("leaks", "≥ 0.48"), ("types", "≥ 0.38"), ("owners", "≥ 0.145")):
                command = [self.arenadump, what, "--json", pid]
                ours, bound = self.pairs(lambda: seconds(command), lambda: self.raw_read(pid)[0])  # noqa: B023
                own, size = peak_kib(command) / 1e3, self.raw_read(pid)[1] / 1e9
                text = f"{what} among {chunks / 1e6:g} M chunks in {size:.1f} GB ({own:.0f} MB of own memory)"
                self.figures.append(Figure(text, "process_vm_readv of it all", ours, bound, "s", wanted))
            target.kill()

    def small(self) -> None:
        with hoard(self.programs / "hoard", 100, 4) as target:
            summary = [self.arenadump, "summary", target.pid]
            ours, bound = self.pairs(lambda: seconds(summary) * 1000, lambda: 100.0)
            self.figures.append(Figure("summary of a process of 100 MB", "100 ms", ours, bound, "ms", "≥ 1"))

    def top(self) -> None:
        os.environ["ARENASCOPE_ARENADUMP"] = str(self.arenadump)
        ours = live.percent(200, self.runs)
        what = "arenascope top, 200 processes: per cent of a processor"
        self.figures.append(Figure(what, "1 %", ours, [1.0] * len(ours), "%", "≥ 1"))

    def top_profile(self) -> None:
        os.environ["ARENASCOPE_ARENADUMP"] = str(self.arenadump)
        for profile in (False, True):
            ours = live.percent_of_one(self.runs, profile=profile)
            what = f"arenascope top PID, {'its profile on' if profile else 'no profile'}: per cent of a processor"
            self.figures.append(Figure(what, "1 %", ours, [1.0] * len(ours), "%", "≥ 1"))

    def unwinding(self) -> None:
        """Measures our own process: what the libraries of python3 and clang take, and a stack of 36 frames."""
        for program, path in (("python3", sys.executable), ("clang", str(shutil.which("clang")))):
            needed = output("ldd", path)
            libraries = [word for word in needed.split() if word.startswith("/")]
            command = [self.programs / "unwind_bench", *libraries]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows, made, cached, ours, glibcs = zip(
                *([float(word) for word in line.split()] for line in out.splitlines())
            )
            what = f"unwind tables of the libraries of {program}, {rows[0] / 1e6:.2f} M rows: from the cache"
            self.figures.append(
                Figure(what, "made", [ns / 1e6 for ns in cached], [ns / 1e6 for ns in made], "ms", "> 10")
            )
        self.figures.append(
            Figure("a stack of 36 frames", "glibc's backtrace()", list(ours), list(glibcs), "ns", "> 10")
        )

    def show(self) -> None:
        console = Console(width=None if sys.stdout.isatty() else 160)
        table = Table(title=f"Medians of {self.runs} runs, each beside its limit")
        for column in ("what", "ours", "limit", "of what", "limit / ours", "from - to", "wanted"):
            table.add_column(column, justify="left" if column in ("what", "of what") else "right")
        for f in self.figures:
            ratios = f.ratios()
            table.add_row(
                f.what,
                f"{statistics.median(f.ours):.3g} {f.unit}",
                f"{statistics.median(f.bound):.3g} {f.unit}",
                f.limit,
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} - {max(ratios):.2f}",
                f.wanted,
            )
        console.print(table)
        if self.growth:
            self.show_growth(console)

    def show_growth(self, console: Console) -> None:
        growth = Table(title="As the heap grows")
        for column in ("resident GB", "M chunks", "dump s", "read s", "s per GB", "own memory MB", "64 MB + 16 B/page"):
            growth.add_column(column, justify="right")
        for g in self.growth:
            growth.add_row(
                f"{g.resident / GIGABYTE:.2f}",
                f"{g.chunks / 1e6:.1f}",
                f"{g.dump:.3f}",
                f"{g.read:.3f}",
                f"{g.dump / g.resident * GIGABYTE:.3f}",
                f"{g.own / 1e6:.0f}",
                f"{64 + g.resident / PAGE * 16 / 1e6:.0f}",
            )
        console.print(growth)
        if len(self.growth) > 1:
            sizes = [g.resident / GIGABYTE for g in self.growth]
            ours, read = (
                line(sizes, times) for times in ([g.dump for g in self.growth], [g.read for g in self.growth])
            )
            console.print(
                f"Least squares: a dump takes {ours[0] * 1000:.0f} ms per GB and {ours[1] * 1000:.0f} ms beside; none "
                f"is further than {ours[2] * 1000:.0f} ms off. The bare copy: {read[0] * 1000:.0f} ms per GB."
            )

    def save(self, path: Path) -> None:
        figures = [vars(f) | {"ratio": statistics.median(f.ratios())} for f in self.figures]
        path.write_text(json.dumps({"figures": figures, "growth": [vars(g) for g in self.growth]}, indent=1))


PARTS = ("small", "objects", "graph", "in-place", "large", "one-arena", "unwinding", "top", "top-profile", "sizes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", default="100,1000,4000,8000", help="megabytes, comma-separated")
    parser.add_argument(
        "--graph", default="16", help="millions of chunks, comma-separated; 40:600: with names of 600 bytes and more"
    )
    parser.add_argument("--only", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    bench = Bench(options.build, options.runs, [int(size) for size in options.sizes.split(",")])
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: of {', '.join(PARTS)}")
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
    }
    for name, measure in measures.items():
        if name in parts:
            measure()
    for megabytes in bench.megabytes if "sizes" in parts else []:
        print(f"{megabytes} MB …", file=sys.stderr)
        bench.outside(megabytes)
    bench.show()
    if options.json:
        bench.save(options.json)


if __name__ == "__main__":
    main()
