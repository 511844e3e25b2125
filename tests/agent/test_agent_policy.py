# SPDX-License-Identifier: MIT
"""The agent's policy, and its control socket: programs that are trimmed automatically, and on request."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import sys
import time
from pathlib import Path

import pytest
from tools import debian, harness
from tools.control import PROTOCOL, REQUEST_BYTES, UNSUPPORTED, ask, code, control_socket, worker_thread
from tools.stage import Stage, let_others_in, threads, until

pytestmark = pytest.mark.usefixtures("pages_stay")

NOBODY = 65534


def test_policy_trims_by_itself(stage: Stage, libc: debian.Libc, actor: Path) -> None:
    process = stage.start(
        libc.command(actor, *["storm", "3", "mark", "mark", "sleep"]), ARENASCOPE_TRIM="every=200ms,deep"
    )
    pid = stage.marked()
    until(lambda: threads(pid).count("arenascope") == 1, "no thread of ours from the start")
    for _ in range(3):
        stage.logged(rf"\[{pid}\]: policy \(time\): [1-9]\d* KiB returned")
    assert process.poll() is None


def test_policy_says_what_was_held_for_longer(stage: Stage, actor: Path) -> None:
    """No pass through an arena is done within a microsecond."""
    stage.start([str(actor), *["storm", "1", "mark", "mark", "sleep"]], ARENASCOPE_TRIM="every=100ms,max-hold=1us")
    stage.logged(rf"\[{stage.marked()}\]: policy: an arena was locked for \d+ us, longer than the 1 us of max-hold")


def test_policy_goes_on_in_a_child(stage: Stage, own_libc: debian.Libc, actor: Path) -> None:
    acts = "storm 2 mark parent until go fork mark mark busy"
    process = stage.start(own_libc.command(actor, *acts.split()), ARENASCOPE_TRIM="every=200ms,max-hold=5ms")
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
    stage.logged(re.escape(words) if words != "percent=101" else "percentage above 100")


def test_control_socket_answers(stage: Stage, own_libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    process = stage.start(own_libc.command(actor, *["hold", "1000", "200", "storm", "3", "mark", "mark", "sleep"]))
    pid = stage.marked()
    stage.ask(pid)
    before = threads(pid)
    forecast = json.loads(arenadump.check("trim", "--forecast", "--json", pid))
    assert len(forecast["arenas"]) >= 2
    trimmed = json.loads(arenadump.check("trim", "--deep", "--json", pid))
    assert trimmed["returned"] > 0
    assert threads(pid) == before  # no second agent was carried in
    assert process.poll() is None


@pytest.fixture
def resident(stage: Stage, actor: Path) -> int:
    """A program in which the agent's thread runs from the start."""
    process = stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_TRIM="every=1h")
    stage.logged(r"ready")
    return process.pid


def test_nonsense_at_the_control_socket_leaves_nothing_open(resident: int) -> None:
    def opened() -> int:
        return len(list((worker_thread(resident) / "fd").iterdir()))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(control_socket(resident))
        assert ask(client, 1) == 0
        before = opened()
        for protocol in (0, PROTOCOL - 1, PROTOCOL + 1):
            for _ in range(10):
                assert ask(client, 1, protocol, fd=0) == UNSUPPORTED
        assert ask(client, 99, fd=0) == UNSUPPORTED
        for size in (1, REQUEST_BYTES - 1, REQUEST_BYTES + 1):
            client.send(struct.pack("<II", PROTOCOL, 1).ljust(REQUEST_BYTES + 1, b"\0")[:size])
            assert code(client) == UNSUPPORTED
        until(lambda: opened() == before, "a descriptor is left open")  # it is closed after the answer


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give out numbers of users")
def test_nobody_of_a_user_namespace_is_not_anybody(stage: Stage, actor: Path) -> None:
    """Whom a namespace has no number for has the number of nobody there, as the program has, but is not he."""
    let_others_in(stage.folder)
    text = f"""
import ctypes, os, signal
lib = ctypes.CDLL({str(stage.agent)!r})
libc = ctypes.CDLL(None)
parted, mapped = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    assert libc.unshare(0x10000000) == 0  # CLONE_NEWUSER
    os.write(parted[1], b"x")
    os.read(mapped[0], 1)
    os.setuid({NOBODY})
    assert lib.arenascope_set_policy((ctypes.c_uint64 * 12)(96, 3600 * 10**9)) == 0
    signal.pause()
os.read(parted[0], 1)
open(f"/proc/{{child}}/uid_map", "w").write("0 0 1\\n{NOBODY} 100001 1")
os.write(mapped[1], b"x")
open("mark", "w").write(str(child))
os.wait()
"""
    stage.start([sys.executable, "-c", text], LD_PRELOAD="")
    pid = stage.marked()
    stage.logged("ready")
    name = control_socket(pid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(name)
        assert ask(client, 1) == 0
    stranger = os.fork()
    if stranger == 0:
        disconnected = False
        try:
            os.setuid(1234)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(name)
                client.settimeout(10)
                disconnected = client.recv(1) == b""
        finally:
            os._exit(0 if disconnected else 1)
    assert os.waitpid(stranger, 0)[1] == 0


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
    """What is given back is needed again at once: 25 snapshots, and no more trims than a doubling distance allows."""
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
        [sys.executable, "-c", text], ARENASCOPE_TRIM="every=400ms,min=10M,backoff=50", PYTHONMALLOC="malloc"
    )
    assert process.wait(60) == 0
    assert 1 <= len(re.findall(r"policy \(time\): [1-9]", stage.log())) <= 8
