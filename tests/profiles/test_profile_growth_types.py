# SPDX-License-Identifier: MIT
"""What grew while a profile was made, by type: of programs that know how many objects of each came and went."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from profiles.test_profile_growth import arenascope, serve, serving_by
from tools import harness, programs
from tools.profiling import profile, profiling

from arenascope.schema import schema
from arenascope.wire.graph_parts import Sum
from arenascope.wire.profile_json import ReadGrowth, ReadType

NO_MEMORY = 9
ENTRIES, SESSIONS, NOTES, SIZE = 5000, 700, 300, 96  # the numbers in use, and the size of all their chunks

# Each line of input has it make and drop objects. Sessions are in the interpreter's arenas; each text has a chunk.
PROGRAM = """
import sys
class Session:
    __slots__ = ("number", "text")
    def __init__(self, number):
        self.number = number
        self.text = bytearray(2000)
class Note:
    __slots__ = ("number",)
    def __init__(self, number):
        self.number = number
kept = [None] * 4000
notes = [Note(1) for i in range(1000)]
count = 0
for again in range(3):
    for i in range(500):
        kept[count] = Session(2)
        count += 1
    if again == 2:
        for i in range(400):
            notes[i] = None
    i = None
    print("ready", flush=True)
    if not sys.stdin.readline():
        break
"""


def in_cxx() -> tuple[str | Path, ...]:
    return programs.build("turnover_types", "-O2"), str(ENTRIES), str(SESSIONS), str(NOTES)


@pytest.fixture(scope="module")
def dump(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile with types of the program in C++."""
    file = tmp_path_factory.mktemp("types") / "dump"
    options = ("--exact", "--graph", "--mode=freeze")
    with serving_by(*in_cxx()) as process, profiling(arenadump, process.pid, file, *options):
        serve(process)
    return file


def by_type(answer: dict[str, Any]) -> dict[str | None, dict[str, Any]]:
    assert answer["growth"]["types_exact"]
    return {each["type"]: each for each in answer["growth"]["types"]}


def test_what_size_does_not_tell_apart_type_does(arenadump: harness.Arenadump, dump: Path) -> None:
    answer = profile(arenadump, dump)
    (size,) = answer["growth"]["sizes"]
    assert (size["size"], size["after"] - size["before"], size["recorded"]) == (
        SIZE,
        SESSIONS - NOTES,
        SESSIONS + ENTRIES,
    )
    held = {
        "shop::Session": (2 * SESSIONS, 3 * SESSIONS, SESSIONS),
        "shop::Entry": (ENTRIES, ENTRIES, ENTRIES),
        "shop::Note": (2 * NOTES, NOTES, 0),
    }
    assert answer["growth"]["types"] == [
        {
            "type": name,
            "others": False,
            "before": {"count": before, "bytes": before * SIZE},
            "after": {"count": after, "bytes": after * SIZE},
            "recorded": recorded,
        }
        for name, (before, after, recorded) in held.items()
    ]
    jsonschema.validate(json.loads(arenadump.check("sites", "--json", dump)), closed(schema("profile")))


def test_top_says_it_below_the_sizes(arenadump: harness.Arenadump, dump: Path) -> None:
    top = arenascope(arenadump, "profile", "top", dump).stdout
    table = top[top.index("By type") :].splitlines()
    found = {line.split()[-1]: line.split()[:-1] for line in table if "shop::" in line}
    assert found["shop::Session"][:4] == ["1,400", "700", "0", "+700"]
    assert found["shop::Note"][:4] == ["600", "0", "300", "\N{MINUS SIGN}300"]
    assert "shop::Entry" not in top
    assert top.index("By type") < top.index("Most of it was allocated by")


def test_objects_of_an_interpreter_have_no_new_ones(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A recorder sees chunks alone: of objects in arenas it is unknown how many of them are new, and no 0."""
    file, options = tmp_path / "dump", ("--exact", "--graph", "--mode=freeze")
    with serving_by(sys.executable, "-c", PROGRAM) as process, profiling(arenadump, process.pid, file, *options):
        serve(process)
    found = by_type(profile(arenadump, tmp_path / "dump"))
    session, note = found["__main__.Session"], found["__main__.Note"]
    assert (session["before"]["count"], session["after"]["count"], session["recorded"]) == (1000, 1500, None)
    assert (note["before"]["count"], note["after"]["count"], note["recorded"]) == (1000, 600, None)
    text = found["bytearray (bytes)"]
    assert (text["before"]["count"], text["after"]["count"], text["recorded"]) == (1000, 1500, 500)
    top = arenascope(arenadump, "profile", "top", tmp_path / "dump").stdout
    (line,) = [line.split() for line in top.splitlines() if line.split()[-1:] == ["__main__.Session"]]
    assert line[:4] == ["1,000", "unknown", "unknown", "+500"]


def test_without_a_graph_types_are_unknown(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with serving_by(*in_cxx()) as process, profiling(arenadump, process.pid, tmp_path / "dump", "--exact"):
        serve(process)
    answer = profile(arenadump, tmp_path / "dump")
    assert answer["growth"]["types"] is None
    assert len(answer["growth"]["sizes"]) == 1
    top = arenascope(arenadump, "profile", "top", tmp_path / "dump").stdout
    assert "--graph" in top[: top.index("Most of it")]


def test_no_memory_for_the_graph_costs_the_types_alone(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What was recorded is there all the same. How much is enough depends on the machine: the limit grows."""
    without, program = 0, programs.build("turnover", "-O2", "-g")
    with serving_by(program, "1000000", "24", "10") as process:
        for limit in itertools.count(32, 8):
            options = ["--graph", "--for=100ms", f"--max-memory={limit}M", "--timeout=120s"]
            done = arenadump.run("profile", process.pid, "-o", tmp_path / "dump", *options)
            if done.returncode == NO_MEMORY:
                assert "--max-memory is the limit" in done.stderr
                continue
            assert done.returncode == 0, done.stderr
            growth = profile(arenadump, tmp_path / "dump")["growth"]
            said = "known by size alone" in done.stderr or "has no types and no owners" in done.stderr
            assert (growth["types"] is None) == said
            assert growth["sizes"] == []
            without += said
            if not said:
                break
    assert without


@pytest.mark.check
def test_types_in_words() -> None:
    grown = ReadType("Session", others=False, before=Sum(1, 32), after=Sum(3, 96), recorded=5)
    gone = ReadType(None, others=False, before=Sum(9, 288), after=Sum(0, 0), recorded=None)
    replaced = ReadType("Entry", others=False, before=Sum(4, 64), after=Sum(4, 64), recorded=4)
    rest = ReadType(None, others=True, before=Sum(1, 16), after=Sum(2, 32), recorded=0)
    assert [each.gone for each in (grown, gone, replaced, rest)] == [3, None, 4, None]
    growth = ReadGrowth(
        None, exact=True, sizes=(), types_exact=True, types=(replaced, rest, grown, gone, rest._replace(type="x"))
    )
    assert growth.words_by_type == (
        "By type: \N{MINUS SIGN}288 B type not known, +64 B Session, +16 B all other types, and 1 more type."
    )
    assert growth._replace(types=(replaced,), types_exact=False).words_by_type == (
        "By type (about: a graph was not exact): none has more or less."
    )
    assert "--graph" in growth._replace(types=None).words_by_type
