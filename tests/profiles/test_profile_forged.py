# SPDX-License-Identifier: MIT
"""Modules in a profile's tables that say what is not so: a process may write there what it likes."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from tools import harness, kernel, odd
from tools.profiling import write_stacks_out
from tools.vandal import MASK

from arenascope.schema import schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.stage import Stage

SCHEMA = schema("profile")
UNSUPPORTED = 5
MAGIC = b"areprof1"
TABLE = struct.Struct("<3Q")  # offset, size, used (inspector/profile/tables.h)
TABLES_AT = 80
SAMPLED, FRAMES, STACKS, MODULES = 3, 4, 5, 6  # which of the tables they are, and bytes of an entry:
ENTRY = {SAMPLED: 24, FRAMES: 8, STACKS: 4}
MODULE = struct.Struct("<3Q20sI200s")  # start, end, bias, build_id, its size, name
WORDS = (1, 1 << 47, MASK - 15)
MOST_MODULES, BUILD_ID = 0x7FFE, 20
KEEPS = (
    "import os; kept = [bytes(5000 + i) for i in range(2000)]; ends = os.pipe(); print(flush=True); os.read(ends[0], 1)"
)

Module = tuple[int, int, int, bytes, int, bytes]
FORGED: dict[str, Callable[[int, Module], Module]] = {
    **{f"start {word:#x}": lambda _, m, word=word: (word, *m[1:]) for word in WORDS},  # type: ignore[misc]
    **{f"end {word:#x}": lambda _, m, word=word: (m[0], word, *m[2:]) for word in WORDS},  # type: ignore[misc]
    **{f"bias {word:#x}": lambda _, m, word=word: (*m[:2], word, *m[3:]) for word in WORDS},  # type: ignore[misc]
    "all at one place": lambda _, __: (0, MASK, 0, bytes(20), 20, b"one"),
    "each in the next": lambda i, m: (m[0] - (i << 12 if m[0] > i << 12 else 0), m[1] + (i << 12), *m[2:]),
    "backwards": lambda _, m: (m[1], m[0], *m[2:]),
    "a build-id's size": lambda _, m: (*m[:3], b"\xab" * 20, 0xFFFF_FFFF, m[5]),
    "a build-id of 21": lambda _, m: (*m[:3], b"\xab" * 20, BUILD_ID + 1, m[5]),
    "a name without an end": lambda _, m: (*m[:5], b"A" * 200),
    "a name of bytes": lambda _, m: (*m[:5], bytes(range(255, 55, -1))),
    "a name that a terminal obeys": lambda _, m: (*m[:5], b"\x1b]0;x\x07\x1b[2J</script><b>"),
    "all the program": lambda _, m: (*m[:5], b""),
    "no bytes at all": lambda _, __: (0, 0, 0, bytes(20), 0, b""),
    "all ones": lambda _, __: (MASK, MASK, MASK, b"\xff" * 20, 0xFFFF_FFFF, b"\xff" * 200),
}


class Tables:
    """The tables of a recorder in a process that waits."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for each in kernel.smaps(pid):
                if each.end - each.start < 32 << 20 or each.path.startswith("/"):
                    continue
                memory.seek(each.start)
                if memory.read(len(MAGIC)) == MAGIC:
                    self.head = each.start
        self.table = self.table_at(MODULES)

    def table_at(self, index: int) -> tuple[int, int, int]:
        offset, size, used = TABLE.unpack(self.read(self.head + TABLES_AT + index * TABLE.size, TABLE.size))
        return offset, size, used

    def read(self, address: int, size: int) -> bytes:
        with Path(f"/proc/{self.pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def write(self, address: int, data: bytes) -> None:
        with Path(f"/proc/{self.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            assert memory.write(data) == len(data)

    def modules(self) -> list[Module]:
        offset, _, used = self.table
        data = self.read(self.head + offset, used * MODULE.size)
        return list(MODULE.iter_unpack(data))

    def put(self, modules: list[Module]) -> None:
        self.write(self.head + self.table[0], b"".join(MODULE.pack(*each) for each in modules))

    def put_table(self, offset: int, size: int, used: int) -> None:
        self.write(self.head + TABLES_AT + MODULES * TABLE.size, TABLE.pack(offset, size, used))


@pytest.fixture
def tables(stage: Stage) -> Tables:
    process = stage.start([sys.executable, "-c", KEEPS], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    process.stdout.readline()
    odd.wait_for_read(process.pid)  # printing frees chunks
    found = Tables(process.pid)
    assert found.table[2] > 3, "it has libraries"
    assert any(b"libc.so.6" in each[5] for each in found.modules()), "they are read where they are"
    return found


def read(arenadump: harness.Arenadump, target: int | Path) -> Any:
    answer = json.loads(arenadump.check("sites", "--json", target))
    jsonschema.validate(harness.few(answer), SCHEMA)
    write_stacks_out(answer)
    return answer


def sums(answer: Any) -> tuple[Any, ...]:
    """What is counted does not hang on what the modules say."""
    return answer["known"], answer["unseen"], answer["without_stack"], len(answer["sites"])


def test_entries_that_say_what_is_not_so(tables: Tables, arenadump: harness.Arenadump) -> None:
    """Each is shown, or left out; what was counted stays as it was, and nothing ends by a signal."""
    good = tables.modules()
    right = read(arenadump, tables.pid)
    assert len(right["modules"]) == len(good)
    for name, forge in FORGED.items():
        tables.put([forge(i, module) for i, module in enumerate(good)])
        answer = read(arenadump, tables.pid)
        assert sums(answer) == sums(right), name
        assert len(answer["modules"]) <= len(good), name
        assert all(len(each["build_id"]) <= 2 * BUILD_ID for each in answer["modules"]), name
    tables.put(good)
    assert read(arenadump, tables.pid)["modules"] == right["modules"]


def test_another_object_is_where_one_was(tables: Tables, arenadump: harness.Arenadump) -> None:
    """A module whose build-id is not that of the file at its place has the name that the loader had for it."""
    good = tables.modules()
    libraries = [i for i, module in enumerate(good) if module[5].strip(b"\0")]  # the program has no name
    for i in libraries:
        good[i] = (*good[i][:3], b"\xab" * 20, BUILD_ID, b"/gone.so")
    tables.put(good)
    names = [module["path"] for module in read(arenadump, tables.pid)["modules"]]
    assert names.count("/gone.so") == len(libraries)


@pytest.mark.parametrize("index", ENTRY, ids=["sampled", "frames", "stacks"])
def test_words_that_are_none(tables: Tables, arenadump: harness.Arenadump, index: int) -> None:
    """Nothing ends by a signal, and what is in use stays: with its stacks, or without."""
    offset, _, used = tables.table_at(index)
    right = read(arenadump, tables.pid)
    good = tables.read(tables.head + offset, used * ENTRY[index])
    noise = random.Random(index)
    for forged in (b"\xff" * len(good), bytes(len(good)), good[::-1], noise.randbytes(len(good)), good[4:] + good[:4]):
        tables.write(tables.head + offset, forged)
        answer = read(arenadump, tables.pid)
        in_use = [answer[name]["bytes"] for name in ("known", "unseen", "without_stack")]
        assert sum(in_use) == sum(right[name]["bytes"] for name in ("known", "unseen", "without_stack")), in_use
        assert all(1 <= len(site["stack"]) <= 256 for site in answer["sites"])
    tables.write(tables.head + offset, good)
    assert sums(read(arenadump, tables.pid)) == sums(right)


@pytest.mark.parametrize("name", ["all ones", "backwards", "a name that a terminal obeys"])
def test_what_is_made_of_them(tables: Tables, stage: Stage, arenadump: harness.Arenadump, name: str) -> None:
    """Tables, a page and a file for pprof."""
    tables.put([FORGED[name](i, module) for i, module in enumerate(tables.modules())])
    dump = stage.folder / "dump"
    arenadump.check("dump", tables.pid, "-o", dump)
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    page, file = stage.folder / "page.html", stage.folder / "file"
    for words in (
        ["profile", "top"],
        ["report", "-o", str(page)],
        ["profile", "pprof", "-o", str(file)],
    ):
        command = [sys.executable, "-m", "arenascope", *words, str(dump)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
        assert done.returncode == 0, (words, done.stderr)
        assert "\x1b" not in done.stdout
        assert "Traceback" not in done.stderr
    assert "</script><b>" not in page.read_text()


def forged_table(name: str, tables: Tables) -> tuple[int, int, int]:
    """The place, the size and the used entries that the head claims for the table of modules."""
    offset, size, used = tables.table
    (end,) = struct.unpack("<Q", tables.read(tables.head + 24, 8))
    return {
        "used": (offset, size, MASK),
        "none": (offset, size, 0),
        "no room": (end - 64, 0, 5),
        "count": (offset, MOST_MODULES + 1, used),
        "largest": (offset, MASK, used),
        "outside": (end, size, used),
        "over the end": (end - 64, 1, 1),
        "wraps": (MASK - 63, size, used),
        "askew": (offset + 8, size, used),
        "in the head": (0, size, used),
    }[name]


def test_tables_that_hold_are_read_up_to_their_size(tables: Tables, arenadump: harness.Arenadump) -> None:
    right = read(arenadump, tables.pid)
    for name in ("used", "none", "no room"):
        forged = forged_table(name, tables)
        tables.put_table(*forged)
        answer = read(arenadump, tables.pid)
        tables.put_table(*tables.table)
        assert sums(answer) == sums(right), name
        assert len(answer["modules"]) <= forged[1], name


def test_tables_that_do_not_hold(tables: Tables, arenadump: harness.Arenadump) -> None:
    """Then it is no profile, and whose memory it is is not known; both are said."""
    for name in ("count", "largest", "outside", "over the end", "wraps", "askew", "in the head"):
        tables.put_table(*forged_table(name, tables))
        done = arenadump.run("sites", "--json", tables.pid)
        assert done.returncode == UNSUPPORTED, name
        assert "has no profile" in done.stderr, name
    summary = arenadump.summary(tables.pid)
    assert summary["ledger"]["recorder"] is None
    assert any("is not as this arenadump knows it" in json.dumps(each) for each in summary["warnings"])
