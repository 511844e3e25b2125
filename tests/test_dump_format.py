# SPDX-License-Identifier: MIT
"""format.py against the C header: compiled here, so that the two can never drift apart."""

from __future__ import annotations

import enum
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tools import programs

from arenascope import errors
from arenascope import format as fmt

pytestmark = pytest.mark.check

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("dump/format.h", "model/enums.h", "model/records.h")
HEADERS = ("dump/format.h", "model/records.h", "base/error.h")

RECORDS = {
    "struct as_dump_header": fmt.HEADER,
    "struct as_dump_section": fmt.SECTION,
    "struct as_meta_record": fmt.META,
    "struct as_malloc_record": fmt.MALLOC,
    "struct as_ledger": fmt.LEDGER,
    "struct as_tally": fmt.TALLY,
    "struct as_tallies": fmt.TALLIES,
    "struct as_totals_record": fmt.TOTALS,
    "struct as_arena_record": fmt.ARENA,
    "struct as_heap_record": fmt.HEAP,
    "struct as_page_record": fmt.PAGE,
    "struct as_size_record": fmt.SIZE,
    "struct as_thread_record": fmt.THREAD,
    "struct as_mapping_record": fmt.MAPPING,
    "struct as_ruby_page_record": fmt.RUBY_PAGE,
    "struct as_runtime_record": fmt.RUNTIME,
    "struct as_region_record": fmt.REGION,
    "struct as_size_class_record": fmt.SIZE_CLASS,
    "struct as_type_record": fmt.TYPE,
    "struct as_class_record": fmt.CLASS,
    "struct as_runtime_page_record": fmt.RUNTIME_PAGE,
    "struct as_space_record": fmt.SPACE,
    "struct as_fill_record": fmt.FILL,
    "struct as_sharer_record": fmt.SHARER,
    "struct as_graph_record": fmt.GRAPH,
    "struct as_kept": fmt.KEPT,
    "struct as_graph_type_record": fmt.GRAPH_TYPE,
    "struct as_graph_owner_record": fmt.GRAPH_OWNER,
    "struct as_graph_branch_record": fmt.GRAPH_BRANCH,
    "struct as_graph_leak_record": fmt.GRAPH_LEAK,
    "struct as_graph_holder_record": fmt.GRAPH_HOLDER,
    "struct as_graph_place_record": fmt.GRAPH_PLACE,
    "struct as_graph_leading_record": fmt.GRAPH_LEADING,
    "struct as_profile_record": fmt.PROFILE,
    "struct as_profile_module_record": fmt.PROFILE_MODULE,
    "struct as_profile_frame_record": fmt.PROFILE_FRAME,
    "struct as_profile_stack_record": fmt.PROFILE_STACK,
    "struct as_profile_site_record": fmt.PROFILE_SITE,
    "struct as_profile_kept_record": fmt.PROFILE_KEPT,
    "struct as_profile_thread_record": fmt.PROFILE_THREAD,
    "struct as_profile_share_record": fmt.PROFILE_SHARE,
    "struct as_profile_place_record": fmt.PROFILE_PLACE,
    "struct as_profile_line_record": fmt.PROFILE_LINE,
    "struct as_warning_record": fmt.WARNING,
}
ENUMS: dict[str, type[enum.IntEnum | enum.IntFlag]] = {
    "AS_TARGET_": fmt.TargetKind,
    "AS_ARCH_": fmt.Arch,
    "AS_MAP_": fmt.MappingKind,
    "AS_PROT_": fmt.Prot,
    "AS_HOOKS_": fmt.Hooks,
    "AS_ROLE_": fmt.MappingRole,
    "AS_RES_": fmt.Residency,
    "AS_MALLOC_": fmt.MallocKind,
    "AS_LAYOUT_": fmt.LayoutSource,
    "AS_MODE_": fmt.Mode,
    "AS_META_": fmt.MetaFlag,
    "AS_RUBY_": fmt.RubyState,
    "AS_RUNTIME_": fmt.RuntimeKind,
    "AS_REGIONS_": fmt.RuntimeState,
    "AS_OBJECTS_": fmt.ObjectsState,
    "AS_CLASS_": fmt.ClassKind,
    "AS_ARENA_": fmt.ArenaFlag,
    "AS_HEAP_": fmt.HeapKind,
    "AS_PAGE_": fmt.PageState,
    "AS_CHUNK_": fmt.ChunkClass,
    "AS_WARN_": fmt.WarningCode,
    "AS_": errors.Code,
}
CONSTANTS = {
    "AS_DUMP_MAJOR": fmt.MAJOR,
    "AS_DUMP_MINOR": fmt.MINOR,
    "AS_DUMP_DATA_START": fmt.DATA_START,
    "AS_UNKNOWN": fmt.UNKNOWN,
    "AS_UNIT": fmt.UNIT,
    "AS_FILL_CHUNKS": fmt.FILL_CHUNKS,
    "AS_FILL_EIGHTHS": fmt.FILL_EIGHTHS,
    "AS_RUNTIME_UNIT": fmt.RUNTIME_UNIT,
    "AS_GRAPH_EXACT": fmt.GRAPH_EXACT,
    "AS_GRAPH_OTHERS": fmt.GRAPH_OTHERS,
    "AS_PROFILE_ON": fmt.PROFILE_ON,
    "AS_PROFILE_EXACT": fmt.PROFILE_EXACT,
    "AS_PROFILE_SOME_RELEASE": fmt.PROFILE_SOME_RELEASE,
    "AS_PROFILE_CUT": fmt.PROFILE_CUT,
    "AS_PROFILE_MOST_THREADS": fmt.PROFILE_MOST_THREADS,
    "AS_PROFILE_THREAD_HERE": fmt.PROFILE_THREAD_HERE,
    "AS_GRAPH_DEPTH": fmt.GRAPH_DEPTH,
    "AS_RUNTIME_PAGE_MEAN": fmt.RUNTIME_PAGE_MEAN,
    "AS_CHUNK_SIZE_BITS": fmt.CHUNK_SIZE_BITS,
    "AS_CHUNK_MORE": fmt.CHUNK_MORE,
    "AS_CHUNK_CLASS_SHIFT": fmt.CHUNK_CLASS_SHIFT,
}


def _expected() -> dict[str, int]:
    facts = dict(CONSTANTS)
    for struct, dtype in RECORDS.items():
        facts[f"sizeof({struct})"] = dtype.itemsize
        assert dtype.fields is not None
        for name, field in dtype.fields.items():
            facts[f"offsetof({struct}, {name})"] = field[1]
            facts[f"sizeof((({struct} *)0)->{name})"] = field[0].itemsize
    for prefix, members in ENUMS.items():
        for name, member in members.__members__.items():
            facts[prefix + name] = int(member)
    return facts


@pytest.fixture(scope="module")
def c_facts() -> dict[str, int]:
    """Every fact that _expected names, as the C compiler sees it."""
    lines = [f'#include "{header}"' for header in HEADERS]
    lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void)", "{"]
    lines += [f'    printf("%s\\t%llu\\n", "{what}", (unsigned long long)({what}));' for what in _expected()]
    lines += ['    printf("magic\\t%d\\n", (int)sizeof AS_DUMP_MAGIC - 1);', "}"]
    program = programs.build("\n".join(lines), "-std=gnu11", f"-I{ROOT}/inspector")
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {what: int(value) for what, value in (line.split("\t") for line in output.splitlines())}


def test_records_and_enumerators_are_those_of_the_c_header(c_facts: dict[str, int]) -> None:
    assert c_facts.pop("magic") == len(fmt.MAGIC)
    assert c_facts == _expected()


@pytest.mark.parametrize("dtype", RECORDS.values(), ids=RECORDS)
def test_records_have_no_padding(dtype: np.dtype[np.void]) -> None:
    """A hole would be bytes whose meaning nobody specified."""
    assert dtype.names is not None
    assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)


def test_every_enumerator_of_the_records_is_mirrored() -> None:
    """A new enumerator in C must not go unnoticed here."""
    source = "".join((ROOT / "inspector" / name).read_text() for name in SOURCES)
    mirrored = set(CONSTANTS)
    for prefix, members in ENUMS.items():
        mirrored |= {prefix + name for name in members.__members__}
    bodies = [part.split("}", 1)[0] for part in source.replace("enum as_", "enum ").split("enum ")[1:] if "{" in part]
    found = set()
    for body in bodies:
        for line in body.split("{", 1)[1].splitlines():
            for item in line.split("//")[0].split(","):
                name = item.split("=")[0].strip()
                if name.startswith("AS_"):
                    found.add(name)
    assert found
    assert found <= mirrored, f"not in format.py: {sorted(found - mirrored)}"
