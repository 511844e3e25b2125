# SPDX-License-Identifier: MIT
"""What is left beside malloc's memory, mapping by mapping: held against the kernel's own counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from tools import harness, kernel, programs
from tools import synthetic_dump as synthetic
from tools.running import PYTHON, mapped, started

from arenascope import humanize, rows
from arenascope.findings import Facts, judge
from arenascope.report.page import mappings
from arenascope.schema import schema
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of, parse

SCHEMA = schema("summary")
PAGE = synthetic.PAGE


def by_address(summary: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {int(each["address"], 16): each for each in summary["mappings"]["anonymous"]["largest"]}


def check_sum(summary: dict[str, Any]) -> None:
    """The list and the rest of it are the row, to the byte; the copies of files' pages are another."""
    anonymous = summary["mappings"]["anonymous"]
    listed = sum(each["bytes"] for each in anonymous["largest"]) + anonymous["rest"]["bytes"]
    assert listed == summary["ledger"]["other_anon"]
    assert anonymous["copies_of_files"] == summary["ledger"]["file_copies"]


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_each_mapping_has_what_the_kernel_counts(arenadump: harness.Arenadump, mode: str) -> None:
    with mapped() as (pid, kinds):
        summary = arenadump.summary(pid, f"--mode={mode}")
        truth = {mapping.start: mapping for mapping in kernel.smaps(pid)}
    jsonschema.validate(summary, SCHEMA)
    assert summary["snapshot"]["exact"]
    check_sum(summary)
    listed = by_address(summary)
    for name, (address, size) in kinds.items():
        if name == "shared":
            continue
        found = listed[address]
        assert found["bytes"] == found["resident"] == truth[address].counts["Rss"] == size, name
        assert found["size"] == truth[address].end - address
        assert found["protection"] == truth[address].permissions
    for address, found in listed.items():
        assert found["resident"] == truth[address].counts["Rss"]
        assert (found["name"] or "") == truth[address].path
    copies = sum(each.counts["Anonymous"] for each in truth.values() if not each.anonymous)
    assert summary["ledger"]["file_copies"] == copies > 0
    files: Counter[tuple[str, str]] = Counter()
    for mapping in truth.values():
        if not mapping.anonymous:
            row = "other_shmem" if mapping.path.startswith("/dev/zero") else "other_file"
            files[mapping.path, row] += mapping.counts["Rss"] - mapping.counts["Anonymous"]
            files[mapping.path, "file_copies"] += mapping.counts["Anonymous"]
    listed_files = summary["mappings"]["files"]["largest"]
    assert {(each["name"], each["row"]): each["bytes"] for each in listed_files} == +files


def test_what_a_mapping_may_be(arenadump: harness.Arenadump) -> None:
    with mapped() as (pid, kinds):
        listed = by_address(arenadump.summary(pid))
    suspicions = {
        "code": ("code that the program made at run time (JIT)", "executable"),
        "stack": ("the stack of a coroutine, or of a thread that has ended", "a guard of 4.0 KiB"),
        "reserved": ("a heap that grows within a range reserved for it", "61.0 MiB without access"),
    }
    for kind, (may_be, evidence) in suspicions.items():
        found = listed[kinds[kind][0]]
        assert found["may_be"].startswith(may_be)
        assert evidence in found["evidence"]
    plain = listed[kinds["plain"][0]]
    assert plain["may_be"] is plain["evidence"] is None


def test_stacks_of_threads_that_have_ended(arenadump: harness.Arenadump) -> None:
    """All of them count, not only the largest that are listed. Up to glibc 2.26 a guard was a part of a stack."""
    with started([str(programs.build("ended_threads", "-lpthread")), "200"], "ready") as pid:
        printed = arenadump.check("summary", "--json", pid)
    stacks = json.loads(printed)["mappings"]["anonymous"]["stacks_without_thread"]
    assert stacks["count"] == 200
    assert 200 * ((1 << 20) - PAGE) <= stacks["size"] <= 200 << 20
    assert 200 * PAGE <= stacks["bytes"] <= 200 * (64 << 10)  # the rest was given back by the thread
    (first, *_) = judge(Facts(parse(printed))).findings
    assert first.rule == "anonymous memory"
    assert f"200 mappings of {humanize.size(stacks['size'])} in all" in first.evidence
    assert "may be stacks of threads that have ended" in first.evidence
    lines = mappings.anonymous(Facts(parse(printed)))
    listed = json.loads(printed)["mappings"]["anonymous"]["largest"]
    alike = [each for each in listed if each["may_be"] and "thread that has ended" in each["may_be"]]
    (stack,) = [line for line in lines if "thread that has ended" in line.may_be]
    assert (stack.alike, stack.address) == (len(alike), alike[0]["address"])
    assert stack.left.exact == sum(each["bytes"] for each in alike)
    assert stack.size
    assert stack.size.exact == sum(each["size"] for each in alike)


def test_a_runtimes_memory_is_not_listed(arenadump: harness.Arenadump) -> None:
    with started(["python3", "-c", PYTHON], "ready") as pid:
        summary = arenadump.summary(pid)
    assert summary["ledger"]["python_arenas"] > 1 << 20
    check_sum(summary)


# --- Dumps that say what no process here does -------------------------------------------------------------------------


def anonymous(*held: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Anonymous mappings of so many pages, of which so many are resident, without gaps from 1 GiB on."""
    made = np.zeros(len(held), fmt.MAPPING)
    start = 1 << 30
    for mapping, (pages, resident) in zip(made, held):
        mapping["start"], mapping["end"], mapping["kind"] = start, start + pages * PAGE, fmt.MappingKind.ANON
        mapping["rss"], mapping["prot"] = resident * PAGE, 3
        start += pages * PAGE
    return made


def summary_of(made: dict[str, np.ndarray[Any, Any]], tmp_path: Path) -> dict[str, Any]:
    summary = document_of(Dump(synthetic.write(tmp_path / "dump", made)))
    jsonschema.validate(summary, SCHEMA)
    return summary


def left(summary: dict[str, Any]) -> list[int | None]:
    return [by_address(summary)[address]["bytes"] for address in sorted(by_address(summary))]


@pytest.mark.check
def test_the_largest_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    made = synthetic.sections()
    pages = [*range(1, 26), 0]
    np.random.default_rng(1).shuffle(pages)
    made["mappings"] = anonymous(*((100, each) for each in pages))
    listed = summary_of(made, tmp_path)["mappings"]["anonymous"]
    assert [each["bytes"] // PAGE for each in listed["largest"]] == list(range(25, 5, -1))
    assert listed["rest"] == {"count": 5, "bytes": 15 * PAGE}


@pytest.mark.check
def test_files_that_are_not_listed_are_counted_by_mapping(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous(*((100, pages) for _ in range(2) for pages in range(1, 24)))
    strings = bytearray(made["strings"].tobytes())
    for index, mapping in enumerate(made["mappings"]):
        mapping["kind"], mapping["path"] = fmt.MappingKind.FILE, len(strings)
        strings += f"/{index % 23}\0".encode()
    made["strings"] = np.frombuffer(bytes(strings), fmt.STRINGS)
    files = summary_of(made, tmp_path)["mappings"]["files"]
    assert [each["bytes"] // PAGE for each in files["largest"]] == list(range(46, 6, -2))
    assert files["rest"] == {"count": 6, "bytes": 12 * PAGE}


@pytest.mark.check
def test_a_file_whose_copies_are_not_known_is_listed_once(tmp_path: Path) -> None:
    """The kernel did not say how much of its resident bytes the process has copied: neither amount is known."""
    made = synthetic.sections()
    made["mappings"] = anonymous((100, 5), (100, 7))
    made["mappings"]["kind"], made["mappings"]["path"] = fmt.MappingKind.FILE, len(made["strings"])
    made["strings"] = np.frombuffer(made["strings"].tobytes() + b"/a\0", fmt.STRINGS)
    made["mappings"]["anonymous"] = 2 * PAGE, fmt.UNKNOWN
    files = summary_of(made, tmp_path)["mappings"]["files"]["largest"]
    assert [(each["name"], each["row"], each["bytes"]) for each in files] == [("/a", "other_file", None)]


@pytest.mark.check
def test_copies_are_an_amount_of_their_own(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous((100, 5), (100, 7))
    made["mappings"]["kind"], made["mappings"]["path"] = fmt.MappingKind.FILE, len(made["strings"])
    made["strings"] = np.frombuffer(made["strings"].tobytes() + b"/a\0", fmt.STRINGS)
    made["mappings"]["anonymous"] = 2 * PAGE, 0
    files = summary_of(made, tmp_path)["mappings"]["files"]["largest"]
    assert [(each["row"], each["count"], each["bytes"] // PAGE) for each in files] == [
        ("other_file", 2, 10),
        ("file_copies", 1, 2),
    ]


@pytest.mark.check
def test_anonymous_memory_that_may_be_mallocs_is_in_another_row(tmp_path: Path) -> None:
    """No layout of glibc's malloc could be proven: nobody knows whose it is."""
    made = synthetic.sections()
    made["mappings"] = anonymous((16, 12), (16, 8), (16, 4))
    made["mappings"]["role"] = 2, 0, 1
    listed = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert [(each["row"], each["bytes"] // PAGE) for each in listed] == [("unknown", 12), ("other_anon", 8)]


@pytest.mark.check
def test_names_that_are_not_next_to_each_other_are_summed(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous(*((100, pages) for pages in (1, 2, 4, 8, 16)))
    strings = bytearray(made["strings"].tobytes())
    for mapping, name in zip(made["mappings"], ("/a", "/b", "/a", "/b", "/b")):
        mapping["kind"], mapping["path"] = fmt.MappingKind.FILE, len(strings)
        strings += name.encode() + b"\0"
    made["mappings"][4]["kind"] = fmt.MappingKind.SHMEM
    made["strings"] = np.frombuffer(bytes(strings), fmt.STRINGS)
    files = summary_of(made, tmp_path)["mappings"]["files"]["largest"]
    assert [(each["name"], each["row"], each["count"], each["bytes"] // PAGE) for each in files] == [
        ("/b", "other_shmem", 1, 16),
        ("/b", "other_file", 2, 10),
        ("/a", "other_file", 2, 5),
    ]


def regions(*spans: tuple[int, int, int]) -> dict[str, np.ndarray[Any, Any]]:
    """Sections with a runtime whose regions begin at a page, have so many, and so many of them resident."""
    made = synthetic.sections()
    made["runtimes"] = np.zeros(1, fmt.RUNTIME)
    made["runtimes"][0]["kind"], made["runtimes"][0]["state"] = 1, 1
    made["runtimes"][0]["row"] = [row.name for row in rows.ALL].index("python_arenas")
    made["regions"] = np.zeros(len(spans), fmt.REGION)
    for region, (start, pages, resident) in zip(made["regions"], spans):
        region["address"], region["size"] = (1 << 30) + start * PAGE, pages * PAGE
        region["resident"], region["heap"] = resident * PAGE, fmt.NO_INDEX
    return made


@pytest.mark.check
def test_what_is_a_runtimes_is_taken_off(tmp_path: Path) -> None:
    made = regions((0, 4, 3), (8, 4, 4))
    made["mappings"] = anonymous((16, 12), (4, 2))
    assert left(summary_of(made, tmp_path)) == [5 * PAGE, 2 * PAGE]


@pytest.mark.check
def test_a_region_in_two_mappings_leaves_no_guess(tmp_path: Path) -> None:
    """Where only one of the mappings has other memory too, the bytes are known."""
    made = regions((8, 12, 7))
    made["mappings"] = anonymous((16, 12), (4, 3), (8, 2))
    assert left(summary_of(made, tmp_path)) == [8 * PAGE, 2 * PAGE], "the second is the runtime's, wholly"
    made = regions((8, 16, 7))
    made["mappings"] = anonymous((16, 12), (16, 9), (8, 2))
    made["totals"][0]["ledger"]["file_copies"] = 5 * PAGE
    summary = summary_of(made, tmp_path)
    assert left(summary) == [None, None, 2 * PAGE]
    assert summary["mappings"]["anonymous"]["copies_of_files"] == 5 * PAGE, "a row has them"


@pytest.mark.check
def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous((16, 12), (4, 3))
    made["mappings"]["rss"] = fmt.UNKNOWN
    assert left(summary_of(made, tmp_path)) == [None, None]


@pytest.mark.parametrize(
    ("name", "may_be", "evidence"),
    [
        ("[anon:a name]", "memory that the program has given a name", 'the name "a name" for it'),
        ("[heap]", "memory that something else than glibc's malloc took with brk()", "the kernel's [heap]"),
        ("", None, None),
    ],
)
def test_what_a_name_tells(tmp_path: Path, name: str, may_be: str | None, evidence: str | None) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous((16, 12))
    made["mappings"]["path"] = made["strings"].nbytes
    made["strings"] = np.frombuffer(made["strings"].tobytes() + name.encode() + b"\0", fmt.STRINGS)
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["name"] == (name or None)
    assert found["may_be"] == may_be
    assert (found["evidence"] is None) if evidence is None else (evidence in found["evidence"])


def test_a_stack_where_no_stack_pointer_is_known(tmp_path: Path) -> None:
    """It may be that of a thread which runs."""
    made = synthetic.sections()
    made["mappings"] = anonymous((1, 0), (16, 12))
    made["mappings"][0]["prot"] = 0
    assert summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"][0]["may_be"].startswith("the stack of a cor")
    made["totals"][0]["ledger"]["stacks"] = fmt.UNKNOWN
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["may_be"] == "the stack of a thread, or of a coroutine"
    assert "stack pointer" not in found["evidence"]


@pytest.mark.parametrize(("pages", "may_be"), [(256, "the stack of"), (257, "a heap that grows within")])
def test_a_guard_is_small(tmp_path: Path, pages: int, may_be: str) -> None:
    """More than 1 MiB without access is no guard."""
    made = synthetic.sections()
    made["mappings"] = anonymous((pages, 0), (1024, 12))
    made["mappings"][0]["prot"] = 0
    assert summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"][0]["may_be"].startswith(may_be)


def test_variables_of_a_library(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mappings"] = anonymous((1, 1), (16, 12))
    before = int(made["mappings"][0]["start"])
    made["mappings"][0]["kind"], made["mappings"][0]["path"] = fmt.MappingKind.FILE, made["strings"].nbytes
    made["strings"] = np.frombuffer(made["strings"].tobytes() + b"/lib/x.so\0", fmt.STRINGS)
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["may_be"] == "variables of a program or library (.bss)"
    assert found["evidence"].endswith("of /lib/x.so end")
    made["mappings"][0]["prot"] = 1
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["may_be"] is None, "what is behind pages that cannot be written is no .bss"
    made["mappings"][0]["prot"] = 3
    made["mappings"] = np.concatenate([made["mappings"][:1], made["mappings"]])
    made["mappings"][0]["start"], made["mappings"][0]["end"] = before - PAGE, before
    made["mappings"][1]["prot"] = 1
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["may_be"] == "variables of a program or library (.bss)", "its last page cannot be written any more"
    made["mappings"] = made["mappings"][1:]
    made["mappings"][0]["prot"] = 3
    made["mappings"][1]["malloc_rss"] = 4 * PAGE  # joined with malloc's memory: its beginning tells nothing
    (found,) = summary_of(made, tmp_path)["mappings"]["anonymous"]["largest"]
    assert found["bytes"] == 8 * PAGE
    assert found["evidence"] == "16.0 KiB of the mapping are malloc's"
