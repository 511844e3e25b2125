# SPDX-License-Identifier: MIT
"""The page map of a malloc that takes hugetlb pages (glibc.malloc.hugetlb=2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import fetched
from tools import debian, harness, kernel, tiers
from tools.pressure import SUITES, Scenario, pressed

from arenascope.wire import dump_records as fmt

pytestmark = [pytest.mark.usefixtures("pages_stay"), pytest.mark.alone]


@pytest.fixture(scope="module", params=tiers.by_tier(SUITES))
def libc(request: pytest.FixtureRequest) -> debian.Libc:
    return fetched(request.param)


HUGETLB = [  # the last so that much is forgotten: then it cannot be told what
    Scenario("hugetlb", (), "glibc.malloc.hugetlb=2", machine=lambda: kernel.huge_page_pool(128)),
    Scenario("hugetlb-main", ("--threads", "0"), "glibc.malloc.hugetlb=2", machine=lambda: kernel.huge_page_pool(128)),
    Scenario(
        "hugetlb-more",
        ("--threads", "2", "--operations", "60000"),
        "glibc.malloc.hugetlb=2",
        machine=lambda: kernel.huge_page_pool(400),
    ),
]


@pytest.mark.nearest
@pytest.mark.parametrize("scenario", HUGETLB, ids=str)
def test_hugetlb(
    scenario: Scenario, libc: debian.Libc, churn_program: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """What malloc has on hugetlb pages stands beside the ledger, for the kernel does not count it in Rss.

    glibc 2.35 to 2.42 cannot unmap an mmapped block that realloc made smaller (munmap refuses a part of a huge page),
    and forgets it. Which blocks those are follows from mp_'s counts if only one choice of them does; else how many.
    """
    if libc.release < (2, 35):
        scenario = Scenario("ignored", scenario.options, scenario.tunables)
    with pressed(scenario, libc, churn_program, arenadump, tmp_path) as (_, p):
        if libc.release >= (2, 35):  # a clone would need huge pages of its own, and could get the target killed
            assert p.snapshots["clone"].dump.meta["mode"] == fmt.Mode.FREEZE
        for snapshot in p.snapshots.values():
            assert p.held - snapshot.in_use == set()
            forgotten = snapshot.in_use - p.held - p.baseline
            huge = [m for m in snapshot.before.mappings if m.counts["KernelPageSize"] == kernel.HUGE]
            if snapshot.dump.meta["flags"] & fmt.MetaFlag.EXACT:
                assert (forgotten, snapshot.warnings) == (set(), [])
            else:
                assert (2, 35) <= libc.release < (2, 43)
                (warning,) = snapshot.warnings
                assert f"{len(forgotten)} of the mmapped blocks shown as in use (" in warning
                assert "have been freed" in warning
                assert all(any(m.start <= chunk < m.end for m in huge) for chunk in forgotten)
            assert snapshot.dump.meta["torn_chunks"] == 0
            snapshot.check_pages()
            snapshot.check_sums()
            snapshot.check_harmless()
            counted = sum(m.counts["Private_Hugetlb"] for m in huge)
            ledger = snapshot.dump.totals["ledger"]
            if libc.release >= (2, 43):
                assert int(ledger["hugetlb"]) == counted > 8 * kernel.HUGE
            elif libc.release >= (2, 35):
                assert 8 * kernel.HUGE < int(ledger["hugetlb"]) <= counted
