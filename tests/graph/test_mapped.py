# SPDX-License-Identifier: MIT
"""Anonymous mappings that a program made are nodes of the graph: who holds them, and what they hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tools import harness, programs

from arenascope.errors import Code

MIB = 1 << 20
FRAMES = 20


@dataclass(frozen=True)
class Mapped:
    """The process, and the addresses that it says."""

    pid: int
    said: dict[str, int]


@pytest.fixture(scope="module", name="mapped")
def _mapped() -> Iterator[Mapped]:
    command = [str(programs.build("mapped"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            said = {}
            while (line := process.stdout.readline()) != "ready\n":
                name, _, address = line.rstrip("\n").partition(" ")
                said[name] = int(address, 16)
            yield Mapped(process.pid, said)
        finally:
            process.kill()


def answer(arenadump: harness.Arenadump, *command: object) -> dict[str, Any]:
    done = arenadump.run(*map(str, command), "--json")
    assert done.returncode == Code.OK, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def path(arenadump: harness.Arenadump, mapped: Mapped, name: str) -> tuple[str | None, list[tuple[str | None, int]]]:
    """The owner's variable, or its kind, and the types and addresses that lead to what has the name."""
    found = answer(arenadump, "why", mapped.pid, hex(mapped.said[name]))
    owner = found["owner"]
    assert owner, found
    return owner["name"] or owner["kind"], [(each["type"], int(each["address"], 16)) for each in found["path"]]


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_a_list_of_mappings(arenadump: harness.Arenadump, mapped: Mapped, mode: str) -> None:
    """The kernel makes one mapping of them all: the variable whose chunks lead there holds it."""
    branches = answer(arenadump, "owners", mapped.pid, "--mode", mode)["branches"]
    owners = [i for i, each in enumerate(branches) if each["owner"] and each["owner"]["name"] == "free_list"]
    below = branches[owners[0] + 1 : owners[0] + 3]
    assert [each["evidence"] for each in below] == ["dwarf", "mapping"]
    # A quarter of each frame was never touched. Transparent huge pages may make these pages resident nevertheless.
    assert FRAMES * MIB * 3 // 4 <= below[1]["bytes"] <= (FRAMES + 1) * MIB
    assert branches[owners[0]]["retained"] == below[0]["bytes"] + below[1]["bytes"]


def test_what_leads_to_a_mapping(arenadump: harness.Arenadump, mapped: Mapped) -> None:
    owner, steps = path(arenadump, mapped, "frame")
    assert owner == "free_list"
    assert [name for name, _ in steps] == ["frame", "anonymous mapping"]


def test_a_pointer_to_the_first_byte_behind_a_chunk(arenadump: harness.Arenadump, mapped: Mapped) -> None:
    """What would be its header belongs to a chunk that has a mapping of its own, and ends right there."""
    owner, steps = path(arenadump, mapped, "pool")
    assert owner == "pool"
    assert [name for name, _ in steps] == ["anonymous mapping"]
    # The first word of the mapping is a root: it cannot be told whose it is.
    owner, steps = path(arenadump, mapped, "in_pool")
    assert (owner, steps[0][1]) == ("memory", mapped.said["in_pool"])


def test_a_mapping_that_nothing_leads_to(arenadump: harness.Arenadump, mapped: Mapped) -> None:
    """Its owner may have hidden its address: it is a root, and what it holds is not lost."""
    owner, steps = path(arenadump, mapped, "in_disguised")
    assert owner == "memory"
    assert steps[0] == ("anonymous mapping", mapped.said["disguised"])
    assert steps[1][1] == mapped.said["in_disguised"]
    leaks = answer(arenadump, "leaks", mapped.pid)
    assert leaks["direct"]["count"] == leaks["indirect"]["count"] == leaks["suspects"]["count"] == 0


def test_a_mapping_gives_no_types(arenadump: harness.Arenadump, mapped: Mapped) -> None:
    """How much of it is the array that a variable leads to is not known: what it holds has no type for that."""
    owner, steps = path(arenadump, mapped, "in_items")
    assert owner == "items"
    assert [name for name, _ in steps] == ["anonymous mapping", None]


def test_sums(arenadump: harness.Arenadump, mapped: Mapped) -> None:
    """What is resident of mappings is a part of all bytes, and their count of all nodes."""
    types = answer(arenadump, "types", mapped.pid)
    (mappings,) = (each for each in types["types"] if each["evidence"] == "mapping")
    graph = types["graph"]
    assert graph["mappings"] == {"count": mappings["count"], "bytes": mappings["bytes"]}
    assert mappings["count"] >= len(("frames", "pool", "disguised"))
    assert sum(each["bytes"] for each in types["types"]) == graph["bytes"]
    assert sum(each["count"] for each in types["types"]) == graph["chunks"]
    owners = answer(arenadump, "owners", mapped.pid)
    assert owners["reached"] + owners["unreached"] == owners["graph"]["bytes"]
