# SPDX-License-Identifier: MIT
"""How the developer's build is set up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.check


def test_a_warning_stops_the_developers_build() -> None:
    """It stops nobody else's: tests/test_packaging.py."""
    options = json.loads((ROOT / "build/meson-info/intro-buildoptions.json").read_text())
    assert {each["name"]: each["value"] for each in options}["werror"]
