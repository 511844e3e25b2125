# SPDX-License-Identifier: MIT
"""A Ruby's objects by type, counted from outside, held against what ObjectSpace says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, interpreters, tiers
from tools.waiting import Waiting, waiting

# It counts its objects and waits without making another. Then it says what they have: slots, and memory of malloc.
PROGRAM = """
# frozen_string_literal: true
require "objspace"
$kept = [
  Array.new(20000) { |i| "x" * (i % 700) },
  Array.new(5000) { |i| Array.new(i % 300, i) },
  Array.new(3000) { |i| h = {}; (i % 40).times { |k| h[k] = k }; h }
]
long = "z" * 10_000
$kept << Array.new(3000) { long.dup } # which have their characters in common
GC.start
GC.disable
$stdout.sync = true
buffer = String.new(capacity: 10)
counts = {}
2.times do # the first time makes the keys
  ObjectSpace.count_objects(counts)
  $stdout.syswrite(".")
  $stdin.sysread(1, buffer)
end
held = [String, Array, Hash].map do |kind|
  bytes = 0
  objects = 0
  ObjectSpace.each_object(kind) do |each|
    bytes += ObjectSpace.memsize_of(each)
    objects += 1
  end
  [kind.name, objects, bytes]
end
require "json"
puts JSON.generate([counts, held])
"""


def said_by(program: Waiting) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """Objects by type; of three types, the objects and what ObjectSpace.memsize_of adds up to."""
    counts, held = program.says()
    return counts, {f"T_{name.upper()}": (objects, size) for name, objects, size in held}


def check(summary: dict[str, Any], says: tuple[dict[str, int], dict[str, tuple[int, int]]]) -> None:
    counts, held = says
    found = summary["ruby"]["objects"]
    assert found["exact"]
    types = {each["name"]: each for each in found["types"]}
    assert {name: each["count"] for name, each in types.items()} == {
        name: count for name, count in counts.items() if name.startswith("T_") and count
    }
    assert sum(each["count"] for each in types.values()) == summary["ruby"]["slots"] - summary["ruby"]["free_slots"]
    # Each chunk has one owner, and is in use.
    chunks = summary["chunks"]
    in_use = chunks["in_use"]["bytes"] + chunks["mmapped"]["bytes"]
    assert sum(each["owned"] for each in types.values()) <= in_use
    for name, (objects, size) in held.items():
        # Ruby shows a few objects less than it has. A chunk has up to 32 bytes more than was asked for; a Hash has two.
        # Up to 3.2 short arrays and hashes are in blocks that Ruby divides by itself.
        whole = types[name]["bytes"] + types[name]["owned"]
        assert 0.97 * size <= whole <= size + 64 * objects + 0.01 * size, name


@pytest.mark.parametrize("release", tiers.runtimes(interpreters.RUBIES))
def test_all_objects_are_counted(arenadump: harness.Arenadump, release: str, tmp_path: Path) -> None:
    with waiting(release, PROGRAM, tmp_path) as program:
        summary = arenadump.summary(program.pid, "--objects")
        check(summary, said_by(program))
    assert not any(runtime["runtime"] == "ruby" for runtime in summary["runtimes"])


def test_a_core_and_a_dump(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.3", PROGRAM, tmp_path) as program:
        core = cores.gcore(program.pid, tmp_path)
        arenadump.check("dump", "--objects", "-o", tmp_path / "dump", program.pid)
        says = said_by(program)
    check(arenadump.summary(core, "--objects"), says)
    check(arenadump.summary(tmp_path / "dump"), says)
    assert "Ruby's objects by type" in arenadump.check("summary", tmp_path / "dump")


def test_nobody_asked(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.1", PROGRAM, tmp_path) as program:
        summary = arenadump.summary(program.pid)
    assert summary["ruby"]["objects"] is None
