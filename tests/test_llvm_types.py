# SPDX-License-Identifier: MIT
"""Containers of LLVM, of tests/programs/llvm.cc, which knows its chunks."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_libraries import check, running
from tools import debian, holding, tiers


def build(compiler: str) -> Path:
    try:
        return holding.build("llvm", compiler)
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_containers(compiler: str) -> None:
    with running(build(compiler)) as (pid, kinds):
        names = check(pid, kinds)
    assert names["StringMap table (LLVM)"] >= 20  # the library has some, too
