# SPDX-License-Identifier: MIT
"""`arenascope profile list` where lines are long, where no source is known, and by each name that a table prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from profiles.test_profile_commands import CACHE, MEBIBYTE, SERVER, served
from rich.console import Console
from tools import harness
from tools.paths import ROOT

from arenascope.humanize import short_name
from arenascope.profiles.source_lines import Listing, listings
from arenascope.profiles.sources import is_newer, read_source
from arenascope.render.listing import render_listings
from arenascope.wire.profile import Module, Profile, Site, SourceLine, StackFrame
from arenascope.wire.profile_json import profile_of, read_profile

SHOWN = f"{CACHE / MEBIBYTE:.1f} MiB"


def listed(arenadump: harness.Arenadump, pid: int, folder: Path) -> str:
    """What `list fill_cache` prints, from this directory."""
    package = ROOT / "visualize"
    environment = {
        **os.environ,
        "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve()),
        "COLUMNS": "120",
        "PYTHONPATH": f"{package}:{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-m", "arenascope", "profile", "list", "fill_cache", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=folder).stdout


def test_a_long_line_leaves_the_numbers_their_place(
    arenadump: harness.Arenadump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(arenadump.path))
    wide = SERVER.replace("// line 20", "// " + "long " * 60)
    with served(tmp_path, arenadump, "-g", source=wide) as process:
        answer = listed(arenadump, process.pid, tmp_path)
        read = profile_of(read_profile(str(process.pid)))
    found = listings(read, "fill_cache", "inuse_space")
    for width, text in ((120, answer), (80, drawn(found, read, 80)), (50, drawn(found, read, 50))):
        (line,) = (line for line in text.splitlines() if "held.push_back" in line)
        assert re.fullmatch(rf" *{SHOWN} +{SHOWN} +20 +held\.push_back\(.*…", line)
        assert max(map(len, text.splitlines()[2:])) <= width


def drawn(found: Sequence[Listing], profile: Profile, width: int) -> str:
    """In a terminal of this width."""
    out = StringIO()
    Console(file=out, width=width).print(render_listings(found, profile, "inuse_space"), crop=False)
    return out.getvalue()


def test_where_no_source_is_known_nothing_is_newer(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with served(tmp_path, arenadump) as process:
        os.utime(tmp_path, (2**32, 2**32))
        answer = listed(arenadump, process.pid, tmp_path)
    assert "no source file is known" in answer
    assert re.search(rf"{SHOWN} +{SHOWN} +\? +\(no line is known\)", answer)
    assert "may have moved" not in answer


def test_files_that_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.touch()
    os.utime(program, (1000, 1000))
    monkeypatch.chdir(tmp_path)
    source = read_source(str(Path(__file__).resolve()))
    assert source
    assert is_newer(source, str(program))
    assert not is_newer(source, "")
    assert read_source("") is None


def test_interpreted_code_is_no_older_than_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "late.py"
    source.write_text("def grow():\n    return bytearray(9001)\n")
    os.utime(source, (2**32, 2**32))
    monkeypatch.chdir(tmp_path)
    library = Module("/usr/lib/libpython3.so")
    native = StackFrame(0x1000, library, (SourceLine("PyByteArray_Resize"),))
    python = StackFrame(0, None, (SourceLine("grow", str(source), 2),), "python")
    profile = Profile([Site((native, python), {"inuse_space": 9001})])
    answer = drawn(listings(profile, "grow", "inuse_space"), profile, 80)
    assert "return bytearray(9001)" in answer
    assert "may have moved" not in answer


def test_a_source_that_has_become_shorter(tmp_path: Path) -> None:
    """The lines that it has no more keep their numbers: together they are still the whole."""
    source = tmp_path / "cut.c"
    source.write_text("first\nsecond\n")
    found = Listing("grow", str(source), None)
    for line, value in ((2, 10), (7, 1000), (22, 2000)):
        found.flat[line] = found.cum[line] = value
    found.whole = 3010
    profile = Profile([Site((StackFrame(0x1000, None, (SourceLine("grow"),)),), {"inuse_space": 3010})])
    lines = [line.split() for line in drawn([found], profile, 80).splitlines()]
    assert [each for each in lines if len(each) == 5] == [
        ["1000", "B", "1000", "B", "7"],
        ["2.0", "KiB", "2.0", "KiB", "22"],
    ]
    assert ["10", "B", "10", "B", "2", "second"] in lines


LONG = (
    f"app::Table<{', '.join(['std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >'] * 9)}>"
)
FRAMES = (
    StackFrame(0, None, (SourceLine("grow", "/one/__init__.py", 7),), "python"),
    StackFrame(0, None, (SourceLine("grow", "/two/other.py", 9),), "python"),
    StackFrame(0x5000, Module("/bin/server"), (SourceLine(f"{LONG}::add(int)", "/src/add.cc", 3),)),
    StackFrame(0x6000, Module("/bin/server", bias=0x1000)),
    StackFrame(0x7000, Module("/bin/server", bias=0x1000)),
)


@pytest.mark.parametrize("frame", FRAMES)
def test_each_name_that_is_shown_can_be_asked_for(frame: StackFrame) -> None:
    """What `top` prints of a function finds that function alone."""
    sites = [Site((each, *FRAMES[:2]), {"inuse_space": 100}) for each in FRAMES]
    (name,) = frame.names()
    for asked in (name, short_name(name)):
        (found,) = listings(Profile(sites), asked, "inuse_space")
        (line,) = frame.lines or (SourceLine(),)
        assert (found.function, found.file) == (name, line.file)
        assert found.flat == {line.line: 100}
        assert found.cum == {line.line: 500 if frame in FRAMES[:2] else 100}


def test_a_part_of_a_name_finds_all_that_have_it() -> None:
    profile = Profile([Site(FRAMES, {"inuse_space": 100})])

    def found(part: str) -> set[str]:
        return {each.function for each in listings(profile, part, "inuse_space")}

    assert found("grow") == {"__init__.py:grow", "other.py:grow"}
    assert found("gro") == {"__init__.py:grow", "other.py:grow"}
    assert found("__init__") == {"__init__.py:grow"}
    assert found("app::Table<std::string, ") == {f"{LONG}::add(int)"}
    assert found("server") == set(), "what has no name is asked for by the whole of what stands for it"
