# SPDX-License-Identifier: MIT
"""Python's frames in a trace: a program that knows the functions and lines of its blocks, on each release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from profiles.test_profile_python import RELEASES, blocks, command, compare, on_aarch64, truth
from tools import harness, tiers
from tools.profiling import write_stacks_out
from tools.records import HEAD, WORD, changed
from tools.stage import Stage, until

from arenascope.schema import schema

SCHEMA = schema("trace")
HEADER = 16  # bytes of a chunk that a record does not count
FUNCTIONS, UNSUPPORTED, BAD_INPUT = 8, 5, 6


def read(arenadump: harness.Arenadump, path: Path) -> dict[str, Any]:
    """What a record says, as a profile says it: each site with its frames, and sizes with headers."""
    answer: dict[str, Any] = json.loads(arenadump.check("trace", "--json", path))
    jsonschema.validate(harness.few(answer), SCHEMA)
    write_stacks_out(answer)
    for site in answer["sites"]:
        site["in_use"]["bytes"] += HEADER * site["in_use"]["count"]
    return answer


def made(stage: Stage, arenadump: harness.Arenadump, release: str) -> tuple[Path, Any]:
    """The record of a program that has allocated all and sleeps, once all is in the file; and its truth."""
    file, record = stage.folder / "truth", stage.folder / "record"
    how, environment = command(release, str(file))
    stage.start(how, ARENASCOPE_PROFILE_TRACE=str(record), **environment)
    _, _, stacks = truth(file)
    until(lambda: blocks(read(arenadump, record)).total() >= stacks.total(), "the record lacks blocks")
    return record, stacks


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_each_block_has_the_lines_that_made_it(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    record, stacks = made(stage, arenadump, release)
    answer = read(arenadump, record)
    compare(answer, stacks)
    assert (answer["lost_allocations"], answer["missed"], answer["malformed"]) == (0, 0, 0)
    # Each site has the number that its events have.
    assert len({site["context"] for site in answer["sites"]}) == len(answer["sites"])
    counts: dict[int, int] = {}
    for line in arenadump.check("trace", "--events", record).splitlines():
        _, _, kind, _, *more = line.split()
        if more and kind != "free":
            counts[int(more[1])] = counts.get(int(more[1]), 0) + 1
    for site in answer["sites"]:
        assert counts[site["context"]] >= site["allocated"]["count"]
    assert "frames.py:" in arenadump.check("trace", record)


@pytest.mark.nightly("emulation")
@pytest.mark.slow
def test_aarch64(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = stage.folder / "record"
    on_aarch64(stage, "3.11", ARENASCOPE_PROFILE_TRACE=str(record))
    _, _, stacks = truth(stage.folder / "truth")
    until(lambda: blocks(read(arenadump, record)).total() >= stacks.total(), "the record lacks blocks")
    compare(read(arenadump, record), stacks)


# --- Other files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_a_file_of_another_version(stage: Stage, arenadump: harness.Arenadump, version: int) -> None:
    record, _ = made(stage, arenadump, "3.11")
    other = stage.folder / "other"
    other.write_bytes(changed(record.read_bytes(), HEAD, 8, version.to_bytes(4, "little")))
    done = arenadump.run("trace", other)
    assert done.returncode == UNSUPPORTED
    assert f"is a record of version {version}: this program reads version 1" in done.stderr


@pytest.mark.parametrize("word", [0xFFFF_FFFF << 32 | 5, 1 << 16, WORD])
def test_a_function_that_does_not_fit(stage: Stage, arenadump: harness.Arenadump, word: int) -> None:
    record, _ = made(stage, arenadump, "3.11")
    bad = stage.folder / "bad"
    bad.write_bytes(changed(record.read_bytes(), FUNCTIONS, 0, word.to_bytes(8, "little")))
    for words in ([], ["--json"], ["--events"]):
        done = arenadump.run("trace", *words, bad)
        assert done.returncode == BAD_INPUT
        assert "a function that does not fit" in done.stderr
