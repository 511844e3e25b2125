# SPDX-License-Identifier: MIT
"""What a dump with --graph says of types, owners and leaks: as leaks and owners say it, and as the program knows it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tools import harness, programs
from tools.keeps import Keeps
from tools.running import started

from arenascope.compare import digest_of
from arenascope.compare.digest import Portion
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import summarize

PAGE = 4096


def title(dump: Dump, user: Any) -> tuple[str, str]:
    """Type and owner of a user, in short."""
    kind = dump.string(dump.graph_types[user["type"]]["name"]).rsplit("::", maxsplit=1)[-1]
    owner = dump.graph_owners[user["owner"]]
    return kind, dump.string(owner["name"]) or dump.string(owner["kind"])


USERS = {
    "Connection": ("Connection", "open_connections"),
    "Session": ("Session", "open_sessions"),
    "Forgotten": ("Forgotten", "lost"),
}


def stranded_pages(dump: Dump) -> Iterator[tuple[int, int, list[int]]]:
    """Each page with stranded bytes: index, these bytes, and the addresses of the chunks in use on it."""
    whole = (fmt.PageState.RELEASABLE, fmt.PageState.WITHHELD)
    for heap, record in enumerate(dump.heaps):
        chunks = dump.heap_chunks(heap)
        users: dict[int, list[int]] = defaultdict(list)
        for address, size, kind in zip(chunks.addresses.tolist(), chunks.sizes.tolist(), chunks.classes.tolist()):
            if kind == fmt.ChunkClass.IN_USE:
                for page in range(address // PAGE, (address + size - 1) // PAGE + 1):
                    users[page].append(address)
        for index, page in enumerate(dump.heap_pages(heap)):
            free = 16 * (int(page["binned"]) + int(page["top"]))
            if free and page["residency"] & fmt.Residency.PRESENT and page["state"] not in whole:
                number = int(record["start"]) // PAGE + index
                yield int(record["first_page"]) + index, free, users[number]


def test_what_keeps_pages_is_the_truth(keeps: Keeps) -> None:
    dump = keeps.dump
    class_of = {address: name for name, addresses in keeps.of.items() for address in addresses}
    pages: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for _, free, users in stranded_pages(dump):
        names = {class_of.get(address, "?") for address in users}
        if len(names) == 1:
            pages[min(names)] += 1
            alone[min(names)] += free
        for address in users if len(names) > 1 else ():
            shared[class_of.get(address, "?")] += 1
            parts[class_of.get(address, "?")] += free // len(users)
    assert pages["Connection"] > 1000
    assert pages["Session"] > 500
    kept = {title(dump, user): user for user in dump.graph_page_users[1:]}
    for name, key in USERS.items():
        assert int(kept[key]["count"]) == len(keeps.of[name])
        assert int(kept[key]["pinned"]["pages"]) == pages[name]
        assert int(kept[key]["pinned"]["stranded"]) == alone[name]
        # What the division leaves over goes to one of those on the page.
        assert abs(int(kept[key]["pinned"]["part"]) - parts[name]) <= 4 * shared[name]
    assert parts["Forgotten"] > 0


def test_the_sums_are_those_of_the_ledger(keeps: Keeps) -> None:
    dump = keeps.dump
    held = int(dump.page_fill["stranded"][dump.page_fill["chunks"] > 0].sum())
    for records in (dump.graph_types, dump.graph_owners, dump.graph_page_users):
        assert int(records["pinned"]["stranded"].sum() + records["pinned"]["part"].sum()) == held > 0
    head = dump.graph[0]
    chunks = dump.totals["chunks"]
    assert int(head["chunks"]) == int(chunks["in_use"]["count"] + chunks["mmapped"]["count"])
    assert int(head["bytes"]) == int(chunks["in_use"]["bytes"] + chunks["mmapped"]["bytes"])
    for records in (dump.graph_types, dump.graph_page_users):
        assert int(records["bytes"].sum()) == int(head["bytes"])
        assert int(records["count"].sum()) == int(head["chunks"])
    assert int(dump.graph_branches["bytes"].sum()) == int(head["reached"])
    assert int(head["reached"] + head["unreached"]) == int(head["bytes"])
    assert int(head["flags"]) == fmt.GraphFlag.EXACT


def test_a_page_has_its_users(keeps: Keeps) -> None:
    """Those with most bytes on it come first."""
    dump = keeps.dump
    on: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for place in dump.graph_places:
        on[int(place["page"])].append(title(dump, dump.graph_page_users[place["user"]]))
    assert np.all(np.diff(dump.graph_places["page"].astype(np.int64)) >= 0) or len(dump.heaps) > 1
    class_of = {address: name for name, addresses in keeps.of.items() for address in addresses}
    for index, _, users in stranded_pages(dump):
        for name in {class_of[address] for address in users if address in class_of}:
            assert USERS[name] in on[index]
    assert all(len(names) <= 8 for names in on.values())


def test_it_says_what_leaks_and_owners_say(keeps: Keeps, arenadump: harness.Arenadump) -> None:
    dump = keeps.dump
    leaks = json.loads(arenadump.check("leaks", "--json", "--mode=freeze", keeps.pid))
    for name in ("direct", "indirect", "suspects"):
        assert dict(zip(("count", "bytes"), dump.graph[0][name].tolist())) == leaks[name]
    listed = [
        (dump.string(dump.graph_types[each["type"]]["name"]) or None, int(each["size"]), hex(int(each["example"])))
        for each in dump.graph_leaks
    ]
    assert listed == [(each["type"], each["size"], each["example"]) for each in leaks["by_type"]]
    owners = json.loads(arenadump.check("owners", "--json", "--mode=freeze", keeps.pid))
    branches = [
        (int(each["depth"]), int(each["count"]), int(each["bytes"]), int(each["retained"]))
        for each in dump.graph_branches
    ]
    assert branches == [(each["depth"], each["count"], each["bytes"], each["retained"]) for each in owners["branches"]]
    top = [dump.graph_owners[each["owner"]] for each in dump.graph_branches if each["depth"] == 0]
    whose = [(dump.string(each["kind"]), dump.string(each["name"]) or None) for each in top]
    assert whose == [
        (each["owner"]["kind"], each["owner"]["name"]) for each in owners["branches"] if each["depth"] == 0
    ]
    leading = [(owner_of(dump, each), int(each["bytes"])) for each in dump.graph_leading]
    several = owners["several"]
    assert leading == [((*each["owner"].values(),), each["bytes"]) for each in several["leading"]]
    assert {int(each["owners"]) for each in dump.graph_leading} == {several["owners"]}
    summary = json.loads(arenadump.check("summary", "--json", keeps.path))["graph"]["several"]
    assert summary == {**several, "leading": several["leading"][:10]}
    # Without one object of a class, nothing else goes: a class retains at least its own bytes, as far as they are held.
    for record in dump.graph_types:
        assert int(record["retained"]) <= int(dump.graph[0]["reached"])
    # Some sessions hold another one: these are retained once.
    for name in ("Connection", "Session"):
        record = next(each for each in dump.graph_types if dump.string(each["name"]) == name)
        assert int(record["retained"]) == int(record["bytes"])


def owner_of(dump: Dump, leading: Any) -> tuple[str | int | None, ...]:
    """What the JSON of owners says of an owner, in its order."""
    owner = dump.graph_owners[leading["owner"]]
    kind, name, type_, module, mapping = (
        dump.string(owner[each]) or None for each in ("kind", "name", "type", "module", "mapping")
    )
    address, offset = (None if owner[each] == fmt.UNKNOWN else hex(int(owner[each])) for each in ("address", "offset"))
    tid = int(owner["thread"]) or None
    thread = next((each["name"].decode() for each in dump.threads if each["tid"] == tid), None)
    return kind, name, type_, address, module, offset, tid, thread, mapping


def test_objects_and_graph_together(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Both read in one snapshot: the objects are the same with and without the graph."""
    counts = []
    with started(
        [
            "python3",
            "-c",
            "import time; held = [str(i) * 9 for i in range(5000)]; print('ready', flush=True); time.sleep(600)",
        ],
        "ready",
    ) as pid:
        for options in ((), ("--graph",)):
            path = tmp_path / f"dump{len(options)}"
            arenadump.check("dump", "--objects", "--mode=freeze", *options, "-o", path, pid)
            dump = Dump(path)
            counts.append(sorted((dump.string(t["name"]), *t.tolist()[3:]) for t in dump.types))
            assert len(dump.graph) == len(options)
    assert counts[0]
    assert counts[0] == counts[1]


def test_no_contents(keeps: Keeps, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Texts of the heap appear nowhere."""
    code = "import time\nheld = ['se' + 'cret%d' % i * 20 for i in range(999)]\n"
    code += "print('ready', flush=True); time.sleep(600)"
    with started(["python3", "-c", code], "ready") as pid:
        arenadump.check("dump", "--graph", "--chunks", "-o", tmp_path / "dump", pid)
    assert b"secret1" not in (tmp_path / "dump").read_bytes()


def test_a_dump_has_no_graph_of_its_own(keeps: Keeps, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    failed = arenadump.run("dump", "--graph", "-o", tmp_path / "dump", keeps.path)
    assert failed.returncode == 2


def test_what_there_is_no_room_for_is_summed_up(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """All sums are those of the whole graph, and of what has no record of its own."""
    program = programs.build("many", "-s")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        arenadump.check("dump", "--graph", "--mode=clone", "-o", tmp_path / "dump", process.pid)
        process.kill()
    dump = Dump(tmp_path / "dump")
    head = dump.graph[0]
    branches, leaks = dump.graph_branches, dump.graph_leaks
    others = branches["flags"] == fmt.GraphRecordFlag.OTHERS
    assert 9000 < (~others).sum() <= 10_000
    assert others.sum() == 1
    assert (branches["retained"][others] == branches["bytes"][others]).all()
    assert int(branches["bytes"].sum()) == int(head["reached"])
    assert int(branches["retained"][branches["depth"] == 0].sum()) == int(head["reached"])
    assert int(branches["count"].sum() + head["direct"]["count"] + head["indirect"]["count"]) == int(head["chunks"])
    assert len(leaks) == 10_001
    (rest,) = leaks[leaks["flags"] == fmt.GraphRecordFlag.OTHERS]
    assert int(rest["direct"]["count"]) >= 90
    assert int(leaks["direct"]["bytes"].sum()) == int(head["direct"]["bytes"])
    kinds = [dump.string(each["kind"]) for each in dump.graph_owners]
    assert kinds.count("others") == kinds.count("lost") == 1
    left_out = dump.graph_page_users[dump.graph_page_users["owner"] == kinds.index("others")]
    assert int(left_out["count"].sum()) > 1000
    for records in (dump.graph_types, dump.graph_page_users):
        assert int(records["bytes"].sum()) == int(head["bytes"])
        assert int(records["count"].sum()) == int(head["chunks"])
    stranded = int(dump.page_fill["stranded"][dump.page_fill["chunks"] > 0].sum())
    for records in (dump.graph_types, dump.graph_owners, dump.graph_page_users):
        assert int(records["pinned"]["stranded"].sum() + records["pinned"]["part"].sum()) == stranded
    digest = digest_of(dump, summarize(dump))
    lost = sum(int(head[kind]["bytes"]) for kind in ("direct", "indirect", "suspects"))
    for group, whole in ((digest.leaks, lost), (digest.owners, int(head["reached"]))):
        assert group
        assert not group.whole
        assert sum(each.held.bytes or 0 for each in group.listed.values()) + (group.others.bytes or 0) == whole
        assert group.held("another") == Portion(None, None)
    assert digest.leaks
    assert digest.leaks.others.count == sum(int(rest[kind]["count"]) for kind in ("direct", "indirect", "suspects"))
