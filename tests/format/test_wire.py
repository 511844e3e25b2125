# SPDX-License-Identifier: MIT
"""How often a command of Python's starts arenadump, and what a dump tells it without another start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tools import command, harness, programs
from tools import synthetic_dump as synthetic

from arenascope import __version__
from arenascope.cli.watch import group_of
from arenascope.errors import ArenascopeError, Code, DumpError
from arenascope.exporter.poller import Poller
from arenascope.timeline.reader import read
from arenascope.timeline.store import TimelineStore
from arenascope.watch.loop import Watch, boot_id
from arenascope.wire import commands
from arenascope.wire.arenadump_server import serving
from arenascope.wire.dump import Dump
from arenascope.wire.dump_records import SECTIONS
from arenascope.wire.how import How
from arenascope.wire.snapshot import take_snapshot
from arenascope.wire.summary import document_of


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Churn]:
    folder = tmp_path_factory.mktemp("churn")
    with harness.Churn([str(programs.build("churn", "-lpthread"))], directory=folder) as made:
        made.ask("go")
        yield made


@pytest.fixture
def starts(arenadump: harness.Arenadump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The commands of arenadump that were started since the last call."""
    log, wrapper = tmp_path / "log", tmp_path / "arenadump"
    wrapper.write_text(f"#!/bin/sh\necho \"$1\" >> '{log}'\nexec '{arenadump.path}' \"$@\"\n")
    wrapper.chmod(0o700)
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(wrapper))

    def since() -> list[str]:
        found = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    return since


def test_each_target_is_one_start(churn: harness.Churn, tmp_path: Path, starts: Callable[[], list[str]]) -> None:
    pid, dump, other = str(churn.pid), tmp_path / "dump", tmp_path / "other"
    page, timeline = tmp_path / "page", tmp_path / "timeline"
    cases: list[tuple[list[str | Path], list[str]]] = [
        (["summary", pid], ["summary"]),
        (["dump", pid, "-o", dump], ["dump"]),
        (["dump", pid, "-o", other], ["dump"]),
        (["report", pid, "-o", page], ["dump"]),
        (["report", dump, "-o", page], ["check"]),
        (["report", dump, pid, "-o", page], ["check", "dump"]),
        (["diff", dump, other], ["check"]),
        (["diff", pid, dump], ["check", "dump"]),
        (["watch", pid, "-o", timeline, "--for", "1ms"], ["serve"]),
        (["top", "--once", "--filter", "churn"], ["serve"]),
    ]
    for words, expected in cases:
        done = command.here(*map(str, words))
        assert done.returncode == 0, done.stderr
        assert starts() == expected, words


def test_polls_are_one_start(churn: harness.Churn, tmp_path: Path, starts: Callable[[], list[str]]) -> None:
    """One start serves any number of processes."""
    with harness.Churn([str(programs.build("churn", "-lpthread"))], directory=tmp_path) as other:
        pids = group_of([str(each.pid) for each in (churn, other)], [], [])
        how = How(mode="live")
        said: list[str] = []
        with closing(TimelineStore(str(tmp_path / "timeline"), {}, 1 << 24, boot_id())) as store, serving(said.append):
            watch = Watch(store, pids, how, said.append)
            poller = Poller(pids, how, 8, said.append)
            for _ in range(3):
                watch.poll(1.0)
                poller.poll(1.0)
        assert watch.polls == 3
        assert poller.board.snapshots == 6
        assert poller.board.failed == {}
        assert len(read(str(tmp_path / "timeline")).polls) == 3
    assert starts() == ["serve"]
    assert not [line for line in said if "served" in line or "another" in line]


def test_a_dump_has_its_summary(churn: harness.Churn, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """To the byte what arenadump prints of its records; but that it is now a dump."""
    path = tmp_path / "dump"
    assert arenadump.run("dump", churn.pid, "--mode=freeze", "-o", path).returncode == 0
    own = Dump(path).summary.tobytes().decode()
    again = commands.summary(str(path))
    assert '"kind": "process"' in own
    assert again == own.replace('"kind": "process"', '"kind": "dump"', 1).replace(
        '"dump_of": null', '"dump_of": "process"', 1
    )
    assert document_of(Dump(path))["target"]["kind"] == "dump"
    assert (
        document_of(Dump(path), from_dump=False)["target"] | {"dump_of": None}
        == document_of(Dump(path), from_dump=False)["target"]
    )


def test_a_summary_of_other_records_is_refused(
    churn: harness.Churn, tmp_path: Path, arenadump: harness.Arenadump
) -> None:
    path = tmp_path / "dump"
    assert arenadump.run("dump", churn.pid, "-o", path).returncode == 0
    data = path.read_bytes()
    place = data.index(b'"rss": ') + len('"rss": ')
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(DumpError, match=r"dump' is damaged: its summary is not that of its records") as caught:
        Dump(path)
    assert caught.value.code == Code.BAD_INPUT


def test_the_summary_of_another_version_is_not_used(tmp_path: Path, starts: Callable[[], list[str]]) -> None:
    """It may lack what this one knows; arenadump makes it of the records again."""
    made = synthetic.sections()
    made["meta"]["tool_version"] = 0
    made["summary"] = np.frombuffer(b"{}", SECTIONS["summary"])
    dump = Dump(synthetic.write(tmp_path / "dump", made))
    assert dump.string(dump.meta["tool_version"]) != __version__
    assert document_of(dump)["schema"] == "arenascope.summary/1"
    assert starts() == ["check", "summary"]


def test_a_dump_on_standard_output(churn: harness.Churn, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """A dump goes to a file, and to a pipe; arenascope writes one, too."""
    words = [str(arenadump.path), "dump", "--chunks", "-o", "-", "--", str(churn.pid)]
    with (tmp_path / "file").open("w+b") as file:
        subprocess.run(words, stdout=file, check=True)
    (tmp_path / "pipe").write_bytes(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    done = subprocess.run(
        [sys.executable, "-m", "arenascope", "dump", "--chunks", "-o", "-", str(churn.pid)],
        stdout=subprocess.PIPE,
        check=True,
    )
    (tmp_path / "python").write_bytes(done.stdout)
    for name in ("file", "pipe", "python"):
        dump = Dump(tmp_path / name)
        assert dump.meta["pid"] == churn.pid
        assert dump.has_chunks
    with open(os.devnull, "rb") as closed:  # noqa: PTH123 - not to be written to
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert done.returncode == Code.IO
    assert b"cannot write to standard output" in done.stderr


def test_a_dump_is_not_for_a_terminal(churn: harness.Churn, arenadump: harness.Arenadump) -> None:
    ours, theirs = os.openpty()
    words = [str(arenadump.path), "dump", "-o", "-", "--", str(churn.pid)]
    done = subprocess.run(words, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == Code.USAGE
    assert b"redirect standard output" in done.stderr


def test_several_dumps_are_checked_at_once(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    good, bad = synthetic.write(tmp_path / "good", synthetic.sections()), tmp_path / "bad"
    bad.write_bytes(good.read_bytes()[:-1])
    assert arenadump.run("check", good, good).returncode == 0
    done = arenadump.run("check", good, bad)
    assert done.returncode == Code.BAD_INPUT
    assert "bad' is truncated" in done.stderr
    with pytest.raises(DumpError, match="bad' is truncated"):
        Dump.opened([str(good), str(bad)])


@pytest.mark.parametrize("how", [How(), How(chunks=True)])
def test_no_file_is_left(churn: harness.Churn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How) -> None:
    """What is read at once has no name, also where it fails."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    taken = take_snapshot(str(churn.pid), how)
    assert list(tmp_path.iterdir()) == []
    assert taken.dump.meta["pid"] == churn.pid
    with pytest.raises(ArenascopeError, match="there is no process"):
        take_snapshot("999999999", how)
    assert list(tmp_path.iterdir()) == []
