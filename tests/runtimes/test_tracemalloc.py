# SPDX-License-Identifier: MIT
"""The tables of CPython's tracemalloc, which take more of malloc's memory than anything else where it is on."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from runtimes.test_python_objects import RELEASES, waiting
from tools import harness, odd, tiers

from arenascope.findings import Facts, judge
from arenascope.wire.summary import parse

SINCE_39 = [release for release in RELEASES if release != "3.8"]
# At a byte of input tracemalloc is switched on, at the next one off.
PROGRAM = """
import os, _tracemalloc
def wait():
    os.write(1, b".")
    os.read(0, 1)
wait()
_tracemalloc.start(3)
kept = [(i,) for i in range(40000)] + [str(i) * 3 for i in range(20000)]
wait()
os.write(1, b"%12d" % len(_tracemalloc._get_traces()))
_tracemalloc.stop()
wait()
"""
ENTRY, TRACE = "entry of _Py_hashtable_t (CPython)", "trace (tracemalloc)"
BUCKETS = "buckets of _Py_hashtable_t (CPython)", "_Py_slist_t[]"  # the latter by debug information
TABLES = "_Py_hashtable_t (CPython)", "_Py_hashtable_t"  # of traces, domains, tracebacks, names of files
OF_OTHER_TABLES = 3000  # entries: files, tracebacks; from 3.12 on, names that the interpreter shares
OF_WAITING = 50  # blocks: made or freed between our snapshot and the program's own


def of_python(summary: dict[str, Any]) -> tuple[int | None, int | None]:
    (python,) = (each for each in summary["runtimes"] if each["runtime"] == "cpython")
    return python["traces"], python["trace_bytes"]


@pytest.mark.parametrize("release", tiers.runtimes(SINCE_39))
def test_traces_are_counted_and_have_types(arenadump: harness.Arenadump, release: str) -> None:
    with waiting(release, PROGRAM) as program:
        process = program.process
        assert process.stdin
        assert process.stdout

        def go_on() -> None:
            assert process.stdin
            process.stdin.write(b"x")
            process.stdin.flush()

        assert of_python(arenadump.summary(process.pid)) == (None, None)
        go_on()
        assert process.stdout.read(1) == b"."
        odd.wait_for_read(process.pid)
        on = arenadump.summary(process.pid)
        types = json.loads(arenadump.check("types", "--json", process.pid))["types"]
        go_on()
        says = int(process.stdout.read(12))
        assert process.stdout.read(1) == b"."
        odd.wait_for_read(process.pid)
        off = arenadump.summary(process.pid)
    traces, size = of_python(on)
    assert traces
    assert size
    assert abs(traces - says) < OF_WAITING
    found = {each["type"]: each for each in types}
    assert found[TRACE]["count"] == traces
    assert traces < found[ENTRY]["count"] <= traces + OF_OTHER_TABLES
    assert 0 < found["traceback (tracemalloc)"]["count"] < OF_OTHER_TABLES
    assert next(found[each]["count"] for each in TABLES if each in found) >= 4
    buckets = next(found[each]["bytes"] for each in BUCKETS if each in found)
    assert size <= found[TRACE]["bytes"] + found[ENTRY]["bytes"] + buckets <= 1.05 * size
    assert of_python(off) == (None, None)
    # As the finding says.
    findings = judge(Facts(parse(json.dumps(on)))).findings
    (finding,) = (each for each in findings if each.rule == "in use")
    assert f"Python's tracemalloc is on: its {traces:,} traces take" in finding.evidence
    assert "tracemalloc.stop() in the process frees them." in finding.evidence
    allocated = [sum(each["chunks"][kind]["bytes"] for kind in ("in_use", "mmapped")) for each in (on, off)]
    assert allocated[0] - allocated[1] >= size
    (finding,) = (each for each in findings if each.rule == "Python's arenas")
    assert f"tracemalloc is on and has traces of {traces:,} blocks" in finding.evidence


LINES = """
import sys, tracemalloc
tracemalloc.start()
kept = [str(i) * 3 for i in range(50000)]
print("ready", flush=True)
sys.stdin.read(1)
most = tracemalloc.take_snapshot().statistics("lineno")[0]
print(most.traceback[0].lineno, most.size, flush=True)
"""


def test_what_the_finding_proposes_names_the_line(arenadump: harness.Arenadump) -> None:
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", LINES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        odd.wait_for_read(process.pid)
        findings = judge(Facts(parse(json.dumps(arenadump.summary(process.pid))))).findings
        said, _ = process.communicate("x")
    (finding,) = (each for each in findings if each.rule == "Python's arenas")
    assert "tracemalloc.take_snapshot() in the process tells which lines" in finding.evidence
    line, size = map(int, said.split())
    assert line == 4
    assert size > 50_000 * 50
