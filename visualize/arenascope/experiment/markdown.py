# SPDX-License-Identifier: MIT
"""The analysis as Markdown: for a ticket, or for a page such as docs/experiments.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arenascope.experiment.columns import cell, heading, marks_table, used
from arenascope.experiment.verdict import verdict
from arenascope.humanize import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.experiment.analysis import Analysis


def render(analysis: Analysis) -> str:
    """Verdict, table, marks and caveats."""
    return "\n".join(_lines(analysis)) + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    outcome = verdict(analysis)
    yield f"**{_plain(analysis.spec.title)}.** {_plain(outcome.lead)}"
    yield ""
    columns = [each for each in used(analysis) if each.terminal]
    header = ["configuration", "runs", *(_one_line(heading(each)) for each in columns)]
    rows = []
    for row in analysis.rows:
        name = f"{row.name} *" if row.name in analysis.front else row.name
        rows.append([name, str(row.runs), *(_one_line(cell(analysis, row, each)) for each in columns)])
    yield from _table(header, rows)
    if analysis.marks:
        yield ""
        header, rows = marks_table(analysis)
        yield from _table(["memory at", *header[1:]], rows)
    yield ""
    for line in outcome.caveats:
        yield f"- {_plain(line)}"
    for name, why in analysis.left_out.items():
        yield f"- {name}: not available here: {_plain(why)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|---|{'---:|' * (len(header) - 1)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _one_line(text: str) -> str:
    """A median and its interval, a title and its unit: the second in brackets."""
    first, _, second = text.partition("\n")
    return f"{first} ({second})" if second else first


def _plain(text: str) -> str:
    """Without what would end a cell, a line, or begin a style."""
    return printable(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;").replace(" *", " \\*")
