# SPDX-License-Identifier: MIT
"""What a trace adds up to, for a program whose sums are known; and beside what heaptrack says of another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from rich.console import Console
from tools import harness, programs

from arenascope.render.trace import BARS, duration, render_trace
from arenascope.schema import schema
from arenascope.wire.json_decode import parse
from arenascope.wire.trace import Trace

SCHEMA = schema("trace")
SOURCE = """
#include <stdlib.h>
#include <unistd.h>
#define APART __attribute__((noinline))
static void *held[1000], *left[10];
APART void hold(void) { for (int i = 0; i < 1000; i++) held[i] = malloc(5000 + i); }
APART void let_go(void) { for (int i = 0; i < 1000; i++) free(held[i]); }
APART void at_once(void) { for (int i = 0; i < 4000; i++) { void *volatile p = malloc(64 + i % 7); free(p); } }
APART void later(void) {
    for (int i = 0; i < 500; i++) { void *volatile p = calloc(3, 11), *volatile q = malloc(9); free(p); free(q); }
}
APART void leave(void) { for (int i = 0; i < 10; i++) left[i] = malloc(100); }
APART void grow(void) { void *p = NULL; for (int i = 1; i <= 64; i++) p = realloc(p, 1000 * i); free(p); }
APART void by_realloc(void) { for (int i = 0; i < 5; i++) { void *volatile p = malloc(777); p = realloc(p, 0); } }
int main(void) { leave(); by_realloc(); at_once(); hold(); usleep(300000); let_go(); later(); grow(); return 0; }
"""
HELD = sum(5000 + i for i in range(1000))
AT_ONCE = sum(64 + i % 7 for i in range(4000))


def arenascope(arenadump: harness.Arenadump, *arguments: str | Path, code: int = 0) -> str:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "COLUMNS": "120"}
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def record(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sums")
    program = programs.build(SOURCE, "-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", at=folder / "sums")
    arenascope(arenadump, "run", "--trace", folder / "record", "--", program)
    return folder / "record"


def read(arenadump: harness.Arenadump, path: Path) -> Any:
    answer = json.loads(arenadump.check("trace", "--json", path))
    jsonschema.validate(harness.few(answer), closed(SCHEMA))
    return answer


def sites(answer: Any, name: str) -> Any:
    """The sums of all stacks that the function is on, by measure."""
    sums = {measure: [0, 0] for measure in ("allocated", "temporary", "peak", "in_use")}
    for site in answer["sites"]:
        at, names = site["stack"], set()
        while at is not None:
            names |= {function["name"] for function in answer["frames"][answer["stacks"]["frame"][at]]["functions"]}
            at = answer["stacks"]["caller"][at]
        if name in names:
            for measure, total in sums.items():
                total[0] += site[measure]["count"]
                total[1] += site[measure]["bytes"]
    return {measure: tuple(total) for measure, total in sums.items()}


def test_sums_are_those_of_the_program(record: Path, arenadump: harness.Arenadump) -> None:
    answer = read(arenadump, record)
    assert sites(answer, "hold") == {
        "allocated": (1000, HELD),
        "temporary": (1, 5999),  # the last one: nothing else was allocated before its end
        "peak": (1000, HELD),
        "in_use": (0, 0),
    }
    assert sites(answer, "at_once") == {
        "allocated": (4000, AT_ONCE),
        "temporary": (4000, AT_ONCE),
        "peak": (0, 0),
        "in_use": (0, 0),
    }
    assert sites(answer, "leave") == {
        "allocated": (10, 1000),
        "temporary": (0, 0),
        "peak": (10, 1000),
        "in_use": (10, 1000),
    }
    assert sites(answer, "later")["allocated"] == (1000, 500 * 42)
    assert sites(answer, "later")["temporary"] == (500, 4500)  # the second of each pair
    assert sites(answer, "by_realloc")["allocated"] == (5, 5 * 777)
    assert sites(answer, "by_realloc")["in_use"] == (0, 0)
    grown = sites(answer, "grow")
    assert grown["allocated"] == (64, sum(1000 * i for i in range(1, 65)))
    assert grown["in_use"] == (0, 0)
    assert grown["temporary"] == (1, 64000)  # the last one: what realloc ends is not, whether it moves or not
    assert answer["moved"] + answer["resized"] >= 63


def test_peak_times_and_lifetimes(record: Path, arenadump: harness.Arenadump) -> None:
    answer = read(arenadump, record)
    assert answer["ended"] == "exit"
    assert HELD + 1000 <= answer["peak"]["bytes"] < HELD + 1000 + 200_000  # libraries have their own
    # What is held lives through the pause.
    long = sum(each["count"] for each in answer["lifetimes"] if (each["below_ns"] or 1 << 62) > 100_000_000)
    assert long >= 1000
    assert (
        sum(each["count"] for each in answer["lifetimes"]) + answer["in_use"]["count"] == answer["allocated"]["count"]
    )
    assert max(digest["bytes"] for digest in answer["timeline"]) == answer["peak"]["bytes"]
    assert sum(digest["allocations"] for digest in answer["timeline"]) == answer["allocated"]["count"]
    held = [digest["bytes"] > HELD for digest in answer["timeline"]]
    assert sum(held) > len(held) * 0.3 / (answer["duration_ns"] / 1e9) - 5


def test_the_commands_say_the_same(record: Path, arenadump: harness.Arenadump) -> None:
    answer = read(arenadump, record)
    assert json.loads(arenascope(arenadump, "trace", record, "--json")) == answer
    text = arenascope(arenadump, "trace", record)
    assert "hold < main" in text
    assert "in use over time" in text
    assert re.search(r"5\.2 MiB +1,000 +hold < main", text)
    assert "hold" in arenadump.check("trace", record)


def test_a_narrow_terminal_cuts_no_number(record: Path, arenadump: harness.Arenadump) -> None:
    answer = parse(Trace, arenadump.check("trace", "--json", record))
    drawn = []
    for width in (120, 40):
        console = Console(width=width)
        with console.capture() as caught:
            console.print(render_trace(answer, 10), crop=False)
        drawn.append(caught.get())
    (bars,) = re.findall(r"in use over time\n(.*)\n", drawn[0])
    assert BARS // 2 < len(bars) <= BARS
    sums = [re.findall(r"(?m)^(?:allocated|in use at|freed at once) .*[^ ]", text) for text in drawn]
    assert len(sums[0]) > 4
    assert [line.split()[:6] for line in sums[1]] == [line.split()[:6] for line in sums[0]]


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (None, "an unknown time"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1234, "1.23 µs"),
        (999_700, "1 ms"),
        (999_400_000, "999 ms"),
        (999_700_000, "1 s"),
        (100 * 10**9, "100 s"),
        (999_400_000_000, "999 s"),
        (999_700_000_000, "16.7 min"),
        (4_520_000_000_000, "1.3 h"),
    ],
)
def test_times(nanoseconds: int | None, shown: str) -> None:
    assert duration(nanoseconds) == shown


def test_a_program_with_another_malloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Its own calls are not glibc's: the sums are not told as if they were 0."""
    own = (
        "#include <stddef.h>\nstatic char held[9000];\n"
        "void *malloc(size_t size) { return held + (size & 64); }\nvoid free(void *block) { (void)block; }\n"
        "int main(void) { for (int i = 0; i < 99; i++) free(malloc(i)); return 0; }\n"
    )
    program, path = programs.build(own, "-O0", "-fno-builtin"), tmp_path / "record"
    arenascope(arenadump, "run", "--trace", path, "--", program)
    text = arenascope(arenadump, "trace", path)
    assert read(arenadump, path)["allocated"]["count"] == 0
    assert "No allocation was recorded: the program made none, or its malloc is not glibc's" in text
    assert "0 B" not in text


def test_a_record_replaces_no_file(record: Path, arenadump: harness.Arenadump) -> None:
    before = record.read_bytes()
    said = arenascope(arenadump, "run", "--trace", record, "--", "true", code=8)
    assert "a trace never replaces a file" in said
    assert record.read_bytes() == before


def test_a_record_for_which_there_is_no_place(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The command is not run: the agent would say in its log alone that it records nothing."""
    for name, why in (("n" * 300, "File name too long"), ("none/record", "No such file or directory")):
        path = tmp_path / name
        said = arenascope(arenadump, "run", "--trace", path, "--", "touch", tmp_path / "ran", code=8)
        assert f"cannot write a trace to '{path}': {why}" in said
    assert list(tmp_path.iterdir()) == []


def test_heaptrack_has_the_same_peak(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("heaptrack"):
        pytest.skip("heaptrack is not installed")
    program = (
        "kept = [{str(i): [i] * 5 for i in range(200)} for _ in range(100)]; del kept; [object() for i in range(99)]"
    )
    command = [os.path.realpath(sys.executable), "-c", program]
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    subprocess.run(
        ["heaptrack", "-o", tmp_path / "heaptrack", *command], check=True, env=environment, capture_output=True
    )
    (made,) = tmp_path.glob("heaptrack*")
    printed = subprocess.run(["heaptrack_print", made], check=True, capture_output=True, text=True).stdout
    found = re.search(r"calls to allocation functions: (\d+)", printed)
    most = re.search(r"peak heap memory consumption: ([\d.]+)M", printed)
    assert found and most  # noqa: PT018
    agent = harness.agent_path(arenadump.path)
    preloaded = {"LD_PRELOAD": str(agent), "ARENASCOPE_PROFILE_TRACE": str(tmp_path / "record")}
    subprocess.run(command, check=True, env={**environment, **preloaded})
    answer = read(arenadump, tmp_path / "record")
    assert answer["allocated"]["count"] == pytest.approx(int(found[1]), rel=0.02)
    assert answer["peak"]["bytes"] == pytest.approx(float(most[1]) * 1e6, rel=0.02)
