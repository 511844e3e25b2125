# SPDX-License-Identifier: MIT
"""What a thread that works for us holds in its registers, in all that this processor has, is there again in the end."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, held, odd

UNSUPPORTED = 5
HOW = ["spins", "reads"]
TILES = ["none", "permitted", "used", "released"]


def inject(arenadump: harness.Arenadump, pid: int) -> str:
    return str(json.loads(arenadump.check("inject", "--json", pid))["how"])


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("how", HOW)
def test_it_is_inspected_and_injected(arenadump: harness.Arenadump, how: str, tiles: str) -> None:
    with held.holding(how, tiles) as pid:
        for mode in ("auto", "clone", "freeze", "live"):
            arenadump.check("summary", "--mode", mode, pid)
        assert inject(arenadump, pid) == "loaded"
        assert inject(arenadump, pid) == "present"
        arenadump.check("trim", "--deep", pid)


@contextmanager
def left_in(arenadump: harness.Arenadump, pid: int, function: str, until: Path) -> Iterator[None]:
    """A carrier is killed while the thread is in that function, which goes on after."""
    done = arenadump.run("inject", "--timeout", "500ms", pid)
    assert f"has been in {function} for 500 ms" in done.stderr, done.stderr
    carrier = odd.tracer(pid)
    assert carrier != 0
    os.kill(carrier, signal.SIGKILL)
    odd.wait_for(lambda: odd.tracer(pid) == 0)
    yield
    until.touch()


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("how", HOW)
def test_the_carrier_is_killed_in_dlopen(arenadump: harness.Arenadump, tmp_path: Path, how: str, tiles: str) -> None:
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), tmp_path / "go"
    with held.holding(how, tiles, LD_AUDIT=str(audit), SLOW_AUDIT_UNTIL=str(until)) as pid:
        with left_in(arenadump, pid, "dlopen", until):
            pass
        if how == "reads":
            odd.wait_for(lambda: held.back_at_work(pid))
        # The thread may still be on its way: it is met wherever it is, and the library is there.
        assert inject(arenadump, pid) == "woken"
        assert odd.tracer(pid) == 0


@pytest.mark.parametrize("how", HOW)
def test_the_carrier_is_killed_as_the_agent_starts(arenadump: harness.Arenadump, tmp_path: Path, how: str) -> None:
    """The function returns 0 then, which is the number of a system call."""
    meddler, until = odd.build("meddler", "-shared", "-fPIC", "-ldl"), tmp_path / "go"
    with held.holding(how, "none", LD_PRELOAD=str(meddler), MEDDLER_UNTIL=str(until)) as pid:
        with left_in(arenadump, pid, "arenascope_wake", until):
            pass
        if how == "reads":
            odd.wait_for(lambda: held.back_at_work(pid))
        assert inject(arenadump, pid) in ("present", "woken")
        assert odd.tracer(pid) == 0


@pytest.mark.parametrize("how", HOW)
def test_errno_is_put_back(arenadump: harness.Arenadump, how: str) -> None:
    """Though functions that the library calls change it."""
    meddler = odd.build("meddler", "-shared", "-fPIC", "-ldl")
    with held.holding(how, "none", LD_PRELOAD=str(meddler)) as pid:
        assert inject(arenadump, pid) == "loaded"


@pytest.mark.parametrize("how", HOW)
def test_errno_is_put_back_after_a_kill(arenadump: harness.Arenadump, tmp_path: Path, how: str) -> None:
    meddler, audit = odd.build("meddler", "-shared", "-fPIC", "-ldl"), odd.build("slow_audit", "-shared", "-fPIC")
    until = tmp_path / "go"
    with held.holding(how, "none", LD_PRELOAD=str(meddler), LD_AUDIT=str(audit), SLOW_AUDIT_UNTIL=str(until)) as pid:
        with left_in(arenadump, pid, "dlopen", until):
            pass
        # It is not touched again: a second injection would put back what it found.
        odd.wait_for(lambda: "arenascope-agent" in Path(f"/proc/{pid}/maps").read_text())
        if how == "reads":
            odd.wait_for(lambda: held.back_at_work(pid))


def test_no_way_back(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A libc that lacks a piece of it: nothing is called, and nothing is left behind."""
    maps = Path("/proc/self/maps").read_text()
    libc = Path(re.findall(r"/\S*/libc[.-]\S*", maps)[0]).resolve()
    restorer, another = bytes.fromhex("48c7c00f000000 0f05"), bytes.fromhex("b80f000000 6690 0f05")
    code = libc.read_bytes()
    if restorer not in code:
        pytest.skip(f"{libc} has no restorer that is known")
    (tmp_path / "libc.so.6").write_bytes(code.replace(restorer, another))
    with held.holding("reads", "none", LD_LIBRARY_PATH=str(tmp_path)) as pid:
        before = Path(f"/proc/{pid}/maps").read_text()
        assert str(tmp_path) in before
        descriptors = sorted(Path(f"/proc/{pid}/fd").iterdir())
        done = arenadump.run("inject", pid)
        assert done.returncode == UNSUPPORTED, done
        assert "resume by itself if arenadump were killed" in done.stderr
        assert Path(f"/proc/{pid}/maps").read_text() == before
        assert sorted(Path(f"/proc/{pid}/fd").iterdir()) == descriptors
        assert odd.tracer(pid) == 0
