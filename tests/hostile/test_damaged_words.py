# SPDX-License-Identifier: MIT
"""One damaged word: each of these made something disappear, and the answer was called exact all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import fetched
from tools import debian, harness, programs, tiers, vandal
from tools.bounded import MEMORY, OPTIONS, is_sure, take_snapshot

from arenascope.wire import dump_records as fmt


def test_a_tcache_forgotten_on_a_stack(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """One thread's tcache is damaged, and another's lies where others have zeros: nobody has none."""
    with harness.Churn(harness.under(libc, churn_program, *OPTIONS)) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        owners = {int(t["tcache"]): int(t["tid"]) for t in dump.threads if int(t["tcache"])}
        assert len(owners) > 3
        assert fmt.UNKNOWN not in owners
        pointers = [int(words[1], 16) for words in program.ask("threads")]
        with vandal.Memory.of_process(program.pid) as memory:
            # A pthread_t is the thread pointer, on x86-64: the TLS lies below, and below that the stack.
            (distance, *_) = (
                d for d in range(512, 4096, 8) if all(memory.word(pointer - d) == 0 for pointer in pointers)
            )
            damaged, remembered = sorted(owners)[:2]
            with memory.restored():
                memory.write(damaged, 0xFFFF)
                memory.write(pointers[-1] - distance, remembered)
                seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert not is_sure(seen)
        tcaches = {int(t["tid"]): int(t["tcache"]) for t in seen.threads}
        assert tcaches.pop(owners.pop(damaged)) == fmt.UNKNOWN
        assert all(tcaches[tid] == tcache for tcache, tid in owners.items())


@pytest.mark.parametrize("value", [0, 1, 3])
def test_a_damaged_limit_of_tcaches(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path, value: int
) -> None:
    """mp_.tcache_count is what all counts are held against: were it wrong, all tcaches would seem to be none."""
    with harness.Churn(harness.under(libc, churn_program, *OPTIONS)) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        (limit,), mp = dump.mallocs["tcache_count"], int(dump.mallocs["mp"][0])
        with vandal.Memory.of_process(program.pid) as memory, memory.restored():
            place = max(at for at in range(mp + 72, mp + 144, 8) if memory.word(at) == limit)
            memory.write(place, value)
            seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert int(seen.mallocs["tcache_count"][0]) == value
        assert not is_sure(seen)
        before, after = ({int(t["tid"]): int(t["tcache"]) for t in d.threads} for d in (dump, seen))
        assert len(before) > 3
        assert all(after[tid] in (tcache, fmt.UNKNOWN) for tid, tcache in before.items())


@pytest.mark.parametrize("suite", tiers.by_tier(["forky", "experimental"]))
def test_a_map_of_huge_pages_where_there_are_none(
    suite: str, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """From 2.43 on a bit beside the lead of a map says so; without the tunable nobody sets it."""
    with harness.Churn(harness.under(fetched(suite), churn_program, *OPTIONS)) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        assert is_sure(dump)
        start = next(int(heap["start"]) for heap in dump.heaps if int(heap["kind"]) == fmt.HeapKind.MMAPPED)
        with vandal.Memory.of_process(program.pid) as memory, memory.restored():
            memory.write(start, 1)
            seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert not is_sure(seen)


@pytest.mark.parametrize("suite", tiers.by_tier(["forky", "experimental"]))
def test_a_pointer_to_a_tcache_that_became_null(
    suite: str, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """From 2.43 on no thread has such a one, not even before its first malloc."""
    command = harness.under(fetched(suite), churn_program, *OPTIONS)
    with harness.Churn(command) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        owners = {int(t["tcache"]): int(t["tid"]) for t in dump.threads if int(t["tcache"])}
        pointer = int(program.ask("threads")[-1][1], 16)
        with vandal.Memory.of_process(program.pid) as memory, memory.restored():
            place = next(at for at in range(pointer - 8, pointer - 4096, -8) if memory.word(at) in owners)
            owner = owners[memory.word(place)]
            memory.write(place, 0)
            seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert not is_sure(seen)
        assert {int(t["tid"]): int(t["tcache"]) for t in seen.threads}[owner] == fmt.UNKNOWN
        assert vandal.sets(seen) == vandal.sets(dump)  # it is found by its structure


def test_a_damaged_count_of_mmapped_chunks(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """That mp_ counts none of them does not mean that there is none, as long as it counts their bytes."""
    with harness.Churn(harness.under(libc, churn_program, *OPTIONS)) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        count, mp = int(dump.mallocs["n_mmaps"][0]), int(dump.mallocs["mp"][0])
        assert count > 0
        with vandal.Memory.of_process(program.pid) as memory, memory.restored():
            # Not searched for: the highest count that there has been may be the same number.
            place = mp + (40 if libc.release < (2, 35) else 60 if libc.release < (2, 43) else 68)
            assert memory.read(place, 4) == count.to_bytes(4, "little")
            memory.write(place, bytes(4))
            seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert int(seen.mallocs["n_mmaps"][0]) in (0, fmt.UNKNOWN)  # where nothing drifts mp_ is not believed at all
        assert not is_sure(seen)


@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_symbols_tell_where_a_tcache_is(arenadump: harness.Arenadump, tmp_path: Path, which: int) -> None:
    """One sound tcache among damaged ones would not win a vote; the program's own symbols need none."""
    with harness.Churn([str(programs.build("churn", "-static", "-lpthread", "-ldl")), *OPTIONS]) as program:
        program.ask("go")
        dump = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert dump is not None
        others = [int(t["tcache"]) for t in dump.threads if int(t["tcache"])]
        sound = others.pop(which)
        assert len(others) > 2
        with vandal.Memory.of_process(program.pid) as memory, memory.restored():
            for other in others:
                memory.write(other, 0xFFFF)
            seen = take_snapshot(arenadump, program.pid, tmp_path, MEMORY)
        assert seen is not None
        assert not is_sure(seen)
        assert sorted(int(t["tcache"]) for t in seen.threads if int(t["tcache"])) == [sound] + len(others) * [
            fmt.UNKNOWN
        ]
