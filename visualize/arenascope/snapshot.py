# SPDX-License-Identifier: MIT
"""A snapshot as the Python API has it, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from arenascope import rows
from arenascope.errors import ArenascopeError, Code
from arenascope.processes import process_at
from arenascope.table import Table
from arenascope.wire import commands
from arenascope.wire import dump_records as fmt
from arenascope.wire import graph as answers
from arenascope.wire.dump_records import SECTIONS
from arenascope.wire.graph_parts import owner_name
from arenascope.wire.json_decode import answer, parse
from arenascope.wire.summary import SCHEMA, Summary, document_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

    from arenascope.findings import Verdict
    from arenascope.processes import Identity
    from arenascope.wire.dump import Dump
    from arenascope.wire.graph import Why
    from arenascope.wire.graph_parts import Owner
    from arenascope.wire.profile_json import ReadProfile
    from arenascope.wire.snapshot import TakenDump
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.mappings import Mappings
    from arenascope.wire.summary.origin import Doubt
    from arenascope.wire.summary.runtimes import Runtime

Measure = Literal[
    "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "pinned", "stranded", "returned", "grown"
]
SHOWN: Final = 12  # rows of the ledger in a notebook


class OwnerRow(NamedTuple):
    """An owner: a variable, a stack, a mapping. `name` is for people; `owner` tells two of one name apart."""

    name: str
    owner: Owner | None  # None: the sum of all owners for which the dump has no room
    retained: int  # bytes that would be free without it


class TypeRow(NamedTuple):
    """The chunks in use of one type."""

    type: str | None  # None: not known
    evidence: str | None
    count: int  # type: ignore[assignment]
    bytes: int
    retained: int
    others: bool  # the sum of all types for which the dump has no room


class LeakRow(NamedTuple):
    """The leaked chunks of one type and size."""

    type: str | None
    size: int | None  # None: the sum of all for which the dump has no room
    direct: int  # bytes that nothing points to
    indirect: int  # bytes that only leaked chunks point to
    suspects: int  # bytes that only words which may be no pointers lead to
    count: int  # type: ignore[assignment]
    example: int | None  # the address of one


class SiteRow(NamedTuple):
    """A call stack that allocated, innermost function first."""

    stack: tuple[str, ...]
    value: int  # in the unit of the measure: bytes, chunks or pages


class Ledger(Mapping[str, "int | None"]):
    """The rows of the ledger, by name: bytes, or None. The resident rows add up to Rss."""

    def __init__(self, summary: Summary) -> None:
        """Made by Snapshot."""
        self.resident: Final = summary.ledger.held
        self.absent: Final = summary.absent.held
        self.forecast: Final = summary.forecast.held
        self.beside: Final = summary.beside.held
        self._all: Final = {**self.resident, **self.absent, **self.forecast, **self.beside}

    def __getitem__(self, name: str) -> int | None:
        """A row. KeyError: there is none of that name."""
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the table."""
        return iter(self._all)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._all)


class Snapshot:
    """One consistent state of one process, in memory. Made by inspect(), open_dump() and profile().

    A context manager. Its arrays are views of one mapping, which lasts as long as any of them does.
    """

    def __init__(self, target: str, taken: TakenDump, process: Identity | None = None) -> None:
        """`process`: who had the target's PID."""
        self._process: Final = process
        self._target: Final = target
        self._taken: TakenDump | None = taken
        self.source: Final[Literal["target", "dump"]] = "dump" if taken.from_dump else "target"
        self.remarks: Final = taken.remarks

    def __enter__(self) -> Snapshot:  # noqa: PYI034 - Self is of Python 3.11
        """As it is."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of the dump. What was asked for before stays valid; what is asked for afterwards is a ValueError."""
        self._taken = None

    @property
    def taken(self) -> TakenDump:
        """The dump, and where it is from. ValueError: the snapshot is closed."""
        if self._taken is None:
            raise ValueError("the snapshot is closed")
        return self._taken

    @property
    def dump(self) -> Dump:
        """The dump. ValueError: the snapshot is closed."""
        return self.taken.dump

    @cached_property
    def facts(self) -> Summary:
        """All that arenadump judged, typed: the schema arenascope.summary/1."""
        return answer(Summary, self.summary(), SCHEMA)

    def summary(self) -> dict[str, Any]:
        """The same as a document: what `arenadump summary --json` prints."""
        return document_of(self.dump, from_dump=self.source == "dump")

    @property
    def pid(self) -> int | None:
        """The process; None: of a core that does not say."""
        return self.facts.target.pid

    @property
    def taken_ns(self) -> int | None:
        """When it was taken, since the epoch. Of a core: when the core was read."""
        value = int(self.dump.meta["time_ns"])
        return None if value == fmt.UNKNOWN else value

    @property
    def pause_ns(self) -> int | None:
        """For how long the process stood still for it."""
        value = int(self.dump.meta["pause_ns"])
        return None if value == fmt.UNKNOWN else value

    @property
    def mode(self) -> str:
        """How it was read: freeze, clone, live, in_process or core."""
        return self.facts.snapshot.mode

    @property
    def exact(self) -> bool:
        """Whether every number is of one instant."""
        return self.facts.snapshot.exact

    @property
    def caveats(self) -> tuple[Doubt, ...]:
        """What limits the trust in its numbers."""
        return self.facts.warnings

    @property
    def rss(self) -> int | None:
        """What the kernel counts as resident, in bytes."""
        return self.facts.kernel.rss

    @property
    def swap(self) -> int | None:
        """What the kernel counts as swapped out, in bytes."""
        return self.facts.kernel.swap

    @cached_property
    def ledger(self) -> Ledger:
        """The rows."""
        return Ledger(self.facts)

    @property
    def arenas(self) -> tuple[Arena, ...]:
        """The arenas of malloc."""
        return self.facts.arenas

    @property
    def mappings(self) -> Mappings:
        """The mappings that are not malloc's."""
        return self.facts.mappings

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes with memory of their own."""
        return self.facts.runtimes

    @cached_property
    def verdict(self) -> Verdict:
        """What holds the memory, cause by cause, and what to do next."""
        from arenascope.findings import Facts, judge  # noqa: PLC0415

        return judge(Facts(self.facts, profile=self._profile))

    def section(self, name: str) -> NDArray[Any]:
        """A section of the dump as a read-only array: "pages", "chunks", "profile_shares". LookupError: no such one."""
        if name not in SECTIONS:
            raise LookupError(f"a dump has no section {name!r}: it has {', '.join(SECTIONS)}")
        if name == "chunks" and not self.dump.has_chunks:
            raise LookupError("the snapshot has no chunks: ask for them with inspect(…, chunks=True)")
        found: NDArray[Any] = getattr(self.dump, name)
        return found

    def owners(self, top: int = 50) -> Table[OwnerRow]:
        """Who retains most, the largest first. LookupError: the snapshot has no graph."""
        from arenascope.wire.owners import owner_at  # noqa: PLC0415

        self._need_graph()
        made = []
        for branch in self.dump.graph_branches[self.dump.graph_branches["depth"] == 0]:
            owner = owner_at(self.dump, int(branch["owner"]))
            name = owner_name(owner) if owner else "other owners"
            made.append(OwnerRow(name, owner, int(branch["retained"])))
        return Table(OwnerRow, sorted(made, key=lambda row: -row.retained)[:top])

    def types(self) -> Table[TypeRow]:
        """What the chunks in use are, most bytes first. LookupError: the snapshot has no graph."""
        self._need_graph()
        return Table(
            TypeRow,
            [
                TypeRow(
                    self.dump.string(each["name"]) or None,
                    self.dump.string(each["evidence"]) or None,
                    int(each["count"]),
                    int(each["bytes"]),
                    int(each["retained"]),
                    bool(each["flags"] & fmt.GraphRecordFlag.OTHERS),
                )
                for each in self.dump.graph_types
            ],
        )

    def leaks(self) -> Table[LeakRow]:
        """What nothing holds, most bytes first. LookupError: the snapshot has no graph."""
        self._need_graph()
        types = [self.dump.string(each["name"]) or None for each in self.dump.graph_types]
        made = []
        for each in self.dump.graph_leaks:
            others = bool(each["flags"] & fmt.GraphRecordFlag.OTHERS)
            kinds = [each[kind] for kind in ("direct", "indirect", "suspects")]
            example = None if others or int(each["example"]) == fmt.UNKNOWN else int(each["example"])
            named = types[int(each["type"])] if int(each["type"]) < len(types) else None
            size = None if others else int(each["size"])
            direct, indirect, suspects = (int(kind["bytes"]) for kind in kinds)
            count = sum(int(kind["count"]) for kind in kinds)
            made.append(LeakRow(named, size, direct, indirect, suspects, count, example))
        return Table(LeakRow, made)

    def why(self, address: int) -> Why:
        """The shortest path from an owner to the chunk at an address. Error: the target is a dump, or has ended.

        The target is read again: its memory is not in the snapshot.
        """
        found = parse(answers.Why, commands.why(self._target, hex(address)))
        if identity_of(self._target) != self._process:  # and so it was while arenadump read it
            raise ArenascopeError(
                Code.TARGET_GONE, f"process {self._target} is not the one of the snapshot any more: it has ended"
            )
        return found

    def sites(self, measure: Measure = "inuse_space") -> Table[SiteRow]:
        """Who allocated, the largest first. LookupError: the process has no profile, or one without this measure."""
        from arenascope.wire.profile_json import profile_of  # noqa: PLC0415

        read = self._profile()
        if read is None:
            raise LookupError(
                "the process has no profile: take one with profile(), or run it with `arenascope run --profile`"
            )
        found = profile_of(read)
        if not found.has(measure):
            raise LookupError(f"the profile does not know {measure}")
        made = [SiteRow(tuple(site.names()), site.values[measure]) for site in found.sites]
        return Table(SiteRow, sorted(made, key=lambda row: -row.value))

    def _profile(self) -> ReadProfile | None:
        from arenascope.wire.profile_json import profile_in  # noqa: PLC0415

        return profile_in(self.dump)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dump to a new file (mode 0600). FileExistsError: there is one."""
        self.dump.save(path)

    def _need_graph(self) -> None:
        if not len(self.dump.graph):
            raise LookupError("the snapshot has no graph: ask for one with inspect(…, graph=True)")

    def __repr__(self) -> str:
        """Whose it is, and how large."""
        if self._taken is None:
            return f"<Snapshot of {self._target}: closed>"
        return (
            f"<Snapshot of {self.facts.target.comm} ({self._target}): Rss {self.rss}, {self.mode}, exact: {self.exact}>"
        )

    def _repr_html_(self) -> str:
        """The verdict and the largest rows, for a notebook. Names are the target's, and escaped."""
        from arenascope.humanize import size  # noqa: PLC0415

        found = "".join(f"<li>{escape(each.sentence)}</li>" for each in self.verdict.findings)
        known = sorted(((held, name) for name, held in self.ledger.resident.items() if held), reverse=True)[:SHOWN]
        table = "".join(
            f"<tr><td>{escape(rows.BY_NAME[name].title)}</td><td>{size(held)}</td></tr>" for held, name in known
        )
        return (
            f"<p><b>{escape(self.facts.target.comm)}</b>: {escape(self.verdict.lead)}</p>"
            f"<ul>{found}</ul><table><tbody>{table}</tbody></table>"
        )


def identity_of(target: str) -> Identity | None:
    """Which process has the PID now; None: none has it, or the target is a file."""
    found = process_at(int(target)) if target.isdigit() else None
    return found.identity if found else None


__all__ = ["LeakRow", "Ledger", "OwnerRow", "SiteRow", "Snapshot", "Table", "TypeRow", "identity_of"]
