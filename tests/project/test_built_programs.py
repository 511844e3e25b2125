# SPDX-License-Identifier: MIT
"""What compiles the programs of tests: once for each text, header and flag."""

from __future__ import annotations

import subprocess
import unittest
from pathlib import Path

import pytest
from tools import programs

TEXT = '#include <stdio.h>\n#include "what.h"\nint main(void) { return puts(WHAT) == EOF; }\n'


def said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_text_is_compiled_once_for_each_header(tmp_path: Path, compiler: str) -> None:
    made = []
    for what in ("one", "other", "one"):
        (tmp_path / "what.h").write_text(f'#define WHAT "{what}"\n')
        made.append(programs.build(TEXT, f"-I{tmp_path}", compiler=compiler))
        assert said(made[-1]) == f"{what}\n"
    assert made[0] == made[2] != made[1]
    for path in {each for name in set(made) for each in programs.BUILT.glob(f"{name.name}*")}:
        path.unlink()


def test_a_program_may_have_its_place(tmp_path: Path) -> None:
    """With its text beside it, and the text that was given last."""
    for what in ("one", "other"):
        made = programs.build(TEXT.replace('#include "what.h"\n', ""), f'-DWHAT="{what}"', at=tmp_path / "it")
        assert made == tmp_path / "it"
        assert said(made) == f"{what}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"it", "it.c"}


def test_what_cannot_be_compiled_skips_the_test() -> None:
    with pytest.raises(unittest.SkipTest, match="no-such-compiler is not installed"):
        programs.build("alloc", compiler="no-such-compiler")
