# SPDX-License-Identifier: MIT
"""Which malloc, and how it is laid out: every source says the same of every libc, and other allocators are named."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import fetched
from tools import debian, programs, tiers
from tools.paths import ROOT

FIND_LIBC = Path(os.environ.get("FIND_LIBC", ROOT / "build/tests/unit/find_libc"))
SOURCES = ["dwarf", "symtab", "relocation", "decode"]
# What the table must say of each, among much else: sizes of malloc_state, malloc_par, heap_info, and of the tcache.
SIZES = {
    "2.31": (2200, 112, 32, 640),
    "2.36": (2200, 136, 48, 640),
    "2.41": (2200, 136, 48, 640),
    "2.43": (2112, 144, 48, 760),
    "2.44": (2112, 136, 48, 760),
}
# Offsets from the thread pointer are known by name only; a source without names leaves them to be found by scanning.
UNKNOWN = [-1, -1]


def find(*arguments: Path | str | int) -> list[dict[str, Any]]:
    if not FIND_LIBC.exists():
        pytest.fail(f"{FIND_LIBC} does not exist: make build, or set $FIND_LIBC")
    done = subprocess.run([FIND_LIBC, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_source(pid: int | Path) -> dict[str, dict[str, Any]]:
    """What was found with all sources ("any"), and with each alone."""
    return {answer["allowed"]: answer for answer in find("target", pid)}


def layout(libc: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tuple(libc[part]) for part in ("state", "par", "heap"))


def place(libc: dict[str, Any]) -> tuple[int, int]:
    return libc["main_arena"], libc["mp"]


@contextlib.contextmanager
def running(command: list[str], **environment: str) -> Iterator[int]:
    """A program that says "ready" when it is."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def in_namespace_with(debug: Path, command: list[str]) -> list[str]:
    """The command, where that tree's debug files are the system's: a container of the libc's own suite, so to speak."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    script = 'mount --bind "$0" /usr/lib/debug && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(debug / "usr/lib/debug"), *command]


ARCHS = tiers.daily(debian.TRIPLETS, [debian.NATIVE], part="emulation")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suite", tiers.EACH_LIBC)
def test_sources_agree_on_a_file(suite: str, arch: str) -> None:
    libc = fetched(suite, arch)
    answers = find("file", libc.directory / "libc.so.6", libc.debug)
    assert [answer["source"] for answer in answers] == SOURCES
    first = answers[0]
    assert first["layout_source"] == "DWARF; the table agrees"
    for answer in answers:
        assert place(answer) == place(first)
        assert layout(answer) == layout(first)
        assert answer["versions"] == first["versions"]
        assert answer["version"] == debian.SUITES[suite]
    assert (first["state"][0], first["par"][0], first["heap"][0], first["heap"][2]) == SIZES[debian.SUITES[suite]]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suite", tiers.by_tier(suite for suite in debian.SUITES if suite != "bullseye"))
def test_sources_agree_on_malloc_debug(suite: str, arch: str) -> None:
    libc = fetched(suite, arch)
    answers = find("file", libc.directory / "libc_malloc_debug.so.0", libc.debug)
    # Its malloc_trim only calls another function, so there is nothing to decode.
    assert {answer["source"] for answer in answers} >= {"dwarf", "symtab", "relocation"}
    for answer in answers:
        assert place(answer) == place(answers[0])
        assert (answer["state"], answer["par"]) == (answers[0]["state"], answers[0]["par"])
        assert answer["heap"][2] == 0  # no tcache


@pytest.mark.parametrize("with_debug", [False, True], ids=["stripped", "debug"])
def test_process(libc: debian.Libc, *, with_debug: bool) -> None:
    program = programs.build_portable("alloc")
    command = libc.command(program)
    with running(in_namespace_with(libc.debug, command) if with_debug else command) as pid:
        answers = by_source(pid)
    usable = [source for source, answer in answers.items() if answer["libcs"]]
    assert set(usable) >= {"any", "relocation", "decode", "scan"}
    if with_debug:
        assert set(usable) >= {"dwarf", "symtab"}
    # The cheapest that is there, as the next one agrees with it: never DWARF.
    assert answers["any"]["libcs"][0]["source"] == ("symtab" if "symtab" in usable else "relocation")
    expected = answers["relocation"]["libcs"][0]
    for source in usable:
        assert answers[source]["kind"] == "glibc"
        (found,) = answers[source]["libcs"]
        assert found["proven"]
        assert found["started"]
        assert place(found) == place(expected)
        assert layout(found) == layout(expected)
        assert found["version"] == debian.SUITES[libc.suite]
        assert (found["tls"] == UNKNOWN) == (found["source"] not in ("dwarf", "symtab"))


def test_core_far_from_its_files(libc: debian.Libc, tmp_path: Path) -> None:
    """Memory alone gives the layout, down to whether links are mangled, which no struct shows."""
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    program = programs.build_portable("alloc")
    elsewhere = tmp_path / "lib"
    shutil.copytree(libc.directory, elsewhere, symlinks=True, ignore=shutil.ignore_patterns("gconv"))
    command = [str(elsewhere / libc.loader.name), "--library-path", str(elsewhere), str(program)]
    with running(command) as pid:
        expected = by_source(pid)["relocation"]["libcs"][0]
        shutil.move(elsewhere, tmp_path / "away")
        subprocess.run(["gcore", "-o", tmp_path / "core", str(pid)], check=True, capture_output=True)
        core = tmp_path / f"core.{pid}"
    answer = by_source(core)["scan"]
    core.unlink()
    assert answer["kind"] == "glibc"
    (found,) = answer["libcs"]
    assert found["proven"]
    assert found["build_id"] == expected["build_id"]
    assert place(found) == place(expected)
    assert found["heap"] == expected["heap"]
    assert found["state"] == expected["state"]
    assert found["par"][1:] == expected["par"][1:]  # mp_'s last field, of 2.43 alone, leaves no trace


@pytest.mark.nightly("emulation")
@pytest.mark.parametrize("suite", debian.SUITES)
def test_core_that_names_nothing(suite: str, tmp_path: Path) -> None:
    """A core of qemu has no file names and no ELF headers: all that is writable is inspected, and arm64 is found."""
    libc = fetched(suite, "arm64")
    emulator = debian.emulator()
    program = programs.build_portable("alloc", "arm64")
    (expected,) = (a for a in find("file", libc.directory / "libc.so.6", libc.debug) if a["source"] == "dwarf")
    command = ["prlimit", "--core=unlimited", emulator, *libc.command(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTRAP)  # SIGABRT from outside ends qemu 10 itself, without a core
        process.wait(timeout=60)
    (core,) = tmp_path.glob("qemu_*.core")
    answer = by_source(core)["any"]
    for path in tmp_path.glob("*core*"):
        path.unlink()
    assert answer["kind"] == "glibc"
    (found,) = answer["libcs"]
    assert found["proven"]
    # Where it was loaded is nowhere said, but a load bias is a whole number of pages.
    bias = found["main_arena"] - expected["main_arena"]
    assert bias % 4096 == 0
    assert found["mp"] == expected["mp"] + bias
    assert found["heap"] == expected["heap"]
    assert found["state"] == expected["state"]
    assert found["par"][1:] == expected["par"][1:]


def test_deleted_libc(libc: debian.Libc, tmp_path: Path) -> None:
    """Without privileges a deleted file is out of reach; the object's pages in memory are not."""
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs some to drop")
    program = programs.build_portable("alloc")
    elsewhere = tmp_path / "lib"
    shutil.copytree(libc.directory, elsewhere, symlinks=True, ignore=shutil.ignore_patterns("gconv"))
    with running([str(elsewhere / libc.loader.name), "--library-path", str(elsewhere), str(program)]) as pid:
        expected = by_source(pid)["relocation"]["libcs"][0]
        shutil.rmtree(elsewhere)
        # map_files still leads to the file for one who may use it ...
        assert place(by_source(pid)["relocation"]["libcs"][0]) == place(expected)
        # ... and who may not has memory left.
        limited = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore", "--inh-caps=-all"]
        done = subprocess.run([*limited, FIND_LIBC, "target", str(pid)], capture_output=True, text=True, check=True)
        (found,) = json.loads(done.stdout.splitlines()[0])["libcs"]
        assert found["proven"]
        assert place(found) == place(expected)
        assert layout(found) == layout(expected)


@pytest.mark.parametrize("flags", [["-static"], ["-static", "-s"], ["-static-pie"], ["-static-pie", "-s"]], ids="".join)
def test_static(flags: list[str]) -> None:
    with running([str(programs.build("alloc", *flags))]) as pid:
        answers = by_source(pid)
    stripped = "-s" in flags
    expected = answers["any"]["libcs"][0]
    assert expected["source"] == ("relocation" if stripped else "symtab")
    assert (expected["tls"] == UNKNOWN) == stripped
    for source in ["any", "relocation", "scan"]:
        assert answers[source]["kind"] == "glibc"
        assert "statically" in answers[source]["detail"]
        (found,) = answers[source]["libcs"]
        assert found["proven"]
        assert place(found) == place(expected)
        assert layout(found) == layout(expected)


def test_dlmopen() -> None:
    with running([str(programs.build("namespaces", "-ldl"))]) as pid:
        maps = Path(f"/proc/{pid}/maps").read_text()
        answers = by_source(pid)
    bases = {int(line.split("-")[0], 16) for line in maps.splitlines() if "libc.so.6" in line and " 00000000 " in line}
    libcs = answers["any"]["libcs"]
    assert {libc["base"] for libc in libcs} == bases
    assert len(bases) == 3
    assert all(libc["proven"] for libc in libcs)
    # The program's own comes first; of the others one was used.
    assert libcs[0]["base"] == max(bases)
    assert sorted(libc["started"] for libc in libcs[1:]) == [0, 1]


@pytest.mark.parametrize("checked", [False, True], ids=["idle", "checking"])
def test_malloc_debug(*, checked: bool) -> None:
    environment = {"LD_PRELOAD": "libc_malloc_debug.so.0", **({"MALLOC_CHECK_": "3"} if checked else {})}
    with running([str(programs.build("alloc"))], **environment) as pid:
        answer = by_source(pid)["any"]
    assert answer["kind"] == "glibc"
    assert "libc_malloc_debug" in answer["detail"]
    plain, debugging = answer["libcs"]
    assert plain["path"].endswith("/libc.so.6")
    assert debugging["path"].endswith("/libc_malloc_debug.so.0")
    assert plain["proven"]
    assert debugging["proven"]
    assert debugging["started"] == checked
    assert debugging["heap"][2] == 0  # no tcache


def test_jemalloc_preloaded() -> None:
    with running([str(programs.build("alloc"))], LD_PRELOAD="libjemalloc.so.2") as pid:
        answer = by_source(pid)["any"]
    assert answer["kind"] == "jemalloc"
    assert "libjemalloc.so.2" in answer["detail"]
    (libc,) = answer["libcs"]  # still inspected, and idle
    assert libc["proven"]
    assert not libc["started"]


@pytest.mark.parametrize(
    ("flags", "compiler", "kind"),
    [
        (["-fsanitize=address"], "gcc", "asan"),
        ([], "musl-gcc", "musl"),
        (["-static"], "musl-gcc", "musl"),
        (["-static", "-s"], "musl-gcc", "unknown"),
    ],
    ids=["asan", "musl", "musl-static", "musl-static-stripped"],
)
def test_other_allocators(flags: list[str], compiler: str, kind: str) -> None:
    with running([str(programs.build("alloc", *flags, compiler=compiler))]) as pid:
        answers = by_source(pid)
    assert {answer["kind"] for answer in answers.values()} == {kind}
    assert not any(libc["started"] for libc in answers["any"]["libcs"])


def test_valgrind() -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    with running(["valgrind", str(programs.build("alloc"))]) as pid:
        answer = by_source(pid)["any"]
    assert answer["kind"] == "valgrind"
    assert not any(libc["started"] for libc in answer["libcs"])


def test_an_allocator_of_ones_own(tmp_path: Path) -> None:
    """A library ahead of libc that exports malloc answers it, whoever wrote it."""
    library = programs.build("only_malloc", "-shared", "-fPIC", at=tmp_path / "libmine.so")
    with running([str(programs.build("alloc"))], LD_PRELOAD=str(library)) as pid:
        answer = by_source(pid)["any"]
    assert answer["kind"] == "unknown"
    assert "libmine.so" in answer["detail"]
    assert answer["libcs"][0]["started"]


def reads_of(modules: str) -> tuple[int, int]:
    """How many shared objects a Python has, and how often something is read until libc is found among them."""
    script = f"import {modules}; print('ready', flush=True); import time; time.sleep(600)"
    with running(["python3", "-c", script]) as pid:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        answer = by_source(pid)["relocation"]
    assert answer["libcs"][0]["proven"]
    return len({line.split(None, 5)[5] for line in maps if ".so" in line}), answer["reads"]


def test_few_reads_without_debug_information() -> None:
    """A lookup among the objects of an ordinary interpreter takes milliseconds: some thousand reads, few for each."""
    few, reads_of_few = reads_of("time")
    many, reads_of_many = reads_of("ctypes, ssl, sqlite3, decimal")
    if reads_of_few < 0:
        pytest.skip("this kernel counts no system calls in /proc/self/io")
    assert many >= few + 5
    assert reads_of_many <= reads_of_few + 20 * (many - few)
    assert reads_of_many < 5000
