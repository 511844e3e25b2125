# SPDX-License-Identifier: MIT
"""`arenascope profile --focus, --hide, --language`: the rest of a profile keeps its bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from profiles.test_profile_commands import CACHE, CONNECTIONS, arenascope, server
from tools import harness
from tools.stage import Stage

__all__ = ["server"]  # a fixture

USAGE, BAD_INPUT = 2, 6
PYTHON = """
import signal
def fill(count):
    return [bytes(3000) for _ in range(count)]
kept = fill(2000)
print("ready", flush=True)
signal.pause()
"""


def folded(target: int | Path, *options: str, arenadump: harness.Arenadump) -> Counter[tuple[str, ...]]:
    """Bytes in use by stacks, the outermost function first."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in arenascope("profile", "folded", target, *options, arenadump=arenadump).splitlines():
        stack, _, value = line.rpartition(" ")
        found[tuple(stack.split(";"))] += int(value)
    return found


def without(pattern: str, stacks: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    left: Counter[tuple[str, ...]] = Counter()
    for stack, value in stacks.items():
        shown = tuple(name for name in stack if not re.search(pattern, name))
        left[shown or ("(hidden functions alone)",)] += value
    return left


@pytest.mark.parametrize(
    "pattern",
    [
        "^allocate$",  # inlined: its frame has another function
        "^open_connections$",  # the other one of this frame
        "connections|fill_cache|allocate",
        "^_*libc_start|^_start$",
        ".",
        "no such function",
    ],
)
def test_what_is_hidden_counts_as_its_callers(server: int, arenadump: harness.Arenadump, pattern: str) -> None:
    whole = folded(server, arenadump=arenadump)
    assert ("main", "open_connections", "allocate") in {stack[-3:] for stack in whole}
    assert folded(server, "--hide", pattern, arenadump=arenadump) == without(pattern, whole)


def test_the_allocators_caller_comes_first(server: int, arenadump: harness.Arenadump) -> None:
    top = arenascope("profile", "top", server, "--hide", "^allocate$", arenadump=arenadump)
    assert re.search(rf"^ *{CONNECTIONS / (1 << 20):.1f} MiB .* open_connections", top, re.MULTILINE)
    tree = arenascope("profile", "tree", server, "--hide", "^allocate$", arenadump=arenadump)
    assert not re.search(r"%  allocate\b", tree)
    assert re.search(r"%  open_connections\b", tree)


def test_stacks_with_a_function_alone(server: int, arenadump: harness.Arenadump) -> None:
    focused = folded(server, "--focus", "^fill_", arenadump=arenadump)
    assert {stack[-1] for stack in focused} == {"fill_cache"}
    assert focused.total() == CACHE
    # What is searched for may be hidden.
    (hidden,) = folded(server, "--focus", "^fill_", "--hide", "fill", arenadump=arenadump)
    assert hidden[-1] == "main"


def test_nothing_to_show(server: int, arenadump: harness.Arenadump) -> None:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    for command in (["top"], ["tree"], ["folded"], ["diff", str(server)]):
        whole = [sys.executable, "-m", "arenascope", "profile", *command, str(server)]
        for options, code, says in (
            (["--focus", "nobody"], BAD_INPUT, "'nobody'"),
            (["--hide", "("], USAGE, "is no regular expression"),
        ):
            done = subprocess.run([*whole, *options], capture_output=True, text=True, env=environment, check=False)
            assert (done.returncode, says in done.stderr, done.stdout) == (code, True, ""), done.stderr


def test_functions_of_one_language(stage: Stage, arenadump: harness.Arenadump) -> None:
    """What the interpreter allocates is the Python function's."""
    environment = {"ARENASCOPE_PROFILE": "exact", "PYTHONMALLOC": "malloc"}
    process = stage.start([sys.executable, "-c", PYTHON], **environment)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    dump = stage.folder / "dump"
    arenadump.check("dump", process.pid, "-o", dump)
    whole, python = folded(dump, arenadump=arenadump), folded(dump, "--language", "python", arenadump=arenadump)
    assert python.total() == whole.total()
    names = {name for stack in python for name in stack}
    assert all(":" in name or name.startswith("(no function in") for name in names)
    assert sum(value for stack, value in python.items() if "fill" in stack[-1] or "listcomp" in stack[-1]) > 2000 * 3000
