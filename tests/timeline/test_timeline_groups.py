# SPDX-License-Identifier: MIT
"""Types and owners in a timeline: as often as their share of a processor pays, and as a snapshot has them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

import pytest
from timeline.test_suspects import growing_by_type, growing_when_asked
from timeline.test_timeline import MIB, arenascope, group_of, intact, opened, take_of

from arenascope.compare.digest import Group, Named, Portion
from arenascope.timeline import named_totals
from arenascope.timeline.reader import digest_of_snapshot, groups_of, read
from arenascope.timeline.retention import HOUR, SECOND, PollTime, surplus
from arenascope.timeline.store import Poll
from arenascope.watch.budget import FIRST, SHARE, Budget, Costs, Deep
from arenascope.watch.loop import Watch
from arenascope.wire.how import How

pytestmark = pytest.mark.usefixtures("own_arenadump")


def test_types_and_owners_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing_when_asked(0, 0, 300) as (pid, grow):
        grow(24)
        plain, deep = (take_of(pid, How(mode="freeze", graph=graph)) for graph in (False, True))
        with opened(path) as file:
            for number, snapshot in enumerate((plain, deep)):
                file.add(Poll(snapshot.time_ns, 1, 1, number, 10, None, [snapshot]))
    first, last = (digest_of_snapshot(str(path), poll.snapshots[0].id)[0] for poll in intact(path).polls)
    assert first.types is first.owners is first.objects is None
    assert last.types == deep.digest.types
    assert last.owners == deep.digest.owners
    assert last.leaks == deep.digest.leaks
    assert last.types
    assert last.types.held("app::Entry") == Portion(300 * 1008, 300)


@pytest.mark.check
def test_what_is_not_listed_is_in_the_others() -> None:
    listed: dict[Hashable, Named] = {
        ("kind", f"{n}", None): Named(f"owner {n}", Portion(1000 - n, None)) for n in range(500)
    }
    listed["x" * 5000] = Named("long", Portion(1 << 20, None))
    document = named_totals._packed(Group(listed, whole=False, others=Portion(7, None)))
    assert len(document["listed"]) == named_totals.MOST
    assert document["whole"] is False
    assert document["others"] == [(1 << 20) + 7 + sum(1000 - n for n in range(200, 500)), None]
    assert named_totals._packed(Group(listed))["whole"] is False, "all were known, and are not all listed"
    back = named_totals.groups_from({"owners": json.loads(json.dumps(document)), "other": {}})
    assert back.keys() == {"owners"}
    assert back["owners"].held(("kind", "199", None)) == Portion(801, None)
    assert back["owners"].held(("kind", "200", None)) == Portion(None, None)


def test_a_digest_with_types_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    begun = time.time_ns() - 60 * SECOND
    with growing_when_asked(600 * MIB, 0, 0) as (pid, grow), opened(path) as file:
        for number in range(4):
            grow(20)  # a second of its own, for ten of the snapshots'
            snapshot = take_of(pid, How(mode="freeze", graph=number > 0))
            at = begun + 10 * number * SECOND
            file.add(Poll(at, 1, 1, number, 10, None, [replace(snapshot, time_ns=at)]))
        grow(20)
        done = arenascope("diff", f"{path}@first", f"{path}@last", "--graph", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        live = json.loads(arenascope("diff", f"{path}@last", pid, "--graph", "--json").stdout)
    ends = [digest_of_snapshot(str(path), read(str(path)).polls[at].snapshots[0].id)[0] for at in (1, -1)]
    held = [end.types.held("app::Session").bytes or 0 for end in ends if end.types]
    (line,) = [line for line in document["types"] if line["name"] == "app::Session"]
    assert [line["bytes"][name] for name in ("before", "after")] == held, (
        "the first snapshot has no types: the second has"
    )
    assert held[1] > held[0]
    assert line["bytes"]["per_minute"] == pytest.approx(60 * MIB, rel=0.001)
    for compared in (document, live):
        (owner,) = [line for line in compared["owners"] if "app::open_sessions" in line["name"]]
        assert owner["status"] == "both"
        assert owner["bytes"]["change"] > 0
    plain = json.loads(arenascope("diff", f"{path}@first", f"{path}@last", "--json").stdout)
    assert plain["types"] is None
    assert "graph" in {note["code"] for note in plain["notes"]}
    assert arenascope("diff", f"{path}@last,1", f"{path}@last", "--graph").returncode == 3


def test_the_first_minutes_may_cost_more() -> None:
    """Unless the user says what all may cost."""
    usual, given = Budget(None, 0.05), Budget(0.02)
    assert (usual.begins, usual.share) == (True, 0.05)
    usual._begun -= FIRST
    assert (usual.begins, usual.share) == (False, SHARE)
    assert (given.begins, given.share) == (False, 0.02)


def test_a_suspect_takes_longer_than_the_first_minutes() -> None:
    """After these a poll comes more rarely, and is not counted on before."""
    assert Budget(0.05).seconds(9, Costs(10.0, 4.0).interval) == pytest.approx(9 * 80)
    assert Budget(None, 0.05).seconds(9, Costs(10.0, 4.0).interval) == pytest.approx(4 * 80 + 5 * 800)
    assert Budget(None, 0.05).seconds(9, Costs(10.0, 0.1).interval) == pytest.approx(9 * 10)


def test_a_watch_says_when_suspects_can_be_known(tmp_path: Path) -> None:
    said: list[str] = []
    with growing_by_type(0, 0, 300) as pid, opened(tmp_path / "timeline") as file:
        Watch(file, group_of(pid), How(mode="freeze"), said.append, budget=Budget(None, 0.05)).poll(1e-6)
    (words,) = said
    assert (
        "to stay below 5 % of a processor in the first 5.0 min; a leak suspect takes 10 polls: the first can" in words
    )


@pytest.mark.parametrize("share", ["5", "0%", "0.05%", "101%", "all", "-1%"])
def test_a_budget_is_a_part_of_a_processor(tmp_path: Path, share: str) -> None:
    refused = arenascope("watch", os.getpid(), "-o", tmp_path / "timeline", "--budget", share)
    assert refused.returncode == 2
    assert "is not a part of a processor" in refused.stderr
    assert not (tmp_path / "timeline").exists()


def test_types_that_were_asked_for_are_not_proposed(tmp_path: Path) -> None:
    """After one poll, which has none: they come with the second."""
    path = tmp_path / "timeline"
    with growing_by_type(0, 0, 300) as pid:
        done = arenascope("watch", pid, "-o", path, "--graph", "--for", "1ms", "--budget", "100%")
    assert done.returncode == 0, done.stderr
    words = arenascope("timeline", path).stdout
    assert "types and owners were asked for, and no poll has them yet" in " ".join(words.split())
    assert "watch --graph does this" not in words


def test_types_cost_no_more_than_their_share(tmp_path: Path) -> None:
    said: list[str] = []
    deep = Deep(How(graph=True), said.append)
    assert not deep.now(), "the first poll measures what it costs without"
    deep.usual = 0.1
    assert deep.now()
    costs = Costs(40.0, 0.1, deep=True, added=1.0)
    deep.plan(time.monotonic(), costs, Budget())
    assert not deep.now()
    deep.plan(time.monotonic() - 401, costs, Budget())
    assert deep.now(), "1 s is 0.25 % of 400 s"
    deep.plan(time.monotonic() - 399, costs, Budget())
    assert not deep.now()
    sooner = ", with --budget 3.5% in 6.0 min"
    takes = "a suspect among them takes 10 such polls: the first can be known in about"
    assert said == [f"types and owners cost 1.0 s of processor time more: once in 6.7 min; {takes} 1.0 h{sooner}"]
    deep.plan(time.monotonic(), costs._replace(added=0.01), Budget())
    assert said[1:] == [f"types and owners cost 10.0 ms of processor time more: in each poll; {takes} 4.0 min"]

    path = tmp_path / "timeline"
    with growing_by_type(0, 0, 300) as pid, opened(path) as file:
        watching = Watch(file, group_of(pid), How(mode="freeze"), said.append, deep=How(mode="freeze", graph=True))
        begun = time.monotonic()
        intervals = [watching.poll(0.001) for _ in range(5)]
        assert watching.deep
        due = watching.deep._due
    polls = read(str(path)).polls
    assert [snapshot for snapshot, _ in groups_of(str(path))] == [polls[1].snapshots[0].id], "one, and not yet the next"
    usual, whole = (polls[at].cost_us / 1e6 for at in (2, 1))
    assert intervals[2] >= usual / (SHARE / 2)
    assert 0 < intervals[1] <= intervals[0], "a poll with types puts off no poll without"
    assert due - begun >= (whole / (SHARE / 2) - intervals[0]) * 0.999


def test_a_snapshot_without_types_is_better_than_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    said: list[str] = []
    with growing_by_type(0, 0, 10) as pid, opened(path) as file:
        deep = How(mode="freeze", max_memory="1M", graph=True)
        watching = Watch(file, group_of(pid), How(mode="freeze"), said.append, deep=deep)
        for _ in range(2):
            watching.poll(0.001)
    last = intact(path).polls[-1]
    assert len(last.snapshots) == 1
    assert last.notes.startswith(f"no types and owners of process {pid}: ")
    assert last.notes in said
    assert list(groups_of(str(path))) == []


@pytest.mark.check
def test_of_a_span_the_poll_with_types_stays() -> None:
    now = 10 * HOUR
    polls = [PollTime(number, number * 10 * SECOND, 1, number % 30 == 13) for number in range(2 * 360)]
    kept = [poll for poll in polls if poll.id not in set(surplus(polls, now))]
    assert [poll.id for poll in kept if poll.deep] == [poll.id for poll in polls if poll.deep]
    assert len(kept) == pytest.approx(2 * 60, abs=2)
    again = [poll for poll in kept if poll.id not in set(surplus(kept, now + 24 * HOUR))]
    assert [poll.time_ns // (600 * SECOND) for poll in again[1:-1]] == list(range(12))
    assert all(poll.deep for poll in again[1:-1]), "of ten minutes, one with types"


def test_the_command_has_the_options(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing_by_type(0, 0, 300) as pid:
        done = arenascope(
            "watch", pid, "-o", path, "--graph", "--objects", "--every", "1s", "--for", "2s", "--budget=0.5%"
        )
    assert done.returncode == 0, done.stderr
    assert len(intact(path).polls) >= 1
    assert "0.25 % of a processor" in done.stderr
