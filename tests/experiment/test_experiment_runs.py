# SPDX-License-Identifier: MIT
"""Experiments as people run them: real processes, measured, kept, interrupted, gone on with."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tools import harness
from tools.command import here

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import available, procfs, spec
from arenascope.experiment.table import render_list
from arenascope.experiment.trial import Trial
from arenascope.wire.agent import find_agent

# Holds 40 MiB while it works, 24 of them to the end; says when it is ready and done, marks, and reports.
PROGRAM = """
import ctypes, sys, time
ctypes.CDLL(None).mlockall(1 | 4)  # or a machine short of memory takes its pages of files back meanwhile
print("ready", flush=True)
if sys.stdin.readline() != "go\\n": sys.exit(3)
held = bytearray(b"x") * (24 << 20)
more = bytearray(b"x") * (16 << 20)
print("arenascope mark full", flush=True)
sys.stdin.readline()
begun = time.process_time()
while time.process_time() - begun < 0.1: pass
del more
used = time.process_time()
print(f"arenascope report operations=1000 p99_ms=2.5 kind=program worked={used - begun} used={used}", flush=True)
print("done", flush=True)
if sys.stdin.readline(): sys.stdin.read()
"""
SPEC = f"""
title = "A program"
[experiment]
repeats = 2
warmup = 1
settle = "100ms"
interval = "10ms"
timeout = "20s"
[workload]
command = ["{sys.executable}", "{{here}}/program.py"]
ready = {{ line = "^ready$" }}
load = {{ stdin = "go\\n" }}
done = {{ line = "^done$" }}
[[configuration]]
name = "plain"
[[configuration]]
name = "arenas-1"
env = {{ MALLOC_ARENA_MAX = "1" }}
"""
# Ends by itself, but not before it is traced: a tracee is stopped at its end for the last sample, so there is a sample
# however slow the machine is.
BRIEF = """
import time
held = [bytearray(1000) for _ in range(9000)]
while time.process_time() < 0.05: pass
while "TracerPid:\\t0\\n" in open("/proc/self/status").read(): time.sleep(0.01)
"""
MIB = 1 << 20


def start(*arguments: object, cwd: Path | None = None, **env: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve()), **env}
    command = [sys.executable, "-m", "arenascope", "experiment", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )


def run(
    *arguments: object, cwd: Path | None = None, timeout: float = 120, **env: str
) -> subprocess.CompletedProcess[str]:
    with start(*arguments, cwd=cwd, **env) as child:
        out, err = child.communicate(timeout=timeout)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def records(results: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(results.glob("runs/[0-9]*/run.json"))]


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path / "spec.toml"


@pytest.fixture(scope="module")
def results(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's results."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)
    (folder / "spec.toml").write_text(SPEC)
    done = run("run", folder / "spec.toml", "-o", folder / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "A program" in done.stdout
    return folder / "results"


def test_figures_are_those_of_the_program(results: Path) -> None:
    made = records(results)
    assert [result["warmup"] for result in made] == [True] * 2 + [False] * 4
    for result in made[2:]:
        metrics = result["metrics"]
        assert result["status"] == "ok"
        assert 40 <= metrics["rss_peak"] / MIB < 80
        assert 15 < (metrics["rss_peak"] - metrics["rss_settled"]) / MIB < 18, "the 16 MiB that it dropped"
        folder = results / "runs" / f"{result['number']:04}-{result['configuration']}"
        with (folder / "samples.csv").open() as file:
            least = min(int(row["rss"]) for row in csv.DictReader(file))
        assert least <= metrics["rss_average"] <= metrics["rss_peak"]
        assert metrics["pss_end"] <= metrics["rss_end"]
        # By its own clock, which the kernel's figures follow in ticks: not less than in its loop, not more than in all.
        tick = 1 / os.sysconf("SC_CLK_TCK")
        assert metrics["worked"] - 2 * tick <= metrics["cpu"] <= metrics["used"] + 2 * tick
        assert metrics["cpu"] == pytest.approx(metrics["cpu_user"] + metrics["cpu_system"])
        assert metrics["minor_faults"] * os.sysconf("SC_PAGE_SIZE") >= 30 * MIB
        assert metrics["throughput"] == pytest.approx(1000 / metrics["wall"])
        assert (metrics["p99_ms"], result["notes"]) == (2.5, {"kind": "program"})
        (mark,) = result["marks"]
        assert mark["name"] == "full"
        assert 40 <= mark["rss"] / MIB < 80
        assert 0 <= result["machine"]["others_cpu"] <= 1


def test_the_ledger_explains_what_was_measured(results: Path) -> None:
    measured = records(results)[2:]
    assert len(measured) == 4
    for result in measured:
        folder = results / "runs" / f"{result['number']:04}-{result['configuration']}"
        ledger = json.loads((folder / "ledger.json").read_text())
        assert sum(ledger["ledger"].values()) == ledger["kernel"]["rss"]
        assert ledger["kernel"]["rss"] == pytest.approx(result["metrics"]["rss_settled"], abs=MIB)
        assert ledger["ledger"]["mmapped_in_use"] >= 24 * MIB
        tunables = ledger["tunables"]
        assert tunables["arena_max"] == (1 if result["configuration"] == "arenas-1" else 0)


def test_results_are_private_and_tabular(results: Path) -> None:
    for path in results.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    rows = list(csv.DictReader((results / "runs.csv").open()))
    assert [row["configuration"] for row in rows] == [result["configuration"] for result in records(results)]
    assert int(rows[2]["rss_peak"]) == records(results)[2]["metrics"]["rss_peak"]
    samples = list(csv.DictReader(next(results.glob("runs/0002-*/samples.csv")).open()))
    times = [float(sample["time"]) for sample in samples]
    assert times == sorted(times)
    assert len(times) > 5


def test_the_analysis_as_json(results: Path) -> None:
    done = run("report", results, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["memory"] == "rss_average"
    assert {each["name"]: each["runs"] for each in answer["configurations"]} == {"plain": 2, "arenas-1": 2}
    assert answer["runs"] == {"made": 6, "planned": 6}
    assert answer["verdict"]["lead"].startswith("No recommendation: fewer than 4 runs")
    pairs = [each for pairs in answer["differences"].values() for each in pairs]
    assert pairs
    assert not any(each["apart"] for each in pairs)


def test_settings_of_our_own_environment_reach_no_run(
    arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path
) -> None:
    done = run(
        "run", spec_file, "-o", tmp_path / "r", "--repeats", 1, "--warmup", 0, "--no-report", MALLOC_ARENA_MAX="7"
    )
    assert done.returncode == 0, done.stderr
    ledgers = [json.loads(path.read_text()) for path in tmp_path.glob("r/runs/*/ledger.json")]
    assert sorted(ledger["tunables"]["arena_max"] for ledger in ledgers) == [0, 1]


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(
    arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path
) -> None:
    results = tmp_path / "r"
    with start("run", spec_file, "-o", results) as child:
        assert child.stderr
        for _ in range(3):
            child.stderr.readline()  # a line for each run
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert f"arenascope experiment run --resume {results}" in err
    before = {path: path.stat().st_mtime_ns for path in results.glob("runs/*/run.json")}
    assert 3 <= len(before) < 6
    assert not list(results.glob("runs/.*")), "nothing is left of the run under way"
    assert not _running(tmp_path / "program.py")
    done = run("run", "--resume", results)
    assert done.returncode == 0, done.stderr
    after = {path: path.stat().st_mtime_ns for path in results.glob("runs/*/run.json")}
    assert len(after) == 6
    assert before.items() <= after.items(), "what was done stays as it is"
    assert (results / "report.html").exists()


def test_the_time_may_be_up(arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path) -> None:
    done = run("run", spec_file, "-o", tmp_path / "r", "--max-time", "1s", "--repeats", 30, "--no-report")
    assert done.returncode == 0
    assert re.search(r"The time is up; \d+ runs are missing", done.stderr)
    assert 1 <= len(records(tmp_path / "r")) < 62


def test_a_run_that_fails_is_kept_with_its_output(
    arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path
) -> None:
    spec_file.write_text(
        SPEC.replace("warmup = 1", "warmup = 0") + '[[configuration]]\nname = "bad"\nenv = { BAD = "1" }'
    )
    (tmp_path / "program.py").write_text("import os\nif 'BAD' in os.environ: print('alas'); exit(7)\n" + PROGRAM)
    done = run("run", spec_file, "-o", tmp_path / "r", "--no-report")
    assert done.returncode == Code.INTERNAL
    assert "2 of 6 runs failed" in done.stderr
    failed = [result for result in records(tmp_path / "r") if result["status"] != "ok"]
    assert {result["configuration"] for result in failed} == {"bad"}
    assert "it ended with exit code 7 when it was to be ready" in failed[0]["reason"]
    assert "alas" in failed[0]["reason"]
    assert next(tmp_path.glob("r/runs/*-bad/workload.txt")).read_text() == "alas\n"
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run("run", "--resume", tmp_path / "r", "--no-report").returncode == 0, "failed runs stay as they are"
    assert [result["status"] for result in records(tmp_path / "r")].count("failed") == 2
    assert run("run", "--resume", tmp_path / "r", "--retry", "--no-report").returncode == 0
    assert {result["status"] for result in records(tmp_path / "r")} == {"ok"}


@pytest.mark.parametrize("figure", ["cpu", "rss_average", "throughput", "@sum", "Ops/s", ""])
def test_what_is_measured_here_nobody_reports_in_its_stead(
    figure: str, arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("operations=1000", f"{figure}=1000"))
    done = run("run", spec_file, "-o", tmp_path / "r")
    assert done.returncode == Code.INTERNAL
    assert f"it reports '{figure}': the name of a figure has small letters" in done.stderr


def test_one_that_hangs_is_ended_with_its_children(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    script = f"sleep 987 & trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    done = run(
        *("run", "-o", tmp_path / "r", "--matrix", "arenas", "--only", "plain", "--repeats", 1, "--warmup", 0),
        *("--timeout", "1s", "--no-report", "--", "sh", "-c", script),
    )
    assert done.returncode == Code.INTERNAL
    assert (tmp_path / "up").exists()
    (result,) = records(tmp_path / "r")
    assert result["reason"].startswith("it was given 1 s, and took longer to be done; of one that never ends by itself")
    assert not _running(Path("987"))


def test_where_the_baseline_fails_nothing_more_is_tried(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    done = run("run", "-o", tmp_path / "r", "--matrix", "arenas", "--", "sh", "-c", "echo alas; exit 3")
    assert done.returncode == Code.INTERNAL
    assert [result["configuration"] for result in records(tmp_path / "r")] == ["plain"]
    assert (
        "plain fails, so nothing can be compared; no other configuration is tried:\n  it ended with exit" in done.stderr
    )
    assert done.stderr.count("  alas\n") == 1


def test_one_that_was_over_unseen_is_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # So short a life can be over before the first sample, and before it is known what was preloaded.
    read = spec.parse(spec.of_command(["true"], ["allocators"]), "command", tmp_path)
    monkeypatch.setattr(procfs, "members", lambda session: [])  # noqa: ARG005 - it is asked by position
    result, samples = Trial(read, read.configuration("plain"), {}, tmp_path).run(warmup=False)
    assert (result["status"], samples) == ("failed", [])
    assert result["reason"] == "it ended before the first sample: give it more work"


def test_one_that_ends_before_it_is_ready_is_not_waited_for(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    (tmp_path / "early.toml").write_text("""
        [workload]
        command = ["sh", "-c", "cat; exit 4"]
        ready = { line = "never" }
        [[configuration]]
        name = "plain"
    """)
    begun = time.monotonic()
    done = run("run", tmp_path / "early.toml", "-o", tmp_path / "r", "--repeats", 1, "--warmup", 0, "--no-report")
    assert done.returncode == Code.INTERNAL
    assert time.monotonic() - begun < 60
    (result,) = records(tmp_path / "r")
    assert result["reason"].startswith("it ended with exit code 4 when it was to be ready")


def test_somebodys_own_command_under_the_standard_matrix(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    done = run(
        *("run", "--matrix", "standard", "--repeats", 1, "--warmup", 0, "--no-report", "-o", tmp_path / "r"),
        *("--", sys.executable, "-c", BRIEF),
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    made = {result["configuration"]: result for result in records(tmp_path / "r")}
    for name in ("plain", "arenas-1", "arenas-2", "arenas-4", "thresholds", "no-tcache"):
        assert made[name]["status"] == "ok"
    for result in made.values():
        metrics = result["metrics"]
        assert metrics["rss_peak"] > 9 * MIB
        assert metrics["cpu"] > 0.01
        assert metrics["rss_settled"] is None, "it ended: there is nothing left to settle"
    # The end of its life was seen: what it held to the end is in the ledger.
    ledgers = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("r/runs/*/ledger.json")}
    assert len(ledgers) == len(made)
    plain = next(ledger for name, ledger in ledgers.items() if re.fullmatch(r"\d+-plain", name))
    assert sum(plain["ledger"].values()) == plain["kernel"]["rss"]
    assert plain["kernel"]["rss"] == pytest.approx(made["plain"]["metrics"]["rss_end"], abs=MIB)
    missing = set(spec.matrices()["standard"]) - set(made)
    for name in missing:
        assert f"{name}: not available here: " in done.stderr


def test_a_preload_that_does_not_take_is_no_result(
    arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path
) -> None:
    # A program that removes the variable and starts itself anew is not in the configuration that it is said to be in.
    again = (
        "import os, sys\nif os.environ.pop('LD_PRELOAD', None): os.execv(sys.executable, [sys.executable, *sys.argv])\n"
    )
    (tmp_path / "program.py").write_text(again + PROGRAM)
    spec_file.write_text(SPEC + '[[configuration]]\nname = "loaded"\npreload = ["libdl.so.2", "libutil.so.1"]')
    done = run("run", spec_file, "--only", "loaded", "--repeats", 1, "--warmup", 0, "-o", tmp_path / "r", "--no-report")
    assert done.returncode != 0
    (result,) = records(tmp_path / "r")
    assert result["status"] == "failed"
    assert "was preloaded, but is not in the process" in result["reason"]


def test_arenascopes_own_policy_gives_memory_back(
    arenadump: harness.Arenadump, spec_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(harness.arenadump_path().resolve()))
    try:
        agent = find_agent()
    except ArenascopeError as reason:
        pytest.skip(str(reason))
    # 40 MiB in small blocks, under one that stays: what is freed is malloc_trim's to return, and nobody calls it. Of
    # what is locked it returns nothing.
    freed = "ctypes.CDLL(None).munlockall(); held = [bytes(9000) for _ in range(5000)]; stays = [bytes(9000)]; del held"
    (tmp_path / "program.py").write_text(PROGRAM.replace("del more", f"del more; {freed}"))
    names = "plain,policy-plain"
    done = run("run", spec_file, "--only", names, "--repeats", 1, "--warmup", 0, "--settle", "4s", "-o", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    made = {result["configuration"]: result for result in records(tmp_path / "r")}
    assert made["policy-plain"]["environment"]["LD_PRELOAD"] == str(agent)
    saved = made["plain"]["metrics"]["rss_settled"] - made["policy-plain"]["metrics"]["rss_settled"]
    assert saved > 30 * MIB


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], Code.USAGE, "name an experiment"),
        (["nonesuch"], Code.NO_TARGET, "neither a file nor an experiment"),
        (["cycles", "--", "true"], Code.USAGE, "both a spec"),
        (["--matrix", "nonesuch", "--", "true"], Code.USAGE, "there is no matrix 'nonesuch'; there are"),
        (["cycles", "--only", "nonesuch"], Code.USAGE, "there is no configuration 'nonesuch'"),
        (["cycles", "--set", "peek=1"], Code.USAGE, "this workload's parameters are: threads, peak_mib, cycles"),
        (["cycles", "--settle", "5"], Code.BAD_INPUT, "settle = '5', which is not a time"),
        (["cycles", "--max-time", "5"], Code.USAGE, "--max-time 5 is not a time"),
        (["cycles", "--retry"], Code.USAGE, "--retry needs --resume"),
        (["--resume", "/nonexistent"], Code.NO_TARGET, "has no experiment.json"),
        (["cycles", "--resume", "/nonexistent"], Code.USAGE, "--resume continues the planned runs"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], code: Code, says: str, tmp_path: Path) -> None:
    done = here("experiment", "run", *arguments, cwd=tmp_path)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_what_could_not_be_started_leaves_its_place_free(spec_file: Path, tmp_path: Path) -> None:
    spec_file.write_text(SPEC.replace(sys.executable, "/nonexistent/program"))
    for _ in range(2):
        done = run("run", spec_file, "-o", tmp_path / "r")
        assert done.returncode == Code.USAGE
        assert "/nonexistent/program could not be started: No such file" in done.stderr
    assert not (tmp_path / "r").exists()


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "precious").touch()
    done = run("run", "-o", tmp_path / "r", "--matrix", "arenas", "--", "true")
    assert done.returncode == Code.IO
    assert "exists already" in done.stderr
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["precious"]


def test_what_is_not_here_is_refused_plainly(spec_file: Path, tmp_path: Path) -> None:
    spec_file.write_text(SPEC + '[[configuration]]\nname = "far"\npreload = ["libnonesuch.so.3"]\nget = "apt-get it"')
    done = run("run", spec_file, "--only", "plain,far", "-o", tmp_path / "r")
    assert done.returncode == Code.UNSUPPORTED
    assert "far: not available here: libnonesuch.so.3 is not installed; apt-get it" in done.stderr


@pytest.mark.nightly("experiments")
@pytest.mark.slow
@pytest.mark.parametrize("name", spec.shipped())
def test_the_smoke_size_of_every_shipped_workload(name: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    path = spec.shipped()[name]
    read = spec.parse(spec.load(path), str(path), path.parent)
    missing = available.missing_for_workload(read)
    if missing and name == "redis" and shutil.which("redis-server"):
        pytest.xfail(f"the redis of this release runs on no other malloc than its own: {missing}")
    if missing:
        pytest.skip(missing)
    arguments = ("run", name, "--smoke", "--only", "plain,arenas-1", "-o", tmp_path / "r", "--no-report")
    done = run(*arguments, timeout=600)  # Go's compiler may have to compile its library first
    assert done.returncode == 0, done.stderr
    made = records(tmp_path / "r")
    assert len(made) == 2
    for result in made:
        assert result["metrics"]["throughput"] > 0
        assert result["metrics"]["rss_settled"] > 0
        assert result["ledger_missing"] is None
    ledgers = [json.loads(path.read_text()) for path in tmp_path.glob("r/runs/*/ledger.json")]
    assert [ledger["allocator"]["malloc"] for ledger in ledgers] == ["glibc"] * 2, "plain is glibc's malloc"
    assert sorted(ledger["tunables"]["arena_max"] for ledger in ledgers) == [0, 1]


def test_list_says_what_there_is() -> None:
    done = run("list", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [each["name"] for each in answer["experiments"]] == list(spec.shipped())
    shown = Console(width=80)
    with shown.capture() as text:
        shown.print(render_list(answer))
    for each in [*answer["experiments"], *answer["configurations"]]:
        assert re.search(rf"^  {re.escape(each['name'])}  ", text.get(), re.MULTILINE)
    assert "…" not in text.get()
    # What does not fit a line goes on below its beginning, not below the name.
    assert all(line.startswith("  ") for line in text.get().splitlines() if line and not line[0].isupper())
    assert sum(line.strip() in {"Experiments", "Matrices", "Configurations"} for line in text.get().splitlines()) == 3


def _running(word: Path) -> bool:
    """Whether a process has this word in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(word).encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
