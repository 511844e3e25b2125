# SPDX-License-Identifier: MIT
"""A process that has mapped a file of a file system that never answers: a look says so, and holds nothing."""

from __future__ import annotations

import select
import subprocess
from pathlib import Path

import pytest
from tools import faulting, harness, odd
from tools.injection import DENIED

pytestmark = pytest.mark.nightly("limits")

LOOKS = (["summary", "--mode", "live"], ["summary", "--mode", "freeze", "--max-pause", "60s"], ["inject"])


@odd.needs_root
def test_it_is_said_after_a_minute(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Looks of several kinds, at once. They end when the file system has ended; where the kernel lets them, before."""
    file = tmp_path / "file"
    file.touch()
    command = [str(odd.build("unanswered")), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout
            if (said := target.stdout.readline()) != "ready\n":
                pytest.xfail(said)
            looks = [
                subprocess.Popen([str(arenadump.path), *look, str(target.pid)], stderr=subprocess.PIPE, text=True)
                for look in LOOKS
            ]
            for look in looks:
                assert look.stderr
                odd.wait_for(lambda pipe=look.stderr: bool(select.select([pipe], [], [], 0)[0]))  # type: ignore[misc]
                assert "a read of its memory has not returned for 60 s" in look.stderr.readline()
            assert set(faulting.tracers(target.pid)) == {"0"}
            assert odd.state(target.pid) == "S"
            target.kill()
            assert [look.wait() for look in looks] == [DENIED] * len(looks)
        finally:
            target.kill()
