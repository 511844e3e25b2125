# SPDX-License-Identifier: MIT
"""Types of chunks on a program that knows what each of its chunks is: no name is wrong, and few are missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import harness, odd, programs
from tools.cores import gcore
from tools.paths import ROOT

LIST_TYPES = Path(os.environ.get("LIST_TYPES", ROOT / "build/tests/unit/list_types"))

LIST_NODE = r"list node \(next, previous\)"
ARRAY = r"array \(begin, end, limit\)"
# What tests/programs/types.cc calls a chunk, and which names are right. None needs a name.
RIGHT = {
    "tree node": r"tree node \(parent, left, right\)",
    "list node": rf"{LIST_NODE}|ring of nodes \(next, previous\)",
    "list header": r"ring of nodes \(next, previous\)",
    "double node": LIST_NODE,
    "single node": r"list node \(next\)",
    "buckets": r"hash table \(buckets, count, first, elements\)",
    "hash node": r"hash table node",
    "map of blocks": rf"array of blocks \(as std::deque has\)|{ARRAY}",
    "block": r"block \(as std::deque has\)",
    "array": ARRAY,
    "bits": r"bits \(begin, end, limit\)",
    "text": r"(text|bytes) \(pointer, length, capacity\)",
    "C text": r"text \(to the chunk's end\)|begins with text",
    "person": r"begins with text",
    "zeros": r"zeros",
    "object": r"zeros",
    "Circle": r"Circle",
    "Badge": r"Badge",
    "control block": r"std::_Sp_counted_ptr.*|std::__\w+::__shared_ptr_(emplace|pointer)<.*",
    "runtime": r"block \(as std::deque has\)",  # allocated before main: an empty deque's
}
VIRTUAL = {"Circle", "Badge", "control block"}
NOT_NAMED = {"object", "list header", "runtime"}
LIBCXX = "-stdlib=libc++"
OTHER = pytest.mark.nightly("compilers")


@dataclass(frozen=True)
class Chunk:
    kind: str
    address: str
    size: int
    name: str | None


@contextmanager
def running(*flags: str, compiler: str) -> Iterator[tuple[int, dict[str, str]]]:
    """tests/programs/types.cc, and what it says of its chunks: address → kind."""
    if LIBCXX in flags:
        found = subprocess.run(
            [compiler, LIBCXX, "-E", "-x", "c++", "-include", "vector", os.devnull], capture_output=True, check=False
        )
        if found.returncode != 0:
            pytest.skip("libc++ is not installed")
    program = programs.build("types", "-g0", *flags, compiler=compiler)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            kinds: dict[str, str] = {}
            assert process.stdout
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program died"
                kind, _, address = line.rstrip().split("\t")
                kinds[address] = kind
            odd.wait_for_read(process.pid)
            yield process.pid, kinds
        finally:
            process.kill()


def named(target: int | Path, kinds: dict[str, str]) -> list[Chunk]:
    """The program's own chunks: those of the C library are in no line of its."""
    done = subprocess.run([LIST_TYPES, str(target)], capture_output=True, text=True, timeout=120, check=True)
    chunks = []
    for line in done.stdout.splitlines():
        address, size, evidence, name = line.split("\t")
        if address in kinds:
            chunks.append(Chunk(kinds[address], address, int(size), name if evidence != "-" else None))
    assert len(chunks) == len(kinds)
    return chunks


def check_names(chunks: list[Chunk], *, libcxx: bool = False) -> None:
    wrong = Counter((c.kind, c.name) for c in chunks if c.name and not re.fullmatch(RIGHT[c.kind], c.name))
    assert not wrong
    total = sum(chunk.size for chunk in chunks)
    assert sum(chunk.size for chunk in chunks if chunk.name) >= 0.95 * total
    nameless = Counter(chunk.kind for chunk in chunks if not chunk.name)
    # libc++'s std::vector<bool> counts bits: no words beside the pointer tell where it ends.
    assert nameless.keys() <= NOT_NAMED | ({"bits"} if libcxx else set()), nameless


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("g++", ("-O0",)),
        ("g++", ("-O2",)),
        ("g++", ("-O2", "-s")),
        pytest.param("clang++", ("-O0",), marks=OTHER),
        pytest.param("clang++", ("-O2", "-s"), marks=OTHER),
        ("clang++", ("-O2", LIBCXX)),
        pytest.param("clang++", ("-O0", "-s", LIBCXX), marks=OTHER),
    ],
)
def test_no_name_is_wrong(compiler: str, flags: tuple[str, ...]) -> None:
    with running(*flags, compiler=compiler) as (pid, kinds):
        check_names(named(pid, kinds), libcxx=LIBCXX in flags)


def test_names_in_a_core(tmp_path: Path) -> None:
    with running(compiler="g++") as (pid, kinds):
        # gdb leaves out the pages of files, and with them the names of classes.
        chunks = named(gcore(pid, tmp_path), kinds)
        check_names([chunk for chunk in chunks if chunk.kind not in VIRTUAL])


def test_numbers_that_fit_a_size_cut_no_pointer_off(arenadump: harness.Arenadump) -> None:
    """A pointer, 40 and 41 beside each other are no proof that a chunk's last word is not used."""
    with running(compiler="g++") as (pid, _):
        found = json.loads(arenadump.check("leaks", "--json", pid))
    assert (found["direct"]["count"], found["indirect"]["count"]) == (0, 0), found["by_type"]


def test_commands_show_shapes(arenadump: harness.Arenadump) -> None:
    with running(compiler="g++") as (pid, kinds):
        for kind in ("tree node", "hash node", "list node", "block"):
            address = next(address for address, known in kinds.items() if known == kind)
            last = json.loads(arenadump.check("why", "--json", pid, address))["path"][-1]
            assert last["evidence"] == "shape"
            assert re.fullmatch(RIGHT[kind], last["type"])
        owners = json.loads(arenadump.check("owners", "--json", pid))
    held = {branch["type"] for branch in owners["branches"] if branch["evidence"] == "shape"}
    assert {"tree node (parent, left, right)", "hash table node", "block (as std::deque has)"} <= held
