# SPDX-License-Identifier: MIT
"""The agent's policy, and its door: programs that are trimmed by themselves, and at somebody's word."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from tools import debian, harness
from tools.stage import Stage, threads, until


def test_policy_trims_by_itself(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(
        libc.command(actor, *["storm", "3", "mark", "mark", "sleep"]), ARENASCOPE_TRIM="every=200ms,deep"
    )
    pid = stage.marked()
    until(lambda: threads(pid).count("arenascope") == 1, "no thread of ours from the start")
    for _ in range(3):
        stage.logged(rf"\[{pid}\]: policy \(time\): [1-9]\d* KiB returned")
    assert process.poll() is None


def test_policy_goes_on_in_a_child(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    acts = "storm 2 mark parent until go fork mark mark busy"
    process = stage.start(libc.command(actor, *acts.split()), ARENASCOPE_TRIM="every=200ms,max-pause=5ms")
    parent = stage.marked("parent")
    stage.go()
    child = stage.marked()
    assert parent != child
    stage.logged(rf"\[{child}\]: policy \(time\)")
    assert process.poll() is None


def test_policy_waits_for_its_conditions(stage: Stage, actor: Path) -> None:
    acts = [str(actor), *["hold", "20000", "200", "storm", "1", "mark", "mark", "sleep"]]
    stage.start(acts, ARENASCOPE_TRIM="every=100ms,min=1G")
    pid = stage.marked()
    time.sleep(1)
    assert "policy" not in stage.log()
    acts = [str(actor), *["hold", "20000", "200", "mark", "idler", "sleep"]]
    stage.start(acts, ARENASCOPE_TRIM="idle=1s")
    idler = stage.marked("idler")
    stage.logged(rf"\[{idler}\]: policy \(idle\)")
    time.sleep(2.5)
    assert stage.log().count(f"[{idler}]: policy (idle)") == 1
    assert pid != idler


@pytest.mark.parametrize(
    "words", ["every", "every=soon", "min=64X", "sometimes=1s", "percent=101", "every=99999999999h"]
)
def test_policy_that_makes_no_sense(stage: Stage, actor: Path, words: str) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_TRIM=words)
    assert len(threads(stage.marked())) == 1
    stage.logged(re.escape(words) if words != "percent=101" else "percentage of more than 100")


def test_door_answers(stage: Stage, libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    process = stage.start(libc.command(actor, *["hold", "1000", "200", "storm", "3", "mark", "mark", "sleep"]))
    pid = stage.marked()
    stage.ask(pid)
    before = threads(pid)
    forecast = json.loads(arenadump.check("trim", "--forecast", "--json", pid))
    assert len(forecast["arenas"]) >= 2
    trimmed = json.loads(arenadump.check("trim", "--deep", "--json", pid))
    assert trimmed["returned"] > 0
    assert threads(pid) == before  # no second agent was carried in
    assert process.poll() is None


def test_child_that_sleeps_is_not_woken(stage: Stage) -> None:
    """What starts the thread in a child is a signal, and a sleep that was cut short by one is not taken up again."""
    text = """
import ctypes, os, time
if os.fork() == 0:
    before = time.monotonic()
    ctypes.CDLL(None).usleep(700_000)
    open("slept", "w").write(str(time.monotonic() - before))
    os._exit(0)
os.wait()
"""
    process = stage.start([sys.executable, "-c", text], ARENASCOPE_TRIM="every=100ms")
    assert process.wait(30) == 0
    assert float((stage.folder / "slept").read_text()) >= 0.7


def test_policy_that_trims_in_vain_waits_longer(stage: Stage) -> None:
    """Whatever is given back is needed again at once: 50 looks, but no more trims than a doubling distance allows."""
    text = """
import pathlib, time
held = [bytes(1000) for _ in range(40_000)]
pin = bytes(1000)
end = time.monotonic() + 10
while time.monotonic() < end:
    del held
    time.sleep(0.05)
    held = [bytes(1000) for _ in range(40_000)]
pathlib.Path("done").touch()
"""
    process = stage.start(
        [sys.executable, "-c", text], ARENASCOPE_TRIM="every=200ms,min=10M,backoff=50", PYTHONMALLOC="malloc"
    )
    assert process.wait(60) == 0
    assert 1 <= len(re.findall(r"policy \(time\): [1-9]", stage.log())) <= 8
