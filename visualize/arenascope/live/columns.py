# SPDX-License-Identifier: MIT
"""What is shown of the machine: columns, lines that are sorted, filtered and grouped, and totals."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import SHORT
from arenascope.live.process_table import Standing

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from arenascope.live.process_table import Entry

RSS: Final = "Rss"
COLUMNS: Final = ("PID", RSS, *(name for name in SHORT if name != "other"), "other", "age", "command")
GROUPINGS: Final = ("none", "command", "cgroup")


@dataclass(frozen=True)
class Quantity:
    """Bytes. None: not known. `quick`: by the kernel's quick count. `least`: what is not known adds to it."""

    bytes: int | None
    quick: bool = False
    least: bool = False


@dataclass(frozen=True)
class Listed:
    """A process, or a group of them."""

    key: Hashable
    title: str
    members: tuple[Entry, ...]
    cells: dict[str, Quantity]
    age: float | None  # seconds since the snapshot; of a group: since the oldest one

    @property
    def entry(self) -> Entry | None:
        """The process; None: it is a group."""
        return self.members[0] if self.key == self.members[0].identity else None


class Choice(NamedTuple):
    """What the user wants to see."""

    sort: str = RSS
    reverse: bool = False
    words: str = ""
    group: str = "none"
    within: tuple[tuple[str, str], ...] = ()  # groups that were opened: by what, and the name


def held_of(entry: Entry) -> dict[str, Quantity]:
    """What is known of a process.

    Rss is that of the snapshot as long as the kernel's quick count says the same as then.
    """
    figures = entry.figures
    if figures is None:
        return {RSS: Quantity(entry.quick, quick=True)} | dict.fromkeys(SHORT, Quantity(None))
    fresh = figures.rss is not None and figures.quick == entry.quick
    rss = Quantity(figures.rss) if fresh else Quantity(entry.quick, quick=True)
    return {RSS: rss} | {name: Quantity(figures.rows[name]) for name in SHORT}


def summed(helds: Iterable[Quantity]) -> Quantity:
    """A sum. What is not known of some makes it the least that it can be; known of none it is not known."""
    every = list(helds)
    known = [held for held in every if held.bytes is not None]
    if every and not known:
        return Quantity(None)
    return Quantity(
        sum(held.bytes or 0 for held in known),
        quick=any(held.quick for held in known),
        least=len(known) < len(every) or any(held.least for held in known),
    )


def totals(entries: Iterable[Entry]) -> dict[str, Quantity]:
    """Sums over processes, column by column."""
    cells = [held_of(entry) for entry in entries]
    return {name: summed(each[name] for each in cells) for name in (RSS, *SHORT)}


def title_of(entry: Entry) -> str:
    """What a process is called: its arguments without the program's directory, and its name if this is another."""
    comm, cmdline = entry.process.comm, entry.cmdline
    program, _, arguments = cmdline.partition(" ")
    shown = f"{program.rpartition('/')[2]} {arguments}".strip()
    if not shown:
        return f"[{comm}]"
    return shown if shown.startswith(comm) else f"{comm}: {shown}"


def age_of(entry: Entry, now: float | None = None) -> float | None:
    """Seconds since the last snapshot; None: there was none."""
    return None if entry.figures is None else (time.monotonic() if now is None else now) - entry.figures.at


def lines_of(entries: Iterable[Entry], choice: Choice) -> list[Listed]:
    """The lines in their order."""
    found = [entry for entry in entries if chosen(entry, choice)]
    made = [_line(entry) for entry in found] if choice.group == "none" else _groups(found, choice.group)
    known = [line for line in made if _rank(line, choice.sort) is not None]
    unknown = [line for line in made if _rank(line, choice.sort) is None]
    downward = (choice.sort not in {"PID", "command"}) != choice.reverse
    known.sort(key=lambda line: str(line.key))
    known.sort(key=lambda line: _rank(line, choice.sort), reverse=downward)  # type: ignore[arg-type,return-value]
    unknown.sort(key=lambda line: (-(line.cells[RSS].bytes or 0), str(line.key)))
    return known + unknown  # what is not known comes last, lest it resemble the largest


def matches(entry: Entry, words: str) -> bool:
    """Whether it has these words in PID, name, arguments or cgroup."""
    said = f"{entry.process.pid} {entry.process.comm} {entry.cmdline} {entry.cgroup}".lower()
    return all(word in said for word in words.lower().split())


def chosen(entry: Entry, choice: Choice) -> bool:
    """Whether it is in each group that was opened, and has the words."""
    return all(_group_of(entry, by) == name for by, name in choice.within) and matches(entry, choice.words)


def _line(entry: Entry) -> Listed:
    return Listed(entry.identity, title_of(entry), (entry,), held_of(entry), age_of(entry))


def _groups(entries: Sequence[Entry], by: str) -> list[Listed]:
    members: dict[str, list[Entry]] = {}
    for entry in entries:
        members.setdefault(_group_of(entry, by), []).append(entry)
    return [_group(title, tuple(each)) for title, each in members.items()]


def _group_of(entry: Entry, by: str) -> str:
    return entry.cgroup or "/" if by == "cgroup" else entry.process.comm


def _group(title: str, members: tuple[Entry, ...]) -> Listed:
    ages = [age for age in map(age_of, members) if age is not None]
    return Listed(title, title, members, totals(members), max(ages, default=None))


def _rank(line: Listed, column: str) -> float | str | None:
    if column == "PID":
        entry = line.entry
        return len(line.members) if entry is None else entry.process.pid
    if column == "command":
        return line.title.lower()
    return line.age if column == "age" else line.cells[column].bytes


def taken(entries: Iterable[Entry]) -> int:
    """At how many there was a snapshot."""
    return sum(entry.figures is not None for entry in entries)


def mark_of(entry: Entry) -> str:
    """Why there is no snapshot, in a word: for the column of the age."""
    return {Standing.DENIED: "denied", Standing.FAILED: "failed"}.get(entry.standing, "")
