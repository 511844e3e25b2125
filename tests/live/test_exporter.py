# SPDX-License-Identifier: MIT
"""`arenascope exporter`: its page, Prometheus, hostile names, silent clients, late snapshots."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from tools import harness, odd
from tools.exporting import (
    BLOCKS,
    DOCS,
    answer,
    comm,
    exporting,
    failing,
    of_process,
    prometheus,
    samples,
    tool,
    value,
)
from tools.running import running, started

from arenascope import rows
from arenascope.exporter.metrics import ARENA_ROWS, FAMILIES, OTHERS
from arenascope.exporter.server import CLIENTS, parse_address
from arenascope.findings import EVIDENCE
from arenascope.humanize import printable

DASHBOARD = json.loads((DOCS / "exporter-dashboard.json").read_text())
FREEZE = ("--mode=freeze", "--max-pause=10s")
WHOLE = (*FREEZE, "--arenas=100")
# Only there when a snapshot has failed.
RARE = {"arenascope_exporter_snapshots_failed"}
THREADS = """
import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
# In arenadump's place: the snapshot that finds the file "stall" waits until it is gone; with "fail" it fails.


def with_policy(agent: Path) -> dict[str, str]:
    """The variables of a process whose policy checks, and never trims."""
    return {
        "LD_PRELOAD": str(agent),
        "ARENASCOPE_TRIM": "every=200ms,min=1000G,max-hold=5ms",
        "ARENASCOPE_LOG": "/dev/null",
    }


def test_the_page_says_what_a_summary_says(arenadump: harness.Arenadump) -> None:
    with running("idle-arenas") as program, exporting(program.pid, *WHOLE) as exporter:
        page = exporter.after_poll()
        known = arenadump.summary(program.pid, "--mode=freeze")
        pid = program.pid
        assert known["snapshot"]["exact"]
        assert value(page, "arenascope_snapshot_exact", pid=pid) == 1
        assert of_process(page, pid, "arenascope_row_bytes", "row") == known["ledger"]
        assert sum(known["ledger"].values()) == value(page, "arenascope_rss_bytes", pid=pid)
        assert of_process(page, pid, "arenascope_absent_bytes", "row") == known["absent"]
        assert of_process(page, pid, "arenascope_forecast_bytes", "trim") == known["forecast"]
        chunks = known["chunks"]
        assert of_process(page, pid, "arenascope_chunks", "state") == {name: chunks[name]["count"] for name in chunks}
        assert of_process(page, pid, "arenascope_chunk_bytes", "state") == {
            name: chunks[name]["bytes"] for name in chunks
        }
        assert value(page, "arenascope_arenas", pid=pid) == len(known["arenas"]) > 2
        for arena in known["arenas"]:
            labels = {"pid": pid, "command": comm(pid), "arena": arena["name"]}
            shown = samples(page, "arenascope_arena_row_bytes", **labels)
            assert shown == {(row,): arena["ledger"][row] for row in ARENA_ROWS}
            assert value(page, "arenascope_arena_system_bytes", pid=pid, arena=arena["name"]) == arena["system_mem"]
        found = of_process(page, pid, "arenascope_finding", "finding")
        assert found
        assert set(found.values()) == {1}
        assert set(of_process(page, pid, "arenascope_finding_bytes", "finding")) <= set(found)
        info = page["arenascope_process"].samples[0]
        assert info.labels["malloc"] == "glibc"
        assert info.labels["glibc"] == known["allocator"]["glibc"]
        assert value(page, "arenascope_snapshot_pause_seconds", pid=pid) > 0


def test_unknown_is_absent(arenadump: harness.Arenadump) -> None:
    with started([sys.executable, "-c", THREADS], "ready") as pid, exporting(pid, "--mode=live") as exporter:
        known = arenadump.summary(pid, "--mode=live")["ledger"]
        shown = of_process(exporter.after_poll(), pid, "arenascope_row_bytes", "row")
    assert None in known.values(), "nothing is unknown here: choose another process"
    assert shown == {row: held for row, held in known.items() if held is not None}


def test_a_process_that_ends_disappears_at_once() -> None:
    with running("pins") as program, running("mmapped") as other, exporting(program.pid, other.pid) as exporter:
        page = exporter.after_poll()
        assert set(samples(page, "arenascope_rss_bytes", command=comm(other.pid))) == {
            (str(program.pid),),
            (str(other.pid),),
        }
        program.kill()
        os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        page = exporter.scrape()
        assert value(page, "arenascope_exporter_polls") == 1
        for name, family in page.items():
            assert str(program.pid) not in {each.labels.get("pid") for each in family.samples}, name
        assert value(page, "arenascope_exporter_processes", state="shown") == 1


def test_a_scrape_waits_for_no_snapshot(tmp_path: Path) -> None:
    stall = tmp_path / "stall"
    with (
        running("pins") as program,
        exporting(program.pid, every="1ms", program=failing(tmp_path), eager=True) as exporter,
    ):
        exporter.after_poll()
        stall.touch()
        while not (tmp_path / "stalled").exists():
            time.sleep(0.05)
        ages, bounds = [], []
        for _ in range(3):
            before = time.time()
            page = exporter.scrape(timeout=300)  # the snapshot lasts until it may go on
            after = time.time()
            ages.append(value(page, "arenascope_snapshot_age_seconds"))
            assert value(page, "arenascope_rss_bytes") > 0
            taken = value(page, "arenascope_snapshot_timestamp_seconds")
            bounds.append((before - taken - 1, after - taken + 1))
            time.sleep(0.2)
        stall.unlink()
        assert all(low < age < high for age, (low, high) in zip(ages, bounds)), (ages, bounds)
        assert ages[2] - ages[0] >= 0.4
        exporter.after_poll(int(value(page, "arenascope_exporter_polls")) + 1)


def test_a_snapshot_that_fails_leaves_no_row(tmp_path: Path) -> None:
    with (
        running("pins") as program,
        exporting(program.pid, every="1ms", program=failing(tmp_path), eager=True) as exporter,
    ):
        assert value(exporter.after_poll(), "arenascope_rss_bytes") > 0
        (tmp_path / "fail").touch()
        while not samples(page := exporter.scrape(), "arenascope_exporter_snapshots_failed"):
            time.sleep(0.05)
        assert value(page, "arenascope_exporter_snapshots_failed", reason="denied") >= 1
        for family in FAMILIES:
            assert not page[family.name].samples, family.name
        (tmp_path / "fail").unlink()
        while not samples(page := exporter.scrape(), "arenascope_rss_bytes"):
            time.sleep(0.05)


@pytest.mark.parametrize("name", [b'a"b\\c\nd{}=', b"\xff\xfe\x1b[31m", "é\u2028\u202e".encode(), b" # HELP x y"])
def test_names_cannot_break_the_page(name: bytes) -> None:
    with odd.called(name) as pid, exporting(pid) as exporter:
        page = exporter.after_poll()
        plain = exporter.get({})[1]
    expected = printable(name[:15].decode("utf-8", "surrogateescape"))
    assert not name.startswith(b"\xff") or expected == r"\xff\xfe\x1b[31m"
    assert {each.labels["command"] for each in page["arenascope_rss_bytes"].samples} == {expected}
    assert len(plain.splitlines()) == len([line for line in plain.split("\n") if line])
    assert checked(plain).returncode == 0


def checked(plain: str) -> subprocess.CompletedProcess[str]:
    promtool = tool("promtool")
    return subprocess.run([promtool, "check", "metrics"], input=plain, capture_output=True, text=True, check=False)


def test_promtool_has_nothing_to_say() -> None:
    with running("idle-arenas") as program, exporting(program.pid) as exporter:
        exporter.after_poll()
        done = checked(exporter.get({})[1])
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_page_is_bounded_and_says_what_is_left_out() -> None:
    with ExitStack() as stack:
        pids = [stack.enter_context(running("idle-arenas")).pid for _ in range(3)]
        exporter = stack.enter_context(exporting(f"--command={comm(pids[0])}", *pids, "--processes=2", "--arenas=2"))
        page = exporter.after_poll()
        whole = stack.enter_context(exporting(*pids, "--arenas=100")).after_poll()
    shown = {each.labels["pid"] for each in page["arenascope_rss_bytes"].samples}
    assert len(shown) == 2
    states = {state: int(number) for (state,), number in samples(page, "arenascope_exporter_processes").items()}
    assert states["chosen"] >= 3
    assert states == {"chosen": states["chosen"], "shown": 2, "left_out": states["chosen"] - 2}
    for pid in shown & {str(pid) for pid in pids}:
        every = {each.labels["arena"] for each in whole["arenascope_arena_system_bytes"].samples}
        assert {each.labels["arena"] for each in page["arenascope_arena_row_bytes"].samples} <= every | {OTHERS}
        assert value(page, "arenascope_arenas_left_out", pid=pid) == value(page, "arenascope_arenas", pid=pid) - 2 > 0
        for row in ARENA_ROWS:
            parts = samples(page, "arenascope_arena_row_bytes", pid=pid, row=row)
            assert len(parts) == 3
            all_parts = samples(whole, "arenascope_arena_row_bytes", pid=pid, row=row)
            assert sum(parts.values()) == sum(all_parts.values()), row


def test_the_bound_is_the_one_that_is_documented(agent: Path) -> None:
    text = (DOCS / "live.md").read_text()
    bound = re.search(
        r"at most ([0-9]+) samples, ([0-9]+) for each arena, and 2 for each finding \(of ([0-9]+)\)", text
    )
    assert bound
    fixed, of_arena, findings = map(int, bound.groups())
    assert findings == len(EVIDENCE) + 1
    assert of_arena == len(ARENA_ROWS) + 1
    with running("pins", **with_policy(agent)) as program, exporting(program.pid, *FREEZE) as exporter:
        page = exporter.after_poll()
    counted = [
        each
        for family in page.values()
        for each in family.samples
        if "pid" in each.labels and not {"arena", "finding"} & set(each.labels)
    ]
    assert len(counted) == fixed
    largest = 32 * (fixed + 9 * of_arena + 2 * findings)
    assert f"{largest:,} samples" in text
    assert len(rows.RESIDENT) == len(of_rows := samples(page, "arenascope_row_bytes", pid=program.pid)), of_rows


def test_every_metric_is_documented() -> None:
    with running("pins") as program, exporting(program.pid) as exporter:
        page = exporter.after_poll()
    text = (DOCS / "live.md").read_text()
    suffix = {"counter": "_total", "info": "_info"}
    assert {name for name, each in page.items() if f"`{name}{suffix.get(each.type, '')}" not in text} == set()


def test_only_this_machine_is_served_unless_the_user_says_so() -> None:
    command = [sys.executable, "-m", "arenascope", "exporter", str(os.getpid())]
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:9764"):
        done = subprocess.run([*command, "--listen", address], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 2, address
        assert "--public" in done.stderr
    for address in ("9764", "127.0.0.1", "example.org:9764", "127.0.0.1:70000", "::1:9764", "[127.0.0.1]:1", ":9764"):
        assert parse_address(address) is None, address
    for address in ("127.0.0.1:9764", "localhost:1", "[::1]:9764", "127.9.9.9:1"):
        made = parse_address(address)
        assert made
        assert made.is_loopback, address
    with odd.called(b"quiet") as pid:
        public = [sys.executable, "-m", "arenascope", "exporter", str(pid), "--listen=0.0.0.0:0", "--public"]
        with subprocess.Popen(public, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr
            assert "serving" in child.stderr.readline()
            assert "warning: whoever can reach" in child.stderr.readline()
            child.send_signal(signal.SIGINT)
            assert child.wait(60) == 0


def test_an_address_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "arenascope", "exporter", str(os.getpid()), "--listen", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 8
    assert f"cannot listen at {address}: Address already in use" in done.stderr


def test_clients_that_say_nothing_keep_nobody_waiting() -> None:
    with odd.called(b"quiet") as pid, exporting(pid) as exporter:
        exporter.after_poll()
        with ExitStack() as silent:
            for _ in range(CLIENTS):
                silent.enter_context(socket.create_connection(("127.0.0.1", exporter.port)))
            exporter.get({}, timeout=240)  # it has the place of one of them
            assert len(list(Path(f"/proc/{exporter.child.pid}/task").iterdir())) <= CLIENTS + 8
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(exporter.url.replace("/metrics", "/secret"), timeout=300)


def test_inspects_cost_half_a_per_cent(tmp_path: Path) -> None:
    with running("pins") as program, exporting(program.pid, every="1ms") as exporter:
        page = exporter.after_poll()
        cost = value(page, "arenascope_exporter_poll_cpu_seconds")
        assert cost > 0.001, "arenadump's own time is missing"
        assert value(page, "arenascope_exporter_interval_seconds") == pytest.approx(cost / 0.005)
        assert value(page, "arenascope_exporter_cpu_seconds") >= cost


def expressions() -> list[str]:
    """Every query of the dashboard and of the rules, as Grafana would send it."""
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    ruled = re.findall(r"^ +expr: (.*)$", BLOCKS[1], re.MULTILINE)
    assert len(shown) > 8
    assert len(ruled) == 3
    return [re.sub(r"\$(command|pid)\b", ".*", each) for each in [*shown, *ruled]]


def test_the_dashboard_and_the_rules_are_valid(tmp_path: Path) -> None:
    rules = tmp_path / "arenascope.rules"
    rules.write_text(BLOCKS[1])
    recorded = [{"record": f"test:{number}", "expr": expr} for number, expr in enumerate(expressions())]
    (tmp_path / "dashboard.rules").write_text(json.dumps({"groups": [{"name": "all", "rules": recorded}]}))
    for file in (rules, tmp_path / "dashboard.rules"):
        done = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "prometheus.yml").write_text(BLOCKS[0])
    config = [tool("promtool"), "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(config, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with running("idle-arenas") as program, exporting(program.pid) as exporter:
        page = exporter.after_poll()
    known = {f"{name}_total" if each.type == "counter" else name for name, each in page.items()}
    named = {name for expr in expressions() for name in re.findall(r"\barenascope_\w+", expr)}
    assert named <= known
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) <= variables
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels overlap"
    assert max(x for x, _ in cells) < 24


@pytest.mark.slow
def test_prometheus_scrapes_it(tmp_path: Path, agent: Path) -> None:
    with ExitStack() as stack:
        pid = stack.enter_context(running("idle-arenas", **with_policy(agent))).pid
        exporter = stack.enter_context(exporting(pid, *FREEZE))
        page = exporter.after_poll()
        server = stack.enter_context(prometheus(tmp_path, exporter.port))
        query = f'sum(count_over_time(arenascope_rss_bytes{{pid="{pid}"}}[1m]))'
        end = time.monotonic() + 240
        while True:
            try:
                got = answer(server, query)
                if got and float(got[0]["value"][1]) >= 3:
                    break
            except OSError:
                pass
            assert time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.5)
        held = {each["metric"]["row"]: float(each["value"][1]) for each in answer(server, "arenascope_row_bytes")}
        assert held == of_process(page, pid, "arenascope_row_bytes", "row")
        (rss,) = answer(server, "sum by (pid) (arenascope_row_bytes) - on (pid) arenascope_rss_bytes")
        assert float(rss["value"][1]) == 0
        empty = []
        for expr in expressions():
            found = answer(server, expr.replace("[10m:]", "[10m:1s]"))
            if not found and not any(name in expr for name in RARE) and "age_seconds > 600" not in expr:
                empty.append(expr)
        assert not empty
        (up,) = answer(server, "up")
        assert up["value"][1] == "1"
