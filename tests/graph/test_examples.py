# SPDX-License-Identifier: MIT
"""The addresses that `owners` prints are such as `why` takes: each leads to a chunk of the branch's type."""

from __future__ import annotations

import json
import sys

import pytest
from tools import command, harness, programs
from tools.running import started

ASKED = 6  # branches of each program
PROGRAM = "kept = {i: [i, str(i)] for i in range(30_000)}; print('ready', flush=True); input()"


@pytest.mark.parametrize("words", [[str(programs.SOURCES / "leak.cc")], [sys.executable, "-c", PROGRAM]])
def test_why_takes_the_example(arenadump: harness.Arenadump, words: list[str]) -> None:
    program = [str(programs.build("leak"))] if words[0].endswith(".cc") else words
    with started(program, "ready") as pid:
        tree = json.loads(arenadump.check("owners", "--json", pid))["branches"]
        branches = [branch for branch in tree if branch["depth"] > 0]
        asked = sorted(branches, key=lambda branch: -branch["retained"])[:ASKED]
        ways = [json.loads(arenadump.check("why", "--json", pid, branch["example"])) for branch in asked]
        shown = [arenadump.check("owners", pid), command.here("owners", pid).stdout]
    assert asked
    for branch, way in zip(asked, ways):
        assert way["address"] == branch["example"]
        last = way["path"][-1]
        assert (last["address"], last["type"]) == (branch["example"], branch["type"])
        assert branch["retained"] > 0
    assert all(branch["example"] is None for branch in tree if branch["depth"] == 0)
    for text in shown:
        assert asked[0]["example"] in text
