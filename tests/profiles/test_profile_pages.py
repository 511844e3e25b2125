# SPDX-License-Identifier: MIT
"""Which pages a site keeps: compared with a program that knows its blocks, and with what comes back when they go."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from profiles.test_profile_commands import SCHEMA, arenascope
from tools import harness, odd, programs
from tools.profiling import profile

from arenascope.profiles.pprof import encode
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.profile import Profile
from arenascope.wire.profile_json import profile_of, read_profile

PAGE = 4096
SITES = "abcdefgh"
# A chunk that is freed goes to a bin, and comes back by malloc_trim alone.
TUNABLES = "tcache_count=0", "mxfast=0", "trim_threshold=1073741824", "mmap_threshold=131072"


class Pinning:
    """The program, and the site of each of its blocks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.site_of: dict[int, str] = {}
        assert process.stdout
        for line in process.stdout:
            if line == "ready\n":
                break
            site, block = line.split()
            self.site_of[int(block) - 16] = site  # the chunk's address
        odd.wait_for_read(process.pid)

    def free(self, site: str) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(site)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"freed {site}\n"
        odd.wait_for_read(self.process.pid)


@contextmanager
def pinning_pages(agent: Path, rates: str, name: str = "pins_pages") -> Iterator[Pinning]:
    program = programs.build(name)
    environment = {
        "LD_PRELOAD": str(agent),
        "ARENASCOPE_PROFILE": rates,
        "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{each}" for each in TUNABLES),
    }
    with subprocess.Popen(
        [str(program)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Pinning(process)
        finally:
            process.kill()


def of_sites(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each of the program's sites keeps, by its letter."""
    found = {}
    for site in answer["sites"]:
        names = [function["name"] for function in site["stack"][0]["functions"]]
        if names and (named := re.fullmatch("site_([a-h])", names[-1])):
            assert named[1] not in found, "one stack for each site"
            found[named[1]] = {**site["pinned"], "in_use": site["in_use"]["count"]}
    return found


def resident(dump: Dump) -> int:
    """Bytes of malloc's heaps that are resident."""
    return int(((dump.pages["residency"] & 1) != 0).sum()) * PAGE


def expected(dump: Dump, site_of: dict[int, str]) -> tuple[dict[str, Counter[str]], dict[int, set[str]]]:
    """What each site keeps by the dump's own pages and chunks, in the simplest way; and the sites on each page."""
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    on: dict[int, list[str]] = defaultdict(list)
    for heap, record in enumerate(dump.heaps):
        chunks = dump.heap_chunks(heap)
        base = int(record["start"]) // PAGE * PAGE
        for at, size, kind in zip(chunks.addresses.tolist(), chunks.sizes.tolist(), chunks.classes.tolist()):
            if kind == fmt.ChunkClass.IN_USE:
                for page in range(at // PAGE, (at + size - 1) // PAGE + 1):
                    on[int(record["first_page"]) + page - base // PAGE].append(site_of.get(at, "?"))
    for page, users in on.items():
        state = dump.pages[page]
        stranded = (int(state["binned"]) + int(state["top"])) * 16 if state["residency"] & 1 else 0
        for site in users:
            kept[site]["stranded"] += stranded // len(users)
        if len(set(users)) == 1 and stranded:
            kept[users[0]]["pages"] += 1
            kept[users[0]]["pages_stranded"] += stranded
        if state["state"] == fmt.PageState.PINNED and len(users) == 1:
            kept[users[0]]["pinned"] += 1
    return kept, {page: set(users) for page, users in on.items()}


def test_each_site_keeps_what_the_chunks_say(agent: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with pinning_pages(agent, "exact") as pinning:
        arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", pinning.process.pid)
    dump = Dump(tmp_path / "dump")
    answer = profile(arenadump, tmp_path / "dump")
    found = of_sites(answer)
    assert set(found) == set(SITES)
    kept, on = expected(dump, pinning.site_of)
    assert sum(each["pinned"] for each in found.values()) > 500
    for site, each in found.items():
        for what in ("pinned", "pages", "pages_stranded"):
            assert each[what] == kept[site][what], (site, what)
        # A page's bytes that cannot be shared equally go to one of its sites.
        assert abs(each["stranded"] - kept[site]["stranded"]) <= 16 * each["in_use"]
    letter_of = letters(answer)
    places: dict[int, set[str]] = defaultdict(set)
    for place in dump.profile_places:
        places[int(place["page"])].add(letter_of[int(place["site"])])
    assert dict(places) == {page: sites for page, sites in on.items() if page in places}
    assert all(page in places for page, sites in on.items() if sites & set(SITES))


def letters(answer: dict[str, Any]) -> list[str]:
    """Returns each site's letter in the program."""
    names = ([function["name"] for function in site["stack"][0]["functions"]] for site in answer["sites"])
    return [next((name[-1] for name in each if name.startswith("site_")), "?") for each in names]


def first_on(dump: Dump, site_of: dict[int, int]) -> dict[int, list[int]]:
    """The first eight sites on each page on which all chunks are the program's: most bytes first, then by number.

    A chunk in an unwatched page has no site, and a site's large chunks are counted apart.
    """
    rate, large = int(dump.profile["page_rate"][0]), int(dump.profile["large"][0])
    on: dict[int, Counter[tuple[int, bool]]] = defaultdict(Counter)
    strange = set()
    for heap, record in enumerate(dump.heaps):
        chunks = dump.heap_chunks(heap)
        before = int(record["first_page"]) - int(record["start"]) // PAGE
        for at, size, kind in zip(chunks.addresses.tolist(), chunks.sizes.tolist(), chunks.classes.tolist()):
            watched = at // PAGE * 0x9E3779B97F4A7C15 % 2**64 <= (2**64 - 1) // rate
            for page in range(at // PAGE, (at + size - 1) // PAGE + 1):
                bytes_here = min(at + size, page * PAGE + PAGE) - max(at, page * PAGE)
                if kind == fmt.ChunkClass.IN_USE and at not in site_of:
                    strange.add(page + before)
                elif kind == fmt.ChunkClass.IN_USE and (watched or size >= large):
                    on[page + before][site_of[at], rate > 1 and size >= large] += bytes_here
    ordered = {
        page: [site for site, _ in sorted(users, key=lambda user: (-users[user], user))]
        for page, users in on.items()
        if page not in strange
    }
    return {page: list(dict.fromkeys(sites))[:8] for page, sites in ordered.items()}


@pytest.mark.parametrize("rates", ["exact", "pages=2"])
def test_the_first_sites_of_a_page_have_most_bytes_there(
    agent: Path, arenadump: harness.Arenadump, tmp_path: Path, rates: str
) -> None:
    with pinning_pages(agent, rates, "many_sites") as pinning:
        arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", pinning.process.pid)
    dump = Dump(tmp_path / "dump")
    names = letters(profile(arenadump, tmp_path / "dump"))
    first = first_on(dump, {at: names.index(letter) for at, letter in pinning.site_of.items() if letter in names})
    found: dict[int, list[int]] = defaultdict(list)
    for place in dump.profile_places:
        found[int(place["page"])].append(int(place["site"]))
    assert len(first) > 100
    assert max(map(len, first.values())) == 8
    for page, sites in first.items():
        assert found[page] == sites


@pytest.mark.parametrize("site", SITES)
def test_what_is_said_to_come_back_comes_back(
    agent: Path, arenadump: harness.Arenadump, tmp_path: Path, site: str
) -> None:
    with pinning_pages(agent, "exact") as pinning:
        arenadump.check("dump", "-o", tmp_path / "before", pinning.process.pid)
        pinning.free(site)
        arenadump.check("dump", "-o", tmp_path / "after", pinning.process.pid)
    said = of_sites(profile(arenadump, tmp_path / "before"))[site]["returned"]
    before, after = Dump(tmp_path / "before"), Dump(tmp_path / "after")
    anyhow = int((before.pages["state"] == fmt.PageState.RELEASABLE).sum()) * PAGE
    assert anyhow > 0
    assert resident(before) - resident(after) == said + anyhow


def test_the_commands_have_these_measures(agent: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with pinning_pages(agent, "exact") as pinning:
        arenadump.check("dump", "-o", tmp_path / "dump", pinning.process.pid)
    jsonschema.validate(json.loads(arenadump.check("sites", "--json", tmp_path / "dump")), closed(SCHEMA))
    answer = profile(arenadump, tmp_path / "dump")
    found = of_sites(answer)
    top = arenascope("profile", "top", tmp_path / "dump", "--measure", "pinned", arenadump=arenadump)
    assert re.search(rf"^ *{found['a']['pinned']} .* site_a", top, re.MULTILINE)
    folded = arenascope("profile", "folded", tmp_path / "dump", "--measure", "returned", arenadump=arenadump)
    lines = (line.rpartition(" ") for line in folded.splitlines())
    sums = {stack.rpartition(";")[2]: int(value) for stack, _, value in lines}
    assert sums["site_a"] == found["a"]["returned"]
    with pinning_pages(agent, "pages=4") as pinning:
        arenascope("profile", "top", pinning.process.pid, "--measure", "stranded", arenadump=arenadump)
        refused = subprocess.run(
            [sys.executable, "-m", "arenascope", "profile", "top", str(pinning.process.pid), "--measure", "returned"],
            capture_output=True,
            text=True,
            env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
            check=False,
        )
    assert refused.returncode == 5
    assert "'returned' is unknown unless every chunk is recorded" in refused.stderr


def test_without_samples_what_was_allocated_is_unknown(
    agent: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    """Not 0: who asks for it is told so, and a file for pprof has the other two measures alone."""
    with pinning_pages(agent, "exact,bytes=0") as pinning:
        arenadump.check("dump", "-o", tmp_path / "dump", pinning.process.pid)
    for command in ("top", "tree", "threads", "folded"):
        refused = subprocess.run(
            [sys.executable, "-m", "arenascope", "profile", command, tmp_path / "dump", "--measure=alloc_space"],
            capture_output=True,
            text=True,
            env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
            check=False,
        )
        assert (refused.returncode, refused.stdout) == (5, "")
        assert "'alloc_space' is unknown in a profile that took no samples of allocations" in refused.stderr
    top = arenascope("profile", "top", tmp_path / "dump", arenadump=arenadump)
    assert re.search(r"^ *[0-9].* site_a\b", top, re.MULTILINE)
    assert "No allocations were sampled (bytes=0): what was allocated is not known." in top
    answer = profile_of(read_profile(str(tmp_path / "dump")))
    for measures in [
        *(site.values for site in answer.sites),
        *(share.values for s in answer.sites for share in s.shares),
    ]:
        assert "inuse_space" in measures
        assert not {"alloc_space", "alloc_objects"} & set(measures)
    whole = gzip.decompress(encode(answer))
    assert b"inuse_space" in whole
    assert b"alloc_space" not in whole
    nothing = Profile([], sampled=False)
    assert (nothing.has("alloc_space"), nothing.has("inuse_space")) == (False, True)


def test_stacks_without_outer_frames_are_told_of(agent: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A recursion that is deeper than stacks are: what is missing is not taken for the outermost function."""
    with pinning_pages(agent, "exact", "deep_sites") as pinning:
        arenadump.check("dump", "-o", tmp_path / "dump", pinning.process.pid)
    answer = read_profile(str(tmp_path / "dump"))
    words = f"1 of {len(answer.sites)} stacks lack outer frames"
    for command in ("top", "tree"):
        assert f"\n{words}.\n" in arenascope("profile", command, tmp_path / "dump", arenadump=arenadump)
    assert words in profile_of(answer).comments
    folded = arenascope("profile", "folded", tmp_path / "dump", arenadump=arenadump)
    assert len(re.findall(r"^…;(?:(?:odd|even);){200,260}leaf;keep;ask 302400$", folded, re.MULTILINE)) == 1
    by_thread = arenascope("profile", "folded", "--by-thread", tmp_path / "dump", arenadump=arenadump)
    assert re.search(r"^thread .*;…;(?:odd|even);.*;leaf;keep;ask 302400$", by_thread, re.MULTILINE)


def test_with_pages_left_out_sums_are_estimates(agent: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Unbiased ones: of many programs, whose addresses differ, the mean is the truth."""
    answer: dict[str, list[int]] = defaultdict(list)
    for _ in range(12):
        with pinning_pages(agent, "pages=4") as pinning:
            read = profile(arenadump, pinning.process.pid)
            found = of_sites(read)["a"]
            assert (found["pages"], found["pages_stranded"], found["returned"]) == (None, None, None)
            answer["pinned"].append(found["pinned"])
            answer["stranded"].append(found["stranded"])
            assert found["pinned"] % 4 == 0
    with pinning_pages(agent, "exact") as pinning:
        truth = of_sites(profile(arenadump, pinning.process.pid))["a"]
    for what, values in answer.items():
        assert abs(sum(values) / len(values) / truth[what] - 1) < 0.15, (what, values, truth[what])
