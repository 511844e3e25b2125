# SPDX-License-Identifier: MIT
"""dump_records.py against the C headers: both come from the tables, each in its own way. Compiled here, they agree."""

from __future__ import annotations

import enum
import subprocess

import numpy as np
import pytest
from tools import programs
from tools.paths import ROOT

from arenascope import errors
from arenascope.wire import dump_records as fmt

pytestmark = pytest.mark.check

DTYPES = {name: of for name, of in vars(fmt).items() if isinstance(of, np.dtype) and of.names}
ENUMS = {name: of for name, of in vars(fmt).items() if isinstance(of, type) and issubclass(of, enum.Enum)}
# Prints all that the tables define, as the C compiler sees it.
PROGRAM = r"""
#include "base/error.h"
#include "dump/format.h"
#include "model/view.h"
#include <stdio.h>
#define SIZE(name, type) printf("%s\t%zu\n", name, sizeof(type));
#define PLACE(name, type, field)                                                                   \
    printf("%s.%s\t%zu, %zu\n", name, #field, offsetof(type, field), sizeof(((type *)0)->field));
#define NUMBER(name, value) printf("%s\t%llu\n", name, (unsigned long long)(value));
int main(void)
{
#define AS_RECORD(name, ...) SIZE(#name, struct as_##name##_record)
#define AS_FIELD(record, field, ...) PLACE(#record, struct as_##record##_record, field)
#define AS_ARRAY AS_FIELD
#define AS_PART AS_FIELD
#define AS_STRUCT(name) SIZE(#name, struct as_##name)
#define AS_STRUCT_FIELD(name, field, ...) PLACE(#name, struct as_##name, field)
#define AS_STRUCT_PART AS_STRUCT_FIELD
#define AS_STRUCT_END(...)
#include "model/records.def"
    SIZE("ledger", struct as_ledger)
#define AS_ROW(name, ...) PLACE("ledger", struct as_ledger, name)
#include "model/rows.def"
    SIZE("header", struct as_dump_header)
#define HEADER(field) PLACE("header", struct as_dump_header, field)
    HEADER(magic) HEADER(major) HEADER(minor) HEADER(header_size) HEADER(file_size) HEADER(table_offset)
    HEADER(section_count) HEADER(section_size)
    SIZE("section", struct as_dump_section)
#define SECTION(field) PLACE("section", struct as_dump_section, field)
    SECTION(name) SECTION(offset) SECTION(count) SECTION(record_size) SECTION(reserved)

    const char *prefix = "", *kind = "";
#define AS_ENUM(name, of, ...) prefix = #of, kind = #name;
#define AS_OPEN_ENUM AS_ENUM
#define AS_OPEN_END(...)
#define AS_BITS AS_ENUM
#define AS_BITS_END(...)
#define AS_VALUE(name, ...) printf("%s %s %s\t%d\n", kind, prefix, #name, (int)name);
#define AS_OPEN_VALUE AS_VALUE
#define AS_BIT AS_VALUE
#define AS_CONSTANT(name, ...) NUMBER(#name, name)
#include "model/enums.def"
    NUMBER("AS_UNKNOWN", AS_UNKNOWN) NUMBER("AS_NO_INDEX", UINT32_MAX)
    NUMBER("AS_MAJOR", AS_DUMP_MAJOR) NUMBER("AS_MINOR", AS_DUMP_MINOR) NUMBER("AS_DATA_START", AS_DUMP_DATA_START)

#define AS_ONE(name, ...) puts("section " #name "\t1");
#define AS_WALKED(name, ...) puts("section " #name "\t0");
#define AS_MANY AS_WALKED
#define AS_PLAIN AS_WALKED
#include "model/sections.def"
}
"""


def in_python(name: str) -> str:
    """What Python calls a thing of C: Mode.FREEZE, HEAP.start, UNIT."""
    if name.startswith("section "):
        return name
    if name.count(" ") == 2:
        kind, prefix, value = name.split(" ")
        return "".join(word.capitalize() for word in kind.split("_")) + "." + value[len(prefix) + 1 :]
    if name.startswith("AS_"):
        return name[3:]
    record, _, field = name.partition(".")
    return record.upper() + (f".{field}" if field else "")


@pytest.fixture(scope="module")
def in_c() -> dict[str, str]:
    """All that the tables define, in Python's names, as the C compiler sees it."""
    program = programs.build(PROGRAM, "-std=gnu11", f"-I{ROOT}/inspector")
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {in_python(name): value for name, value in (line.split("\t") for line in output.splitlines())}


def test_python_has_what_c_has(in_c: dict[str, str]) -> None:
    expected = {f"section {name}": str(int(name in fmt.SINGLE)) for name in fmt.SECTIONS}
    for name, dtype in DTYPES.items():
        expected[name] = str(dtype.itemsize)
        for field, (kind, at, *_) in (dtype.fields or {}).items():
            expected[f"{name}.{field}"] = f"{at}, {kind.itemsize}"
    for name, members in ENUMS.items():
        expected |= {f"{name}.{each}": str(value.value) for each, value in members.__members__.items()}
    # Those of typing, TYPE_CHECKING, are of bool.
    expected |= {name: str(value) for name, value in vars(fmt).items() if name.isupper() and type(value) is int}
    assert in_c == expected


def test_magic() -> None:
    assert f'"{fmt.MAGIC.decode()[:-1]}\\n"' in (ROOT / "inspector/dump/format.h").read_text()


def test_codes_are_those_of_c() -> None:
    lines = "".join(f'    printf("%d\\n", AS_{name});\n' for name in errors.Code.__members__)
    program = programs.build(
        f'#include "base/error.h"\n#include <stdio.h>\nint main(void)\n{{\n{lines}}}\n', f"-I{ROOT}/inspector"
    )
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert output.split() == [str(int(code)) for code in errors.Code]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_records_have_no_padding(dtype: np.dtype[np.void]) -> None:
    """A hole would be bytes whose meaning nobody specified."""
    assert dtype.names is not None
    assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)
