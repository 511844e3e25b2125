# SPDX-License-Identifier: MIT
"""arm64, as the cores that qemu writes of the truth harness under the arm64 libc of each suite.

There is no second snapshot of such a process, so the truth is what the program itself told before it aborted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import fetched
from tools import debian, harness, programs


@dataclass
class Core:
    libc: debian.Libc
    path: Path
    before: Path  # another one, of a process that had not churned yet
    held: dict[int, tuple[int, int]]
    mallinfo: dict[str, int]


pytestmark = pytest.mark.nightly("emulation")


@pytest.fixture(scope="module", params=debian.SUITES)
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    libc = fetched(request.param, "arm64")
    debian.emulator()
    program = programs.build_portable("churn", "arm64")
    directory = tmp_path_factory.mktemp("core")
    command = harness.under(libc, program, "--threads", "4", "--seed", "4")
    with harness.Churn(command, directory=directory, core=True) as churn:
        before = aborted(churn, directory / "before.core")
    with harness.Churn(command, directory=directory, core=True) as churn:
        churn.ask("go")
        held, mallinfo = churn.held(), churn.mallinfo()
        yield Core(libc, aborted(churn, directory / "after.core"), before, held, mallinfo)
    shutil.rmtree(directory)  # cores are large


def aborted(churn: harness.Churn, name: Path) -> Path:
    """The core that qemu writes when the program aborts, under a name of our choice."""
    with pytest.raises(AssertionError, match="the program died"):
        churn.ask("abort")
    (path,) = name.parent.glob("qemu_*.core")
    return path.rename(name)


def test_in_use_is_what_the_program_holds(core: Core, arenadump: harness.Arenadump) -> None:
    in_use = arenadump.chunks(core.path)["in_use"]
    assert core.held.keys() - in_use.keys() == set(), "held, but not found in use"
    # Addresses vary from process to process, so libc's own chunks can only be counted; some may be free again.
    own = len(arenadump.chunks(core.before)["in_use"])
    assert 0 < len(in_use.keys() - core.held.keys()) <= own < 20
    wrong = {a: (in_use[a], usable) for a, (_, usable) in core.held.items() if in_use[a] - usable not in (8, 16)}
    assert wrong == {}


def test_summary_agrees_with_mallinfo(core: Core, arenadump: harness.Arenadump) -> None:
    summary = arenadump.summary(core.path)
    info, counts = core.mallinfo, summary["chunks"]
    assert summary["target"]["kind"] == "core"
    assert summary["target"]["arch"] == "aarch64"
    assert info["arena"] == sum(arena["system_mem"] for arena in summary["arenas"])
    assert info["ordblks"] == counts["binned"]["count"] + len(summary["arenas"])
    assert info["smblks"] == counts["fastbin"]["count"]
    assert info["fordblks"] == sum(counts[name]["bytes"] for name in ("fastbin", "binned", "top"))
    assert info["hblks"] == counts["mmapped"]["count"]
    assert summary["snapshot"]["torn_chunks"] == 0


def test_residency_is_unknown_not_zero(core: Core, arenadump: harness.Arenadump) -> None:
    summary = arenadump.summary(core.path)
    assert summary["kernel"]["rss"] is None
    assert summary["ledger"]["in_use"] is None
    assert summary["forecast"]["malloc_trim"] is None
