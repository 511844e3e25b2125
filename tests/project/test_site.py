# SPDX-License-Identifier: MIT
"""The site of the docs: that of each release beside that of the working tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]


def test_each_release_has_its_own(tmp_path: Path) -> None:
    """A release has the pages that it had; each page leads to those of the others."""
    tree, made = tmp_path / "a tree", tmp_path / "made"

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tree), *words], check=True)

    subprocess.run(["git", "clone", "--quiet", "--no-local", "--depth=1", f"file://{ROOT}", str(tree)], check=True)
    git("tag", "v0.0.9")
    page = tree / "docs/trim.md"
    page.write_text(page.read_text().replace("# ", "# New: ", 1))
    git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--all", "--message=New")
    git("tag", "v0.0.10")
    subprocess.run([sys.executable, "packaging/site/versions.py", str(made)], cwd=tree, check=True)
    assert {path.name for path in made.iterdir()} == {"index.html", "latest", "0.0.10", "0.0.9"}
    assert "url=0.0.10/README.html" in (made / "index.html").read_text()
    for version, is_new in (("latest", True), ("0.0.10", True), ("0.0.9", False)):
        page = made / version / "docs/trim.html"
        assert ("<h1>New: " in page.read_text()) == is_new
        leads_to = re.findall(r'href="(\.\./\.\./[^/"]+/README\.html)"', page.read_text())
        assert leads_to == [f"../../{each}/README.html" for each in ("latest", "0.0.10", "0.0.9")]
        assert all((page.parent / each).exists() for each in leads_to)
