#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What commands take to start, in processor time: ratios to `python -c 'import click'`, measured in the same run.

    startup.py [--runs N]

The best of N runs of each; all commands in turn, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from children import ready, spent_by
from figures import Figure, Limit, parser, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

CLICK = "import click"
TARGET = "kept = [str(n) * 5 for n in range(160_000)]; print('ready', flush=True); input()"  # 20 MB are resident


class Measured(NamedTuple):
    """A command, and what it may take: in times of CLICK."""

    name: str
    command: list[str]
    limit: float | None = None


def ours(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("arenascope")), *words]


def commands(pid: str, dump: str, out: str) -> list[Measured]:
    arenadump = str(Path(sys.executable).with_name("arenadump"))
    return [
        Measured(f"python -c '{CLICK}'", [sys.executable, "-c", CLICK]),
        Measured("python -c ''", [sys.executable, "-c", ""]),
        Measured("--version", ours("--version"), 1.5),
        Measured("--help", ours("--help"), 1.5),
        Measured("arenadump summary PID", [arenadump, "summary", pid]),
        Measured("summary PID", ours("summary", pid), 3),
        Measured("summary --json PID", ours("summary", "--json", pid), 3),
        Measured("owners --json PID", ours("owners", "--json", pid)),
        Measured("trim --forecast --json PID", ours("trim", "--forecast", "--json", pid)),
        Measured("dump PID", ours("dump", "-o", out, pid)),
        Measured("diff DUMP DUMP", ours("diff", dump, dump)),
        Measured("report DUMP", ours("report", "-o", out, dump)),
    ]


def spent(command: list[str]) -> float:
    """Processor time. Modules that were compiled are kept, as pip keeps them."""
    return spent_by(command, {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"})


@contextmanager
def target() -> Iterator[int]:
    """A Python of which 20 MB are resident."""
    with ready([sys.executable, "-c", TARGET]) as process:
        yield process.pid


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=7)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, target() as pid:
        dump, out = f"{folder}/dump", f"{folder}/out"
        subprocess.run(ours("dump", "--chunks", "-o", dump, str(pid)), check=True)
        measured = commands(str(pid), dump, out)
        for each in measured:
            spent(each.command)  # what it reads is in memory from then on
        best = {each.name: 1e9 for each in measured}
        for _ in range(options.runs):
            for each in measured:
                best[each.name] = min(best[each.name], spent(each.command))
    unit = best[measured[0].name] * 1000
    figures = [Figure(each.name, best[each.name] * 1000, "ms", Limit(unit, CLICK, each.limit)) for each in measured]
    publish(options.page, "start", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
