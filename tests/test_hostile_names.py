# SPDX-License-Identifier: MIT
"""Targets that name what harms who follows the name: descriptors, doors, files, sizes. Nothing is written but the target's own
memory, nothing is opened but regular files below the target's own root, and nothing is waited for without a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tools import harness, odd

DENIED, UNSUPPORTED = 4, 5
PLENTY = 60  # seconds: more than any limit that a test sets, less than what was waited for without one


def hostile() -> str:
    return str(odd.build("hostile", f"-I{harness.ROOT}/inspector", f"-I{harness.ROOT}/inspector/include", "-lpthread"))


# --- What is written ---


@odd.needs_root
def test_a_descriptor_that_is_exchanged(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The library is written where it was meant to go, or nowhere: never to a file that the target may only read."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    victim = tmp_path / "victim"
    content = b"only root may write this\n"
    victim.write_bytes(content)
    victim.chmod(0o644)
    codes = set()
    for _ in range(8):  # a race, which the target nearly always wins
        with odd.running(["setpriv", "--reuid=65534", "--clear-groups", hostile(), "swaps", str(victim)]) as pid:
            codes.add(arenadump.run("inject", pid).returncode)
            assert victim.read_bytes() == content
            assert odd.tracer(pid) == 0
    assert codes <= {0, DENIED, UNSUPPORTED}


def test_a_limit_on_the_size_of_files(arenadump: harness.Arenadump) -> None:
    """Refused: the kernel would end the process (SIGXFSZ) whose thread makes the library's file as large as it must be."""
    with odd.running(["prlimit", "--fsize=4096", str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("inject", pid)
        assert done.returncode == UNSUPPORTED
        assert "no file larger than 4096 bytes (RLIMIT_FSIZE)" in done.stderr
        assert "arenascope-agent" not in Path(f"/proc/{pid}/maps").read_text()
        time.sleep(0.05)
        assert odd.state(pid) == "S"
        assert odd.tracer(pid) == 0


# --- What is waited for ---


def wait_in_vain(arenadump: harness.Arenadump, pid: int, words: str) -> None:
    """The agent's door is that of a process which does not want to answer: said in the time that is allowed."""
    for command in ("inject", "trim"):
        began = time.monotonic()
        done = arenadump.run(command, "--timeout", "500ms", pid)
        took = time.monotonic() - began
        assert done.returncode == DENIED, done
        assert words in done.stderr
        assert 0.5 <= took < PLENTY
        assert odd.tracer(pid) == 0


def test_a_door_that_is_full(arenadump: harness.Arenadump) -> None:
    with odd.running([hostile(), "full"]) as pid:
        wait_in_vain(arenadump, pid, "as many as can wait at its door do so already")


@pytest.mark.parametrize("how", ["silent", "drips", "arenas"])
def test_an_agent_that_never_comes_to_an_end(arenadump: harness.Arenadump, how: str) -> None:
    with odd.running([hostile(), how]) as pid:
        wait_in_vain(arenadump, pid, "has not given a whole answer within 0.5 s")


def test_a_door_of_somebody_else(arenadump: harness.Arenadump) -> None:
    """Who listens is not the process that was named, and is told nothing, though he answers."""
    with odd.running([hostile(), "heir"]) as pid:
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        for command in ("inject", "trim"):
            done = arenadump.run(command, child)
            assert done.returncode == DENIED, done
            assert f"who listens at the door of process {child} is somebody else" in done.stderr


def test_a_carrier_that_hangs(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Memory may be of a kind that answers when the target likes; here the carrier is stopped. Arenadump says so and ends."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), tmp_path / "go"
    with odd.running([str(odd.build("posing")), "idle"], LD_AUDIT=str(audit), SLOW_AUDIT_UNTIL=str(until)) as pid:
        command = [str(arenadump.path), "inject", "--timeout", "2s", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            odd.wait_for(lambda: odd.tracer(pid) != 0)
            carrier = odd.tracer(pid)
            os.kill(carrier, signal.SIGSTOP)
            try:
                _, said = process.communicate(timeout=PLENTY)
            finally:
                os.kill(carrier, signal.SIGCONT)
                until.touch()
                process.kill()
        assert process.returncode == DENIED, said
        assert f"our process {carrier}, which was to load the library, has not come to an end" in said
        odd.wait_for(lambda: odd.tracer(pid) == 0)
        odd.wait_for(lambda: odd.state(pid) == "S")
