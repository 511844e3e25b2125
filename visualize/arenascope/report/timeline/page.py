# SPDX-License-Identifier: MIT
"""Everything that the page of a timeline says, as plain values for the template."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope import rows
from arenascope.compare import compare
from arenascope.compare.changes import difference
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import count, plural, printable, rate, size, span, time_words
from arenascope.report.amounts import Amount, amount, change_of
from arenascope.report.charts.stacked_area import spark
from arenascope.report.colours import APPEARANCES, BACKGROUND, BRIGHT, INK, Colour
from arenascope.report.map.data import pack
from arenascope.report.map.frames import Shown, reels
from arenascope.report.map.page_users import cut
from arenascope.report.page.compare import BY_SIZE, PINNING, SITES, changes, growth
from arenascope.report.page.model import Page
from arenascope.report.timeline import series as timeline_series
from arenascope.report.timeline.charts import chart, members, multiples
from arenascope.report.timeline.growth import named_over_time
from arenascope.report.timeline.series import known
from arenascope.timeline.reader import digest_of_snapshot, opened, read_from, snapshots_with_groups
from arenascope.timeline.snapshot_bodies import Details
from arenascope.timeline.suspect_text import evidence, names_words, none_words, process_words, rate_words
from arenascope.timeline.suspects import suspects_of
from arenascope.version import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from arenascope.compare import Comparison
    from arenascope.report.page.compare import GrownLine, GrownTable, Growth
    from arenascope.report.timeline.series import Course, Detail
    from arenascope.timeline.reader import ProcessRow, Timeline
    from arenascope.timeline.suspects import Suspect

STATES: Final = (*(Colour(state) for state in range(Colour.USED, Colour.USED_SWAPPED + 1)), Colour.UNKNOWN)
TREND_OF: Final = " at 0x"  # behind an arena's name in a table
SAID: Final = 8
SHOWN_SUSPECTS: Final = 50


def build(path: str) -> Page:
    """The page of a timeline."""
    with opened(path) as db:
        timeline, details = read_from(db), Details(db, path)
        if not any(poll.snapshots for poll in timeline.polls):
            raise ArenascopeError(Code.BAD_INPUT, f"'{path}' has no snapshot yet")
        return _page(path, timeline, details)


def _page(path: str, timeline: Timeline, details: Details) -> Page:
    course = timeline_series.course(timeline)
    comparison = _ends(path, course)
    grown = growth(comparison, ("first", "last"))
    arenas = timeline_series.largest_arenas(course, details)
    sizes = [int(line.key) for table in grown.tables if _by_size(table) for line in table.lines]
    stacks = [line.key for table in grown.tables if table.kind == SITES for line in table.lines]
    held = timeline_series.detail(course, details, arenas, sizes, stacks)
    found_suspects = suspects_of(path, timeline)
    found = timeline_series.findings(course, held)
    shown = [Shown(generation, snapshots) for generation, snapshots in course.leaders.items()]
    drawn = reels(details, shown)
    values = {
        "version": version(),
        "who": _who(timeline, _size(path)),
        "lead": _lead(course),
        "changes": changes(comparison).rows,
        "caveats": list(_caveats(timeline, course)),
        "chart": chart(course),
        "found": found,
        "ledger": _ledger(course),
        "states": [(int(state), state.name.lower(), _appearance(state)) for state in STATES],
        "reels": drawn,
        "shown_polls": len(course.polls),
        "polls": len(timeline.polls),
        "arenas": list(multiples(course, held)),
        "members": members(course, timeline),
        "growth": _growth(path, timeline, course, comparison, _with_trends(grown, course, held)),
        "suspects": _suspects(found_suspects),
        "suspect_count": len(found_suspects),
        "running_suspects": sum(not each.ended for each in found_suspects),
        "no_suspects": none_words(timeline),
        "no_names": names_words(timeline, snapshots_with_groups(path)),
        "page_count": any(reel.polls for reel in drawn.reels),
    }
    columns = {"time": np.array([poll.time_ns / 1e6 for poll in course.polls]), "at": course.at, "rss": course.rss}
    columns |= {row.name: course.held[row.name] for row in rows.ALL}
    blocks = [pack("course", columns.items()), *(block for reel in drawn.reels for block in reel.blocks)]
    script = {
        "pageSize": drawn.page_size * drawn.pages,
        "mallocTotal": 1 << 52,
        "background": BACKGROUND,
        "inks": {int(bright): ink for bright, ink in INK.items()},
        "bright": BRIGHT,
        "appearances": {int(colour): _appearance(colour)._asdict() for colour in APPEARANCES},
        "sides": [""],
        "unit": "page" if drawn.pages == 1 else "cell",
        "generations": [poll.generation for poll in course.polls],
        "rows": [row.name for row in rows.ALL],
        "reels": [
            {"generation": reel.generation, "pid": reel.pid, "polls": reel.polls, "why": reel.why}
            | {"total": reel.total, "arenas": [{"name": printable(name), "threads": ""} for name in reel.arenas]}
            for reel in drawn.reels
        ],
        "blocks": {block.name: block.layout for block in blocks},
    }
    return Page(values, blocks, script, "timeline.html.j2", "timeline.js", ("report.css", "timeline.css"))


def _appearance(colour: Colour) -> Any:
    """How a state of a page is called here: what lies on a page that is swapped is not told apart."""
    appearance = APPEARANCES[colour]
    if colour is Colour.USED_SWAPPED:
        return appearance._replace(name="swapped", meaning="swapped out, in use or not")
    if colour is Colour.USED:
        return appearance._replace(meaning="resident, and the application holds some of it")
    return appearance


def _size(path: str) -> int:
    """Returns the size of the file, with its log."""
    return sum(os.stat(each).st_size for each in (path, f"{path}-wal") if os.path.exists(each))  # noqa: PTH110, PTH116 - as it was typed


class Heading(NamedTuple):
    """What was watched, as the page's head names it."""

    watched: str
    command: str
    times: str
    snapshots: str


def _who(timeline: Timeline, bytes_: int) -> Heading:
    polls = timeline.polls
    first, last = (time_words(poll.time_ns)[:19].replace("T", " ") for poll in (polls[0], polls[-1]))
    snapshots = sum(len(poll.snapshots) for poll in polls)
    return Heading(
        watched=printable(timeline.about.get("watched", "a process")),
        command=printable(_last_process(timeline).cmdline),
        times=f"{first} to {last} UTC",
        snapshots=f"{plural(len(polls), 'poll')}, {plural(snapshots, 'snapshot')}, {size(bytes_)}",
    )


def _last_process(timeline: Timeline) -> ProcessRow:
    """The largest process at the last poll that has a snapshot."""
    last = next(poll for poll in reversed(timeline.polls) if poll.snapshots)
    return next(process for process in timeline.processes if process.id == last.snapshots[0].process)


def _leader(process: ProcessRow, course: Course, comparison: Comparison) -> str:
    """Between which snapshots things grew, and in what these differ in kind."""
    words = f"From the first snapshot of process {process.pid} ({printable(process.comm)}) to the last"
    words += f", in generation {course.polls[-1].generation}." if len(course.leaders) > 1 else "."
    return " ".join([words, *(note.text for note in comparison.notes)])


def _ends(path: str, course: Course) -> Comparison:
    """The first and last snapshot of the last generation's largest process, without what only some snapshots have."""
    snapshots = course.leaders[max(course.leaders)]
    digests = [digest_of_snapshot(path, snapshots[which(snapshots)].id)[0] for which in (min, max)]
    return compare(
        *(replace(each, types=None, owners=None, leaks=None, objects=None, classes=None) for each in digests)
    )


def _growth(path: str, timeline: Timeline, course: Course, comparison: Comparison, grown: Growth) -> Growth:
    """All tables of what grew, those of types and owners behind the others."""
    process = _last_process(timeline)
    return grown._replace(
        tables=[*grown.tables, *named_over_time(path, timeline, process.id)],
        hint=_leader(process, course, comparison),
    )


def _lead(course: Course) -> str:
    last = course.polls[-1].generation
    own = [number for number, poll in enumerate(course.polls) if poll.generation == last]
    known = [number for number in own if not np.isnan(course.rss[number])]
    if not known:
        return "It is unknown how much was resident."
    first, end = (int(course.rss[number]) for number in (known[0], known[-1]))
    seconds = (course.polls[known[-1]].time_ns - course.polls[known[0]].time_ns) / 1e9
    if seconds <= 0:
        return f"{size(end)} resident: one poll so far."
    way = "stayed at" if first == end else f"{'grew' if end > first else 'fell'} from {size(first)} to"
    since = f"In {span(seconds)}" if len(course.leaders) < 2 else f"In generation {last}, in {span(seconds)}"  # noqa: PLR2004
    speed = f" ({rate((end - first) * 60 / seconds)})" if first != end else ""
    return f"{since}, Rss {way} {size(end)}{speed}."


def _caveats(timeline: Timeline, course: Course) -> Iterator[str]:
    missing = sum(len(poll.snapshots) < poll.processes for poll in timeline.polls)
    if missing:
        yield f"In {plural(missing, 'poll')} not every process had a snapshot: the sums are of those that had one."
    inexact = sum(not snapshot.exact for poll in timeline.polls for snapshot in poll.snapshots)
    if inexact:
        verb = "was" if inexact == 1 else "were"
        yield f"{plural(inexact, 'snapshot')} {verb} not exact: there the rows need not add up to Rss."
    if len(course.polls) < len(timeline.polls):
        yield (
            f"{count(len(course.polls))} of {count(len(timeline.polls))} polls are shown: of each span of time the "
            "one with most resident."
        )
    notes = list(dict.fromkeys(poll.notes for poll in timeline.polls if poll.notes))
    yield from (f"{printable(words)}." for words in notes[-SAID:])


class SuspectLine(NamedTuple):
    """What has grown, and has not stopped."""

    title: str
    process: str
    evidence: str
    rate: Amount
    interval: str  # in the unit of the rate
    since: str
    held: Amount
    trend: str


def _suspects(found: Sequence[Suspect]) -> list[SuspectLine]:
    return [
        SuspectLine(
            title=cut(printable(each.title)),
            process=process_words(each),
            evidence=evidence(each),
            rate=Amount(round(each.rate), rate(each.rate), ""),
            interval=rate_words(each.rate, each.low, each.high).partition("(")[2].rstrip(")"),
            since=time_words(each.since_ns)[:19].replace("T", " "),
            held=amount(each.held),
            trend=spark(*each.course) if each.course else "",
        )
        for each in found[:SHOWN_SUSPECTS]
    ]


class LedgerLine(NamedTuple):
    """A row: as it is at the poll that is shown, and what it changed by since its generation began."""

    row: Any
    now: Any
    change: Any


def _ledger(course: Course) -> dict[str, Any]:
    """The rows that hold something at any poll; shown as they are at the last one."""
    start = next(n for n, poll in enumerate(course.polls) if poll.generation == course.polls[-1].generation)

    def line_of(row: Any, held: Any) -> LedgerLine:
        first, last = (None if np.isnan(held[at]) else int(held[at]) for at in (start, -1))
        return LedgerLine(row, amount(last), change_of(difference(first, last)))

    def some(kind: tuple[Any, ...]) -> list[LedgerLine]:
        found = [row for row in kind if np.isnan(course.held[row.name]).any() or course.held[row.name].any()]
        return [line_of(row, course.held[row.name]) for row in found]

    resident = sorted(
        some(rows.RESIDENT), key=lambda line: -float(np.nan_to_num(course.held[line.row.name]).max(initial=0))
    )
    return {"resident": resident, "rss": line_of(None, course.rss), "absent": some((*rows.ABSENT, *rows.BESIDE))}


def _by_size(table: GrownTable) -> bool:
    return table.what == BY_SIZE and table.kind != PINNING


def _with_trends(grown: Growth, course: Course, held: Detail) -> Growth:
    """The tables with a small line for each thing, from the first snapshot of the last generation to the last."""
    snapshots = course.leaders[max(course.leaders)]
    polls = sorted(snapshots)

    def values(table: GrownTable, line: GrownLine) -> NDArray[np.float64]:
        if table.what == "row":
            return known(snapshots[poll].rows.get(line.key) for poll in polls)
        if _by_size(table):
            return held.sizes[line.key][polls]
        if table.kind == SITES:
            return held.stacks[line.key][polls]
        resident = held.resident.get(line.name.partition(TREND_OF)[0])
        return np.empty(0) if resident is None else resident[polls]

    at = course.at[polls]
    return grown._replace(
        tables=[
            table._replace(lines=[line._replace(trend=spark(at, values(table, line))) for line in table.lines])
            for table in grown.tables
        ]
    )
