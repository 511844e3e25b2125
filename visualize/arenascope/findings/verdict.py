# SPDX-License-Identifier: MIT
"""The answer: a sentence, what the rules found, and what limits one's trust in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Final, NamedTuple, Optional

from arenascope.findings import caveats, free_memory, in_use, runtimes
from arenascope.findings.inputs import LARGE, Facts
from arenascope.findings.next_steps import of_growth
from arenascope.humanize import plural, size
from arenascope.wire.json_encode import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.findings.finding import Finding
    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.findings import Step

TINY: Final = 0.01

Rule = Callable[["Facts"], Optional["Finding"]]

RULES: Final[tuple[Rule, ...]] = (
    caveats.another_allocator,
    caveats.residency_unknown,
    free_memory.free_pages,
    free_memory.withheld_tops,
    free_memory.pinned,
    free_memory.caches,
    in_use.in_use,
    runtimes.ruby_pages,
    runtimes.python_arenas,
    runtimes.managed,
    runtimes.other_malloc,
    in_use.files,
    in_use.anonymous_memory,
    in_use.shared_memory,
    in_use.stacks,
    in_use.large_blocks,
    free_memory.too_many_arenas,
    in_use.gone_already,
    in_use.swapped_in_use,
    in_use.open_files,
)


class Verdict(NamedTuple):
    """The whole answer. The first finding is the one to say aloud with the lead."""

    lead: str
    findings: list[Finding]
    caveats: list[str]


def judge(facts: Facts) -> Verdict:
    """Apply every rule. The largest row has a finding, whatever it is."""
    findings = [finding for rule in RULES for finding in (_found(facts, rule),) if finding]
    if not any(facts.largest_row in finding.rows for finding in findings):
        findings += [finding for finding in (_found(facts, in_use.any_other),) if finding]
    findings.sort(key=lambda finding: (finding.rank, -(finding.bytes or 0)))
    findings = [_with_a_step(facts, finding) if finding == findings[0] else finding for finding in findings]
    return Verdict(_lead(facts), _steps_once(findings), list(_caveats(facts)))


def bytes_by_rule(summary: Summary) -> dict[str, int | None]:
    """The bytes of each finding, by its rule. No next step is searched for."""
    return {finding.rule: finding.bytes for finding in judge(Facts(summary, steps=False)).findings}


def _found(facts: Facts, rule: Rule) -> Finding | None:
    """What a rule finds, with the bytes in its words."""
    facts.telling.take()
    finding = rule(facts)
    return finding._replace(parts=facts.telling.take()) if finding else None


def _with_a_step(facts: Facts, finding: Finding) -> Finding:
    """The first finding says how to go on, whatever it is."""
    return finding if finding.next or finding.command else finding._replace(next=of_growth(facts))


def _steps_once(findings: list[Finding]) -> list[Finding]:
    """The same findings; a step that several share stands with the first."""
    said: set[Step] = set()
    once = []
    for finding in findings:
        once.append(finding._replace(next=tuple(step for step in finding.next if step not in said)))
        said.update(finding.next)
    return once


def _lead(facts: Facts) -> str:
    rss, used, other = facts.summary.kernel.rss, facts.summary.sums.used, facts.summary.sums.not_malloc
    if rss is None and used is None:
        return "It is unknown how much of this process was resident."
    if not facts.summary.allocator.is_glibc:
        return f"{size(rss)} resident."
    if rss is None:
        return f"{size(used)} of what was resident is in use."
    if other is not None and other >= (1 - TINY) * rss:
        return f"{size(rss)} resident; almost nothing of it is malloc's."
    if other is not None and other >= LARGE * rss:
        return f"{size(rss)} resident: {size(used)} in use, {size(other)} not malloc's."
    return f"{size(rss)} resident; {size(used)} is in use."


def _caveats(facts: Facts) -> Iterable[str]:
    snapshot, unknown = facts.summary.snapshot, facts.row("unknown")
    if snapshot.torn_chunks:
        torn = plural(snapshot.torn_chunks, "chunk")
        yield f"The heap changed during the snapshot, or is corrupt, at {torn}: the memory behind each is unknown."
    if unknown:
        yield f"{size(unknown)} could not be classified."
    if not snapshot.exact and snapshot.residency_known and not snapshot.torn_chunks:
        yield "The rows need not add up to Rss to the byte: see “How this was found”."


def to_json(facts: Facts) -> list[dict[str, Any]]:
    """The findings for JSON, as the schema of a summary has them."""
    theirs = {each.rule: each for each in facts.summary.findings}
    made: list[dict[str, Any]] = encode(
        [
            theirs[each.rule]._replace(evidence=each.evidence, command=each.command, next=each.next)
            for each in judge(facts).findings
        ]
    )
    return made


def share_of(facts: Facts, finding: Finding) -> float | None:
    if finding.bytes is None or not finding.in_rss or not facts.whole:
        return None
    return round(finding.bytes / facts.whole, 4)
