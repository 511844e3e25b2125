# SPDX-License-Identifier: MIT
"""The verdict: what holds a process's memory. arenadump finds the causes (inspector/findings/); here each is explained.

An explanation reads the facts, which are those of a Summary and nothing else. It states only what was counted or
computed. A command stands beside a finding only if it acts on it. The next step for Go is the exception: the process
is asked where it listens.
"""

from arenascope.findings.inputs import Facts
from arenascope.findings.verdict import EVIDENCE, Verdict, bytes_by_rule, evidence_of, judge, to_json
from arenascope.wire.summary.findings import Finding, Step

__all__ = ["EVIDENCE", "Facts", "Finding", "Step", "Verdict", "bytes_by_rule", "evidence_of", "judge", "to_json"]
