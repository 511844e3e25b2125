# SPDX-License-Identifier: MIT
"""`arenascope diff` on real processes whose growth is known, and its notes on snapshots that differ in kind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from graph.test_graph_schemas import closed
from profiles.test_profile_commands import served
from tools import harness, odd
from tools.keeps import Keeps
from tools.running import process

from arenascope.compare import Digest, compare, digest_of, to_json
from arenascope.compare.comparability import same_process
from arenascope.compare.digest import Group, Named, Portion
from arenascope.profiles.site_digest import Stacks, group_of
from arenascope.report.page.model import build
from arenascope.schema import schema
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.graph_parts import Owner
from arenascope.wire.owners import owner_key
from arenascope.wire.snapshot import TakenDump
from arenascope.wire.summary import summarize

SCHEMA = schema("diff")
CHUNK = 3024  # a size that Python's own chunks do not have
KINDS = ("direct", "indirect", "suspects")
# Each line of stdin says how many chunks more, or fewer, each of two threads holds.
GROWS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = libc.free.argtypes = [ctypes.c_size_t]
held = []
def work(number):
    for _ in range(number):
        held.append(libc.malloc(3016))
        ctypes.memset(held[-1], 1, 3016)
    for _ in range(-number):
        libc.free(held.pop())
print("ready", flush=True)
for line in sys.stdin:
    thread = threading.Thread(target=work, args=[int(line)])
    thread.start()
    thread.join()
    print("done", flush=True)
"""


class Grows:
    """The program."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.pid = child.pid

    def grow(self, number: int) -> None:
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.write(f"{number}\n")
        self.child.stdin.flush()
        assert self.child.stdout.readline() == "done\n"
        odd.wait_for_read(self.pid)


@contextmanager
def growing() -> Iterator[Grows]:
    # Tests of another worker start the same program: for a watch, one with the same arguments would be its successor.
    command = [sys.executable, "-c", GROWS, str(os.getpid())]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            odd.wait_for_read(child.pid)  # before, Python's own structures may be in change
            yield Grows(child)
        finally:
            child.kill()


def run(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arenascope", "diff", *map(str, arguments)]
    env = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve()), "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def diff(*arguments: str | Path | int) -> Any:
    done = run("--json", *arguments)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    jsonschema.validate(made, closed(SCHEMA))
    return made


def digest(path: Path) -> Digest:
    dump = Dump(path)
    return digest_of(dump, summarize(dump))


def codes(made: Any) -> set[str]:
    return {note["code"] for note in made["notes"]}


def of_size(made: Any, size: int) -> Any:
    return next(each for each in made["sizes"] if each["chunk_size"] == size)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_growth_of_a_process_is_told_to_the_chunk(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        grows.grow(100)
        arenadump.check("dump", "-o", tmp_path / "before", grows.pid)
        first = arenadump.summary(tmp_path / "before")
        grows.grow(5000)
        made = diff("--mode=freeze", tmp_path / "before", grows.pid)
        last = arenadump.summary(grows.pid, "--mode=freeze")
        grows.grow(-5100)
        less = diff(tmp_path / "before", grows.pid)
        words = run(tmp_path / "before", grows.pid).stdout
    assert made["same_process"] is True
    assert not codes(made) - {"exact"}
    held = of_size(made, CHUNK)
    assert held["count"]["change"] == 5000
    assert held["bytes"]["change"] == 5000 * CHUNK
    assert held["status"] == "both"
    minutes = made["elapsed_s"] / 60
    assert 0 < made["elapsed_s"] < 60
    assert held["bytes"]["per_minute"] == pytest.approx(5000 * CHUNK / minutes, rel=1e-6)
    assert made["sizes"][0] == held, "what grew most comes first"
    for row in made["rows"]:
        if row["kind"] == "resident":
            assert row["bytes"]["before"] == first["ledger"][row["name"]]
            assert row["bytes"]["after"] == pytest.approx(last["ledger"][row["name"]], abs=1 << 20)
    grown = [row["bytes"]["change"] for row in made["rows"]]
    assert grown == sorted(grown, reverse=True)
    assert made["rss"]["change"] == made["rss"]["after"] - made["rss"]["before"] > 5000 * 3000
    assert sum(arena["chunks"]["change"] for arena in made["arenas"]) == pytest.approx(5000, abs=50)
    assert made["types"] is made["owners"] is made["leaks"] is None
    assert of_size(less, CHUNK)["count"]["change"] == -100
    assert less["sizes"][-1]["bytes"]["change"] < 0
    assert "/min" in words
    assert "\N{MINUS SIGN}295.3 KiB" in words


def test_what_is_new_and_what_went(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        arenadump.check("dump", "-o", tmp_path / "before", grows.pid)
        grows.grow(50)
        arenadump.check("dump", "-o", tmp_path / "after", grows.pid)
    made = diff(tmp_path / "before", tmp_path / "after")
    new = of_size(made, CHUNK)
    assert (new["status"], new["count"]["before"], new["count"]["after"]) == ("new", 0, 50)
    assert [each["status"] for each in made["arenas"] if each["name"] != "main arena"] == ["new"]
    back = diff(tmp_path / "after", tmp_path / "before")
    assert of_size(back, CHUNK)["status"] == "gone"
    assert [each["status"] for each in back["arenas"] if each["name"] != "main arena"] == ["gone"]
    assert back["elapsed_s"] == -made["elapsed_s"] < 0
    assert "time" in codes(back)
    assert of_size(back, CHUNK)["bytes"]["per_minute"] is None


def test_two_processes_have_no_rate(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("pins") as one, process("in-use") as other:
        arenadump.check("dump", "-o", tmp_path / "one", one)
        made = diff(tmp_path / "one", other)
    assert made["same_process"] is False
    assert {"process", "layout"} <= codes(made)
    assert made["rss"]["change"] is not None
    assert made["rss"]["per_minute"] is None
    assert made["pinned_pages"] is None
    assert {arena["status"] for arena in made["arenas"]} == {"new", "gone"}


def test_pins_that_stayed_came_and_went(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("pins") as pid:
        for name in ("before", "after"):
            arenadump.check("dump", "-o", tmp_path / name, pid)
    dumps = [Dump(tmp_path / name) for name in ("before", "after")]
    kept = [int((dump.pages["state"] == fmt.PageState.PINNED).sum()) for dump in dumps]
    assert kept[0] == kept[1] > 100
    made = diff(tmp_path / "before", tmp_path / "after")
    assert made["pinned_pages"]["stayed"]["pages"] == kept[0]
    assert made["pinned_pages"]["came"] == made["pinned_pages"]["went"] == {"pages": 0, "stranded": 0}
    assert 0 < made["pinned_pages"]["stayed"]["stranded"] <= arenadump.summary(tmp_path / "after")["ledger"]["stranded"]
    # Half of the first snapshot's pins are forgotten, and some others of the second's.
    one, other = (digest(tmp_path / name) for name in ("before", "after"))
    pinned = np.flatnonzero(one.pages.state == fmt.PageState.PINNED) if one.pages else np.empty(0, int)
    assert one.pages
    assert other.pages
    one.pages.state[pinned[:30]] = fmt.PageState.USED
    other.pages.state[pinned[-20:]] = fmt.PageState.USED
    pages = compare(one, other).pinned_pages
    assert pages
    assert [each.count for each in (pages.came, pages.stayed, pages.went)] == [30, kept[0] - 50, 20]


def test_types_owners_and_leaks(keeps: Keeps, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dumps = [keeps.taken(tmp_path / "before")]
    keeps.change()
    dumps.append(keeps.taken(tmp_path / "after"))
    lost = [sum(int(dump.graph_leaks[kind]["count"].sum()) for kind in KINDS) for dump in dumps]
    made = diff(tmp_path / "before", tmp_path / "after")
    types = {each["name"]: each for each in made["types"]}
    assert types["Connection"]["bytes"]["change"] == -48 * 100
    assert types["Connection"]["count"]["change"] == -100
    assert types["Forgotten"]["bytes"]["change"] == 48 * 20
    assert any("open_connections" in each["name"] and each["bytes"]["change"] == -48 * 100 for each in made["owners"])
    assert sum(each["count"]["change"] for each in made["leaks"]) == lost[1] - lost[0] > 10
    arenadump.check("dump", "-o", tmp_path / "plain", keeps.pid)
    half = diff(tmp_path / "after", tmp_path / "plain")
    assert half["types"] is half["owners"] is half["leaks"] is None
    assert "graph" in codes(half)


def test_the_page_has_the_numbers_of_the_json(keeps: Keeps, tmp_path: Path) -> None:
    before = keeps.taken(tmp_path / "before")
    keeps.change()
    after = keeps.taken(tmp_path / "after")
    page = build([TakenDump(before, from_dump=True), TakenDump(after, from_dump=True)]).values
    made = to_json(compare(digest(tmp_path / "before"), digest(tmp_path / "after")))
    shown = {table.title: [line.change.exact for line in table.lines] for table in page["growth"].tables}
    grown = [each["bytes"]["change"] for each in made["sizes"] if each["bytes"]["change"] != 0]
    assert shown["Chunks in use by size"] == grown
    assert page["changes"].time
    pins = [each["stranded"]["change"] for each in made["pins"] if each["stranded"]["change"] != 0]
    assert shown["Pins: chunks in use that keep free memory from being returned"] == pins
    assert any(pins)
    for title, kind in (
        ("Chunks in use by type", "types"),
        ("What owners retain", "owners"),
        ("Lost chunks", "leaks"),
    ):
        moved = [each["bytes"]["change"] for each in made[kind] if each["bytes"]["change"] != 0]
        assert shown[title] == moved
        assert any(moved)
    types = {each["name"]: each["bytes"]["change"] for each in made["types"]}
    for line in page["graph"].types:
        assert line.change.exact == types[line.name if line.name != "?" else "type not known"]


def test_an_owner_is_the_same_one_wherever_it_is() -> None:
    def owner(kind: str, address: str, thread: int | None = None, module: str | None = None) -> Owner:
        return Owner(kind, "name", None, address, module, module and "0x40", thread, None, None)

    keys = [owner_key(owner(*each)) for each in (("stack", "0x1", 7), ("stack", "0x2", 7), ("stack", "0x1", 8))]
    assert keys[0] == keys[1] != keys[2], "a stack has grown"
    assert owner_key(owner("variable", "0x1", None, "m")) == owner_key(owner("variable", "0x2", None, "m"))
    assert owner_key(owner("memory", "0x1")) != owner_key(owner("memory", "0x2"))


def test_call_stacks_are_on_all_three_surfaces(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("before", "after")]
    with served(tmp_path, arenadump, "-g") as server:
        arenadump.check("dump", "-o", paths[0], server.pid)
        assert server.stdin
        server.stdin.write("ooo")
        server.stdin.flush()
        odd.wait_for_read(server.pid)
        arenadump.check("dump", "-o", paths[1], server.pid)
        live = diff(paths[0], server.pid)
    dump = Dump(paths[1])
    for most, whole in ((1, False), (1000, True)):
        group = group_of(Stacks(most).of(dump) or {})
        assert group.whole is whole
        assert group.held("another").bytes == (0 if whole else None)
    made = diff(*paths)
    assert live["sites"] == made["sites"] or live["sites"][0]["name"] == made["sites"][0]["name"]
    top = made["sites"][0]
    assert top["name"].startswith("allocate < open_connections < main")
    assert top["status"] == "new", "the first 2,000 have another caller"
    assert (top["bytes"]["after"], top["count"]["after"]) == (3008 * 1500, 1500)
    assert top["bytes"]["per_minute"] == pytest.approx(3008 * 1500 * 60 / made["elapsed_s"], rel=1e-3)
    assert not any(each["bytes"]["change"] for each in made["sites"][1:])
    words = run(*paths).stdout
    assert "What call stacks allocated and is in use" in words
    assert re.search(r"allocate < open_connections < main\S* +0 B +4\.3 MiB +\+4\.3 MiB +\+.*/min +\+1,500 +new", words)
    page = build([TakenDump(Dump(path), from_dump=True) for path in paths])
    (table,) = [table for table in page.values["growth"].tables if table.what == "call stack"]
    (line,) = table.lines
    assert (line.name, line.change.exact, line.more, line.status) == (top["name"], 3008 * 1500, "+1,500", "new")
    assert line.rate.endswith("/min")
    with growing() as grows:
        arenadump.check("dump", "-o", tmp_path / "other", grows.pid)
    other = diff(paths[0], tmp_path / "other")
    assert other["sites"] is None
    assert "profile" in codes(other)


def test_a_core_of_gcore_has_no_residency(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gcore is not installed")
    with growing() as grows:
        grows.grow(100)
        done = subprocess.run(["gcore", "-o", tmp_path / "core", str(grows.pid)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        grows.grow(400)
        made = diff(tmp_path / f"core.{grows.pid}", grows.pid)
        words = run(tmp_path / f"core.{grows.pid}", grows.pid).stdout
    assert {"kind", "residency", "time"} <= codes(made)
    assert made["elapsed_s"] is None
    in_use = next(row for row in made["rows"] if row["name"] == "in_use")
    assert in_use["bytes"]["before"] is in_use["bytes"]["change"] is None
    assert in_use["bytes"]["after"] > 0
    assert of_size(made, CHUNK)["count"]["change"] == 400
    assert all(pin["pages"]["before"] is None for pin in made["pins"])
    assert made["pinned_pages"] is None
    assert "it is not known which pages are resident" in words.replace("\n", " ")


def test_a_program_that_was_started_again_is_another_process(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        arenadump.check("dump", "-o", tmp_path / "dump", grows.pid)
    one = digest(tmp_path / "dump")
    who = one.who
    assert same_process(who, who)
    again = replace(who, main_arenas=tuple(address + 0x1000 for address in who.main_arenas))
    assert same_process(who, again) is False
    assert same_process(who, replace(who, pid=1)) is False
    assert same_process(who, replace(who, exe="/bin/other")) is False
    assert same_process(who, replace(who, main_arenas=())) is None
    notes = [note.text for note in compare(one, replace(one, who=again)).notes]
    assert any("started again" in text for text in notes)


def test_what_a_snapshot_does_not_list_is_unknown(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        arenadump.check("dump", "-o", tmp_path / "dump", grows.pid)
    one = digest(tmp_path / "dump")
    few = replace(one, types=Group({"A": Named("A", Portion(10, 1))}, whole=False))
    more = replace(one, types=Group({"A": Named("A", Portion(30, 2)), "B": Named("B", Portion(50, 5))}))
    made = {each["name"]: each for each in to_json(compare(few, more))["types"] or []}
    assert made["A"]["bytes"]["change"] == 20
    assert made["B"]["bytes"]["before"] is made["B"]["bytes"]["change"] is made["B"]["status"] is None
    assert next(iter(made)) == "A", "what is not known comes last"


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_bytes(b"nonsense" * 1000)
    assert run(tmp_path / "none", 1).returncode == 3
    assert run(tmp_path / "nonsense", os.getpid()).returncode == 6
    assert run(os.getpid()).returncode == 2
