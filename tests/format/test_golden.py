# SPDX-License-Identifier: MIT
"""Files of each version of each format, as tests/tools/golden.py made them then: every later reader reads them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import golden, harness
from tools import synthetic_dump as synthetic

from arenascope.wire.dump import Dump
from arenascope.wire.dump_records import HEADER, MISSING, SECTION, SECTIONS, SINGLE

pytestmark = pytest.mark.check

DUMPS, TRACES, TIMELINES = (sorted(golden.GOLDEN.glob(f"{kind}-*")) for kind in ("dump", "trace", "timeline"))


def arenascope(*words: object) -> Any:
    command = [sys.executable, "-m", "arenascope", *map(str, words)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def record_sizes(data: bytes) -> dict[str, int]:
    """The size of a record in each section of a dump file."""
    header = np.frombuffer(data, HEADER, 1)[0]
    table = np.frombuffer(data, SECTION, int(header["section_count"]), int(header["table_offset"]))
    return {entry["name"].tobytes().rstrip(b"\0").decode(): int(entry["record_size"]) for entry in table}


def test_there_is_a_file_of_each_version_of_today() -> None:
    there = {path.name for path in (*DUMPS, *TRACES, *TIMELINES)}
    assert {golden.dump_name(), golden.trace_name(), golden.timeline_name()} <= there


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
def test_a_dump(arenadump: harness.Arenadump, path: Path) -> None:
    """It has records in every section that its version has, and their fields mean what they meant."""
    dump, expected = Dump(path), synthetic.everything()
    data = path.read_bytes()
    sizes = record_sizes(data)
    for name, made in expected.items():
        found = np.atleast_1d(getattr(dump, name))
        if name.encode().ljust(16, b"\0") not in data:
            assert not len(found), name
            continue
        assert len(found), name
        if name == "strings":
            assert found.tobytes() == made.tobytes()
            continue
        for field, (_, offset) in (made.dtype.fields or {}).items():
            # What came later stands at the record's end, and is unknown.
            right = made if offset < sizes[name] else np.frombuffer(MISSING[name], made.dtype)
            np.testing.assert_array_equal(found[field], right[field], err_msg=f"{name}.{field}")
    answer = json.loads(arenadump.check("summary", "--json", path))
    assert (answer["ledger"]["in_use"], answer["ledger"]["other_file"]) == (4096, 4096)
    assert answer["graph"]["types"][0]["type"] == "app::Connection"
    assert len(json.loads(arenadump.check("sites", "--json", path))["sites"]) == 1
    assert arenascope("summary", "--json", path)["ledger"] == answer["ledger"]


def test_a_dump_of_today_has_every_section() -> None:
    dump = Dump(golden.GOLDEN / golden.dump_name())
    assert [name for name in SECTIONS if name not in SINGLE and not len(getattr(dump, name))] == []


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_a_trace(arenadump: harness.Arenadump, path: Path) -> None:
    answer = json.loads(arenadump.check("trace", "--json", path))
    assert (answer["ended"], answer["torn_bytes"], answer["lost_allocations"]) == ("exit", 0, 0)
    made = {
        (site["allocated"]["count"], site["allocated"]["bytes"]): site["in_use"]["bytes"] for site in answer["sites"]
    }
    kept = golden.KEPT * golden.KEPT_SIZE
    assert made[golden.KEPT, kept] == kept
    assert made[golden.FREED, golden.FREED * golden.FREED_SIZE] == 0


@pytest.mark.parametrize("path", TIMELINES, ids=lambda path: path.name)
def test_a_timeline(path: Path, tmp_path: Path) -> None:
    answer = arenascope("timeline", "--json", shutil.copy(path, tmp_path))
    assert [process["comm"] for process in answer["processes"]] == ["allocates"]
    assert len(answer["polls"]) >= golden.SNAPSHOTS
    for poll in answer["polls"]:
        (snapshot,) = poll["snapshots"]
        assert golden.KEPT * golden.KEPT_SIZE <= snapshot["rows"]["in_use"] <= snapshot["rss"]
