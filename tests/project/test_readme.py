# SPDX-License-Identifier: MIT
"""Every command that README.md shows works as shown, and every link of the docs leads somewhere.

Blocks marked `console` hold commands behind "$ ". They run in the order in which they stand, in one directory, with PID
standing for the truth harness; those that begin with make are what .ci/run runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness, programs
from tools.paths import ROOT

README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.check
def test_what_it_tells_to_make_is_what_ci_makes() -> None:
    made = {command for command in commands() if command.startswith("make ")}
    assert made == {"make demo", "make test"}
    assert made <= set((ROOT / ".ci/run").read_text().splitlines())


def links_of(page: Path) -> set[str]:
    """The files, with their headings, that a page of Markdown links to in this repository."""
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    return {link for link in links if "://" not in link}


@pytest.mark.check
def test_links_lead_somewhere() -> None:
    """From README.md, CONTRIBUTING.md and the pages of docs/ to files that are there, and to headings in them."""
    assert "](http" not in README.read_text()
    assert links_of(README)
    broken = [f"{page.name}: {link}" for page in PAGES for link in links_of(page) if not leads(page, link)]
    assert broken == []


def leads(page: Path, link: str) -> bool:
    """Whether the file is there, and has the heading that the link names."""
    file, _, heading = link.partition("#")
    target = page.parent / file if file else page
    return target.exists() and (not heading or heading in headings(target))


def headings(page: Path) -> set[str]:
    """What the headings of a page of Markdown are called in links, as GitHub makes it of their text."""
    found: dict[str, int] = {}
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ +(.+)$", prose, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        found[words] = found.get(words, -1) + 1
    return {word if not number else f"{word}-{number}" for word, most in found.items() for number in range(most + 1)}


BUDGETS = {
    "README.md": 600, "CONTRIBUTING.md": 900, "agent.md": 2200, "architecture.md": 1200, "benchmarks.md": 1000,
    "dump-format.md": 1300, "experiments.md": 1800, "findings.md": 1500, "first-aid.md": 1000, "glossary.md": 920,
    "hazards.md": 2500, "injection.md": 2000, "kernels.md": 850, "ledger.md": 3500, "libc-layout.md": 920,
    "live.md": 1200, "over-time.md": 2500, "owners.md": 3200, "profile.md": 2800, "python-api.md": 800,
    "recognisers.md": 1200, "recorder.md": 2000, "releases.md": 700, "report.md": 1200, "ruby.md": 1000,
    "safety.md": 3000, "SECURITY.md": 350, "testing.md": 1000, "trace-format.md": 1200, "trim.md": 1000,
    "user-guide.md": 3000,
}  # fmt: skip


def words_of(page: Path) -> int:
    """The words of a page, but those of the tables that programs make."""
    made = r"<!-- (?:scripts/records|make \w+ writes this): .*?<!-- (?:end|to here) -->"
    text = re.sub(made, "", page.read_text(), flags=re.DOTALL)
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


@pytest.mark.check
def test_each_page_keeps_to_its_budget() -> None:
    """A page that grows is one that says a fact twice, or wants to be two pages; all of them have 45,000 words."""
    assert {page.name: words_of(page) for page in PAGES if words_of(page) > BUDGETS.get(page.name, 0)} == {}
    assert BUDGETS.keys() == {page.name for page in PAGES}
    assert sum(map(words_of, PAGES)) <= 45_000
    assert len(README.read_text().splitlines()) <= 90


@pytest.mark.check
def test_each_page_is_linked() -> None:
    linked = {link.partition("#")[0].rpartition("/")[2] for page in PAGES for link in links_of(page)}
    named = {file.name for file in (ROOT / "docs").glob("*") if file.suffix in {".md", ".json"}}
    assert named - linked == set()


@pytest.mark.nightly("packaging")
@pytest.mark.slow
def test_commands_work(tmp_path: Path) -> None:
    shown = [command for command in commands() if not command.startswith("make ")]
    assert len(shown) > 5
    source = tmp_path / "arenascope"
    copy_working_tree(source)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "100"}
    program = programs.build("churn", "-lpthread")
    with harness.Churn([str(program)], directory=tmp_path) as churn:
        churn.ask("go")
        for command in shown:
            words = command.replace("PID", str(churn.pid)).removeprefix("sudo ")
            done = subprocess.run(
                ["bash", "-euc", words], cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        assert churn.held(), "the process was harmed"


def copy_working_tree(to: Path) -> None:
    """As a clone would be, with what is not committed yet."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
