# SPDX-License-Identifier: MIT
"""A short run of the soak of processes that record from their start (tests/soaks/soak_recorder.py)."""

from __future__ import annotations

import os
import random
import subprocess

import pytest
from soaks import soak_recorder
from tools import debian, harness

MOST_ROUNDS = 10


@pytest.mark.nightly("soak")
@pytest.mark.slow
@pytest.mark.parametrize("way", soak_recorder.WAYS)
def test_a_service_is_not_harmed(libc: debian.Libc, arenadump: harness.Arenadump, way: str) -> None:
    """Two lives of a service in which all that is hard happens at once, inspects it among them.

    A slow machine has more of them, until all has happened.
    """
    counts, chance = soak_recorder.Counts(), random.Random(1)
    for _ in range(MOST_ROUNDS):
        soak_recorder.one_round(libc, way, arenadump, chance, counts, life=1, lives=2)
        assert counts.wrong == []
        done = counts.done[libc.suite]
        if all(done[name] > 0 for name in soak_recorder.COUNTERS):
            break
    assert all(done[name] > 0 for name in soak_recorder.COUNTERS), done
    assert done["snapshots"] + done["gone"] + done["early"] + done["given_up"] > 0


def test_a_service_that_has_ended_is_gone(arenadump: harness.Arenadump) -> None:
    """It may end between the soak's question whether it has and the snapshot: then it is a zombie."""
    with subprocess.Popen(["true"], text=True) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = soak_recorder.take_snapshot(process, "rates", arenadump, random.Random(2))
    assert found["gone"] == 1
