# SPDX-License-Identifier: MIT
"""`arenascope top --once`, and what the live view decides: whose turn it is, what may be spent, what is shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from hypothesis import example, given
from hypothesis import strategies as st
from tools import odd, serve_each
from tools.hoarder import Hoarder, hoarding
from tools.odd import needs_root, wait_for
from tools.running import vforked

from arenascope.coverage import SHORT
from arenascope.humanize import age, compact
from arenascope.live.columns import COLUMNS, RSS, Choice, Quantity, held_of, lines_of, summed
from arenascope.live.cpu_budget import DEBT, SHARE, START, CpuBudget
from arenascope.live.machine_text import LEAST, Drawing, columns_for, draw_line, header
from arenascope.live.process_table import Entry, Figures, Processes, Standing
from arenascope.live.scheduler import SLOWEST, MachineScene
from arenascope.processes import Identity, Process, all_processes
from arenascope.schema import schema
from arenascope.watch.poll import spent
from arenascope.wire.how import DEFAULT

SCHEMA = schema("top")
ROWS = [name.replace(" ", "_") for name in SHORT]
NOBODY = 65534
DASH = "\N{EN DASH}"
KIB, MIB = 1 << 10, 1 << 20
ENDS = """
for last; do :; done
kill -9 "$last"
until grep -q "^State:.Z" /proc/$last/status; do :; done
exec "$REAL" "$@"
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


@pytest.fixture
def mark() -> str:
    """A word that only processes of this test have: no other process of the machine is inspected."""
    return f"mark{uuid.uuid4().hex}"


@pytest.fixture
def hoarder(mark: str) -> Iterator[Hoarder]:
    with hoarding(mark) as made:
        yield made


def top(*arguments: str | int, before: Sequence[str] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """With a pause that is long enough for any load, unless a mode is asked for. `before`: what starts it."""
    how = () if "--mode" in arguments or "--once" not in arguments else ("--mode", "freeze", "--max-pause", "9s")
    command = [*before, sys.executable, "-m", "arenascope", "top", *how, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


def top_json(*arguments: str | int, **options: Any) -> Any:
    done = top("--once", "--json", *arguments, **options)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    jsonschema.validate(made, closed(SCHEMA))
    return made


def kernels_rss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * KIB for line in text.splitlines() if line.startswith("Rss:"))


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == "arenascope.top/1"


def test_once_agrees_with_the_kernel_and_with_a_trim(hoarder: Hoarder, mark: str) -> None:
    made = top_json("--filter", mark)
    (process,) = made["processes"]
    snapshot = process["snapshot"]
    assert process["pid"] == hoarder.pid
    assert process["standing"] == "taken"
    assert snapshot["exact"]
    assert snapshot["rss"] == kernels_rss(hoarder.pid)
    assert sum(snapshot[row] for row in ROWS) == snapshot["rss"]
    assert made["total"]["releasable"] == {"bytes": snapshot["releasable"], "quick": False, "least": False}
    assert snapshot["releasable"] > 15 * MIB
    assert abs(hoarder.ask("trim") - snapshot["releasable"]) <= 256 * KIB  # Python itself works meanwhile


def test_once_is_what_summary_says(hoarder: Hoarder) -> None:
    (process,) = top_json(hoarder.pid)["processes"]
    command = [sys.executable, "-m", "arenascope", "summary", "--json", str(hoarder.pid)]
    summary = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ledger, snapshot = summary["ledger"], process["snapshot"]
    for row in ("stranded", "releasable", "withheld"):
        assert snapshot[row] == ledger[row]
    assert snapshot["cached"] == ledger["tcache"] + ledger["fastbin"]
    assert snapshot["rss"] == summary["kernel"]["rss"]


def test_groups_add_up(mark: str) -> None:
    with hoarding(mark), hoarding(mark):
        made = top_json("--filter", mark, "--group", "command", "--sort", "command")
        (group,) = made["groups"]
        assert sorted(group["pids"]) == sorted(each["pid"] for each in made["processes"])
        assert group["taken"] == made["total"]["taken"] == 2
        for row in ("rss", *ROWS):
            assert group[row]["bytes"] == sum(each["snapshot"][row] for each in made["processes"])
        by_cgroup = top_json("--filter", mark, "--group", "cgroup")
        assert [each["name"] for each in by_cgroup["groups"]] == [made["processes"][0]["cgroup"] or "/"]


def test_a_table_has_the_same(hoarder: Hoarder, mark: str) -> None:
    done = top("--once", "--filter", mark)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1 process, Rss ")
    assert lines[0].rstrip().endswith("1 inspected")
    assert lines[1].startswith("Would come back: 1")
    assert f"filter: {mark}" in lines[2]
    titles, (cells,) = lines[3].replace("in use", "in_use").split(), [line.split() for line in lines[4:]]
    assert titles == [name.replace(" ", "_") for name in COLUMNS]
    assert cells[0] == str(hoarder.pid)
    assert cells[1] == compact(kernels_rss(hoarder.pid))


@needs_root
def test_processes_of_others_are_listed_and_counted(mark: str) -> None:
    """Root without the right to trace is to a process of nobody's what any user is to another."""
    env = {**os.environ, "MARK": mark}
    nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "bash", "-c", 'exec -a "$MARK" sleep 1000']
    with subprocess.Popen(nobody, env=env) as child:
        try:
            wait_for(lambda: mark in Path(f"/proc/{child.pid}/cmdline").read_text())
            weak = ["setpriv", "--bounding-set=-sys_ptrace"]
            (process,) = (made := top_json("--filter", mark, before=weak))["processes"]
            assert (process["standing"], process["snapshot"], process["user"]) == ("denied", None, "nobody")
            assert process["why"] == "no permission to inspect this process of nobody: run as root"
            assert process["rss_quick"] > 0
            assert made["census"]["denied"] >= 1
            assert made["total"]["releasable"]["bytes"] is None
            table = top("--once", "--filter", mark, before=weak).stdout.splitlines()
            assert table[-1].split()[2:9] == [DASH] * 6 + ["denied"]
            alone = top("--once", child.pid, before=weak)
            assert alone.returncode == 4
            assert "no permission" in alone.stderr
            (seen,) = top_json("--filter", mark)["processes"]
            assert seen["standing"] == "taken"
        finally:
            child.kill()


def test_zombies_and_kernel_threads_are_counted_and_not_inspected(mark: str) -> None:
    with subprocess.Popen(["true"]) as zombie:
        wait_for(lambda: Path(f"/proc/{zombie.pid}/stat").read_text().rpartition(") ")[2][0] == "Z")
        made = top_json("--filter", f"{zombie.pid} true")
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
        states = [line.split() for line in listed.splitlines()]
        threads = sum("2" in {pid, parent} and Path(f"/proc/{pid}/cmdline").exists() for pid, parent, _ in states)
        if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
            assert abs(made["census"]["kernel_threads"] - threads) <= 8  # of workqueues; they come and go
        assert made["census"]["zombies"] >= 1
        assert made["processes"] == []
        assert zombie.pid in all_processes(zombies=True)
        assert zombie.pid not in all_processes()
        processes = Processes(DEFAULT)
        processes.scan()
        assert zombie.pid not in {each.process.pid for each in processes.entries.values()}
        alone = top("--once", zombie.pid)
        assert alone.returncode == 5


def test_a_child_of_vfork_counts_once_it_has_memory_of_its_own(mark: str) -> None:
    with vforked(mark) as (pid, child):
        one = top_json("--mode", "auto", "--filter", mark)  # nothing can freeze a process that waits in vfork()
        wide = {**os.environ, "COLUMNS": "200"}
        table = top("--once", "--mode", "auto", "--filter", mark, env=wide).stdout
        os.kill(child, signal.SIGUSR1)
        wait_for(lambda: odd.state(pid) == "S" and odd.state(child) == "S")
        two = top_json("--filter", mark)
        total = kernels_rss(pid) + kernels_rss(child)
    assert [each["pid"] for each in one["processes"]] == [pid]
    assert one["census"]["vforked"] >= 1
    assert "in the memory of the parent (vfork)" in table
    assert {each["pid"] for each in two["processes"]} == {pid, child}
    assert two["total"]["rss"]["bytes"] == total


def test_a_process_that_ends_while_it_is_inspected(hoarder: Hoarder, mark: str, tmp_path: Path) -> None:
    script = tmp_path / "arenadump"
    script.write_text(f"#!/bin/sh\n{serve_each.line_for(script)}{ENDS}")
    script.chmod(0o755)
    env = {**os.environ, "REAL": os.environ["ARENASCOPE_ARENADUMP"], "ARENASCOPE_ARENADUMP": str(script)}
    made = top_json("--filter", mark, env=env)
    assert made["processes"] == []
    assert made["total"]["rss"] == {"bytes": 0, "quick": False, "least": False}
    with hoarding(mark) as other:
        done = top("--once", other.pid, env=env)
        assert done.returncode == 7
        assert "has ended" in done.stderr


def test_names_are_harmless(mark: str) -> None:
    evil = f"{mark}\x1b[31m\x1b]0;pwned\x07\u202e"
    with subprocess.Popen(["bash", "-c", 'exec -a "$0" sleep 100', evil]) as child:
        try:
            wait_for(lambda: mark in Path(f"/proc/{child.pid}/cmdline").read_text())
            table, text = (top("--once", *how, "--filter", mark).stdout for how in ((), ("--json",)))
            assert mark in table
            for said in (table, text):
                assert not set(said) & {"\x1b", "\x07", "\u202e"}
            assert evil in json.loads(text)["processes"][0]["cmdline"]
        finally:
            child.kill()


def test_the_unknown_is_no_zero() -> None:
    (line,) = lines_of([entry(7, 10, in_use=None, releasable=0)], Choice())
    for ascii_only, dash in ((False, DASH), (True, "-")):
        drawing = Drawing(100, RSS, ascii_only=ascii_only)
        said = dict(zip(columns_for(100), draw_line(line, drawing).plain.split()))
        assert (said["in use"], said["releasable"]) == (dash, "0")
    (group,) = lines_of([entry(7, 10, in_use=None), entry(7, 10, in_use=4096)], Choice(group="cgroup"))
    for ascii_only, least in ((False, LEAST), (True, ">")):
        drawing = Drawing(100, RSS, ascii_only=ascii_only)
        assert f" {least}4.0K " in draw_line(group, drawing).plain


def test_what_is_typed_wrong() -> None:
    assert top("--json").returncode == 2
    no_terminal = top(stdin=subprocess.DEVNULL)
    assert no_terminal.returncode == 2
    assert "needs a terminal" in no_terminal.stderr
    gone = top("--once", 4194304)
    assert gone.returncode == 3
    assert "there is no such process" in gone.stderr


@given(st.none() | st.integers(0, 1 << 62))
@example(1000)
@example(1000 << 10)
def test_compact_numbers_are_short_and_right(number: int | None) -> None:
    said = compact(number)
    assert len(said) <= 5
    assert len(said.rstrip("BKMGTPE").partition(".")[0]) <= 3
    if number is None:
        assert said == DASH
    elif number:
        unit = "BKMGTPE".index(said[-1])
        assert abs(float(said[:-1]) * 1024**unit - number) <= max(0.051 * 1024**unit, number / 180)


def test_ages_are_short() -> None:
    assert [age(seconds) for seconds in (None, 0, 99.4, 100, 5990, 6000, 172799, 172800, 1e8)] == [
        DASH, "0s", "99s", "2m", "100m", "2h", "48h", "2d", "1157d",
    ]  # fmt: skip


def entry(pid: int, rss: int, **rows: int | None) -> Entry:
    """A process of so many pages."""
    process = Process(Identity(pid, 1), 1, f"program{pid % 3}", rss)
    made = Entry(process, 0, f"/bin/program{pid % 3} --number {pid}", f"/slice{pid % 2}")
    if not rows:
        return made
    held: dict[str, int | None] = dict.fromkeys(SHORT, 0)
    held |= {name.replace("_", " "): value for name, value in rows.items()}
    quick = made.quick
    figures = Figures(time.monotonic(), 0, quick, "freeze", exact=True, rss=quick + 1, swap=0, rows=held)
    return replace(made, standing=Standing.TAKEN, figures=figures, tried=figures.at, cost=0.01)


def test_sums_of_what_is_not_all_known() -> None:
    assert summed([]) == Quantity(0)
    assert summed([Quantity(None), Quantity(None)]) == Quantity(None)
    assert summed([Quantity(3), Quantity(None)]) == Quantity(3, least=True)
    assert summed([Quantity(3, quick=True), Quantity(4)]) == Quantity(7, quick=True)


def test_rss_is_exact_only_as_long_as_the_quick_count_has_not_moved() -> None:
    taken = entry(10, 100, releasable=4096)
    assert held_of(taken)[RSS] == Quantity(taken.quick + 1)
    grown = replace(taken, process=taken.process._replace(rss=101))
    assert held_of(grown)[RSS] == Quantity(grown.quick, quick=True)
    assert held_of(entry(11, 100))["releasable"] == Quantity(None)


def test_lines_are_sorted_and_the_unknown_comes_last() -> None:
    some = [entry(1, 10, releasable=5), entry(2, 99), entry(3, 20, releasable=7), entry(4, 1, releasable=None)]

    def pids(choice: Choice) -> list[int]:
        return [line.members[0].process.pid for line in lines_of(some, choice)]

    assert pids(Choice()) == [2, 3, 1, 4]
    assert pids(Choice("releasable")) == [3, 1, 2, 4]
    assert pids(Choice("releasable", reverse=True)) == [1, 3, 2, 4]
    assert pids(Choice("PID")) == [1, 2, 3, 4]
    assert pids(Choice(words="NUMBER 3")) == [3]
    (one, other) = lines_of(some, Choice(group="cgroup"))
    assert {one.title, other.title} == {"/slice0", "/slice1"}
    assert {line.title: line.cells["releasable"] for line in (one, other)}["/slice1"] == Quantity(12)
    assert sorted(pids(Choice(within=(("cgroup", "/slice1"),)))) == [1, 3]
    assert pids(Choice(words="number 3", within=(("cgroup", "/slice1"),))) == [3]
    assert pids(Choice(within=(("cgroup", "/slice1"), ("command", "no such")))) == []
    top = [*some, replace(entry(5, 1), cgroup="/"), replace(entry(6, 1), cgroup="")]
    (line,) = (line for line in lines_of(top, Choice(group="cgroup")) if line.title == "/")
    inside = lines_of(top, Choice(within=(("cgroup", line.title),)))
    assert {each.key for each in inside} == {each.identity for each in line.members}


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_lines_fit(width: int) -> None:
    names = columns_for(width)
    assert {"PID", RSS, "releasable", "command"} <= set(names)
    drawing = Drawing(width, RSS)
    (line,) = lines_of([entry(4194303, 1 << 30, in_use=1 << 60, releasable=1023 << 20, other=None)], Choice())
    above, below = header(drawing).plain, draw_line(line, drawing).plain
    if width >= 40:
        assert above.index("command") == below.index("program")
        assert len(above) <= width
    if width >= 80:
        assert names == [name for name in COLUMNS if name in names]
        assert {"in use", "stranded", "withheld", "other", "age"} <= set(names)


def test_a_purse_is_never_overspent() -> None:
    """A snapshot whenever the budget allows it, whatever it costs: over time it is the share, and the start."""
    for cost in (0.004, 0.05, 3.0):
        budget, now, paid = CpuBudget(0.0, 0.0), 0.0, 0.0
        while now < 3000:
            budget.settle(now, paid)
            wait = budget.wait(cost)
            if wait > 0:
                now += max(wait, 0.01)
            else:
                paid += cost
        assert paid <= START + SHARE * now + max(0.0, cost - DEBT) + 0.01
        assert paid >= SHARE * now / 2


def test_idle_time_is_no_capital() -> None:
    budget = CpuBudget(0.0, 0.0)
    budget.settle(1e6, 0.0)
    assert budget.holds <= START


def test_whose_poll_it_is() -> None:
    machine = Processes(DEFAULT)
    long_ago = time.monotonic() - 100

    def taken(pid: int, rss: int, **changes: Any) -> Entry:
        return replace(entry(pid, rss, in_use=1), tried=long_ago, **changes)

    def poll(*entries: Entry, visible: frozenset[Identity] = frozenset()) -> int | None:
        machine.entries = {each.identity: each for each in entries}
        chosen = machine.next(lambda _: True, visible, 2.0)
        return chosen.process.pid if chosen else None

    small, large = taken(1, 10), taken(2, 10000)
    assert poll(small, large) == 2
    assert poll(small, replace(large, cost=100.0)) == 1  # for what it costs
    assert poll(small, taken(3, 10), visible=frozenset({small.identity})) == 1
    moved = replace(small, process=small.process._replace(rss=5000))
    assert poll(moved, taken(3, 10)) == 1
    assert poll(small, large, entry(4, 1)) == 4  # who had none comes first
    assert poll(replace(small, tried=time.monotonic())) is None
    denied = replace(entry(5, 10), standing=Standing.DENIED, tried=time.monotonic() - 30)
    assert poll(denied) is None
    assert poll(small, denied) == 1


def test_it_is_not_asked_all_the_time_whether_a_snapshot_may_be_paid() -> None:
    """To ask costs something, too: asked at once again and again, the budget would never hold enough."""
    scene = MachineScene(Processes(DEFAULT), 9.0, lambda: None)
    budget = CpuBudget(time.monotonic(), spent())
    assert scene.step(budget) == 0.0  # the scan
    poor = replace(entry(1, 10, in_use=1), tried=time.monotonic() - 100, cost=0.5)
    scene.machine.entries = {poor.identity: poor}
    budget.settle(time.monotonic(), spent())
    budget.holds = 0.49999
    assert 0.4 <= scene.step(budget) <= 1.0


def test_scans_are_rarer_where_they_cost_more() -> None:
    scene = MachineScene(Processes(DEFAULT), 2.0, lambda: None)
    assert scene.interval(0.001) == 2.0
    scene.drawing.append(0.010)
    assert scene.interval(0.010) == pytest.approx(0.020 / (SHARE / 2))
    assert scene.interval(10) == SLOWEST
