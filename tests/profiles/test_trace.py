# SPDX-License-Identifier: MIT
"""The trace: a program that writes down each of its own operations, and what the record has of them."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from timeline.test_dump_folder import disk
from tools import debian, emulated, harness, odd, programs
from tools.stage import Stage, until

KINDS = ["free", "malloc", "calloc", "aligned", "resized", "moved_from", "moved_to"]
FREES = {"free", "moved_from"}
HEAD = struct.Struct("<QQ16Q")
OPERATIONS = 30_000
UNSUPPORTED = 5
FUTEX = 202 if os.uname().machine == "x86_64" else 98  # the system call
REUSE = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"  # an address goes from thread to thread at once

WORKER_SIZE = 777
WITH_IDLE_THREADS = """
import threading, time
barrier, never = threading.Barrier(21), threading.Event()
def idle():
    kept = bytes(500)
    barrier.wait()
    never.wait()
def work():
    global made
    for made in range(100, 8001, 100):
        for _ in range(100):
            bytes(744)
        time.sleep(0.02)
for _ in range(20):
    threading.Thread(target=idle, daemon=True).start()
barrier.wait()
worker = threading.Thread(target=work)
worker.start()
worker.join()
print(made)
"""

# What a thread did, in order: the function, the address, and the size of an allocation.
Operations = list[tuple[str, int, int]]


@pytest.fixture(scope="session")
def recorded() -> Path:
    return programs.build_portable("recorded")


@dataclass
class Run:
    """A program that has been run, the record of it, and its own log."""

    arenadump: harness.Arenadump
    record: Path
    log: Path

    def trace_json(self) -> dict[str, Any]:
        command = [str(self.arenadump.path), "trace", str(self.record), "--json"]
        trace_json: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return trace_json

    def counts(self) -> list[int]:
        """How many operations of each thread are in the log."""
        with self.log.open("rb") as file:
            return list(HEAD.unpack(file.read(HEAD.size))[2:])

    def truth(self) -> list[Operations]:
        """Returns the operations of each thread."""
        data = self.log.read_bytes()
        threads, room, *counts = HEAD.unpack_from(data)
        found = []
        for i in range(threads):
            words = struct.unpack_from(f"<{2 * counts[i]}Q", data, HEAD.size + i * room * 16)
            pairs = zip(words[::2], words[1::2], strict=True)
            found.append([(KINDS[word >> 56], address, word & (1 << 56) - 1) for address, word in pairs])
        return found

    def events(self) -> list[tuple[int, tuple[str, int, int]]]:
        """Returns the events of all threads by their times, without those that are not the program's own."""
        command = [str(self.arenadump.path), "trace", str(self.record), "--events"]
        text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        others: set[int] = set()
        events = []
        for line in text.splitlines():
            _, thread, kind, address, *more = line.split()
            place, size = int(address, 16), int(more[0]) if more else 0
            if kind not in FREES:
                (others.discard if size % 16 == 5 else others.add)(place)
            if place not in others:
                events.append((int(thread), (kind, place, size)))
            elif kind in FREES:
                others.discard(place)
        return events

    def by_thread(self) -> list[Operations]:
        threads: dict[int, Operations] = {}
        for thread, event in self.events():
            threads.setdefault(thread, []).append(event)
        return list(threads.values())


def start(
    stage: Stage, program: list[str], arenadump: harness.Arenadump, *words: str, **variables: str
) -> tuple[Run, subprocess.Popen[bytes]]:
    made = Run(arenadump, stage.folder / "record", stage.folder / "own")
    with made.log.open("wb") as file:
        file.truncate(64 << 20)
    return made, stage.start([*program, str(made.log), *words], ARENASCOPE_PROFILE_TRACE=str(made.record), **variables)


def run(stage: Stage, program: list[str], arenadump: harness.Arenadump, *words: str, **variables: str) -> Run:
    made, process = start(stage, program, arenadump, *words, **variables)
    assert process.wait(120) == 0, stage.log()
    return made


def in_order(operations: list[Operations]) -> list[Operations]:
    return sorted(operations, key=lambda one: (len(one), one[:20]))


def check_addresses(events: list[tuple[int, tuple[str, int, int]]]) -> None:
    """Each block begins where none is, and ends where one is."""
    alive: set[int] = set()
    for _, (kind, address, _) in events:
        if kind in FREES:
            assert address in alive
            alive.remove(address)
        elif kind == "resized":
            assert address in alive
        else:
            assert address not in alive
            alive.add(address)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("tunables", ["", REUSE])
def test_every_operation_is_in_the_record(  # noqa: PLR0917 - fixtures
    stage: Stage, libc: debian.Libc, recorded: Path, arenadump: harness.Arenadump, threads: int, tunables: str
) -> None:
    made = run(stage, libc.command(recorded), arenadump, str(threads), str(OPERATIONS), GLIBC_TUNABLES=tunables)
    trace_json = made.trace_json()
    assert (
        trace_json["ended"],
        trace_json["torn_bytes"],
        trace_json["lost_allocations"],
        trace_json["lost_frees"],
    ) == ("exit", 0, 0, 0)
    assert (trace_json["unknown_frees"], trace_json["replaced"], trace_json["missed"], trace_json["backwards"]) == (
        0,
        0,
        0,
        0,
    )
    truth = made.truth()
    assert in_order(made.by_thread()) == in_order(truth)
    check_addresses(made.events())
    kinds = Counter(kind for operations in truth for kind, _, _ in operations)
    assert all(kinds[kind] > 100 for kind in KINDS)


@pytest.mark.nightly("emulation")
def test_every_operation_with_tagged_memory(stage: Stage, arenadump: harness.Arenadump) -> None:
    """The program runs on aarch64. A block that stays where it is gets another tag."""
    made = Run(arenadump, stage.folder / "record", stage.folder / "own")
    with made.log.open("wb") as file:
        file.truncate(64 << 20)
    variables = {"GLIBC_TUNABLES": "glibc.mem.tagging=3", "QEMU_CPU": "max"}
    command = debian.libc("bookworm", "arm64").command(programs.build_portable("recorded", "arm64"))
    command += [str(made.log), "2", str(OPERATIONS // 10)]
    process = emulated.start(stage, command, ARENASCOPE_PROFILE_TRACE=str(made.record), **variables)
    assert process.wait(300) == 0, stage.log()
    truth = made.truth()
    assert in_order(made.by_thread()) == in_order(truth)
    assert {kind for operations in truth for kind, _, _ in operations} == set(KINDS)


def check_beginning(made: Run) -> None:
    """What each thread has in the record is how it began: nothing is missing in between."""
    truth = {tuple(operations[:3]): operations for operations in made.truth() if len(operations) > 3}
    for operations in made.by_thread():
        if len(operations) > 3:
            all_of_them = truth[tuple(operations[:3])]
            # The last one may be in the record and not yet in the log.
            assert operations[:-2] == all_of_them[: len(operations) - 2]


@pytest.mark.parametrize("after", [0.05, 0.35, 0.8])
def test_what_was_written_survives_a_kill(
    stage: Stage, recorded: Path, arenadump: harness.Arenadump, after: float
) -> None:
    made, process = start(stage, [str(recorded)], arenadump, "3", "0")
    until(lambda: all(made.counts()[:3]), "the program did not begin")
    if after > 0.3:
        until(lambda: made.trace_json()["events"], "nothing is written")
    time.sleep(after + random.random() / 10)
    process.kill()
    process.wait()
    trace_json = made.trace_json()
    assert trace_json["ended"] is None
    check_beginning(made)
    if after > 0.3:
        assert trace_json["events"] > 0


def test_a_torn_record_is_read_up_to_its_last_whole_block(
    stage: Stage, recorded: Path, arenadump: harness.Arenadump
) -> None:
    made = run(stage, [str(recorded)], arenadump, "2", "3000")
    whole = made.record.read_bytes()
    made.record.chmod(0o600)
    for length in random.sample(range(1200, len(whole)), 15):
        made.record.write_bytes(whole[:length])
        trace_json = made.trace_json()
        assert trace_json["ended"] is None
        assert 0 <= trace_json["torn_bytes"] < 64 << 10
        check_beginning(made)
        made.record.write_bytes(whole[:length] + bytes([whole[length] ^ 0x40]) + whole[length + 1 :])
        assert made.trace_json()["torn_bytes"] > 0
        check_beginning(made)
    for words in ([], ["--events"]):
        made.record.write_bytes(whole[:600])
        done = subprocess.run(
            [str(arenadump.path), "trace", str(made.record), *words], capture_output=True, check=False
        )
        assert done.returncode == 6
        assert b"is not a record" in done.stderr


def test_a_full_disk_ends_the_record_and_not_the_program(
    stage: Stage, recorded: Path, arenadump: harness.Arenadump
) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = Run(arenadump, stage.folder / "record", stage.folder / "own")
    with made.log.open("wb") as file:
        file.truncate(64 << 20)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limit[1]))
        process = stage.start(
            [str(recorded), str(made.log), "2", str(OPERATIONS)],
            ARENASCOPE_PROFILE_TRACE=str(made.record),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert process.wait(120) == 0, stage.log()
    assert "ends here" in stage.log()
    trace_json = made.trace_json()
    assert (trace_json["ended"], trace_json["torn_bytes"]) == ("no_space", 0)
    assert 0 < trace_json["events"] < sum(map(len, made.truth()))
    assert made.record.stat().st_size <= 300_000
    check_beginning(made)


def test_a_twentieth_of_the_disk_stays_free(stage: Stage, recorded: Path, arenadump: harness.Arenadump) -> None:
    """The program writes to the same disk, and is not to fail for want of what a record took."""
    with disk(stage.folder / "disk", "size=1m") as place:
        made = Run(arenadump, place / "record", stage.folder / "own")
        with made.log.open("wb") as file:
            file.truncate(64 << 20)
        process = stage.start(
            [str(recorded), str(made.log), "2", str(4 * OPERATIONS)], ARENASCOPE_PROFILE_TRACE=str(made.record)
        )
        assert process.wait(120) == 0, stage.log()
        room = os.statvfs(place)
        assert room.f_blocks // 20 - 1 <= room.f_bavail < room.f_blocks // 2
        assert "a twentieth of its file system stays free" in stage.log()
        trace_json = made.trace_json()
        assert (trace_json["ended"], trace_json["torn_bytes"]) == ("no_space", 0)
        assert 0 < trace_json["events"] < sum(map(len, made.truth()))
        check_beginning(made)


def test_a_disk_that_is_full_at_the_start(stage: Stage, arenadump: harness.Arenadump) -> None:
    """There is no record, and not a file that is none; the program runs as it is."""
    with disk(stage.folder / "disk", "size=1m") as place:
        (place / "filler").write_bytes(bytes(1020 << 10))
        process = stage.start(["sh", "-c", "echo it runs; exit 3"], ARENASCOPE_PROFILE_TRACE=str(place / "record"))
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, b"it runs\n")
        assert [path.name for path in place.iterdir()] == ["filler"]
        assert re.search("ARENASCOPE_PROFILE_TRACE: .*/record: .*a twentieth of its file system", stage.log())


def test_no_profile_is_left_where_a_record_failed(stage: Stage, arenadump: harness.Arenadump) -> None:
    process = stage.start(["sleep", "600"], ARENASCOPE_PROFILE_TRACE="missing/record")
    stage.logged("ARENASCOPE_PROFILE_TRACE: missing/record: no such file or directory")
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "no sleep")
    done = arenadump.run("sites", process.pid)
    assert done.returncode == UNSUPPORTED
    assert "no profile" in done.stderr


@pytest.fixture(scope="session")
def bare_fork() -> Path:
    return programs.build_portable("bare_fork")


def test_a_child_without_the_handlers_of_fork(stage: Stage, libc: debian.Libc, bare_fork: Path) -> None:
    """Its events fill a buffer that it has, and no other: 2 million would take 30 MiB."""
    if libc.release < (2, 34):
        return  # without _Fork()
    process = stage.start(libc.command(bare_fork), ARENASCOPE_PROFILE_TRACE="record")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert int(out) < 4096


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def waits_for_a_futex(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(FUTEX)
    except (FileNotFoundError, ProcessLookupError):
        return False


@odd.needs_root
def test_a_child_that_has_its_parents_pid_ends_at_once(stage: Stage, bare_fork: Path) -> None:
    """In a namespace of its own: it has no writer's thread to wait for. Its parent, whose record it is, has one."""
    process = stage.start([str(bare_fork), "nested"], ARENASCOPE_PROFILE_TRACE="record")
    while process.poll() is None:
        for parent in children(process.pid):
            assert not any(waits_for_a_futex(child) for child in children(parent))
    assert process.returncode == 0


def test_what_is_lost_under_overload_is_counted(stage: Stage, recorded: Path, arenadump: harness.Arenadump) -> None:
    made = run(stage, [str(recorded)], arenadump, "2", "200000", "starve", ARENASCOPE_PROFILE="pages=64,buffers=1M")
    trace_json = made.trace_json()
    truth = made.truth()
    assert trace_json["lost_allocations"] > 0
    assert trace_json["lost_frees"] > 0
    kinds = Counter(kind for operations in truth for kind, _, _ in operations)
    frees = sum(kinds[kind] for kind in FREES)
    # The program's libraries have some of their own, which are not in its log.
    assert 0 <= trace_json["events"] + trace_json["lost_allocations"] + trace_json["lost_frees"] - kinds.total() < 100
    assert 0 <= trace_json["frees"] - trace_json["resized"] + trace_json["lost_frees"] - frees < 100


def test_threads_that_are_idle_keep_no_buffer(stage: Stage, arenadump: harness.Arenadump) -> None:
    """1 MiB is 15 buffers: 20 threads that have allocated once do not take them from one that goes on."""
    record = stage.folder / "record"
    process = stage.start(
        [sys.executable, "-I", "-S", "-c", WITH_IDLE_THREADS],
        ARENASCOPE_PROFILE_TRACE=str(record),
        ARENASCOPE_PROFILE="pages=64,buffers=1M",
        PYTHONMALLOC="malloc",
    )
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    command = [str(arenadump.path), "trace", str(record), "--events"]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    by = Counter(words[1] for words in map(str.split, lines) if words[2] == "calloc" and words[4] == str(WORKER_SIZE))
    assert len(by) == 1, "it is one thread"
    assert int(out) / 2 < by.total() <= int(out)
    made = Run(arenadump, record, record)
    assert made.trace_json()["torn_bytes"] == 0


def test_each_process_has_a_record_of_its_own(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = stage.folder / "record"
    record.with_name("precious").write_bytes(b"mine")
    process = stage.start(["sh", "-c", "env true; env false; exit 0"], ARENASCOPE_PROFILE_TRACE=str(record))
    assert process.wait(60) == 0
    found = sorted(stage.folder.glob("record*"))
    trace_json = [Run(arenadump, path, path).trace_json() for path in found]
    assert [path.stat().st_mode & 0o777 for path in found] == [0o600] * len(found)
    assert Path(trace_json[0]["program"]).name in {"sh", "dash", "bash"}
    assert {Path(one["program"]).name for one in trace_json} >= {"true", "false"}
    again = stage.start(["true"], ARENASCOPE_PROFILE_TRACE=str(stage.folder / "precious"))
    assert again.wait(60) == 0
    assert record.with_name("precious").read_bytes() == b"mine"
    (stage.folder / "link").symlink_to(stage.folder / "elsewhere")
    again = stage.start(["true"], ARENASCOPE_PROFILE_TRACE=str(stage.folder / "link"))
    assert again.wait(60) == 0
    assert not (stage.folder / "elsewhere").exists()


def test_a_child_of_fork_is_not_recorded_and_goes_on(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = stage.folder / "record"
    program = (
        "import os\n"
        "kept = [bytearray(1000 + i) for i in range(2000)]\n"
        "pid = os.fork()\n"
        "more = [bytearray(3000 + i) for i in range(2000)]\n"
        "if pid == 0: raise SystemExit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\n"
    )
    process = stage.start([os.path.realpath(sys.executable), "-c", program], ARENASCOPE_PROFILE_TRACE=str(record))
    assert process.wait(60) == 0, stage.log()
    assert [path.name for path in stage.folder.glob("record*")] == ["record"]
    trace_json = Run(arenadump, record, record).trace_json()
    assert (trace_json["ended"], trace_json["replaced"], trace_json["unknown_frees"], trace_json["missed"]) == (
        "exit",
        0,
        0,
        0,
    )
    assert trace_json["pid"] == process.pid
