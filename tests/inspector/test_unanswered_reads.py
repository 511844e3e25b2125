# SPDX-License-Identifier: MIT
"""A process that has mapped a file of a file system that never answers: a snapshot says so, and holds nothing."""

from __future__ import annotations

import select
import subprocess
from pathlib import Path

import pytest
from tools import faulting, harness, odd
from tools.injection import DENIED

pytestmark = pytest.mark.nightly("limits")

SNAPSHOTS = (["summary", "--mode", "live"], ["summary", "--mode", "freeze", "--max-pause", "60s"], ["inject"])


@odd.needs_root
def test_it_is_said_after_a_minute(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Snapshots of several kinds, at once. They end with the file system; where the kernel lets them, before."""
    file = tmp_path / "file"
    file.touch()
    command = [str(odd.build("unanswered")), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout
            if (said := target.stdout.readline()) != "ready\n":
                pytest.xfail(said)
            snapshots = [
                subprocess.Popen([str(arenadump.path), *snapshot, str(target.pid)], stderr=subprocess.PIPE, text=True)
                for snapshot in SNAPSHOTS
            ]
            for snapshot in snapshots:
                assert snapshot.stderr
                odd.wait_for(lambda pipe=snapshot.stderr: bool(select.select([pipe], [], [], 0)[0]))  # type: ignore[misc]
                assert "a read of its memory has not returned for 60 s" in snapshot.stderr.readline()
            assert set(faulting.tracers(target.pid)) == {"0"}
            assert odd.state(target.pid) == "S"
            target.kill()
            assert [snapshot.wait() for snapshot in snapshots] == [DENIED] * len(snapshots)
        finally:
            target.kill()
