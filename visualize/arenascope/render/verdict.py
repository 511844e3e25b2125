# SPDX-License-Identifier: MIT
"""The verdict in a terminal: each finding as a sentence, what shows it, and the command that acts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from arenascope.findings import Finding, Verdict

INDENT: Final = 3


def render_verdict(verdict: Verdict) -> Iterator[RenderableType]:
    """How much is in use, the findings in order, numbered; then what limits the trust in them."""
    yield Text(verdict.lead)
    if not verdict.findings:
        yield Text("No single cause stands out.")
    for number, finding in enumerate(verdict.findings, start=1):
        yield from _finding(number, finding)
    for caveat in verdict.caveats:
        yield Text(caveat, style="yellow")


def _finding(number: int, finding: Finding) -> Iterator[RenderableType]:
    yield _indented(Text(finding.sentence, style="bold"), f"{number}. ")
    yield _indented(Text(finding.evidence))
    if finding.estimate:
        yield _indented(Text(f"An estimate: {finding.estimate}.", style="yellow"))
    if finding.command:
        yield _command(finding.command)
    for step in finding.next:
        yield _indented(Text(step.says, style="dim"))
        yield _command(step.command)


def _command(command: str) -> RenderableType:
    """In one piece, to be copied: longer than the terminal is wide if need be."""
    return Text(f"{'':{INDENT}}{command}", style="green", no_wrap=True, overflow="ignore")


def _indented(text: Text, label: str = "") -> RenderableType:
    """A paragraph that stands right of the numbers."""
    if not label:
        return Padding(text, (0, 0, 0, INDENT), expand=False)
    table = Table.grid(padding=0)
    table.add_column(width=INDENT, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(label, style="bold"), text)
    return table
