# SPDX-License-Identifier: MIT
"""A short run of the soak of processes that record from their start (tests/soak_recorder.py)."""

from __future__ import annotations

import random

import pytest
import soak_recorder
from tools import debian, harness


@pytest.mark.slow
@pytest.mark.parametrize("way", soak_recorder.WAYS)
def test_a_service_is_not_harmed(libc: debian.Libc, arenadump: harness.Arenadump, way: str) -> None:
    """Two lives of a service in which all that is hard happens at once, looks at it among them."""
    counts = soak_recorder.Counts()
    soak_recorder.one_round(libc, way, arenadump, random.Random(1), counts, life=2, lives=2)
    assert counts.wrong == []
    done = counts.done[libc.suite]
    assert all(done[name] > 0 for name in soak_recorder.COUNTERS), done
    assert done["looks"] + done["gone"] + done["early"] + done["given_up"] > 0
