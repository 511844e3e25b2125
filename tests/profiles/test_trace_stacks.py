# SPDX-License-Identifier: MIT
"""The stacks in the file of a trace: each is there once, and damage is said."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from profiles.test_trace_python import BAD_INPUT, read
from tools import harness, programs, records
from tools.records import BLOCK, STACKS
from tools.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

LEVELS, BASE = 12, 100
WORD = 8
# Each thread allocates below each way through a tree of calls; the size says which way it was.
SOURCE = """
#include <pthread.h>
#include <stdlib.h>
#define APART __attribute__((noinline))
static void *volatile kept;
void left(int level, int way, int mirrored), right(int level, int way, int mirrored);
#define STEP                                                                      \\
    if (level == LEVELS) {                                                        \\
        kept = malloc(way);                                                       \\
    } else {                                                                      \\
        if (mirrored) right(level + 1, 2 * way + 1, mirrored);                    \\
        left(level + 1, 2 * way, mirrored);                                       \\
        if (!mirrored) right(level + 1, 2 * way + 1, mirrored);                   \\
    }
APART void left(int level, int way, int mirrored) { STEP }
APART void right(int level, int way, int mirrored) { STEP }
APART void base(int depth, int mirrored)
{
    int level = 0, way = 1;
    if (depth > 1) base(depth - 1, mirrored); else { STEP }
}
static void *run(void *mirrored) { base(BASE, mirrored != NULL); return NULL; }
int main(int count, char **words)
{
    int threads = count > 1 ? atoi(words[1]) : 0;
    pthread_t thread[8];
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, run, i & 1 ? kept : NULL);
    run(NULL);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    flags = [
        "-O1",
        f"-DLEVELS={LEVELS}",
        f"-DBASE={BASE}",
        "-fno-builtin",
        "-fno-inline",
        "-fno-optimize-sibling-calls",
        "-pthread",
    ]
    return programs.build(SOURCE, *flags)


def run(stage: Stage, program: Path, threads: int = 0) -> Path:
    record = stage.folder / "record"
    process = stage.start([str(program), str(threads)], ARENASCOPE_PROFILE_TRACE=str(record))
    assert process.wait(120) == 0, stage.log()
    return record


def ways(answer: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The sites of the program's own allocations, and which way it went to them."""
    sizes = [(site["allocated"]["bytes"] // site["allocated"]["count"], site) for site in answer["sites"]]
    return [(size, site) for size, site in sizes if size >> LEVELS == 1 and site["stack"]]


def names(site: dict[str, Any]) -> list[str]:
    return [frame["functions"][-1]["name"] if frame["functions"] else "" for frame in site["stack"]]


@pytest.mark.parametrize("threads", [0, 4])
def test_each_context_has_its_stack(stage: Stage, program: Path, arenadump: harness.Arenadump, threads: int) -> None:
    """Also where several threads go the same ways at the same time."""
    record = run(stage, program, threads)
    answer = read(arenadump, record)
    assert (answer["ended"], answer["lost_allocations"], answer["missed"], answer["torn_bytes"]) == ("exit", 0, 0, 0)
    found = ways(answer)
    counts = dict.fromkeys(range(1 << LEVELS, 2 << LEVELS), 0)
    for way, site in found:
        counts[way] += site["allocated"]["count"]
        steps = [("left", "right")[way >> i & 1] for i in range(LEVELS)]
        assert names(site)[: LEVELS + BASE + 1] == [*steps, *["base"] * BASE, "run"]
        assert site["complete"]
    assert set(counts.values()) == {1 + threads}


def test_each_stack_is_in_the_file_once(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    record = run(stage, program)
    frames = sum(len(site["stack"]) for site in read(arenadump, record)["sites"])
    assert frames > BASE << LEVELS
    assert record.stat().st_size < WORD * frames / 10
    pairs = [pair for _, new in records.contexts(record.read_bytes()) for pair in new]
    assert len(pairs) == len(set(pairs))
    assert len(pairs) < 4 << LEVELS


# --- Damage -----------------------------------------------------------------------------------------------------------


FIRST = 1 << 32 | 2  # a block's first word: its first stack's number, and its first context's id
FRAME = 0xFFFF << 48 | 0x1000


def context(caller: int, count: int, *frames: int) -> list[int]:
    """Its word, and its frames; so many, if it does not say which."""
    return [count << 32 | caller, *(frames or [FRAME] * count)]


DAMAGED = {
    "no word": [],
    "a context that is not the next": [1 << 32 | 3, *context(0, 1)],
    "a stack that is not the next": [2 << 32 | 2, *context(0, 1)],
    "below itself": [FIRST, *context(1, 1)],
    "below the one after it": [FIRST, *context(0, 1), *context(3, 1), *context(0, 1)],
    "below the highest number": [FIRST, *context(0xFFFF_FFFF, 1)],
    "257 frames": [FIRST, *context(0, 257)],
    "257 frames, of which another has 200": [FIRST, *context(0, 200), *context(200, 57)],
    "one frame more than the block has": [FIRST, *context(0, 2, FRAME)],
    "many frames more than the block has": [FIRST, *context(0, 0xFFFF, FRAME)],
}


def with_stacks(data: bytes, words: list[int]) -> bytes:
    """The record with these words instead of all its stacks."""
    parts = [part for part in records.blocks(data) if part[0] != STACKS]
    return records.joined([*parts[:-1], (STACKS, 0, struct.pack(f"<{len(words)}Q", *words)), parts[-1]])


@pytest.mark.parametrize("what", DAMAGED)
def test_stacks_that_there_cannot_be(stage: Stage, program: Path, arenadump: harness.Arenadump, what: str) -> None:
    bad = stage.folder / "bad"
    bad.write_bytes(with_stacks(run(stage, program).read_bytes(), DAMAGED[what]))
    for words in ([], ["--json"], ["--events"]):
        done = arenadump.run("trace", *words, bad)
        assert done.returncode == BAD_INPUT
        in_order = DAMAGED[what][:1] == [FIRST]
        assert ("a stack that there cannot be" if in_order else "stacks out of order") in done.stderr
        assert not done.stdout


def test_stacks_that_there_can_be(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """Beside those above: the deepest, one that adds nothing, one that is not known, and one of a single frame."""
    good = stage.folder / "good"
    words = [FIRST, *context(0, 200), *context(200, 56), *context(256, 0), *context(0, 0), *context(0, 1)]
    good.write_bytes(with_stacks(run(stage, program).read_bytes(), words))
    sites = {site["context"]: len(site["stack"]) for site in read(arenadump, good)["sites"]}
    assert sites == {1: 0, 2: 200, 3: 256, 4: 256, 5: 0, 6: 1}


def test_the_record_ends_at_a_torn_block_of_stacks(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """What is before it counts; events may name stacks that were behind it."""
    data, torn = run(stage, program).read_bytes(), stage.folder / "torn"
    at = records.place(data, STACKS)
    torn.write_bytes(
        data[: at + BLOCK.size + WORD] + bytes([data[at + BLOCK.size + WORD] ^ 1]) + data[at + BLOCK.size + WORD + 1 :]
    )
    answer = read(arenadump, torn)
    assert (answer["ended"], answer["torn_bytes"]) == (None, len(data) - at)
    assert not answer["stacks"]["frame"]
