# SPDX-License-Identifier: MIT
"""The answer: what arenadump found, with what shows it, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Final, NamedTuple

from arenascope.findings import evidence_free, evidence_in_use, evidence_runtimes
from arenascope.findings.next_steps import of_finding, of_growth
from arenascope.humanize import printable
from arenascope.trim_commands import trim_command
from arenascope.wire.json_encode import encode

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.findings import Finding, Step

EVIDENCE: Final[dict[str, Callable[[Facts, Finding], str]]] = {
    "another allocator": evidence_runtimes.another_allocator,
    "residency unknown": evidence_runtimes.residency_unknown,
    "free pages kept": evidence_free.free_pages,
    "withheld tops": evidence_free.withheld_tops,
    "stranded by pins": evidence_free.pinned,
    "cached": evidence_free.caches,
    "in use": evidence_in_use.in_use,
    "Ruby's pages": evidence_runtimes.ruby_pages,
    "Python's arenas": evidence_runtimes.python_arenas,
    "managed memory": evidence_runtimes.managed,
    "other malloc": evidence_runtimes.other_malloc,
    "files": evidence_in_use.files,
    "anonymous memory": evidence_in_use.anonymous_memory,
    "shared memory": evidence_in_use.shared_memory,
    "stacks": evidence_in_use.stacks,
    "large blocks": evidence_in_use.large_blocks,
    "too many arenas": evidence_free.too_many_arenas,
    "gone already": evidence_in_use.gone_already,
    "swapped": evidence_in_use.swapped,
    "open files in memory": evidence_in_use.open_files,
}
"""What shows each cause. A row that no cause is about has its own definition."""


class Verdict(NamedTuple):
    """The whole answer. The first finding is the one to say aloud with the lead."""

    lead: str
    findings: list[Finding]
    caveats: list[str]


def judge(facts: Facts) -> Verdict:
    """What arenadump found, explained."""
    findings = [_explained(facts, finding) for finding in facts.summary.findings]
    if findings and not (findings[0].next or findings[0].command):  # the first says how to go on, whatever it is
        findings[0] = findings[0]._replace(next=of_growth(facts))
    said = facts.summary.verdict
    return Verdict(said.lead, _steps_once(findings), list(said.caveats))


def bytes_by_rule(summary: Summary) -> dict[str, int | None]:
    """The bytes of each finding, by its rule."""
    return {finding.rule: finding.bytes for finding in summary.findings}


def evidence_of(facts: Facts, finding: Finding) -> str:
    """What shows a finding, and how it came to be."""
    explain = EVIDENCE.get(finding.rule, evidence_in_use.any_other)
    return explain(facts, finding) or evidence_in_use.any_other(facts, finding)


def _explained(facts: Facts, finding: Finding) -> Finding:
    command = trim_command(facts.summary.target, deep=finding.trim == "deep") if finding.trim else None
    return finding._replace(
        sentence=printable(finding.sentence),
        evidence=evidence_of(facts, finding),
        command=command,
        next=of_finding(facts, finding),
    )


def _steps_once(findings: list[Finding]) -> list[Finding]:
    """The same findings; a step that several share stands with the first."""
    said: set[Step] = set()
    once = []
    for finding in findings:
        once.append(finding._replace(next=tuple(step for step in finding.next if step not in said)))
        said.update(finding.next)
    return once


def to_json(facts: Facts) -> list[dict[str, Any]]:
    """The findings for JSON, as the schema of a summary has them."""
    made: list[dict[str, Any]] = encode(judge(facts).findings)
    return made
