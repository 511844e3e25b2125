# SPDX-License-Identifier: MIT
"""The chunks that HotSpot's arenas have given back, of a Java that knows how many there are, and near misses."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from graph.test_types import LIST_TYPES
from tools import harness, programs
from tools.jvms import JVMS, Jvm

from arenascope.errors import Code

COUNTED = 17  # later, pools are variables, and do not say how many chunks they have
MARIADB = "block of my_malloc (MariaDB)"
POOL, CHUNK = "ChunkPool (HotSpot)", "Chunk in a ChunkPool (HotSpot)"
KINDS = {"pool": POOL, "chunk": CHUNK, "decoy": None}


def names_of(pid: int) -> dict[int, tuple[int, str]]:
    """The size and the name of each chunk."""
    done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return {int(address, 16): (int(size), name) for address, size, _, name in rows}


def test_near_misses(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    library = tmp_path / "libjvm.so"
    library.write_bytes(programs.build("chunk_pools", "-g0", "-shared", "-fPIC").read_bytes())
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    with subprocess.Popen(
        ["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout
            said = []
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program died"
                kind, address = line.rstrip("\n").split("\t")
                said.append((kind, int(address, 16)))
            names = names_of(process.pid)
            done = arenadump.run("owners", "--json", process.pid)
        finally:
            process.kill()
    assert done.returncode == Code.PARTIAL  # what resembles a JVM may have a heap of any size
    answer = json.loads(done.stdout)
    ours = {POOL, CHUNK}
    assert Counter(kind for kind, _ in said) == {"pool": 1, "chunk": 20, "decoy": 43}
    wrong = [(kind, names[at]) for kind, at in said if (names[at][1] if names[at][1] in ours else None) != KINDS[kind]]
    assert not wrong
    # Old words of such chunks own nothing that a variable leads to.
    owners = [branch for branch in answer["branches"] if branch["owner"]]
    assert [b["retained"] >= 100000 for b in owners if b["owner"]["name"] == "held_by_variable"] == [True]


@pytest.mark.parametrize("jvm", [jvm for jvm in JVMS if jvm.release <= COUNTED], ids=str)
def test_as_many_as_the_pools_say(jvm: Jvm) -> None:
    source = str(programs.SOURCES / "java/Holds.java")
    with subprocess.Popen(
        [jvm.tool("java"), "-Xmx64m", source, "10", "10"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            # The compiler's threads take chunks and give them back.
            for _ in range(20):
                names = names_of(process.pid)
                pools = [at for at, (_, name) in names.items() if name == POOL]
                with Path(f"/proc/{process.pid}/mem").open("rb", 0) as memory:
                    said = {}
                    for pool in pools:
                        memory.seek(pool)
                        words = [int.from_bytes(memory.read(8), "little") for _ in range(4)]
                        said[words[3]] = words[1]
                found = Counter(size for size, name in names.values() if name == CHUNK)
                if {size - 8: count for size, count in found.items()} == said:
                    break
        finally:
            process.kill()
    assert len(pools) >= 2
    assert not [name for _, name in names.values() if name == MARIADB]
    assert {size - 8: count for size, count in found.items()} == said
    assert sum(found.values()) >= 5


@pytest.mark.parametrize("jvm", [jvm for jvm in JVMS if jvm.release > COUNTED], ids=str)
def test_pools_in_variables(jvm: Jvm) -> None:
    source = str(programs.SOURCES / "java/Holds.java")
    with subprocess.Popen(
        [jvm.tool("java"), "-Xmx64m", source, "10", "10"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            for _ in range(20):
                names = names_of(process.pid)
                sizes = Counter(size for size, name in names.values() if name == CHUNK)
                if sum(sizes.values()) >= 3:
                    break
                # A task empties the pools every five seconds; what a command took and gave back is in them again.
                subprocess.run([jvm.tool("jcmd"), str(process.pid), "Thread.print"], capture_output=True, check=True)
        finally:
            process.kill()
    # 1, 10 and 32 KiB, with what malloc adds; a few are of 256 bytes.
    assert sum(sizes.values()) >= 3
    assert all(any(kib * 1024 - 64 <= size <= kib * 1024 + 64 for kib in (0.25, 1, 10, 32)) for size in sizes)
    assert not [name for _, name in names.values() if name == MARIADB]
