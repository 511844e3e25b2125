# SPDX-License-Identifier: MIT
"""What a large program costs the profile: a dump of 10 million chunks, a start with 100 modules (`make bench`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from children import ready, seconds
from figures import Figure, Limit, parser, publish

from arenascope.wire.agent import preloadable

if TYPE_CHECKING:
    import argparse

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
START_GOAL = 10.0  # ms


def environment(library: Path, profile: str | None, cache: Path) -> dict[str, str]:
    """`profile`: a value of ARENASCOPE_PROFILE; None: the program runs alone."""
    alone = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    if profile is None:
        return alone
    return alone | {"LD_PRELOAD": str(library), "ARENASCOPE_SIGNAL": "none", "ARENASCOPE_PROFILE": profile}


def written(options: argparse.Namespace, library: Path, folder: Path) -> list[Figure]:
    """Dumps of a process with so many chunks, each of which has its call stack, and of one without a profile."""
    arenadump, figures = options.build / "inspector/cli/arenadump", []
    for name, profile in (("without a profile", "0"), ("default rates", "1"), ("every chunk", "exact")):
        command = [str(options.build / "bench/sites"), str(options.chunks)]
        with ready(command, env=environment(library, profile, folder)) as process:
            dump = [arenadump, "dump", "-o", folder / "dump", str(process.pid)]
            times = [seconds(dump) for _ in range(options.runs)]
        limit = Limit(WRITTEN_GOAL) if profile == "exact" else None
        figures.append(Figure(f"dump of {options.chunks / 1e6:g} M chunks, {name}", times, "s", limit))
    return figures


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


def started(options: argparse.Namespace, library: Path, folder: Path) -> list[Figure]:
    """What the recorder adds to the start of a program of 100 modules; with its cache, and the first time."""
    program = with_modules(folder)
    ways = {"alone": None, "agent": "0", "cached": "exact", "first": "exact"}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for poll in range(options.runs * 5):  # in turn: all have the same neighbours
        for name, profile in ways.items():
            cache = folder / (f"cache{poll}" if name == "first" else "cache")
            times[name].append(1000 * seconds([program], environment(library, profile, cache)))
    more = {name: [a - b for a, b in zip(times[name], times["agent"])] for name in ("cached", "first")}
    start = f"a start of {MODULES} modules"
    return [
        Figure(f"{start}, without the agent", times["alone"], "ms"),
        Figure(f"{start}, agent, no profile", times["agent"], "ms"),
        Figure(f"{start}: more with every chunk, tables in the cache", more["cached"], "ms", Limit(START_GOAL)),
        Figure(f"{start}: more with every chunk, the first time", more["first"], "ms"),
    ]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--chunks", type=int, default=10_000_000)
    options = arguments.parse_args()
    library = preloadable(options.build.resolve() / "inspector/agent/libarenascope.so")
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm") as temporary:
        folder = Path(temporary)
        publish(options.page, "profiles", written(options, library, folder))
        publish(options.page, "profiles", started(options, library, folder))


if __name__ == "__main__":
    main()
