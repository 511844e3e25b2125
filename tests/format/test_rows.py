# SPDX-License-Identifier: MIT
"""The table of rows, inspector/model/rows.def: every surface has each row once, in the table's order, a new one too."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import harness, programs
from tools import synthetic_dump as synthetic
from tools.paths import ROOT

from arenascope import rows
from arenascope.wire import dump_records as fmt

TABLE = ROOT / "inspector/model/rows.def"
PLANTED = """AS_ROW(planted, RESIDENT, PROCESS, OTHER, NO, "other", "", "a planted row", "for the test's sake",
       "A row that the test planted.")
"""
HELD = 123456789
REBUILT = ("cli", "dump", "model", "ledger", "png", "snapshot")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the table is compiled into, with one more row in it."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "inspector", copy / "inspector")
    shutil.copytree(ROOT / "visualize", copy / "visualize", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    table = copy / "inspector/model/rows.def"
    table.write_text(TABLE.read_text().replace("#undef AS_ROW\n", PLANTED + "#undef AS_ROW\n"))
    made = copy / "visualize/arenascope/wire/dump_records.py"
    subprocess.run([ROOT / "scripts/records", "python", made, "--tables", table.parent], check=True)
    return copy


@pytest.fixture(scope="module")
def planted_arenadump(planted: Path, arenadump: harness.Arenadump) -> Path:
    """The program with the copy's table: what shows rows is compiled anew, the rest is the build's."""
    places = (arenadump.path.resolve().parents[2], ROOT / "build")
    build = next((place for place in places if (place / "build.ninja").exists()), places[-1])
    # The agent's is the same code with other flags.
    others = [path for path in sorted(build.glob("inspector/*/lib*.a")) if path.parent.name != "agent"]
    libraries = [build / "inspector/cli/libarenadump_cli.a", *others, *sorted(build.glob("inspector/lib*.a"))]
    if not all(library.exists() for library in libraries):
        pytest.skip(f"{build} has no libraries to link with: it is no build directory")
    inspector, program = planted / "inspector", planted / "arenadump"
    # A ledger is larger by a row: all that goes through arenas is compiled anew.
    sources = sorted(
        str(path.relative_to(inspector)) for folder in REBUILT for path in (inspector / folder).rglob("*.c")
    )
    archives = list(dict.fromkeys(map(str, libraries)))
    wanted = subprocess.run(
        ["pkg-config", "--libs", "libdw", "libelf", "libpng"], capture_output=True, text=True, check=True
    )
    command = [
        "cc",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        f"-I{inspector}",
        f"-I{inspector}/include",
        f"-I{build}/inspector",
    ]
    command += [str(inspector / source) for source in sources]
    demangles = "#define HAVE_LIBIBERTY" in (build / "inspector/config.h").read_text()
    linked = [*wanted.stdout.split(), *(["-liberty"] if demangles else []), "-lm", "-lpthread"]
    command += ["-Wl,--start-group", *archives, "-Wl,--end-group", *linked]
    subprocess.run([*command, "-o", program], check=True)
    return program


def in_order(found: list[str]) -> bool:
    return found == [name for name in (row.name for row in rows.ALL) if name in set(found)]


# --- The table --------------------------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (PLANTED.replace("RESIDENT", "PRESENT"), "PRESENT is none of"),
        (PLANTED.replace("planted, ", "in_use, "), "of that name"),
        (PLANTED.replace("a planted row", "unknown"), "of that name or title"),
        (PLANTED.replace(", NO,", ", 11,"), "not an entry"),
        (PLANTED.replace(", NO,", ", PERHAPS,"), "PERHAPS is none of"),
        (PLANTED.replace("a planted row", "a title of 17 ch."), "too long"),
        (PLANTED.replace("for the test's sake", "x" * 31), "too long"),
        (PLANTED.replace(', "for the', " for the"), r"line \d+: not an entry"),
        ("ROW(x)\n", "not an entry"),
    ],
)
def test_parser_takes_nothing_but_rows(entry: str, why: str) -> None:
    text = TABLE.read_text()
    assert [row.name for row in rows.parse(text + PLANTED)][-1] == "planted"
    with pytest.raises(rows.TableError, match=why):
        rows.parse(text + entry)


@pytest.mark.check
def test_only_the_table_names_a_row(tmp_path: Path) -> None:
    """One row stands for all: beside the table, its rule, tests and documentation nobody names it."""
    listed = subprocess.run(
        ["git", "grep", "-l", "mmapped_slack"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip(f"not a checkout of git: {listed.stderr.strip()}")
    elsewhere = [name for name in listed.stdout.splitlines() if not re.match(r"docs/|tests/|ruby-ext/test/", name)]
    assert set(elsewhere) <= {"inspector/model/rows.def", "inspector/ledger/ledger.c"}


# --- The surfaces, as they are ----------------------------------------------------------------------------------------


@pytest.mark.check
def test_header_is_the_tables(tmp_path: Path) -> None:
    header = tmp_path / "arenascope.h"
    subprocess.run([ROOT / "scripts/records", "header", header], check=True)
    struct = re.search(r"struct arenascope_summary \{(.*?)\n\};", header.read_text(), re.DOTALL)
    assert struct
    fields = [name for name in re.findall(r"uint64_t (\w+); /\*", struct[1]) if name in rows.BY_NAME]
    assert fields == [row.name for row in rows.ALL]


def test_installed_header_lays_the_summary_out_as_the_source_does(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts/records", "header", tmp_path / "arenascope.h"], check=True)
    names = [*(row.name for row in rows.ALL), "size", "rss", "arenas", "exact", "ruby_page_count", "ruby_free_slots"]
    printed = "".join(f'    printf("%zu\\n", offsetof(struct arenascope_summary, {name}));\n' for name in names)
    text = f'#include "arenascope.h"\n#include <stdio.h>\nint main(void)\n{{\n{printed}}}\n'
    offsets = []
    for folder in (tmp_path, ROOT / "inspector/include"):
        program = programs.build(text, f"-I{folder}", at=tmp_path / "offsets")
        offsets.append(subprocess.run([program], capture_output=True, text=True, check=True).stdout.split())
    assert offsets[0] == offsets[1]


# --- The surfaces, with one row more ----------------------------------------------------------------------------------


def test_planted_row_is_on_every_surface(planted: Path, planted_arenadump: Path, tmp_path: Path) -> None:
    made = synthetic.sections()
    planted_ledger = np.dtype([*((name, "<u8") for name in fmt.LEDGER.names or ()), ("planted", "<u8")])
    for section in ("totals", "arenas"):
        old = made[section]
        kinds = [(name, planted_ledger if name == "ledger" else old.dtype[name]) for name in old.dtype.names or ()]
        made[section] = np.zeros(len(old), np.dtype(kinds))
        made[section].view(np.uint8).reshape(len(old), -1)[:, : old.itemsize] = old.view(np.uint8).reshape(len(old), -1)
    made["totals"][0]["ledger"]["planted"] = HELD
    dump = synthetic.write(tmp_path / "dump", made)
    clean = {**os.environ, "PYTHONPATH": str(planted / "visualize"), "ARENASCOPE_ARENADUMP": str(planted_arenadump)}

    def run(*command: object) -> str:
        words = list(map(str, command))
        return subprocess.run(words, env=clean, capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    for program in ([planted_arenadump], [sys.executable, "-m", "arenascope"]):
        summary: dict[str, Any] = json.loads(run(*program, "summary", "--json", dump))
        assert list(summary["ledger"])[-1] == "planted"
        assert summary["ledger"]["planted"] == HELD
        assert re.search(r"a planted row +117\.7 MiB.*for the test's sake", run(*program, "summary", dump))
    run(sys.executable, "-m", "arenascope", "report", dump, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count('<span class="meaning">for the test') == 1
    dtype = run(sys.executable, "-c", "from arenascope import rows; print(rows.ALL[-1].name)")
    assert dtype.split()[-1] == "planted"
    script = ROOT / "scripts/records"
    run(script, "header", tmp_path / "arenascope.h", "--tables", planted / "inspector/model")
    assert "uint64_t planted; /* for the test's sake */" in (tmp_path / "arenascope.h").read_text()
    ledger = json.loads(run(sys.executable, "-m", "arenascope", "schema", "summary"))["$defs"]["Resident"]
    assert ledger["required"][-1] == "planted"
    assert ledger["properties"]["planted"]["description"]
