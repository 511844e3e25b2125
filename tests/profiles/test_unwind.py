# SPDX-License-Identifier: MIT
"""The unwinder of inspector/unwind/ against libgcc's: at each malloc of real programs, under the flags of compilers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tools import debian, programs, tiers
from tools.paths import ROOT

UNWINDER = [
    *sorted((ROOT / "inspector/unwind").glob("*.c")),
    *(ROOT / f"inspector/base/{name}.c" for name in ("blocks", "error", "memory", "sort", "vec")),
]
INCLUDES = [f"-I{ROOT / 'inspector'}", f"-I{ROOT / 'tests'}"]
C = ["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE=", "-D_FILE_OFFSET_BITS=64", "-pthread"]
JSON = "import json, re, sqlite3; print(len(json.dumps([list(range(1000))] * 10)))"
SORT = str(ROOT / "inspector/base/sort.c")
SQL = (
    "create table t(a); with recursive c(x) as (select 1 union all select x + 1 from c where x < 9000)"
    "insert into t select x from c; select sum(a) from t"
)
# The command, of how many mallocs one is compared, how many must be.
PROGRAMS = {
    "python": (("python3", "-c", JSON), 3, 10_000),
    "ruby": (("ruby", "-e", "p (1..20000).map { |i| i.to_s * 3 }.size"), 3, 10_000),
    "git": (("git", "-C", str(ROOT), "log", "--oneline", "-300"), 1, 800),
    "sqlite": (("sqlite3", ":memory:", SQL), 1, 2000),
    "clang": (
        ("clang", "-O1", "-g", "-c", SORT, *INCLUDES, "-o", "/dev/null"),
        11,
        1500,
    ),
    "gcc": (("gcc", "-O1", "-g", "-c", SORT, *INCLUDES, "-o", "/dev/null"), 11, 800),
    "java": (("java", "-version"), 3, 500),
    "node": (("node", "-e", "console.log(JSON.stringify([...Array(10000).keys()]).length)"), 29, 4000),
    "bash": (("bash", "-c", "x=$(ls /); echo $x"), 1, 1000),
}
FLAGS = {
    "plain": ("gcc", "-O2"),
    "no frame pointers": ("gcc", "-O3", "-fomit-frame-pointer", "-fcf-protection=full", "-Wl,-z,lazy,-z,ibtplt"),
    "clang": ("clang", "-O2", "-fomit-frame-pointer"),
    "realigned": ("gcc", "-O2", "-mstackrealign", "-mno-red-zone"),
    "all saved": ("gcc", "-O0", "-fno-plt", "-Wl,-z,now"),
    "static": ("gcc", "-O2", "-no-pie"),
}
ARM_FLAGS = {
    "plain": ("-O2",),
    "signed": ("-O2", "-mbranch-protection=standard"),
    "no frame pointers": ("-O3", "-fomit-frame-pointer"),
}


def compiled(source: str, *flags: str, compiler: str = "gcc") -> Path:
    return programs.build(ROOT / "tests" / source, *C, *INCLUDES, *flags, *map(str, UNWINDER), compiler=compiler)


@pytest.fixture(scope="module")
def preload() -> Path:
    return compiled("programs/unwind_truth.c", "-O2", "-fPIC", "-shared")


def counts(report: str) -> Counter[str]:
    """The numbers of the line that begins with "stacks"."""
    words = next(line for line in report.splitlines() if line.startswith("stacks ")).split()
    return Counter({name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)})


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_real_programs(name: str, preload: Path, tmp_path: Path) -> None:
    command, every, least = PROGRAMS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed (scripts/install-deps test)")
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(preload),
        "UNWIND_TRUTH": str(tmp_path / "truth"),
        "UNWIND_TRUTH_EVERY": str(every),
        "UNWIND_TRUTH_CACHE": str(cache),
        "PYTHONMALLOC": "malloc",
    }
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    reports = [path.read_text(encoding="utf-8") for path in tmp_path.glob("truth.*")]
    total: Counter[str] = Counter()
    for report in reports:
        if "stacks " in report:  # a child that execs has no end
            total += counts(report)
    differences = "\n".join(report for report in reports if "WRONG" in report or "different" in report)
    # `further`: libgcc stops at code without frame information (V8's builtins, Java's compiled code); we go on.
    compared = total["stacks"] - total["libgcc_cut"] - total["further"]
    assert compared >= least
    assert total["wrong_slots"] == 0
    assert total["wrong_again"] == 0
    assert total["wrong_complete"] == 0, differences
    assert total["equal"] >= compared * 0.999, differences
    assert total["complete"] >= compared * 0.999
    assert any(cache.iterdir())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="flags of x86-64")
@pytest.mark.parametrize("name", tiers.daily(FLAGS, ("plain", "no frame pointers", "realigned"), "compilers"))
def test_each_instruction_under_flags(name: str) -> None:
    compiler, *flags = FLAGS[name]
    program = compiled("unit/test_unwind.c", *flags, compiler=compiler)
    out = subprocess.run([program], check=True, capture_output=True, text=True, timeout=120).stdout
    assert int(out.split()[0]) > 200


@pytest.mark.nightly("emulation")
@pytest.mark.parametrize("name", ARM_FLAGS)
def test_aarch64(name: str) -> None:
    """Under qemu, whose processor checks the signs of return addresses."""
    emulator = debian.emulator()
    compiler = f"{debian.TRIPLETS['arm64']}-gcc"
    program = compiled("unit/test_unwind.c", *ARM_FLAGS[name], compiler=compiler)
    command = [emulator, "-cpu", "max", "-L", f"/usr/{debian.TRIPLETS['arm64']}", str(program)]
    subprocess.run(command, check=True, timeout=120)
