# SPDX-License-Identifier: MIT
"""Performance as ratios: what we do against what the machine can do, measured in turn in one run (`make bench`).

Absolute figures say more of the machine than of the program; a ratio whose sides were measured in turn travels.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
GIGABYTE = 1_000_000_000


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


def peak_kib(command: list[str]) -> int:
    """The most memory a command had resident."""
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 1)])
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
        self.directory = Path(tempfile.mkdtemp(prefix="arenascope-bench-", dir=ROOT / "build"))
        self.figures: list[Figure] = []
        self.growth: list[tuple[float, float, float, int]] = []

    def pairs(self, ours: Callable[[], float], limit: Callable[[], float]) -> tuple[list[float], list[float]]:
        """Both in turn, after one round that does not count."""
        rounds = [(ours(), limit()) for _ in range(self.runs + 1)][1:]
        return [a for a, _ in rounds], [b for _, b in rounds]

    def raw_read(self, pid: str) -> float:
        _, ns = subprocess.run(
            [self.programs / "limits", "read", pid], check=True, capture_output=True, text=True
        ).stdout.split()
        return int(ns) / 1e9

    def dump_command(self, pid: str, *options: str) -> list[str]:
        return [self.arenadump, "dump", pid, "-o", str(self.directory / "bench.dump"), *options]

    def outside(self, megabytes: int) -> None:
        """Read, walk, classify and write, against the bare copy of the same bytes."""
        with hoard(self.programs / "hoard", megabytes) as target:
            dump = self.dump_command(target.pid, "--mode", "freeze")
            ours, bound = self.pairs(lambda: seconds(dump), lambda: self.raw_read(target.pid))
            size = f"{megabytes / 1000:g} GB in 16 arenas"
            self.figures.append(
                Figure(f"whole dump of {size}", "process_vm_readv of it all", ours, bound, "s", "≥ 0.8")
            )
            resident = int(
                json.loads(
                    subprocess.run(
                        [self.arenadump, "summary", "--json", target.pid], check=True, capture_output=True, text=True
                    ).stdout
                )["kernel"]["rss"]
            )
            self.growth.append((resident / GIGABYTE, statistics.median(ours), statistics.median(bound), peak_kib(dump)))
            self.pause(target, size)

    def pause(self, target: Hoard, size: str) -> None:
        """How long the target stands still for a snapshot, against a clone() that it makes itself."""

        def paused() -> float:
            out = subprocess.run(
                [self.arenadump, "summary", "--json", "--mode", "snapshot", target.pid],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            answer = json.loads(out)["snapshot"]
            if answer["mode"] != "snapshot":
                raise SystemExit(f"no snapshot could be had here: {answer}")
            return float(answer["pause_ms"])

        ours, bound = self.pairs(paused, lambda: target.clone_ns() / 1e6)
        what = f"pause of a snapshot, {size}"
        self.figures.append(Figure(what, "raw clone() by the target", ours, bound, "ms", "≥ 0.8"))

    def in_place(self, megabytes: int) -> None:
        out = subprocess.run(
            [self.programs / "inplace", str(megabytes), "200"], check=True, capture_output=True, text=True
        ).stdout
        rows = [[int(word) for word in line.split()] for line in out.splitlines()][1:]
        self.figures.append(
            Figure(
                f"walk in place, {rows[0][2] / 1e6:.1f} M chunks",
                "bare prefetched loop over the headers",
                [ours / 1e6 for _, ours, _ in rows],
                [bound / 1e6 for bound, _, _ in rows],
                "ms",
                "≥ 0.8",
            )
        )

    def small(self) -> None:
        with hoard(self.programs / "hoard", 100, 4) as target:
            summary = [self.arenadump, "summary", target.pid]
            ours, bound = self.pairs(lambda: seconds(summary) * 1000, lambda: 100.0)
            self.figures.append(Figure("summary of a process of 100 MB", "100 ms", ours, bound, "ms", "≥ 1"))

    def show(self) -> None:
        console = Console()
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
        growth = Table(title="As the heap grows")
        for column in ("resident GB", "dump s", "read s", "s per GB", "own memory MB", "64 MB + 16 B/page"):
            growth.add_column(column, justify="right")
        for resident, dump, read, peak in self.growth:
            allowed = 64 + resident * GIGABYTE / 4096 * 16 / 1e6
            growth.add_row(
                f"{resident:.2f}",
                f"{dump:.3f}",
                f"{read:.3f}",
                f"{dump / resident:.3f}",
                f"{peak * 1024 / 1e6:.0f}",
                f"{allowed:.0f}",
            )
        console.print(growth)

    def save(self, path: Path) -> None:
        path.write_text(
            json.dumps(
                {
                    "figures": [vars(f) | {"ratio": statistics.median(f.ratios())} for f in self.figures],
                    "growth": self.growth,
                },
                indent=1,
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", default="100,1000,4000,8000", help="megabytes, comma-separated")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    bench = Bench(options.build, options.runs, [int(size) for size in options.sizes.split(",")])
    bench.small()
    bench.in_place(min(1000, bench.megabytes[-1]))
    for megabytes in bench.megabytes:
        print(f"{megabytes} MB …", file=sys.stderr)
        bench.outside(megabytes)
    bench.show()
    if options.json:
        bench.save(options.json)


if __name__ == "__main__":
    main()
