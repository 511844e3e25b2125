# SPDX-License-Identifier: MIT
"""The row recorder: the memory of arenascope's own recorder, told apart from the program's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tools import cores, harness, kernel
from tools.control import UNSUPPORTED
from tools.profiling import profiling
from tools.stage import Stage, until

from arenascope.rows import BY_NAME
from arenascope.schema import schema

SCHEMA = schema("summary")
TABLES, EVENTS = 96 << 20, 24 << 20
NUMBERS = TABLES // 8 // 4 * 4  # of the words of stacks, which have an eighth of the tables
BUFFERS = EVENTS + NUMBERS  # a size that no other mapping has, as TABLES
RATES = f"pages=1,memory={TABLES >> 20}M,buffers={EVENTS >> 20}M"
WORKS = """
import os, pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
kept = [bytes(1000 + i % 5000) for i in range(20000)]
pathlib.Path("mark").write_text(str(os.getpid()))
signal.sigwait({signal.SIGUSR1})
kept += [bytes(1000 + i % 5000) for i in range(20000)]
pathlib.Path("more").touch()
signal.pause()
"""
# A mapping of its own that begins with what is in the file "head" (A: its own address).
CLAIMS = """
import ctypes, os, pathlib, struct, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
room = libc.mmap(None, SIZE + 8192, 0, 0x22, -1, 0)
at = room + 4096
assert libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(SIZE), 3) == 0
ctypes.memset(at, 1, SIZE)
ctypes.memmove(at, struct.pack("<QQQ", MAGIC, AT, CLAIMED), 24)
pathlib.Path("mark").write_text(str(os.getpid()))
time.sleep(600)
"""


def program(stage: Stage, text: str, **variables: str) -> int:
    (stage.folder / "program.py").write_text(text)
    stage.start([sys.executable, "program.py"], **variables)
    return stage.marked()


def truth(pid: int) -> list[kernel.Mapping]:
    """The mappings that have exactly the sizes that were asked for."""
    return [
        each
        for each in kernel.smaps(pid)
        if each.end - each.start in (TABLES, BUFFERS) and not each.path.startswith("/")
    ]


def take_snapshot(arenadump: harness.Arenadump, pid: int, *options: str) -> tuple[dict[str, Any], list[kernel.Mapping]]:
    """A snapshot, and what the kernel says before and after it: the program may still be on its way to sleep."""
    while True:
        before = truth(pid)
        summary = arenadump.summary(pid, *options)
        if (after := truth(pid)) == before:
            return summary, after


def check(summary: dict[str, Any], mappings: list[kernel.Mapping]) -> None:
    jsonschema.validate(summary, SCHEMA)
    held = sum(each.counts["Rss"] for each in mappings)
    assert summary["ledger"]["recorder"] == held
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
    assert all(arena["ledger"]["recorder"] == 0 for arena in summary["arenas"])
    anonymous = summary["mappings"]["anonymous"]
    assert (
        sum(each["bytes"] for each in anonymous["largest"]) + anonymous["rest"]["bytes"]
        == (summary["ledger"]["other_anon"])
    )
    assert not {each["address"] for each in anonymous["largest"]} & {hex(each.start) for each in mappings}
    answer = [each for each in summary["runtimes"] if each["row"] == "recorder"]
    assert len(answer) == bool(mappings)
    if answer:
        assert (answer[0]["runtime"], answer[0]["part"], answer[0]["found"]) == ("arenascope", "recorder", True)
        assert (answer[0]["regions"], answer[0]["resident"]) == (len(mappings), held)


# --- Every way in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize("kind", ["profile", "record"])
def test_preloaded(stage: Stage, arenadump: harness.Arenadump, mode: str, kind: str) -> None:
    record = {"ARENASCOPE_PROFILE_TRACE": str(stage.folder / "record")} if kind == "record" else {}
    pid = program(stage, WORKS, ARENASCOPE_PROFILE=RATES, **record)
    summary, mappings = take_snapshot(arenadump, pid, f"--mode={mode}")
    assert len(mappings) == 1 + len(record)
    assert all(each.counts["Rss"] > 0 for each in mappings)
    assert summary["snapshot"]["exact"]
    check(summary, mappings)


def test_injected_and_off_again(stage: Stage, arenadump: harness.Arenadump) -> None:
    pid = program(stage, WORKS, LD_PRELOAD="")
    check(arenadump.summary(pid), [])
    dump = stage.folder / "dump"
    with profiling(arenadump, pid, dump, f"--rates={RATES}"):
        os.kill(pid, signal.SIGUSR1)
        until((stage.folder / "more").exists, "it allocates nothing")
        summary, mappings = take_snapshot(arenadump, pid)
        check(summary, mappings)
        assert sum(each.counts["Rss"] for each in mappings) > 1 << 20
    assert arenadump.summary(dump)["ledger"]["recorder"] > 1 << 20
    after = arenadump.summary(pid)
    assert after["ledger"]["recorder"] == 0
    check(after, [])


def test_the_largest(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = {"ARENASCOPE_PROFILE_TRACE": str(stage.folder / "record")}
    pid = program(stage, WORKS, ARENASCOPE_PROFILE="memory=4G,buffers=4G", **record)
    summary = arenadump.summary(pid)
    (answer,) = [each for each in summary["runtimes"] if each["row"] == "recorder"]
    assert (answer["found"], answer["regions"]) == (True, 2)


def test_sizes_that_are_no_whole_pages(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = {"ARENASCOPE_PROFILE_TRACE": str(stage.folder / "record")}
    pid = program(stage, WORKS, ARENASCOPE_PROFILE="pages=1,memory=100000001,buffers=2000001", **record)
    summary = arenadump.summary(pid)
    assert summary["ledger"]["recorder"] > 1 << 16
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
    assert [each["regions"] for each in summary["runtimes"] if each["row"] == "recorder"] == [2]


FORKS = WORKS.replace(
    "signal.sigwait(", "signal.sigwait({signal.SIGUSR1}); child = os.fork(); signal.sigwait(", 1
).replace('pathlib.Path("more").touch()', 'pathlib.Path("more" if child else "child").write_text(str(os.getpid()))')


def test_a_child_gives_its_copy_back(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Its parent's recording does not go on in it: what it has copied of the tables would stay for good."""
    pid = program(stage, FORKS, LD_PRELOAD="")
    with profiling(arenadump, pid, stage.folder / "dump", f"--rates={RATES}"):
        os.kill(pid, signal.SIGUSR1)
        until(lambda: len(children(pid)) == 1, "it does not fork")
        child = children(pid)[0]
        try:
            until(lambda: sum(each.counts["Rss"] for each in truth(child)) == 0, "the copy stays")
            assert arenadump.summary(child)["ledger"]["recorder"] == 0
        finally:
            os.kill(child, signal.SIGKILL)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_core_of_it(stage: Stage, arenadump: harness.Arenadump) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    pid = program(stage, WORKS, ARENASCOPE_PROFILE=RATES)
    found = arenadump.summary(cores.gcore(pid, stage.folder))
    answer = [each for each in found["runtimes"] if each["row"] == "recorder"]
    assert [(each["regions"], each["size"]) for each in answer] == [(1, TABLES)]
    assert found["ledger"]["recorder"] is None  # as all rows: such a core does not say what is resident


# --- Every surface ----------------------------------------------------------------------------------------------------


def test_every_surface_has_it(stage: Stage, arenadump: harness.Arenadump) -> None:
    pid = program(stage, WORKS, ARENASCOPE_PROFILE=RATES)
    row = BY_NAME["recorder"]
    dump = stage.folder / "dump"
    arenadump.check("dump", pid, "-o", dump)
    held = arenadump.summary(dump)["ledger"]["recorder"]
    assert held > 1 << 20
    assert row.meaning in arenadump.check("summary", dump)
    page = stage.folder / "page.html"
    command = [sys.executable, "-m", "arenascope"]
    said = subprocess.run([*command, "summary", str(dump)], capture_output=True, text=True, check=True).stdout
    assert row.meaning in said
    subprocess.run([*command, "report", str(dump), "-o", str(page)], check=True, capture_output=True)
    assert f'data-bytes="{held}"' in page.read_text()
    assert row.meaning.replace("'", "&#39;") in page.read_text()


# --- Claims -----------------------------------------------------------------------------------------------------------


def claimed(stage: Stage, magic: bytes, at: str, size: str) -> int:
    values = {"SIZE": str(TABLES), "MAGIC": str(int.from_bytes(magic, "little")), "AT": at, "CLAIMED": size}
    text = CLAIMS
    for name in ("CLAIMED", "MAGIC", "SIZE", "AT"):
        text = text.replace(name, values[name])
    return program(stage, text, LD_PRELOAD="")


@pytest.mark.parametrize("size", [None, TABLES - 4096, TABLES * 2])
def test_a_head_that_does_not_hold(stage: Stage, arenadump: harness.Arenadump, size: int | None) -> None:
    """It may be another version's: then the row is unknown, and the bytes stay where they were."""
    pid = with_version(stage) if size is None else claimed(stage, b"arepbuf1", "at", str(size))
    summary = arenadump.summary(pid)
    assert summary["ledger"]["recorder"] is None
    assert summary["ledger"]["other_anon"] >= TABLES
    assert any("is not as this arenadump knows it" in json.dumps(each) for each in summary["warnings"])
    known = [held for held in summary["ledger"].values() if held is not None]
    assert sum(known) == summary["kernel"]["rss"]


def test_a_profile_of_another_version(stage: Stage, arenadump: harness.Arenadump) -> None:
    """It is not said that there is none."""
    done = arenadump.run("sites", with_version(stage))
    assert done.returncode == UNSUPPORTED
    assert "has no profile that this arenadump can read" in done.stderr
    assert "of the version that the agent in the process has" in done.stderr


def with_version(stage: Stage) -> int:
    """Tables of another version."""
    magic = int.from_bytes(b"areprof1", "little")
    text = CLAIMS.replace('"<QQQ", MAGIC, AT, CLAIMED), 24', f'"<QIIQQ", {magic}, 99, 8, at, SIZE), 32')
    return program(stage, text.replace("SIZE", str(TABLES)), LD_PRELOAD="")


@pytest.mark.parametrize(("magic", "at"), [(b"arepbuf1", "at + 4096"), (b"arepbuf2", "at")])
def test_what_is_no_head(stage: Stage, arenadump: harness.Arenadump, magic: bytes, at: str) -> None:
    pid = claimed(stage, magic, at, str(TABLES))
    summary = arenadump.summary(pid)
    assert summary["ledger"]["recorder"] == 0
    assert summary["ledger"]["other_anon"] >= TABLES
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
