# SPDX-License-Identifier: MIT
"""Numbers with parts over many processes, in sentences and in JSON: no part is larger than its whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tools import harness, mallocs, parts, programs
from tools import synthetic_dump as synthetic
from tools.running import PYTHON, RUBY, process, started

from arenascope.findings import Facts
from arenascope.findings.parts import PartBytes, WholeBytes
from arenascope.wire.summary import parse

Process = Callable[[], AbstractContextManager[int]]

# Touches one page of each chunk: what it holds is ten times what is resident.
UNTOUCHED = """
#include <stdio.h>
#include <stdlib.h>
void *kept[2000];
int main(void)
{
    for (int i = 0; i < 2000; i++)
        *(char *)(kept[i] = malloc(i < 1900 ? 40000 : 400000)) = 1;
    puts("ready");
    fflush(stdout);
    getchar();
    return kept[0] == NULL;
}
"""
# The child shares the parent's pages. It ends with its input.
FORKED = """
import os, sys, time
kept = [[i] * 200 for i in range(20_000)]
if os.fork() == 0:
    os.close(1)
    os.close(2)
    sys.stdin.read()
    os._exit(0)
kept = kept[::7]
print("ready", flush=True)
time.sleep(1000)
"""
NODE = (
    "const kept = []; for (let i = 0; i < 1e5; i++) kept.push({x: i}); console.log('ready'); setInterval(() => 0, 1e6)"
)
PHP = '$kept = []; for ($i = 0; $i < 100000; $i++) $kept[] = [$i]; echo "ready\\n"; fgets(STDIN);'


def of(*command: str) -> Process:
    return lambda: started([*command], "ready")


def untouched() -> AbstractContextManager[int]:
    return started([str(programs.build(UNTOUCHED))], "ready")


def owning() -> AbstractContextManager[int]:
    return started([str(programs.build("leak"))], "ready")


@contextmanager
def with_jemalloc() -> Iterator[int]:
    with mallocs.running([programs.build("jemalloc")], LD_PRELOAD=mallocs.library("jemalloc")) as program:
        mallocs.answer(program)
        yield program.pid


CAUSES = ("free-pages", "withheld", "pins", "tcache", "mmapped", "not-malloc", "returned", "in-use", "idle-arenas")
PROCESSES: dict[str, Process] = {
    **{cause: lambda cause=cause: process(cause) for cause in CAUSES},  # type: ignore[misc]
    "lost": owning,
    "untouched": untouched,
    "python": of(sys.executable, "-c", PYTHON),
    "forked": of(sys.executable, "-c", FORKED),
    "ruby": of("ruby", "-e", RUBY),
    "node": of("node", "-e", NODE),
    "php": of("php", "-r", PHP),
    "jemalloc": with_jemalloc,
}


@pytest.mark.parametrize("options", [[], ["--graph"], ["--objects"]], ids=["plain", "graph", "objects"])
@pytest.mark.parametrize("name", PROCESSES)
def test_summaries(name: str, options: list[str], arenadump: harness.Arenadump) -> None:
    with PROCESSES[name]() as pid:
        parts.check_verdict(arenadump.check("summary", "--json", *options, pid))


GRAPHS = {"owners": parts.parts_of_owners, "types": parts.parts_of_types, "leaks": parts.parts_of_leaks}


@pytest.mark.parametrize("name", ["lost", "untouched", "mmapped", "python", "forked", "ruby"])
def test_answers_about_the_graph(name: str, arenadump: harness.Arenadump) -> None:
    with PROCESSES[name]() as pid:
        for command, parts_of in GRAPHS.items():
            parts.refuse(parts_of(json.loads(arenadump.check(command, "--json", pid))))


MIB = 1 << 20


@pytest.mark.check
@pytest.mark.parametrize(
    "named",
    [
        [PartBytes(2 * MIB, None)],
        [PartBytes(2 * MIB, None), PartBytes(3 * MIB, WholeBytes(2 * MIB))],
    ],
    ids=["not-named", "larger-than-its-whole"],
)
def test_what_is_refused(named: list[PartBytes]) -> None:
    with pytest.raises(AssertionError):
        parts.check_words("2.0 MiB holds 3.0 MiB", named)


@pytest.mark.check
@pytest.mark.parametrize(
    "sentence", ["2.0 MiB of it (50.0 %) is in use: 3.0 MiB of 2.9 MiB allocated.", "3.0 MiB of it is in use."]
)
def test_sentences_that_are_refused(sentence: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["rss"] = 4 * MIB
    made["totals"][0]["ledger"]["in_use"] = 2 * MIB
    facts = Facts(parse(arenadump.check("summary", "--json", synthetic.write(tmp_path / "dump", made))))
    finding = facts.summary.findings[0]
    parts.check_sentence(facts, finding)
    with pytest.raises(AssertionError):
        parts.check_sentence(facts, finding._replace(sentence=sentence))
