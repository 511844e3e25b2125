# SPDX-License-Identifier: MIT
"""What a core leaves out because nobody writes to it, and the modules' files have: vtables, names of classes, code."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import harness, odd, programs
from tools.cores import gcore
from tools.running import started

CLASSES = """
#include <cstdio>
struct Base { virtual ~Base() {} long number = 1; };
struct Derived : Base { char room[100]; };
template <int Number> struct Many : Base { long room[Number + 1]; };
Base *many[40];
template <int Number> void make()
{
    many[Number] = new Many<Number>;
    if constexpr (Number > 0)
        make<Number - 1>();
}
int main()
{
    Base *all[200];
    make<39>();
    for (int i = 0; i < 200; i++)
        all[i] = i % 2 ? new Base : new Derived;
    asm volatile("" : : "r"(all) : "memory");
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() != EOF && all[0]->number;
}
"""

# Without an id of the build its first page tells a file from another build's.
BUILD = ("-std=c++17", "-Wl,--build-id=none")
Counts = dict[tuple[str | None, str | None], int]
PT_LOAD, PF_R = 1, 4


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The program, which gcore has made a core of: `core` beside it."""
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    path = programs.build(CLASSES, *BUILD, "-O1", compiler="g++", at=tmp_path / "classes")
    with started([str(path)], "ready") as pid:
        odd.wait_for_read(pid)
        (tmp_path / "maps").write_text(Path(f"/proc/{pid}/maps").read_text())
        gcore(pid, tmp_path).rename(tmp_path / "core")
    return path


def take_snapshot(arenadump: harness.Arenadump, *arguments: str | Path, **environment: str) -> Any:
    command = [str(each) for each in (arenadump.path, *arguments, "--json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return json.loads(done.stdout)


def types(arenadump: harness.Arenadump, core: Path, **environment: str) -> tuple[Counts, str | None]:
    """How many objects have a type, by it and its evidence; and what was left out."""
    found = take_snapshot(arenadump, "types", core, **environment)
    counts = {(group["type"], group["evidence"]): group["count"] for group in found["types"]}
    return counts, found["graph"]["left_out"]


def are_all(counts: Counts) -> bool:
    return counts.get(("Base", "vtable")) == counts.get(("Derived", "vtable")) == 100


def reason(made: Path) -> str:
    return f"what the core leaves out of {made} cannot be read, as the file is not here, or not the same"


@pytest.mark.parametrize("file", ["as it was", "gone", "another build's", "one byte"])
def test_a_core_without_code(file: str, made: Path, arenadump: harness.Arenadump) -> None:
    """A core of gdb leaves code and constant data out, among them the names of classes: the program's file has them."""
    whole = made.read_bytes()
    if file != "as it was":
        made.unlink()
    if file == "another build's":
        programs.build(CLASSES, *BUILD, "-O0", compiler="g++", at=made)
    elif file == "one byte":
        made.write_bytes(whole[:1])
    counts, left_out = types(arenadump, made.with_name("core"))
    assert left_out == (None if file == "as it was" else reason(made))
    assert are_all(counts) == (file == "as it was")
    assert file == "as it was" or ("Base", "vtable") not in counts


def mapping_of(made: Path, offset: int) -> tuple[int, int, int]:
    """Where the process had this part of its program's file: from where, to where, and what of the file is first."""
    for words in map(str.split, made.with_name("maps").read_text().splitlines()):
        start, end = (int(word, 16) for word in words[0].split("-"))
        first = int(words[2], 16)
        if words[-1] == str(made) and 0 <= offset - first < end - start:
            return start, end, first
    raise AssertionError(offset)


def test_a_core_with_half_a_name(made: Path, arenadump: harness.Arenadump) -> None:
    """Where the core's bytes end within a name, the file has the rest."""
    whole, core = made.read_bytes(), made.with_name("core")
    data = core.read_bytes()
    offset = whole.index(b"7Derived\0")
    start, end, first = mapping_of(made, offset)
    kept = whole[first : offset + len("7Der")]
    (table,), (entry, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<2H", data, 54)
    entries = [data[at : at + entry] for at in range(table, table + count * entry, entry)]
    loads = [struct.unpack_from("<IIQQ", found) for found in entries]
    assert not any(kind == PT_LOAD and at == start for kind, _, _, at in loads), "gdb has not left the names out"
    # A segment more: the table of all moves to the end.
    at = len(data) + len(kept)
    before = sum(kind != PT_LOAD or address < start for kind, _, _, address in loads)
    entries.insert(before, struct.pack("<2I6Q", PT_LOAD, PF_R, len(data), start, 0, len(kept), end - start, 1))
    header = bytearray(data[:64])
    struct.pack_into("<Q", header, 32, at)
    struct.pack_into("<H", header, 56, count + 1)
    core.write_bytes(header + data[64:] + kept + b"".join(entries))
    counts, left_out = types(arenadump, core)
    assert left_out is None
    assert are_all(counts)


SHORT_READS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int opened;
ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset)
{
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pread64");
    size_t most = getenv("MOST") ? (size_t)atoi(getenv("MOST")) : 100;
    return next(fd, buffer, size > most ? most : size, offset);
}
ssize_t pread(int fd, void *buffer, size_t size, off_t offset) { return pread64(fd, buffer, size, offset); }
int open64(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    char link[64], to[4096] = "";
    va_list args;
    va_start(args, flags);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "open64");
    int fd = next(path, flags, va_arg(args, int));
    va_end(args);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd >= 0 && readlink(link, to, sizeof to - 1) > 0 && strcmp(to, getenv("WATCHED")) == 0)
        opened++;
    if (fd >= 0 && getenv("CUT_AT") && opened >= atoi(getenv("CUT_AT")) && truncate(getenv("WATCHED"), 100) == 0)
        unsetenv("CUT_AT");
    return fd;
}
int open(const char *path, int flags, ...) __attribute__((alias("open64")));
__attribute__((destructor)) static void tell(void)
{
    FILE *told = opened > 0 ? fopen(getenv("TOLD"), "w") : NULL;
    if (told)
        fprintf(told, "%d", opened);
}
"""


@pytest.fixture
def short_reads() -> Path:
    """A library: arenadump gets at most MOST bytes (100) a read, and it counts how often the file WATCHED is opened."""
    return programs.build(SHORT_READS, "-shared", "-fPIC", "-ldl")


def watched(made: Path, library: Path, **environment: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "WATCHED": str(made), "TOLD": str(made.with_name("json")), **environment}


def test_short_reads_of_a_file_that_is_opened_once(made: Path, short_reads: Path, arenadump: harness.Arenadump) -> None:
    """However many constants there are. The other times are before: to find the modules, and debug information."""
    counts, left_out = types(arenadump, made.with_name("core"), **watched(made, short_reads))
    assert are_all(counts)
    assert sum(evidence == "vtable" and str(name).startswith("Many") for name, evidence in counts) == 40
    assert left_out is None
    assert 1 <= int(made.with_name("json").read_text()) <= 8


def test_a_file_that_is_cut_short_meanwhile(made: Path, short_reads: Path, arenadump: harness.Arenadump) -> None:
    core, whole = made.with_name("core"), made.read_bytes()
    types(arenadump, core, **watched(made, short_reads))
    last = made.with_name("json").read_text()  # to read the constants
    assert made.read_bytes() == whole
    counts, left_out = types(arenadump, core, **watched(made, short_reads, CUT_AT=last))
    assert len(made.read_bytes()) == 100
    assert left_out == reason(made)
    assert ("Base", "vtable") not in counts


def test_short_reads_of_another_builds_file(made: Path, short_reads: Path, arenadump: harness.Arenadump) -> None:
    """All of its first page must be as in the core, not only what the first read gives: that is the same in each."""
    made.unlink()
    programs.build(CLASSES, *BUILD, "-O0", compiler="g++", at=made)
    counts, left_out = types(arenadump, made.with_name("core"), **watched(made, short_reads, MOST="7"))
    assert left_out == reason(made)
    assert ("Base", "vtable") not in counts


KEPT = "import collections, sys; x = [collections.deque() for _ in range(3000)]; print('ready', flush=True); input()"


def test_short_reads_of_the_names_of_pythons_types(
    tmp_path: Path, short_reads: Path, arenadump: harness.Arenadump
) -> None:
    """Names of types that are made in C are constants of the interpreter."""
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    with started([sys.executable, "-c", KEPT], "ready") as pid:
        odd.wait_for_read(pid)
        core = gcore(pid, tmp_path)
    whole, short = (
        take_snapshot(arenadump, "summary", core, "--objects", **more)["runtimes"][0]["objects"]
        for more in ({}, watched(core, short_reads, MOST="7"))
    )
    assert short == whole
    assert any(kind["name"] == "collections.deque" and kind["count"] >= 3000 for kind in whole["types"])
