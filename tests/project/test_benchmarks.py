# SPDX-License-Identifier: MIT
"""Figures of docs/benchmarks.md: each is a row that a program of bench/ wrote, in one form."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import marked
from tools.paths import ROOT

PAGE = ROOT / "docs/benchmarks.md"
AMOUNT = re.compile(r"[\d,]+(\.\d+)?(e-\d+)? \S+|")


def module() -> Any:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "bench/figures.py")
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


figures = module()
Figure, Limit = figures.Figure, figures.Limit


def programs() -> list[str]:
    """Those that `make bench` runs."""
    named = re.search(r"^BENCH = (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named
    return named[1].split()


def row(figure: Any) -> list[str]:
    return list(figure.row().values())


@pytest.mark.check
@pytest.mark.parametrize(
    ("figure", "cells"),
    [
        (Figure("a", 3, "s"), ["a", "3 s", "", "", "", ""]),
        (Figure("a", 3, "s", Limit(2.5)), ["a", "3 s", "2.5 s", "1.2", "≤ 1", "no"]),
        (Figure("a", 3, "s", Limit(2, "copy", 1.5)), ["a", "3 s", "2 s: copy", "1.5", "≤ 1.5", "yes"]),
        (Figure("a", 3.1, "s", Limit(2, "copy", 1.5)), ["a", "3.1 s", "2 s: copy", "1.55", "≤ 1.5", "no"]),
        (Figure("a", 3, "s", Limit(2, "copy", None), "± 0.1"), ["a", "3 s", "2 s: copy", "1.5 ± 0.1", "", ""]),
        (Figure("a", [3, 1, 2], "s", Limit(4)), ["a", "2 s", "4 s", "0.5 (0.25 - 0.75)", "≤ 1", "yes"]),
        # Run by run: not the ratio of the medians, 1.
        (Figure("a", [1, 2, 9], "s", Limit([2, 1, 3])), ["a", "2 s", "2 s", "2 (0.50 - 3.00)", "≤ 1", "no"]),
        (Figure("a", 12345.6, "ns"), ["a", "12,346 ns", "", "", "", ""]),
        (Figure("a", 0.00002, "s"), ["a", "2e-05 s", "", "", "", ""]),
        (Figure("a", 999.6, "ns"), ["a", "1,000 ns", "", "", "", ""]),
    ],
)
def test_the_row_of_a_figure(figure: Any, cells: list[str]) -> None:
    assert row(figure) == cells


@pytest.mark.check
def test_each_program_of_make_bench_writes_its_tables() -> None:
    """By the functions that do, into tables that the pages have; and the pages have no others."""
    texts = {name: (ROOT / "bench" / f"{name}.py").read_text() for name in programs()}
    writes = r'(?:publish\(\s*options\.page|Table\("bench"), "(\w+)"'
    named = {name: set(re.findall(writes, text)) for name, text in texts.items()}
    named["run"] = set(re.findall(r'^    "[\w-]+": "(\w+)",$', texts["run"], re.MULTILINE))
    assert [name for name, tables in named.items() if not tables] == []
    assert [name for name, text in texts.items() if re.search(r"\bConsole|\bargparse\.Arg", text)] == []
    pages = "".join((ROOT / page).read_text() for page in marked.WRITTEN)
    there = re.findall(r"^<!-- make bench writes this: (\w+) -->$", pages, re.MULTILINE)
    assert sorted(set.union(*named.values())) == sorted(there)


@pytest.mark.check
def test_each_row_of_the_page_has_the_form() -> None:
    page = PAGE.read_text()
    for name in re.findall(r"^<!-- make bench writes this: (\w+) -->$", page, re.MULTILINE):
        table = figures.table_of(name)
        rows = table.rows(page)
        assert rows
        assert table.written(page, rows) == page
        assert len({each["what"] for each in rows}) == len(rows)
        for each in rows:
            assert each["date"], each
            assert each["machine"], each
            assert bool(each["goal"]) == bool(each["met"]), each
            if each["goal"]:
                ratio = float(each["ours / limit"].split()[0])
                assert each["met"] == ("yes" if ratio <= float(each["goal"].removeprefix("≤ ")) else "no"), each


def test_a_program_writes_its_rows_and_no_others(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE.read_text())
    command = ["bench/trim.py", "--megabytes=2", "--threads=1", "--rounds=1", f"--page={page}"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    table: marked.Table = figures.table_of("trims")
    old, new = table.rows(PAGE.read_text()), table.rows(page.read_text())
    assert new[: len(old)] == old
    assert len(new) == 2 * len(old)
    for each in new[len(old) :]:
        assert each["what"].endswith(", 2 MB, 1 threads")
        assert AMOUNT.fullmatch(each["ours"])
        assert AMOUNT.fullmatch(each["limit"].partition(":")[0])
        assert each["commit"] == marked.commit()
        assert re.fullmatch(r"\d+ processors, Linux \d+\.\d+, glibc \d+\.\d+, load [\d.]+", each["machine"])
        assert each["ours"] in done.stdout
    assert table.written(page.read_text(), old) == PAGE.read_text()
