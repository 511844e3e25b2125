# SPDX-License-Identifier: MIT
"""Ruby's frames in a trace: a program that knows the methods and lines of its blocks, on each release."""

from __future__ import annotations

import pytest
from profiles.test_profile_ruby import PROGRAM, RELEASES, blocks, command, compare, truth
from profiles.test_trace_python import read
from tools import harness, tiers
from tools.stage import Stage, until


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_each_block_has_the_lines_that_made_it(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file, record = stage.folder / "truth", stage.folder / "record"
    how, environment = command(release, PROGRAM, file)
    stage.start(how, ARENASCOPE_PROFILE_TRACE=str(record), **environment)
    _, stacks = truth(file)
    until(lambda: blocks(read(arenadump, record)).total() >= stacks.total(), "the record lacks blocks")
    answer = read(arenadump, record)
    compare(answer, stacks, release)
    assert (answer["lost_allocations"], answer["missed"], answer["malformed"]) == (0, 0, 0)
