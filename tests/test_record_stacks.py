# SPDX-License-Identifier: MIT
"""The stacks in the file of a full record: each is there once, files of older versions are read, and damage is said."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from test_record_python import BAD_INPUT, FUNCTIONS, made, read
from tools import harness, programs, records
from tools.records import BLOCK, HEAD, STACKS
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
    process = stage.start([str(program), str(threads)], ARENASCOPE_PROFILE_RECORD=str(record))
    assert process.wait(120) == 0, stage.log()
    return record


def ways(told: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The sites of the program's own allocations, and which way it went to them."""
    sizes = [(site["allocated"]["bytes"] // site["allocated"]["count"], site) for site in told["sites"]]
    return [(size, site) for size, site in sizes if size >> LEVELS == 1 and site["stack"]]


def names(site: dict[str, Any]) -> list[str]:
    return [frame["functions"][-1]["name"] if frame["functions"] else "" for frame in site["stack"]]


@pytest.mark.parametrize("threads", [0, 4])
def test_each_context_has_its_stack(stage: Stage, program: Path, arenadump: harness.Arenadump, threads: int) -> None:
    """Also where several threads go the same ways at the same time."""
    record = run(stage, program, threads)
    told = read(arenadump, record)
    assert (told["ended"], told["lost_allocations"], told["missed"], told["torn_bytes"]) == ("exit", 0, 0, 0)
    found = ways(told)
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


# --- Files of other versions ------------------------------------------------------------------------------------------

# Written by the recorder of version 2: deep(n) calls itself n times and then leaf(), which allocates 100 + n.
OLD = (
    "c-kvU%E@MAU|>*SVL$<Qn)S5=c6I0`7UdPCCYKm80mVS-"
    "I@uudb|6B4fkD3{w?MxnGp~|i6pVsVFw#H~u>9Zz(i~7eBa~iuF}uq5Oz%fzb*w<z0m^5B(hI83*d3DI>%D8^ywYvV3=E~&4@L5T"
    "hFH`e+f*L=T7ndJfQqmPApQV!5HnPq{qfJxy)R3?u<JctyIB_Gz5~XNW<{Yu`%^&j<;>rq;sz!lab~EvVCWJsp9RW4Xe?q1;sgDV"
    "4dP$$6aw=>_JaMw3b7AXjDA|U>h~tU&EX6Np?pQ53=DS-AvA*mlm-G3AU<#M<i^QeM<yP6t@F9~uE(<Z&)-"
    "}aRtcoRTe_g0f#J`E1Tf8@;0dM~q5hw|Ch<*F-$u*)`Fl<I3^SKT1a*Ovh<;9Hl75ASS-hEvZcb)iX@zcjUMWa0S+6)>&ur-U-yj"
    "3*-;xzY5dSkk_)Jj$-za@?-@3dvm7~z1_2I)J<`VUfC&B&))vG}7CKjdUB^D>=7o-"
    "CHJrv_Vp&0C6rBVnD<1<73|1x^jt2eDCZ;#$L3z5*hFSK#)Y-"
    "Nx(NSv3Y03#cS42N#|p8)Z%;KNdg{~I8D7O4O0_M|@5*WR~e#ugU-mHI^%=2fd#!qUH)iGEHBH1z|sg07hfC@hSIT>Suw>km*qw3"
    "uY*yqCe`lWlGc$_KzEWkZA@M7#t_&xX=oMUa*!YcYgw6o80>%w)%+uNz7)C7_=LQfJ}R52M!;FozX_;pXflpdP&*gf^!cVzl`h=1"
    "TMYD$70rt_MqMKZ5H)$BEa#^&krg;mwXzAG1U0x3|3QLeBFXhSkpi13Kdx"
)


def answers(arenadump: harness.Arenadump, path: Path) -> list[str]:
    return [arenadump.check("full-record", *words, path) for words in ([], ["--json"], ["--events"])]


def test_a_file_that_version_2_has_written(stage: Stage, arenadump: harness.Arenadump) -> None:
    old = stage.folder / "old"
    old.write_bytes(zlib.decompress(base64.b85decode("".join(OLD))))
    told = read(arenadump, old)
    assert (told["ended"], told["torn_bytes"], told["events"]) == ("exit", 0, 5)
    sites = {site["context"]: site for site in told["sites"]}
    assert [(sites[i]["allocated"]["bytes"], len(sites[i]["stack"])) for i in range(2, 6)] == [
        (100, 6),
        (100, 7),
        (100, 8),
        (107, 5),
    ]
    offsets = {i: [frame["offset"] for frame in site["stack"]] for i, site in sites.items()}
    leaf, deepest, _, *outer = offsets[2]
    again = offsets[3][2]
    for i in range(2, 5):
        assert offsets[i] == [leaf, deepest, *[again] * (i - 2), offsets[i][-4], *outer]  # main calls it three times
    assert offsets[5] == [leaf, offsets[5][1], *outer]
    assert all(site["complete"] for site in sites.values())


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_give_the_same_answers(
    stage: Stage, program: Path, arenadump: harness.Arenadump, version: int
) -> None:
    record = run(stage, program, 2)
    old = stage.folder / "old"
    old.write_bytes(records.as_version(record.read_bytes(), version))
    assert old.stat().st_size > 10 * record.stat().st_size
    assert answers(arenadump, old) == answers(arenadump, record)


def test_lines_of_python_in_version_2(stage: Stage, arenadump: harness.Arenadump) -> None:
    written, _ = made(stage, arenadump, "3.11")
    record, old = stage.folder / "copy", stage.folder / "old"
    record.write_bytes(written.read_bytes())  # the program still runs
    old.write_bytes(records.as_version(record.read_bytes(), 2))
    assert FUNCTIONS in {kind for kind, _, _ in records.blocks(old.read_bytes())}
    assert answers(arenadump, old) == answers(arenadump, record)


@pytest.mark.parametrize("version", [2, 3])
def test_blocks_of_another_version_are_passed_over(
    stage: Stage, program: Path, arenadump: harness.Arenadump, version: int
) -> None:
    data = run(stage, program).read_bytes()
    other = stage.folder / "other"
    data = records.as_version(data, 2) if version == 3 else data
    other.write_bytes(records.changed(data, HEAD, 8, version.to_bytes(4, "little")))
    told = read(arenadump, other)
    assert told["allocated"]["count"] >= 1 << LEVELS
    assert told["allocated"] == told["without_stack"]
    assert not told["stacks"]["frame"]


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
        done = arenadump.run("full-record", *words, bad)
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
    told = read(arenadump, torn)
    assert (told["ended"], told["torn_bytes"]) == (None, len(data) - at)
    assert not told["stacks"]["frame"]
