# SPDX-License-Identifier: MIT
"""What the benchmarks measure, in one form: a figure beside its limit, a row on the terminal and on a page of docs/."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from tools import marked  # noqa: E402 - the tools are found there

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHOWN = ("what", "ours", "limit", "ours / limit", "goal", "met")
COLUMNS = (*SHOWN, "commit", "date", "machine")
LOAD = os.getloadavg()[0]  # at the start: later, the benchmark is a part of the load


class Limit(NamedTuple):
    """What a figure stands beside: fixed, or of each run. The goal is so many times the limit, at most."""

    value: float | Sequence[float]
    of: str = ""  # what takes so much
    goal: float | None = 1.0


class Figure(NamedTuple):
    """A figure, of one run or of several: less is better. `what` names its row, and says all that it depends on."""

    what: str
    ours: float | Sequence[float]
    unit: str
    limit: Limit | None = None
    spread: str = ""  # of the ratio, where it is not that of the runs

    def row(self) -> marked.Row:
        """The first columns of its row: medians, and the median of the ratios run by run."""
        ours = _runs(self.ours)
        row = dict.fromkeys(SHOWN, "") | {"what": self.what, "ours": amount(ours, self.unit)}
        if self.limit:
            limits = _runs(self.limit.value)
            ratios = [mine / its for mine, its in zip(ours, limits if len(limits) > 1 else limits * len(ours))]
            ratio, goal = statistics.median(ratios), self.limit.goal
            spread = self.spread or (f"({min(ratios):.2f} - {max(ratios):.2f})" if len(ratios) > 1 else "")
            row["limit"] = ": ".join(filter(None, (amount(limits, self.unit), self.limit.of)))
            row["ours / limit"] = f"{ratio:.4g} {spread}".strip()
            if goal is not None:
                row |= {"goal": f"≤ {goal:g}", "met": "yes" if ratio <= goal else "no"}
        return row


def _runs(value: float | Sequence[float]) -> list[float]:
    return [value] if isinstance(value, (int, float)) else list(value)


def amount(values: Sequence[float], unit: str) -> str:
    """The median as people read it: three digits, or all before the point."""
    value = statistics.median(values)
    digits = f"{value:.3g}"
    return f"{value:,.0f} {unit}" if "e+" in digits else f"{digits} {unit}"


def machine() -> str:
    """Where it is measured."""
    system = "Linux " + ".".join(platform.release().split(".")[:2])
    return f"{os.cpu_count()} processors, {system}, {os.confstr('CS_GNU_LIBC_VERSION')}, load {LOAD:.1f}"


def table_of(name: str) -> marked.Table:
    """The table on the page."""
    return marked.Table("bench", name, COLUMNS)


def publish(page: Path | None, name: str, figures: Iterable[Figure]) -> None:
    """Prints the figures, and writes their rows into a table of the page; its other rows stay."""
    rows = [each.row() for each in figures]
    if not rows:
        return
    shown = Table(title=name)
    for column in SHOWN:
        shown.add_column(column, justify="right" if column in {"ours", "ours / limit", "goal"} else "left")
    for row in rows:
        shown.add_row(*row.values())
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(shown)
    if page:
        write(page, table_of(name), rows)


def write(page: Path, table: marked.Table, rows: Iterable[marked.Row]) -> None:
    """Writes rows into a table of a page, with where and when they were measured; its other rows stay."""
    of = {"commit": marked.commit(), "date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine()}
    page.write_text(table.replaced(page.read_text(), [row | of for row in rows]))


def parser(about: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", type=Path, default=ROOT / "build")
    made.add_argument("--page", type=Path, help="write the figures into the tables of this page, as `make bench` does")
    return made
