# SPDX-License-Identifier: MIT
"""Ruby's frames in a full record: a program that knows the methods and lines of its blocks, on each release."""

from __future__ import annotations

import pytest
from test_profile_ruby import PROGRAM, RELEASES, blocks, command, compare, truth
from test_trace_python import read
from tools import harness, tiers
from tools.stage import Stage, until


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_each_block_has_the_lines_that_made_it(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file, record = stage.folder / "truth", stage.folder / "record"
    how, environment = command(release, PROGRAM, file)
    stage.start(how, ARENASCOPE_PROFILE_RECORD=str(record), **environment)
    _, stacks = truth(file)
    until(lambda: blocks(read(arenadump, record)).total() >= stacks.total(), "the record lacks blocks")
    told = read(arenadump, record)
    compare(told, stacks, release)
    assert (told["lost_allocations"], told["missed"], told["malformed"]) == (0, 0, 0)
