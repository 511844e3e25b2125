# SPDX-License-Identifier: MIT
"""How the developer's build is set up, and what setup.py puts into the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tools import harness
from tools import synthetic_dump as synthetic
from tools.paths import ROOT


@pytest.mark.check
def test_a_warning_stops_the_developers_build() -> None:
    """It stops nobody else's: tests/project/test_packaging.py."""
    options = json.loads((ROOT / "build/meson-info/intro-buildoptions.json").read_text())
    assert {each["name"]: each["value"] for each in options}["werror"]


@pytest.mark.check
def test_each_source_is_distributed() -> None:
    """MANIFEST.in names them by how their names end: a file of another kind would be missing in the sdist alone."""
    (line,) = (line for line in (ROOT / "MANIFEST.in").read_text().splitlines() if " inspector " in line)
    listed = subprocess.run(["git", "ls-files", "inspector"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [Path(name).name for name in listed.stdout.splitlines()]
    assert len(files) > 500
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in line.split()[2:])] == []


def report(package: Path, arenadump: Path, folder: Path) -> tuple[int, str]:
    """Exit code and page of the package in this folder."""
    page = folder / "page.html"
    page.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(package), "ARENASCOPE_ARENADUMP": str(arenadump)}
    command = [sys.executable, "-m", "arenascope", "report", "-o", str(page), str(folder / "dump")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode, page.read_text(encoding="utf-8") if page.exists() else ""


def test_templates_are_compiled_when_the_package_is_built(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """And when they are used, where another release of Jinja2 has compiled them. The page is the same."""
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path / "built")],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    synthetic.write(tmp_path / "dump", synthetic.sections())
    wanted = report(ROOT / "visualize", arenadump.path, tmp_path)
    assert wanted[0] == 0
    templates = tmp_path / "built/arenascope/report/templates"
    sources = {path: path.read_bytes() for path in templates.glob("*.j2")}
    assert len(sources) > 20
    for path in sources:
        path.unlink()
    assert report(tmp_path / "built", arenadump.path, tmp_path) == wanted
    (templates / "compiled" / "jinja2.txt").write_text("3.0.0")
    assert report(tmp_path / "built", arenadump.path, tmp_path)[0] != 0, "what 3.0.0 compiled is not used"
    for path, text in sources.items():
        path.write_bytes(text)
    assert report(tmp_path / "built", arenadump.path, tmp_path) == wanted
