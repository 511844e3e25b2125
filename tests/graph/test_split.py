# SPDX-License-Identifier: MIT
"""Which of several .dwo files and packages of one name is read, and what is said of those that cannot be."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from tools import harness, programs, tiers
from tools.typed import SPLIT, TYPES, build_split, pack, running, split_note

VERSIONS = pytest.mark.parametrize("version", tiers.daily(["-gdwarf-4", "-gdwarf-5"], ["-gdwarf-5"], "compilers"))
CASES = pytest.mark.parametrize("where", ["target", "machine", "neither"])


@VERSIONS
@pytest.mark.parametrize("flags", [(SPLIT,), (TYPES, SPLIT)], ids=" ".join)
@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_types_in_a_package(
    compiler: str, flags: tuple[str, ...], version: str, tmp_path: Path, arenadump: harness.Arenadump
) -> None:
    made = build_split(tmp_path, version, *flags, compiler=compiler)
    pack(made)
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.wrong == []
    assert answer.share >= 0.99


@pytest.mark.parametrize("kind", [".dwo files", "package"])
def test_a_program_of_two_units(kind: str, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """Each unit's rest is known by the unit's own number, whichever of them the module has first."""
    first = str(programs.SOURCES / "allocates.c")
    made = build_split(tmp_path, "-gdwarf-4", SPLIT, "-DROOM=8", first)
    assert len(list(tmp_path.glob("*.dwo"))) == 2
    if kind == "package":
        pack(made)
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.wrong == []
    assert answer.share >= 0.99


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("missing", "typed.dwo is missing (searched for: FILE)"),
        ("moved", None),
        ("another build's", "FILE is of another build"),
        ("another build's types", "FILE is of another build"),
        ("cut short", "FILE is no file of debug information"),
        ("empty", "FILE is no file of debug information"),
        ("a cut package", "typed.dwp cannot be read: it has no index, and 1 of 1 .dwo files were not read"),
    ],
)
def test_what_no_file_has_is_said(what: str, said: str | None, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """What cannot be read makes types unknown, not wrong, and the file has a name."""
    how = [SPLIT, TYPES] if what == "another build's types" else [SPLIT]
    made = build_split(tmp_path / "made", *how)
    file = made.with_suffix(".dwo")
    if what == "missing":
        file.unlink()
    elif what == "moved":  # where the compiler wrote it there is none
        made = made.parent.rename(tmp_path / "moved") / "typed"
    elif what == "another build's":
        build_split(tmp_path / "other", SPLIT, "-O2").with_suffix(".dwo").rename(file)
    elif what == "another build's types":  # in which classes of the same names have other members
        other = build_split(tmp_path / "other", *how, "-D_GLIBCXX_USE_CXX11_ABI=0")
        other.with_suffix(".dwo").rename(file)
    elif what == "a cut package":
        package = pack(made)
        package.write_bytes(package.read_bytes()[:5000])
    else:
        file.write_bytes(file.read_bytes()[: 0 if what == "empty" else 5000])
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        reason = said and said.replace("FILE", str(file)[-80:])
        assert split_note(arenadump, truth) == (reason and f"debug information of typed was left out: {reason}")
    assert answer.wrong == []
    assert answer.share < 0.5 if said else answer.share >= 0.99
    if what == "another build's types":
        file.unlink()
        with running(made) as truth:
            assert answer.share <= truth.compare(truth.process.pid).share + 0.003, "the types of the other build count"


# llvm-dwp 14 never comes to an end with DWARF 5 of gcc -O2.
HOW = (SPLIT, "-gdwarf-4")


def build_of_another(folder: Path, kind: str) -> Path:
    """The .dwo file or the package of a build with other options."""
    made = build_split(folder, *HOW, "-O2")
    return pack(made) if kind == "package" else made.with_suffix(".dwo")


@CASES
@pytest.mark.parametrize("kind", [".dwo file", "package"])
def test_a_container_has_other_files(where: str, kind: str, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """One path has two files, inside and outside: the one with the module's units is taken, wherever it is."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    made = build_split(tmp_path / "made", *HOW)
    file = pack(made) if kind == "package" else made.with_suffix(".dwo")
    inside = tmp_path / "inside"
    shutil.copytree(made.parent, inside)
    wrong = build_of_another(tmp_path / "other", kind)
    if where != "target":
        shutil.copy(wrong, inside / file.name)
    if where != "machine":
        shutil.copy(wrong, file)
    script = 'mount --bind "$0" "$1" && exec "$2"'
    with running(made, "unshare", "--mount", "sh", "-c", script, inside, made.parent) as truth:
        answer = truth.compare(truth.process.pid)
        said = split_note(arenadump, truth)
    assert answer.wrong == []
    assert answer.share < 0.5 if where == "neither" else answer.share >= 0.99
    name = file.name if kind == "package" else str(file)[-80:]
    reasons = f"{name} is of another build, this machine's {name} is of another build"
    reasons += ", and 1 of 1 .dwo files were not read" if kind == "package" else ""
    assert said == (f"debug information of typed was left out: {reasons}" if where == "neither" else None)


def test_a_moved_program_beside_another_builds_file(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """Where the compiler wrote the file there is one of a later build; beside the program is the right one."""
    made = build_split(tmp_path / "made", *HOW)
    moved = Path(shutil.copytree(made.parent, tmp_path / "moved")) / "typed"
    shutil.copy(build_of_another(tmp_path / "other", ".dwo file"), made.with_suffix(".dwo"))
    with running(moved) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.wrong == []
    assert answer.share >= 0.99


def test_a_package_of_another_build_beside_the_files(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    made = build_split(tmp_path / "made", *HOW)
    shutil.copy(build_of_another(tmp_path / "other", "package"), made.with_name("typed.dwp"))
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.share >= 0.99


COMPRESSED, ZLIB = 0x800, 1  # SHF_COMPRESSED, ELFCOMPRESS_ZLIB


def compress(file: Path, tool: str, how: str) -> None:
    """Packs all sections of debug information; objcopy does so with the index of a package as well."""
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed (scripts/install-deps test)")
    subprocess.run([tool, f"--compress-debug-sections={how}", file], check=True)
    sections = subprocess.run(["readelf", "-tW", file], capture_output=True, text=True, check=True).stdout
    assert (".zdebug_str" if how == "zlib-gnu" else "COMPRESSED") in sections


@pytest.mark.parametrize("kind", [".dwo file", "package"])
@pytest.mark.parametrize(
    ("compiler", "how"),
    [
        ("g++", ("objcopy", "zlib")),
        pytest.param("clang++", ("llvm-objcopy", "zlib"), marks=pytest.mark.nightly("compilers")),
        ("clang++", ("objcopy", "zlib-gnu")),
    ],
)
def test_compressed_files(
    kind: str, compiler: str, how: tuple[str, str], tmp_path: Path, arenadump: harness.Arenadump
) -> None:
    made = build_split(tmp_path, *HOW, TYPES, compiler=compiler)
    file = pack(made) if kind == "package" else made.with_suffix(".dwo")
    compress(file, *how)
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.wrong == []
    assert answer.share >= 0.99


def replace_section(file: Path, name: bytes, size: int, packed: bytes, kind: int = ZLIB) -> None:
    """Has a section be these packed bytes, which claim to unpack to that size."""
    data = bytearray(file.read_bytes())
    (table,), (entry, count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<3H", data, 58)
    (names,) = struct.unpack_from("<Q", data, table + names * entry + 24)
    for at in range(table, table + count * entry, entry):
        (offset,) = struct.unpack_from("<I", data, at)
        if data[names + offset :].startswith(name + b"\0"):
            struct.pack_into("<Q", data, at + 8, COMPRESSED)
            struct.pack_into("<QQ", data, at + 24, len(data), 24 + len(packed))
            file.write_bytes(data + struct.pack("<IIQQ", kind, 0, size, 1) + packed)
            return
    raise AssertionError(name)


MIB = 1 << 20
DAMAGED = "its debug information is compressed in an unknown way, or damaged"


@functools.cache
def zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, packed."""
    packing = zlib.compressobj(1)
    parts = [packing.compress(bytes(MIB)) for _ in range(mebibytes)]
    return b"".join(parts) + packing.flush()


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("an honest bomb", "TOO MUCH"),
        ("a bomb that says it is small", DAMAGED),
        ("a size that nobody has", "TOO MUCH"),
        ("a size with which the sum of all is small", "TOO MUCH"),
        ("less than it says", DAMAGED),
        ("no bytes", DAMAGED),
        ("an unknown packer", DAMAGED),
    ],
)
@pytest.mark.parametrize("kind", [".dwo file", "package"])
def test_bombs(kind: str, what: str, said: str, tmp_path: Path) -> None:
    """A section that unpacks to more than is read, or to another size than it says, is left out in bounded memory."""
    made = build_split(tmp_path, *HOW)
    file = pack(made) if kind == "package" else made.with_suffix(".dwo")
    size, packed = {
        "an honest bomb": (600 * MIB, zeros(600)),
        "a bomb that says it is small": (1000, zeros(600)),
        "a size that nobody has": (1 << 62, zlib.compress(b"less")),
        "a size with which the sum of all is small": ((1 << 64) - 64, zlib.compress(b"less")),
        "less than it says": (MIB, zlib.compress(b"less")),
        "no bytes": (MIB, b""),
        "an unknown packer": (4, zlib.compress(b"less")),
    }[what]
    replace_section(file, b".debug_str.dwo", size, packed, 77 if what == "an unknown packer" else ZLIB)
    with running(made) as truth:
        snapshot = [str(harness.arenadump_path().resolve()), "types", "--json", str(truth.process.pid)]
        command = ["sh", "-c", 'ulimit -v 500000 && exec "$@"', "sh", *snapshot]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    left_out = json.loads(done.stdout)["graph"]["left_out"]
    if said == "TOO MUCH":
        assert ("more debug information than is read" if kind == "package" else "at most 512 MiB are read") in left_out
    else:
        assert f"{file.name} cannot be read: {said}" in left_out


def test_what_cannot_be_read_counts(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """What was read of a damaged file is no longer there for the next, whatever the file says of its size."""
    made = build_split(tmp_path / "made", *HOW)
    program = tmp_path / "moved" / "typed"
    program.parent.mkdir()
    shutil.copy(made, program)
    for file in (made.with_suffix(".dwo"), program.with_suffix(".dwo")):
        if file.parent == program.parent:
            shutil.copy(tmp_path / "made" / "copy", file)
        else:
            shutil.copy(file, tmp_path / "made" / "copy")
        replace_section(file, b".debug_str.dwo", 1000, bytes(300 * MIB))
    with running(program) as truth:
        left_out = split_note(arenadump, truth)
    assert left_out
    assert left_out.count(DAMAGED) == 1
    (room,) = re.findall(r"has 300\.0 MiB unpacked, and at most (\d+) MiB are read", left_out)
    assert int(room) <= 212
