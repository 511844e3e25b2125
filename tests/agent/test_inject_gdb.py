# SPDX-License-Identifier: MIT
"""The agent carried into a process by gdb, and debuggers beside us."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import harness, odd, programs
from tools.injection import (
    SCRIPT,
    inject,
    loaded,
)


def gdb_is_able() -> bool:
    """Can gdb call functions here? Before release 14 it has no room for the registers that AMX brings."""
    answer = subprocess.run(["gdb", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    release = re.search(r"(\d+)\.\d+\S*$", answer)
    assert release, answer
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return int(release[1]) >= 14 or not flags or "amx_tile" not in flags[1].split()


def load_with_gdb(pid: int, agent: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["gdb", "-p", str(pid), "-batch", "-x", str(SCRIPT)],
        env={**os.environ, "ARENASCOPE_LIBRARY": str(agent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_gdb(agent: Path, arenadump: harness.Arenadump) -> None:
    """The script does the same, to a process whose every thread is in a storm; or says that this gdb cannot."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    process = subprocess.Popen([programs.build("allbusy"), "4"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        process.stdout.readline()
        done = load_with_gdb(process.pid, agent)
        if gdb_is_able():
            assert f"the agent is in process {process.pid}" in done.stdout, done.stdout + done.stderr
            assert inject(arenadump, process.pid)["how"] == "present"
        else:
            assert done.returncode == 1, done
            assert f"`arenascope inject {process.pid}`" in done.stderr, done.stderr
            assert not loaded(process.pid)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def test_gdb_harms_nobody_who_waits(agent: Path) -> None:
    """A wait with a time limit goes on as before, whether the script loads the agent or says that this gdb cannot.

    A gdb that fails to write all registers back leaves such a wait with an error that no program knows.
    """
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with odd.asleep() as process:
        done = load_with_gdb(process.pid, agent)
        assert (f"the agent is in process {process.pid}" in done.stdout) == gdb_is_able(), done.stdout + done.stderr
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)


def judge_of_the_gdb_script() -> Any:
    """why_not(), as it stands in the script, with the constants that it reads."""
    python = SCRIPT.read_text().partition("\npython\n")[2].partition("\nend\n")[0]
    wanted = ("why_not", "MOST_STATE", "DYNAMIC_SINCE")
    names: dict[str, Any] = {"re": re}
    for node in ast.parse(python).body:
        if (isinstance(node, ast.FunctionDef) and node.name in wanted) or (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in wanted
        ):
            exec(compile(ast.Module([node], []), str(SCRIPT), "exec"), names)
    return names["why_not"]


@pytest.mark.parametrize(
    ("version", "size", "amx", "able"),
    [
        ("13.1", 11008, True, False),  # Sapphire Rapids
        ("Debian 13.1-3", 11008, True, False),
        ("Ubuntu 12.1-0ubuntu1~22.04", 0, True, False),  # the kernel did not say how many
        ("13.1", 2704, False, False),  # a processor of another day
        ("13.1", 2696, False, True),  # AVX-512 and protection keys
        ("13.1", 832, False, True),  # AVX
        ("13.1", 2696, True, True),  # AMX that the kernel does not use
        ("13.1", 0, False, True),
        ("Fedora Linux 14.2-1.fc40", 11008, True, True),
        ("16.3", 11008, True, True),
        ("of tomorrow", 11008, True, False),  # not known to be able
    ],
)
def test_which_gdb_is_able(version: str, size: int, *, amx: bool, able: bool) -> None:
    reason = judge_of_the_gdb_script()(version, size, amx)
    assert (reason is None) == able
    assert able or version in reason


def test_a_debugger_may_attach_later(agent: Path, arenadump: harness.Arenadump) -> None:
    """It opens what is loaded by the name under which that was loaded, as a file of its own: never one of its pipes."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with odd.asleep() as process:
        assert inject(arenadump, process.pid)["how"] == "loaded"
        done = load_with_gdb(process.pid, agent)
        assert f"the agent is in process {process.pid} already" in done.stdout, done.stdout + done.stderr
