# SPDX-License-Identifier: MIT
"""A core tells what its process would have told: the same chunks, and where the kernel wrote it, the same rows."""

from __future__ import annotations

import html
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import fetched
from tools import cores, debian, harness, odd

from arenascope.humanize import share
from arenascope.humanize import size as readable
from arenascope.wire.dump import Dump
from arenascope.wire.snapshot import TakenDump

pytestmark = pytest.mark.usefixtures("pages_stay")

OPTIONS = ("--threads", "4", "--seed", "6", "--operations", "12000", "--slots", "2048", "--biggest-log2", "19")
CLASSES = ("in_use", "tcache", "fastbin", "binned", "top", "metadata", "unknown")
MALLOC_ROWS = (
    *("in_use", "tcache", "fastbin", "stranded", "releasable", "withheld", "metadata"),
    *("mmapped_in_use", "mmapped_slack", "unknown"),
)
OTHER_ROWS = ("other_file", "other_anon", "other_shmem", "stacks", "file_copies")


@dataclass
class Died:
    """A process that died, what was seen of it just before, and the cores of it."""

    libc: debian.Libc
    chunks: harness.Chunks
    summary: dict[str, Any]
    kernel: Path
    gcore: Path
    far: Path  # written by the kernel, too, of another run: its libc is not on this machine any more
    far_chunks: harness.Chunks


@pytest.fixture(scope="module")
def died(
    libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Died]:
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    near, far = tmp_path_factory.mktemp("near"), tmp_path_factory.mktemp("far")
    with harness.Churn(harness.under(libc, churn_program, *OPTIONS), directory=near, core=True) as program:
        program.ask("go")
        chunks, summary = arenadump.chunks(program.pid), arenadump.summary(program.pid)
        by_gdb = cores.gcore(program.pid, near)
        by_kernel = cores.abort(program, near)
    elsewhere = far / "lib"
    shutil.copytree(libc.directory, elsewhere, symlinks=True, ignore=shutil.ignore_patterns("gconv"))
    command = [str(elsewhere / libc.loader.name), "--library-path", str(elsewhere), str(churn_program), *OPTIONS]
    with harness.Churn(command, directory=far, core=True) as program:
        program.ask("go")
        far_chunks = arenadump.chunks(program.pid)
        far_core = cores.abort(program, far)
    shutil.rmtree(elsewhere)
    yield Died(libc, chunks, summary, by_kernel, by_gdb, far_core, far_chunks)
    for directory in (near, far):  # cores are large
        shutil.rmtree(directory)


def check_chunks(found: harness.Chunks, expected: harness.Chunks) -> None:
    for name in CLASSES:
        assert found[name] == expected[name], name
    assert found.mmapped == expected.mmapped


def codes(summary: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in summary["warnings"]]


def check_rows_unknown(summary: dict[str, Any]) -> None:
    """Null, never 0: all that depends on residency."""
    for part in ("ledger", "absent", "forecast", "kernel"):
        assert set(summary[part].values()) == {None}, part
        for arena in summary["arenas"] if part != "kernel" else []:
            assert arena[part] == {row: 0 if row in OTHER_ROWS else None for row in arena[part]}, part
    assert not summary["snapshot"]["residency_known"]
    assert not summary["snapshot"]["exact"]


def test_the_kernels_core_has_the_same_chunks(died: Died, arenadump: harness.Arenadump) -> None:
    check_chunks(arenadump.chunks(died.kernel), died.chunks)


def test_the_kernels_core_has_the_same_rows(died: Died, arenadump: harness.Arenadump) -> None:
    """But for what a core cannot tell: the rest of Rss."""
    before, after = died.summary, arenadump.summary(died.kernel)
    assert after["target"]["kind"] == "core"
    assert after["target"]["pid"] == before["target"]["pid"]
    assert after["target"]["threads"] == before["target"]["threads"]
    assert after["snapshot"]["residency_known"]
    assert codes(after) == ["residency"]  # which says that swapped pages would count as resident
    for row in MALLOC_ROWS:
        assert after["ledger"][row] == before["ledger"][row], row
    assert [after["ledger"][row] for row in OTHER_ROWS] == [None] * len(OTHER_ROWS)
    assert set(after["kernel"].values()) == {None}
    for part in ("absent", "forecast", "chunks", "pins", "tunables"):
        assert after[part] == before[part], part
    for arena, was in zip(after["arenas"], before["arenas"]):
        for part in ("address", "system_mem", "attached_threads", "ledger", "absent", "forecast", "chunks"):
            assert arena[part] == was[part], part
        assert {thread["tid"] for thread in arena["threads"]} == {thread["tid"] for thread in was["threads"]}
    assert len(after["arenas"]) == len(before["arenas"])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the register of aarch64 is not lost")
@pytest.mark.parametrize("survivor", [0, 1])
def test_threads_whose_pointers_the_kernel_lost(
    died: Died, arenadump: harness.Arenadump, tmp_path: Path, survivor: int
) -> None:
    """The thread that dumped comes first: the main thread, here. Had another, the main thread's were lost too."""
    before = arenadump.summary(died.kernel)
    core = cores.copy_with_holes(died.kernel, tmp_path)
    assert cores.lose_thread_pointers(core, survivor) >= 3
    after = arenadump.summary(core)
    for part in ("warnings", "arenas", "ledger", "chunks", "forecast"):
        assert after[part] == before[part], part
    assert sum(len(arena["threads"]) for arena in after["arenas"]) >= 4
    core.unlink()


def test_gdbs_core_has_the_same_chunks_and_no_rows(died: Died, arenadump: harness.Arenadump) -> None:
    check_chunks(arenadump.chunks(died.gcore), died.chunks)
    summary = arenadump.summary(died.gcore)
    check_rows_unknown(summary)
    # Where a stack's guard is no mapping of its own (2.42 and later, Linux 6.13 and later) gdb seems to fail to read
    # beyond it, and leaves zeros where the threads' own data was. Tcaches are then found by structure, which is said.
    assert set(codes(summary)) <= ({"residency", "tcache"} if died.libc.release >= (2, 42) else {"residency"})
    for part in ("chunks", "tunables"):
        assert summary[part] == died.summary[part], part
    assert "residency" in arenadump.check("summary", died.gcore)


def test_far_from_its_libc(died: Died, arenadump: harness.Arenadump) -> None:
    """Memory alone must do; or, where debug information is installed by build-id, that and memory."""
    for options in ((), ("--layout-source", "scan")):
        check_chunks(arenadump.chunks(died.far, *options), died.far_chunks)
        summary = arenadump.summary(died.far, *options)
        assert summary["allocator"]["malloc"] == "glibc"
        assert summary["mallocs"][0]["proven"]
        assert codes(summary) == ["residency"]
    assert summary["allocator"]["layout_source"] == "scan"


def test_another_build_in_its_libcs_place(died: Died, arenadump: harness.Arenadump) -> None:
    """A file of the right name is not believed for its name."""
    before = arenadump.summary(died.far)
    place = Path(before["mallocs"][0]["path"])
    assert place.name.startswith("libc")
    place.parent.mkdir()
    try:
        # The file is of the next suite; and no younger than the core, so that its time does not give it away.
        suites = list(debian.SUITES)
        other = fetched(suites[(suites.index(died.libc.suite) + 1) % len(suites)])
        shutil.copy(other.directory / "libc.so.6", place)
        os.utime(place, (0, 0))
        check_chunks(arenadump.chunks(died.far), died.far_chunks)
    finally:
        shutil.rmtree(place.parent)


def test_a_thread_that_died_in_malloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """With one thread no lock is ever taken: that the heap may be half changed, only the place tells where it died."""
    with cores.written_here():
        subprocess.run(["prlimit", "--core=unlimited", str(odd.build("odd/inside"))], cwd=tmp_path, check=False)
    (core,) = tmp_path.iterdir()
    summary = arenadump.summary(core)
    assert summary["chunks"]["in_use"]["count"] >= 500
    assert codes(summary) == ["residency", "locked"]


@pytest.mark.parametrize("how", ["tar -S", "cp --sparse=never", "cp --sparse=always"])
def test_a_copy(died: Died, arenadump: harness.Arenadump, tmp_path: Path, how: str) -> None:
    """Lost holes are unknown residency; holes that were made of zeros are suspected."""
    copy = cores.copy_with_holes(died.kernel, tmp_path) if how == "tar -S" else tmp_path / died.kernel.name
    if how != "tar -S":
        subprocess.run([*how.split(), died.kernel, copy], check=True)
    summary = arenadump.summary(copy)
    assert summary["chunks"] == died.summary["chunks"]
    if how == "tar -S":
        assert summary["ledger"] == arenadump.summary(died.kernel)["ledger"]
    elif how == "cp --sparse=never":
        check_rows_unknown(summary)
        assert "no holes" in summary["warnings"][0]["text"]
    else:
        assert "no page of zeros" in summary["warnings"][0]["text"]
    copy.unlink()


def test_a_truncated_core(died: Died, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Cut anywhere, it ends with what is left, or with exit code 6; never with a chunk that was not there."""
    held = {**died.chunks["in_use"], **died.chunks["tcache"], **died.chunks["fastbin"], **died.chunks["metadata"]}
    cut = cores.copy_with_holes(died.kernel, tmp_path)
    quick = ("--layout-source", "relocation,decode,scan")  # reading debug information forty times takes seconds
    length = cut.stat().st_size
    shares = [length * i // 16 // 4096 * 4096 + 1000 for i in range(16)]
    seen = set()
    for size in sorted({16, 64, 500, 3000, 5000, 9000, *shares, length - 4096, length - 1}, reverse=True):
        os.truncate(cut, size)
        done = arenadump.run("summary", "--json", *quick, cut)
        seen.add(done.returncode)
        if done.returncode != 0:
            assert done.returncode == 6, done.stderr
            assert size < 16384, done.stderr
            continue
        summary = json.loads(done.stdout)
        assert any("truncated" in warning["text"] for warning in summary["warnings"])
        assert not summary["snapshot"]["exact"]
        for row in MALLOC_ROWS:
            found, whole = summary["ledger"][row], died.summary["ledger"][row]
            assert found is None or summary["arenas"], f"{row} at {size}"
            assert found in (None, whole) or len(summary["warnings"]) > 1, f"{row} at {size}"
        listed = arenadump.run("chunks", *quick, cut)
        if listed.returncode == 0:
            in_use = {int(line.split()[0], 16) for line in listed.stdout.splitlines() if " in_use" in line}
            assert in_use <= held.keys(), f"cut at {size}"
    assert seen == {0, 6}
    cut.unlink()


def terminal(core: Path, arenadump: harness.Arenadump) -> str:
    command = [sys.executable, "-m", "arenascope", "summary", str(core)]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "COLUMNS": "160"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def page(core: Path, arenadump: harness.Arenadump, folder: Path) -> str:
    """The words of the report."""
    # Imported here: the report draws with matplotlib, and the tests of the cores themselves run where there is none.
    from arenascope.report.page.html import render  # noqa: PLC0415
    from arenascope.report.page.model import build  # noqa: PLC0415

    arenadump.check("dump", "-o", folder / "dump", core)
    written = render(build([TakenDump(Dump(folder / "dump"), from_dump=True)]))
    plain = re.sub(r"<(script|style|svg).*?</\1>|<[^>]+>", " ", written, flags=re.DOTALL)
    return " ".join(html.unescape(plain).split())


def test_shares_are_of_what_is_known(died: Died, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Rss is not in a core. Both terminals and the page say so, and have the same shares."""
    ledger = arenadump.summary(died.kernel)["ledger"]
    known = sum(held for held in ledger.values() if held is not None)
    expected = share(ledger["in_use"], known)
    for text in (terminal(died.kernel, arenadump), arenadump.check("summary", died.kernel)):
        assert f"Rss unknown ({readable(known)} of it known)" in text
        assert re.search(
            rf"^ *in use +{re.escape(readable(ledger['in_use']))} +{re.escape(expected)}", text, re.MULTILINE
        )
        assert "stood still" not in text
    said = page(died.kernel, arenadump, tmp_path)
    assert "bytes of known" in said
    assert f"the application holds it {readable(ledger['in_use'])} {expected}" in said


def test_arenas_of_gdbs_core(died: Died, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What chunks tell of each is shown where residency is not known."""
    arenas = arenadump.summary(died.gcore)["arenas"]
    main = next(arena for arena in arenas if arena["main"])
    cached = main["chunks"]["tcache"]["bytes"] + main["chunks"]["fastbin"]["bytes"]
    tallies = [main["chunks"]["in_use"]["bytes"], cached]
    tallies += [main["chunks"]["binned"]["bytes"], main["chunks"]["top"]["bytes"], main["system_mem"]]
    cells = [readable(number) for number in tallies]
    text = terminal(died.gcore, arenadump)
    table = text.partition("arenas with the most free memory")[2] or text.partition("\nArenas\n")[2]
    table = table.partition("Pins")[0]
    assert re.search(r"in use +cached +in bins +top +system_mem", table)
    assert "unknown" not in table
    if re.search(r"^main arena ", table, re.MULTILINE):
        assert re.search(r"^main arena +\S+ +\d+ +" + r" +".join(map(re.escape, cells)), table, re.MULTILINE), table
    assert "stood still" not in text
    said = page(died.gcore, arenadump, tmp_path)
    assert " ".join(cells) in said


def test_python_says_the_same(died: Died, arenadump: harness.Arenadump) -> None:
    command = [sys.executable, "-m", "arenascope", "summary", "--json", str(died.kernel)]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    ours, theirs = json.loads(done.stdout), arenadump.summary(died.kernel)
    for summary in (ours, theirs):
        assert summary.pop("findings")
        del summary["snapshot"]["time"], summary["snapshot"]["read_ms"]
    assert ours == theirs
