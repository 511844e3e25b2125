# SPDX-License-Identifier: MIT
"""The patches for Ruby: one text for all, which applies to each release that Debian has the source of, and works."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tools import rubies
from tools.paths import ROOT

PATCHES = ROOT / "patches"
FROM_DEBIAN = [name for name, release in rubies.RELEASES.items() if release.suite]
BUILT = "3.1"


def check(*args: str) -> str:
    """What patches/check.py says."""
    done = subprocess.run(
        [sys.executable, PATCHES / "check.py", *args], capture_output=True, text=True, timeout=5400, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    if "not checked" in done.stdout and not os.environ.get("RUBY_SOURCES"):
        pytest.skip(done.stdout)
    return done.stdout


def core(name: str) -> str:
    """What a release's patch adds, without its indentation and the condition on which it trims."""
    text = rubies.RELEASES[name].patch.read_text(encoding="utf-8")
    added = "\n".join(line[1:].strip() for line in text.splitlines() if re.match(r"\+(?!\+\+ )", line))
    return re.sub(r"#if defined\((__GLIBC__|HAVE_MALLOC_TRIM)\)[^#]*(# include <malloc.h>\n)?", "", added)


def test_each_release_has_one() -> None:
    assert set(PATCHES.glob("*.patch")) == {release.patch for release in rubies.RELEASES.values()}


@pytest.mark.parametrize("name", rubies.RELEASES)
def test_one_text_for_all(name: str) -> None:
    assert "malloc_trim(0);" in core(name)
    assert core(name) == core(BUILT)


@pytest.mark.nightly("patches")
@pytest.mark.parametrize("name", FROM_DEBIAN)
def test_applies(name: str) -> None:
    assert f"{rubies.RELEASES[name].patch.name} applies to {name}." in check("--apply", name)


@pytest.mark.nightly("patches")
@pytest.mark.slow
def test_works() -> None:
    """Built and run: see check.py."""
    said = check(BUILT)
    assert "tests pass, without trims and with them" in said
    assert len(said.splitlines()) == 5
