# SPDX-License-Identifier: MIT
"""Sentences of `types`, `leaks`, `owners`: a reason for each doubt, and one name for a type that is not known."""

from __future__ import annotations

from tools import command, harness, programs
from tools.running import started


def test_an_answer_that_is_not_exact_says_why() -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        live = command.here("types", pid, "--mode", "live").stdout
    assert "This is not exact: " in live
    assert "the process ran on while it was read" in live


def test_a_type_that_is_not_known_has_one_name(arenadump: harness.Arenadump) -> None:
    """In both programs."""
    with started([str(programs.build("leak", "-g0", "-s"))], "ready") as pid:
        for name in ("types", "leaks", "owners"):
            said, shown = arenadump.check(name, pid), command.here(name, pid).stdout
            assert not [line for line in said.splitlines() if line.rstrip().endswith(" ?")]
            assert ("type not known" in said) == ("type not known" in shown)
        assert "type not known" in arenadump.check("types", pid)
