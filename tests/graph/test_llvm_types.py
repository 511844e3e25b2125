# SPDX-License-Identifier: MIT
"""Containers of LLVM, of tests/programs/llvm.cc, which knows its chunks."""

from __future__ import annotations

import pytest
from graph.test_libraries import check, running
from tools import holding, tiers


@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_containers(compiler: str) -> None:
    with running(holding.build("llvm", compiler)) as (pid, kinds):
        names = check(pid, kinds)
    assert names["StringMap table (LLVM)"] >= 20  # the library has some, too
