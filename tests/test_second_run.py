# SPDX-License-Identifier: MIT
"""scripts/test-python: what a second run may excuse, and what it may not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

AT_NIGHT = pytest.mark.nightly("limits")
SCRIPT = Path(__file__).resolve().parents[1] / "scripts/test-python"
UNSTABLE = """
def test_unstable():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
BROKEN = """
@pytest.mark.parametrize("number", range({}))
def test_broken(number):
    raise ValueError
"""

WAITS = """
def test_waits():
    with subprocess.Popen(["sh", "-c", "while kill -0 $PPID; do sleep 0.1; done"]):  # as long as pytest is there
        raise ValueError  # Popen waits for it first
"""


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    values = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    values |= {"ARENASCOPE_PYTHON": sys.executable, **variables}
    return subprocess.run([SCRIPT], cwd=folder, env=values, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("tests", "ci", "status", "said"),
    [
        pytest.param(UNSTABLE, "true", 0, "unstable, as each passed alone:\ntest_it.py::test_unstable", id="unstable"),
        pytest.param(UNSTABLE, "", 1, "1 failed, 1 passed", id="unstable, and not in CI", marks=AT_NIGHT),
        pytest.param(UNSTABLE + BROKEN.format(1), "true", 1, "1 failed, 1 passed", id="broken"),
        pytest.param(
            UNSTABLE + BROKEN.format(5),
            "true",
            1,
            "6 tests failed, which is too many",
            id="many broken",
            marks=AT_NIGHT,
        ),
        pytest.param("import nothing_like_it", "true", 2, "1 error", id="no tests can be collected"),
    ],
)
def test_who_fails_twice_fails(tests: str, ci: str, status: int, said: str, tmp_path: Path) -> None:
    """And whoever fails once is named."""
    (tmp_path / "test_it.py").write_text(f"from pathlib import Path\nimport pytest\ndef test_right(): pass\n{tests}")
    done = run(tmp_path, CI=ci)
    assert done.returncode == status, done.stdout
    assert said in done.stdout


def test_who_waits_for_ever_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"import subprocess\n{WAITS}")
    done = run(tmp_path, CI="true", TEST_SECONDS="3")
    assert done.returncode == 1, done.stdout
    assert "Timeout (>3.0s)" in done.stdout
