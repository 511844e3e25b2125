# SPDX-License-Identifier: MIT
"""Tables in pages of docs/ that programs write between two comments, and the commit that such a row is of."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from tools.paths import ROOT

END = "<!-- to here -->"
WRITTEN = tuple(f"docs/{name}.md" for name in ("benchmarks", "findings", "kernels", "recognisers", "testing"))
CELL = re.compile(r"(?<!\\)\|")  # what divides two of them

Row = dict[str, str]  # its cells by the names of the columns


class MarkerError(ValueError):
    """A page lacks a comment between which a table is to be."""


@dataclass(frozen=True)
class Table:
    """A table: the command of `make` that writes it, its name, and its columns."""

    maker: str
    name: str
    columns: tuple[str, ...]

    @property
    def begin(self) -> str:
        """The comment before it."""
        return f"<!-- make {self.maker} writes this: {self.name} -->"

    def rows(self, page: str) -> list[Row]:
        """Its rows in a page. A column that the page lacks is empty; one that the table lacks is left out."""
        lines = [_cells(line) for line in self._parts(page)[1].splitlines() if line.startswith("|")]
        found = [dict(zip(lines[0], line)) for line in lines[2:]]
        return [{column: row.get(column, "") for column in self.columns} for row in found]

    def written(self, page: str, rows: Iterable[Row]) -> str:
        """The page with these rows in the table, and no others."""
        before, _, behind = self._parts(page)
        lines = [
            self.columns,
            ("---",) * len(self.columns),
            *(tuple(row[each] for each in self.columns) for row in rows),
        ]
        text = "\n".join(f"| {' | '.join(each.replace('|', chr(92) + '|') for each in line)} |" for line in lines)
        return f"{before}{self.begin}\n\n{text}\n\n{END}{behind}"

    def replaced(self, page: str, rows: Iterable[Row]) -> str:
        """The page with these rows in place of those with the same first cell; new ones come last, all others stay."""
        key = self.columns[0]
        known = {row[key]: row for row in self.rows(page)}
        return self.written(page, {**known, **{row[key]: row for row in rows}}.values())

    def _parts(self, page: str) -> tuple[str, str, str]:
        """What is before, in and behind it."""
        before, _, rest = page.partition(self.begin)
        table, end, behind = rest.partition(END)
        if not end or self.begin in behind or "<!-- make " in table:
            raise MarkerError(f"the page must have {self.begin} once, and {END} behind it")
        return before, table, behind


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in CELL.split(line)[1:-1]]


def commit() -> str:
    """The commit that is tested; with a + where files differ from it (but for the pages that programs write)."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    others = [*git, "diff", "--quiet", "HEAD", "--", ".", *(f":!{page}" for page in WRITTEN)]
    return name.strip() + ("+" if subprocess.run(others, check=False).returncode else "")
