# SPDX-License-Identifier: MIT
"""Kernels with Yama, as Debian's and Ubuntu's, by which a user may not inspect each process of his own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import harness
from tools.odd import running

from arenascope.errors import Code

SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

pytestmark = pytest.mark.alone


@pytest.fixture(params=[1, 2])
def scope(request: pytest.FixtureRequest) -> Iterator[int]:
    """What a machine of somebody has; never less than this one has."""
    if not SCOPE.exists():
        pytest.xfail("this machine does not allow it: its kernel has no Yama")
    before = int(SCOPE.read_text())
    if os.geteuid() != 0 or before > request.param:
        pytest.xfail("this machine does not allow it: only root may set kernel.yama.ptrace_scope, and to no less")
    SCOPE.write_text(str(request.param))
    yield request.param
    SCOPE.write_text(str(before))


def test_what_a_user_may_not_inspect(scope: int, arenadump: harness.Arenadump) -> None:
    """The message names the setting, and the line that permits it, where there is one; root may."""
    if subprocess.run([*AS_NOBODY, str(arenadump.path), "--version"], capture_output=True, check=False).returncode:
        pytest.xfail("this machine does not allow it: another user cannot reach the build")
    with running([*AS_NOBODY, "sh", "-c", "echo ready; exec cat"]) as pid:
        command = [*AS_NOBODY, str(arenadump.path), "summary", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == Code.DENIED
        assert f"kernel.yama.ptrace_scope is {scope}" in done.stderr
        assert ("sysctl kernel.yama.ptrace_scope=0" in done.stderr) == (scope == 1)
        assert "Traceback" not in done.stderr
        assert arenadump.run("summary", pid).returncode == Code.OK
