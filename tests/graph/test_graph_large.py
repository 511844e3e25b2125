# SPDX-License-Identifier: MIT
"""leaks and owners on a heap that several threads read in pieces: bench/graph.cc knows how many chunks it has."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tools import harness, programs, tiers
from tools.paths import ROOT

CARS = 100_000
LOST = 1000
WHEEL = "(anonymous namespace)::Wheel"
KINDS = 600
MANY_KINDS = """
#include <cstdio>
#include <utility>
template <int N> struct Kind { virtual ~Kind() = default; void *next = nullptr; };
void *first;
template <int N> void make() {
    for (int i = 0; i < N % 5 + 1; i++) {
        auto *kind = new Kind<N>;
        kind->next = first;
        first = kind;
    }
}
template <int... N> void make_all(std::integer_sequence<int, N...>) { (make<N>(), ...); }
int main() {
    make_all(std::make_integer_sequence<int, KINDS>());
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
}
"""
SOURCE = ROOT / "bench/graph.cc"


@pytest.fixture(scope="module")
def program() -> Iterator[str]:
    path = programs.build(SOURCE, "-O1", compiler="g++")
    with subprocess.Popen([path, str(CARS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield str(process.pid)
        process.kill()


def answer(arenadump: harness.Arenadump, *arguments: str) -> dict[str, Any]:
    return json.loads(arenadump.check(*arguments))  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", tiers.daily(["freeze", "clone"], ["freeze"], "limits"))
def test_what_is_lost_among_a_million_chunks(mode: str, program: str, arenadump: harness.Arenadump) -> None:
    found = answer(arenadump, "leaks", "--json", "--mode", mode, program)
    assert found["graph"]["chunks"] >= 12 * CARS + 2 * LOST
    # The words of the last objects may still be on the stack, or in a register.
    for kind in ("direct", "indirect"):
        assert LOST - 10 <= found[kind]["count"] <= LOST
    assert sum(group["direct"]["count"] for group in found["by_type"] if group["type"] == WHEEL) >= LOST - 10


@pytest.mark.nightly("limits")
def test_who_holds_a_million_chunks(program: str, arenadump: harness.Arenadump) -> None:
    """All of an owner's branches stand behind it, up to the next owner."""
    counts: Counter[str] = Counter()
    wheels = 0
    owner = ""
    for branch in answer(arenadump, "owners", "--json", program)["branches"]:
        if branch["depth"] == 0:
            owner = branch["owner"]["name"] or branch["owner"]["kind"]
        counts[owner] += branch["count"]
        wheels += branch["count"] if branch["type"] == WHEEL else 0
    # Each car has a node, the car, its vector, three wheels and three names; besides, there is the array of buckets.
    # The nodes are a list, so that one left-over word makes a second owner of many.
    cars = counts["(anonymous namespace)::cars"] + counts["several"]
    assert 0 <= cars - (9 * CARS + 1) <= 100
    assert 0 <= 3 * CARS - counts["(anonymous namespace)::by_name"] <= 100
    assert 0 <= wheels - 3 * CARS <= 10


def test_what_a_million_chunks_are(program: str, arenadump: harness.Arenadump) -> None:
    """Several threads search for shapes, and count: none leaves a chunk out or has it twice."""
    types = {row["type"]: row["count"] for row in answer(arenadump, "types", "--json", program)["types"]}
    assert types[WHEEL] == 3 * CARS + LOST
    assert types["tree node (parent, left, right)"] == CARS
    assert types["hash table node"] == CARS
    # Each wheel has a name, and so has each entry of the map: a left-over word may say something else of such a chunk.
    assert 0 <= 4 * CARS + LOST - types["text (pointer, length, capacity)"] <= 10


def test_more_types_than_are_known_without_a_search(arenadump: harness.Arenadump) -> None:
    path = programs.build(MANY_KINDS, "-std=c++17", f"-DKINDS={KINDS}", compiler="g++")
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        rows = answer(arenadump, "types", "--json", str(process.pid))["types"]
        process.kill()
    types = {row["type"]: row["count"] for row in rows}
    assert {kind: types.get(f"Kind<{kind}>") for kind in range(KINDS)} == {kind: kind % 5 + 1 for kind in range(KINDS)}
