# SPDX-License-Identifier: MIT
"""What grew while a profile was made: of a program that replaces much and keeps little, as the program counts it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from tools import harness, odd, programs
from tools.profiling import profile, profiling

from arenascope.schema import schema
from arenascope.wire.profile_json import ReadGrowth, ReadSize

UNSUPPORTED = 5
ENTRIES, ENTRY, NOTES, NOTE = 20000, 512, 3000, 224  # the numbers in use, and the sizes of their chunks


@contextmanager
def serving_by(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """The program, once it has served twice: its own buffers are there."""
    arguments = [str(word) for word in command]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            serve(process)
            yield process
        finally:
            process.kill()


def serving(
    entries: int = ENTRIES, entry: int = ENTRY, notes: int = NOTES
) -> AbstractContextManager[subprocess.Popen[str]]:
    return serving_by(programs.build("turnover", "-O2", "-g"), str(entries), str(entry - 8), str(notes))


def serve(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.write("again\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    odd.wait_for_read(process.pid)


def grown(
    folder: Path, arenadump: harness.Arenadump, *options: str, entry: int = ENTRY, entries: int = ENTRIES
) -> Path:
    """The dump of a profile while the program serves once."""
    with serving(entries, entry) as process, profiling(arenadump, process.pid, folder / "dump", *options):
        serve(process)
    return folder / "dump"


def of_function(answer: dict[str, Any], name: str) -> dict[str, int]:
    """Sums over the stacks with the function."""
    found = [
        site["grown"]
        for site in answer["sites"]
        if any(function["name"] == name for frame in site["stack"] for function in frame["functions"])
    ]
    assert found
    return {what: sum(each[what] for each in found) for what in ("count", "bytes")}


def arenascope(arenadump: harness.Arenadump, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "COLUMNS": "120"}
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


def test_what_is_replaced_is_not_what_grows(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = grown(tmp_path, arenadump, "--exact")
    answer = profile(arenadump, dump)
    assert answer["growth"]["exact"]
    assert answer["growth"]["sizes"] == [
        {"size": NOTE, "before": 2 * NOTES, "after": 3 * NOTES, "recorded": NOTES},
        {"size": ENTRY, "before": ENTRIES, "after": ENTRIES, "recorded": ENTRIES},
    ]
    assert of_function(answer, "remember") == {"count": NOTES, "bytes": NOTES * NOTE}
    assert of_function(answer, "read_entry") == {"count": 0, "bytes": 0}
    raw = json.loads(arenadump.check("sites", "--json", dump))
    jsonschema.validate(raw, closed(schema("profile")))


def test_top_says_so_above_the_functions(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = grown(tmp_path, arenadump, "--exact")
    top = arenascope(arenadump, "profile", "top", dump).stdout
    assert "what is in use changed by +656.2 KiB: +656.2 KiB of sizes that grew" in top
    (line,) = [line.split() for line in top.splitlines() if line.strip().startswith("224 ")]
    assert line[:6] == ["224", "6,000", "3,000", "0", "+3,000", "+656.2"]
    assert top.index("serve → remember") < top.index("flat")
    by_growth = arenascope(arenadump, "profile", "top", "--measure", "grown", dump).stdout.partition("flat")[2]
    assert by_growth.splitlines()[1].split()[-1] == "remember"
    assert "read_entry" not in by_growth
    folded = arenascope(arenadump, "profile", "folded", "--measure", "grown", dump).stdout
    assert folded.splitlines() == [folded.strip()], "one stack"
    assert folded.endswith(f";serve;remember {NOTES * NOTE}\n")
    assert arenascope(arenadump, "profile", "pprof", dump, "-o", tmp_path / "pb.gz").returncode == 0
    assert b"grown" in gzip.decompress((tmp_path / "pb.gz").read_bytes())
    by_thread = arenascope(arenadump, "profile", "threads", "--measure", "grown", dump)
    assert by_thread.returncode == UNSUPPORTED


def test_sites_of_one_size_share_its_growth(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Nobody knows whose chunks went: each site has the part that it has of what came."""
    answer = profile(arenadump, grown(tmp_path, arenadump, "--exact", entry=NOTE))
    came = ENTRIES + NOTES
    assert answer["growth"]["sizes"] == [
        {"size": NOTE, "before": ENTRIES + 2 * NOTES, "after": ENTRIES + 3 * NOTES, "recorded": came}
    ]
    assert of_function(answer, "remember")["count"] == round(NOTES * NOTES / came)
    assert of_function(answer, "read_entry")["count"] == round(NOTES * ENTRIES / came)


def test_of_some_pages_parts_are_estimates(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The two walks are exact nevertheless, and no site has grown by more than it has in use."""
    answer = profile(arenadump, grown(tmp_path, arenadump, "--rates=pages=8"))
    found = {each["size"]: each for each in answer["growth"]["sizes"]}
    assert found[NOTE]["after"] - found[NOTE]["before"] == NOTES
    assert found[ENTRY]["after"] == found[ENTRY]["before"] == ENTRIES
    assert found[NOTE]["recorded"] % 8 == 0
    assert all(site["grown"][what] <= site["in_use"][what] for site in answer["sites"] for what in ("count", "bytes"))
    assert of_function(answer, "read_entry") == {"count": 0, "bytes": 0}
    assert of_function(answer, "remember")["count"] == min(NOTES, found[NOTE]["recorded"])


def test_large_chunks_have_a_line_each(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Chunks of a mapping of their own are among them."""
    entry = (1 << 20) + 4096
    answer = profile(arenadump, grown(tmp_path, arenadump, "--exact", entry=entry, entries=10))
    assert [(each["size"], each["after"] - each["before"]) for each in answer["growth"]["sizes"]] == [
        (NOTE, NOTES),
        (entry, 0),
    ]


def test_without_a_walk_at_the_beginning_it_is_not_known(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with serving() as process, profiling(arenadump, process.pid, tmp_path / "dump", "--exact"):
        arenadump.check("dump", process.pid, "-o", tmp_path / "other")
    answer = profile(arenadump, tmp_path / "other")
    assert answer["growth"] is None
    assert answer["sites"] == []
    assert profile(arenadump, tmp_path / "dump")["growth"]["sizes"] == []
    top = arenascope(arenadump, "profile", "top", tmp_path / "dump").stdout
    assert "nothing grew: of each size as many chunks are in use as at its beginning" in top
    with serving() as process, profiling(arenadump, process.pid, tmp_path / "third", "--exact"):
        serve(process)
        arenadump.check("dump", process.pid, "-o", tmp_path / "fourth")
    asked = arenascope(arenadump, "profile", "top", "--measure", "grown", tmp_path / "fourth")
    assert asked.returncode == UNSUPPORTED
    assert "'grown' is unknown without a walk when the profile began" in asked.stderr


@pytest.mark.check
def test_what_shrank_and_what_was_not_seen() -> None:
    growth = ReadGrowth(
        None,
        exact=True,
        sizes=(
            ReadSize(32, before=10, after=0, recorded=0),
            ReadSize(48, before=0, after=10, recorded=4),  # six of them came through a copied pointer
            ReadSize(64, before=5, after=5, recorded=3),
        ),
        types_exact=False,
        types=None,
    )
    assert (growth.came, growth.went) == (480, 320)
    assert [each.gone for each in growth.sizes] == [10, None, 3]
    assert growth.words.endswith(
        "changed by +160 B: +480 B of sizes that grew, \N{MINUS SIGN}320 B of sizes that shrank."
    )
    assert "about" in growth._replace(exact=False).words
