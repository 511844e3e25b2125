# SPDX-License-Identifier: MIT
"""Types and owners in a timeline: as often as their share of a processor pays, and as a look has them."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

import pytest
from test_suspects import growing_by_type, growing_when_asked
from test_timeline import MIB, arenascope, group_of, intact, look_at, opened

from arenascope.compare.digest import Group, Named, Portion
from arenascope.timeline import named_totals
from arenascope.timeline.reader import groups_of, moment_of_look, read
from arenascope.timeline.retention import HOUR, SECOND, TurnTime, surplus
from arenascope.timeline.store import Turn
from arenascope.timeline.watch import SHARE, Deep, Watch

pytestmark = pytest.mark.usefixtures("own_arenadump")


def test_types_and_owners_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing_when_asked(0, 0, 300) as (pid, grow):
        grow(24)
        plain, deep = (look_at(pid, "--mode=freeze", *options) for options in ((), ("--graph",)))
        with opened(path) as file:
            for number, look in enumerate((plain, deep)):
                file.add(Turn(look.time_ns, 1, 1, number, 10, None, [look]))
    first, last = (moment_of_look(str(path), turn.looks[0].id)[0] for turn in intact(path).turns)
    assert first.types is first.owners is first.objects is None
    assert last.types == deep.moment.types
    assert last.owners == deep.moment.owners
    assert last.leaks == deep.moment.leaks
    assert last.types
    assert last.types.held("app::Entry") == Portion(300 * 1008, 300)


@pytest.mark.check
def test_what_is_not_listed_is_in_the_others() -> None:
    listed: dict[Hashable, Named] = {
        ("kind", f"{n}", None): Named(f"owner {n}", Portion(1000 - n, None)) for n in range(500)
    }
    listed["x" * 5000] = Named("long", Portion(1 << 20, None))
    told = named_totals._told(Group(listed, whole=False, others=Portion(7, None)))
    assert len(told["listed"]) == named_totals.MOST
    assert told["whole"] is False
    assert told["others"] == [(1 << 20) + 7 + sum(1000 - n for n in range(200, 500)), None]
    assert named_totals._told(Group(listed))["whole"] is False, "all were known, and are not all listed"
    back = named_totals.groups_from({"owners": json.loads(json.dumps(told)), "other": {}})
    assert back.keys() == {"owners"}
    assert back["owners"].held(("kind", "199", None)) == Portion(801, None)
    assert back["owners"].held(("kind", "200", None)) == Portion(None, None)


def test_a_moment_with_types_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    begun = time.time_ns() - 60 * SECOND
    with growing_when_asked(600 * MIB, 0, 0) as (pid, grow), opened(path) as file:
        for number in range(4):
            grow(20)  # a second of its own, for ten of the looks'
            look = look_at(pid, "--mode=freeze", *(["--graph"] if number else []))
            at = begun + 10 * number * SECOND
            file.add(Turn(at, 1, 1, number, 10, None, [replace(look, time_ns=at)]))
        grow(20)
        done = arenascope("diff", f"{path}@first", f"{path}@last", "--graph", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        live = json.loads(arenascope("diff", f"{path}@last", pid, "--graph", "--json").stdout)
    ends = [moment_of_look(str(path), read(str(path)).turns[at].looks[0].id)[0] for at in (1, -1)]
    held = [end.types.held("app::Session").bytes or 0 for end in ends if end.types]
    (line,) = [line for line in told["types"] if line["name"] == "app::Session"]
    assert [line["bytes"][name] for name in ("before", "after")] == held, "the first look has no types: the second has"
    assert held[1] > held[0]
    assert line["bytes"]["per_minute"] == pytest.approx(60 * MIB, rel=0.001)
    for compared in (told, live):
        (owner,) = [line for line in compared["owners"] if "app::open_sessions" in line["name"]]
        assert owner["status"] == "both"
        assert owner["bytes"]["change"] > 0
    plain = json.loads(arenascope("diff", f"{path}@first", f"{path}@last", "--json").stdout)
    assert plain["types"] is None
    assert "graph" in {note["code"] for note in plain["notes"]}
    assert arenascope("diff", f"{path}@last,1", f"{path}@last", "--graph").returncode == 3


def test_types_cost_no_more_than_their_share(tmp_path: Path) -> None:
    said: list[str] = []
    deep = Deep(["--graph"], said.append)
    assert not deep.now(), "the first turn measures what it costs without"
    deep.usual = 0.1
    assert deep.now()
    deep.plan(time.monotonic(), 1.0, SHARE / 2, 40.0)
    assert not deep.now()
    deep.plan(time.monotonic() - 401, 1.0, SHARE / 2, 40.0)
    assert deep.now(), "1 s is 0.25 % of 400 s"
    deep.plan(time.monotonic() - 399, 1.0, SHARE / 2, 40.0)
    assert not deep.now()
    assert said == ["types and owners cost 1.0 s of processor time more: once in 6.7 min"]
    deep.plan(time.monotonic(), 0.01, SHARE / 2, 40.0)
    assert said[1:] == ["types and owners cost 10.0 ms of processor time more: in each turn"]

    path = tmp_path / "timeline"
    with growing_by_type(0, 0, 300) as pid, opened(path) as file:
        watching = Watch(file, group_of(pid), ["--mode=freeze"], said.append, deep=["--graph"])
        begun = time.monotonic()
        intervals = [watching.turn(0.001) for _ in range(5)]
        assert watching.deep
        due = watching.deep._due
    turns = read(str(path)).turns
    assert [look for look, _ in groups_of(str(path))] == [turns[1].looks[0].id], "one, and not yet the next"
    usual, whole = (turns[at].cost_us / 1e6 for at in (2, 1))
    assert intervals[2] >= usual / (SHARE / 2)
    assert 0 < intervals[1] <= intervals[0], "a turn with types puts off no turn without"
    assert due - begun >= (whole / (SHARE / 2) - intervals[0]) * 0.999


def test_a_look_without_types_is_better_than_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    said: list[str] = []
    with growing_by_type(0, 0, 10) as pid, opened(path) as file:
        watching = Watch(file, group_of(pid), ["--mode=freeze"], said.append, deep=["--graph", "--max-memory=1M"])
        for _ in range(2):
            watching.turn(0.001)
    last = intact(path).turns[-1]
    assert len(last.looks) == 1
    assert last.says.startswith(f"no types and owners of process {pid}: ")
    assert last.says in said
    assert list(groups_of(str(path))) == []


@pytest.mark.check
def test_of_a_span_the_turn_with_types_stays() -> None:
    now = 10 * HOUR
    turns = [TurnTime(number, number * 10 * SECOND, 1, number % 30 == 13) for number in range(2 * 360)]
    kept = [turn for turn in turns if turn.id not in set(surplus(turns, now))]
    assert [turn.id for turn in kept if turn.deep] == [turn.id for turn in turns if turn.deep]
    assert len(kept) == pytest.approx(2 * 60, abs=2)
    again = [turn for turn in kept if turn.id not in set(surplus(kept, now + 24 * HOUR))]
    assert [turn.time_ns // (600 * SECOND) for turn in again[1:-1]] == list(range(12))
    assert all(turn.deep for turn in again[1:-1]), "of ten minutes, one with types"


def test_the_command_has_the_options(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing_by_type(0, 0, 300) as pid:
        done = arenascope("watch", pid, "-o", path, "--graph", "--objects", "--every", "1s", "--for", "2s")
    assert done.returncode == 0, done.stderr
    assert len(intact(path).turns) >= 1
    assert "0.25 % of a processor" in done.stderr
