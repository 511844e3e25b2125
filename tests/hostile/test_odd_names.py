# SPDX-License-Identifier: MIT
"""Names of processes that are not UTF-8, or that a terminal would obey, on every surface that shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hostile import test_bad_input
from inspector import test_modes
from profiles import test_profile_entry
from timeline.test_timeline_damage import BOOT, MIB, digest
from tools import harness, odd

from arenascope import private_files, processes
from arenascope.cli.main import main
from arenascope.humanize import json_text, printable, utf8
from arenascope.processes import Identity, all_processes, process_at
from arenascope.timeline.reader import read
from arenascope.timeline.store import Member, Poll, Taken, TimelineStore
from arenascope.watch import cgroup
from arenascope.watch.process_group import OfCommand

NAME = b"\xff\xe2\x82X\x1b[2J"
ARGUMENT = b"\xfe\x1b]0;x\x07"
ESCAPED = r"\xff\xe2\x82X\x1b[2J"
REPLACED = "\ufffd\ufffd\ufffdX\x1b[2J"  # one for each byte, as in a dump


def test_bytes_that_are_not_utf8_are_told_one_by_one() -> None:
    name = NAME.decode("utf-8", "surrogateescape")
    assert printable(name) == ESCAPED
    assert utf8(name) == REPLACED
    assert printable("\u2028\ud800é\ufffd") == "\\u{2028}\\u{d800}é\ufffd"
    assert json.loads(json_text({name: [name]})) == {REPLACED: [REPLACED]}
    json_text({name: "\ud800"}).decode("utf-8")


def test_a_process_keeps_its_name(arenadump: harness.Arenadump, tmp_path: Path, capsysbinary: Any) -> None:
    with odd.called(NAME, ARGUMENT) as pid:
        process = process_at(pid)
        assert process
        assert os.fsencode(process.comm) == NAME
        assert os.fsencode(process.cmdline).split(b" ")[-2] == ARGUMENT
        # By the word that a shell gives us.
        found = OfCommand(os.fsdecode(NAME)).choose(all_processes())
        assert [each.pid for each in found] == [pid]
        path = tmp_path / os.fsdecode(b"time\xffline")
        environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve())}
        words: list[Any] = [sys.executable, "-m", "arenascope", "watch", "--command", NAME, "-o", path]
        done = subprocess.run(
            [*words, "--every=1h", "--for=1ms", "--dump-at=allocated=1G"],
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"\x1b" not in done.stderr
        assert ESCAPED.encode() in done.stderr  # that the process has no profile
    (each,) = read(str(path)).processes
    assert each.comm == REPLACED
    for command in (["timeline", str(path)], ["timeline", str(path), "--json"]):
        assert main(command) == 0
        out = capsysbinary.readouterr().out
        assert b"\x1b[2J" not in out
        out.decode("utf-8")


def test_the_tests_inspect_past_such_a_process() -> None:
    """Those that ask each process of the machine for its name."""
    with odd.called(NAME, ARGUMENT) as pid:
        assert not test_bad_input.is_kernel_thread(pid)
        assert pid not in test_profile_entry.guards()
        assert pid not in test_modes.supervisors(os.getpid())


def test_the_store_takes_any_name(tmp_path: Path) -> None:
    name = NAME.decode("utf-8", "surrogateescape")
    with closing(TimelineStore(str(tmp_path / "timeline"), {"watched": f"command {name}"}, 64 * MIB, BOOT)) as store:
        snapshot = Taken(Member(Identity(1, 1), 1, name, name, name), digest(1), 10**18, {})
        store.add(Poll(10**18, 1, 1, 1, 1, f"process 1 ({name}): gone", [snapshot]))
    held = read(str(tmp_path / "timeline"))
    assert held.about["watched"] == f"command {REPLACED}"
    assert held.polls[0].notes == f"process 1 ({REPLACED}): gone"
    assert (held.processes[0].comm, held.processes[0].exe, held.processes[0].cmdline) == (REPLACED,) * 3


def test_a_page_takes_any_name(tmp_path: Path) -> None:
    private_files.write_page(str(tmp_path / "page"), NAME.decode("utf-8", "surrogateescape"))
    assert (tmp_path / "page").read_text(encoding="utf-8") == REPLACED


def test_lines_of_the_kernels_end_with_a_newline_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount or a cgroup may have another separator of lines in its name, and bytes that are not UTF-8."""
    (tmp_path / "mountinfo").write_bytes(
        b"1 0 0:1 / /odd\x0cpl\race\xe2\x80\xa8here rw - tmpfs none rw\n2 0 0:2 / /cg\xffroup rw - cgroup2 none rw\n"
    )
    (tmp_path / "cgroup").write_bytes("0::/sl\u2028ice\n".encode() + b"")
    monkeypatch.setattr(cgroup, "read_proc", lambda name: processes.read_proc(tmp_path / Path(name).name))
    assert [os.fsencode(each.place) for each in cgroup.mounts()] == [b"/cg\xffroup"]
    monkeypatch.setattr(processes, "PROC", tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cgroup").write_bytes(b"0::/sl\xe2\x80\xa8i\xffce\n")
    assert [os.fsencode(each) for each in processes.cgroups_of(1)] == [b"/sl\xe2\x80\xa8i\xffce"]


def test_a_long_name_of_letters_that_are_not_ascii() -> None:
    """The kernel cuts a name after 15 bytes, in the middle of a letter, too."""
    name = "ärger-äöüß-prozess"
    with odd.called(name.encode(), ARGUMENT) as pid:
        assert [each.pid for each in OfCommand(name).choose(all_processes())] == [pid]
