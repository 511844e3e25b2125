# SPDX-License-Identifier: MIT
"""In what two snapshots differ in kind: what this means for their comparison is said, and not guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.humanize import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.compare.digest import Digest, Seen


LIVE: Final = "live"  # the mode in which a process runs on


class Note(NamedTuple):
    """A difference in kind."""

    code: str
    text: str


def same_process(one: Seen, other: Seen) -> bool | None:
    """Whether both snapshots are of one process; None: this is not known.

    A process keeps its PID, and each of its arenas its address. Another process of this PID has its libc elsewhere.
    """
    if one.pid is not None and other.pid is not None and one.pid != other.pid:
        return False
    if one.exe is not None and other.exe is not None and one.exe != other.exe:
        return False
    if not one.main_arenas or not other.main_arenas:
        return None
    return same_layout(one, other) and (None if one.pid is None or other.pid is None else True)


def same_layout(one: Seen, other: Seen) -> bool:
    """Whether an address means the same in both: in one process, and in the forks of one process."""
    if not one.main_arenas and not other.main_arenas:
        return True
    return bool(set(one.main_arenas) & set(other.main_arenas))


def elapsed_s(one: Seen, other: Seen) -> float | None:
    """Seconds from one snapshot to the other, by the machine's clock; below 0 if the first is the later one."""
    if one.time_ns is None or other.time_ns is None:
        return None
    return (other.time_ns - one.time_ns) / 1e9


def notes(before: Digest, after: Digest) -> Iterator[Note]:
    """Each difference in kind, the gravest first."""
    one, other = before.who, after.who
    yield from _processes(one, other)
    yield from _clocks(one, other)
    yield from _pages(one, other)
    for what, option, have in (
        ("who holds the chunks", "--graph", (before.types is not None, after.types is not None)),
        ("objects by type", "--objects", (before.objects is not None, after.objects is not None)),
        ("call stacks", "run --profile", (before.sites is not None, after.sites is not None)),
    ):
        if have[0] != have[1]:
            yield Note(
                option.rpartition("--")[2],
                f"Only the {'first' if have[0] else 'second'} snapshot has {what} ({option}): these are not compared.",
            )
    if before.sites is not None and after.sites is not None and (before.page_rate, after.page_rate) != (1, 1):
        rates = [f"one page in {each.page_rate or '?'}" for each in (before, after)]
        pages = (
            rates[0] if rates[0] == rates[1] else f"{rates[0]} in the first snapshot, and on {rates[1]} in the second,"
        )
        yield Note("estimate", f"What call stacks have in use is an estimate: the chunks on {pages} stand for all.")
    if (one.mode == LIVE) != (other.mode == LIVE):
        yield Note("mode", f"The first snapshot has mode {one.mode}, the second mode {other.mode}.")
    torn = [words for who, words in ((one, "first"), (other, "second")) if not who.exact]
    if torn:
        snapshots = "Both snapshots are" if len(torn) > 1 else f"The {torn[0]} snapshot is"
        yield Note("exact", f"{snapshots} not exact: a small change may be no change of the process.")


def _processes(one: Seen, other: Seen) -> Iterator[Note]:
    named = " and ".join(f"{printable(each.comm)} ({each.pid})" for each in (one, other))
    if same_process(one, other) is False:
        if one.pid == other.pid and one.exe == other.exe:
            yield Note("process", f"These are two processes with one PID: {named}. The program was started again.")
        else:
            yield Note("process", f"These are two processes: {named}. There are no rates.")
        if not same_layout(one, other):
            yield Note("layout", "Their heaps lie at different addresses: arenas and pages have nothing in common.")
    if one.exe != other.exe and one.exe is not None and other.exe is not None:
        yield Note("program", f"The programs differ: {printable(one.exe)} and {printable(other.exe)}.")
    if (one.malloc, one.glibc) != (other.malloc, other.glibc):
        mallocs = " and ".join(f"{each.malloc} {printable(each.glibc or '')}".strip() for each in (one, other))
        yield Note("malloc", f"The two snapshots have different mallocs: {mallocs}.")
    if one.kind != other.kind:
        yield Note("kind", f"The first snapshot is of a {one.kind}, the second at a {other.kind}.")


def _clocks(one: Seen, other: Seen) -> Iterator[Note]:
    elapsed = elapsed_s(one, other)
    if elapsed is None:
        yield Note("time", "It is not known how much time is between the snapshots: there are no rates.")
    elif elapsed < 0:
        yield Note("time", "The first snapshot was taken after the second.")


def _pages(one: Seen, other: Seen) -> Iterator[Note]:
    if one.page_size != other.page_size:
        yield Note("page_size", f"The pages have {one.page_size} and {other.page_size} bytes: they are not compared.")
    if one.residency_known != other.residency_known:
        which = "second" if one.residency_known else "first"
        yield Note(
            "residency", f"Of the {which} snapshot it is not known which pages are resident. Chunks are compared."
        )
