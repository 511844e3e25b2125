# SPDX-License-Identifier: MIT
"""The verdict in JSON: `arenascope summary` adds it. Part of the schema "arenascope.summary/1"."""

# As json_decode wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import NamedTuple, Optional

from arenascope.wire.json_types import Duration, Unsigned


class Step(NamedTuple):
    """What to do next, to learn more."""

    says: str  # What it does, or tells.
    command: str  # A line for a shell.


class Judged(NamedTuple):
    """A finding."""

    rule: str  # Name of the rule that found it. docs/findings.md lists them.
    bytes: Optional[Unsigned]  # What it explains.
    # bytes as a part of Rss, or of the known rows if Rss is unknown. null: the bytes are unknown, or are not in Rss.
    share: Optional[Duration]
    sentence: str  # What was found.
    evidence: str  # What shows it, and how it came about.
    command: Optional[str]  # A command line that acts on it. null: there is none.
    next: tuple[Step, ...]  # Commands that tell more. They change nothing that they do not say.
    estimate: Optional[str]  # Why the bytes may be inexact. null: they are exact.
