# SPDX-License-Identifier: MIT
"""What glibc itself keeps in malloc's chunks, of tests/programs/glibc_types.c; its debug information knows the rest."""

from __future__ import annotations

import bisect
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from graph.test_types import LIST_TYPES
from tools import debian, programs, tiers

# What a chunk is, and its name.
NAMES = {
    "locale": "locale_t (glibc)",
    "locale data": "locale data (glibc)",
    "iconv": "iconv_t (glibc)",
    "steps": "steps of a conversion (glibc)",
    "buffer": "buffer of an iconv_t (glibc)",
    "object": "gconv_loaded_object (glibc)",
    "environ": "environ (glibc)",
    "variable": "environment variable (glibc)",
    "passwd": "buffer of a passwd (glibc)",
    "group": "buffer of a group (glibc)",
    "host": "buffer of a hostent (glibc)",
    "service": "buffer of a servent (glibc)",
    "addrinfo": "addrinfo (getaddrinfo)",
    "regex": "re_dfa_t (regcomp)",
    "regex nodes": "nodes of a re_dfa_t (regcomp)",
    "regex states": "states of a re_dfa_t (regcomp)",
}
# What debug information says of glibc's own variables, and the name without it.
DECLARED = {
    "__locale_data": "locale data (glibc)",
    "loaded_l10nfile": "loaded_l10nfile (glibc)",
    "tzstring_l": "tzstring_l (glibc)",
    "nss_module": "nss_module (glibc)",
    "nss_action_list_wrapper": "nss_action list (glibc)",
    "exit_function_list": "exit_function_list (glibc)",
    "resolv_conf_global": "resolv_conf_global (glibc)",
    "environ_array": "environ_array (glibc)",
}
# What glibc has made in the program, but the program cannot know; the numbers of these are at least so large.
HIDDEN = {
    "name of a locale (glibc)": 10,
    "loaded_l10nfile (glibc)": 12,
    "path of a locale's file (glibc)": 12,
    "gconv_fcts (glibc)": 1,
    "tsearch node (glibc)": 3,
    "tzstring_l (glibc)": 3,
    "exit_function_list (glibc)": 2,
    "resolv_conf (glibc)": 1,
    "resolv_conf_global (glibc)": 1,
}
# From glibc 2.33 on.
NAME_SERVICE = {"nss_module (glibc)": 1, "nss_action list (glibc)": 2, "nss_database_state (glibc)": 1}

Chunk = tuple[int, int, str, str]  # address, size, evidence, name


def types_of(pid: int, *options: str) -> list[Chunk]:
    done = subprocess.run([LIST_TYPES, str(pid), *options], capture_output=True, text=True, timeout=120, check=True)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(int(address, 16), int(size), evidence, name) for address, size, evidence, name in rows]


@contextmanager
def running(command: list[str], variables: dict[str, str] | None = None) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """A process, and what it says of its chunks: kind and an address in the chunk."""
    environment = {**os.environ, **(variables or {})}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout
            said = []
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program died"
                kind, address = line.rstrip("\n").split("\t")
                said.append((kind, int(address, 16)))
            yield process.pid, said
        finally:
            process.kill()


def check(chunks: list[Chunk], said: list[tuple[str, int]]) -> Counter[str]:
    """Each chunk of which the program speaks has its own name, and no other has one of glibc's. Returns all names."""
    starts = [address for address, _, _, _ in chunks]
    wrong, seen = Counter[tuple[str, str]](), Counter[str]()
    for kind, address in said:
        at = bisect.bisect(starts, address) - 1
        if at < 0 or address >= chunks[at][0] + chunks[at][1] - 8:
            continue  # a constant of libc's
        seen[kind] += 1
        name = chunks[at][3]
        ours = name.endswith(("(glibc)", "(getaddrinfo)", "(regcomp)"))
        if name != NAMES[kind] if kind in NAMES else ours:
            wrong[kind, name] += 1
    assert not wrong
    assert set(NAMES) <= set(seen)
    assert seen["decoy"] == 360
    return Counter(name for _, _, _, name in chunks)


def check_hidden(names: Counter[str], least: dict[str, int]) -> None:
    assert not {name: names[name] for name, count in least.items() if names[name] < count}


def locale_here() -> str:
    """A locale of this machine that is not the C locale, with a file for each category."""
    if not list(Path("/usr/lib/locale").glob("[Cc].[Uu][Tt][Ff]8")):
        pytest.skip("this machine has no locale C.UTF-8 in files")
    return "C.UTF-8"


def test_what_glibc_keeps() -> None:
    with running([str(programs.build("glibc_types", "-g0")), locale_here()]) as (pid, said):
        names = check(types_of(pid, "no-debug-information"), said)
    check_hidden(names, {**HIDDEN, **NAME_SERVICE})


def test_debug_information_says_the_same() -> None:
    with running([str(programs.build("glibc_types", "-g0")), locale_here()]) as (pid, _):
        answer = {address: name for address, _, _, name in types_of(pid, "no-debug-information")}
        declared = [chunk for chunk in types_of(pid) if chunk[2] == "dwarf"]
    if not declared:
        pytest.skip("libc's debug information is not installed (libc6-dbg)")
    wrong = Counter(
        (name, answer[address])
        for address, _, _, name in declared
        if answer[address] != DECLARED.get(name) and name in DECLARED
    )
    assert not wrong
    # And no other structure has one of these names.
    names = set(DECLARED.values())
    assert not [
        (name, answer[at]) for at, _, _, name in declared if answer[at] in names and DECLARED.get(name) != answer[at]
    ]
    assert len({name for _, _, _, name in declared if name in DECLARED}) >= 6


@pytest.mark.parametrize("suite", tiers.EACH_LIBC)
def test_other_releases(suite: str) -> None:
    """Where conversions are not asked of a cache, libc keeps what it has found, in a tree."""
    libc = debian.libc(suite)
    program = programs.build_portable("glibc_types")
    modules = next(path for path in libc.root.glob("**/gconv") if path.is_dir())
    variables = {"GCONV_PATH": str(modules), "LOCPATH": "/usr/lib/locale"}
    with running(libc.command(program, locale_here()), variables) as (pid, said):
        names = check(types_of(pid, "no-debug-information"), said)
    least = {**HIDDEN, "known_derivation (glibc)": 2, "gconv_alias (glibc)": 10}
    if libc.release >= (2, 33):
        least.update(NAME_SERVICE)
    if libc.release >= (2, 41):
        least["environ_array (glibc)"] = 1
    check_hidden(names, least)
