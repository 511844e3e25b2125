# SPDX-License-Identifier: MIT
"""The verdict in JSON: what holds the memory. Part of the schema "arenascope.summary/1"."""

from typing import Literal, NamedTuple, Optional

from arenascope.wire.json_types import Duration, Unsigned


class Judgement(NamedTuple):
    """The verdict, but for the findings."""

    lead: str  # The first sentence: how much is resident, and how much of it is in use.
    caveats: tuple[str, ...]  # What limits the trust in the numbers, in sentences.
    least: Unsigned  # Waste of fewer bytes has no finding, unless it is the largest row.


class Step(NamedTuple):
    """What to do next, to learn more."""

    says: str  # What it does, or tells.
    command: str  # A line for a shell.


class Finding(NamedTuple):
    """A cause. arenadump judges; `arenascope summary --json` adds evidence, command and next."""

    rule: str  # Name of the rule that found it. docs/findings.md lists them.
    # premise: changes how all else is to be read. row: explains rows of the ledger; no row has two such findings. part:
    # of rows that other findings explain. beside: not in Rss. Findings stand in this order; of one rank, by bytes.
    rank: Literal["premise", "row", "part", "beside"]
    bytes: Optional[Unsigned]  # What it explains.
    # bytes as a part of Rss, or of the known rows if Rss is unknown. null: the bytes are unknown, or are not in Rss.
    share: Optional[Duration]
    sentence: str  # What was found.
    estimate: Optional[str]  # Why the bytes may be inexact. null: they are exact.
    rows: tuple[str, ...]  # The rows of the ledger whose bytes these are.
    lights: Optional[str]  # What the page highlights on its map. null: nothing.
    trim: Optional[Literal["plain", "deep"]]  # The trim that brings the bytes back. null: none does.
    # What the sentence tells besides: the size, or the type, of the chunks that hold most; the suspicion of a leak.
    tells: tuple[Literal["size", "type", "leak"], ...]
    evidence: str = ""  # What shows it, and how it came about.
    command: Optional[str] = None  # A command line that acts on it. null: there is none.
    next: tuple[Step, ...] = ()  # Commands that tell more. They change nothing that they do not say.

    @property
    def in_rss(self) -> bool:
        """Whether `bytes` are a part of Rss."""
        return self.rank != "beside"
