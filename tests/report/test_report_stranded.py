# SPDX-License-Identifier: MIT
"""How full the pages with stranded bytes are: counted again, chunk by chunk, from the dump's own chunk records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tools import harness
from tools import synthetic_dump as synthetic
from tools.running import PYTHON, running, started
from tools.tab import Tab, write

from arenascope.wire import commands
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of, parse

PAGE = 4096
BOUNDS = (0, 1, 2, 3, 5, 9)


def users_of(dump: Dump, heap: int) -> dict[int, list[int]]:
    """The sizes of the chunks in use on each page of a heap."""
    chunks = dump.heap_chunks(heap)
    assert not chunks.torn
    base = int(dump.heaps[heap]["start"]) // PAGE
    found: dict[int, list[int]] = {}
    held = chunks.classes == fmt.ChunkClass.IN_USE
    for address, size in zip(chunks.addresses[held].tolist(), chunks.sizes[held].tolist()):
        first, last = address // PAGE - base, (address + size - 1) // PAGE - base
        for page in {first, last}:  # those between have no room for anything else
            found.setdefault(page, []).append(size)
    return found


def counted(dump: Dump) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]], Counter[int], Counter[int]]:
    """Pages and stranded bytes by class; for each size, places and its parts of stranded bytes."""
    pages: Counter[tuple[int, int]] = Counter()
    stranded: Counter[tuple[int, int]] = Counter()
    places: Counter[int] = Counter()
    parts: Counter[int] = Counter()
    whole = (fmt.PageState.RELEASABLE, fmt.PageState.WITHHELD)
    for heap in range(len(dump.heaps)):
        users = users_of(dump, heap)
        for index, page in enumerate(dump.heap_pages(heap)):
            free = 16 * (int(page["binned"]) + int(page["top"]))
            if not free or not page["residency"] & fmt.Residency.PRESENT or page["state"] in whole:
                continue
            sizes = users.get(index, [])
            key = (max(bound for bound in BOUNDS if bound <= len(sizes)), int(page["in_use"]) * 16 * 8 // PAGE)
            pages[key] += 1
            stranded[key] += free
            for place, size in enumerate(sizes if len(sizes) > 1 else []):
                places[size] += 1
                last = place + 1 == len(sizes)
                parts[size] += free - free // len(sizes) * (len(sizes) - 1) if last else free // len(sizes)
    return pages, stranded, places, parts


def check(dump: Dump) -> None:
    pages, stranded, places, parts = counted(dump)
    fill = dump.page_fill
    assert fill is not None
    assert sum(fill["stranded"].tolist()) == int(dump.totals["ledger"]["stranded"]) > 0
    key = [(int(each["chunks"]), int(each["eighths"])) for each in fill]
    assert dict(zip(key, fill["pages"].tolist())) == dict(pages)
    assert dict(zip(key, fill["stranded"].tolist())) == dict(stranded)
    sizes = dump.sharers["chunk_size"].tolist()
    assert sizes == sorted(sizes)
    assert dict(zip(sizes, dump.sharers["places"].tolist())) == dict(places)
    # The parts of one page differ by what the division leaves over, and which chunk has that is no matter.
    assert sum(dump.sharers["stranded"].tolist()) == sum(parts.values())
    for size, held in zip(sizes, dump.sharers["stranded"].tolist()):
        assert abs(held - parts[size]) <= 256 * places[size]


@pytest.mark.parametrize("who", ["ruby", "python", "causes"])
def test_classes_and_sizes_are_those_of_the_chunks(
    arenadump: harness.Arenadump, one: tuple[Path, Dump], tmp_path: Path, who: str
) -> None:
    if who == "ruby":
        check(one[1])
        return
    if who == "python":
        with started(["python3", "-c", PYTHON], "ready") as pid:
            arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", pid)
    else:
        with running("pins") as program:
            arenadump.check("dump", "--chunks", "-o", tmp_path / "dump", program.pid)
    check(Dump(tmp_path / "dump"))


def test_json_has_both_histograms(one: tuple[Path, Dump]) -> None:
    dump = one[1]
    answer = document_of(dump)["stranded_pages"]
    for name in ("by_chunks", "by_share"):
        assert sum(each["stranded"] for each in answer[name]) == int(dump.totals["ledger"]["stranded"])
        assert sum(each["pages"] for each in answer[name]) == int(dump.page_fill["pages"].sum())
    assert [each["chunks_from"] for each in answer["by_chunks"]] == list(BOUNDS)
    assert [each["eighths_from"] for each in answer["by_share"]] == list(range(8))
    order = [each["stranded"] for each in answer["shared"]]
    assert order == sorted(order, reverse=True)
    assert len(order) == min(24, len(dump.sharers))


def test_nothing_stranded_is_no_page(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["totals"][0]["ledger"]["stranded"] = 0
    dump = Dump(synthetic.write(tmp_path / "dump", made))
    assert sum(each["pages"] for each in document_of(dump)["stranded_pages"]["by_chunks"]) == 0


def test_the_page_has_them(one: tuple[Path, Dump], browser: Any, tmp_path: Path) -> None:
    tab = Tab(browser, write(tmp_path, one[1]))
    cells = tab.js("""() => [...document.querySelectorAll("#stranded table.fill")].map(table =>
        [...table.tBodies[0].rows].map(row => Number(row.cells[2].dataset.bytes)))""")
    assert [sum(side) for side in cells] == [int(one[1].totals["ledger"]["stranded"])] * 2
    assert tab.js("document.querySelectorAll('#stranded table.sortable tbody tr').length") == min(
        24, len(one[1].sharers)
    )
    assert tab.js("document.documentElement.scrollWidth <= window.innerWidth")
    tab.context.close()
    assert not tab.said


def test_terminal_has_them(arenadump: harness.Arenadump, one: tuple[Path, Dump], tmp_path: Path) -> None:
    one[1].save(tmp_path / "dump")
    assert parse(commands.summary(str(tmp_path / "dump"))).stranded_pages is not None
    assert "Stranded pages: how many chunks in use" in arenadump.check("summary", tmp_path / "dump")
