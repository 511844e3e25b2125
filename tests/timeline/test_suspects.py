# SPDX-License-Identifier: MIT
"""Leak suspects in the timeline of a real process that leaks at known rates beside churn, a cache and a collector."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from graph.test_graph_schemas import closed
from profiles.test_profile_commands import served
from timeline.test_timeline import MIB, arenascope, group_of, opened
from tools import harness, odd, programs

from arenascope.schema import schema
from arenascope.timeline.reader import ProcessRow, SnapshotRow, groups_of, read
from arenascope.timeline.store import Poll, TimelineStore
from arenascope.timeline.suspect_text import evidence, rate_words, suspect_words
from arenascope.timeline.suspects import (
    CHUNKS,
    SITE,
    SIZE,
    SIZES,
    History,
    Suspect,
    _deep,
    _own,
    _series,
    suspects,
    suspects_of,
)
from arenascope.watch import budget
from arenascope.watch.loop import Watch
from arenascope.wire.how import How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = schema("suspects")
# Sizes of chunks that Python's own do not have, and what a minute leaks: a snapshot each quarter of a second stands for
# ten seconds, so that 4 MiB a minute here are 0.1 MiB a minute there. Time is what clocked() makes it.
LEAKS = {3024: 4 * MIB, 5008: 40 * MIB, 6048: 400 * MIB}
CHURN, CACHE, TEETH = 7024, 8048, 9040
STEP = 0.25  # seconds from snapshot to snapshot
LIVES = """
import ctypes, random, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = libc.free.argtypes = [ctypes.c_size_t]
leaks = {int(each.split(":")[0]): float(each.split(":")[1]) for each in sys.argv[4:]}
churn, cache, teeth = map(int, sys.argv[1:4])
held = {size: [] for size in (*leaks, churn, cache, teeth)}
def grow(size, number):
    for _ in range(max(number - len(held[size]), 0)):
        held[size].append(libc.malloc(size - 8))
        ctypes.memset(held[size][-1], 1, size - 8)
    for _ in range(max(len(held[size]) - number, 0)):
        libc.free(held[size].pop())
print("ready", flush=True)
for line in sys.stdin:
    since = float(line)
    for size, rate in leaks.items():
        grow(size, int(rate / 60 * since / size))
        for one in [libc.malloc(size - 8) for _ in range(random.randrange(8))]:
            libc.free(one)  # the same size comes and goes, too
    grow(churn, random.randrange(200, 600))
    grow(cache, min(int(400 * since), 800))
    grow(teeth, int(300 * (since % 1.1)))
    print("grown", flush=True)
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


@contextmanager
def living(leaks: dict[int, int]) -> Iterator[subprocess.Popen[str]]:
    words = [*map(str, (CHURN, CACHE, TEETH)), *(f"{size}:{rate}" for size, rate in leaks.items())]
    command, pipe = [sys.executable, "-c", LIVES, *words], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def clocked(file: TimelineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real snapshots, which a timeline has at the times of a clock: a busy machine has them at uneven ones."""
    begin, add = time.time_ns(), file.add
    polls = itertools.count()

    def at_its_time(poll: Poll) -> Any:
        now = begin + next(polls) * round(STEP * 1e9)
        snapshots = [dataclasses.replace(snapshot, time_ns=now) for snapshot in poll.snapshots]
        return add(dataclasses.replace(poll, time_ns=now, snapshots=snapshots))

    monkeypatch.setattr(file, "add", at_its_time)


def watched(path: Path, leaks: dict[int, int], snapshots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with living(leaks) as child, opened(path) as file:
        clocked(file, monkeypatch)
        watching = Watch(file, group_of(child.pid), How(mode="freeze"), lambda _: None)
        for number in range(snapshots):
            tell(child, f"{number * STEP}\n")
            watching.poll(0.001)


def tell(child: subprocess.Popen[str], words: str) -> None:
    """What the time is."""
    assert child.stdin
    assert child.stdout
    child.stdin.write(words)
    child.stdin.flush()
    assert child.stdout.readline() == "grown\n"


def answer(path: Path) -> Any:
    done = arenascope("timeline", "suspects", path, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, closed(SCHEMA))
    return document


@pytest.mark.check
def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.slow
def test_leaks_of_known_rates_are_the_suspects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    watched(path, LEAKS, 48, monkeypatch)
    document = answer(path)
    found = {each["key"]: each for each in document["suspects"] if each["kind"] == "size"}
    assert set(found) == set(LEAKS)
    for size, rate in LEAKS.items():
        each = found[size]
        assert each["per_minute"]["rate"] == pytest.approx(rate, rel=0.01)
        assert each["per_minute"]["low"] <= 1.02 * rate
        assert each["per_minute"]["high"] >= 0.98 * rate
        assert each["snapshots"] >= 10
        assert each["held"] == each["count"] * size
        assert each["exact"] is True
        assert each["stayed"] > 0.9
    others = {each["key"] for each in document["suspects"] if each["kind"] != "size"}
    assert others <= {"python_arenas"}, "the lists of what leaked grow, too; all else is explained by the sizes"
    words = arenascope("timeline", path).stdout
    assert "Leak suspects\n6048-byte chunks: +" in words
    assert arenascope("timeline", "suspects", path).stdout.count("snapshots in") == len(document["suspects"])


@pytest.mark.slow
def test_without_a_leak_there_is_no_suspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    watched(path, {}, 40, monkeypatch)
    assert answer(path)["suspects"] == []
    assert "none: nothing grows beyond what comes and goes" in arenascope("timeline", "suspects", path).stdout


def test_too_few_snapshots_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    watched(path, LEAKS, 3, monkeypatch)
    assert suspects_of(str(path), read(str(path))) == []
    words = arenascope("timeline", path).stdout
    assert "not known yet: a suspect needs 10 snapshots" in words
    assert "types and owners were not recorded: arenascope watch --graph does this" in words


def test_a_file_may_be_named_like_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(tmp_path / "suspects", LEAKS, 1, monkeypatch)
    done = subprocess.run(
        [sys.executable, "-m", "arenascope", "timeline", "./suspects"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 poll with 1 snapshot" in done.stdout


def suspect(kind: str, key: int | str, rate: float) -> Suspect:
    return Suspect(
        kind=kind,
        key=key,
        title=f"{key}",
        process=1,
        pid=7,
        comm="bad\x1b[1m",
        rate=rate,
        low=rate * 0.9,
        high=rate * 1.1,
        since_ns=0,
        until_ns=600 * 10**9,
        snapshots=61,
        growth=1000,
        held=2048,
        count=None,
        stayed=0.9699,
        exact=False,
    )


@pytest.mark.check
def test_a_growth_has_one_suspect() -> None:
    one, other = suspect(SIZE, 4112, 60), suspect(SIZE, 5008, 20)
    band, all_ = suspect(SIZES, 4096, 100), suspect(CHUNKS, CHUNKS, 110)
    assert _own([one, other, band, all_]) == [one, other], "80 of 100 and of 110 are those of two sizes"
    assert _own([one, band, all_]) == [one, band], "60 of 100 are not"
    assert _own([other, all_]) == [other, all_]
    sizes = [suspect(SIZE, size, 30) for size in (4112, 4128, 4144)]
    assert _own([*sizes, band]) == sizes
    sizes.append(suspect(SIZE, 4160, 30))
    assert _own([*sizes, other, band, all_]) == [band], "many sizes: not the size is what they have in common"
    assert _own([*sizes, other, all_]) == [*sizes, other, all_] or _own([*sizes, other])[:4] == sizes
    small = suspect(SIZE, 48, 5)
    assert _own([*sizes, small, band]) == [small, band]


@pytest.mark.check
def test_words() -> None:
    assert rate_words(10.2 * MIB, 9.8 * MIB, 10.6 * MIB) == "+10.2 MiB/min (9.8 to 10.6)"
    assert rate_words(1023.99 * MIB, 9.8 * MIB, 1060 * MIB).startswith("+1.0 GiB/min (0.0 to 1.0")
    assert rate_words(1.04 * MIB, 1.03 * MIB, 1.06 * MIB) == "+1.0 MiB/min (1.0 to 1.1)"
    assert rate_words(900, 100, 1200) == "+900 B/min (100 to 1200)"
    each = suspect(SIZE, 512, 10.2 * MIB)
    assert suspect_words(each) == "512: +10.2 MiB/min (9.2 to 11.2) since 1970-01-01 00:00:00"
    assert suspect_words(each, several=True).startswith(r"bad\x1b[1m 7, 512: ")
    ended = dataclasses.replace(each, ended=True)
    assert suspect_words(ended, several=True).startswith(r"bad\x1b[1m 7 (ended), 512: ")
    assert evidence(each).split("; ") == [
        "61 snapshots in 10.0 min",
        "96 % of what came from snapshot to snapshot is still there",
        "2.0 KiB held",
        "some snapshots were not exact",
    ]


def test_the_call_stack_that_leaks_is_named(
    arenadump: harness.Arenadump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, snapshots, each_poll = tmp_path / "timeline", 16, 5
    with served(tmp_path, arenadump, "-g") as server, opened(path) as file:
        assert server.stdin
        clocked(file, monkeypatch)
        watching = Watch(file, group_of(server.pid), How(mode="freeze"), lambda _: None)
        for _ in range(snapshots):
            server.stdin.write("o" * each_poll)
            server.stdin.flush()
            odd.wait_for_read(server.pid)
            watching.poll(0.001)
    document = answer(path)
    (site,) = [each for each in document["suspects"] if each["kind"] == "site"]
    assert site["title"].startswith("allocated by allocate < open_connections < main")
    assert site["held"] == site["count"] * 3008
    assert site["count"] == snapshots * each_poll * 500, "the first 2,000 have another caller"
    assert site["per_minute"]["rate"] == pytest.approx(60 / STEP * each_poll * 500 * 3008, rel=1e-6)
    (size,) = [each for each in document["suspects"] if each["kind"] == "size"]
    assert size["key"] == 3008
    assert size["alike"] == [site["title"]]
    assert size["per_minute"]["rate"] == pytest.approx(site["per_minute"]["rate"], rel=1e-6)
    assert "as fast grows: allocated by allocate < open_connections" in arenascope("timeline", path).stdout


def history(rows: list[dict[str, Any]], seconds: float = 10) -> History:
    """Snapshots with call stacks."""
    snapshots = [
        SnapshotRow(place, 1, 7, round(place * seconds * 1e9), exact=True, rss=0, rows={}) for place in range(len(rows))
    ]
    bodies = [{"sizes": {}, "chunks": {}, "sites": each} for each in rows]
    return History(ProcessRow(1, 7, 0, 1, 1, "server", None, "server"), snapshots, bodies)


def stacks(place: int, mean: int = 1 << 19, *, whole: bool = True) -> dict[str, Any]:
    """One allocates 10 MiB from snapshot to snapshot, of which 96 % stay; one is not always listed."""
    listed = {"a": ["open", round(9.6 * MIB) * place, place, 10 * MIB * place]}
    if place % 2:
        listed["b"] = ["fill", 50 * MIB, 1, MIB]
    return {"mean": mean, "whole": whole, "listed": listed}


@pytest.mark.check
def test_what_survives_is_said_if_it_is_known() -> None:
    (one,) = suspects([history([stacks(place) for place in range(20)])])
    assert one.kind == SITE
    assert one.survive == pytest.approx(0.96, abs=1e-3)
    assert "about 96 % of what was allocated survives" in evidence(one)
    for mean in (0, 1 << 30):  # nothing is sampled, or too little
        (one,) = suspects([history([stacks(place, mean) for place in range(20)])])
        assert one.survive is None
        assert "survives" not in evidence(one)


@pytest.mark.check
def test_a_call_stack_that_is_not_listed_is_unknown() -> None:
    """Were it nothing, it would seem to come and go, or to begin at once."""
    found = _series(history([stacks(place, whole=False) for place in range(4)]))
    assert np.array_equal(found[SITE, "b"], [np.nan, 50 * MIB, np.nan, 50 * MIB], equal_nan=True)
    found = _series(history([stacks(place) for place in range(4)]))
    assert list(found[SITE, "b"]) == [0, 50 * MIB, 0, 50 * MIB]


@pytest.mark.check
def test_an_unknown_number_is_no_zero() -> None:
    rows = [stacks(place) for place in range(20)]
    made = history(rows)
    bodies = [{"sizes": {"4112": None if place == 5 else 100 * place}, "chunks": {}} for place in range(20)]
    found = suspects([History(made.process, made.snapshots, bodies)])
    (one,) = [each for each in found if each.kind == SIZE]
    assert one.snapshots == 19
    assert one.stayed == 1


# Bytes a minute of chunks; a snapshot stands for ten seconds, as above.
HELD, LOST_RATE = 40 * MIB, 20 * MIB


@contextmanager
def growing_by_type(held: int, lost: int, cached: int) -> Iterator[int]:
    with _grows(held, lost, cached) as child:
        yield child.pid


@contextmanager
def growing_when_asked(held: int, lost: int, cached: int) -> Iterator[tuple[int, Callable[[int], None]]]:
    """The same with a clock of its own: a process, and what lets so many steps of 50 ms pass for it."""
    with _grows(held, lost, cached, "asked") as child:

        def grow(steps: int) -> None:
            assert child.stdin
            assert child.stdout
            child.stdin.write("x" * steps)
            child.stdin.flush()
            for _ in range(steps):
                assert child.stdout.readline() == "grown\n"
            odd.wait_for_read(child.pid)

        yield child.pid, grow


@contextmanager
def _grows(*words: object) -> Iterator[subprocess.Popen[str]]:
    program = programs.build("grows")
    command, pipe = [str(program), *map(str, words)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def watched_with_types(
    path: Path, pid: int, snapshots: int, monkeypatch: pytest.MonkeyPatch, grow: Callable[[int], None] = lambda _: None
) -> None:
    """Every poll but the first has types and owners. `grow`: as growing_when_asked has it."""
    monkeypatch.setattr(budget, "SHARE", 1e6)
    with opened(path) as file:
        clocked(file, monkeypatch)
        watching = Watch(file, group_of(pid), How(mode="freeze"), lambda _: None, deep=How(mode="freeze", graph=True))
        for _ in range(snapshots):
            watching.poll(0.001)
            grow(round(STEP / 0.05))


def test_type_and_owner_of_a_leak_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    with growing_when_asked(HELD, LOST_RATE, 500) as (pid, grow):
        grow(24)  # the cache is full
        watched_with_types(path, pid, 30, monkeypatch, grow)
    document = answer(path)
    found = {each["kind"]: each for each in document["suspects"]}
    assert sorted(each["kind"] for each in document["suspects"]) == ["lost", "owner", "size", "size", "type", "type"]
    types = {each["key"]: each for each in document["suspects"] if each["kind"] == "type"}
    assert types.keys() == {"app::Session", "app::Forgotten"}
    for each, rate, chunk in (
        (types["app::Session"], HELD, 3008),
        (types["app::Forgotten"], LOST_RATE, 2016),
        (found["owner"], HELD, None),
        (found["lost"], LOST_RATE, 2016),
    ):
        assert each["per_minute"]["rate"] == pytest.approx(rate, rel=0.01), each["title"]
        assert each["per_minute"]["low"] <= 1.02 * rate
        assert each["per_minute"]["high"] >= 0.98 * rate
        assert each["snapshots"] >= 10
        assert each["exact"] is True
        assert each["count"] is None if chunk is None else each["held"] == each["count"] * chunk
    assert found["owner"]["title"].startswith("retained by variable app::open_sessions (grows-")
    assert found["lost"]["title"] == "lost chunks of type app::Forgotten, 2016 B"
    sizes = {each["key"]: each["alike"] for each in document["suspects"] if each["kind"] == "size"}
    assert sizes == {
        3008: ["chunks of type app::Session", found["owner"]["title"]],
        2016: ["chunks of type app::Forgotten", found["lost"]["title"]],
    }
    assert "as fast grows: chunks of type app::Session, retained by variable app::open_sessions" in (
        arenascope("timeline", path).stdout
    )


def test_what_has_stopped_is_no_suspect_by_type_or_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "timeline"
    with growing_when_asked(0, 0, 2000) as (pid, grow):
        watched_with_types(path, pid, 16, monkeypatch, grow)
    assert answer(path)["suspects"] == []
    groups = [body for _, body in groups_of(str(path))]
    assert len(groups) == 15
    assert groups[-1]["types"]["listed"]['"app::Entry"'][1:] == [2000 * 1008, 2000], "it was searched for"


@pytest.mark.check
def test_a_type_that_is_not_listed_is_unknown() -> None:
    def types(place: int, *, whole: bool) -> dict[str, Any]:
        listed = {'"a"': ["a", MIB * place, place], '""': ["?", 2 * MIB * place, 1]}
        if place % 2:
            listed['"b"'] = ["b", 50 * MIB, 1]
        return {"types": {"whole": whole, "others": [1, 1], "listed": listed}}

    made = history([{} for _ in range(12)])
    for whole, other in ((True, 0), (False, np.nan)):
        deep = [(snapshot, types(place, whole=whole)) for place, snapshot in enumerate(made.snapshots)]
        held = History(made.process, made.snapshots, made.bodies, deep)
        found = _deep(held, "types").series
        assert found.keys() == {("type", '"a"'), ("type", '"b"')}, "what has no type is in the sizes"
        assert np.array_equal(found["type", '"b"'], [other, 50 * MIB] * 6, equal_nan=True)
        (one,) = suspects([held])
        assert (one.kind, one.key, one.count) == ("type", "a", 11)
        assert one.rate == pytest.approx(6 * MIB)
