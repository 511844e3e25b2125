# SPDX-License-Identifier: MIT
"""Dumps at each so many bytes allocated, of `watch` and of the agent, over a program that allocates known sums."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent.test_agent_dump_at import has, holding, quiet
from timeline.test_dump_folder import files
from timeline.test_timeline import MIB, next_line
from timeline.test_triggers import watching
from tools import harness, programs
from tools.profiling import profiling
from tools.stage import Stage, until

from arenascope.watch.triggers import allocated_by
from arenascope.wire.dump import Dump

pytestmark = pytest.mark.usefixtures("own_arenadump")
# One sample in 16 KiB: 64 MiB are 4096 samples, which is 1.6 % of standard deviation.
RATES = "bytes=16K"
SIZE = 1000  # bytes of a block
# Allocates so many MiB in blocks that are freed at once; a child does, after the word "fork", and 50 at once.
CHURNS = f"""
import os, sys, time
def churn(megabytes):
    for _ in range(megabytes * {MIB} // {SIZE + 1}):
        bytearray({SIZE})
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("fork"):
        if os.fork():
            os.wait()
            continue
        churn(50)
        end = time.process_time() + 0.5  # a timer starts the agent's thread
        while time.process_time() < end:
            sum(range(10000))
        print(os.getpid(), flush=True)
    else:
        churn(int(line))
        print("done", flush=True)
"""


def churn(child: subprocess.Popen[str], megabytes: int) -> None:
    assert child.stdin
    print(megabytes, file=child.stdin, flush=True)
    assert next_line(child) == "done\n"


def near(dump: Path, megabytes: int) -> bool:
    """Five standard deviations."""
    known = allocated_by(Dump(dump))
    return known is not None and abs(known.bytes - megabytes * MIB) < 0.1 * megabytes * MIB


def test_the_agent_writes_one_at_each_step(stage: Stage) -> None:
    with holding(stage, "allocated=64M", CHURNS, ARENASCOPE_PROFILE=RATES) as child:
        assert next_line(child) == "ready\n"
        churn(child, 50)
        quiet(stage, 0)
        churn(child, 20)
        has(stage, "allocated")
        churn(child, 50)
        quiet(stage, 1)
        churn(child, 20)
        has(stage, "allocated", "allocated")
        first, second = files(stage.folder / "dumps")
        assert near(first, 70)
        assert near(second, 140)


def test_a_child_counts_from_its_birth(stage: Stage) -> None:
    with holding(stage, "allocated=64M", CHURNS, ARENASCOPE_PROFILE=RATES) as child:
        assert next_line(child) == "ready\n"
        churn(child, 70)
        has(stage, "allocated")
        churn(child, 50)
        assert child.stdin
        print("fork", file=child.stdin, flush=True)
        pid = int(next_line(child))
        try:
            stage.logged(rf"\[{pid}\]: ready")
            quiet(stage, 1)
            churn(child, 20)
            has(stage, "allocated", "allocated")
            assert sum(f".{pid}." in each.name for each in files(stage.folder / "dumps")) == 1
        finally:
            os.kill(pid, 9)


def test_the_end_of_the_profile_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    with holding(stage, "allocated=8M,rss=1G", CHURNS, ARENASCOPE_PROFILE=RATES) as child:
        assert next_line(child) == "ready\n"
        arenadump.check("profile", child.pid, "--stop")
        stage.logged("no dump for allocated= as long as no profile is made")
        churn(child, 20)
        quiet(stage, 0)
        with profiling(arenadump, child.pid, stage.folder / "dump", f"--rates={RATES}"):
            churn(child, 20)
            has(stage, "allocated")


@pytest.mark.parametrize("rates", ["", "bytes=0"])
def test_the_agent_refuses_it_without_samples(stage: Stage, rates: str) -> None:
    with holding(stage, "allocated=1M", CHURNS, ARENASCOPE_PROFILE=rates) as child:
        assert next_line(child) == "ready\n"
        stage.logged("ARENASCOPE_DUMP_AT: allocated= needs a profile with samples")
        churn(child, 20)
        assert "dumps at a condition from now on" not in stage.log()


def test_run_asks_beforehand(agent: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ARENASCOPE_LIBRARY": str(agent)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "arenascope", "run", "--dump-at=allocated=1M", *words, "--", "true"]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    for words in ([], ["--rates=bytes=0"]):
        done = run(*words)
        assert done.returncode == 2
        assert "--dump-at: allocated= needs a profile with samples" in done.stderr
    for words in (["--profile"], ["--exact"], [f"--trace={tmp_path / 'record'}"]):
        assert run(*words).returncode == 0


@contextmanager
def churning(stage: Stage, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = stage.environment(**variables)
    command, pipe = [sys.executable, "-c", CHURNS], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, cwd=stage.folder) as child:
        try:
            assert next_line(child) == "ready\n"
            yield child
        finally:
            child.kill()


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for a watch: others may write to the stage's."""
    return tmp_path_factory.mktemp("watched")


def test_a_watch_keeps_one_at_each_step(stage: Stage, arenadump: harness.Arenadump, own: Path) -> None:
    with (
        churning(stage, ARENASCOPE_PROFILE=RATES) as child,
        watching(child.pid, own, "allocated=64M") as watched,
    ):
        churn(child, 100)
        assert watched.poll() == [], "the first snapshot is where it begins"
        churn(child, 50)
        assert watched.poll() == []
        churn(child, 20)
        assert watched.poll() == ["allocated"]
        assert near(files(own / "dumps")[0], 170)
        assert re.search(r"\(allocated: ~(6|7)\d\.\d MiB more, by samples\)", watched.says() or "")
        churn(child, 50)
        assert watched.poll() == ["allocated"]
        arenadump.check("profile", child.pid, "--stop")
        assert watched.poll() == ["allocated"]
        assert f"allocated, process {child.pid} (python" in (watched.says() or "")
        with profiling(arenadump, child.pid, stage.folder / "one", f"--rates={RATES}"):
            churn(child, 100)
            assert watched.poll() == ["allocated"], "another profile"
            churn(child, 70)
            assert watched.poll() == ["allocated"] * 2


def test_a_watch_of_one_process_without_a_profile_is_refused(stage: Stage, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "arenascope", "watch", "--dump-at=peak,allocated=1G", f"-o{tmp_path / 'timeline'}"]

    def refused(pid: int, why: str) -> None:
        done = subprocess.run([*command, str(pid)], capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, why in done.stderr) == (5, True), done.stderr
        assert list(tmp_path.iterdir()) == []

    with churning(stage, LD_PRELOAD="") as child:
        refused(child.pid, "has no profile")
    with churning(stage, ARENASCOPE_PROFILE="bytes=0") as child:
        refused(child.pid, "takes no samples")


def test_of_a_group_each_is_told_of(stage: Stage, own: Path) -> None:
    with (
        churning(stage, LD_PRELOAD="") as child,
        watching(child.pid, own, "peak,allocated=1M") as watched,
    ):
        watched.poll()
        churn(child, 20)
        watched.poll()
        said = [line for line in watched.said if "allocated" in line]
        assert len(said) == 1
        assert "not known without a profile with samples" in said[0]
        until(lambda: watched.kinds() == [], "a dump")


@contextmanager
def on_many_stacks(stage: Stage, rates: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    environment = stage.environment(ARENASCOPE_PROFILE=rates, **more)
    with subprocess.Popen(
        [str(programs.build("many_stacks"))], env=environment, stdin=pipe, stdout=pipe, text=True
    ) as child:
        try:
            assert next_line(child) == "ready\n"
            yield child
        finally:
            child.kill()


def allocate(child: subprocess.Popen[str], stacks: int) -> int:
    """By so many stacks more: how many bytes it has allocated."""
    assert child.stdin
    print(stacks, file=child.stdin, flush=True)
    return int(next_line(child))


def sums(arenadump: harness.Arenadump, target: int | Path) -> tuple[int, int]:
    """What a profile says was allocated, with a stack and without one."""
    said = arenadump.check("sites", "--json", target)
    # Two million frames are not inspected, and take seconds to read.
    found = json.loads(re.sub(r'"stacks":\s*\{[^{}]*\}', '"stacks": {}', said))
    assert found["stacks"] == {}
    without = found["allocated_without_stack"]
    # Each sample's number is in 1/1024, and its bytes are whole.
    assert abs(without["bytes"] - SIZE * without["count"]) <= SIZE + found["samples"]
    return sum(site["allocated"]["bytes"] for site in found["sites"]), without["bytes"]


@pytest.mark.nightly("limits")
def test_what_was_allocated_without_a_stack_counts(stage: Stage, arenadump: harness.Arenadump, own: Path) -> None:
    """The tables have room for the frames of some 8,600 such stacks."""
    with (
        on_many_stacks(stage, f"{RATES},memory=64M") as child,
        watching(child.pid, own, "allocated=64M") as watched,
    ):
        whole = allocate(child, 12000)
        assert watched.poll() == [], "the first snapshot is where it begins"
        dump = stage.folder / "dump"
        arenadump.check("dump", child.pid, "-o", dump)
        for target in (child.pid, dump):
            known, lost = sums(arenadump, target)
            assert abs(known + lost - whole) < 0.07 * whole  # six standard deviations
            assert 0.1 * whole < lost < 0.4 * whole
        read = allocated_by(Dump(dump))
        assert read
        assert read.bytes == known + lost
        assert f"allocated without a stack: {lost / MIB:.1f} MiB (estimate)" in arenadump.check("sites", dump)
        top = [sys.executable, "-m", "arenascope", "profile", "top", str(dump)]
        said = subprocess.run(top, capture_output=True, text=True, check=True).stdout
        assert f"{lost / MIB:.1f} MiB (estimate) was allocated without a stack." in said
        assert watched.poll() == []
        more = allocate(child, 2000) - whole
        assert watched.poll() == ["allocated"]
        now, lost_now = sums(arenadump, child.pid)
        assert now == known, "each new stack is lost"
        assert abs(lost_now - lost - more) < 0.1 * more


def test_the_agent_counts_it_too(stage: Stage, arenadump: harness.Arenadump) -> None:
    wanted = {"ARENASCOPE_DUMP_AT": "allocated=512M", "ARENASCOPE_DUMPS": str(stage.folder / "dumps")}
    with on_many_stacks(stage, f"{RATES},memory=64M", **wanted) as child:
        allocate(child, 12000)
        known, _ = sums(arenadump, child.pid)
        allocate(child, 4000)
        has(stage, "allocated")
        dump = files(stage.folder / "dumps")[0]
        at, lost = sums(arenadump, dump)
        assert at <= known < 430 * MIB, "those with a stack alone are not enough"
        assert at + lost >= 512 * MIB
