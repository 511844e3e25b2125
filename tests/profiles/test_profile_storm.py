# SPDX-License-Identifier: MIT
"""A program that checks itself while it does all at once what a recorder has to get right: a short run of the soak."""

from __future__ import annotations

import pytest
from soaks.soak_storm import soak
from tools import harness

pytestmark = pytest.mark.slow


def test_nothing_is_harmed(arenadump: harness.Arenadump) -> None:
    counts = soak(arenadump, profiles=6, each=3, seed=1)
    assert not counts.wrong, counts.wrong
    assert counts.lives > 1
