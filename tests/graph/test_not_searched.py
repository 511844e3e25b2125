# SPDX-License-Identifier: MIT
"""Commands that read the chunks of glibc's malloc, in processes of which the larger part is elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import command, harness, jvms, programs
from tools.mallocs import MIB, answer, library, running
from tools.running import started

import arenascope
from arenascope.errors import Code
from arenascope.humanize import size

COMMANDS = ("leaks", "owners", "types")
SAID = "This is the larger part; what follows leaves it out."
PHP = '$kept = []; for ($i = 0; $i < 200000; $i++) $kept[] = [$i, "x$i"]; echo "ready\\n"; fgets(STDIN);'


@contextmanager
def with_jemalloc() -> Iterator[int]:
    """A program that holds 40 MiB, none of it glibc's."""
    with running([programs.build("jemalloc")], LD_PRELOAD=library("jemalloc")) as process:
        answer(process)
        yield process.pid


def elsewhere(arenadump: harness.Arenadump, pid: int, row: str) -> int:
    held: int = arenadump.summary(pid)["ledger"][row]
    return held


@pytest.mark.parametrize("name", COMMANDS)
def test_another_malloc_answers(arenadump: harness.Arenadump, name: str) -> None:
    """What reads as "no leak" begins with what was not searched, and ends with an exit code of its own."""
    with with_jemalloc() as pid:
        held = elsewhere(arenadump, pid, "other_malloc")
        said, shown = arenadump.run(name, pid), command.here(name, pid)
        made = arenadump.run(name, "--json", pid)
        as_json = command.arenascope(name, pid, "--json")
        typed = getattr(arenascope, name)(pid)
    assert held > 20 * MIB
    assert typed.facts.not_searched.larger
    assert f"arenascope: {typed.partial}\n" == as_json.stderr
    for done in (said, shown, made, as_json):
        assert done.returncode == Code.PARTIAL
        assert f"{size(held)} of jemalloc could not be searched, and 0 B was" in done.stderr
    for text in (said.stdout, shown.stdout):
        first = " ".join(text.split())[:200]
        assert first.startswith(f"Not searched: {size(held)} of jemalloc. {SAID}")
    for text in (made.stdout, as_json.stdout):
        assert json.loads(text)["not_searched"] == {
            "bytes": held,
            "larger": True,
            "heaps": ["jemalloc"],
            "objects_of": [],
        }


def test_a_limit_for_leaks_is_not_kept_where_nothing_was_searched() -> None:
    """Nor is a larger one exceeded."""
    with with_jemalloc() as pid:
        assert command.here("leaks", pid, "--fail-over", "0").returncode == Code.PARTIAL


@pytest.mark.parametrize("name", COMMANDS)
def test_glibcs_alone(name: str) -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        shown, as_json = command.here(name, pid), command.arenascope(name, pid, "--json")
    assert shown.returncode == as_json.returncode == Code.OK
    assert "ot searched" not in shown.stdout + shown.stderr
    assert json.loads(as_json.stdout)["not_searched"] == {"bytes": 0, "larger": False, "heaps": [], "objects_of": []}


def test_a_collectors_heap_has_owners_and_no_leaks() -> None:
    """A collector frees what nobody holds, so `leaks` has searched all that can be lost."""
    jvm = jvms.required()
    source = programs.SOURCES / "java/Holds.java"
    with started([jvm.tool("java"), "-Xmx256m", str(source), "60", "2"], "ready") as pid:
        lost, *held = (command.here(name, pid) for name in COMMANDS)
    assert lost.returncode == Code.OK
    for done in held:
        assert done.returncode == Code.PARTIAL
        assert re.match(rf"Not searched: [\d.]+ MiB of Java\. {re.escape(SAID)}", " ".join(done.stdout.split()))


def test_a_heap_beside_malloc_that_is_smaller() -> None:
    """Python's objects are searched, as malloc's chunks are."""
    program = "kept = [[i] for i in range(100_000)]; print('ready', flush=True); input()"
    with started([sys.executable, "-c", program], "ready") as pid:
        done = command.arenascope("owners", pid, "--json")
    assert done.returncode == Code.OK
    assert json.loads(done.stdout)["not_searched"]["larger"] is False


@pytest.mark.parametrize("allocator", ["malloc", "pymalloc"])
def test_objects_that_were_not_found(
    arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch, allocator: str
) -> None:
    """Who reads of chunks without a type learns at the top that Python's objects are not among them."""
    monkeypatch.setenv("PYTHONMALLOC", allocator)
    monkeypatch.setenv("LD_PRELOAD", library("jemalloc"))
    program = "kept = [[i] for i in range(10_000)]; print('ready', flush=True); input()"
    with started([sys.executable, "-c", program], "ready") as pid:
        monkeypatch.delenv("LD_PRELOAD")
        for name in COMMANDS:
            said, shown = arenadump.run(name, pid), command.here(name, pid)
            as_json = command.arenascope(name, pid, "--json")
            unfound = allocator == "malloc"
            assert json.loads(as_json.stdout)["not_searched"]["objects_of"] == ["cpython"] * unfound
            assert ("The objects of cpython were not found: " in said.stdout) == unfound
            assert ("The objects of Python were not found: " in shown.stdout) == unfound
            assert said.returncode == shown.returncode == as_json.returncode


def test_objects_that_were_not_found_beside_others(
    arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ruby that has a Python in it: Ruby's objects are told, though Python's are not found."""
    python = next(Path("/usr/lib").glob("*/libpython3.*.so.1.0"), None)
    if not (python and shutil.which("ruby")):
        pytest.skip("ruby or a library of Python's is not installed (Debian: ruby, gdb)")
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    monkeypatch.setenv("LD_PRELOAD", library("jemalloc"))
    with started(["ruby", str(programs.SOURCES / "hosts_python.rb"), str(python)], "ready") as pid:
        monkeypatch.delenv("LD_PRELOAD")
        done = arenadump.run("types", "--json", "--mode=freeze", "--max-pause=600s", pid)
    assert done.returncode == Code.PARTIAL, done.stderr
    found = json.loads(done.stdout)
    assert found["not_searched"]["objects_of"] == ["cpython"]
    assert max(found["types"], key=lambda each: each["count"])["type"] == "String"


def test_phps_heap_is_a_malloc_of_its_own() -> None:
    with started(["php", "-d", "memory_limit=-1", "-r", PHP], "ready") as pid:
        done = command.here("leaks", pid)
    assert done.returncode == Code.PARTIAL
    assert "MiB of PHP." in done.stdout


# What jemalloc exports, without its structures.
NOT_JEMALLOC = """
#include <stddef.h>
#include <sys/mman.h>
int mallctl(const char *name)
{
    return name != NULL;
}
void *malloc(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_an_allocator_that_is_loaded_and_not_found(arenadump: harness.Arenadump, name: str) -> None:
    """Nobody knows how much it holds, beside glibc's malloc: "lost 0" would be about a part of unknown size."""
    library_of_none = programs.build(NOT_JEMALLOC, "-shared", "-fPIC")
    loads = programs.build("loads_allocator", "-ldl")
    with started([str(loads), str(library_of_none), "malloc", "4", str(MIB)], "ready") as pid:
        row = arenadump.summary(pid)["ledger"]["other_malloc"]
        said, shown, as_json = arenadump.run(name, pid), command.here(name, pid), arenadump.run(name, "--json", pid)
    assert row is None
    assert json.loads(as_json.stdout)["not_searched"] | {"objects_of": []} == {
        "bytes": None,
        "larger": True,
        "heaps": ["jemalloc"],
        "objects_of": [],
    }
    for done in (said, shown):
        assert done.returncode == Code.PARTIAL
        assert " ".join(done.stdout.split()).startswith(
            "Not searched: memory of jemalloc. This may be the larger part;"
        )


LOADS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names)
{
    while (--count)
        if (!dlopen(names[count], RTLD_NOW))
            return 1;
    puts("ready");
    fflush(stdout);
    getchar();
}
"""


@pytest.mark.parametrize(("copies", "left_out"), [(32, 0), (35, 3)])
def test_more_interpreters_than_there_is_room_for(
    arenadump: harness.Arenadump, tmp_path: Path, copies: int, left_out: int
) -> None:
    """Objects with an interpreter's code of which nothing is searched for are told, with their number."""
    built = programs.build("int _PyRuntime[4];\n", "-shared", "-fPIC")
    libraries = [str(shutil.copy(built, tmp_path / f"lib{i}.so")) for i in range(copies)]
    with started([str(programs.build(LOADS, "-ldl")), *libraries], "ready") as pid:
        said = [each["text"] for each in arenadump.summary(pid)["warnings"] if "interpreter's code" in each["text"]]
    assert [int(text.split()[0]) for text in said] == [copies] * bool(left_out)
    assert all(f"in the last {left_out} of them" in text for text in said)
