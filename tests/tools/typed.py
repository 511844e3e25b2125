# SPDX-License-Identifier: MIT
"""tests/programs/typed.cc, with its debug information in one file or several, and the type of each of its chunks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools import harness, odd, programs

from .paths import ROOT

CHUNK_TYPES = Path(os.environ.get("CHUNK_TYPES", ROOT / "build/tests/unit/chunk_types"))
TEXT = "text (pointer, length, capacity)"
# What compilers spell differently.
SPELLINGS = (
    ("long unsigned int", "unsigned long"),
    ("long int", "long"),
    ("const int", "int const"),
    ("const app::Key", "app::Key const"),
    (" *", "*"),
    ("> >", ">>"),
    ("> >", ">>"),
)
# What the program does not list: the tables of hash tables and deques, and the bits of vectors.
OTHERS = {"unsigned long[]", "std::__detail::_Hash_node_base*[]", "app::Plain*[]", "char[]"}


def spelled(name: str) -> str:
    for one, other in SPELLINGS:
        name = name.replace(one, other)
    return name


@dataclass
class Answer:
    """What was found, beside the truth: bytes of chunks."""

    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)  # types that no chunk was said to have

    @property
    def share(self) -> float:
        return self.right / (self.right + self.unknown)


class Truth:
    """tests/programs/typed.cc, and the type of each of its chunks."""

    def __init__(self, program: Path, *before: str | Path) -> None:
        self.process = subprocess.Popen([*before, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.types: dict[int, str] = {}
        assert self.process.stdout
        for line in self.process.stdout:
            if line == "ready\n":
                odd.wait_for_read(self.process.pid)
                return
            name, address = line.rstrip().split("\t")
            self.types[int(address, 16)] = spelled(name)
        raise AssertionError(f"the program died: {self.process.wait()}")

    def first(self, name: str) -> str:
        return hex(next(address for address, its in self.types.items() if its == name))

    def compare(self, target: int | Path, *options: str) -> Answer:
        command = [str(CHUNK_TYPES), *options, str(target)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        answer, left = Answer(missing={name for name in self.types.values() if name[0] != "!"}), dict(self.types)
        for line in printed.splitlines():
            address, size, evidence, name = line.split("\t")
            found, known = spelled(name), evidence in {"dwarf", "vtable"}
            expected = left.pop(int(address, 16), None)
            if expected is None:
                if evidence == "dwarf" and found not in OTHERS:
                    answer.wrong.append(f"{address}: {found}, which nobody allocated")
            elif known and expected != found:
                answer.wrong.append(f"{address}: {found}, not {expected}")
            elif known or expected.startswith("!") or (expected == "char[]" and name == TEXT):
                answer.right += int(size)
                answer.missing.discard(expected)
            else:
                answer.unknown += int(size)
        assert not left, "not all chunks were found"
        return answer


@contextmanager
def running(program: Path, *before: str | Path) -> Iterator[Truth]:
    """The program, perhaps started by another command."""
    made = Truth(program, *before)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


TYPES, SPLIT = "-fdebug-types-section", "-gsplit-dwarf"


def build_split(folder: Path, *flags: str, compiler: str = "g++") -> Path:
    """The program, with the files that the compiler writes beside it.

    It is compiled once, in a directory with a long name, and moved with its files: the name of the folder is written
    over that one, which debug information leads to the files by.
    """
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source = programs.SOURCES / "typed.cc"
    command: list[str | Path] = [compiler, "-O1", "-g", "-std=c++17", *flags, "-o", "typed", source]
    key = hashlib.sha256(source.read_bytes() + repr(command).encode()).hexdigest()[:16]
    kept = programs.BUILT / f"split-{key}"
    if not kept.exists():
        scratch = kept.with_suffix(f".{os.getpid()}")
        made = scratch / ("long" * 40)
        made.mkdir(parents=True)
        subprocess.run(command, check=True, cwd=made, env={**os.environ, "PWD": str(made)})
        (scratch / "place").write_bytes(bytes(made))
        with contextlib.suppress(OSError):  # another worker has been here
            scratch.rename(kept)
        shutil.rmtree(scratch, ignore_errors=True)
    (made,) = kept.glob("long*")
    shutil.copytree(made, folder, dirs_exist_ok=True)
    program, old, new = folder / "typed", (kept / "place").read_bytes(), bytes(folder)
    whole = program.read_bytes()
    if old in whole and len(new) <= len(old):
        program.write_bytes(whole.replace(old, new.ljust(len(old), b"\0")))
    else:  # debug information that is compressed
        subprocess.run(command, check=True, cwd=folder)
    return program


def pack(program: Path) -> Path:
    """Makes a package of a program's .dwo files, which are gone then."""
    if not shutil.which("llvm-dwp"):
        pytest.skip("llvm-dwp is not installed (scripts/install-deps test)")
    package = program.with_name(f"{program.name}.dwp")
    subprocess.run(["llvm-dwp", "-e", program, "-o", package], check=True, cwd=program.parent, timeout=120)
    for path in program.parent.glob("*.dwo"):
        path.unlink()
    return package


def split_note(arenadump: harness.Arenadump, truth: Truth) -> str | None:
    graph = json.loads(arenadump.check("types", "--json", truth.process.pid))["graph"]
    return graph["left_out"]  # type: ignore[no-any-return]
