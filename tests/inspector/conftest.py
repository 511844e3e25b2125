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
        # All swap is one: whoever ends a swap file brings others' pages back, which may meet their cgroups' limits.
        fcntl.flock(machine, fcntl.LOCK_EX)
        with allowed(kernel.swap_file(directory, 512)):
            yield
