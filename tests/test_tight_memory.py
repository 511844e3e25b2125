# SPDX-License-Identifier: MIT
"""A clone of a process that writes costs memory, which counts against its cgroup: near a limit there is none.

On the code before, the kernel killed the clone and then the process, in each of these looks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, kernel, tight
from tools.exporting import exporting
from tools.postures import notes

MEGABYTES = 160  # a freeze would take too long for the default limit of 50 ms
LITTLE, MUCH = 24 << 20, 1 << 30
RUN = [sys.executable, "-m", "arenascope"]


@pytest.fixture
def group() -> Iterator[tight.TightCgroup]:
    try:
        made = tight.TightCgroup()
    except kernel.NotAllowedError as reason:
        pytest.skip(f"this machine does not allow it: {reason}")
    with made:
        yield made


@pytest.fixture
def target(group: tight.TightCgroup) -> Iterator[subprocess.Popen[str]]:
    try:
        with tight.running(group.path, MEGABYTES) as process:
            yield process
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


def check_unharmed(group: tight.TightCgroup, target: subprocess.Popen[str]) -> None:
    assert target.poll() is None, "the target was killed"
    assert group.kills() == 0


COMMANDS = {
    "summary": ["summary", "--json"],
    "types": ["types", "--json"],
    "owners": ["owners", "--json"],
    "leaks": ["leaks", "--json"],
    "why": ["why"],
    "dump": ["dump", "-o"],
    "trim": ["trim", "--forecast"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_look_gets_it_killed(
    command: str, arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path
) -> None:
    group.leave(LITTLE)
    words: list[str | int | Path] = [*COMMANDS[command]]
    words += [tmp_path / "dump"] if command == "dump" else []
    words += [target.pid, "0x1000"] if command == "why" else [target.pid]
    done = arenadump.run(*words)
    assert done.returncode == (2 if command == "why" else 0), done.stderr  # at that address is no chunk
    check_unharmed(group, target)


def test_summary_says_why(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    limit = group.leave(LITTLE)
    summary = arenadump.summary(target.pid)
    assert summary["snapshot"]["mode"] == "live"
    assert summary["snapshot"]["pause_ms"] == 0
    said = notes(summary)
    assert "a freeze would take longer than --max-pause" in said
    assert "might get it killed for lack of memory" in said
    assert f"({group.hard.name} {limit / 1e6:.1f} MB, used" in said
    assert group.path.name in said
    check_unharmed(group, target)


def mode_of(summary: dict[str, Any]) -> str:
    return str(summary["snapshot"]["mode"])


def test_each_mode(arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]) -> None:
    group.leave(LITTLE)
    frozen = arenadump.summary(target.pid, "--max-pause", "60s")
    assert mode_of(frozen) == "freeze"
    assert "clone" not in notes(frozen), "a freeze was the choice"
    asked = arenadump.summary(target.pid, "--mode", "snapshot")
    assert mode_of(asked) == "freeze"
    assert "the target was frozen while it was read, because it could not be cloned: a clone" in notes(asked)
    limited = arenadump.run("summary", "--mode", "snapshot", "--max-pause", "1us", target.pid)
    assert limited.returncode == 4
    assert mode_of(arenadump.summary(target.pid, "--mode", "live")) == "live"
    check_unharmed(group, target)


def test_with_room_it_is_cloned(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    group.leave(MUCH)
    summary = arenadump.summary(target.pid, "--mode", "snapshot")
    assert mode_of(summary) == "snapshot"
    assert "killed" not in notes(summary)
    check_unharmed(group, target)


def test_a_limit_further_up(arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    """Its own cgroup has none."""
    inner = group.inner("inner")
    with tight.running(inner, MEGABYTES) as target:
        group.leave(LITTLE)
        summary = arenadump.summary(target.pid, "--mode", "snapshot")
        assert mode_of(summary) == "freeze"
        assert f"its memory cgroup {group.path.relative_to(group.root).as_posix()}" not in notes(summary)
        assert f"/{group.path.name} has room for" in notes(summary)
        check_unharmed(group, target)


def test_where_it_would_be_slowed_down(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    """memory.high kills nobody, but lets whoever meets it wait for seconds."""
    if not group.unified:
        pytest.skip("memory.high is of version 2 of cgroups, and this machine's memory is with version 1")
    group.leave(LITTLE, soft=True)
    summary = arenadump.summary(target.pid, "--mode", "snapshot")
    assert mode_of(summary) == "freeze"
    assert "(memory.high " in notes(summary)
    check_unharmed(group, target)


def test_what_the_page_cache_takes_is_no_lack(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Most cgroups are full of it: the kernel takes it back where memory is needed, and kills nobody."""
    large = tmp_path / "large"
    large.write_bytes(bytes(1 << 20) * (MEGABYTES * 3 // 2))
    subprocess.run(["sync", large], check=True)
    read = f'echo $$ >"{group.path}/cgroup.procs" && dd if="{large}" iflag=nocache count=0 && cat "{large}" >/dev/null'
    subprocess.run(["sh", "-c", read], check=True, stderr=subprocess.DEVNULL)
    if group.usage < 2 * MEGABYTES << 20:
        pytest.skip(f"the files of {tmp_path} are not in the page cache, or are charged to somebody else")
    group.leave(LITTLE)
    summary = arenadump.summary(target.pid, "--mode", "snapshot")
    assert mode_of(summary) == "snapshot", notes(summary)
    check_unharmed(group, target)


def test_watch_top_and_exporter(group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path) -> None:
    group.leave(LITTLE)
    watch = [*RUN, "watch", str(target.pid), "--every", "1s", "--for", "4s", "-o", str(tmp_path / "timeline")]
    subprocess.run(watch, check=True, capture_output=True, timeout=120)
    check_unharmed(group, target)
    done = subprocess.run(
        [*RUN, "top", "--once", "--json", str(target.pid)], capture_output=True, timeout=120, check=True
    )
    assert json.loads(done.stdout)
    check_unharmed(group, target)
    with exporting(target.pid, eager=True) as exporter:
        exporter.after_turn()
    check_unharmed(group, target)
