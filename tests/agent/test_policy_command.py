# SPDX-License-Identifier: MIT
"""`arenadump policy` against what the agent says of itself inside the process, and where there is nothing to say."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tools import harness, odd
from tools.stage import Stage, threads, until

from arenascope.schema import schema

pytestmark = pytest.mark.usefixtures("pages_stay")

DENIED, UNSUPPORTED = 4, 5
SCHEMA = schema("policy")
NUMBERS = ("checks", "trims", "returned", "faulted_back", "elapsed_ms", "longest_hold_ms")
# Ends its policy once that has trimmed a few times, and writes down what the agent's own function says then. At the
# word "go" it has a child, whose policy has only begun.
TELLS = """
import ctypes, json, os, pathlib, sys, time
agent = ctypes.CDLL(os.environ["LD_PRELOAD"])
def said():
    all = (ctypes.c_uint64 * 7)(56)
    assert agent.arenascope_policy_statistics(all) == 0
    return list(all)[1:]
for _ in range(3):
    held = [bytes(3000) for _ in range(3000)]
    before = said()[1]
    del held
    while said()[1] <= before:
        time.sleep(0.01)
assert agent.arenascope_set_policy(None) == 0
settled = None
while settled != said():
    settled = said()
    time.sleep(0.3)
pathlib.Path("said").write_text(json.dumps(settled))
pathlib.Path("mark").write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.02)
if os.fork() == 0:
    assert agent.arenascope_set_policy((ctypes.c_uint64 * 12)(96, 3600 * 10**9)) == 0
    pathlib.Path("child").write_text(str(os.getpid()))
time.sleep(1000)
"""


def policy(arenadump: harness.Arenadump, pid: int) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(arenadump.check("policy", "--json", pid))
    jsonschema.validate(said, {**SCHEMA, "additionalProperties": False})
    assert said["pid"] == pid
    return said


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("words", ["every=100ms,max-hold=5ms", "every=100ms"])
def test_it_says_what_the_agent_says(stage: Stage, arenadump: harness.Arenadump, words: str) -> None:
    stage.start(["python3", "-c", TELLS], ARENASCOPE_TRIM=words, PYTHONMALLOC="malloc")
    pid = stage.marked()
    checks, trims, returned, back, elapsed, hold = json.loads((stage.folder / "said").read_text())
    assert trims >= 3
    assert returned > 0
    said = policy(arenadump, pid)
    assert said["policy"] == "off"
    assert [said[name] for name in NUMBERS[:4]] == [checks, trims, returned, back]
    assert said["elapsed_ms"] == pytest.approx(elapsed / 1e6, abs=0.001)
    if "max-hold" in words:
        assert said["longest_hold_ms"] == pytest.approx(hold / 1e6, abs=0.001)
    else:
        assert said["longest_hold_ms"] is None
    text = arenadump.check("policy", pid)
    assert "whose policy was switched off" in text
    assert f"{checks} checks, {trims} trims" in text
    stage.go()
    child = stage.marked("child")
    until(lambda: policy(arenadump, child)["policy"] == "on", "the child has no policy")
    assert [policy(arenadump, child)[name] for name in NUMBERS] == [0] * 6
    assert policy(arenadump, pid) == said


def test_no_agent_and_no_policy_are_not_zero(stage: Stage, arenadump: harness.Arenadump, actor: Path) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"])
    pid = stage.marked()
    assert policy(arenadump, pid) == {
        "schema": "arenascope.policy/1",
        "pid": pid,
        "agent_version": None,
        "policy": "no_agent",
        **dict.fromkeys(NUMBERS),
    }
    assert "no agent that answers" in arenadump.check("policy", pid)
    assert "arenascope" not in threads(pid), "the question has woken the agent"
    stage.ask(pid)
    said = policy(arenadump, pid)
    assert (said["policy"], {said[name] for name in NUMBERS}) == ("no_policy", {None})
    assert said["agent_version"] in arenadump.check("--version")
    assert arenadump.check("policy", pid).endswith("which has no policy\n")


def test_a_stopped_process_keeps_nobody_waiting(stage: Stage, arenadump: harness.Arenadump, actor: Path) -> None:
    process = stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_TRIM="every=1h")
    pid = stage.marked()
    until(lambda: policy(arenadump, pid)["policy"] == "on", "no policy")
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    until(lambda: all(") T " in (each / "stat").read_text() for each in tasks.iterdir()), "it runs on")
    for _ in range(12):  # more than the agent has places for
        done = arenadump.run("policy", "--timeout=100ms", "--json", pid)
        assert (done.returncode, done.stdout) == (DENIED, "")
        assert "s the process stopped" in done.stderr  # it does not answer, or its queue is full
    os.kill(pid, signal.SIGCONT)
    until(lambda: policy(arenadump, pid)["policy"] == "on", "it does not answer any more")
    assert process.poll() is None


def test_an_agent_that_does_not_know_the_question(arenadump: harness.Arenadump) -> None:
    with odd.running([odd.hostile(), "older"]) as pid:
        done = arenadump.run("policy", "--json", pid)
    assert (done.returncode, done.stdout) == (UNSUPPORTED, "")
    assert f"the agent in process {pid} (version 0) is older than this arenadump" in done.stderr


def test_an_agent_that_greets_and_falls_silent(arenadump: harness.Arenadump) -> None:
    with odd.running([odd.hostile(), "greets"]) as pid:
        begun = time.monotonic()
        done = arenadump.run("policy", "--timeout=500ms", pid)
        assert done.returncode == DENIED
        assert "has not answered within 0.5 s" in done.stderr
        assert time.monotonic() - begun >= 0.5


def test_it_takes_no_option_of_others(arenadump: harness.Arenadump) -> None:
    for words in (["--deep", os.getpid()], ["--timeout=soon", os.getpid()], ["/bin/true", "--deep"]):
        assert arenadump.run("policy", *words).returncode == 2
