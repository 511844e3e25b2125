# SPDX-License-Identifier: MIT
"""What a large program costs the profile: a dump of 10 million chunks, a start with 100 modules (`make bench`)."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from arenascope.wire.agent import preloadable

ROOT = Path(__file__).resolve().parents[1]
MODULES = 100
FUNCTIONS = 300
FUNCTION = """
long m%d_f%d(long n)
{
    char room[%d];
    room[n %% 8] = (char)n;
    __asm__ volatile("" ::: "memory");
    return room[0] + n;
}
"""
WRITTEN_GOAL = 1.0  # s
START_GOAL = 0.010  # s


def environment(library: Path, profile: str | None, cache: Path) -> dict[str, str]:
    """`profile`: a value of ARENASCOPE_PROFILE; None: the program runs alone."""
    alone = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    if profile is None:
        return alone
    return alone | {"LD_PRELOAD": str(library), "ARENASCOPE_SIGNAL": "none", "ARENASCOPE_PROFILE": profile}


def took(command: list[str | Path], values: dict[str, str]) -> float:
    """In seconds."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, env=values)
    return time.perf_counter() - begun


def written(options: argparse.Namespace, library: Path, folder: Path) -> list[tuple[str, list[float]]]:
    """Dumps of a process with so many chunks, each of which has its call stack, and of one without a profile."""
    arenadump, rows = options.build / "inspector/cli/arenadump", []
    for name, profile in (("without a profile", "0"), ("default rates", "1"), ("every chunk", "exact")):
        command = [str(options.build / "bench/sites"), str(options.chunks)]
        values = environment(library, profile, folder)
        with subprocess.Popen(command, env=values, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == b"ready\n"
                dump = [arenadump, "dump", "-o", folder / "dump", str(process.pid)]
                rows.append((name, [took(dump, dict(os.environ)) for _ in range(options.runs)]))
            finally:
                process.kill()
    return rows


def with_modules(folder: Path) -> Path:
    """A program that is linked with so many modules, and does nothing."""
    calls = []
    for number in range(MODULES):
        source = folder / f"m{number}.c"
        source.write_text("".join(FUNCTION % (number, i, 16 + i) for i in range(FUNCTIONS)))
        library = folder / f"libm{number}.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        calls.append(f"m{number}_f0")
    main = folder / "main.c"
    main.write_text(
        "".join(f"long {name}(long);\n" for name in calls)
        + f"int main(void) {{ return (int)({' + '.join(f'{name}(1)' for name in calls)}) == 7; }}\n"
    )
    program = folder / "modules"
    link = [f"-lm{number}" for number in range(MODULES)]
    subprocess.run(["cc", "-o", program, main, f"-L{folder}", f"-Wl,-rpath,{folder}", *link], check=True)
    return program


def started(options: argparse.Namespace, library: Path, folder: Path) -> list[tuple[str, list[float]]]:
    """Runs of a program with 100 modules: interleaved, so that all have the same neighbours."""
    program = with_modules(folder)
    ways = {"without the agent": None, "agent, no profile": "0", "every chunk": "exact"}
    times: dict[str, list[float]] = {name: [] for name in ways}
    times["every chunk, the first time"] = []
    for poll in range(options.runs * 5):
        for name, profile in ways.items():
            times[name].append(took([program], environment(library, profile, folder / "cache")))
        times["every chunk, the first time"].append(
            took([program], environment(library, "exact", folder / f"cache{poll}"))
        )
    return list(times.items())


def show(console: Console, title: str, rows: list[tuple[str, list[float]]], goal: str) -> None:
    table = Table(title=title, caption=goal)
    for column in ("", "median, ms", "from", "to"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in rows:
        table.add_row(name, *(f"{1000 * figure:.1f}" for figure in (statistics.median(times), min(times), max(times))))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=10_000_000)
    options = parser.parse_args()
    library = preloadable(options.build.resolve() / "inspector/agent/libarenascope.so")
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm") as temporary:
        folder = Path(temporary)
        rows = written(options, library, folder)
        show(console, f"Dump of {options.chunks:,} chunks", rows, f"goal: {WRITTEN_GOAL:.0f} s with every chunk")
        rows = started(options, library, folder)
        show(
            console, f"A program with {MODULES} modules", rows, f"goal: {1000 * START_GOAL:.0f} ms more than no profile"
        )


if __name__ == "__main__":
    main()
