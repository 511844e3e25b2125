# SPDX-License-Identifier: MIT
"""The answer that the page begins with: a sentence, what the rules found, and what limits one's trust in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.report.rules import LARGE, RULES, Finding
from arenascope.text import plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.report.facts import Facts

TINY: Final = 0.01


class Verdict(NamedTuple):
    """The whole answer. The first finding is the one to say aloud with the lead."""

    lead: str
    findings: list[Finding]
    caveats: list[str]


def judge(facts: Facts) -> Verdict:
    """Apply every rule."""
    findings = [finding for rule in RULES for finding in (rule(facts),) if finding]
    findings.sort(key=lambda finding: (finding.rank, -(finding.held or 0)))
    return Verdict(_lead(facts), findings, list(_caveats(facts)))


def _lead(facts: Facts) -> str:
    rss, held, other = facts.summary.kernel.rss, facts.summary.sums.used, facts.summary.sums.not_malloc
    if rss is None and held is None:
        return "It is unknown how much of this process was resident."
    if not facts.summary.allocator.is_glibc:
        return f"{size(rss)} resident."
    if rss is None:
        return f"{size(held)} of what was resident is in use."
    if other is not None and other >= (1 - TINY) * rss:
        return f"{size(rss)} resident; almost nothing of it is malloc's."
    if other is not None and other >= LARGE * rss:
        return f"{size(rss)} resident: {size(held)} in use, {size(other)} not malloc's."
    return f"{size(rss)} resident; {size(held)} is in use."


def _caveats(facts: Facts) -> Iterable[str]:
    snapshot, unknown = facts.summary.snapshot, facts.row("unknown")
    if snapshot.torn_chunks:
        torn = plural(snapshot.torn_chunks, "chunk")
        yield f"The heap changed during the look, or is corrupt, at {torn}: the memory behind each is unknown."
    if unknown:
        yield f"{size(unknown)} could not be classified."
    if not snapshot.exact and snapshot.residency_known and not snapshot.torn_chunks:
        yield "The rows need not add up to Rss to the byte: see “How this was found”."
