# SPDX-License-Identifier: MIT
"""Files in memory that a process has open and does not map: no row has them, and the summary says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import command, cores, harness
from tools.running import started

from arenascope.findings import Facts, judge
from arenascope.findings.verdict import to_json
from arenascope.humanize import size
from arenascope.wire.summary import parse

MIB = 1 << 20
# It opens each kind of file in memory, one more of which a page is mapped, and a file of a disk.
PROGRAM = """
import mmap, os, sys, tempfile
MIB = 1 << 20
def fill(fd, mib):
    for _ in range(mib):
        os.write(fd, b"x" * MIB)
    return fd
cache = fill(os.memfd_create("cache"), 40)
again = os.dup(cache)
sparse = os.memfd_create("sparse")
os.ftruncate(sparse, 1 << 30)
os.pwrite(sparse, b"x" * MIB, 512 << 20)
mapped = fill(os.memfd_create("mapped"), 20)
view = mmap.mmap(mapped, 4096)
handle, name = tempfile.mkstemp(dir="/dev/shm", prefix="kept ")
fill(handle, 8)
gone, path = tempfile.mkstemp(dir="/dev/shm", prefix="gone")
os.unlink(path)
fill(gone, 3)
disk, on_disk = tempfile.mkstemp(dir=sys.argv[1])
os.unlink(on_disk)
fill(disk, 30)
print(name, path, flush=True)
print("ready", flush=True)
input()
os.unlink(name)
"""


def names(summary: dict[str, object]) -> dict[str, tuple[int, int]]:
    found = summary["open_files"]
    assert isinstance(found, dict)
    return {each["name"]: (each["bytes"], each["descriptors"]) for each in found["largest"]}


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_what_is_open_and_not_mapped(arenadump: harness.Arenadump, tmp_path: Path, mode: str) -> None:
    with started([sys.executable, "-c", PROGRAM, str(tmp_path)], "ready") as pid:
        summary = arenadump.summary(pid, f"--mode={mode}")
        links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
        dump = tmp_path / "dump"
        arenadump.check("dump", "-o", dump, pid)
    (kept,) = [str(link) for link in links if link.name.startswith("kept ")]
    (gone,) = [str(link) for link in links if link.name.startswith("gone")]
    expected = {
        "/memfd:cache (deleted)": (40 * MIB, 2),
        "/memfd:sparse (deleted)": (MIB, 1),
        kept: (8 * MIB, 1),
        gone: (3 * MIB, 1),
    }
    if subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path]) == b"tmpfs\n":
        expected[next(str(link) for link in links if link.parent == tmp_path)] = (30 * MIB, 1)
    total = sum(bytes_ for bytes_, _ in expected.values())
    assert names(summary) == expected
    assert list(names(summary)) == sorted(expected, key=lambda name: -expected[name][0])
    assert (summary["open_files"]["count"], summary["open_files"]["bytes"]) == (len(expected), total)
    assert summary["open_files"]["descriptors_left"] == 0
    assert sum(bytes_ for bytes_ in summary["ledger"].values() if bytes_) == summary["kernel"]["rss"]
    assert names(json.loads(arenadump.check("summary", "--json", dump))) == expected
    facts = Facts(parse(json.dumps(summary)))
    (finding,) = [each for each in judge(facts).findings if each.rule == "open files in memory"]
    assert finding.sentence.startswith(f"{size(total)} is in {len(expected)} files in memory that the process has open")
    assert finding.evidence.startswith("The largest: /memfd:cache (deleted) (40.0 MiB), ")
    assert [each["share"] for each in to_json(facts) if each["rule"] == finding.rule] == [None]


def test_the_page_and_the_terminal_say_it(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([sys.executable, "-c", PROGRAM, str(tmp_path)], "ready") as pid:
        page = tmp_path / "page.html"
        said = command.here("summary", pid, arenadump=arenadump.path).stdout
        command.here("report", pid, "-o", page, arenadump=arenadump.path)
    assert re.search(r"MiB is in [45] files in memory", " ".join(said.split()))
    assert re.search(r"is in [45] files in memory", page.read_text())


def test_a_core_tells_nothing_of_descriptors(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([sys.executable, "-c", PROGRAM, str(tmp_path)], "ready") as pid:
        core = cores.gcore(pid, tmp_path)
    assert arenadump.summary(core)["open_files"] is None


MANY = """
import os, resource
most = 17_000
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
first = os.memfd_create("first")
os.write(first, b"x" * (4 << 20))
while True:
    try:
        last = os.dup(0)
    except OSError:
        break
os.close(last)
last = os.memfd_create("last")
os.write(last, b"x" * (4 << 20))
print("ready", flush=True)
input()
"""


def test_a_limit_of_descriptors_is_said(arenadump: harness.Arenadump) -> None:
    """The last one lies beyond it: what is left out is counted, and the finding is no exact number."""
    with started([sys.executable, "-c", MANY], "ready") as pid:
        open_ = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        summary = arenadump.summary(pid)
    assert open_ == 17_000
    assert names(summary) == {"/memfd:first (deleted)": (4 * MIB, 1)}
    assert summary["open_files"]["descriptors_left"] == open_ - 16_384
    assert any(f"the last {open_ - 16_384} were not searched" in each["text"] for each in summary["warnings"])
    (finding,) = [
        each for each in judge(Facts(parse(json.dumps(summary)))).findings if each.rule == "open files in memory"
    ]
    assert finding.estimate == "616 more descriptors were not searched"
