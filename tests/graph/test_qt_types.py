# SPDX-License-Identifier: MIT
"""Containers of Qt 5 and 6, of tests/programs/qt.cc, which knows its chunks."""

from __future__ import annotations

from collections import Counter

import pytest
from graph.test_libraries import check, running
from tools import holding, tiers


@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
@pytest.mark.parametrize("release", [5, 6])
def test_containers(release: int, compiler: str) -> None:
    with running(holding.build(f"qt{release}", compiler)) as (pid, kinds):
        names = check(pid, kinds)
    count = Counter(kinds.values())
    assert count["QHash"] == 120 > count["QString"] > 100
    assert names["QHash (Qt)"] >= 120
    assert names["QMap (Qt)"] == count["QMap"] == (80 if release == 5 else 0)
