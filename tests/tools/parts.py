# SPDX-License-Identifier: MIT
"""Numbers with parts, in sentences and in JSON: no part is larger than its whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from arenascope.findings import Facts, Finding, evidence_of
from arenascope.findings.parts import PartBytes
from arenascope.humanize import size
from arenascope.rows import RESIDENT
from arenascope.wire.summary import parse

SIZE = re.compile(r"(?<![\d.,])(?:\d+\.\d (?:[KMGT]iB)|\d+ B)\b")
PART = re.compile(rf"({SIZE.pattern}) of ({SIZE.pattern})")


def check_words(words: str, parts: Sequence[PartBytes]) -> None:
    """Each number of bytes in the words is a part that was declared, or its whole, which is said in words."""
    wholes = {part.whole for part in parts if part.whole}
    assert set(SIZE.findall(words)) <= {size(part.bytes) for part in parts} | {size(whole.bytes) for whole in wholes}, (
        words
    )
    for part in parts:
        assert part.whole is None or part.whole.bytes is None or part.bytes <= part.whole.bytes, (part, words)


def check_sentence(facts: Facts, finding: Finding) -> None:
    """The first number is the finding's, and a part of Rss; "1.0 MiB of 2.0 MiB" is no more than its whole."""
    for part, whole in PART.findall(finding.sentence):
        assert bytes_in(part) <= bytes_in(whole), finding.sentence
    assert finding.bytes is None or not finding.in_rss or finding.bytes <= facts.whole, finding.sentence
    if finding.rank == "row":
        assert SIZE.findall(finding.sentence)[0] == size(finding.bytes), finding.sentence


def bytes_in(words: str) -> float:
    number, unit = words.split()
    return float(number) * float(1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit))


def check_verdict(made: str) -> None:
    """What `arenadump summary --json` printed, and the evidence for each finding."""
    refuse(parts_of_summary(json.loads(made)))
    facts = Facts(parse(made))
    assert facts.summary.findings
    for finding in facts.summary.findings:
        check_sentence(facts, finding)
        facts.telling.take()
        evidence = evidence_of(facts, finding)
        named = facts.telling.take()
        check_words(evidence, named)
        for whole in {part.whole for part in named if part.whole and part.whole.kind}:
            assert whole.words in f"{finding.sentence} {evidence}", (whole, evidence)


Check = tuple[str, Optional[int], Optional[int]]  # what, the part, its whole


def refuse(checks: Iterator[Check]) -> None:
    for what, part, whole in checks:
        assert part is None or whole is None or part <= whole, (what, part, whole)


def total(numbers: Iterable[int | None]) -> int | None:
    held = list(numbers)
    return None if None in held else sum(filter(None, held))


def parts_of_summary(made: dict[str, Any]) -> Iterator[Check]:
    ledger, rows = made["ledger"], [row.name for row in RESIDENT]
    known = sum(ledger[row] or 0 for row in rows)
    yield "rows of Rss", known, made["kernel"]["rss"]
    for row in rows:
        yield f"arenas' {row}", total(arena["ledger"][row] for arena in made["arenas"]), ledger[row]
    for key, held in made["chunks"].items():
        yield f"arenas' {key}", total(arena["chunks"][key]["bytes"] for arena in made["arenas"]), held["bytes"]
    chunks = made["chunks"]
    allocated = total(chunks[key]["bytes"] for key in ("in_use", "mmapped"))
    yield "sizes", sum(each["bytes"] for each in made["largest_sizes"]), allocated
    yield "a mapping", made["largest_mmapped"], chunks["mmapped"]["bytes"]
    yield "pins", total(each["stranded"] for each in made["pins"]), ledger["stranded"]
    pages = made["stranded_pages"] or {"by_chunks": [], "by_share": [], "shared": []}
    for key, each in pages.items():
        yield key, total(one["stranded"] for one in each), ledger["stranded"]
    for row in ("other_file", "other_shmem", "file_copies"):
        yield (
            row,
            total(file["bytes"] for file in made["mappings"]["files"]["largest"] if file["row"] == row),
            ledger[row],
        )
    anonymous = made["mappings"]["anonymous"]
    yield (
        "anonymous",
        total(each["bytes"] for each in anonymous["largest"]),
        ledger["other_anon"] and ledger["other_anon"] + (ledger["unknown"] or 0),
    )
    for runtime in made["runtimes"]:
        yield from parts_of_runtime(runtime)
    for each in (*made["runtimes"], made["ruby"] or {}):
        for kind in (each.get("objects") or {"types": []})["types"]:
            yield "in malloc", kind["in_malloc"], kind["bytes"] + kind["owned"]
    if made["graph"]:
        yield from parts_of_graph(made["graph"], allocated)
        yield "mappings", made["graph"]["mappings"]["bytes"], total((ledger["other_anon"], ledger["unknown"]))


def parts_of_runtime(runtime: dict[str, Any]) -> Iterator[Check]:
    yield "resident", runtime["resident"], runtime["size"]
    yield "blocks", total(runtime[key] for key in ("in_use", "free", "empty")), runtime["size"]
    yield "empty", runtime["empty_resident"], runtime["empty"]
    yield "used", runtime["used"], runtime["committed"]
    yield "committed", runtime["committed"], runtime["size"]
    if goroutines := runtime["goroutines"]:
        yield "stacks", goroutines["stacks"], runtime["size"]
        yield "resident stacks", goroutines["stacks_resident"], runtime["resident"]
    for space in runtime["spaces"]:
        yield "space", space["used"], space["committed"]


def parts_of_graph(graph: dict[str, Any], allocated: int | None) -> Iterator[Check]:
    whole = graph["bytes"]
    chunks = whole - graph["objects"]["bytes"] - graph["mappings"]["bytes"]
    yield "chunks of the graph", chunks, allocated
    yield "typed", graph["typed"], whole
    yield "reached", graph["reached"] + graph["unreached"], whole
    yield "lost", graph["direct"]["bytes"] + graph["indirect"]["bytes"], chunks
    yield "types", sum(each["bytes"] for each in graph["types"]), whole
    yield "owners", sum(each["retained"] for each in graph["owners"]), graph["reached"] + graph["unreached"]
    yield from parts_of_several(graph["several"], graph["reached"])


def parts_of_several(several: dict[str, Any], reached: int) -> Iterator[Check]:
    yield "several", several["bytes"], reached
    for each in several["leading"]:
        yield "leading", each["bytes"], several["bytes"]


def parts_of_owners(made: dict[str, Any]) -> Iterator[Check]:
    above: list[int] = []
    yield "reached", made["reached"] + made["unreached"], made["graph"]["bytes"]
    yield "owners", sum(each["retained"] for each in made["branches"] if each["depth"] == 0), made["reached"]
    for branch in made["branches"]:
        del above[branch["depth"] :]
        yield "branch", branch["retained"], above[-1] if above else made["reached"]
        yield "own", branch["bytes"], branch["retained"]
        above.append(branch["retained"])
    yield from parts_of_several(made["several"], made["reached"])


def parts_of_types(made: dict[str, Any]) -> Iterator[Check]:
    yield "types", sum(each["bytes"] for each in made["types"]), made["graph"]["bytes"]
    yield "chunks", sum(each["count"] for each in made["types"]), made["graph"]["chunks"]


def parts_of_leaks(made: dict[str, Any]) -> Iterator[Check]:
    kinds = ("direct", "indirect", "suspects")
    for key in ("count", "bytes"):
        yield "all", sum(made[kind][key] for kind in kinds), made["graph"]["chunks" if key == "count" else "bytes"]
        for kind in kinds:
            yield kind, sum(group[kind][key] for group in made["by_type"]), made[kind][key]
        for kind in kinds[:2]:
            yield "in cycles", made["in_cycles"][kind][key], made[kind][key]
    for group in made["by_type"]:
        yield "in cycles", group["in_cycles"], group["direct"]["count"] + group["indirect"]["count"]
