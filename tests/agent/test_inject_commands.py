# SPDX-License-Identifier: MIT
"""arenascope inject and arenascope trim as people run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness, odd, programs
from tools import synthetic_dump as synthetic
from tools.injection import (
    BAD_INPUT,
    SCRIPT,
    inject,
    loaded,
)

pytestmark = pytest.mark.usefixtures("pages_stay")


def arenascope(arenadump: harness.Arenadump, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    return subprocess.run(
        [sys.executable, "-m", "arenascope", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )


def test_what_was_held_for_longer_is_said(arenadump: harness.Arenadump) -> None:
    """No pass through an arena is done within a microsecond, and any within an hour."""
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        inject(arenadump, pid)
        for most, ms in (("1us", 0.001), ("3600s", 3.6e6)):
            facts = json.loads(arenadump.check("trim", "--json", "--max-hold", most, pid))
            assert facts["max_hold_ms"] == ms
            over = facts["longest_hold_ms"] > ms
            assert over == (most == "1us")
            said = [arenadump.check("trim", "--max-hold", most, pid)]
            said.append(" ".join(arenascope(arenadump, "trim", "--max-hold", most, pid).stdout.split()))
            for text in said:
                assert ("longer than the" in text and "--max-hold" in text) == over, text
        facts = json.loads(arenadump.check("trim", "--json", pid))
        assert facts["max_hold_ms"] is None


def test_a_limit_of_snapshots_is_none_of_locks(arenadump: harness.Arenadump) -> None:
    """--max-pause once bounded a trim's locks: who still means that is told, and nothing is done."""
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("trim", "--max-pause=5ms", pid)
        assert done.returncode == 2
        assert "--max-hold" in done.stderr
        assert loaded(pid) == 0
        assert arenadump.run("summary", "--max-hold=5ms", pid).returncode == 2
        forecast = json.loads(arenadump.check("trim", "--forecast", "--max-pause=60s", "--json", pid))
        assert forecast["trimmed"] is False


def test_the_python_commands(arenadump: harness.Arenadump) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        done = arenascope(arenadump, "inject", pid)
        assert done.returncode == 0, done.stderr
        assert f"answers in process {pid}: loaded by thread {pid} (waiting in system call {odd.READ})" in done.stdout
        done = arenascope(arenadump, "trim", "--forecast", pid)
        assert re.search(r"A trim would return [\d.]+ \w+\.", done.stdout), done
        done = arenascope(arenadump, "trim", "--deep", "--max-hold", "5ms", "--watch", "10ms", pid)
        for words in (
            "A deep trim returned ",
            "No arena was locked for longer than",
            "is resident again",
            "locked for",
        ):
            assert words in done.stdout, done
        facts = json.loads(arenascope(arenadump, "trim", "--json", pid).stdout)
        assert facts["schema"] == "arenascope.trim/1"
        arena = facts["arenas"][0]["address"]
        facts = json.loads(arenascope(arenadump, "trim", "--json", "--arena", arena, pid).stdout)
        assert [found["address"] for found in facts["arenas"]] == [arena]
        done = arenascope(arenadump, "trim", "--arena", "main", pid)
        assert done.returncode == 2
        assert "--arena 'main'" in done.stderr


def test_where_the_gdb_script_is(arenadump: harness.Arenadump) -> None:
    assert arenascope(arenadump, "gdb-script").stdout == f"{SCRIPT}\n"


@pytest.mark.parametrize("what", ["1", "nothing", "core"])
def test_what_is_no_process(arenadump: harness.Arenadump, tmp_path: Path, what: str) -> None:
    targets = {"1": "99999999", "nothing": str(tmp_path / "none"), "core": "/bin/true"}
    for command in ("inject", "trim"):
        assert arenadump.run(command, targets[what]).returncode in (2, 3, BAD_INPUT)


def test_trim_injects(arenadump: harness.Arenadump) -> None:
    with odd.running([str(programs.build("causes", "-lpthread")), "free-pages"]) as pid:
        assert json.loads(arenadump.check("trim", "--json", pid))["injected"] is True
        assert "returned" in arenadump.check("trim", pid)
        watched = json.loads(arenadump.check("trim", "--deep", "--watch", "100ms", "--json", pid))
        assert watched["watched_ms"] == 100
        assert watched["faulted_back"] == 0, "it stands still"
        assert watched["minor_faults"] < 100
        done = arenadump.run("trim", "--forecast", "--watch", "1s", pid)
        assert done.returncode == 2


def test_a_forecast_loads_nothing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        forecast = json.loads(arenadump.check("trim", "--forecast", "--deep", "--json", pid))
        assert forecast["pid"] == pid
        assert forecast["forecast"] == arenadump.summary(pid)["forecast"]["deep_trim"]
        assert not loaded(pid)
        dump = tmp_path / "dump"
        arenadump.check("dump", pid, "-o", dump)
        assert json.loads(arenadump.check("trim", "--forecast", "--deep", "--json", dump)) == forecast
        done = arenadump.run("trim", "--forecast", "--arena", "0x1230", pid)
        assert done.returncode == 2
        assert "there is no arena at 0x1230" in done.stderr


def test_an_arena_has_one_name_everywhere(arenadump: harness.Arenadump) -> None:
    """That of the summary, whether a trim is forecast from outside or made by the agent; its address beside it."""
    with odd.running([str(programs.build("causes", "-lpthread")), "idle-arenas"]) as pid:
        summary = arenadump.summary(pid)
        named = [(index, arena["name"], arena["address"]) for index, arena in enumerate(summary["arenas"])]
        assert [name for _, name, _ in named] == ["main arena", *(f"arena {index}" for index in range(1, 9))]
        for options in (["--forecast"], [], ["--deep", "--max-hold=1s"], ["--arena", named[5][2]]):
            expected = named[5:6] if "--arena" in options else named
            facts = json.loads(arenadump.check("trim", "--json", *options, pid))
            assert [(each["index"], each["name"], each["address"]) for each in facts["arenas"]] == expected, options
            table = arenadump.check("trim", *options, pid)
            shown = arenascope(arenadump, "trim", *options, pid).stdout
            for _, name, address in expected:
                assert re.search(rf"^{name} +{address} +\d", table, re.MULTILINE), table
                assert re.search(rf"^{name} +{address} +\d", shown, re.MULTILINE), shown


def test_a_forecast_counts_rubys_pages_as_resident(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The pages of a Ruby up to 3.0 are malloc's: a row of the arena as any other."""
    made = synthetic.sections()
    made["arenas"][0]["ledger"]["ruby_pages"] = 5 << 20
    dump = synthetic.write(tmp_path / "dump", made)
    arena = json.loads(arenadump.check("trim", "--forecast", "--json", dump))["arenas"][0]
    assert arena["resident"] == 2 * synthetic.PAGE + (5 << 20)
