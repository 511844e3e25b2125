# SPDX-License-Identifier: MIT
"""The verdict as a whole: its order, the finding of the largest row, and what it says of memory in use."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import harness, jvms, programs
from tools import synthetic_dump as synthetic
from tools.paths import ROOT
from tools.running import process, started

from arenascope.findings import EVIDENCE, Facts, Finding, judge
from arenascope.humanize import printable, size
from arenascope.rows import BY_NAME, RESIDENT
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.summary import parse

MIB = 1 << 20
HOSTILE = b"app::\x1b[2J\xff\xe2\x80\xaeRow<\xc3\xa9>%s\n"
ROWS = [row.name for row in RESIDENT]
RANKS = ("premise", "row", "part", "beside")


def with_rows(arenadump: harness.Arenadump, folder: Path, held: dict[str, int], rss: int | None = 0) -> Facts:
    """The facts of a made dump with such a ledger. `rss`: 0 for the sum of the rows."""
    made = synthetic.sections()
    ledger = dict.fromkeys(ROWS, 0) | held
    ledger |= {"malloc_trim": ledger["releasable"], "deep_trim": ledger["releasable"] + ledger["withheld"]}
    for name, value in ledger.items():
        made["totals"][0]["ledger"][name] = value
    made["meta"][0]["rss"] = sum(ledger[name] for name in ROWS) if rss == 0 else fmt.UNKNOWN if rss is None else rss
    return Facts(parse(arenadump.check("summary", "--json", synthetic.write(folder / "rows.dump", made))))


def check_order(facts: Facts) -> None:
    findings = judge(facts).findings
    ranked = [(RANKS.index(finding.rank), -(finding.bytes or 0)) for finding in findings]
    assert ranked == sorted(ranked)
    rows = [name for finding in findings if finding.rank == "row" for name in finding.rows]
    assert len(rows) == len(set(rows)), "no byte is told twice but in parts"
    for finding in findings:
        if finding.rank == "row":
            assert finding.bytes == sum(facts.row(name) or 0 for name in finding.rows)
    covered = {name for finding in findings for name in finding.rows}
    assert {name for name in ROWS if (facts.row(name) or 0) > max((facts.row(n) or 0) for n in ROWS if n != name)} <= (
        covered
    )


@pytest.mark.check
@pytest.mark.parametrize("largest", ROWS)
@pytest.mark.parametrize("of", [1 << 14, MIB, 1 << 30])
def test_each_row_when_it_is_the_largest(largest: str, of: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    facts = with_rows(arenadump, tmp_path, dict.fromkeys(ROWS, of) | {largest: of + (of >> 2)})
    check_order(facts)
    if largest in {"other_file", "other_anon", "other_shmem", "stacks"}:  # less than a quarter of Rss, and the largest
        (finding,) = [finding for finding in judge(facts).findings if largest in finding.rows]
        assert finding.evidence != BY_NAME[largest].definition, "its own rule, not the one for any row"
    alone = judge(with_rows(arenadump, tmp_path, {largest: 30 * of})).findings
    assert largest in alone[0].rows
    assert alone[0].bytes == 30 * of
    assert size(30 * of) in alone[0].sentence


@settings(max_examples=200, deadline=None)
@given(held=st.lists(st.integers(0, 40).map(lambda bits: (1 << bits) - 1), min_size=len(ROWS), max_size=len(ROWS)))
def test_any_ledger(held: list[int], arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    check_order(with_rows(arenadump, folder, dict(zip(ROWS, held))))
    check_order(with_rows(arenadump, folder, dict(zip(ROWS, held)), rss=None))


def test_a_part_stands_behind_its_whole(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("mmapped") as pid:
        findings = take_snapshot(arenadump, pid)
    rules = [finding.rule for finding in findings]
    assert rules.index("in use") < rules.index("large blocks")


# --- Real processes ---------------------------------------------------------------------------------------------------


def take_snapshot(arenadump: harness.Arenadump, pid: int, *options: str) -> list[Finding]:
    facts = Facts(parse(arenadump.check("summary", "--json", *options, pid)))
    check_order(facts)
    return judge(facts).findings


def test_a_leak(arenadump: harness.Arenadump) -> None:
    """The headline, although free pages and a cache of the program's own are there, too."""
    with started([str(programs.build("leak"))], "ready") as pid:
        findings = take_snapshot(arenadump, pid)
        known = take_snapshot(arenadump, pid, "--graph")[0]
    first = findings[0]
    assert first.rule == known.rule == "in use"
    assert re.search(
        r"200,000 chunks of 496 bytes hold 94\.6 MiB of 94\.\d MiB allocated; 94\.6 MiB is lost\.", known.sentence
    )
    assert re.search(r"in (199,999|200,000) chunks is lost: no pointer", known.evidence)
    assert "A leak resembles this" not in known.evidence, "with a graph it is none any more"
    assert re.search(r"hold 94\.6 MiB of 94\.\d MiB allocated, perhaps a leak, perhaps a cache\.", first.sentence)
    assert "A leak resembles this; so do a cache" in first.evidence
    assert "next sizes" not in first.evidence, "the others are next to nothing"
    assert [step.command for step in first.next] == [
        f"arenascope owners {pid}",
        f"arenascope leaks {pid}",
        f"arenascope profile {pid} --for 60s -o calls.dump && arenascope profile top calls.dump",
        f"arenascope dump {pid} -o before.dump && sleep 60 && arenascope report before.dump {pid} -o growth.html",
    ]
    assert [finding.rule for finding in findings[1:3]] == ["anonymous memory", "free pages kept"]


def test_a_type_that_holds_more_than_a_size_is_named(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The chunks of a real process, to which two types have been given."""
    with started([str(programs.build("leak"))], "ready") as pid:
        arenadump.check("dump", "--graph", "--chunks", "-o", tmp_path / "dump", pid)
    made = synthetic.sections_of(Dump(tmp_path / "dump"))
    given = [("app::Row", 200_001, 95 << 20), ("<script>", 1, 2 << 20)]
    made["graph_types"] = made["graph_types"][:2].copy()
    made["graph_types"]["name"] = [synthetic.add_string(made, name.encode()) for name, _, _ in given]
    made["graph_types"]["evidence"] = synthetic.add_string(made, b"vtable")
    made["graph_types"]["count"] = [many for _, many, _ in given]
    made["graph_types"]["bytes"] = made["graph_types"]["retained"] = [held for _, _, held in given]
    for name in ("graph_branches", "graph_leaks", "graph_page_users", "graph_places"):
        made[name] = made[name][:0]

    def first() -> Finding:
        path = synthetic.write(tmp_path / "made", made)
        return judge(Facts(parse(arenadump.check("summary", "--json", path)))).findings[0]

    finding = first()
    assert "in use by the application: 200,001 chunks of type app::Row hold 95.0 MiB of" in (finding.sentence)
    assert re.search(
        r"The largest sizes of 94\.\d MiB allocated: 200,000 chunks of 496 bytes \(94\.6 MiB\)\.", finding.evidence
    )
    assert re.search(r"The next types of 94\.\d MiB allocated: <script> \(2\.0 MiB\)\.", finding.evidence)
    made["graph_types"][0]["bytes"] = 90 << 20
    smaller = first()
    assert "200,000 chunks of 496 bytes hold 94.6 MiB of" in smaller.sentence
    assert "MiB allocated: app::Row (90.0 MiB), <script> (2.0 MiB)." in smaller.evidence


@pytest.mark.check
def test_a_hostile_name_is_escaped(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A type's name, as a terminal of either program and a page have it."""
    made = synthetic.with_graph()
    made["graph"][0]["flags"] = fmt.GraphFlag.EXACT
    made["graph_types"][0]["name"] = synthetic.add_string(made, HOSTILE)
    made["meta"][0]["rss"] = 2 * synthetic.PAGE
    path = synthetic.write(tmp_path / "dump", made)
    (finding,) = [each for each in parse(arenadump.check("summary", "--json", path)).findings if each.rule == "in use"]
    assert finding.tells == ("type",)
    assert (
        f"2 chunks of type {printable(HOSTILE.decode('utf-8', 'surrogateescape'))} hold 4.0 KiB of" in finding.sentence
    )
    assert finding.sentence.isprintable()


@pytest.mark.check
def test_a_graph_that_is_not_of_one_instant_tells_nothing(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.with_graph()
    made["graph"][0]["flags"] = 0
    made["meta"][0]["rss"] = 2 * synthetic.PAGE
    summary = parse(arenadump.check("summary", "--json", synthetic.write(tmp_path / "dump", made)))
    (finding,) = [each for each in summary.findings if each.rule == "in use"]
    assert "type" not in finding.tells
    assert "lost" not in finding.sentence


@pytest.mark.check
def test_a_long_name_is_cut(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.with_graph()
    made["graph"][0]["flags"] = fmt.GraphFlag.EXACT
    made["graph_types"][0]["name"] = synthetic.add_string(made, b"\x1b" * 2000)
    made["meta"][0]["rss"] = 2 * synthetic.PAGE
    (finding,) = [
        each
        for each in parse(arenadump.check("summary", "--json", synthetic.write(tmp_path / "dump", made))).findings
        if each.rule == "in use"
    ]
    assert re.search(r"of type (\\x1b){249}… hold 4\.0 KiB of 4\.0 KiB allocated", finding.sentence)


@pytest.mark.check
def test_what_is_unknown_stays_unknown(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """No row has a finding; a sum of which a part is unknown is said to be so."""
    made = synthetic.sections()
    made["meta"][0]["rss"] = fmt.UNKNOWN
    made["meta"][0]["flags"] &= ~fmt.MetaFlag.RESIDENCY_KNOWN
    for name in fmt.LEDGER_ROWS + fmt.ABSENT_ROWS + fmt.FORECAST_ROWS:
        made["totals"][0]["ledger"][name] = fmt.UNKNOWN
    made["totals"][0]["chunks"]["tcache"]["bytes"] = fmt.UNKNOWN
    summary = parse(arenadump.check("summary", "--json", synthetic.write(tmp_path / "dump", made)))
    (finding,) = summary.findings
    assert (finding.rule, finding.bytes, finding.share) == ("residency unknown", None, None)
    assert finding.sentence == "4.0 KiB is in chunks in use, unknown in free chunks, resident or not."
    assert summary.verdict.lead == "It is unknown how much of this process was resident."
    assert summary.verdict.caveats == ()
    half = with_rows(
        arenadump, tmp_path, {"in_use": 30 * MIB, "tcache": 20 * MIB, "fastbin": fmt.UNKNOWN}, rss=60 * MIB
    )
    assert [finding.rule for finding in half.summary.findings] == ["in use"]


@pytest.mark.check
def test_a_part_stands_behind_smaller_rows(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    facts = with_rows(arenadump, tmp_path, {"mmapped_in_use": 40 * MIB, "stranded": 10 * MIB})
    assert [finding.rule for finding in facts.summary.findings] == ["in use", "stranded by pins", "large blocks"]


@pytest.mark.check
def test_what_is_worth_a_sentence(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Three in a hundred of Rss, and 1 MiB."""
    least = 3 * MIB
    rules = [
        {
            finding.rule
            for finding in with_rows(
                arenadump, tmp_path, {"stranded": held, "in_use": 100 * MIB - held}
            ).summary.findings
        }
        for held in (least, least - 1)
    ]
    assert rules == [{"in use", "stranded by pins"}, {"in use"}]
    few = with_rows(arenadump, tmp_path, {"stranded": MIB - 1, "in_use": 4 * MIB})
    assert [finding.rule for finding in few.summary.findings] == ["in use"]
    assert few.summary.verdict.least == MIB


def test_few_large_chunks_are_no_suspicion(arenadump: harness.Arenadump) -> None:
    with process("in-use") as pid:  # 1,000 of 64 KiB
        (finding,) = [finding for finding in take_snapshot(arenadump, pid) if finding.rule == "in use"]
    assert "1,000 chunks of 65,552 bytes hold" in finding.sentence
    assert "leak" not in finding.evidence


def test_node(arenadump: harness.Arenadump) -> None:
    program = "const kept=[]; for (let i = 0; i < 400000; i++) kept.push({x: i, s: 'k' + i}); console.log('ready'); "
    with started(["node", "-e", program + "setInterval(() => kept.length, 1000)"], "ready") as pid:
        first = take_snapshot(arenadump, pid)[0]
    assert first.rule in {"anonymous memory", "managed memory"}
    assert "--heapsnapshot-signal=SIGUSR2" in first.next[0].command


def test_java(arenadump: harness.Arenadump) -> None:
    jvm = jvms.required()
    source = programs.SOURCES / "java/Holds.java"
    with started([jvm.tool("java"), "-Xmx256m", str(source), "100", "30"], "ready") as pid:
        findings = take_snapshot(arenadump, pid)
    first = findings[0]
    assert first.rule == "managed memory"
    assert "used by its own count" in first.evidence
    assert re.search(r"Used by space: eden .*, \w+ [\d.]+ MiB\.", first.evidence)
    assert [step.command for step in first.next] == [f"jcmd {pid} GC.heap_info", f"jcmd {pid} GC.class_histogram"]
    (native,) = [finding for finding in findings if finding.rule == "in use"]  # 30 MiB of about 220
    assert "Direct buffers are part of it" in native.evidence
    assert [step.command for step in native.next][1:-1] == [
        f"jcmd {pid} VM.native_memory summary",
        f"arenascope owners {pid}",
        f"arenascope leaks {pid}",
    ]
    assert "arenascope profile" in native.next[-1].command


def test_php(arenadump: harness.Arenadump) -> None:
    if not shutil.which("php"):
        pytest.skip("php is not installed (Debian: php-cli)")
    with started(["php", str(programs.SOURCES / "holds.php")], " ") as pid:
        (finding,) = [finding for finding in take_snapshot(arenadump, pid) if finding.rule == "other malloc"]
    assert "in the memory of PHP" in finding.sentence
    assert "memory_get_usage()" in finding.evidence


LISTS = "kept = [[i] for i in range(300_000)]; print('ready', flush=True); input()"


def test_python_with_its_types(arenadump: harness.Arenadump) -> None:
    with started([sys.executable, "-c", LISTS], "ready") as pid:
        plain, counted = take_snapshot(arenadump, pid), take_snapshot(arenadump, pid, "--objects")
    assert plain[0].rule == counted[0].rule == "Python's arenas"
    objects, owners = f"arenascope summary {pid} --objects", f"arenascope owners {pid}"
    assert [step.command for step in plain[0].next] == [objects, owners]
    assert [step.command for step in counted[0].next] == [owners]
    assert "list: 300," in counted[0].evidence
    assert "with what they own" in counted[0].evidence
    assert "tuple" not in counted[0].evidence.partition("list: 300,")[0]


def test_python_whose_memory_is_mallocs(arenadump: harness.Arenadump) -> None:
    """Large blocks of Python are malloc's: the step and the types stand with what is in use."""
    with started(
        [sys.executable, "-c", LISTS.replace("[i]", "bytes(1000)").replace("300_000", "60_000")], "ready"
    ) as pid:
        plain, counted = take_snapshot(arenadump, pid), take_snapshot(arenadump, pid, "--objects")
    assert plain[0].rule == counted[0].rule == "in use"
    assert plain[0].next[0].command == f"arenascope summary {pid} --objects"
    assert re.search(r"bytes: (59,9|6\d,)\d+ objects, 59", counted[0].evidence)  # code is bytes, too


def test_ruby_whose_garbage_is_not_collected(arenadump: harness.Arenadump) -> None:
    program = "GC.disable; a = Array.new(20_000) { 'x' * 3000 }; a = nil; puts :ready; $stdout.flush; sleep"
    with started(["ruby", "-e", program], "ready") as pid:
        first = take_snapshot(arenadump, pid)[0]
    assert first.rule == "in use"
    assert "perhaps garbage, perhaps a leak, perhaps a cache" in first.sentence
    assert "garbage included, until Ruby's next full GC" in first.evidence
    assert "--objects" in first.next[0].command
    assert "gc_on_usr2.rb" in first.next[1].command


@pytest.mark.check
def test_the_docs_name_every_rule(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    docs = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    rules = {finding.rule for name in ROWS for finding in with_rows(arenadump, tmp_path, {name: MIB}).summary.findings}
    # The rows in_use and mmapped_in_use share a rule, tcache and fastbin another. Large blocks are a part.
    assert len(rules) == len(ROWS) - 2 + 1
    named = set(re.findall(r"^\| ([^|`]+) \|", docs, re.MULTILINE))
    others = {
        "another allocator",
        "residency unknown",
        "too many arenas",
        "gone already",
        "swapped",
        "open files in memory",
    }
    assert named - {"cause", "evidence"} >= rules | others
    assert named >= EVIDENCE.keys()
