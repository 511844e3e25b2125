# SPDX-License-Identifier: MIT
"""Pages in swap that are read come back, and count against the target's cgroup: where there is no room, none is read.

On the code before, the kernel killed the target in each of these snapshots, however much swap was free.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspector.test_tight_memory import COMMANDS, check_unharmed, is_so
from tools import harness, kernel, tight
from tools.postures import notes

pytestmark = pytest.mark.alone

MEGABYTES = 120
SWAPPED = 60 << 20  # of these, at least
LITTLE, MUCH = 4 << 20, 1 << 30


def swapped(pid: int) -> int:
    return kernel.total(kernel.smaps(pid), "Swap")


def kernel_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@contextlib.contextmanager
def swapped_out(group: tight.TightCgroup, inside: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A target that does nothing, most of which is in swap."""
    with tight.running(inside or group.path, MEGABYTES, "late") as process:
        assert is_so(lambda: kernel_state(process.pid) == "S")  # until then it may touch its memory
        group.hard.write_text(str((MEGABYTES * 1000000 - SWAPPED) * 3 // 4))
        assert swapped(process.pid) >= SWAPPED
        yield process


def close_swap(group: tight.TightCgroup) -> None:
    """Nothing of it can be moved to swap any more."""
    if group.unified:
        (group.path / "memory.swap.max").write_text("0")
    else:
        usage = (group.path / "memory.memsw.usage_in_bytes").read_text()
        (group.path / "memory.memsw.limit_in_bytes").write_text(usage)


# At why's address is no chunk. Of trim's arenas there may be none that can be read.
ENDS = {"why": (0, 2), "trim": (0, 4)}


@pytest.mark.usefixtures("swap")
@pytest.mark.parametrize("swap_is", ["free", "full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_snapshot_gets_it_killed(
    command: str, swap_is: str, arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path
) -> None:
    with swapped_out(group) as target:
        group.leave(LITTLE)
        if swap_is == "full":
            close_swap(group)
        before = swapped(target.pid)
        for mode in ("auto", "live"):
            words: list[str | int | Path] = [*COMMANDS[command]]
            words += [tmp_path / mode] if command == "dump" else []
            words += ["--mode", mode, target.pid, *(["0x1000"] if command == "why" else [])]
            done = arenadump.run(*words)
            check_unharmed(group, target)
            assert done.returncode in ENDS.get(command, (0,)), done.stderr
            assert done.returncode != 4 or "no arena of process" in done.stderr
        assert swapped(target.pid) >= before - LITTLE


def of_swap(summary: dict[str, Any]) -> str:
    """What the answer says of what it lacks."""
    return notes(summary, "residency")


@pytest.mark.usefixtures("swap")
def test_what_is_not_read_is_unknown(arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    with swapped_out(group) as target:
        limit = group.leave(LITTLE)
        summary = arenadump.summary(target.pid)
        check_unharmed(group, target)
    assert summary["snapshot"]["mode"] == "live"
    assert not summary["snapshot"]["exact"]
    assert f"{summary['kernel']['swap']} bytes" in of_swap(summary)
    assert f"/{group.path.name} has room for" in of_swap(summary)
    assert f"({group.hard.name} {limit / 1e6:.1f} MB" in of_swap(summary)
    assert summary["kernel"]["swap"] >= SWAPPED
    ledger = summary["ledger"]
    assert ledger["unknown"] > summary["kernel"]["rss"] / 4, ledger  # most of it, as the first chunks are in swap
    assert "cannot be read" in notes(summary, "corrupt")


@pytest.mark.usefixtures("swap")
@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_it_is_not_stopped(mode: str, arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    """Its threads would touch memory of their own when they run on."""
    with swapped_out(group) as target:
        group.leave(LITTLE)
        done = arenadump.run("summary", "--mode", mode, target.pid)
        assert done.returncode == 4, done.stdout
        assert f"/{group.path.name} has room for" in done.stderr
        check_unharmed(group, target)


@pytest.mark.usefixtures("swap")
def test_a_limit_further_up(arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    with swapped_out(group, group.inner("inner")) as target:
        group.leave(LITTLE)
        summary = arenadump.summary(target.pid)
        assert f"/{group.path.name} has room for" in of_swap(summary)
        check_unharmed(group, target)


@pytest.mark.usefixtures("swap")
@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_with_room_it_is_read(mode: str, arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    """What a clone takes is no more than what comes back: what it shares with the target is not copied by a read."""
    with swapped_out(group) as target:
        group.leave(MUCH)
        had, before = group.usage, swapped(target.pid)
        summary = arenadump.summary(target.pid, "--mode", mode, "--max-pause", "600s")
        assert summary["snapshot"]["mode"] == mode
        assert summary["snapshot"]["exact"] == (mode != "live")
        assert of_swap(summary) == ""
        assert summary["ledger"]["unknown"] == 0
        assert group.peak() - had < before * 3 // 2
        check_unharmed(group, target)


@pytest.mark.usefixtures("swap")
def test_a_clone_has_room_for_what_comes_back_and_is_copied(
    arenadump: harness.Arenadump, group: tight.TightCgroup
) -> None:
    """A page in swap that the clone has read counts once, and once more when the target writes to it."""
    with swapped_out(group) as target:
        resident, away = (kernel.total(kernel.smaps(target.pid), name) for name in ("Anonymous", "Swap"))
        group.leave(resident + away + (40 << 20))
        summary = arenadump.summary(target.pid, "--mode", "clone", "--max-pause", "600s")
        assert summary["snapshot"]["mode"] == "freeze"
        assert "up to" in notes(summary)
        check_unharmed(group, target)


@pytest.mark.usefixtures("swap")
def test_its_arguments_are_memory_too(arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    """The kernel reads them from its stack."""
    with swapped_out(group) as target:
        stack = [(m.start, m.end) for m in kernel.smaps(target.pid) if m.path == "[stack]"]
        group.leave(MUCH)
        kernel.advise(target.pid, stack, kernel.MADV_PAGEOUT)
        group.leave(LITTLE)
        (_, end) = stack[0]
        assert kernel.residency(target.pid, end - kernel.PAGE, end) == [kernel.SWAPPED]
        assert arenadump.summary(target.pid)["target"]["cmdline"] is None
        assert kernel.residency(target.pid, end - kernel.PAGE, end) == [kernel.SWAPPED]
        check_unharmed(group, target)
        group.leave(MUCH)
        assert "late" in arenadump.summary(target.pid)["target"]["cmdline"]


@pytest.mark.usefixtures("swap")
def test_top_says_so(group: tight.TightCgroup) -> None:
    with swapped_out(group) as target:
        group.leave(LITTLE)
        words = [sys.executable, "-m", "arenascope", "top", "--once", "--json", str(target.pid)]
        done = subprocess.run(words, capture_output=True, timeout=120, check=True)
        (process,) = json.loads(done.stdout)["processes"]
        assert process["snapshot"]["exact"] is False
        check_unharmed(group, target)
