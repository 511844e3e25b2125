# SPDX-License-Identifier: MIT
"""Ruby's own pages, found from outside in Rubies of four generations, held against what each says of itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, interpreters, odd, tiers

# What it says it found out last, with nothing allocated between that and its wait.
PROGRAM = """
kept = Array.new(200_000) { |i| "object #{i} " * (i % 4 + 1) }
(0...200_000).step(3) { |i| kept[i] = nil }
GC.start
GC.disable
pages = GC.stat(:heap_allocated_pages) # the first call makes symbols
counts = {}
ObjectSpace.count_objects(counts)
$stdout.puts "ready"
$stdout.flush
$stdin.getc # the first wait makes objects that the second one has
ObjectSpace.count_objects(counts)
pages = GC.stat(:heap_allocated_pages)
$stdin.getc
puts({pages: pages, slots: counts[:TOTAL], free: counts[:FREE]}.map { |k, v| "\\"#{k}\\": #{v}" }.join(", "))
"""
# Objects that `getc` may have made when we inspect.
MADE_SINCE = 4


class Running:
    """A Ruby that waits for us to have inspected."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def says(self) -> dict[str, int]:
        """What it knows of its own heap."""
        said, _ = self.process.communicate("\n", timeout=60)
        answer: dict[str, int] = json.loads("{" + said + "}")
        return answer


@contextmanager
def running(release: str, tmpfs: Path | None = None, names: Path | None = None) -> Iterator[Running]:
    """`tmpfs`: where a copy of it is made, of which all is memory. `names`: where copies get names that say nothing."""
    ruby = interpreters.ruby(release)
    command = ruby.command("-e", PROGRAM)
    if tmpfs:
        command = odd.on_tmpfs(command, ruby.root, tmpfs)
    if names:
        command = renamed(command, ruby, names)
    with subprocess.Popen(
        command, env=ruby.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
            wait_until_it_waits(process.pid)
            yield Running(process)
        finally:
            process.kill()


def renamed(command: list[str], ruby: interpreters.Ruby, folder: Path) -> list[str]:
    """The loader takes the preloaded library for the one that the program needs: by what it says of itself."""
    (library,) = (path for path in ruby.root.rglob("libruby*.so.*") if not path.is_symlink())
    at = next(i for i, word in enumerate(command) if word == f"{ruby.root}/usr/bin/ruby{ruby.release}")
    shutil.copy(command[at], folder / "orders-svc")
    shutil.copy(library, folder / "engine.so")
    return [*command[:at], "--preload", f"{folder}/engine.so", f"{folder}/orders-svc", *command[at + 1 :]]


def wait_until_it_waits(pid: int) -> None:
    """Until its main thread has been asleep for a while."""
    quiet = 0
    while quiet < 5:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        quiet = quiet + 1 if state == "S" else 0
        time.sleep(0.02)


def check_against(found: dict[str, Any], says: dict[str, int]) -> None:
    assert found["pages"] == says["pages"]
    assert found["slots"] == says["slots"]
    assert says["free"] - MADE_SINCE <= found["free_slots"] <= says["free"]
    for key in ("pages", "slots", "free_slots"):
        assert sum(size[key] for size in found["slot_sizes"]) == found[key]


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize("release", tiers.runtimes(interpreters.RUBIES))
def test_all_pages_are_found_and_counted(arenadump: harness.Arenadump, release: str, mode: str) -> None:
    with running(release) as program:
        summary = arenadump.summary(program.pid, f"--mode={mode}")
        says = program.says()
    assert summary["snapshot"]["exact"]
    check_against(summary["ruby"], says)
    # The row is taken out of others, and is about what the pages can be.
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
    size = 16384 if release in {"2.7", "3.1"} else 65536
    assert 0.9 * says["pages"] * size < summary["ledger"]["ruby_pages"] <= says["pages"] * size
    in_arenas = sum(arena["ledger"]["ruby_pages"] for arena in summary["arenas"])
    assert in_arenas == (summary["ledger"]["ruby_pages"] if release == "2.7" else 0)


@pytest.mark.parametrize("release", tiers.runtimes(interpreters.RUBIES))
def test_a_ruby_of_any_name(arenadump: harness.Arenadump, release: str, tmp_path: Path) -> None:
    """It is known by the names that it exports."""
    with running(release, names=tmp_path) as program:
        maps = Path(f"/proc/{program.pid}/maps").read_text()
        summary = arenadump.summary(program.pid)
        says = program.says()
    assert "libruby" not in maps
    check_against(summary["ruby"], says)


def test_a_name_alone_is_no_ruby(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    shutil.copy("/bin/sleep", tmp_path / "ruby-launcher")
    with odd.asleep(tmp_path / "ruby-launcher", "600") as process:
        summary = arenadump.summary(process.pid, "--mode=freeze", "--max-pause=600s")
    assert summary["ruby"] is None
    assert not summary["warnings"]


@odd.needs_root
def test_a_ruby_on_tmpfs(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with running("2.7", tmp_path / "memory") as program:
        summary = arenadump.summary(program.pid)
        says = program.says()
    assert summary["ruby"], "its program is a mapping of shmem"
    check_against(summary["ruby"], says)


def test_in_a_core_without_residency_the_pages_are_still_counted(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with running("3.1") as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    summary = arenadump.summary(core)
    check_against(summary["ruby"], says)
    assert summary["ledger"]["ruby_pages"] is None


def test_where_there_is_no_ruby_there_are_no_pages(arenadump: harness.Arenadump) -> None:
    with odd.asleep() as process:
        summary = arenadump.summary(process.pid)
    assert summary["ruby"] is None
    assert summary["ledger"]["ruby_pages"] == 0
