# SPDX-License-Identifier: MIT
"""What is tried on each machine: tests of this suite, by their names, as the rows of one table."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Tests of some files whose names, without "test_", begin so; after a "[", what one of their parameters is."""

    name: str
    tests: dict[str, tuple[str, ...]]
    only: str = ""  # of each test's parameters one that this is found in
    soaks: tuple[str, ...] = ()  # programs of tests/, with their options, that end with 0 if nothing was wrong

    def takes(self, test: str) -> bool:
        """Is a test, by pytest's id of it, one of these?"""
        path, _, rest = test.partition("::")
        starts = self.tests.get(path.removeprefix("tests/"), ())
        return any(is_one_of(rest, start) for start in starts) and re.search(self.only, rest) is not None


def is_one_of(test: str, start: str) -> bool:
    """Is a test, by its name with its parameters, one of those that are named so?"""
    name, _, parameter = start.partition("[")
    own, _, parameters = test.partition("[")
    return own.startswith(f"test_{name}") and (not parameter or parameter in parameters.rstrip("]").split("-"))


CHECKS = (
    # Every test of it: which of its scenarios, `only` tells; gdb, emulated, takes a minute for each.
    Check("truth", {"inspector/test_truth.py": ("",)}, r"\[\w+-(seed-1|withheld|much-mmapped)\]"),
    Check("freeze", {"inspector/test_modes.py": ("one_instant_of_a_storm[freeze", "snapshot_is_what_freeze_says")}),
    Check(
        "clone",
        {
            "inspector/test_modes.py": (
                "one_instant_of_a_storm[clone",
                "heap_that_children",
                "seccomp",
                "waiting_for_every_child",
            )
        },
    ),
    Check("live", {"inspector/test_modes.py": ("live_stops_nothing",)}),
    Check(
        "seccomp",
        {
            "inspector/test_seccomp.py": (
                *("with_rights[clone", "without_rights_not_stopped", "forced", "a_filter_that"),
                *("sleeps_that_end", "a_sleep_ends", "a_signal_comes"),
            )
        },
        r"\[(\w+|.*-3(-with|-without)?|.*-(none|allow)|.*-SIG\w+)\]",
    ),
    Check(
        "in-process",
        {
            "agent/test_agent.py": (
                *("nothing_is_started", "signal_brings", "same_chunks", "child_of_fork", "setuid_reaches"),
                *("thread_that_is_always", "program_that_gives_up"),
            ),
            "agent/test_agent_policy.py": ("policy_trims", "control_socket_answers"),
        },
    ),
    Check("rights", {"inspector/test_yama.py": ("",)}),
    Check("residency", {"inspector/test_pressure.py": ("page_map", "parent_and_child", "worker")}),
    # Emulated, a snapshot by a Python command takes half a minute: few, of a small process.
    Check(
        "memory",
        {"inspector/test_tight_memory.py": ("",)},
        soaks=(
            "soaks/soak_headroom.py --snapshots 1 --megabytes 120",
            (
                "soaks/soak_headroom.py --snapshots 1 --megabytes 120 --limits above,soft"
                " --commands summary,dump --headroom 1,10"
            ),
        ),
    ),
    Check("swap", {"inspector/test_swap.py": ("",)}),
    Check("huge pages", {"inspector/test_hugetlb.py": ("",)}),
    Check("cores", {"inspector/test_cores.py": ("the_kernels", "threads_whose", "gdbs", "far", "a_thread", "a_copy")}),
    Check(
        "inject",
        {
            "agent/test_inject.py": (
                *("every_libc", "it_leaves", "the_only_thread", "preloaded", "several", "in_a_signal", "the_loader"),
                *("a_stopped", "a_traced", "a_seccomp", "a_setuid", "another_namespace", "no_proc", "a_call"),
            ),
            "agent/test_inject_meanwhile.py": ("the_only_thread",),
            "inspector/test_matrix.py": ("sme",),
        },
    ),
    Check(
        "trim",
        {
            "agent/test_trim.py": ("eight", "what_was_forecast", "one_arena", "storm", "locked"),
            "agent/test_inject_commands.py": ("trim_injects", "a_forecast"),
        },
    ),
    Check(
        "recorder",
        {
            "profiles/test_profile.py": ("each_chunk_has", "a_child_of_fork_goes_on", "a_dump_of"),
            "profiles/test_profile_attach.py": ("each_chunk_since", "again_and_again", "a_preloaded", "an_inspector"),
            "profiles/test_profile_entry.py": ("each_chunk_since", "an_inspector"),
            "profiles/test_hardened.py": ("",),
        },
    ),
    Check(
        "kill -9",
        {
            "inspector/test_modes.py": ("inspector_is_killed", "supervisor", "stopped_while", "target_ends", "execs"),
            "agent/test_inject_meanwhile.py": ("the_carrier_is_killed",),
            "agent/test_way_back.py": ("it_is_inspected", "the_carrier_is_killed_in_dlopen"),
        },
    ),
)
# What tests/project/test_vm.py tries on the oldest kernel: minutes, not an hour.
SHORT = Check(
    "short",
    {
        "inspector/test_modes.py": ("live_stops_nothing", "snapshot_is_what_freeze_says"),
        "agent/test_inject.py": ("every_libc",),
        "agent/test_inject_commands.py": ("trim_injects",),
    },
)
BY_NAME = {check.name: check for check in (*CHECKS, SHORT)}
# A processor changes registers that are saved and put back, and addresses: all checks but these.
NOT_OF_PROCESSORS = ("residency", "memory", "swap", "huge pages")
OF_PROCESSORS = tuple(name for name in BY_NAME if name not in NOT_OF_PROCESSORS)
