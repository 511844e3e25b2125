# SPDX-License-Identifier: MIT
"""arenadump as people meet it: the table, what it says when it cannot do what was asked, and the files it leaves."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tools import harness
from tools import synthetic_dump as synthetic

from arenascope.wire import dump_records as fmt

USAGE, NO_TARGET, BAD_INPUT, IO = 2, 3, 6, 8


def table(arenadump: harness.Arenadump, target: str | int | Path, **environment: str) -> str:
    return arenadump.check("summary", target, env={"PATH": os.environ["PATH"], **environment})


def test_the_table_of_a_process(arenadump: harness.Arenadump) -> None:
    text = table(arenadump, os.getpid(), LANG="C.UTF-8")
    assert f"(pid {os.getpid()})" in text
    for heading in ("What holds it", "What would come back", "Arenas", "How this was found"):
        assert re.search(f"^{heading}", re.sub(r"The 5 of \d+ arenas", "Arenas", text), re.MULTILINE), heading
    assert "malloc_trim(0)" in text
    assert "\033" not in text  # not a terminal
    assert "█" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert not re.search("[^\n -~]", table(arenadump, os.getpid(), LC_ALL="C"))


def test_the_table_never_says_zero_for_unknown(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["totals"][0]["ledger"]["tcache"] = fmt.UNKNOWN
    made["totals"][0]["ledger"]["malloc_trim"] = fmt.UNKNOWN
    made["meta"][0]["swap"] = fmt.UNKNOWN
    text = table(arenadump, synthetic.write(tmp_path / "dump", made))
    assert re.search(r"^  tcache +unknown", text, re.MULTILINE)
    assert re.search(r"^  malloc_trim\(0\) +unknown", text, re.MULTILINE)
    assert "swap unknown" in text


def test_the_table_never_says_zero_for_little(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["rss"] = 1 << 30
    made["totals"][0]["ledger"]["tcache"] = 4096
    text = table(arenadump, synthetic.write(tmp_path / "dump", made))
    assert re.search(r"^  tcache +4.0 KiB < 0.1 % ", text, re.MULTILINE)
    assert " 0.0 %" not in text


def test_the_table_of_another_malloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What is not glibc's is not said to be nobody's."""
    made = synthetic.sections()
    made["totals"][0]["ledger"]["other_anon"] = 4096
    assert "not malloc's: mmap, GC, JIT" in table(arenadump, synthetic.write(tmp_path / "dump", made))
    made["meta"][0]["malloc_kind"] = fmt.MallocKind.JEMALLOC
    text = table(arenadump, synthetic.write(tmp_path / "other", made))
    assert "another malloc's, own mmap, GC\n" in text
    assert "not malloc's: mmap, GC, JIT" not in text


def test_without_residency_the_table_shows_chunks(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["flags"] = fmt.MetaFlag.HAS_CHUNKS
    for ledger in (made["totals"][0]["ledger"], made["arenas"][0]["ledger"]):
        for row in (*fmt.LEDGER_ROWS, *fmt.ABSENT_ROWS, *fmt.FORECAST_ROWS):
            ledger[row] = fmt.UNKNOWN
    text = table(arenadump, synthetic.write(tmp_path / "dump", made))
    assert re.search(r"^  in use +4.0 KiB #+ +2 chunks", text, re.MULTILINE)
    assert "What would come back" not in text


def test_a_terminal_obeys_no_name(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    strings = synthetic.Strings()
    evil = b"\033[2J\033]0;owned\007 \xc2\x9b31m \xe2\x80\xae \r\n\xff"
    made["meta"][0]["comm"] = made["threads"][0]["name"] = evil[:16]
    for record, field in (("meta", "cmdline"), ("meta", "exe"), ("warnings", "text"), ("mallocs", "version")):
        made[record][0][field] = strings.add(evil)
    made["strings"] = np.frombuffer(bytes(strings.data), made["strings"].dtype)
    path = synthetic.write(tmp_path / "dump", made)
    for locale in ("C", "C.UTF-8"):
        text = table(arenadump, path, LC_ALL=locale)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        assert "\\x1b[2J" in text
        assert "\\xff" in text


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ["explode"],
            USAGE,
            "summary, dump, check, png, chunks, leaks, types, owners, why, sites, profile, trace, trim,",
        ),
        (["explode"], USAGE, "trim, policy, inject or agent (--help)"),
        (["summary"], USAGE, "process id, a core file or a dump file"),
        (["summary", "1", "2"], USAGE, "one target"),
        (["summary", "--chunks", "1"], USAGE, "--chunks"),
        (["summary", "--no-such", "1"], USAGE, "--no-such"),
        (["summary", "--layout-source", "magic", "1"], USAGE, "dwarf, symtab, relocation, decode, scan"),
        (["summary", "--mode", "asleep", "1"], USAGE, "auto, freeze, clone"),
        (["dump", "1"], USAGE, "-o"),
        (["summary", "0"], NO_TARGET, "0"),
        (["summary", "99999999999999999999"], NO_TARGET, "99999999999999999999"),
        (["summary", "/no/such/file"], NO_TARGET, "/no/such/file"),
        (["summary", "/dev/null"], BAD_INPUT, "regular file"),
        (["summary", "/"], BAD_INPUT, "regular file"),
        (["summary", __file__], BAD_INPUT, "neither a dump"),
    ],
)
def test_what_it_says_when_asked_amiss(
    arenadump: harness.Arenadump, arguments: list[str], code: int, says: str
) -> None:
    done = arenadump.run(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("arenadump: ")
    assert says in done.stderr


def test_help_and_version(arenadump: harness.Arenadump) -> None:
    for command in ("summary", "dump", "png", "chunks"):
        assert arenadump.check(command, "--help").startswith(f"arenadump {command} ")
    first, *others = arenadump.check("--version").splitlines()
    assert re.fullmatch(r"arenadump \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(, with changes)?\))?", first)
    assert f"dump format {fmt.MAJOR}.{fmt.MINOR}" in others


def test_chunks_need_chunk_records(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    assert arenadump.check("chunks", synthetic.write(tmp_path / "with", made)).splitlines() == [
        "0x555500000000 1024 in_use",
        "0x555500000400 3072 in_use",
        "0x555500001000 4096 top",
    ]
    made["chunks"] = made["chunks"][:2]
    made["heaps"][0]["chunk_count"] = 2
    done = arenadump.run("chunks", synthetic.write(tmp_path / "torn", made))
    assert done.returncode == BAD_INPUT
    assert "do not cover" in done.stderr


def test_a_dump_is_private_and_replaced_whole(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    path = tmp_path / "x.dump"
    path.write_text("old")
    path.chmod(0o644)
    arenadump.check("dump", os.getpid(), "-o", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes()[:8] == b"ARENASC\n"
    assert arenadump.run("dump", path, "-o", tmp_path / "y").returncode == USAGE
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "fifo").touch()
    (tmp_path / "fifo").unlink()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "no/such/directory", ""):
        done = arenadump.run("dump", os.getpid(), "-o", f"{tmp_path}/{name}")
        assert done.returncode == IO, done.stderr
    assert {entry.name for entry in tmp_path.iterdir()} == {"x.dump", "link", "fifo"}


def test_a_full_disk(arenadump: harness.Arenadump) -> None:
    with Path("/dev/full").open("w") as full:
        command = [str(arenadump.path), "summary", str(os.getpid())]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == IO
    assert "standard output" in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_halfway_leaves_nothing(arenadump: harness.Arenadump, tmp_path: Path, sent: signal.Signals) -> None:
    program = "import sys; kept = [bytearray(600) for _ in range(500000)]; print('.', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdout
        target.stdout.readline()
        ended = 0
        for delay in (0.01, 0.03, 0.06, 0.1, 0.15):
            command = [str(arenadump.path), "dump", str(target.pid), "--chunks", "-o", str(tmp_path / "x")]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as dumping:
                time.sleep(delay)
                dumping.send_signal(sent)
                ended += dumping.wait() == -sent
            assert {entry.name for entry in tmp_path.iterdir()} <= {"x"}
            assert runs_free(target.pid)
        assert ended > 0


def runs_free(pid: int) -> bool:
    """Whether a process runs or sleeps, traced by nobody, once our supervisor has had time to let it go."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status").read_text()
        if re.search(r"^State:\s+[SR]", status, re.MULTILINE) and re.search(r"^TracerPid:\s+0", status, re.MULTILINE):
            return True
        time.sleep(0.01)
    return False
