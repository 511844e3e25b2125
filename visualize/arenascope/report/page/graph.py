# SPDX-License-Identifier: MIT
"""The page's part on who holds the chunks in use: tables by owner, type and leak, and the tree for the icicle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arenascope.compare.digest import NOBODY
from arenascope.humanize import count, plural, printable, share, size
from arenascope.report.amounts import Amount, Change, amount
from arenascope.report.map.page_users import NO_TYPE
from arenascope.report.page.compare import change_in, grown_by
from arenascope.wire import dump_records as fmt
from arenascope.wire.owners import owner_at, owner_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from arenascope.compare import Comparison
    from arenascope.report.map.page_users import Held, Names

SHOWN: Final = 200  # types, owners, kinds of lost chunks
SENTENCES: Final = 3
MANY: Final = 16  # pages: what keeps fewer has no sentence
GREW: Final = 0.01  # of all bytes: what changed by less is not named
SHOWN_LEADING: Final = 10  # owners of what several have
SHOWN_BRANCHES: Final = 3000  # of the icicle


class HeldLine(NamedTuple):
    """Chunks of a type, or of an owner."""

    light: str
    name: str
    short: str
    evidence: str | None
    chunks: int | None
    whole: Amount  # what the table is sorted by: bytes of a type, what an owner retains
    retained: Amount
    pages: int
    stranded: Amount  # on pages that only this keeps
    part: Amount  # of those that others keep, too
    change: Change | None


class LeadingLine(NamedTuple):
    """An owner that leads to what several have."""

    name: str
    whole: Amount


class LeakLine(NamedTuple):
    """Lost chunks of a type and size."""

    light: str
    name: str
    size: int | None
    direct: int
    indirect: int
    suspects: int
    whole: Amount
    example: str | None
    change: Change | None


class PinWords(NamedTuple):
    """What keeps pages, in a sentence."""

    light: str
    words: str
    name: str


class GraphSection(NamedTuple):
    """All that the page says of it."""

    lines: list[str]  # what is known, and what is not
    page_pins: list[PinWords]
    grew: list[str]
    owners: list[HeldLine]
    owner_count: int
    several: Amount
    leading: list[LeadingLine]
    leading_count: int
    asked: int  # how many of them were asked to how much they lead; 0: not known
    types: list[HeldLine]
    type_count: int
    leaks: list[LeakLine]
    leak_count: int
    lost: Amount
    suspects: Amount
    branches: bool


def section(held: Sequence[Held], names: Names, comparison: Comparison | None = None) -> GraphSection | None:
    """None: the last dump has no graph."""
    now = held[-1]
    if not len(now.dump.graph):
        return None
    head = now.dump.graph[0]
    bytes_ = int(head["bytes"])
    types = sorted(
        _types(now, grown_by(comparison.types if comparison else None), names, bytes_),
        key=lambda line: -(line.whole.exact or 0),
    )
    owners = sorted(
        _owners(now, grown_by(comparison.owners if comparison else None), names, bytes_),
        key=lambda line: -(line.whole.exact or 0),
    )
    leaks = list(_leaks(now, grown_by(comparison.leaks if comparison else None), names))
    lost = int(head["direct"]["bytes"]) + int(head["indirect"]["bytes"])
    return GraphSection(
        lines=list(_known(now)),
        page_pins=list(_page_pins(now, names)),
        grew=[*_grown("By type", types, bytes_), *_grown("By owner", owners, bytes_)],
        owners=owners[:SHOWN],
        owner_count=len(owners),
        several=amount(_several(now), bytes_),
        leading=_leading(now, names)[:SHOWN_LEADING],
        leading_count=int(now.dump.graph_leading[0]["owners"]) if len(now.dump.graph_leading) else 0,
        asked=int(head["asked"]),
        types=types[:SHOWN],
        type_count=len(types),
        leaks=leaks[:SHOWN],
        leak_count=len(leaks),
        lost=amount(lost, bytes_),
        suspects=amount(int(head["suspects"]["bytes"]), bytes_),
        branches=len(now.dump.graph_branches) > 0,
    )


def _known(now: Held) -> Iterator[str]:
    """How much of it is explained, said plainly."""
    dump, head = now.dump, now.dump.graph[0]
    bytes_ = int(head["bytes"])
    typed = sum(int(each["bytes"]) for each in dump.graph_types if each["name"])
    several = _several(now)
    yield (
        f"{count(int(head['chunks']))} chunks in use, {size(bytes_)} with their headers; "
        f"{plural(int(head['pointers']), 'pointer')} between them, and {count(int(head['roots']))} from outside."
    )
    lost = int(head["unreached"])
    yield f"{share(typed, bytes_)} of the bytes have a type; {size(bytes_ - typed)} have none (“{NO_TYPE}” below)."
    yield (
        f"{share(int(head['reached']) - several, bytes_)} have a single owner, {share(several, bytes_)} several owners"
        + (f", and {share(lost, bytes_)} none: these are lost." if lost else "; none are lost.")
    )
    if int(head["objects"]):
        yield (
            "Objects that an interpreter surely holds count for it alone: words of other owners' chunks that lead to "
            "them, too, are mostly left over, and own nothing of them."
        )
    if not int(head["flags"]) & fmt.GraphFlag.EXACT:
        yield "Not exact: a part of the memory could not be read, or the process ran on while it was read."


def _several(now: Held) -> int:
    """Bytes that no owner holds alone."""
    dump = now.dump
    return sum(int(each["retained"]) for each in dump.graph_owners if dump.string(each["kind"]) == "several")


def _leading(now: Held, names: Names) -> list[LeadingLine]:
    several = _several(now)
    return [
        LeadingLine(names.owners.shown[now.owners[int(each["owner"])]], amount(int(each["bytes"]), several))
        for each in now.dump.graph_leading
    ]


def _line(light: str, record: Any, whole: int, bytes_: int, **others: Any) -> HeldLine:
    kept = record["pinned"]
    return HeldLine(
        light=light,
        whole=amount(whole, bytes_),
        retained=amount(int(record["retained"]), bytes_),
        pages=int(kept["pages"]),
        stranded=amount(int(kept["stranded"])),
        part=amount(int(kept["part"])),
        **others,
    )


def _types(now: Held, grown: dict[Hashable, int | None] | None, names: Names, bytes_: int) -> Iterator[HeldLine]:
    dump = now.dump
    for number, record in zip(now.types, dump.graph_types):
        others = bool(record["flags"] & fmt.GraphRecordFlag.OTHERS)
        name = "all other types" if others else names.types.shown[number]
        held = int(record["bytes"])
        yield _line(
            "" if others else f"type:{number}",
            record,
            held,
            bytes_,
            name=name,
            short=name if record["name"] else "chunks of unknown type",
            evidence=printable(dump.string(record["evidence"])) or None,
            chunks=int(record["count"]),
            change=change_in(grown, dump.string(record["name"])),
        )


def _owners(now: Held, grown: dict[Hashable, int | None] | None, names: Names, bytes_: int) -> Iterator[HeldLine]:
    dump = now.dump
    for index, (number, record) in enumerate(zip(now.owners, dump.graph_owners)):
        held = int(record["retained"])
        owner = owner_at(dump, index)
        if owner is None or owner.kind in NOBODY or not held:
            continue  # lost chunks have a table of their own
        yield _line(
            f"owner:{number}",
            record,
            held,
            bytes_,
            name=names.owners.shown[number],
            short=names.short[number],
            evidence=None,
            chunks=None,
            change=change_in(grown, owner_key(owner)),
        )


def _leaks(now: Held, grown: dict[Hashable, int | None] | None, names: Names) -> Iterator[LeakLine]:
    def bytes_of(record: Any) -> int:
        return sum(int(record[kind]["bytes"]) for kind in ("direct", "indirect", "suspects"))

    dump = now.dump
    for number, record in zip(now.leaks, dump.graph_leaks):
        others = bool(record["flags"] & fmt.GraphRecordFlag.OTHERS)
        known = int(record["type"]) < len(now.types) and not others
        held = bytes_of(record)
        yield LeakLine(
            light=f"leak:{number}",
            name=names.types.shown[now.types[int(record["type"])]] if known else "all others" if others else NO_TYPE,
            size=int(record["size"]) or None,
            direct=int(record["direct"]["count"]),
            indirect=int(record["indirect"]["count"]),
            suspects=int(record["suspects"]["count"]),
            whole=amount(held),
            example=hex(int(record["example"])) if record["example"] else None,
            change=change_in(
                grown,
                (dump.string(dump.graph_types[int(record["type"])]["name"]) if known else "", int(record["size"])),
            ),
        )


def _page_pins(now: Held, names: Names) -> Iterator[PinWords]:
    """The pairs of type and owner that keep most pages."""
    dump = now.dump
    order = sorted(
        range(1, len(dump.graph_page_users)), key=lambda i: -int(dump.graph_page_users[i]["pinned"]["pages"])
    )
    for index in order[:SENTENCES]:
        record = dump.graph_page_users[index]
        user, kept = now.user(record), record["pinned"]
        pages = int(kept["pages"])
        if pages < MANY or user.type < 0 or user.owner < 0:
            continue
        known = names.types.shown[user.type] != NO_TYPE
        what = names.types.shown[user.type] if known else "chunks of unknown type"
        owner = names.short[user.owner]
        lost = dump.string(dump.graph_owners[record["owner"]]["kind"]) == "lost"
        who = "that are lost" if lost else f"held by {owner}"
        stranded = size(int(kept["stranded"]))
        yield PinWords(
            f"pair:{user.type}/{user.owner}",
            f"{count(pages)} pages are kept by nothing but {what} {who}: {stranded} on them is stranded.",
            f"{what} {who}",
        )


def _grown(by: str, lines: list[HeldLine], bytes_: int) -> Iterator[str]:
    """What grew or shrank most, if it is worth a sentence."""
    moved = [
        (line.change.exact, line)
        for line in lines
        if line.change and line.change.exact is not None and abs(line.change.exact) >= max(GREW * bytes_, 1)
    ]
    moved.sort(key=lambda each: -abs(each[0]))
    if moved:
        words = ", ".join(f"{line.short} {line.change.shown}" for _, line in moved[:SENTENCES] if line.change)
        yield f"{by}: {words}."


def icicle(now: Held) -> list[list[int]]:
    """The branches of the tree that retain most: depth, number, bytes retained, own bytes, chunks.

    The number is an owner's at depth 0 and a type's below; -1: the branch is the sum of smaller ones.
    """
    branches = now.dump.graph_branches
    least = 0
    if len(branches) > SHOWN_BRANCHES:
        least = int(sorted(branches["retained"].tolist(), reverse=True)[SHOWN_BRANCHES]) + 1
    made = []
    hidden = fmt.GRAPH_DEPTH
    for branch in branches:
        depth = int(branch["depth"])
        if depth > hidden:
            continue
        hidden = fmt.GRAPH_DEPTH
        if int(branch["retained"]) < least:
            hidden = depth
            continue
        numbers, index = (now.owners, branch["owner"]) if depth == 0 else (now.types, branch["type"])
        number = numbers[int(index)] if int(index) < len(numbers) else -1
        made.append([depth, number, int(branch["retained"]), int(branch["bytes"]), int(branch["count"])])
    return made
