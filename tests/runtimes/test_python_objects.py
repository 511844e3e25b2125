# SPDX-License-Identifier: MIT
"""A Python's objects by type, counted from outside, held against what the interpreter knows of itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, interpreters, odd, tiers

# It has objects of many kinds, takes the list of all that the collector tracks, and waits. What it says then is about
# that list: nothing was made in between but bytes.
PROGRAM = """
import gc, os, sys
class Point:
    def __init__(self, x):
        self.x = x
        self.y = str(x) * 3
class Slotted:
    __slots__ = ("x", "y")
    def __init__(self, x):
        self.x = x
        self.y = [x]
class Rows(list): pass
class Table(dict): pass
class Real(float):
    __slots__ = ()
kept = [
    [Point(i) for i in range(5000)],
    [Slotted(i) for i in range(3000)],
    [Rows(range(i % 200)) for i in range(500)],
    [list(range(i % 200)) for i in range(500)],
    [Table({k: k for k in range(i % 70)}) for i in range(500)],
    [{k: k for k in range(i % 70)} for i in range(500)],
    [set(range(i % 50)) for i in range(1000)],
    [frozenset(range(i % 90)) for i in range(500)],
    [bytearray(i) for i in range(2000)],
    [Real(i) for i in range(1234)],
    [(i, str(i)) for i in range(10000)],
    [(lambda i: lambda: i)(i) for i in range(1000)],
    ["x" * i for i in range(0, 3000, 3)],
    [[None, int] for i in range(300)], # arrays whose words resemble an object's
]
del kept[10][::3]
tracked = gc.get_objects()
os.write(1, b".")
os.read(0, 1)
def block(size):
    return -size % 16 + size if 0 < size <= 512 else 0
def blocks(each):
    size, kind = sys.getsizeof(each), type(each)
    for base in (list, dict, set, frozenset):
        if isinstance(each, base):
            alone = base.__sizeof__(base()) + 16 if kind is base else kind.__basicsize__ + 16
            if kind.__flags__ & 0x18: # words before the collector's head: getsizeof counts them from 3.11 on
                alone += 16
            return block(alone), block(size - alone)
    return block(size), 0
says = {}
for each in tracked:
    kind = type(each)
    count = says.setdefault(id(kind), [kind.__module__ + "." + kind.__qualname__, 0, 0, 0])
    own, owned = blocks(each)
    count[1] += 1
    count[2] += own + owned
    count[3] |= kind.__flags__ & 4 # its values are in the object, and getsizeof does not know them
print({"types": says, "frozen": gc.get_freeze_count(), "list": id(list), "tuple": id(tuple)})
"""
# The collector tracks all objects of these types, and getsizeof knows all that they have. The sums are those of
# pymalloc's blocks: malloc may give more than was asked for.
ALIKE = ("__main__.Slotted", "__main__.Rows", "__main__.Table", "builtins.set", "builtins.function", "builtins.cell")
RELEASES = [r for r in (*interpreters.PYTHONS, *interpreters.OTHER_PYTHONS) if r not in {"3.6", "3.7"}]


class Waiting:
    """The program in the middle of its way."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid

    def says(self) -> dict[str, Any]:
        """Lets it go on to its end."""
        out, _ = self.process.communicate(b"x", timeout=600)
        said: dict[str, Any] = eval(out)
        return said


@contextmanager
def waiting(release: str, program: str = PROGRAM, **environment: str) -> Iterator[Waiting]:
    python = interpreters.python(release)
    with subprocess.Popen(
        python.command("-c", program),
        env={**python.environment, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout
            assert os.read(process.stdout.fileno(), 1) == b"."
            odd.wait_for_read(process.pid)  # os.read makes an object before it waits
            yield Waiting(process)
        finally:
            process.kill()


def objects_of(summary: dict[str, Any]) -> dict[str, Any]:
    (runtime,) = summary["runtimes"]
    found: dict[str, Any] = runtime["objects"]
    assert found is not None, summary["warnings"]
    # Each block in use is an object, owned by one, or neither.
    in_regions = sum(t["bytes"] + t["owned"] - t["in_malloc"] for t in found["types"])
    assert in_regions + found["other_bytes"] == runtime["in_use"]
    assert all(t["tracked"] <= t["count"] for t in found["types"])
    sums = [t["bytes"] + t["owned"] for t in found["types"]]
    assert sums == sorted(sums, reverse=True)
    return found


def check_counts(found: dict[str, Any], says: dict[str, Any]) -> None:
    tracked = {int(t["address"], 16): t["tracked"] for t in found["types"] if t["tracked"]}
    expected = {address: count[1] for address, count in says["types"].items()}
    expected[says["list"]] += 1  # the list of all is not in itself
    if says["frozen"]:
        # 3.12 moves immortal tuples to the permanent generation, which gc.get_objects() leaves out.
        expected[says["tuple"]] += says["frozen"]
    assert tracked == expected
    names = {int(t["address"], 16): t["name"] for t in found["types"]}
    for address, (name, *_) in says["types"].items():
        if name.startswith("__main__."):
            assert names[address] == name
    (real,) = (t for t in found["types"] if t["name"] == "__main__.Real")
    assert real["count"] == 1234


def check_bytes(found: dict[str, Any], says: dict[str, Any]) -> None:
    checked = set()
    for kind in found["types"]:
        name, _, blocks, has_values = says["types"].get(int(kind["address"], 16), ("", 0, 0, 0))
        if name in ALIKE and not has_values:
            checked.add(name)
            assert kind["count"] == kind["tracked"], name
            assert kind["bytes"] + kind["owned"] - kind["in_malloc"] == blocks, name
    assert {"__main__.Slotted", "builtins.set", "builtins.function"} <= checked


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_all_objects_are_counted(arenadump: harness.Arenadump, release: str, mode: str) -> None:
    with waiting(release) as program:
        summary = arenadump.summary(program.pid, "--objects", f"--mode={mode}")
        says = program.says()
    assert summary["snapshot"]["exact"]
    found = objects_of(summary)
    assert found["exact"]
    check_counts(found, says)
    check_bytes(found, says)
    # A guess would leave more over, and blocks that resemble objects would be some.
    assert found["other_bytes"] < 0.05 * summary["runtimes"][0]["in_use"]


def test_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.13") as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    check_counts(objects_of(arenadump.summary(core, "--objects")), says)


def test_a_dump_has_them(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.11") as program:
        arenadump.check("dump", "--objects", "-o", tmp_path / "dump", program.pid)
        says = program.says()
    check_counts(objects_of(arenadump.summary(tmp_path / "dump")), says)
    assert "__main__.Point" in arenadump.check("summary", tmp_path / "dump")


def test_while_it_runs_they_are_not_exact(arenadump: harness.Arenadump) -> None:
    with waiting("3.11") as program:
        found = objects_of(arenadump.summary(program.pid, "--objects", "--mode=live"))
        check_counts(found, program.says())
    assert not found["exact"]


def test_python_with_its_debug_hooks(arenadump: harness.Arenadump) -> None:
    """Each block has 16 bytes more before the object."""
    with waiting("3.11", PYTHONMALLOC="pymalloc_debug") as program:
        found = objects_of(arenadump.summary(program.pid, "--objects"))
        check_counts(found, program.says())


def test_nobody_asked(arenadump: harness.Arenadump) -> None:
    with waiting("3.11") as program:
        summary = arenadump.summary(program.pid)
    assert summary["runtimes"][0]["objects"] is None


def test_without_arenas_there_is_no_count(arenadump: harness.Arenadump) -> None:
    with waiting("3.11", PYTHONMALLOC="malloc") as program:
        summary = arenadump.summary(program.pid, "--objects")
    assert summary["runtimes"][0]["objects"] is None


TOO_OLD = [release for release in ("3.6", "3.7") if release in interpreters.OTHER_PYTHONS]
if TOO_OLD:  # no package has them

    @pytest.mark.parametrize("release", tiers.runtimes(TOO_OLD))
    def test_structures_that_are_not_known(arenadump: harness.Arenadump, release: str) -> None:
        program = "import os; os.write(1, b'.'); os.read(0, 1)"
        with waiting(release, program) as python:
            summary = arenadump.summary(python.pid, "--objects")
        assert summary["runtimes"][0]["found"]
        assert summary["runtimes"][0]["objects"] is None
        assert any("could not be counted by type" in json.dumps(w) for w in summary["warnings"])


LARGE = """
import os
class Early:
    def __init__(self, i):
        self.x = [i]
class Late(dict): pass
kept = [[Early(i), [i, i]] for i in range(100000)], [(Late({i: i}), {i}) for i in range(100000)]
os.write(1, b".")
os.read(0, 1)
"""


@pytest.mark.parametrize("release", tiers.runtimes(["3.9", "3.14"]))
def test_several_threads_count_as_one_does(arenadump: harness.Arenadump, release: str, tmp_path: Path) -> None:
    """The objects of a core are counted by one thread; of a process, by as many as there are processors."""
    with waiting(release, LARGE) as program:
        live = arenadump.summary(program.pid, "--objects", "--mode=freeze")
        core = arenadump.summary(cores.gcore(program.pid, tmp_path), "--objects")
    assert live["runtimes"][0]["regions"] * live["runtimes"][0]["region_size"] > 64 << 20
    assert objects_of(live) == objects_of(core)
