# SPDX-License-Identifier: MIT
"""Limits of memory, and swap, of which a machine has one."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import kernel, tight
from tools.paths import ROOT
from tools.pressure import allowed


@pytest.fixture
def group() -> Iterator[tight.TightCgroup]:
    try:
        made = tight.TightCgroup()
    except kernel.NotAllowedError as reason:
        pytest.skip(f"this machine does not allow it: {reason}")
    with made:
        yield made


@pytest.fixture(scope="module")
def swap() -> Iterator[None]:
    """A swap file, for as long as a module's tests run: not half of it is ever used, so what is read stays there."""
    directory = ROOT / ".cache"
    directory.mkdir(exist_ok=True)
    with Path("/proc/swaps").open() as machine:
        # The end of a swap file brings back the pages of all processes, which may meet the limits of their cgroups.
        # Other clones' tests wait here.
        fcntl.flock(machine, fcntl.LOCK_EX)
        with allowed(kernel.swap_file(directory, 512)):
            yield
