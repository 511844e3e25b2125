# SPDX-License-Identifier: MIT
"""Which tests run when: `make check`, `make test`, and the parts of `make nightly`. docs/testing.md says how to choose.

The marks: `check`; `nightly("part")`; neither, which is `make test`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from pathlib import Path

import pytest

from . import debian

CHECK, TEST = "check", "test"
LIBCS = "libcs"  # the part of the libcs that `make test` leaves out
# Parts of `make nightly` that are tests of pytest's; the others are in nightly.py.
PARTS = (
    LIBCS,
    "compilers",
    "emulation",
    "experiments",
    "gem",
    "kills",
    "limits",
    "packaging",
    "release",
    "patches",
    "runtimes",
    "soak",
    "variety",
    "vm",
)
NAMES = (CHECK, TEST, *PARTS)


def own_libc() -> str:
    """The suite that is nearest to this machine's own libc, or $NEAREST_LIBC."""
    return os.environ.get("NEAREST_LIBC") or debian.nearest_suite()


def daily_libcs() -> list[str]:
    """The suites of `make test`: the one that is nearest to this machine's own libc, and the oldest."""
    oldest, *_ = newest = list(debian.SUITES)
    own = own_libc()
    return [oldest, own if own != oldest else newest[-1]]


def by_tier(suites: Iterable[str]) -> list[object]:
    """Parameters of a fixture or test: those of the suites that `make test` leaves out are marked so."""
    daily = daily_libcs()
    return [suite if suite in daily else pytest.param(suite, marks=pytest.mark.nightly(LIBCS)) for suite in suites]


EACH_LIBC = by_tier(debian.SUITES)


def is_elsewhere(item: pytest.Item) -> bool:
    """Whether a test with the mark `nearest` is under another libc than the one by day."""
    if not isinstance(item, pytest.Function) or not item.get_closest_marker("nearest"):
        return False
    return item.callspec.params["libc"] != daily_libcs()[1]


def part_of(item: pytest.Item) -> str | None:
    """The part of `make nightly` that has this test; None: it has a place by day.

    Where several have it, that of the libcs comes last: a test that is in `kills` is there under every libc.
    """
    parts = [str(mark.args[0]) for mark in item.iter_markers("nightly")]
    parts += [LIBCS] if is_elsewhere(item) else []
    if unknown := set(parts) - set(PARTS):
        message = f"{item.nodeid}: there is no part {', '.join(sorted(unknown))} of make nightly"
        raise pytest.UsageError(message)
    return next((part for part in parts if part != LIBCS), LIBCS if parts else None)


def is_in(item: pytest.Item, tier: str) -> bool:
    """Whether `tier` runs this test."""
    part = part_of(item)
    if tier == CHECK:
        return part is None and item.get_closest_marker("check") is not None
    return part == (None if tier == TEST else tier)


def may_have_check(path: Path) -> bool:
    """Whether a file of tests has the mark `check` anywhere."""
    return path.suffix != ".py" or re.search(r"\bmark\.check\b", path.read_text()) is not None


def daily(values: Iterable[object], day: Container[object], part: str) -> list[object]:
    """Parameters of a test: those that are not in `day` are in that part of `make nightly`."""
    return [value if value in day else pytest.param(value, marks=pytest.mark.nightly(part)) for value in values]


RUNTIMES = ("3.11", "3.14", "3.1", "3.4")  # of Python and of Ruby: Debian 12's, and the newest
OF_DEBIAN_12 = ("3.11", "3.1")
COMPILERS = ("gcc", "g++")


def runtimes(releases: Iterable[object]) -> list[object]:
    """Parameters of a fixture or test: the releases of Python or Ruby that `make test` leaves out are marked so."""
    return daily(releases, RUNTIMES, "runtimes")


def compilers(names: Iterable[object]) -> list[object]:
    """Parameters of a test: the compilers that `make test` leaves out are marked so."""
    return daily(names, COMPILERS, "compilers")
