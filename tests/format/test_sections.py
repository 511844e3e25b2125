# SPDX-License-Identifier: MIT
"""The tables of sections and records, inspector/model/*.def: a new entry is in C, Python and the documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import synthetic_dump as synthetic
from tools.paths import ROOT

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

pytestmark = pytest.mark.check

MODEL = "inspector/model"
MADE = "visualize/arenascope/wire/dump_records.py"
SECTION = 'AS_MANY(novelties, novelty, "each thing that the test has planted")\n'
RECORD = """AS_RECORD(novelty, 16)
AS_FIELD(novelty, arena, u32, INDEX(arenas), "where it is")
AS_FIELD(novelty, kind, u32, ENUM(novelty_kind), "")
AS_FIELD(novelty, bytes, u64, NUMBER, "how large it is")
AS_END(novelty)
"""
ENUM = """AS_ENUM(novelty_kind, AS_NOVELTY, 1, "what a planted thing is")
AS_VALUE(AS_NOVELTY_OLD, 1, "none")
AS_VALUE(AS_NOVELTY_NEW, 2, "one")
AS_END(novelty_kind)
"""
FIELD = 'AS_FIELD(thread, planted, u64, NUMBER, "what the test has planted of a thread")\n'
BYTES, ARENAS = 123456789, 2
# Writes a dump with two arenas and a thing in the second, and reads it again; or only reads one.
SOURCE = f"""
#include "dump/dump.h"
#include <inttypes.h>
#include <stdio.h>

static int refuse(const struct as_error *err)
{{
    fprintf(stderr, "%s\\n", err->text);
    return 1;
}}

int main(int count, char **words)
{{
    struct as_error err = {{0}};
    struct as_dump_file f;
    if (count > 2) {{
        struct as_dump_writer w;
        struct as_store s = {{.meta = {{.target_kind = AS_TARGET_PROCESS, .page_size = 4096, .mode = AS_MODE_FREEZE}}}};
        as_vec_add(&s.mallocs, NULL);
        for (int i = 0; i < {ARENAS}; i++)
            as_vec_add(&s.arenas, NULL);
        *(struct as_thread_record *)as_vec_add(&s.threads, NULL) = (struct as_thread_record){{.tid = 7, .planted = 9}};
        *(struct as_novelty_record *)as_vec_add(&s.novelties, NULL) =
            (struct as_novelty_record){{.arena = 1, .kind = AS_NOVELTY_NEW, .bytes = {BYTES}}};
        if (!as_dump_begin(&w, words[1], &err) || !as_dump_finish(&w, &s, &err))
            return refuse(&err);
        as_dump_close(&w);
        as_store_free(&s);
    }}
    if (!as_dump_open(&f, words[1], &err))
        return refuse(&err);
    for (uint64_t i = 0; i < f.view.novelty_count; i++)
        printf("%" PRIu32 " %" PRIu64 "\\n", f.view.novelties[i].arena, f.view.novelties[i].bytes);
    for (uint64_t i = 0; i < f.view.thread_count; i++)
        printf("thread %" PRIx64 "\\n", f.view.threads[i].planted);
    as_dump_file_close(&f);
    return 0;
}}
"""


def put_before(path: Path, mark: str, text: str) -> None:
    old = path.read_text()
    assert mark in old
    path.write_text(old.replace(mark, text + mark, 1))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, of a later minor version: with one more section, its record, an enumeration, and a field."""
    copy = tmp_path_factory.mktemp("planted")
    for folder in ("inspector", "scripts", "docs"):
        shutil.copytree(ROOT / folder, copy / folder)
    shutil.copytree(ROOT / "visualize", copy / "visualize", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    tables = copy / MODEL
    put_before(tables / "sections.def", "AS_PLAIN(chunks,", SECTION)
    put_before(tables / "records.def", "AS_RECORD(warning,", RECORD)
    put_before(tables / "records.def", "AS_END(thread)", FIELD)
    put_before(tables / "enums.def", "#undef AS_ENUM", ENUM)
    header = copy / "inspector/dump/format.h"
    header.write_text(re.sub(r"AS_DUMP_MINOR = \d+", f"AS_DUMP_MINOR = {fmt.MINOR + 1}", header.read_text()))
    subprocess.run([copy / "scripts/records", "python", copy / MADE], check=True)
    return copy


@pytest.fixture(scope="module")
def program(planted: Path) -> Path:
    inspector = planted / "inspector"
    text, made = planted / "program.c", planted / "program"
    text.write_text(SOURCE)
    sources = [path for folder in ("base", "dump", "model") for path in sorted((inspector / folder).glob("*.c"))]
    flags = [
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{inspector}",
        f"-I{inspector}/include",
    ]
    subprocess.run(["gcc", *flags, text, *sources, "-o", made], check=True)
    return made


def python(planted: Path, code: str, *words: object) -> subprocess.CompletedProcess[str]:
    """What the copy's package says."""
    environment = {**os.environ, "PYTHONPATH": str(planted / "visualize")}
    command = [sys.executable, "-c", f"import sys; from arenascope.wire.dump import Dump; {code}", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


READ = "d = Dump(sys.argv[1]); print(d.novelties.tolist(), [hex(n) for n in d.threads['planted']])"


def test_a_new_section_is_written_and_read(planted: Path, program: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    written = subprocess.run([program, dump, "write"], capture_output=True, text=True, check=True)
    assert written.stdout == f"1 {BYTES}\nthread 9\n"
    read = python(planted, READ, dump)
    assert read.stdout == f"[(1, 2, {BYTES})] ['0x9']\n", read.stderr
    ours = Dump(dump)  # this one does not know the section, nor the field
    assert len(ours.arenas) == ARENAS
    assert ours.threads["tid"].tolist() == [7]
    assert not hasattr(ours, "novelties")


def test_a_file_of_before_has_none_of_it(planted: Path, program: Path, tmp_path: Path) -> None:
    """And what is missing of a record is unknown."""
    dump = synthetic.write(tmp_path / "dump", synthetic.everything())
    assert subprocess.run([program, dump], capture_output=True, text=True, check=True).stdout == f"thread {'f' * 16}\n"
    read = python(planted, READ, dump)
    assert read.stdout == f"[] ['0x{'f' * 16}']\n", read.stderr


def test_a_file_that_should_have_it_is_damaged(planted: Path, program: Path, tmp_path: Path) -> None:
    dump = synthetic.write(tmp_path / "dump", synthetic.everything(), minor=fmt.MINOR + 1)
    said = subprocess.run([program, dump], capture_output=True, text=True, check=False)
    assert said.returncode
    assert 'it has no section "novelties"' in said.stderr


@pytest.mark.parametrize(("field", "value"), [("arena", 1), ("kind", 0), ("kind", 3)])
def test_the_rules_of_its_fields_are_checked(
    planted: Path, program: Path, tmp_path: Path, field: str, value: int
) -> None:
    made: dict[str, Any] = synthetic.everything()
    novelty = np.array([(0, 1, 5)], [("arena", "<u4"), ("kind", "<u4"), ("bytes", "<u8")])
    dump = synthetic.write(tmp_path / "good", {**made, "novelties": novelty}, minor=fmt.MINOR + 1)
    assert subprocess.run([program, dump], capture_output=True, text=True, check=True).stdout.startswith("0 5\n")
    assert python(planted, READ, dump).stdout.startswith("[(0, 1, 5)]")
    novelty[field] = value
    dump = synthetic.write(tmp_path / "bad", {**made, "novelties": novelty}, minor=fmt.MINOR + 1)
    said = subprocess.run([program, dump], capture_output=True, text=True, check=False)
    assert said.returncode
    assert f'record 0 of its section "novelties" has {field} {value}' in said.stderr


def test_the_documentation_has_it(planted: Path) -> None:
    script = planted / "scripts/records"
    page = subprocess.run([script, "docs"], capture_output=True, text=True, check=True).stdout
    assert page.startswith(f"# The dump file, format {fmt.MAJOR}.{fmt.MINOR + 1}\n")
    assert "<!--" not in page
    assert "| `novelties` | 16 | each thing that the test has planted |" in page
    assert "### novelties\n" in page
    assert "| 0 | u32 | `arena` | index in `arenas`; where it is |" in page
    assert "**novelty_kind**: what a planted thing is" in page


# --- What the tables refuse -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "old", "new", "why"),
    [
        ("records.def", "INDEX(mallocs)", "INDEX(nothing)", "there is no nothing"),
        ("records.def", "ENUM(mode)", "ENUM(moods)", "there is no moods"),
        ("records.def", "AS_FIELD(meta, arch, u32,", "AS_FIELD(meta, arch, u16,", "is not aligned"),
        ("records.def", "AS_RECORD(heap, 64)", "AS_RECORD(heap, 72)", "heap has 64 bytes, and had 72"),
        (
            "records.def",
            "AS_END(heap)",
            'AS_FIELD(heap, more, u64, INDEX(pages), "")\nAS_END(heap)',
            "would be refused",
        ),
        ("records.def", "AS_END(heap)", 'AS_FIELD(heap, more, u32, ENUM(mode), "")\nAS_END(heap)', "would be refused"),
        ("sections.def", "AS_ONE(meta, meta,", "AS_SOME(meta, meta,", "AS_SOME is no entry"),
        ("sections.def", 'AS_ONE(meta, meta, "the dump")', "int meta;", "line 11: not an entry"),
    ],
)
def test_a_table_that_breaks_its_rules_is_refused(tmp_path: Path, table: str, old: str, new: str, why: str) -> None:
    tables = shutil.copytree(ROOT / MODEL, tmp_path / "model")
    text = (tables / table).read_text()
    assert old in text
    (tables / table).write_text(text.replace(old, new, 1))
    command = [str(ROOT / "scripts/records"), "python", str(tmp_path / "made.py"), "--tables", str(tables)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode
    assert re.search(why, done.stderr)
    assert not (tmp_path / "made.py").exists()
