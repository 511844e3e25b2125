# SPDX-License-Identifier: MIT
"""The memory of Java virtual machines, found from outside, held against what each says of itself."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import cores, harness, programs, tiers
from tools.jvms import JVMS, Jvm, required

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

MIB = 1 << 20
HELD, DIRECT = 60, 120  # MiB
OPTIONS = ("-Xms160m", "-Xmx160m", "-XX:NativeMemoryTracking=summary")
COLLECTORS = ("G1", "Serial", "Parallel")
TRIES = 20
LISTED = 16  # the first release whose metaspace has lists as we know them


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled test program is, for the oldest of the JVMs."""
    folder = tmp_path_factory.mktemp("java")
    source = programs.SOURCES / "java/Holds.java"
    subprocess.run([required().tool("javac"), "-d", folder, source], check=True)
    return folder


@contextmanager
def running(jvm: Jvm, classes: Path, *options: str) -> Iterator[int]:
    command = [jvm.tool("java"), *OPTIONS, *options, "-cp", str(classes), "Holds", str(HELD), str(DIRECT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def part(summary: dict[str, Any], name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [r for r in summary["runtimes"] if (r["runtime"], r["part"]) == ("jvm", name)]
    assert len(found) == 1
    return found[0]


def reserve(heap: dict[str, Any]) -> tuple[int, int]:
    """The range that the evidence names."""
    found = re.search(r"reserved 0x([0-9a-f]+) to 0x([0-9a-f]+)", heap["evidence"])
    assert found
    return int(found[1], 16), int(found[2], 16)


def kernels(pid: int, start: int, end: int) -> int:
    """The kernel's count of resident bytes of a range, which must be whole mappings: those of files left out."""
    total, counts = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+)", line):
            low, high = int(head[1], 16), int(head[2], 16)
            counts = start <= low < end and head[3] == "0"
            assert not counts or high <= end
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def committed_says(jvm: Jvm, pid: int) -> tuple[int, int]:
    """Bytes of heap and of code that are committed, by the JVM's own account of its mappings."""
    text = jvm.ask(pid, "VM.native_memory", "summary", "scale=b")
    heap = re.search(r"Java Heap \(reserved=\d+, committed=(\d+)", text)
    code = re.search(r"Code \(.*?\(mmap: reserved=\d+, committed=(\d+)", text, re.DOTALL)
    assert heap
    assert code
    return int(heap[1]), int(code[1])


def quiet_snapshot(
    arenadump: harness.Arenadump, jvm: Jvm, pid: int, *options: str
) -> tuple[dict[str, Any], int, int, int]:
    """A snapshot between two answers of the JVM that are the same: nothing was committed or written meanwhile."""
    summary = arenadump.summary(pid, *options)
    start, end = reserve(part(summary, "heap"))
    for _ in range(TRIES):
        before = (*committed_says(jvm, pid), kernels(pid, start, end))
        summary = arenadump.summary(pid, *options)
        if before == (*committed_says(jvm, pid), kernels(pid, start, end)):
            return summary, *before
    raise AssertionError(f"the JVM was never quiet in {TRIES} snapshots")


@pytest.mark.parametrize("collector", COLLECTORS)
@pytest.mark.parametrize("jvm", tiers.daily(JVMS, JVMS[:1], "runtimes"), ids=str)
def test_heap_and_code_are_rows_of_their_own(
    arenadump: harness.Arenadump, jvm: Jvm, collector: str, classes: Path
) -> None:
    mode = "clone" if collector == "Serial" else "freeze"
    with running(jvm, classes, f"-XX:+Use{collector}GC") as pid:
        jvm.ask(pid, "GC.run")  # some collectors count at a collection only
        summary, heap_committed, code_committed, resident = quiet_snapshot(arenadump, jvm, pid, f"--mode={mode}")
    heap, code = part(summary, "heap"), part(summary, "code")
    assert heap["found"]
    assert heap["row"] == code["row"] == "managed"
    assert heap["committed"] == heap_committed
    assert heap["resident"] == resident
    assert (HELD - 1) * MIB <= heap["used"] <= (HELD + 20) * MIB  # 64 bytes of each array are its header, and left out
    assert (HELD - 1) * MIB <= heap["resident"] <= heap["committed"]
    assert "say the same" in heap["evidence"]
    assert code["committed"] == code["size"] == code_committed
    metaspace = part(summary, "metaspace")
    assert metaspace["found"] == (jvm.release >= LISTED)
    assert metaspace["row"] == ("managed" if metaspace["found"] else "other_anon")
    assert metaspace["used"] <= metaspace["committed"] <= 32 * MIB
    ledger, rss = summary["ledger"], summary["kernel"]["rss"]
    assert sum(ledger.values()) == rss
    assert summary["snapshot"]["exact"]
    assert ledger["managed"] == sum(r["resident"] for r in summary["runtimes"] if r["row"] == "managed")
    assert ledger["mmapped_in_use"] >= DIRECT * MIB
    assert ledger["other_anon"] < 0.1 * rss


def spaces_say(jvm: Jvm, pid: int) -> list[tuple[str, int, int]]:
    """Name, used and committed bytes of each space, by the JVM's counters."""
    said = dict(re.findall(r"sun\.gc\.generation\.(\S+)=(.*)", jvm.ask(pid, "PerfCounter.print")))
    found = []
    for generation in range(2):
        count = int(said[f"{generation}.spaces"])
        for space in range(count):
            place = f"{generation}.space.{space}"
            name = said[f"{generation}.name" if count == 1 else f"{place}.name"]
            found.append((name.strip('"'), int(said[f"{place}.used"]), int(said[f"{place}.capacity"])))
    return found


@pytest.mark.parametrize("collector", COLLECTORS)
@pytest.mark.parametrize("jvm", tiers.daily(JVMS, JVMS[:1], "runtimes"), ids=str)
def test_spaces_are_the_jvms_own(arenadump: harness.Arenadump, jvm: Jvm, collector: str, classes: Path) -> None:
    with running(jvm, classes, f"-XX:+Use{collector}GC") as pid:
        for _ in range(TRIES):
            says = spaces_say(jvm, pid)
            found = arenadump.summary(pid)
            if says == spaces_say(jvm, pid):
                break
        else:
            raise AssertionError("the JVM's counters never stood still")
    heap = part(found, "heap")
    assert [(each["name"], each["used"], each["committed"]) for each in heap["spaces"]] == says
    assert len(says) > 2
    assert heap["used"] == sum(used for _, used, _ in says)
    assert part(found, "code")["spaces"] == []


def metaspace_says(jvm: Jvm, pid: int) -> int:
    """Bytes of metaspace that are committed, with those for classes, by the JVM's own account."""
    text = jvm.ask(pid, "VM.native_memory", "summary", "scale=b")
    found = re.findall(r"-\s+(?:Class|Metaspace) \([^-]*?\(mmap: reserved=\d+, committed=(\d+)", text)
    assert found
    return sum(map(int, found))


def present(pid: int, start: int, end: int) -> int:
    """The kernel's count of resident bytes of a range."""
    page = os.sysconf("SC_PAGESIZE")
    with Path(f"/proc/{pid}/pagemap").open("rb") as pagemap:
        pagemap.seek(start // page * 8)
        entries = struct.unpack(f"<{(end - start) // page}Q", pagemap.read((end - start) // page * 8))
    return sum(page for entry in entries if entry >> 63)


def metaspace_snapshot(arenadump: harness.Arenadump, jvm: Jvm, pid: int, scratch: Path) -> tuple[Dump, int]:
    """A snapshot between two answers of the JVM that are the same."""
    for _ in range(TRIES):
        before = metaspace_says(jvm, pid)
        arenadump.check("dump", pid, "-o", scratch / "dump")
        if metaspace_says(jvm, pid) == before:
            return Dump(scratch / "dump"), before
    raise AssertionError(f"the JVM was never quiet in {TRIES} snapshots")


@pytest.mark.parametrize("lists", [2, 1])
@pytest.mark.parametrize("jvm", [jvm for jvm in JVMS if jvm.release >= LISTED], ids=str)
def test_metaspace(arenadump: harness.Arenadump, jvm: Jvm, lists: int, classes: Path, tmp_path: Path) -> None:
    """Without shared classes all of them are in metaspace; without compressed pointers to them there is one list."""
    one = ["-XX:-UseCompressedClassPointers"] if lists == 1 else []
    with running(jvm, classes, "-Xshare:off", *one) as pid:
        dump, committed = metaspace_snapshot(arenadump, jvm, pid, tmp_path)
        (index,) = (i for i, r in enumerate(dump.runtimes) if r["kind"] == fmt.RuntimeKind.JVM_METASPACE)
        regions = [region for region in dump.regions if region["runtime"] == index]
        for region in regions:
            start, size = int(region["address"]), int(region["size"])
            assert int(region["resident"]) == present(pid, start, start + size)
    metaspace = dump.runtimes[index]
    assert metaspace["state"] == fmt.RuntimeState.FOUND
    assert dump.string(metaspace["evidence"]).startswith(f"{lists} list")
    assert int(metaspace["committed"]) == sum(int(region["size"]) for region in regions) == committed
    assert 2 * MIB < int(metaspace["used"]) <= sum(int(region["resident"]) for region in regions) <= committed


def test_release_is_the_jvms_own(arenadump: harness.Arenadump, classes: Path) -> None:
    jvm = required()
    with running(jvm, classes) as pid:
        heap = part(arenadump.summary(pid), "heap")
        says = jvm.ask(pid, "VM.version")
    assert heap["releases"] in says
    assert heap["in_use"] is heap["region_size"] is None


def test_counters_that_are_switched_off(arenadump: harness.Arenadump, classes: Path) -> None:
    with running(required(), classes, "-XX:-UsePerfData") as pid:
        summary = arenadump.summary(pid)
    heap = part(summary, "heap")
    assert heap["found"]
    assert heap["used"] is None
    assert heap["committed"] >= HELD * MIB
    assert summary["ledger"]["managed"] >= HELD * MIB


def test_collector_without_a_range_of_its_own(arenadump: harness.Arenadump, classes: Path) -> None:
    """ZGC's heap is shared memory: it stays in that row, and the warning says so."""
    with running(required(), classes, "-XX:+UseZGC") as pid:
        summary = arenadump.summary(pid)
    assert not part(summary, "heap")["found"]
    assert summary["ledger"]["managed"] is None
    assert any("ZGC" in warning["text"] for warning in summary["warnings"])
    known = [bytes_ for bytes_ in summary["ledger"].values() if bytes_ is not None]
    assert sum(known) == summary["kernel"]["rss"]
    assert summary["ledger"]["other_shmem"] >= HELD * MIB


def test_core(arenadump: harness.Arenadump, classes: Path, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with running(required(), classes) as pid:
        live = arenadump.summary(pid)
        core = cores.gcore(pid, tmp_path)
    summary = arenadump.summary(core)
    heap, metaspace = part(summary, "heap"), part(summary, "metaspace")
    assert heap["found"]
    assert metaspace["found"] == part(live, "metaspace")["found"]
    assert metaspace["found"] == (required().release >= LISTED)
    assert reserve(heap) == reserve(part(live, "heap"))
    assert heap["committed"] == part(live, "heap")["committed"]
    assert heap["resident"] is None
