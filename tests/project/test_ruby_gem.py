# SPDX-License-Identifier: MIT
"""The gem in ruby-ext/: packed, installed elsewhere with warnings as errors, and tested as it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from tools import programs
from tools.paths import ROOT

GEM = ROOT / "ruby-ext"


@pytest.mark.nightly("gem")
@pytest.mark.slow
def test_what_people_get() -> None:
    if not shutil.which("rake"):
        pytest.skip("rake is not installed")
    env = {**os.environ, **programs.COMPILED_ANYWHERE}
    done = subprocess.run(
        ["rake", "test:installed"], cwd=GEM, env=env, capture_output=True, text=True, timeout=1800, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures, 0 errors" in done.stdout
    skipped = [line for line in done.stdout.splitlines() if "skipped: " in line]
    if skipped:
        pytest.skip("\n".join(skipped))
