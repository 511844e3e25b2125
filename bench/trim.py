# SPDX-License-Identifier: MIT
"""Trims against malloc_trim(0), while threads go on using malloc: stalls, processor time, bytes (`make bench`)."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from figures import Figure, Limit, parser, publish

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Callable

HOLD_NS = 5_000_000
CALL, WORST_CALL = 5.0, 20.0  # ms
MOST = ("the worst call", "the longest lock")  # of all rounds; of other figures, the median
CPU = 1.1  # times the processor time of malloc_trim(0)
GLIBCS = "malloc_trim(0)"
KINDS = {
    "no trim": ("none", 0),
    GLIBCS: ("malloc_trim", 0),
    "plain, 5 ms": ("plain", HOLD_NS),
    "deep, 5 ms": ("deep", HOLD_NS),
}


def measured(program: Path, megabytes: int, threads: int, kind: str) -> dict[str, Any]:
    mode, hold = KINDS[kind]
    command = [str(program), str(megabytes), str(threads), mode, str(hold)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def figures_of(kind: str, of: str, runs: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    """The figures of a kind; a trim of ours has goals."""
    ours = bool(KINDS[kind][1])

    def figure(what: str, unit: str, number: Callable[[dict[str, Any]], float], limit: float | None = None) -> Figure:
        beside = Limit(limit) if ours and limit else None
        found = [number(run) for run in runs[kind]]
        return Figure(f"{kind}: {what}, {of}", max(found) if what in MOST else found, unit, beside)

    figures = [
        figure("p99.99 of a call of malloc or free", "ms", lambda run: run["p99_99_ns"] / 1e6, CALL),
        figure(MOST[0], "ms", lambda run: run["worst_ns"] / 1e6, WORST_CALL),
    ]
    if kind != "no trim":
        figures.append(figure("returned", "MB", lambda run: (run["anonymous_before"] - run["anonymous_after"]) / 1e6))
        figures.append(figure("took", "s", lambda run: run["elapsed_ns"] / 1e9))
        spent = figure("processor time", "s", lambda run: run["cpu_ns"] / 1e9)
        glibcs = Limit([run["cpu_ns"] / 1e9 for run in runs[GLIBCS]], GLIBCS, CPU)
        figures.append(spent._replace(limit=glibcs) if ours else spent)
    if ours:
        figures.append(figure(MOST[1], "ms", lambda run: run["longest_hold_ns"] / 1e6, HOLD_NS / 1e6))
    return figures


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--megabytes", type=int, default=3000, help="of memory in small pieces, freed")
    arguments.add_argument("--threads", type=int, default=8, help="that allocate and free meanwhile")
    arguments.add_argument("--rounds", type=int, default=3, help="of all kinds in turn")
    options = arguments.parse_args()
    program = options.build / "bench" / "trim_bench"
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind in KINDS:
            runs[kind].append(measured(program, options.megabytes, options.threads, kind))
    of = f"{options.megabytes} MB, {options.threads} threads"
    publish(options.page, "trims", [figure for kind in KINDS for figure in figures_of(kind, of, runs)])


if __name__ == "__main__":
    main()
