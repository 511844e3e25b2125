# SPDX-License-Identifier: MIT
"""The program that knows its call stacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import programs


@pytest.fixture(scope="session")
def sites() -> Path:
    return programs.build_portable("sites")
