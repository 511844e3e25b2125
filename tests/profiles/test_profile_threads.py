# SPDX-License-Identifier: MIT
"""Which thread allocated: a program whose threads count their blocks, and what a profile says of them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile_python import RELEASES, command
from tools import debian, harness, programs, tiers
from tools.paths import PROGRAMS
from tools.profiling import profile, profiling
from tools.stage import Stage, kill, until
from tools.tab import Tab, write

from arenascope.profiles.folded import folded
from arenascope.profiles.pprof import encode
from arenascope.wire.dump import Dump
from arenascope.wire.profile import MEASURES, UNKNOWN_THREAD, Profile, Share, Site, StackThread, by_thread
from arenascope.wire.profile_json import profile_of, read_profile

PYTHON = PROGRAMS / "by_thread.py"
INTERPRETED = 9000  # bytes of its blocks, or more
KNOWN = 1023  # threads that the recorder's tables have room for
Truth = dict[int, tuple[int, str]]


@pytest.fixture(scope="session")
def program() -> Path:
    return programs.build_portable("by_thread")


def truth(path: Path) -> tuple[int, Truth]:
    """The program's pid, and of each thread how many blocks it keeps, and its name."""
    until(lambda: path.exists() and "end " in path.read_text(), f"no {path.name}")
    *lines, last = path.read_text().splitlines()
    words = [line.split() for line in lines]
    return int(last.split()[1]), {int(tid): (int(count), name) for tid, count, name in words}


def by_leaf(answer: dict[str, Any]) -> dict[int | None, int]:
    """How many blocks each thread has by the function that all call; all shares of each site are the site.

    Where the function is interpreted, those of more than INTERPRETED bytes: smaller ones are the interpreter's own.
    """
    counts: dict[int | None, int] = defaultdict(int)
    for site in answer["sites"]:
        for of in ("in_use", "allocated"):
            for each in ("count", "bytes"):
                assert sum(share[of][each] for share in site["threads"]) == site[of][each]
        use = site["in_use"]
        native = any(function["name"] == "leaf" for function in site["stack"][0]["functions"])
        large = use["count"] and use["bytes"] / use["count"] > INTERPRETED
        if native or (
            large and any(function["name"] == "leaf" for each in site["stack"] for function in each["functions"])
        ):
            for share in site["threads"]:
                tid = answer["threads"][share["thread"]]["tid"] if share["thread"] is not None else None
                counts[tid] += share["in_use"]["count"]
    return dict(counts)


def differing(found: dict[int | None, int], true: dict[int, int]) -> dict[int | None, tuple[int | None, int | None]]:
    """What each thread has and should have, where the two differ."""
    both = {tid: (found.get(tid), true.get(tid)) for tid in [*found, *true]}  # type: ignore[arg-type]
    return {tid: pair for tid, pair in both.items() if pair[0] != pair[1]}


def how_it_was(answer: dict[str, Any], true: dict[int, int]) -> dict[str, Any]:
    """What may say why a profile has not all blocks of each thread."""
    said = {each: answer[each] for each in ("mode", "lost", "without_stack", "unseen", "unsampled", "cut", "misses")}
    known = [thread["tid"] for thread in answer["threads"]]
    twice = sorted({tid for tid in known if tid is not None and known.count(tid) > 1})
    missing = sorted(true.keys() - set(known))
    return {**said, "without an id": known.count(None), "named twice": twice, "not named": missing}


def names(answer: dict[str, Any]) -> dict[int, str | None]:
    return {thread["tid"]: thread["name"] for thread in answer["threads"]}


def test_each_block_has_its_thread(
    stage: Stage, libc: debian.Libc, program: Path, arenadump: harness.Arenadump
) -> None:
    """A thread that has ended has its blocks, too, and so has the one that has its descriptor now."""
    file = stage.folder / "truth"
    stage.start(libc.command(program, str(file), "20"), ARENASCOPE_PROFILE="exact,bytes=1K")
    pid, threads = truth(file)
    answer = profile(arenadump, pid)
    assert answer["wrong"] == 0
    true = {tid: count for tid, (count, _) in threads.items()}
    assert differing(by_leaf(answer), true) == {}, how_it_was(answer, true)
    assert {tid: name or "-" for tid, name in names(answer).items() if tid in threads} == {
        tid: name for tid, (_, name) in threads.items()
    }


def test_a_child_of_fork_has_its_own(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """What was allocated before the fork is of its parent's threads, which the child does not have."""
    file = stage.folder / "truth"
    stage.start([str(program), str(file), "0", "fork"], ARENASCOPE_PROFILE="exact")
    parent, before = truth(file)
    child, _ = truth(stage.folder / "truth.child")
    try:
        answer = profile(arenadump, child)
        assert by_leaf(answer) == {**{tid: count for tid, (count, _) in before.items()}, child: 70}
        assert names(answer)[child] == "by_main"
        assert names(answer)[parent] is None
        assert by_leaf(profile(arenadump, parent)) == {tid: count for tid, (count, _) in before.items()}
    finally:
        kill(child)


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_threads_of_python(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """One line allocates, with one stack: in threads that come where others have ended, and in a child of fork()."""
    file = stage.folder / "truth"
    how, environment = command(release, str(file), program=PYTHON)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    until(lambda: file.exists() and Path(f"{file}.child").exists(), "it did not fork")
    parent, counts = ast.literal_eval(file.read_text())
    child, of_child = ast.literal_eval(Path(f"{file}.child").read_text())
    try:
        assert by_leaf(profile(arenadump, parent)) == counts
        assert by_leaf(profile(arenadump, child)) == of_child
    finally:
        kill(child)


def test_more_threads_than_there_is_room_for(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """The first have what is theirs, and what the others have is of nobody that is known."""
    file = stage.folder / "truth"
    stage.start([str(program), str(file), "1500"], ARENASCOPE_PROFILE="exact")
    pid, threads = truth(file)
    answer = profile(arenadump, pid)
    assert answer["wrong"] == 0
    found = by_leaf(answer)
    lost = found.pop(None)
    known = {tid: count for tid, count in found.items() if tid is not None}
    assert KNOWN - 1 <= len(known) <= KNOWN
    assert known == {tid: threads[tid][0] for tid in known}
    assert lost + sum(known.values()) == sum(count for count, _ in threads.values())


def test_many_threads_on_one_stack(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """The table of a profile of samples begins small: what several threads have there is in one chain."""
    file = stage.folder / "truth"
    stage.start([str(program), str(file), "900", "large"], ARENASCOPE_PROFILE="bytes=1")
    pid, threads = truth(file)
    answer = profile(arenadump, pid)
    assert answer["wrong"] == answer["lost"] == 0
    assert set(by_leaf(answer)) == set(threads)


def test_a_process_that_runs(stage: Stage, libc: debian.Libc, program: Path, arenadump: harness.Arenadump) -> None:
    """The agent is injected, and its own thread learns where libc keeps the ids of all."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    process = stage.start(libc.command(program, str(file), "10", "wait"), LD_PRELOAD="")
    until(Path(f"{file}.waiting").exists, "it does not wait")
    with profiling(arenadump, process.pid, dump, "--exact"):
        Path(f"{file}.go").touch()
        pid, threads = truth(file)
    answer = profile(arenadump, dump)
    assert by_leaf(answer) == {tid: count for tid, (count, _) in threads.items()}
    assert names(answer)[pid] == "by_main"


def test_an_agents_own_dump_has_the_sites(stage: Stage, program: Path, arenadump: harness.Arenadump) -> None:
    """Those of several threads are one; who was on them is not there."""
    file = stage.folder / "truth"
    stage.start([str(program), str(file), "0"], ARENASCOPE_PROFILE="exact")
    pid, threads = truth(file)
    answer = profile(arenadump, stage.ask(pid))
    leaves = [s for s in answer["sites"] if any(each["name"] == "leaf" for each in s["stack"][0]["functions"])]
    assert sum(s["in_use"]["count"] for s in leaves) == sum(count for count, _ in threads.values())
    assert answer["threads"] == []
    assert all(site["threads"] == [] for site in answer["sites"])


def test_what_people_get(stage: Stage, program: Path, arenadump: harness.Arenadump, browser: Any) -> None:
    """Commands, other tools' files and the page."""
    file, dump = stage.folder / "truth", stage.folder / "dump"
    stage.start([str(program), str(file), "3"], ARENASCOPE_PROFILE="exact")
    pid, threads = truth(file)
    arenadump.check("dump", pid, "-o", dump)
    read = profile_of(read_profile(str(dump)))
    whole: dict[str, int] = defaultdict(int)
    for site in read.sites:
        for share in site.shares:
            whole[share.title] += share.values["inuse_space"]
    worker = next(tid for tid, (_, name) in threads.items() if name == "worker-3")
    assert f"thread worker-3 ({worker})" in whole
    assert sum(whole.values()) == read.total("inuse_space")
    lines = folded(by_thread(read), "inuse_space").splitlines()
    assert all(line.startswith("thread ") for line in lines)
    said = arenascope("threads", str(dump), "--measure=inuse_objects")
    assert re.search(rf"\b4\d\d .* thread worker-3 \({worker}\)", said)
    assert f"thread worker-3 ({worker})" in arenascope("tree", str(dump), "--by-thread")
    assert "thread worker" not in arenascope("folded", str(dump))
    assert f"thread worker-3 ({worker});" in arenascope("folded", str(dump), "--by-thread")
    assert "not known by thread" in arenascope("tree", str(dump), "--by-thread", "--measure=pinned", code=None)
    tab = Tab(browser, write(stage.folder, Dump(dump)))
    tab.page.select_option("#flame-group", "threads")
    titles = tab.page.locator("#flame g text").all_text_contents()
    assert any(title.startswith("thread worker-3") for title in titles)
    tab.page.locator("#flame g", has_text="worker-3").first.click()
    assert not tab.page.locator("#flame-show").is_enabled(), "its calls have other numbers than the map's"
    off = tab.page.locator("#flame-measure option:disabled").all_text_contents()
    assert len(off) == 3, off
    tab.page.select_option("#flame-group", "functions")
    assert not tab.page.locator("#flame-measure option:disabled").count()
    assert not tab.said
    tab.context.close()


def arenascope(*words: str, code: int | None = 0) -> str:
    command = [sys.executable, "-m", "arenascope", "profile", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    assert code is None or done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_shares_that_are_not_known() -> None:
    """A profile of before, or a part of one, has a thread that is not known."""
    values = dict.fromkeys(MEASURES, 8)
    half = dict.fromkeys(MEASURES, 4)
    known = Site((), values, (Share(StackThread(7, "a"), half), Share(None, half)))
    titles = [site.frames[-1].names() for site in by_thread(Profile([known, Site((), values)])).sites]
    assert titles == [("thread a (7)",), (UNKNOWN_THREAD,), (UNKNOWN_THREAD,)]
    assert StackThread(7).title == "thread 7"
    assert encode(Profile([Site((), values)])) != encode(Profile([known]))
