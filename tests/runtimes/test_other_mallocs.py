# SPDX-License-Identifier: MIT
"""The memory of allocators other than glibc's, found from outside, held against what each says of itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import command, cores, harness, odd, programs
from tools.mallocs import MIB, allocator, answer, check_rows, library, packaged, running

# --- jemalloc ---------------------------------------------------------------------------------------------------------


def jemalloc_of(suite: str) -> str:
    """Debian's jemalloc of a suite: their trees of pages have two levels in bookworm, and three in trixie."""
    return packaged("libjemalloc2", "libjemalloc.so.2", suite)


@contextmanager
def with_jemalloc(suite: str | None = None) -> Iterator[tuple[int, int]]:
    """The PID of a program that holds 40 MiB, and what jemalloc has taken from the kernel for it."""
    preload = jemalloc_of(suite) if suite else library("jemalloc")
    with running([programs.build("jemalloc")], LD_PRELOAD=preload) as process:
        mapped, retained = answer(process).split(), answer(process).split()
        assert (mapped[0], retained[0]) == ("mapped", "retained")
        yield process.pid, int(mapped[1]) + int(retained[1])


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_jemalloc_has_all_that_it_says(arenadump: harness.Arenadump, mode: str) -> None:
    with with_jemalloc() as (pid, taken):
        summary = arenadump.summary(pid, f"--mode={mode}")
    found = allocator(summary, "jemalloc")
    assert found["found"]
    assert 'the row "other malloc"' in summary["allocator"]["not_glibc"]["memory"]
    assert summary["allocator"]["not_glibc"]["meanings"] == {}
    assert found["size"] == found["committed"] == taken
    assert 20 * MIB < found["resident"] <= taken
    check_rows(summary, found["resident"])


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_trees_of_two_and_of_three_levels(arenadump: harness.Arenadump, suite: str) -> None:
    with with_jemalloc(suite) as (pid, taken):
        found = allocator(arenadump.summary(pid), "jemalloc")
    assert found["found"]
    assert f"tree of {2 if suite == 'bookworm' else 3} levels" in found["evidence"]
    assert found["size"] == found["committed"] == taken


def test_jemalloc_in_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with with_jemalloc() as (pid, taken):
        core = cores.gcore(pid, tmp_path)
    found = allocator(arenadump.summary(core), "jemalloc")
    assert found["size"] == taken
    assert found["resident"] is None


# --- mimalloc ---------------------------------------------------------------------------------------------------------

MIMALLOC = """
small = [bytes(1000 + i % 5000) for i in range(20000)]
large = [bytes(5 << 20), bytes(100 << 20)]
print("ready", flush=True)
input()
"""


@contextmanager
def with_mimalloc() -> Iterator[int]:
    """The PID of a Python that holds 170 MiB of mimalloc's: 3, of later suites, has other structures."""
    environment = {"LD_PRELOAD": packaged("libmimalloc2.0", "libmimalloc.so.2.0"), "PYTHONMALLOC": "malloc"}
    with running([sys.executable, "-c", MIMALLOC], **environment) as process:
        assert answer(process) == "ready\n"
        yield process.pid


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_mimallocs_segments(arenadump: harness.Arenadump, mode: str) -> None:
    with with_mimalloc() as pid:
        summary = arenadump.summary(pid, f"--mode={mode}")
    found = allocator(summary, "mimalloc")
    assert found["found"]
    assert 'the row "other malloc"' in summary["allocator"]["not_glibc"]["memory"]
    assert 170 * MIB < found["resident"] <= found["size"] == found["committed"]
    assert summary["ledger"].pop("python_arenas") is None  # there are none
    check_rows(summary, found["resident"])
    # What is left are tables that mimalloc keeps for each thread.
    assert summary["ledger"]["other_anon"] < 2 * MIB


def test_mimalloc_in_a_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with with_mimalloc() as pid:
        size = allocator(arenadump.summary(pid), "mimalloc")["size"]
        core = cores.gcore(pid, tmp_path)
    found = allocator(arenadump.summary(core), "mimalloc")
    assert found["size"] == size
    assert found["resident"] is None


# --- PHP --------------------------------------------------------------------------------------------------------------


@contextmanager
def php(**environment: str) -> Iterator[tuple[int, int, int]]:
    """The PID of a PHP, and what it says that its heap uses, and has taken from the kernel."""
    if not shutil.which("php"):
        pytest.skip("php is not installed (Debian: php-cli)")
    with running(["php", programs.SOURCES / "holds.php"], **environment) as process:
        answer(process)
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        used, taken = map(int, answer(process).split())
        yield process.pid, used, taken


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_phps_heap_is_what_php_says(arenadump: harness.Arenadump, mode: str) -> None:
    with php() as (pid, used, taken):
        summary = arenadump.summary(pid, f"--mode={mode}")
    found = allocator(summary, "zend")
    assert found["found"]
    assert found["size"] == found["committed"] == taken
    assert abs(found["used"] - used) < 4096  # the line that it reads meanwhile
    assert found["used"] < taken
    check_rows(summary, found["resident"])


def test_php_without_its_own_heap(arenadump: harness.Arenadump) -> None:
    with php(USE_ZEND_ALLOC="0") as (pid, *_):
        summary = arenadump.summary(pid)
    assert not allocator(summary, "zend")["found"]
    assert summary["ledger"]["other_malloc"] is None
    assert any("USE_ZEND_ALLOC" in warning["text"] for warning in summary["warnings"])
    assert sum(value or 0 for value in summary["ledger"].values()) == summary["kernel"]["rss"]


# --- Those that are known by name only --------------------------------------------------------------------------------


def test_what_is_not_located_is_unknown_and_not_zero(arenadump: harness.Arenadump) -> None:
    """ASan's allocator in a program."""
    with odd.running([str(odd.build("alloc", "-fsanitize=address"))]) as pid:
        summary = arenadump.summary(pid, "--mode=freeze")
    found = allocator(summary, "asan")
    assert not found["found"]
    assert found["size"] is None
    assert summary["ledger"]["other_malloc"] is None
    assert sum(value or 0 for value in summary["ledger"].values()) == summary["kernel"]["rss"]


def test_without_another_allocator_the_row_is_zero(arenadump: harness.Arenadump) -> None:
    with running(["cat"]) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("started\n")
        process.stdin.flush()
        assert process.stdout.readline() == "started\n"  # else the loader may still be at work
        summary = arenadump.summary(process.pid)
    assert summary["runtimes"] == []
    assert summary["ledger"]["other_malloc"] == summary["ledger"]["managed"] == 0


# --- Objects ----------------------------------------------------------------------------------------------------------

OBJECTS = {
    "ruby": ["ruby", "-e", "$kept = Array.new(20_000) { |i| 'x' * 500 + i.to_s }; puts :ready; $stdout.flush; sleep"],
    "python": [sys.executable, "-c", "kept = [[i] * 200 for i in range(9000)]; print('ready', flush=True); input()"],
}


@pytest.mark.parametrize("name", OBJECTS)
def test_what_objects_own_in_another_malloc_is_unknown(arenadump: harness.Arenadump, name: str, tmp_path: Path) -> None:
    """No zero: nobody has searched it."""
    with running(OBJECTS[name], LD_PRELOAD=library("jemalloc")) as process:
        assert answer(process) == "ready\n"
        summary = arenadump.summary(process.pid, "--objects")
        printed = arenadump.check("summary", "--objects", process.pid)
        shown = command.here("summary", process.pid, "--objects").stdout
        assert command.here("report", process.pid, "--objects", "-o", tmp_path / "page.html").returncode == 0
    has_objects = [summary["ruby"], *summary["runtimes"]]
    (objects,) = [each["objects"] for each in has_objects if each and each.get("objects")]
    assert objects["types"]
    assert {(each["owned"], each["in_malloc"]) for each in objects["types"]} == {(None, None)}
    assert {each["owned"] for each in objects["classes"] or ()} <= {None}
    assert all(each["bytes"] for each in objects["types"])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (printed, shown, page):
        table = text.partition("objects by type")[2]
        assert "What they own in another malloc was not searched" in table
        assert "unknown" in table.partition("objects alone.")[2]
