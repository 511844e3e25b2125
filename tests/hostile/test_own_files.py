# SPDX-License-Identifier: MIT
"""Files that are there already: arenascope goes on only in those of its user alone, and reads others from a copy."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from timeline.test_timeline_damage import BOOT, MIB, good

from arenascope import private_files
from arenascope.errors import ArenascopeError, Code
from arenascope.experiment.results_dir import EXPERIMENT, Store
from arenascope.timeline.own_copy import Copy, untouchable
from arenascope.timeline.reader import read
from arenascope.timeline.store import COMPANIONS, TimelineStore

__all__ = ["good"]  # a fixture
NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def timeline(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / "timeline"))


def refusal(path: Path) -> str:
    """Why a watch does not go on in a file; empty: it does."""
    try:
        TimelineStore(str(path), {"watched": "test"}, 64 * MIB, BOOT).close()
    except ArenascopeError as error:
        return str(error) if error.code == Code.IO else repr(error)
    return ""


def state(path: Path) -> tuple[bytes, int, int]:
    about = path.stat()
    return path.read_bytes(), about.st_uid, about.st_mode


def test_a_file_of_ours_is_gone_on_with(timeline: Path) -> None:
    assert refusal(timeline) == ""
    timeline.write_bytes(b"")
    assert refusal(timeline) == ""  # as `touch` makes it
    assert stat.S_IMODE(timeline.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_file_that_others_may_write(timeline: Path, mode: int) -> None:
    for content in (timeline.read_bytes(), b""):
        timeline.write_bytes(content)
        timeline.chmod(mode)
        before = state(timeline)
        assert f"mode {mode:04o}" in refusal(timeline)
        assert state(timeline) == before
        assert [each.name for each in timeline.parent.iterdir()] == ["timeline"]


@root
def test_a_file_of_another_user(timeline: Path) -> None:
    os.chown(timeline, NOBODY, NOBODY)
    before = state(timeline)
    assert "belongs to another user (uid 65534)" in refusal(timeline)
    assert state(timeline) == before


def test_links_and_what_is_no_file(timeline: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.symlink_to(timeline)
    assert "symbolic link" in refusal(place)
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    assert "symbolic link" in refusal(place)
    assert not (tmp_path / "nowhere").exists()
    place.unlink()
    place.hardlink_to(timeline)
    assert "hard link" in refusal(place)
    place.unlink()
    os.mkfifo(place)
    assert "not a regular file" in refusal(place)
    place.unlink()
    place.mkdir()
    assert "not a regular file" in refusal(place)
    assert "not a regular file" in refusal(Path("/dev/null"))


@pytest.mark.parametrize("companion", COMPANIONS)
def test_what_lies_beside_the_file(timeline: Path, tmp_path: Path, companion: str) -> None:
    for path in (timeline, tmp_path / "new"):
        beside, victim = Path(f"{path}{companion}"), tmp_path / "victim"
        victim.write_text("something else")
        victim.chmod(0o600)
        beside.symlink_to(victim)
        assert "symbolic link" in refusal(path)
        beside.unlink()
        beside.symlink_to(tmp_path / "nowhere")
        assert "symbolic link" in refusal(path)
        beside.unlink()
        beside.hardlink_to(victim)
        assert "hard link" in refusal(path)
        beside.unlink()
        os.mkfifo(beside)
        assert "not a regular file" in refusal(path)
        beside.unlink()
        beside.touch(0o666)
        beside.chmod(0o666)
        assert "mode 0666" in refusal(path)
        beside.unlink()
        assert victim.read_text() == "something else"
        assert not (tmp_path / "nowhere").exists()


def test_a_directory_in_which_others_can_put_files(timeline: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert "mode 0777" in refusal(shared / "new")
    below = shared / "below"
    below.mkdir(mode=0o700)
    assert "mode 0777" in refusal(below / "new")  # others can rename it
    shared.chmod(0o1777)
    assert refusal(below / "new") == ""
    shutil.copy(timeline, shared / "timeline")
    assert refusal(shared / "timeline") == ""


@root
def test_a_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.chown(other, NOBODY, NOBODY)
    assert "belongs to another user (uid 65534)" in refusal(other / "new")
    assert not list(other.iterdir())
    monkeypatch.setenv("SUDO_UID", str(NOBODY))  # the user who has run sudo there
    assert refusal(other / "new") == ""


def connecting(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Does something at the time at which SQLite opens a file, after all that was made sure of."""
    real = sqlite3.connect

    def connect(path: str, **options: Any) -> sqlite3.Connection:
        then()
        db: sqlite3.Connection = real(path, **options)
        return db

    monkeypatch.setattr(sqlite3, "connect", connect)


def test_in_a_shared_directory_no_name_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would make the log and its index by names that others can take before."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    before: list[set[str]] = []
    connecting(monkeypatch, lambda: before.append({each.name for each in shared.iterdir()}))
    store = TimelineStore(str(shared / "new"), {"watched": "test"}, 64 * MIB, BOOT)
    assert before[-1] == {"new", "new-wal", "new-shm"}
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in shared.iterdir())
    store.close()
    assert {each.name for each in shared.iterdir()} == {"new"}


def test_no_journal_is_made_while_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file has one before it has a write-ahead log: by a name that SQLite follows if it is a link."""
    link, nowhere = tmp_path / "new-journal", tmp_path / "nowhere"
    connecting(monkeypatch, lambda: None if link.is_symlink() else link.symlink_to(nowhere))
    TimelineStore(str(tmp_path / "new"), {"watched": "test"}, 64 * MIB, BOOT).close()
    assert not nowhere.exists()


def test_a_timeline_that_others_may_write_is_read_from_a_copy(timeline: Path, tmp_path: Path) -> None:
    polls = len(read(str(timeline)).polls)
    nowhere, beside = tmp_path / "nowhere", Path(f"{timeline}-wal")
    for each in (beside, Path(f"{timeline}-shm")):
        each.unlink()  # of the reading
    beside.symlink_to(nowhere)  # SQLite would make it, and give it to the owner of the timeline
    assert len(read(str(timeline)).polls) == polls
    assert not nowhere.exists()
    beside.unlink()
    os.mkfifo(beside)  # SQLite would wait for ever
    assert len(read(str(timeline)).polls) == polls
    beside.unlink()
    timeline.chmod(0o666)
    assert untouchable(str(timeline)) != str(timeline)
    assert len(read(str(timeline)).polls) == polls
    assert [each.name for each in tmp_path.iterdir()] == ["timeline"]


@root
def test_the_copy_has_the_log_too_and_goes(good: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = other / "timeline"
    shutil.copy(good, path)
    db = sqlite3.connect(path, isolation_level=None)  # as long as it is open, its write is in the log
    db.execute("INSERT INTO polls VALUES (1000, 1, 1, 0, 1, 1, NULL)")
    for each in other.iterdir():
        os.chown(each, NOBODY, NOBODY)
    os.chown(other, NOBODY, NOBODY)
    copied = Path(untouchable(str(path)))
    assert stat.S_IMODE(copied.parent.stat().st_mode) == 0o700
    assert len(read(str(path)).polls) == len(read(str(good)).polls) + 1
    assert Path(untouchable(str(path))) == copied  # a command reads it several times
    db.execute("INSERT INTO polls VALUES (1001, 1, 1, 0, 1, 1, NULL)")
    assert len(read(str(path)).polls) == len(read(str(good)).polls) + 2
    assert not copied.exists()
    db.close()
    Copy.last = None


def test_results_that_others_may_have_changed(tmp_path: Path) -> None:
    """To go on with an experiment is to run the commands that its file names."""
    folder = tmp_path / "results"
    folder.mkdir(mode=0o755)
    (folder / EXPERIMENT).write_text("{}")
    store = Store.__new__(Store)
    store.folder = folder
    store.check_own()
    for path, mode in ((folder, 0o777), (folder, 0o1777), (folder / EXPERIMENT, 0o666)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(ArenascopeError, match="others own") as caught:
            store.check_own()
        assert caught.value.code == Code.IO
        path.chmod(before)
    (folder / "build").symlink_to(tmp_path)
    with pytest.raises(ArenascopeError, match="build"):
        store.check_own()


def test_an_empty_directory_of_others_gets_no_results(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ArenascopeError, match="others own"):
        Store.create(folder, {}, tmp_path, {})
    assert not list(folder.iterdir())


def _create(path: Path) -> None:
    private_files.create(path).close()


def _create_text(path: Path) -> None:
    private_files.create_text(path).close()


def _write_json(path: Path) -> None:
    private_files.write_json(path, {})


def test_no_file_of_results_is_emptied_by_another_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    for write in (_create, _create_text, _write_json):
        for link in (os.link, os.symlink):
            victim.write_text("something else")
            for name in ("made.json", ".made.json.new"):
                link(victim, tmp_path / name)
            write(tmp_path / "made.json")
            assert victim.read_text() == "something else"
            assert not (tmp_path / "made.json").is_symlink()
            for name in ("made.json", ".made.json.new"):
                (tmp_path / name).unlink(missing_ok=True)


def test_closing(timeline: Path) -> None:
    """A watch that is refused leaves no lock behind."""
    timeline.chmod(0o666)
    assert refusal(timeline)
    timeline.chmod(0o600)
    with closing(TimelineStore(str(timeline), {"watched": "test"}, 64 * MIB, BOOT)):
        assert "being written by another" in refusal(timeline)
