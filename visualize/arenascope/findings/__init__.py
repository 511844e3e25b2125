# SPDX-License-Identifier: MIT
"""The verdict: what holds a process's memory, each cause in a sentence. Page, terminal and JSON have it from here.

Each cause is one rule: a function that reads the facts, which are those of a Summary and nothing else, and returns a
Finding, or None where the cause is not there. verdict.py lists the rules. A rule states only what was counted or
computed; where a number holds under an assumption, `estimate` says which. A command stands beside a finding only if it
acts on it. The next step for Go is the exception: the process is asked where it listens.
"""

from arenascope.findings.finding import Finding, Rank
from arenascope.findings.inputs import Facts
from arenascope.findings.verdict import RULES, Verdict, bytes_by_rule, judge, to_json
from arenascope.wire.summary.findings import Step

__all__ = ["RULES", "Facts", "Finding", "Rank", "Step", "Verdict", "bytes_by_rule", "judge", "to_json"]
