# SPDX-License-Identifier: MIT
"""Profiles in the forms of other tools: Go's own pprof reads what we write; folded stacks; differences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tools import interpreters
from tools.paths import ROOT

import arenascope
from arenascope.profiles.folded import folded
from arenascope.profiles.pprof import encode, main_module, varint
from arenascope.wire.profile import MEASURES, Module, Profile, Site, SourceLine, StackFrame, difference, rows

CACHE = ROOT / ".cache"
PROGRAM = Module("/usr/bin/server", "ab" * 20, 0x401000, 0x480000, 0x400000)
MAIN = StackFrame(0x402000, PROGRAM, (SourceLine("main", "/src/main.cc", 12),))
OPEN = StackFrame(
    0x403000,
    PROGRAM,
    (
        SourceLine("std::string::append(char const*)", "/src/string.h", 7),
        SourceLine("Connection::open", "/src/c.cc", 40),
    ),
)
STRIPPED = StackFrame(0x404560, PROGRAM)
JIT = StackFrame(0x7F0000001000)


def site(*frames: StackFrame, objects: int, space: int) -> Site:
    values = {"alloc_objects": objects * 2, "alloc_space": space * 3, "inuse_objects": objects, "inuse_space": space}
    return Site(frames, values)


PROFILE = Profile(
    [
        site(OPEN, MAIN, objects=300, space=3 << 20),
        site(STRIPPED, OPEN, MAIN, objects=10, space=1 << 20),
        site(JIT, MAIN, objects=1, space=1 << 19),
    ],
    started_ns=10**18,
    taken_ns=10**18 + 60 * 10**9,
    mean=1 << 19,
    comments=["measured: 0.1 % of stacks wrong"],
)


Pprof = Callable[..., str]


@pytest.fixture(scope="module")
def program() -> str:
    """Go's pprof, built once: newer releases of Go would build it whenever it is asked for."""
    go, built = shutil.which("go"), CACHE / "pprof"
    if not go:
        pytest.skip("go is not installed (scripts/install-deps test)")
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run([go, "build", "-o", str(built), "cmd/pprof"], check=True, timeout=600)
    return str(built)


@pytest.fixture
def pprof(tmp_path: Path, program: str) -> Pprof:
    """Runs Go's pprof on a profile, with options; returns what it prints."""

    def run(profile: Profile, *options: str) -> str:
        path = tmp_path / "profile.pb.gz"
        path.write_bytes(encode(profile))
        environment = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
        command = [program, *options, str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_pprof_shows_our_numbers(pprof: Pprof) -> None:
    out = pprof(PROFILE, "-top", "-unit=kB", "-nodefraction=0")
    found = {}
    for line in out.splitlines():
        if row := re.match(r" *([\d.]+)(?:kB)? +[\d.]+% +[\d.]+% +([\d.]+)(?:kB)? +[\d.]+%  (.*)", line):
            found[row[3].removesuffix(" (inline)")] = (float(row[1]), float(row[2]))
    ours = {row.name: (row.flat / 1024, row.cum / 1024) for row in rows(PROFILE.sites, "inuse_space")}
    assert {name.partition("(")[0]: numbers for name, numbers in found.items()} == {
        name.partition("(")[0]: numbers for name, numbers in ours.items()
    }
    assert ours["main"][1] == 4608
    assert "server+0x4560" in found
    raw = pprof(PROFILE, "-raw")
    assert [measure for measure in MEASURES if measure in raw.split("Locations")[0]] == list(MEASURES)
    assert PROGRAM.build_id in raw
    assert "Period: 524288" in raw
    assert "/src/c.cc:40" in raw
    assert f"Type: {MEASURES[0]}" in pprof(PROFILE, "-top", f"-sample_index={MEASURES[0]}")


def test_pprof_shows_where_modules_are(pprof: Pprof) -> None:
    """From where to where, and at which offset of the file that begins."""
    raw = pprof(Profile([*PROFILE.sites, site(in_module(LIBRARY), objects=1, space=1000)]), "-raw")
    mappings = re.findall(r"^\d+: (\w+)/(\w+)/(\w+) (\S+) (\w+)", raw.partition("\nMappings\n")[2], re.MULTILINE)
    assert mappings == [
        (hex(m.start), hex(m.end), hex(m.start - m.bias), m.path, m.build_id) for m in (PROGRAM, LIBRARY)
    ]


def test_pprof_takes_differences_and_odd_text(pprof: Pprof) -> None:
    odd = StackFrame(0x405000, PROGRAM, (SourceLine("a;b\nc\ud800 ⊕", "", 0),))
    more = Profile([*PROFILE.sites, site(odd, MAIN, objects=5, space=77 << 10)])
    less = difference(more, PROFILE)
    assert [s.values["inuse_space"] for s in less.sites] == [-(77 << 10)]
    assert "-77kB" in pprof(less, "-top", "-unit=kB", "-nodefraction=0")
    assert difference(PROFILE, PROFILE).sites == []
    assert pprof(Profile([]), "-raw")


LIBRARY = Module("/usr/lib/libstdc++.so.6", "cd" * 20, 0x7F1000, 0x7F2000, 0x7F0000)
LIBC = Module("/lib/x86_64-linux-gnu/libc.so.6", "", 0x7F5000, 0x7F6000, 0x7F4000)


def in_module(module: Module) -> StackFrame:
    return StackFrame(module.start + 16, module, (SourceLine(f"in {module.name}"),))


def test_the_first_mapping_is_the_program(pprof: Pprof) -> None:
    """Threads of C++ begin in libc and libstdc++, which also allocate."""
    threads = [site(*map(in_module, (LIBRARY, PROGRAM, LIBRARY, LIBC)), objects=1, space=1000)] * 3
    profile = Profile([*threads, *PROFILE.sites])
    assert "File: server\n" in pprof(profile, "-top")
    assert "File: libstdc++.so.6\n" in pprof(
        Profile([site(*map(in_module, (LIBC, LIBRARY, LIBC)), objects=1, space=1)]), "-top"
    )


@pytest.mark.parametrize(
    ("comm", "modules", "main"),
    [
        ("server", "/lib/ld.so.1 /opt/other /opt/server", "/opt/server"),
        ("a_name_of_more_t", "/opt/a_name_of_more_than_15 /opt/other", "/opt/other"),
        ("a_name_of_more_", "/opt/a_name_of_more_than_15 /opt/other", "/opt/a_name_of_more_than_15"),
        ("worker 1", "/lib/libm.so.6 /usr/bin/python3.11 /lib/libc-2.31.so [vdso]", "/usr/bin/python3.11"),
        ("server", "/lib/libx.so /opt/server_(deleted)", "/opt/server_(deleted)"),
        ("worker 1", "/x.cpython-311-x86_64-linux-gnu.so /lib/libjvm.so /lib/libc.so.6", "/lib/libjvm.so"),
        ("worker 1", "/lib/libc.so.6", "/lib/libc.so.6"),
    ],
)
def test_which_module_is_the_program(comm: str, modules: str, main: str) -> None:
    """`modules`: of the frames of a stack, innermost first."""
    frames = [in_module(Module(path.replace("_(", " ("))) for path in modules.split()]
    found = main_module(Profile([site(*frames, objects=1, space=1)]), comm)
    assert found
    assert found.path == main.replace("_(", " (")
    assert main_module(Profile([site(JIT, objects=1, space=1)]), comm) is None


ENCODES = """
import sys
from arenascope.wire.profile import Module, Profile, Site, SourceLine, StackFrame
from arenascope.profiles.pprof import encode
frames = StackFrame(1, Module("/x")), StackFrame(2, None, (SourceLine("f"), SourceLine("main", "x.c", 3)))
assert encode(Profile([Site(frames, {"inuse_space": 1})]))
print(sys.version_info[:2])
"""


def test_the_oldest_python_that_is_supported_writes_it() -> None:
    oldest, library = interpreters.python("3.9"), interpreters.modules("3.9").parent
    environment = {**oldest.environment, "PYTHONPATH": f"{Path(arenascope.__file__).resolve().parents[1]}:{library}"}
    done = subprocess.run(
        oldest.command("-c", ENCODES), check=False, capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.stdout == "(3, 9)\n", done.stderr


def test_pprof_reads_a_profile_without_samples(pprof: Pprof) -> None:
    """It has two measures then, and no period."""
    in_use = [Site(s.frames, {"inuse_objects": 2, "inuse_space": s.values["inuse_space"]}) for s in PROFILE.sites]
    profile = Profile(in_use, sampled=False)
    assert re.search(r"4608kB +100% +main$", pprof(profile, "-top", "-unit=kB", "-nodefraction=0"), re.MULTILINE)
    raw = pprof(profile, "-raw")
    assert [measure for measure in MEASURES if measure in raw] == ["inuse_objects", "inuse_space"]


def test_folded_stacks() -> None:
    assert folded(PROFILE, "inuse_space").splitlines() == [
        "main;0x7f0000001000 524288",
        "main;Connection::open;std::string::append(char const*) 3145728",
        "main;Connection::open;std::string::append(char const*);server+0x4560 1048576",
    ]
    odd = Profile(
        [Site((StackFrame(1, None, (SourceLine("a;b\nc"),)),), {"inuse_space": 3}), Site((MAIN,), {"inuse_space": 0})]
    )
    assert folded(odd, "inuse_space") == "a:b c 3\n"


def test_folded_names_are_safe_in_a_terminal() -> None:
    """A function's name and its file's are the target's words: a terminal obeys none of them."""
    line = SourceLine("grow\x1b]0;owned\x07\x9b2J", "/srv/a\u202egnp\x1b[31m.py", 3)
    answer = folded(Profile([Site((StackFrame(0, None, (line,), "python"), MAIN), {"inuse_space": 5})]), "inuse_space")
    assert answer == "main;a\\u{202e}gnp\\x1b[31m.py:grow\\x1b]0:owned\\x07\\u{9b}2J 5\n"


def test_recursion_counts_once() -> None:
    again = Profile([site(MAIN, OPEN, MAIN, MAIN, objects=1, space=100)])
    assert {row.name: (row.flat, row.cum) for row in rows(again.sites, "inuse_space")} == {
        "main": (100, 100),
        "Connection::open": (0, 100),
        "std::string::append(char const*)": (0, 100),
    }


def test_work_on_a_frame_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame is on many stacks."""
    hashed: list[StackFrame] = []
    ours = StackFrame.__hash__

    def counted(frame: StackFrame) -> int:
        hashed.append(frame)
        return ours(frame)

    monkeypatch.setattr(StackFrame, "__hash__", counted)
    frames = [StackFrame(0x402000 + at, PROGRAM, (SourceLine(f"f{at}"),)) for at in range(10)]
    many = Profile([site(*frames, objects=1, space=space) for space in range(100)])
    equal = Profile([site(*map(replace, frames), objects=1, space=space) for space in range(100)])
    written = encode(many)
    assert len(hashed) <= 3 * len(frames)
    assert written == encode(equal), "equal frames are one location, wherever they are"
    assert all(frame.names() is frame.names() for frame in frames)


def test_numbers() -> None:
    assert varint(0) == b"\0"
    assert varint(300) == b"\xac\x02"
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert encode(PROFILE) == encode(PROFILE)
