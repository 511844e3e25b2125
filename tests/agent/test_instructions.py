# SPDX-License-Identifier: MIT
"""The lengths of instructions, as the recorder's hooks at entries need them, are those that objdump tells."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tools import debian
from tools.paths import ROOT

LIST_INSTRUCTIONS = Path(os.environ.get("LIST_INSTRUCTIONS", ROOT / "build/tests/unit/list_instructions"))
LINE = re.compile(r"^ +[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t([a-z{(].*)$", re.MULTILINE)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")
def test_all_code_of_libc(libc: debian.Libc) -> None:
    """Each length of 330,000 instructions is right. A few percent are unknown, mostly those with VEX or EVEX."""
    if not shutil.which("objdump"):
        pytest.skip("objdump is not installed")
    command = ["objdump", "-d", "-w", "--insn-width=15", str(Path(libc.directory, "libc.so.6"))]
    shown = LINE.findall(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    codes = [code.replace(" ", "") for code, text in shown if "(bad)" not in text]
    done = subprocess.run(
        [str(LIST_INSTRUCTIONS)], input="\n".join(codes), capture_output=True, text=True, check=True
    ).stdout
    lengths = [int(line) for line in done.splitlines()]
    assert len(lengths) == len(codes) > 200000
    wrong = [(code, n) for code, n in zip(codes, lengths, strict=True) if n not in {0, len(code) // 2}]
    assert not wrong, wrong[:5]
    assert lengths.count(0) < len(lengths) / 10
