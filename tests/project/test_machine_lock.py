# SPDX-License-Identifier: MIT
"""What several processes may do: who wants to be alone is so, and comes before those that came earlier."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from tools import machine_lock
from tools.odd import wait_for

SPAWN = multiprocessing.get_context("spawn")  # a child by fork() would hold the locks, too


def take(folder: Path, name: str, until: Event, *, alone: bool) -> None:
    """Writes down when its time begins and ends."""
    machine_lock.LOCKS = folder
    (folder / f"{name}.wants").touch()
    with machine_lock.held(alone=alone):
        (folder / f"{name}.begins").write_text(str(time.monotonic()))
        until.wait(60)
        (folder / f"{name}.ends").write_text(str(time.monotonic()))


def test_who_wants_to_be_alone_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_lock, "LOCKS", tmp_path)
    end, others = SPAWN.Event(), {}

    def start(name: str, *, alone: bool) -> None:
        others[name] = SPAWN.Process(target=take, args=(tmp_path, name, end), kwargs={"alone": alone})
        others[name].start()
        wait_for((tmp_path / f"{name}.wants").exists)
        time.sleep(0.3)  # until it waits: it does not say so

    with machine_lock.held(alone=True):
        start("shared", alone=False)
        start("alone", alone=True)
        assert not list(tmp_path.glob("*.begins"))
    wait_for((tmp_path / "alone.begins").exists)
    time.sleep(0.3)
    assert not (tmp_path / "shared.begins").exists()
    end.set()
    for other in others.values():
        other.join(60)
        assert other.exitcode == 0
    assert float((tmp_path / "shared.begins").read_text()) >= float((tmp_path / "alone.ends").read_text())


def test_those_that_do_not_are_in_their_turns_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_lock, "LOCKS", tmp_path)
    end = SPAWN.Event()
    with machine_lock.held(alone=False):
        other = SPAWN.Process(target=take, args=(tmp_path, "shared", end), kwargs={"alone": False})
        other.start()
        wait_for((tmp_path / "shared.begins").exists)
    end.set()
    other.join(60)
    assert other.exitcode == 0
