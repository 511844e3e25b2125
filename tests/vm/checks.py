# SPDX-License-Identifier: MIT
"""What is tried on each machine: tests of this suite, by their names, as the rows of one table."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The tests whose ids a pattern is found in."""

    name: str
    pattern: str

    def takes(self, test: str) -> bool:
        return re.search(self.pattern, test) is not None


CHECKS = (
    Check("truth", r"test_truth\.py.*(seed-1|withheld|much-mmapped)"),
    Check("freeze", r"test_modes\.py::test_(one_moment_of_a_storm\[freeze|snapshot_is_what_freeze_says)"),
    Check("snapshot", r"test_modes\.py::test_(one_moment_of_a_storm\[snapshot|heap_that_children|seccomp|waiting_for)"),
    Check("live", r"test_modes\.py::test_live"),
    Check(
        "in-process",
        r"test_agent\.py::test_(nothing_is_started|signal_brings|same_chunks|child_of_fork|setuid_reaches)"
        r"|test_agent_policy\.py::test_(policy_trims|door_answers)",
    ),
    Check("residency", r"test_pressure\.py::test_(page_map|parent_and_child|worker)"),
    Check("swap", r"test_swap\.py"),
    Check("huge pages", r"test_hugetlb\.py"),
    Check("cores", r"test_cores\.py::test_(the_kernels|gdbs|far|a_thread|a_copy)"),
    Check(
        "inject",
        r"test_inject\.py::test_(every_libc|it_leaves|the_only_thread|preloaded|several|in_a_signal|the_loader|a_stopped"
        r"|a_traced|a_seccomp|a_setuid|another_namespace|no_proc|a_call)",
    ),
    Check(
        "trim", r"test_trim\.py::test_(eight|what_was|one_arena|storm|locked)|test_inject\.py::test_(trim|a_forecast)"
    ),
    Check(
        "kill -9",
        r"test_modes\.py::test_(inspector_is_killed|guardian|stopped_while|target_ends|execs)"
        r"|test_inject\.py::test_the_carrier_is_killed",
    ),
)
BY_NAME = {check.name: check for check in CHECKS}
# What a processor can change: registers that are saved and put back, and addresses.
OF_PROCESSORS = ("truth", "freeze", "snapshot", "live", "in-process", "cores", "inject", "trim", "kill -9")
