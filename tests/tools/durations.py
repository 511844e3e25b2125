# SPDX-License-Identifier: MIT
"""How long tests take: what was measured here is in .cache/durations.json, and orders the modules of a run.

tests/durations.json has the seconds of modules for who has measured nothing yet, a fresh clone. To write it anew from
what was measured here: `.venv/bin/python tests/tools/durations.py`.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
MEASURED = TESTS.parent / ".cache" / "durations.json"
COMMITTED = TESTS / "durations.json"
SHORT = 2.0  # seconds: a module that takes less comes in the end of a run anyway, and is not in the table


class Cost(NamedTuple):
    """What a test takes, with its fixtures."""

    seconds: float
    cpu: float  # seconds of processor time, also of the children that it has waited for

    def __add__(self, other: tuple[float, ...]) -> Cost:  # type: ignore[override]
        """Both, one after the other."""
        return Cost(self.seconds + other[0], self.cpu + other[1])


NOTHING = Cost(0.0, 0.0)


def cpu_seconds() -> float:
    """The processor time of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


def read(path: Path = MEASURED) -> dict[str, Cost]:
    """By the test's id. What cannot be read counts as nothing: these are figures to order tests by, no more."""
    try:
        return {test: Cost(*figures) for test, figures in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def merge(measured: dict[str, Cost], path: Path = MEASURED) -> None:
    """Replaces what is known of these tests, and leaves the others. Whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {**read(path), **measured}
    scratch = path.with_suffix(f".{os.getpid()}")
    lines = [f"{json.dumps(test)}: [{cost.seconds:.2f}, {cost.cpu:.2f}]" for test, cost in sorted(known.items())]
    scratch.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    scratch.rename(path)


def by_module(costs: dict[str, Cost]) -> dict[str, Cost]:
    """Sums by the name of the file."""
    sums: dict[str, Cost] = defaultdict(lambda: NOTHING)
    for test, cost in costs.items():
        sums[module_of(test)] += cost
    return dict(sums)


def module_of(test: str) -> str:
    """The name of the file that a test's id names."""
    return Path(test.partition("::")[0]).name


def expected(tests: Iterable[str], measured: dict[str, Cost], committed: dict[str, float]) -> dict[str, float]:
    """Seconds by module of these tests: as measured here, or else as the table has it, or else a second each."""
    seconds: dict[str, float] = defaultdict(float)
    unknown: dict[str, int] = defaultdict(int)
    for test in tests:
        if test in measured:
            seconds[module_of(test)] += measured[test].seconds
        else:
            unknown[module_of(test)] += 1
    for module, count in unknown.items():
        seconds[module] = max(seconds[module] + count, committed.get(module, 0.0))
    return dict(seconds)


def committed_table(path: Path = COMMITTED) -> dict[str, float]:
    """Seconds by module."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main() -> None:
    """Writes the table of modules; those that are longest come first. Files that are gone are left out."""
    there = {test: cost for test, cost in read().items() if (TESTS.parent / test.partition("::")[0]).exists()}
    sums = sorted(by_module(there).items(), key=lambda entry: (-entry[1].seconds, entry[0]))
    lines = [f'  "{module}": {cost.seconds:.0f}' for module, cost in sums if cost.seconds >= SHORT]
    COMMITTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    total = sum((cost.cpu for _, cost in sums), 0.0)
    print(f"{len(lines)} modules in {COMMITTED.name}; {total:.0f} s of processor time in all that was measured")


if __name__ == "__main__":
    main()
