# SPDX-License-Identifier: MIT
"""The recorder: programs that know the call stack of each of their blocks, and what a profile says of them."""

from __future__ import annotations

import ast
import bisect
import json
import os
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tools import debian, harness, programs
from tools.profiling import profile, write_stacks_out
from tools.stage import Stage, kill, until

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS = {
    *("left", "right", "padded", "leaf_malloc", "leaf_calloc", "leaf_aligned", "leaf_realloc", "leaf_string"),
    *("leaf_posix", "jumps", "calls", "in_thread", "handler", "signals", "coroutine", "main"),
}
ACTS = ["calls", "thread", "small", "signal", "coroutine"]
Stacks = Counter[tuple[str, ...]]
# Bytes of the chunks of programs/ways.*, by the C function that has made them; some have 16 more.
WAYS = [2016 + 512 * way for way in range(5)]


class Names:
    """The functions of a program, by their addresses in its file."""

    def __init__(self, program: Path) -> None:
        table = subprocess.run(["nm", "-S", "--defined-only", str(program)], capture_output=True, text=True, check=True)
        rows = [line.split() for line in table.stdout.splitlines()]
        self._functions = sorted(
            (int(row[0], 16), int(row[1], 16), row[3].split(".")[0])
            for row in rows
            if len(row) == 4 and row[2] in "tT" and row[3].split(".")[0] in FUNCTIONS
        )

    def at(self, offset: int) -> str | None:
        index = bisect.bisect_right(self._functions, (offset, 1 << 63, "")) - 1
        if index < 0:
            return None
        start, size, name = self._functions[index]
        return name if offset <= start + size else None

    def stack(self, site: dict[str, Any], modules: list[dict[str, Any]], program: Path) -> tuple[str, ...]:
        """The functions of the program's own on a site's stack, innermost first."""
        found = (
            self.at(int(frame["offset"], 16) - 1)
            for frame in site["stack"]
            if frame["module"] is not None and modules[frame["module"]]["path"].endswith(f"/{program.name}")
        )
        return tuple(name for name in found if name)


def truth(path: Path) -> tuple[int, Stacks, Stacks]:
    """The program's pid; how many blocks it keeps by each stack, and of how many usable bytes."""
    until(lambda: path.exists() and re.search(r"^end .*\n", path.read_text()[-100:], re.MULTILINE), f"no {path.name}")
    *lines, last = path.read_text().splitlines()
    counts: Stacks = Counter()
    sizes: Stacks = Counter()
    for line, count in Counter(lines).items():
        size, *stack = line.split()
        counts[tuple(stack)] += count
        sizes[tuple(stack)] += int(size) * count
    return int(last.split()[1]), counts, sizes


def assert_recognised(
    stage: Stage, arenadump: harness.Arenadump, command: Callable[[str], tuple[list[str], dict[str, str]]]
) -> None:
    """How often an interpreter's program allocates by the same two stacks adds next to nothing to the first sights.

    `command` gives what runs it so often, and the environment; it prints its PID then.
    """
    often, first_sights = 20_000, []
    for count in (100, often):
        how, environment = command(str(count))
        process = stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
        assert process.stdout
        answer = profile(arenadump, int(process.stdout.readline()))
        assert answer["wrong"] == 0
        first_sights.append(answer["misses"])
    few, many = first_sights
    assert many - few < 2 * often / 10


def ways_pid(file: Path) -> int:
    """The PID of a program that has written down what it made by each of its stacks (programs/ways.*, nested.*)."""
    until(file.exists, f"no {file.name}")
    return int(file.read_text().splitlines()[-1])


def assert_ways(
    answer: dict[str, Any],
    file: Path,
    stack_of: Callable[[dict[str, Any]], tuple[Any, ...]],
    name_of: Callable[[str], str] = str,
) -> None:
    """Each site has blocks of one C function alone, and the interpreted frames that the program says."""
    truth: Counter[tuple[int, tuple[Any, ...]]] = Counter()
    for line in file.read_text().splitlines()[:-1]:
        count, way, stack = ast.literal_eval(line)
        truth[WAYS[way], tuple((name_of(name), *where) for name, *where in stack)] += count
    found: Counter[tuple[int, tuple[Any, ...]]] = Counter()
    for site in answer["sites"]:
        use, stack = site["in_use"], stack_of(site)
        made = stack and stack[0][0] in {"leaf", "bare", "lean", "block in leaf", "made", "block in gone"}
        if use["count"] and made and use["bytes"] >= use["count"] * WAYS[0]:
            # The interpreter allocates blocks of other sizes there for itself, such as a stack of what it marks.
            sizes = [each for each in WAYS if each <= use["bytes"] / use["count"] <= each + 16]
            found.update({(size, stack): use["count"] for size in sizes})
    assert len(truth) > 60
    assert truth.total() > 8000
    assert answer["wrong"] == 0
    assert found == truth


def assert_nested(answer: dict[str, Any], file: Path, stack_of: Callable[[dict[str, Any]], tuple[Any, ...]]) -> None:
    """Each order of the calls in C has a stack of its own (programs/nested.*)."""
    truth = dict(ast.literal_eval(line) for line in file.read_text().splitlines()[:-1])
    found: Counter[int] = Counter()
    stacks = 0
    for site in answer["sites"]:
        use = site["in_use"]
        mean = use["bytes"] / use["count"] if use["count"] else 0
        if not min(truth) <= mean <= max(truth) + 40 or not any("load_one" in name for name, *_ in stack_of(site)):
            continue
        (size,) = (each for each in truth if each <= mean <= each + 40)
        found[size] += use["count"]
        stacks += 1
    assert answer["wrong"] == 0
    assert found == truth
    assert stacks >= len(truth) == 40


def by_stack(answer: dict[str, Any], program: Path) -> tuple[Stacks, Stacks]:
    names = Names(program)
    counts: Stacks = Counter()
    sizes: Stacks = Counter()
    for site in answer["sites"]:
        stack = names.stack(site, answer["modules"], program)
        if stack and stack[0].startswith("leaf") and site["in_use"]["count"]:
            counts[stack] += site["in_use"]["count"]
            sizes[stack] += site["in_use"]["bytes"]
    return counts, sizes


def compare(answer: dict[str, Any], program: Path, path: Path) -> None:
    _, counts, sizes = truth(path)
    found, bytes_found = by_stack(answer, program)
    assert counts.total() > 2000
    state = {name: answer[name] for name in ("checked", "wrong", "cut", "without_stack", "unseen")}
    assert found == counts, f"too many: {found - counts}, too few: {counts - found}, {state}"
    # A chunk has a header of 8 bytes beside what can be used, one with a mapping of its own 16.
    for stack, usable in sizes.items():
        assert usable + 8 * counts[stack] <= bytes_found[stack] <= usable + 16 * counts[stack], stack


# --- Every chunk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ACTS)
def test_each_chunk_has_the_stack_that_allocated_it(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump, act: str
) -> None:
    file = stage.folder / "truth"
    more = [] if act in {"calls", "thread"} else ["calls"]
    stage.start(libc.command(sites, str(file), act, *more), ARENASCOPE_PROFILE="exact")
    pid, _, _ = truth(file)
    answer = profile(arenadump, pid)
    assert answer["every_page"]
    assert answer["checked"] > 0
    assert answer["wrong"] == 0
    assert answer["without_stack"]["count"] == 0
    compare(answer, sites, file)


def test_a_child_of_fork_goes_on(
    stage: Stage, own_libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    file = stage.folder / "truth"
    stage.start(own_libc.command(sites, str(file), "calls", "fork", "calls", "thread"), ARENASCOPE_PROFILE="exact")
    child, _, _ = truth(stage.folder / "truth.child")
    try:
        pid, _, _ = truth(file)
        compare(profile(arenadump, pid), sites, file)
        compare(profile(arenadump, child), sites, stage.folder / "truth.child")
    finally:
        kill(child)


@pytest.mark.parametrize("rates", ["1", "exact"])
def test_a_child_of_fork_touches_few_pages(stage: Stage, rates: str) -> None:
    """Those of the recorder's that it has to change, and not the tables of all threads that there might be."""

    def faults(**environment: str) -> int:
        process = stage.start([str(programs.build("fork_faults"))], ARENASCOPE_SIGNAL="none", **environment)
        assert process.stdout
        return int(process.stdout.readline())

    assert faults(ARENASCOPE_PROFILE=rates) < faults() + 32


def test_a_dump_of_the_agents_own_has_it(
    stage: Stage, libc: debian.Libc, sites: Path, arenadump: harness.Arenadump
) -> None:
    file = stage.folder / "truth"
    stage.start(libc.command(sites, str(file), "calls"), ARENASCOPE_PROFILE="exact")
    pid, _, _ = truth(file)
    answer = profile(arenadump, stage.ask(pid))
    assert answer["mode"] == "in-process"
    compare(answer, sites, file)


def test_a_core_has_it(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    stage.start([str(sites), str(file), "calls"], ARENASCOPE_PROFILE="exact")
    pid, _, _ = truth(file)
    core = stage.folder / f"core.{pid}"
    command = ["gdb", "-q", "-nx", "-batch", "-p", str(pid), "-ex", f"generate-core-file {core}"]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    compare(profile(arenadump, core), sites, file)


@pytest.mark.parametrize(("options", "rate"), [(["--profile"], 64), (["--exact"], 1), (["--rates", "pages=8"], 8)])
def test_a_command_is_run_with_the_recorder(
    options: list[str], rate: int, sites: Path, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    file = tmp_path / "truth"
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    command = [sys.executable, "-m", "arenascope", "run", *options, "--", str(sites), str(file), "calls"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            pid, _, _ = truth(file)
            answer = profile(arenadump, pid)
        finally:
            process.kill()
    assert answer["page_rate"] == rate
    assert any(names for names in by_stack(answer, sites)[0])


# --- Estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("limits")
@pytest.mark.slow
def test_estimates_lie_around_the_truth(stage: Stage, sites: Path, arenadump: harness.Arenadump) -> None:
    """Many processes, each with its own addresses: the pages that are watched differ."""
    counts_found, bytes_found, allocated = [], [], []
    for number in range(40):
        file = stage.folder / f"truth.{number}"
        process = stage.start([str(sites), str(file), "calls", "thread"], ARENASCOPE_PROFILE="pages=16,bytes=64K")
        pid, counts, sizes = truth(file)
        answer = profile(arenadump, pid)
        process.kill()
        found, found_bytes = by_stack(answer, sites)
        counts_found.append(found.total() / counts.total())
        bytes_found.append(found_bytes.total() / (sizes.total() + 8 * counts.total()))
        allocated.append(sum(site["allocated"]["bytes"] for site in answer["sites"]) / asked_for(file))
        assert answer["page_rate"] == 16
        assert answer["wrong"] == 0
    for ratios in (counts_found, bytes_found, allocated):
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        assert error < 0.04, "a bias could not be seen"
        assert abs(statistics.mean(ratios) - 1) < 4.5 * error  # one test in 30,000 fails by chance


def asked_for(path: Path) -> int:
    """Bytes that the program has allocated altogether."""
    return int(path.read_text().split()[-1])


# --- Stacks that differ far from malloc -------------------------------------------------------------------------------


@pytest.mark.parametrize("straight", [3, 10, 19])
def test_stacks_that_differ_far_from_malloc(stage: Stage, arenadump: harness.Arenadump, straight: int) -> None:
    """32 frames are compared: those that differ are the 5th to 14th, the 12th to 21st, and the 21st to 30th."""
    program = programs.build("turns", "-O1")
    process = stage.start([str(program), str(straight)], ARENASCOPE_PROFILE="exact")
    lines = process.stdout
    assert lines
    ways = Counter(iter(lambda: lines.readline().decode().strip(), "end"))
    assert len(ways) > 800
    answer = profile(arenadump, process.pid)
    found: Counter[str] = Counter()
    for site in answer["sites"]:
        names = [function["name"] for frame in site["stack"] for function in frame["functions"]]
        polls = [name[0] for name in reversed(names) if name in {"left", "right"}]
        if polls:
            found["".join(polls)] += site["in_use"]["count"]
    assert found == ways


# --- Large chunks on pages that are not watched -----------------------------------------------------------------------


@pytest.mark.parametrize("act", [[], ["unseen"]])
def test_large_chunks_one_after_another_on_a_page(stage: Stage, arenadump: harness.Arenadump, act: list[str]) -> None:
    """Such a page has room for one owner: that of the chunk that began there last, but not of one elsewhere on it."""
    program = programs.build("large_sites", "-O1", "-fno-inline")
    threshold = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TOP_PAD_": "0"}
    process = stage.start([str(program), *act], ARENASCOPE_PROFILE="pages=65536,bytes=0", **threshold)
    assert process.stdout
    assert int(process.stdout.readline()) > (20 if act else 150), "few begin where another one began"
    answer = profile(arenadump, process.pid)
    owners: Counter[str] = Counter()
    for site in answer["sites"]:
        names = {function["name"] for frame in site["stack"] for function in frame["functions"]}
        for name in names & {"first_owner", "second_owner"}:
            owners[name] += site["in_use"]["count"]
    assert owners == ({} if act else {"second_owner": 200})
    assert answer["unseen"]["count"] == (200 if act else 0)


# --- What a target may claim ------------------------------------------------------------------------------------------

CLAIMS = """
import ctypes, mmap, struct, sys
SIZE, PRIVATE, NORESERVE = 3 << 30, 2, 0x4020
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
room = libc.mmap(None, SIZE + 8192, 0, PRIVATE | NORESERVE, -1, 0)
start = room + 4096
assert libc.mprotect(start, SIZE, 3) == 0
def table(offset, size, used):
    return struct.pack("<QQQ", offset, size, used)
contexts, sampled, frames, blocks, stacks, pages = 1 << 16, 1 << 25, 1 << 26, 1 << 28, 1 << 30, 2 << 30
head = struct.pack("<QIIQQQIIIIQQQ", 0x31666F7270657261, 10, 0, start, SIZE, 1, 1, 12, 0, 512, 16384, 0, 10**18)
head += table(pages, 1 << 26, 1 << 26) + table(blocks, 1 << 20, 1 << 20) + table(contexts, 1 << 20, 1 << 20)
head += table(sampled, 1 << 20, 1 << 40) + table(frames, 1 << 20, 1 << 20)
head += table(stacks, 1 << 27, 1 << 27) + table(4096, 100, 100)
head += table(4096 * 8, 1 << 10, 1 << 10) + table(4096 * 2, 4096, 4096) + table(4096 * 3, 1 << 15, 1 << 40)
head += table(4096 * 4, 1 << 27, 1 << 40) + table(4096 * 5, 1 << 26, 1 << 40) + bytes(80)
head = head[:12] + struct.pack("<I", len(head)) + head[16:]
ctypes.memmove(start, head, len(head))
# Contexts whose stack is right, ends nowhere, is its own caller, is deeper than it may be, has no frame, or is outside.
def context(stack, count, thread, sampled=2):
    return struct.pack("<IHHII", stack, count, thread, 0, sampled)
some = context(7, 5, 3) + context(7, 5, 0xFFFF) + context(8, 4, 3) + context(1004, 1, 3) + context(1010, 2, 3)
some += context(400, 144, 3) + context(1 << 31, 1, 3) + context(1013, 1, 3) + context(7, 5, 3, 1 << 31)
some += context(2, 1, 3) * 7
ctypes.memmove(start + contexts, some * (1 << 16), len(some) << 16)
ctypes.memmove(start + sampled + 2 * 24, struct.pack("<QQII", 1024, 1, 1, 0), 24)
each = [0xFFFF << 48 | 1 + i if i % 2 else 0xFFFE << 48 | 5 << 24 | 1 + i for i in range(999)]
ctypes.memmove(start + frames, struct.pack("<1000Q", 0xFFFF << 48 | 1, *each), 8 * 1000)
def branch(caller, *places):
    return [0, 1 << 31 | caller, *places]
tree = branch(0, *range(1, 1000)) + branch(1004, 1) + branch(1010, 1) + branch(1007, 1) + branch(0, 1 << 30)
ctypes.memmove(start + stacks + 4, struct.pack(f"<{len(tree)}I", *tree), 4 * len(tree))
# A function whose name has no end.
ctypes.memmove(start + 4096 * 8 + 5 * 16, struct.pack("<IIII", 4000, 4095, 1, 1), 16)
ctypes.memset(start + 4096 * 2, 65, 4096)
print("ready", flush=True)
sys.stdin.read()
"""


def test_tables_that_claim_more_than_there_is(arenadump: harness.Arenadump) -> None:
    """Work and memory are bounded by what the target has, not by what it says."""
    with subprocess.Popen([sys.executable, "-c", CLAIMS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        before = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        for mode in ("freeze", "clone", "live"):
            limited = ["prlimit", f"--as={1 << 33}", "--cpu=20", str(arenadump.path), "sites", f"--mode={mode}"]
            limited += ["--max-pause=60s"]
            done = subprocess.run(
                [*limited, "--json", str(process.pid)], capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, done.stderr
            answer = json.loads(done.stdout)
            write_stacks_out(answer)
            assert answer["page_rate"] == 1, "it was taken for a profile"
            assert [len(site["stack"]) for site in answer["sites"]] == [5]  # the others do not hold
            assert answer["allocated_without_stack"] == {"count": 13 * (1 << 16) + 1, "bytes": 13 * (1 << 16) + 1}
            assert len(answer["threads"]) < 1024
            assert {each["thread"] for each in answer["sites"][0]["threads"]} == {0, None}
        assert int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) < before + 1000
        process.kill()
