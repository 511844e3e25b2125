# SPDX-License-Identifier: MIT
"""The verdict: each cause with a process that shows it, its numbers held against the ledger."""

from __future__ import annotations

import ctypes.util
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console
from tools import harness, programs
from tools import synthetic_dump as synthetic
from tools.paths import ROOT
from tools.running import mapped, process, started

from arenascope import findings
from arenascope.compare import compare
from arenascope.findings import Finding, judge, to_json
from arenascope.humanize import size
from arenascope.render.summary import render_summary
from arenascope.report.page.compare import changes
from arenascope.report.page.glossary import GLOSSARY
from arenascope.report.page.html import render
from arenascope.report.page.inputs import PageFacts
from arenascope.report.page.model import build
from arenascope.report.page.tables import tunables
from arenascope.schema import schema
from arenascope.trim_commands import trim_command
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.snapshot import TakenDump
from arenascope.wire.summary import parse
from arenascope.wire.summary.heaps import Releasable

SCHEMA = schema("summary")
OTHER_MALLOCS = {
    "jemalloc": "jemalloc",
    "tcmalloc": "tcmalloc_minimal",
    "asan": "asan",
}  # and how the library is called


def facts_of(arenadump: harness.Arenadump, pid: int | str, folder: Path, *options: str) -> PageFacts:
    path = folder / "dump"
    arenadump.check("dump", *options, "-o", path, pid)
    return PageFacts(Dump(path))


def found(facts: PageFacts) -> dict[str, Finding]:
    return {finding.rule: finding for finding in judge(facts).findings}


def row(*names: str) -> Any:
    return lambda facts: sum(facts.summary.ledger[name] for name in names)


# Cause, the rule that must see it, and what that must hold.
CAUSES = {
    "free-pages": ("free pages kept", lambda facts: facts.summary.forecast["malloc_trim"]),
    "withheld": ("withheld tops", row("withheld")),
    "pins": ("stranded by pins", row("stranded")),
    "tcache": ("cached", row("tcache", "fastbin")),
    "fastbin": ("cached", row("tcache", "fastbin")),
    "mmapped": ("large blocks", row("mmapped_in_use")),
    "not-malloc": ("anonymous memory", row("other_anon")),
    "returned": ("gone already", lambda facts: facts.summary.absent["returned"]),
    "in-use": ("in use", row("in_use", "mmapped_in_use")),
}


def test_the_pages_words_are_those_of_the_docs() -> None:
    page = ROOT / "docs/glossary.md"
    docs = " ".join(page.read_text(encoding="utf-8").replace("`", "").split())
    assert [word for word, meaning in GLOSSARY.items() if f"- **{word}**: {meaning}" not in docs] == []


@pytest.mark.parametrize("cause", CAUSES)
def test_a_process_that_shows_the_cause(cause: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process(cause) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    rule, held = CAUSES[cause]
    verdict = judge(facts)
    assert found(facts)[rule].bytes == held(facts) > 10 << 20
    first = verdict.findings[0]
    if cause == "mmapped":
        assert first.rule == "in use"  # of which large blocks are a part
    elif cause != "returned":  # these bytes are not in Rss
        assert first.rule == rule
    assert not any(finding.estimate for finding in verdict.findings)
    assert not verdict.caveats


@pytest.mark.parametrize(
    ("cause", "rule", "forecast"),
    [("free-pages", "free pages kept", "malloc_trim"), ("withheld", "withheld tops", "deep_trim")],
)
def test_the_command_does_what_was_forecast(
    cause: str, rule: str, forecast: str, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve())}
    with process(cause) as pid:
        before = harness.smaps(pid, "Rss")
        facts = facts_of(arenadump, pid, tmp_path)
        command = found(facts)[rule].command
        assert command
        subprocess.run(command, shell=True, check=True, capture_output=True, env=environment)
        came_back = before - harness.smaps(pid, "Rss")
    # The agent makes some pages resident: its own, and libc's.
    wanted = facts.summary.forecast[forecast]
    assert wanted is not None
    assert wanted - (2 << 20) <= came_back <= wanted


def test_no_more_is_claimed_than_was_searched(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A table of which nearly nothing is used is one large block in use: nobody has read how much of it is used."""
    with process("mmapped") as pid:
        said = found(facts_of(arenadump, pid, tmp_path))
    assert "How much of these blocks the program uses is not known." in said["large blocks"].evidence
    assert "How much of it the program still uses is not known." in said["in use"].evidence
    assert not [each.evidence for each in said.values() if "waste" in each.evidence or "has to free" in each.evidence]


def test_what_raised_the_threshold_is_told(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("withheld") as pid:
        raised = found(facts_of(arenadump, pid, tmp_path))["withheld tops"].evidence
    assert "32.0 MiB here: glibc raised it from 128.0 KiB" in raised
    with process("withheld", GLIBC_TUNABLES="glibc.malloc.trim_threshold=33554432") as pid:
        set_by_hand = found(facts_of(arenadump, pid, tmp_path))["withheld tops"].evidence
    assert "32.0 MiB here." in set_by_hand


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("free-pages", r"These free pages lie below the end of a heap, in 1 arena\. free\(\) gives back only the end"),
        (
            "main-top",
            r"It is the end of the main arena's heap\. free\(\) gives a top back only .* 32\.0 MiB here: glibc",
        ),
        (
            "top-and-below",
            r"18\.\d MiB lies below the end of a heap, in 1 arena: .* 6\.\d MiB is the end of the main arena's heap\.",
        ),
    ],
)
def test_why_free_did_not_give_it_back(cause: str, why: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process(cause) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    finding, pages = found(facts)["free pages kept"], facts.summary.releasable
    assert (pages.end or 0) + (pages.below or 0) == finding.bytes == facts.row("releasable")
    assert re.match(why, finding.evidence), finding.evidence


@pytest.mark.parametrize("cause", ["free-pages", "main-top", "top-and-below", "idle-arenas", "mmapped"])
def test_the_numbers_beside_the_rows_are_the_dumps(cause: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Counted once more, from the dump's own records."""
    with process(cause) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    dump, summary = facts.dump, facts.summary
    ends = below = 0
    arenas = set()
    for index in np.flatnonzero(dump.heaps["arena"] != fmt.NO_INDEX):
        pages = dump.heap_pages(int(index))
        free = pages["state"] == fmt.PageState.RELEASABLE
        top = int((free & (pages["top"] != 0)).sum())
        ends, below = ends + top, below + int(free.sum()) - top
        if int(free.sum()) > top:
            arenas.add(int(dump.heaps[index]["arena"]))
    page = summary.target.page_size
    assert summary.releasable == Releasable(ends * page, below * page, len(arenas))
    own = dump.heaps[dump.heaps["kind"] == fmt.HeapKind.MMAPPED]
    assert summary.largest_mmapped == int((own["end"] - own["start"]).max(initial=0))
    sizes = [(int(s["chunk_size"]), int(s["in_use"])) for s in dump.sizes if s["in_use"]]
    largest = sorted(((each * many, -each) for each, many in sizes), reverse=True)[:10]
    assert [(s.bytes, -s.chunk_size) for s in summary.largest_sizes] == largest
    assert all(s.bytes == s.chunk_size * s.count for s in summary.largest_sizes)


def test_an_arena_of_two_heaps_is_one_arena(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["heaps"], made["pages"] = np.repeat(made["heaps"], 2), np.repeat(made["pages"], 2)
    made["heaps"]["chunk_count"] = 0
    made["heaps"][1]["first_page"] = 2
    for field in ("start", "end", "protected_end"):
        made["heaps"][1][field] += 1 << 26
    made["arenas"][0]["heap_count"] = 2
    made["pages"]["state"], made["pages"]["top"] = fmt.PageState.RELEASABLE, 0
    made["pages"][3]["top"] = 1
    made["arenas"][0]["ledger"]["releasable"] = 4 * synthetic.PAGE
    summary = PageFacts(Dump(synthetic.write(tmp_path / "dump", made))).summary
    assert summary.releasable == Releasable(synthetic.PAGE, 3 * synthetic.PAGE, 1)


def test_pins_are_named_by_size(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("pins") as pid:
        why = found(facts_of(arenadump, pid, tmp_path))["stranded by pins"].evidence
    assert re.search(r"has an equal part of the free bytes there: those of 96 bytes have [\d.]+ MiB\.", why)
    assert "no three" not in why


ALIGNED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *kept[20000];
int main(void)
{
    for (int i = 0; i < 20000; i++)
        memset(kept[i] = aligned_alloc(4096, 128), 1, 128);
    puts("ready");
    fflush(stdout);
    return getchar() == EOF ? 0 : kept[1] != NULL;
}
"""


def test_pages_that_two_chunks_keep_have_their_evidence(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Each chunk begins with a page and ends on it, and 16 bytes of the next one's header lie there, too."""
    with started([str(programs.build(ALIGNED, "-O1"))], "ready") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    finding = found(facts)["stranded by pins"]
    assert finding.bytes
    alone = sum(pin.stranded or 0 for pin in facts.summary.pins if pin.chunk_size == 144)
    sizes = {each.chunk_size: each.stranded or 0 for each in facts.summary.stranded_pages.shared}  # type: ignore[union-attr]
    assert sizes[144] > 0.95 * finding.bytes
    assert f"those of 144 bytes have {size(sizes[144] + alone)}." in finding.evidence


def test_arenas_without_a_thread_are_named(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("idle-arenas") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    finding = found(facts)["too many arenas"]
    arenas = [arena for arena in facts.summary.arenas if not arena.main]
    assert finding.sentence.startswith("8 of 9 arenas have no thread any more;")
    assert finding.evidence.count("(no thread: ") == 3
    rows = ("tcache", "fastbin", "stranded", "releasable", "withheld")
    assert finding.bytes == sum(arena.ledger[name] or 0 for arena in arenas for name in rows)
    assert finding.rank == "part"  # and so never the headline: "free pages kept" has the same bytes
    assert judge(facts).findings[0].rule == "free pages kept"


def test_nearly_empty_arenas_are_named_with_their_threads(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The threads live, and hold next to nothing of what they once asked for."""
    with process("withheld") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
        threads = {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()}
    finding = found(facts)["too many arenas"]
    assert finding.sentence.startswith("8 of 9 arenas are nearly empty;")
    assert sum(f" {thread}: " in finding.evidence for thread in threads) == 3
    assert [arena.idle for arena in facts.summary.arenas] == [None, *["nearly_empty"] * 8]


def test_every_malloc_has_its_tunables(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["mallocs"] = np.repeat(made["mallocs"], 2)
    made["mallocs"]["top_pad"] = 4096, 8192
    made["mallocs"][1]["tcache_count"] = fmt.UNKNOWN
    to_json = tunables(PageFacts(Dump(synthetic.write(tmp_path / "dump", made))))
    cells = {line.name: line.cells for line in to_json.lines}
    assert len(to_json.titles) == 2
    assert cells["top_pad"] == ["4.0 KiB", "8.0 KiB"]
    assert cells["tcache_count"][1] == "\N{EN DASH}"


def test_what_was_read_of_a_running_process_is_an_estimate(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("free-pages") as pid:
        finding = found(facts_of(arenadump, pid, tmp_path, "--mode=live"))["free pages kept"]
    assert finding.estimate == "the process ran on while it was read"


@pytest.mark.parametrize("name", OTHER_MALLOCS)
def test_another_allocator(name: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The memory of jemalloc and tcmalloc is found by their structures, that of ASan is not."""
    library = ctypes.util.find_library(OTHER_MALLOCS[name])
    if not library:
        pytest.skip(f"lib{OTHER_MALLOCS[name]} is not installed")
    with process("in-use", LD_PRELOAD=library) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    first = judge(facts).findings[0]
    assert first.rule == "another allocator"
    assert name in first.sentence
    assert first.rows == (("other_anon",) if name == "asan" else ("other_malloc",))
    assert (first.bytes,) == tuple(facts.summary.ledger[row] for row in first.rows)
    assert first.bytes is not None
    assert first.bytes > 60 << 20
    assert "malloc_trim(0)" not in "".join(finding.command or "" for finding in judge(facts).findings)
    page = html.unescape(render(build([TakenDump(facts.dump, from_dump=True)])))
    assert ("another malloc's, own mmap" in page) == (name == "asan")
    assert "not malloc's: own mmap" not in page
    assert "What is not glibc's" in page


def test_another_allocator_that_is_idle(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """As redis-server's jemalloc is, where libc has been preloaded: nobody is sent to its statistics."""
    library = ctypes.util.find_library("jemalloc")
    if not library:
        pytest.skip("libjemalloc is not installed")
    with process("in-use", LD_PRELOAD=f"libc.so.6:{library}") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    assert facts.summary.allocator.is_glibc
    assert [each.runtime for each in facts.summary.runtimes] == ["jemalloc"]
    steps = [step for finding in judge(facts).findings for step in finding.next]
    assert steps
    assert not [step for step in steps if "jemalloc" in step.says or "MALLOC_CONF" in step.command]


def test_a_core_that_lost_residency(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with process("tcache") as pid:
        subprocess.run(["gcore", "-o", str(tmp_path / "core"), str(pid)], check=True, capture_output=True)
    facts = facts_of(arenadump, str(tmp_path / f"core.{pid}"), tmp_path)
    verdict = judge(facts)
    assert verdict.lead == "It is unknown how much of this process was resident."
    assert [finding.rule for finding in verdict.findings] == ["residency unknown"]
    assert trim_command(facts.summary.target) is None
    held = facts.summary.chunks
    assert size((held.in_use.bytes or 0) + (held.mmapped.bytes or 0)) in verdict.findings[0].sentence


def test_pages_of_ruby(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("ruby"):
        pytest.skip("ruby is not installed")
    with started(
        ["ruby", "-e", "a = Array.new(200_000) { Object.new }; puts :ready; $stdout.flush; sleep"], "ready"
    ) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    finding = found(facts)["Ruby's pages"]
    assert finding.bytes == facts.row("ruby_pages") > 5 << 20  # type: ignore[operator]
    ruby = facts.summary.ruby
    assert ruby
    assert f"{100 * ruby.free_slots / ruby.slots:.1f} %" in finding.sentence


def test_arenas_of_python(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = "kept = {i: str(i) for i in range(200_000)}; print('ready', flush=True); input()"
    with started([sys.executable, "-c", program], "ready") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    finding = found(facts)["Python's arenas"]
    (python,) = facts.summary.runtimes
    assert finding.bytes == facts.row("python_arenas") > 10 << 20  # type: ignore[operator]
    assert size(python.in_use) in finding.evidence
    assert f"{python.regions} arenas" in finding.evidence
    assert judge(facts).findings[0] == finding, "it is most of the process, and the first to be said"


def swapped(made: dict[str, np.ndarray[Any, Any]]) -> None:
    made["meta"][0]["rss"] = 40 << 20
    made["totals"][0]["ledger"]["in_use"] = 10 << 20
    made["totals"][0]["ledger"]["swapped_in_use"] = 30 << 20


def test_swapped_memory(tmp_path: Path) -> None:
    # No swap can be counted on here: a dump that says so.
    made = synthetic.sections()
    swapped(made)
    facts = PageFacts(Dump(synthetic.write(tmp_path / "dump", made)))
    assert found(facts)["swapped"].bytes == 30 << 20


def test_anonymous_shared_memory_has_a_name_for_people(arenadump: harness.Arenadump) -> None:
    with mapped() as (pid, kinds):
        facts = findings.Facts(parse(arenadump.check("summary", "--json", pid)))
    assert ("anonymous shared memory", kinds["shared"][1]) in facts.not_mallocs
    (finding,) = [finding for finding in judge(facts).findings if finding.rule == "anonymous memory"]
    evidence = finding.evidence
    assert finding.bytes == facts.row("other_anon")
    assert "/dev/zero" not in evidence
    assert f"The largest anonymous mapping has 9.0 MiB, at {kinds['plain'][0]:#x}." in evidence


def test_two_dumps_in_a_sentence(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("free-pages") as one, process("returned") as other:
        facts = []
        for name, pid in (("one", one), ("other", other)):
            (tmp_path / name).mkdir()
            facts.append(facts_of(arenadump, pid, tmp_path / name))
    change = changes(compare(facts[0].digest, facts[1].digest))
    assert change.lead.endswith("MiB less.")
    assert any(words.startswith("releasable fell from 62.") for words in change.rows)
    assert str(one) in change.notes[0]
    assert change.time
    assert "min" not in change.time.partition("snapshots")[2], "a rate between two processes"


# --- One verdict for every surface ------------------------------------------------------------------------------------


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("cause", ["pins", "withheld", "not-malloc"])
def test_page_terminal_and_json_have_one_verdict(cause: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process(cause) as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    made = judge(facts).findings
    assert made
    command = [sys.executable, "-m", "arenascope", "summary", str(tmp_path / "dump")]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve()), "COLUMNS": "80"}

    def run(*options: str) -> str:
        done = subprocess.run([*command, *options], check=True, capture_output=True, text=True, env=environment)
        return done.stdout

    printed = json.loads(run("--json"))
    jsonschema.validate(printed, SCHEMA)
    assert printed["findings"] == to_json(facts)
    assert [(each["rule"], each["bytes"], each["command"]) for each in printed["findings"]] == [
        (finding.rule, finding.bytes, finding.command) for finding in made
    ]
    theirs = arenadump.summary(tmp_path / "dump")
    assert [each["sentence"] for each in theirs.pop("findings")] == [finding.sentence for finding in made]
    assert {key: value for key, value in printed.items() if key != "findings"} == theirs
    shown = run()
    first_screen = unwrapped(shown.partition("What holds it")[0])
    of_arenadump = unwrapped(arenadump.check("summary", tmp_path / "dump").partition("What holds it")[0])
    assert judge(facts).lead in of_arenadump
    assert re.search(" ".join(f"{n}. {re.escape(each.sentence)}" for n, each in enumerate(made, 1)), of_arenadump)
    page = unwrapped(html.unescape(re.sub("<[^>]*>", "", render(build([TakenDump(facts.dump, from_dump=True)])))))
    for finding in made:
        steps = [words for step in finding.next for words in step]
        for words in (finding.sentence, finding.evidence, finding.command or "", *steps):
            assert unwrapped(words) in first_screen
            assert unwrapped(words) in page.replace("\N{NO-BREAK SPACE}", " ")


def commands_of(arenadump: harness.Arenadump, target: int | Path) -> list[list[str]]:
    """The commands that arenadump's own table names, but for those of the forecast below it."""
    shown = arenadump.check("summary", target).partition("What holds it")[0]
    return [line.split() for line in re.findall(r"^ +arenadump (.*)$", shown, re.MULTILINE)]


@pytest.mark.parametrize(("cause", "options"), [("free-pages", []), ("withheld", ["--deep"])])
def test_arenadump_names_its_own_trim(
    cause: str, options: list[str], arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    with process(cause) as pid:
        (command,) = [each for each in commands_of(arenadump, pid) if each[0] == "trim"]
        assert command == ["trim", str(pid), *options]
        arenadump.check("dump", "-o", tmp_path / "dump", pid)
        before = harness.smaps(pid, "Rss")
        arenadump.check(*command)
        assert before - harness.smaps(pid, "Rss") > 10 << 20
    assert commands_of(arenadump, tmp_path / "dump") == [], "of a dump: nobody is there to ask"


def test_arenadump_says_how_a_suspicion_is_tested(arenadump: harness.Arenadump) -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        owners, leaks, *_ = commands_of(arenadump, pid)
        assert (owners, leaks) == (["owners", str(pid)], ["leaks", str(pid)])
        assert arenadump.check(*owners)
        assert "94.6 MiB" in arenadump.check(*leaks)


def test_the_json_alone_is_enough(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Nothing is read out of the dump: the verdict is the same without."""
    with process("idle-arenas") as pid:
        dumped = facts_of(arenadump, pid, tmp_path)
    alone = parse(arenadump.check("summary", "--json", tmp_path / "dump"))
    assert judge(findings.Facts(alone)) == judge(dumped)


@pytest.mark.parametrize("width", [80, 120])
def test_the_verdict_fits_the_terminal(width: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("withheld") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    out = Console(width=width, file=io.StringIO(), markup=False, emoji=False)
    out.print(render_summary(facts.summary))
    assert isinstance(out.file, io.StringIO)
    lines = out.file.getvalue().partition("What holds it")[0].splitlines()
    assert max(map(len, lines)) <= width
    finding = found(facts)["withheld tops"]
    assert any(line.startswith("1. ") and finding.sentence.startswith(line[3:]) for line in map(str.rstrip, lines))
    assert f"   {finding.command}" in [line.rstrip() for line in lines], "to be copied in one piece"


def test_a_command_is_not_cut(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("withheld") as pid:
        facts = facts_of(arenadump, pid, tmp_path)
    out = Console(width=20, file=io.StringIO(), markup=False, emoji=False)
    out.print(render_summary(facts.summary), crop=False)
    assert isinstance(out.file, io.StringIO)
    assert str(found(facts)["withheld tops"].command) in out.file.getvalue()


def test_shares_are_of_rss(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    swapped(made)
    made["totals"][0]["ledger"]["in_use"] = 30 << 20
    findings_ = arenadump.summary(synthetic.write(tmp_path / "dump", made))["findings"]
    shares = {each["rule"]: each["share"] for each in findings_}
    assert shares["in use"] == 0.75
    assert shares["swapped"] is None, "it is no part of Rss"
