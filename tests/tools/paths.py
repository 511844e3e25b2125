# SPDX-License-Identifier: MIT
"""Where the repository lies. Tests and tools ask here, so that a file may move without a change of its own."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PROGRAMS = TESTS / "programs"
