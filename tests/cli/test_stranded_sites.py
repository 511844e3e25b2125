# SPDX-License-Identifier: MIT
"""Who allocated the chunks that strand memory: of a program that knows, from the dump of a profile of each chunk."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile_growth import arenascope, serve
from tools import harness, programs
from tools.profiling import profiling

from arenascope.api import open_dump

SMALL, LARGE, PAIRS = 64, 1936, 40_000  # with headers two pairs are 4,064 bytes
EACH, OTHERS = 3, 1  # of four small blocks

# Three of four small blocks that stay are remember's, one is note's; the large blocks between them go.
SOURCE = f"""
#include <stdio.h>
#include <stdlib.h>
static char *kept[{PAIRS}], *gone[{PAIRS}];
static __attribute__((noinline)) char *use(char *block) {{ *(volatile char *)block = 1; return block; }}
static __attribute__((noinline)) void remember(int i) {{ kept[i] = use(malloc({SMALL})); }}
static __attribute__((noinline)) void note(int i) {{ kept[i] = use(malloc({SMALL})); }}
static __attribute__((noinline)) void scratch(int i)
{{
    gone[i] = malloc({LARGE});
    for (int at = 0; at < {LARGE}; at += 1000)
        use(gone[i] + at);
}}
int main(void)
{{
    char line[16];
    for (int turn = 0; turn < 2; turn++) {{
        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 0;
        for (int i = 0; turn == 0 && i < {PAIRS}; i++) {{
            if (i % 4 == 3)
                note(i);
            else
                remember(i);
            scratch(i);
        }}
        for (int i = 0; turn == 0 && i < {PAIRS}; i++)
            free(gone[i]);
    }}
    return 0;
}}
"""


@pytest.fixture(scope="module", params=["--exact", "--rates=pages=8"])
def dump(request: pytest.FixtureRequest, arenadump: harness.Arenadump, tmp_path_factory: Any) -> tuple[str, Path]:
    file = tmp_path_factory.mktemp("stranded") / "dump"
    command = [str(programs.build(SOURCE, "-O1", "-g"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        with profiling(arenadump, process.pid, file, request.param):
            serve(process)
        process.kill()
    return request.param, file


def stranded_of(findings: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [each for each in findings if each["rule"] == "stranded by pins"]
    return found


def test_the_evidence_names_who_allocated_what_strands(arenadump: harness.Arenadump, dump: tuple[str, Path]) -> None:
    """With a profile of some pages alone it is an estimate, and not said."""
    how, file = dump
    found = stranded_of(json.loads(arenascope(arenadump, "summary", "--json", file).stdout)["findings"])
    assert found["bytes"] == pytest.approx(PAIRS * (LARGE + 16), rel=0.02)
    said = re.search(r"By who allocated them: (.*?) → remember: ([\d.]+) MiB\.", found["evidence"])
    if how != "--exact":
        assert "By who allocated them" not in found["evidence"]
        return
    assert said, found["evidence"]
    assert said[1] == "main"
    assert float(said[2]) * (1 << 20) == pytest.approx(found["bytes"] * EACH / (EACH + OTHERS), rel=0.005)
    assert "→ note" not in found["evidence"], "remember has half of it"
    terminal = " ".join(arenascope(arenadump, "summary", file).stdout.split())
    assert "By who allocated them: main → remember: " in terminal
    with open_dump(file) as snapshot:
        (one,) = [each for each in snapshot.verdict.findings if each.rule == "stranded by pins"]
        assert one.evidence
        assert "By who allocated them: main → remember: " in one.evidence
    page = file.parent / "page.html"
    assert arenascope(arenadump, "report", file, "-o", page).returncode == 0
    assert "By who allocated them" in page.read_text()
