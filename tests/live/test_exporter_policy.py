# SPDX-License-Identifier: MIT
"""What `arenascope exporter` shows of the agents' policies: their counters, and silence where nobody tells."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from tools import harness, odd
from tools.exporting import answer, exporting, failing, prometheus, samples, value
from tools.running import running
from tools.stage import Stage, until

pytestmark = pytest.mark.usefixtures("pages_stay")

COUNTERS = {
    "checks": "arenascope_policy_checks",
    "trims": "arenascope_policy_trims",
    "returned": "arenascope_policy_returned_bytes",
    "faulted_back": "arenascope_policy_faulted_back_bytes",
}
UNANSWERED = "arenascope_exporter_policies_unanswered"
# Needs memory again and again, and gives it back.
BREATHES = """
import os, pathlib, time
pathlib.Path("mark").write_text(str(os.getpid()))
while True:
    held = [bytes(3000) for _ in range(3000)]
    time.sleep(0.1)
    del held
    time.sleep(0.3)
"""


def breathing(stage: Stage) -> int:
    stage.start([sys.executable, "-c", BREATHES], ARENASCOPE_TRIM="every=100ms,max-hold=5ms", PYTHONMALLOC="malloc")
    return stage.marked()


def policy_names(page: dict[str, Metric], pid: int) -> set[str]:
    """The metrics of a policy that the page has of a process."""
    named = {name: family for name, family in page.items() if name.startswith("arenascope_policy_")}
    assert len(named) == 7
    return {name for name in named if samples(page, name, pid=pid)}


def test_the_counters_are_those_of_the_agent(stage: Stage, arenadump: harness.Arenadump) -> None:
    pid = breathing(stage)

    def now() -> dict[str, float]:
        said = json.loads(arenadump.check("policy", "--json", pid))
        # A page on its way elsewhere (compaction) leaves unknown what came back, from then on: null.
        return {
            name: math.nan if said[name] is None else said[name]
            for name in (*COUNTERS, "elapsed_ms", "longest_hold_ms")
        }

    until(lambda: now()["returned"] != 0, "nothing comes back")
    before = now()
    with exporting(pid) as exporter:
        page = exporter.after_poll()
        until(lambda: now()["trims"] > before["trims"], "it trims no more")
        after = now()
    for name, metric in COUNTERS.items():
        assert page[metric].type == "counter"
        if math.isnan(before[name]):
            assert not samples(page, metric, pid=pid)
        elif not math.isnan(after[name]):
            assert before[name] <= value(page, metric, pid=pid) <= after[name], name
    elapsed = 1000 * value(page, "arenascope_policy_elapsed_seconds", pid=pid)
    assert before["elapsed_ms"] <= elapsed <= after["elapsed_ms"]
    hold = 1000 * value(page, "arenascope_policy_longest_hold_seconds", pid=pid)
    assert before["longest_hold_ms"] <= hold <= after["longest_hold_ms"]
    assert value(page, "arenascope_policy_on", pid=pid) == 1


def test_without_an_agent_or_a_policy_nothing_is_0(stage: Stage, actor: Path) -> None:
    stage.start([str(actor), "mark", "mark", "sleep"])
    pid = stage.marked()
    stage.ask(pid)  # so the agent has a thread
    with running("pins") as program, exporting(program.pid, pid) as exporter:
        page = exporter.after_poll()
    assert policy_names(page, program.pid) == set()
    assert policy_names(page, pid) == {"arenascope_policy_on"}
    assert value(page, "arenascope_policy_on", pid=pid) == 0
    assert samples(page, UNANSWERED) == {}


def test_a_process_that_is_stopped_delays_no_scrape(stage: Stage, actor: Path, tmp_path: Path) -> None:
    """Its snapshot is shown, its policy is not; and it is not asked again at once."""
    stage.start([str(actor), "mark", "mark", "sleep"], ARENASCOPE_TRIM="every=1h")
    pid = stage.marked()
    stage.logged("ready")
    with exporting(pid, every="1ms", program=failing(tmp_path, "policy"), eager=True) as exporter:
        until(lambda: policy_names(exporter.scrape(), pid), "no policy")
        (tmp_path / "stall").touch()
        until((tmp_path / "stalled").exists, "nobody asks")
        os.kill(pid, signal.SIGSTOP)
        # The question has no end before we say so: a scrape that waited for it would have none, either.
        assert len({value(exporter.scrape(), "arenascope_exporter_polls") for _ in range(5)}) == 1
        assert not samples(exporter.scrape(), UNANSWERED)
        (tmp_path / "stall").unlink()
        until(lambda: samples(exporter.scrape(), UNANSWERED), "the question has no end")
        page = exporter.scrape()
        assert value(page, UNANSWERED, reason="denied") == 1
        polls = int(value(page, "arenascope_exporter_polls"))
        page = exporter.after_poll(polls + 2)
        assert value(page, UNANSWERED, reason="denied") == 1
        assert policy_names(page, pid) == set()
        assert value(page, "arenascope_rss_bytes", pid=pid) > 0
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(("how", "reason"), [("older", "unsupported"), ("silent", "denied"), ("arenas", "denied")])
def test_an_agent_that_does_not_tell_is_counted(how: str, reason: str) -> None:
    with odd.running([odd.hostile(), how]) as pid, exporting(pid, every="1ms", eager=True) as exporter:
        page = exporter.after_poll(2)
        assert samples(page, UNANSWERED) == {(reason,): 1}, "an agent that gave no answer was asked at each poll"
        assert policy_names(page, pid) == set()
        assert value(page, "arenascope_rss_bytes", pid=pid) > 0


@pytest.mark.slow
def test_prometheus_sees_the_counters_move(stage: Stage, tmp_path: Path) -> None:
    with ExitStack() as stack:
        pid = breathing(stage)
        exporter = stack.enter_context(exporting(pid, every="1s"))
        server = stack.enter_context(prometheus(tmp_path, exporter.port))
        for metric in ("checks_total", "trims_total", "returned_bytes_total", "elapsed_seconds_total"):
            query = f'increase(arenascope_policy_{metric}{{pid="{pid}"}}[2m])'
            end = time.monotonic() + 240
            while True:
                try:
                    got = answer(server, query)
                    if got and float(got[0]["value"][1]) > 0:
                        break
                except OSError:
                    pass
                assert time.monotonic() < end, (tmp_path / "log").read_text()
                time.sleep(0.5)
