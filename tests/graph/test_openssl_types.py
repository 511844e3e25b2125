# SPDX-License-Identifier: MIT
"""Structures of OpenSSL's libcrypto, of tests/programs/openssl.c, which knows its chunks."""

from __future__ import annotations

from collections import Counter

import pytest
from graph.test_libraries import check, running
from tools import holding, tiers


@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_tables_and_stacks(compiler: str) -> None:
    with running(holding.build("openssl", compiler)) as (pid, kinds):
        names = check(pid, kinds)
    count = Counter(kinds.values())
    assert names["LHASH (OpenSSL)"] >= count["LHASH"] == 40
    assert names["LHASH (OpenSSL)"] == names["LHASH table (OpenSSL)"]
    # Each of the tables that have shrunk has a fifth of its nodes.
    assert names["LHASH node (OpenSSL)"] >= count["LHASH node"] + sum(i * i * 8 for i in range(20))
