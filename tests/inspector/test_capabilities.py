# SPDX-License-Identifier: MIT
"""Which capabilities it takes to inspect another user's process, and what a refusal says."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import harness
from tools.odd import needs_root
from tools.running import started

from arenascope.errors import Code

OWNER, NOBODY = 64000, 65534
TRACES, OPENS, OVERRIDES = "sys_ptrace", "dac_read_search", "dac_override"


@pytest.fixture(scope="module")
def program(arenadump: harness.Arenadump) -> Iterator[Path]:
    """An arenadump that any user may start, with its agent."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        shutil.copy(harness.agent_path(arenadump.path), folder)
        yield Path(shutil.copy(arenadump.path, folder))


@pytest.fixture(scope="module")
def other() -> Iterator[int]:
    """The process of a user who is nobody's."""
    user = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
    with started([*user, "sh", "-c", "echo ready; exec sleep 1000"], "ready") as pid:
        yield pid


def asked(program: Path, pid: int, *capabilities: str, command: str = "summary") -> subprocess.CompletedProcess[str]:
    held = ",".join(f"+{name}" for name in capabilities)
    given = [f"--inh-caps={held}", f"--ambient-caps={held}"] if held else []
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *given]
    return subprocess.run([*user, str(program), command, str(pid)], capture_output=True, text=True, check=False)


@needs_root
@pytest.mark.parametrize("opens", [OPENS, OVERRIDES])
def test_both_suffice(program: Path, other: int, opens: str) -> None:
    done = asked(program, other, TRACES, opens)
    assert done.returncode == Code.OK, done.stderr


@needs_root
def test_nothing_is_loaded_that_would_not_answer(program: Path, other: int) -> None:
    done = asked(program, other, TRACES, OVERRIDES, command="inject")
    assert done.returncode == Code.DENIED
    assert f"runs as user {OWNER} and arenadump as user {NOBODY}: the agent serves its own user and root" in done.stderr
    assert "arenascope" not in Path(f"/proc/{other}/maps").read_text()


@needs_root
@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ((), "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, which are missing"),
        ((TRACES,), "CAP_DAC_READ_SEARCH, which is missing"),
        ((OPENS,), "CAP_SYS_PTRACE, which is missing"),
    ],
    ids=["none", "traces", "opens"],
)
def test_a_refusal_names_what_is_missing(program: Path, other: int, held: tuple[str, ...], missing: str) -> None:
    done = asked(program, other, *held)
    assert done.returncode == Code.DENIED
    assert f"it belongs to user {OWNER} and arenadump runs as user {NOBODY}" in done.stderr
    assert done.stderr.rstrip().endswith(f"run as root, or with {missing}")


@needs_root
@pytest.mark.parametrize(
    ("without", "missing"),
    [
        (f"-{OPENS},-{OVERRIDES}", "CAP_DAC_READ_SEARCH is missing"),
        (f"-{TRACES}", "CAP_SYS_PTRACE is missing"),
    ],
)
def test_root_without_one(program: Path, other: int, without: str, missing: str) -> None:
    """As in a container that was started without the capability."""
    weak = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}"]
    done = subprocess.run([*weak, str(program), "summary", str(other)], capture_output=True, text=True, check=False)
    assert done.returncode == Code.DENIED
    assert missing in done.stderr


@needs_root
def test_the_doctor_knows_both(arenadump: harness.Arenadump) -> None:
    weak = ["setpriv", f"--bounding-set=-{OPENS},-{OVERRIDES}", f"--inh-caps=-{OPENS},-{OVERRIDES}"]
    command = [*weak, sys.executable, "-m", "arenascope", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "CAP_SYS_PTRACE is held, CAP_DAC_READ_SEARCH is not" in " ".join(done.stdout.split())
