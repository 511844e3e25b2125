# SPDX-License-Identifier: MIT
"""Trims against malloc_trim(0), while threads go on using malloc: stalls, processor time, bytes (`make bench`)."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
HOLD_NS = 5_000_000
KINDS = {
    "no trim": ("none", 0),
    "malloc_trim(0)": ("malloc_trim", 0),
    "plain, 5 ms": ("plain", HOLD_NS),
    "deep, 5 ms": ("deep", HOLD_NS),
}


def measured(program: Path, megabytes: int, threads: int, kind: str) -> dict[str, Any]:
    mode, hold = KINDS[kind]
    command = [str(program), str(megabytes), str(threads), mode, str(hold)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--megabytes", type=int, default=3000, help="of memory in small pieces, freed")
    parser.add_argument("--threads", type=int, default=8, help="that allocate and free meanwhile")
    parser.add_argument("--rounds", type=int, default=3, help="of all kinds in turn")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = arguments.build / "bench" / "trim_bench"
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(arguments.rounds):
        for kind in KINDS:
            runs[kind].append(measured(program, arguments.megabytes, arguments.threads, kind))
    if arguments.json:
        print(json.dumps(runs))
        return

    def median(kind: str, *names: str) -> float:
        values: list[float] = []
        for run in runs[kind]:
            value: Any = run
            for name in names:
                value = value[name]
            values.append(value)
        return statistics.median(values)

    table = Table(title=f"Trimming {arguments.megabytes} MB, {arguments.threads} threads in malloc; medians")
    for column in ("", "MB back", "CPU s", "CPU s/GB", "took s", "p99.99 ms", "worst ms", "longest hold ms"):
        table.add_column(column, justify="left" if not column else "right")
    for kind in KINDS:
        back = (median(kind, "anonymous_before") - median(kind, "anonymous_after")) / 1e6
        cpu = median(kind, "cpu_ns") / 1e9
        trims = kind != "no trim"
        hold = median(kind, "longest_hold_ns") / 1e6
        table.add_row(
            kind,
            f"{back:.0f}",
            f"{cpu:.2f}" if trims else "",
            f"{cpu / back * 1000:.3f}" if trims and back > 0 else "",
            f"{median(kind, 'elapsed_ns') / 1e9:.2f}",
            f"{median(kind, 'during', 'p99_99_ns') / 1e6:.2f}",
            f"{max(run['during']['worst_ns'] for run in runs[kind]) / 1e6:.1f}",
            f"{hold:.2f}" if hold else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
