# SPDX-License-Identifier: MIT
"""Every command that README.md shows works as shown.

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
from tools import debian, harness, programs

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_what_it_tells_to_make_is_what_ci_makes() -> None:
    made = {command for command in commands() if command.startswith("make ")}
    assert made == {"make demo", "make test"}
    assert made <= set((ROOT / ".ci/run").read_text().splitlines())


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert links
    assert [link for link in links if "://" in link or not (ROOT / link).exists()] == []


@pytest.mark.slow
def test_commands_work(tmp_path: Path) -> None:
    shown = [command for command in commands() if not command.startswith("make ")]
    assert len(shown) > 5
    source = tmp_path / "arenascope"
    copy_working_tree(source)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "100"}
    try:
        program = programs.build("churn", "-lpthread")
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))
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
