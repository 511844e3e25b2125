# SPDX-License-Identifier: MIT
"""A target's heap is untrusted input: the truth harness's heap is wrecked in seeded ways, live and in its core.

Whatever was done to it, the inspector ends within its bounds of time and memory, with a documented exit code; its
chunks still cover every byte of every heap once, and its rows add up; where the damage can be seen, it says so.
"""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import cores, debian, fuzz_seeds, harness, programs, tiers, vandal
from tools.bounded import MEMORY, OPTIONS, is_sure, take_snapshot
from tools.paths import ROOT

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

TRIALS = int(os.environ.get("HOSTILE_TRIALS", "3"))  # of each kind of damage, under each glibc
FIRST_SEED = int(os.environ.get("HOSTILE_SEED", "0"))


@dataclasses.dataclass
class Scene:
    """A victim, and what was seen of it while it was whole."""

    target: int | Path
    victim: vandal.Victim
    truth: dict[str, Any]
    sure: bool
    scratch: Path
    memory: int | None  # bytes of address space that the inspector may have


def check_cover(dump: Dump) -> None:
    """Every byte of each heap in one chunk, and no byte in two heaps."""
    spans = sorted((int(heap["start"]), int(heap["end"])) for heap in dump.heaps)
    for (_, end), (start, _) in zip(spans, spans[1:]):
        assert end <= start, f"heaps overlap at {start:#x}"
    counts = ("in_use", "tcache", "fastbin", "binned", "top", "metadata", "unknown")
    for i, heap in enumerate(dump.heaps):
        assert not dump.heap_chunks(i).torn, f"the chunks of heap {i} do not cover it"
        pages = dump.heap_pages(i)
        units = sum(int(np.sum(pages[name], dtype=np.uint64)) for name in counts)
        assert units * fmt.UNIT == int(heap["end"]) - int(heap["start"]), f"the pages of heap {i} do not cover it"


def check_rows(dump: Dump) -> None:
    ledger = dump.totals["ledger"]
    rows = [int(ledger[name]) for name in fmt.LEDGER_ROWS]
    codes = {int(w["code"]) for w in dump.warnings}
    if fmt.UNKNOWN not in rows and int(dump.meta["rss"]) != fmt.UNKNOWN:
        assert sum(rows) == int(dump.meta["rss"]) or fmt.WarningCode.SUM in codes


def show(arenadump: harness.Arenadump, dump: Dump, scratch: Path) -> None:
    """All that can be made of a dump is made of it."""
    summary = arenadump.summary(Path(dump.path))
    assert len(summary["arenas"]) == len(dump.arenas)
    arenadump.check("summary", dump.path)
    arenadump.check("chunks", dump.path)
    arenadump.check("png", "-o", scratch / "pictures", dump.path)


def wreck(arenadump: harness.Arenadump, scene: Scene, kind: str, seed: int) -> None:
    with scene.victim.memory.restored():
        rng = random.Random(f"{kind} {seed}")
        damage = vandal.KINDS[kind](scene.victim, rng)
        options = ("--mode", rng.choice(["freeze", "clone", "live"])) if isinstance(scene.target, int) else ()
        try:
            dump = take_snapshot(arenadump, scene.target, scene.scratch, scene.memory, *options)
            if dump is None:
                return
            check_cover(dump)
            check_rows(dump)
            if seed % TRIALS == 0:
                show(arenadump, dump, scene.scratch)
            # What was read while the target ran is never called exact, and its lists are not held against the walk.
            if is_sure(dump) and scene.sure and "live" not in options:
                assert not damage.certain, "not a word about it"
        except AssertionError as error:
            error.args = (f"{damage.what}\n{error}",)
            raise
    if isinstance(scene.target, int):
        state = Path(f"/proc/{scene.target}/stat").read_text().rpartition(") ")[2][0]
        assert state not in "tTZX", f"the target was left in state {state}"


def scene_of(
    arenadump: harness.Arenadump,
    target: int | Path,
    libc: debian.Libc,
    scratch: Path,
    *,
    memory: int | None,
    live: Dump,
) -> Iterator[Scene]:
    dump = take_snapshot(arenadump, target, scratch, memory)
    assert dump is not None
    reach = vandal.Memory.of_process(target) if isinstance(target, int) else vandal.Memory.of_core(target)
    with reach:
        victim = vandal.Victim.from_dump(live, reach, libc.release)
        yield Scene(target, victim, vandal.sets(dump), is_sure(dump), scratch, memory)


@pytest.fixture(scope="module")
def parked(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with harness.Churn(harness.under(libc, churn_program, *OPTIONS)) as program:
        program.ask("go")
        scratch = tmp_path_factory.mktemp("hostile")
        dump = take_snapshot(arenadump, program.pid, scratch, MEMORY)
        assert dump is not None
        yield from scene_of(arenadump, program.pid, libc, scratch, memory=MEMORY, live=dump)


@pytest.mark.nearest
@pytest.mark.parametrize("kind", vandal.KINDS)
def test_a_wrecked_heap_is_reported(parked: Scene, arenadump: harness.Arenadump, kind: str) -> None:
    assert parked.sure
    for seed in range(FIRST_SEED, FIRST_SEED + TRIALS):
        wreck(arenadump, parked, kind, seed)
    # And nothing of it stays behind: whole again, the heap is seen as it was.
    dump = take_snapshot(arenadump, parked.target, parked.scratch, parked.memory)
    assert dump is not None
    assert is_sure(dump)
    assert vandal.sets(dump) == parked.truth


@pytest.mark.parametrize("kind", ["chain", "torn", "maps", "segments", "splinters"])
def test_memory_made_to_cost_time(kind: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    trap = subprocess.Popen([programs.build("trap", "-lpthread"), kind], stdout=subprocess.PIPE)
    try:
        assert trap.stdout
        assert trap.stdout.readline() == b"ready\n"
        dump = take_snapshot(arenadump, trap.pid, tmp_path, MEMORY)
        assert dump is not None
        check_cover(dump)
        check_rows(dump)
        # Where malloc's one map is found, the false ones do not matter.
        assert is_sure(dump) == (kind == "maps")
    finally:
        trap.kill()
        trap.communicate()


@pytest.fixture(scope="module")
def sanitized() -> harness.Arenadump:
    """The arenadump with ASan and UBSan, as `make fuzz` builds it."""
    path = Path(os.environ.get("ARENADUMP_SANITIZED", ROOT / "build-fuzz/inspector/cli/arenadump"))
    if not path.exists():
        pytest.skip(f"{path} does not exist: make fuzz FUZZ_SECONDS=1 builds it")
    return harness.Arenadump(path)


@pytest.fixture(scope="module")
def core(
    libc: debian.Libc, churn_program: Path, sanitized: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A small core: what malloc has of a process, and all of its headers and notes."""
    scratch = tmp_path_factory.mktemp("core")
    path = scratch / "core"
    with harness.Churn(harness.under(libc, churn_program, *fuzz_seeds.OPTIONS)) as program:
        program.ask("go")
        dump = take_snapshot(sanitized, program.pid, scratch, None)
        assert dump is not None
        path.write_bytes(fuzz_seeds.small_core(program.pid, dump, scratch))
    yield from scene_of(sanitized, path, libc, scratch, memory=None, live=dump)


@pytest.mark.nearest
@pytest.mark.parametrize("kind", vandal.KINDS)
def test_a_wrecked_core_is_reported(core: Scene, sanitized: harness.Arenadump, kind: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + TRIALS):
        wreck(sanitized, core, kind, seed)


@pytest.fixture(scope="module")
def kernel_core(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """The kernel's own core, which keeps what was resident: its answers can claim to be exact."""
    scratch = tmp_path_factory.mktemp("kernel-core")
    command = harness.under(libc, churn_program, *fuzz_seeds.OPTIONS)
    with harness.Churn(command, directory=scratch, core=True) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, scratch, MEMORY)
        assert dump is not None
        held = scratch / "held"
        held.mkdir()
        path = cores.abort(program, scratch)
    yield from scene_of(arenadump, path, libc, held, memory=MEMORY, live=dump)


@pytest.mark.nearest
@pytest.mark.parametrize("kind", tiers.daily(vandal.KINDS, ("chunk_size", "arena_ring", "everywhere"), "limits"))
def test_a_wrecked_core_of_the_kernel_is_reported(kernel_core: Scene, arenadump: harness.Arenadump, kind: str) -> None:
    assert kernel_core.sure
    for seed in range(FIRST_SEED + TRIALS, FIRST_SEED + TRIALS + max(1, TRIALS // 3)):
        wreck(arenadump, kernel_core, kind, seed)


@pytest.mark.nearest
def test_more_memory_than_there_can_be(core: Scene, sanitized: harness.Arenadump) -> None:
    """A header that claims 256 TiB which the file does not have: nobody reads through them page by page."""
    assert isinstance(core.target, Path)
    data = bytearray(core.target.read_bytes())
    headers = range(64, 64 + 56 * int.from_bytes(data[56:58], "little"), 56)
    address = {at: int.from_bytes(data[at + 16 : at + 24], "little") for at in headers}
    stack = max((at for at in headers if address[at] < 1 << 47), key=lambda at: address[at])
    data[stack + 32 : stack + 48] = bytes(8) + (1 << 48).to_bytes(8, "little")  # p_filesz, p_memsz
    wrecked = core.scratch / "wrecked"
    wrecked.write_bytes(data)
    dump = take_snapshot(sanitized, wrecked, core.scratch, None)
    assert dump is not None
    check_cover(dump)
    check_rows(dump)


@pytest.mark.nearest
def test_wrecked_headers_and_notes(core: Scene, sanitized: harness.Arenadump) -> None:
    assert isinstance(core.target, Path)
    whole = core.target.read_bytes()
    wrecked = core.scratch / "wrecked"
    headers = 64 + 56 * int.from_bytes(whole[56:58], "little")
    for seed in range(FIRST_SEED, FIRST_SEED + 10 * TRIALS):
        rng = random.Random(f"headers {seed}")
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8, 64])):
            end = rng.choice([64, headers, headers + 8192])  # the notes come first behind the headers
            place = rng.randrange(end)
            size = rng.choice([1, 2, 4, 8])
            data[place : place + size] = rng.choice([rng.randbytes(size), b"\xff" * size, bytes(size), b"\x01" * size])
        if rng.randrange(8) == 0:
            del data[rng.randrange(len(data)) :]
        wrecked.write_bytes(data)
        try:
            dump = take_snapshot(sanitized, wrecked, core.scratch, None)
            if dump is not None:
                check_cover(dump)
                check_rows(dump)
        except AssertionError as error:
            error.args = (f"seed {seed}\n{error}",)
            raise
