# SPDX-License-Identifier: MIT
"""The site of the docs, as sphinx-build makes it of README.md and docs/: `make site`.

A page that no line of NAVIGATION names, and a link that leads nowhere, end the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
NAVIGATION = {
    "Use": ("first-aid", "user-guide", "hazards", "report", "live", "over-time", "owners", "findings", "profile"),
    "Give back": (
        "trim",
        "agent",
        "ruby",
        "experiments",
        "../ruby-ext/README",
        "../patches/README",
        "../patches/article/README",
    ),
    "Contracts": ("ledger", "python-api", "dump-format", "trace-format", "safety", "kernels", "glossary"),
    "Inside": (
        "architecture",
        "injection",
        "recorder",
        "recognisers",
        "libc-layout",
        "testing",
        "benchmarks",
        "../CONTRIBUTING",
    ),
    "Project": ("releases", "../CHANGELOG", "../SECURITY"),
}

project = "arenascope"
copyright = "2026 the arenascope maintainers"  # noqa: A001 - sphinx's name
version = release = re.search(r"^\s*version:\s*'([^']+)'", (ROOT / "meson.build").read_text(), re.MULTILINE)[1]  # type: ignore[index]
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "patches/README.md", "patches/article/README.md", "ruby-ext/README.md"]
myst_heading_anchors = 4
html_theme = "furo"
templates_path = ["templates"]
html_sidebars = {
    "**": [
        *(f"sidebar/{each}.html" for each in ("brand", "search", "scroll-start", "navigation")),
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_title = f"arenascope {version}"
html_show_sourcelink = False
html_copy_source = False


def _with_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        for title, pages in NAVIGATION.items():
            places = "\n".join(page[3:] if page.startswith("../") else f"docs/{page}" for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{places}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by sphinx."""
    app.connect("source-read", _with_navigation)
