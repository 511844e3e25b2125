# SPDX-License-Identifier: MIT
"""Which tests a tier has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools import debian, tiers
from tools.paths import ROOT


@pytest.mark.parametrize(
    ("machine", "suite"),
    [("2.36", "bookworm"), ("2.39", "bookworm"), ("2.31", "bullseye"), ("2.28", "bullseye"), ("3.0", "experimental")],
)
def test_the_suite_that_is_nearest(machine: str, suite: str) -> None:
    assert debian.nearest_suite(machine) == suite


def test_of_two_suites_none_is_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in debian.SUITES:
        monkeypatch.setenv("NEAREST_LIBC", suite)
        assert tiers.own_libc() == suite, "a virtual machine's disk has no other"
        daily = tiers.daily_libcs()
        assert len(set(daily)) == 2
        assert {"bullseye", suite} <= set(daily)


TESTS = """
import pytest
LIBCS = pytest.param("other", marks=pytest.mark.nightly("libcs"))
@pytest.mark.check
def test_quick(): pass
def test_usual(): pass
@pytest.mark.nightly("gem")
@pytest.mark.parametrize("libc", ["own", LIBCS])
def test_gem(libc): pass
@pytest.mark.parametrize("libc", ["own", LIBCS])
def test_libc(libc): pass
@pytest.mark.nearest
@pytest.mark.parametrize("libc", ["bullseye", "trixie"])
def test_near(libc): pass
"""


def run_pytest(tests: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests of a folder under the project's own settings."""
    places = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tests), "--confcutdir", str(tests)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(ROOT / "tests"), "NEAREST_LIBC": "trixie"}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", *places, *arguments, str(tests)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("tier", "names"),
    [
        ("check", {"quick"}),
        ("test", {"quick", "usual", "libc[own]", "near[trixie]"}),
        ("gem", {"gem[own]", "gem[other]"}),
        ("libcs", {"libc[other]", "near[bullseye]"}),
        (
            "",
            {"quick", "usual", "gem[own]", "gem[other]", "libc[own]", "libc[other]", "near[bullseye]", "near[trixie]"},
        ),
    ],
)
def test_each_tier_has_its_tests(tier: str, names: set[str], tmp_path: Path) -> None:
    """Each runs in exactly one part; without a tier, all do."""
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run_pytest(tmp_path, "-q", "--collect-only", *([f"--tier={tier}"] if tier else []))
    found = {line.partition("::test_")[2] for line in done.stdout.splitlines() if "::" in line}
    assert found == names, done.stdout + done.stderr


WAITS = """
import subprocess
def test_waits():
    with subprocess.Popen(["sh", "-c", "while kill -0 $PPID; do sleep 0.1; done"]):  # as long as pytest is there
        raise ValueError  # Popen waits for it first
"""


def test_who_waits_for_ever_fails(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("timeout")) == 3600
    (tmp_path / "test_it.py").write_text(WAITS)
    done = run_pytest(tmp_path, "--timeout", "3")
    assert done.returncode == 1, done.stdout
    assert "Timeout (>3.0s)" in done.stdout
