# SPDX-License-Identifier: MIT
"""A trace of threads that allocate while others fork, execute programs, and load and unload libraries."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tools import debian, harness, programs
from tools.stage import Stage

SECONDS = 2
THREADS = 3
REUSE = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"  # an address goes from thread to thread at once
CHILD = "true"  # which allocates little, and is recorded by itself


def trace_json(arenadump: harness.Arenadump, record: Path) -> dict[str, Any]:
    command = [str(arenadump.path), "trace", str(record), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def check(found: dict[str, Any]) -> None:
    """It is whole, and contradicts itself only where events are lost, or in what libc allocates unseen."""
    assert (found["ended"], found["torn_bytes"], found["backwards"]) == ("exit", 0, 0)
    lost = found["lost_allocations"] + found["lost_frees"] + found["missed"]
    assert lost or (found["unknown_frees"], found["replaced"]) == (0, 0)


def test_fork_exec_and_threads(stage: Stage, own_libc: debian.Libc, arenadump: harness.Arenadump) -> None:
    """Nothing is harmed, nothing hangs, and each program has a record of its own; children of fork() have none."""
    record, never = stage.folder / "record", stage.folder / "never"
    plugins = [
        str(programs.build_portable("allocates", debian.NATIVE, "-shared", "-fPIC", f"-DROOM={room}"))
        for room in (64, 4000)
    ]
    words = ["threads", str(THREADS), "forks", "execs", f"/bin/{CHILD}", "plugins", *plugins, "allocates", "1"]
    command = own_libc.command(programs.build_portable("attached"), *words, str(never))
    process = stage.start(command, ARENASCOPE_PROFILE_TRACE=str(record), GLIBC_TUNABLES=REUSE)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    time.sleep(SECONDS)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out.decode() + stage.log()
    found = trace_json(arenadump, record)
    check(found)
    assert found["pid"] == process.pid
    # Each block that the threads count is an allocation; other threads make more.
    assert found["allocated"]["count"] + found["lost_allocations"] + found["missed"] >= int(out.split()[-1])
    others = [trace_json(arenadump, path) for path in stage.folder.glob("record.*")]
    assert others
    for other in others:
        check(other)
        assert Path(other["program"]).name == CHILD
