# SPDX-License-Identifier: MIT
"""Ruby's frames in a profile: a program that knows the methods and lines of each of its blocks, on each release."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from profiles.test_profile import assert_nested, assert_recognised, assert_ways, ways_pid
from tools import emulated, harness, interpreters, programs, tiers
from tools.paths import PROGRAMS
from tools.profiling import profile
from tools.stage import Stage, kill, until

from arenascope.wire.profile_json import profile_of, read_profile

PROGRAM = PROGRAMS / "frames.rb"
AGAIN = PROGRAMS / "again.rb"
WAYS = PROGRAMS / "ways.rb"
NESTED = PROGRAMS / "nested.rb"
SIZE = 9001
MOST = 256  # frames of a stack, those of C included
RELEASES = ["2.7", "3.1", "3.3", "3.4"]
RESCUE = re.compile(r"(rescue|ensure) in ")
CLASS = re.compile(r"(?:^|(?<= in ))[A-Z][\w:]*[#.]")
Stack = tuple[tuple[str, int, str], ...]


def command(release: str, *arguments: str | Path, more: str = "") -> tuple[list[str], dict[str, str]]:
    """What runs the program on a release, and its environment."""
    ruby = interpreters.ruby(release, more)
    return ruby.command(*arguments), {"RUBYLIB": ruby.environment["RUBYLIB"]}


def truth(path: Path) -> tuple[int, Counter[Stack]]:
    """The program's pid, and how many blocks it keeps by each stack. From 3.4 on Ruby puts the class into a label."""
    until(path.exists, f"no {path.name}")
    *lines, last = map(ast.literal_eval, path.read_text().splitlines())
    found: Counter[Stack] = Counter()
    for count, stack in lines:
        found[tuple((CLASS.sub("", label), line, file) for label, line, file in stack)] += count
    return last[0], found


def as_named(stack: Stack, release: str) -> Stack:
    """A stack in the release's own words.

    From 3.4 on it has a method and its `rescue in` as one frame, and names code that was given as text by its method.
    """
    if release < "3.4":
        return stack
    answer: list[tuple[str, int, str]] = []
    for name, line, file in reversed(stack):
        if answer and answer[-1][0] == RESCUE.sub("", name) != name:
            answer.pop()
        answer.append((answer[-1][0] if name == "<compiled>" else RESCUE.sub("", name), line, file))
    return tuple(reversed(answer))


def of_ruby(site: dict[str, Any]) -> Stack:
    frames = [frame["functions"][0] for frame in site["stack"] if frame["language"] == "ruby"]
    return tuple((each["name"], each["line"], Path(each["file"] or "").name) for each in frames)


def blocks(answer: dict[str, Any], release: str = "") -> Counter[Stack]:
    """Those of SIZE bytes, by their Ruby stacks.

    A String has a byte more, and a chunk a header; and 16 bytes where these alone would be no chunk.
    """
    found: Counter[Stack] = Counter()
    for site in answer["sites"]:
        use = site["in_use"]
        if use["count"] and SIZE + 8 <= use["bytes"] / use["count"] <= SIZE + 40:
            found[as_named(of_ruby(site), release)] += use["count"]
    return found


def compare(answer: dict[str, Any], stacks: Counter[Stack], release: str) -> None:
    whole = {stack for stack in stacks if len(stack) < MOST // 2}
    found = blocks(answer, release)
    assert answer["wrong"] == 0
    assert answer["without_stack"]["count"] == 0
    assert {stack: found[stack] for stack in whole} == {stack: stacks[stack] for stack in whole}
    # What has more frames than there is room for has the innermost.
    for stack in stacks.keys() - whole:
        ((cut, count),) = (
            (each, n) for each, n in found.items() if len(each) > MOST // 2 and stack[: len(each)] == each
        )
        assert count == stacks[stack], cut
    assert found.total() == stacks.total()


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_each_block_has_the_lines_that_made_it(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file = stage.folder / "truth"
    how, environment = command(release, PROGRAM, file)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    pid, stacks = truth(file)
    assert stacks.total() > 1000
    answer = profile(arenadump, pid)
    assert answer["unknown_interpreters"] == []
    compare(answer, stacks, release)


@pytest.mark.parametrize("release", tiers.daily(RELEASES, tiers.OF_DEBIAN_12, "runtimes"))
def test_the_same_stacks_are_recognised(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """A stack that comes again and again is unwound for the first time alone, and when it is checked."""
    assert_recognised(stage, arenadump, lambda count: command(release, AGAIN, "20", count))


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_stacks_that_differ_in_one_frame(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """They come again and again, in no order: each block has its own, and the C function that its size says."""
    file = stage.folder / "truth"
    how, environment = command(release, WAYS, file)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    answer = profile(arenadump, ways_pid(file))
    assert_ways(answer, file, lambda site: as_named(of_ruby(site), release), lambda label: CLASS.sub("", label))


@pytest.mark.parametrize("release", tiers.daily(RELEASES, tiers.OF_DEBIAN_12, "runtimes"))
def test_stacks_that_differ_in_a_recursion_in_c(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file = stage.folder / "truth"
    how, environment = command(release, NESTED, file)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    assert_nested(profile(arenadump, ways_pid(file)), file, of_ruby)


@pytest.mark.parametrize("release", tiers.daily(["3.1", "3.4"], tiers.OF_DEBIAN_12, "runtimes"))
def test_a_child_of_fork_goes_on(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    file = stage.folder / "truth"
    how, environment = command(release, PROGRAM, file, "fork")
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    child, stacks = truth(stage.folder / "truth.child")
    try:
        compare(profile(arenadump, child), stacks, release)
        pid, stacks = truth(file)
        compare(profile(arenadump, pid), stacks, release)
    finally:
        kill(child)


def test_dumps_have_them(stage: Stage, arenadump: harness.Arenadump) -> None:
    file = stage.folder / "truth"
    how, environment = command("3.1", PROGRAM, file)
    stage.start(how, ARENASCOPE_PROFILE="exact", ARENASCOPE_SIGNAL="USR2", **environment)
    pid, stacks = truth(file)
    compare(profile(arenadump, stage.ask(pid)), stacks, "3.1")
    dump = stage.folder / "ours.dump"
    arenadump.run("dump", "-o", str(dump), str(pid))
    compare(profile(arenadump, dump), stacks, "3.1")
    tell = [sys.executable, "-m", "arenascope", "profile"]
    top = subprocess.run([*tell, "top", "--number=5000", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "frames.rb:left" in top
    listed = subprocess.run([*tell, "list", "right", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "keep String.new(capacity: SIZE)" in listed
    folded = subprocess.run([*tell, "folded", str(dump)], capture_output=True, text=True, check=True).stdout
    assert "frames.rb:<main>;" in folded
    assert "frames.rb:plain;frames.rb:right;" in folded


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_c_frames_stand_between_them(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """A block that C calls stands between C's functions, and those that call them. The bytecode loop is nowhere."""
    file = stage.folder / "truth"
    how, environment = command(release, PROGRAM, file)
    stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    pid, _ = truth(file)
    check_callbacks(profile(arenadump, pid))


def check_callbacks(answer: dict[str, Any]) -> None:
    seen = 0
    for site in answer["sites"]:
        languages = [frame["language"] for frame in site["stack"]]
        names = [{each["name"] for each in frame["functions"]} for frame in site["stack"]]
        if "ruby" not in languages:
            continue
        if site["complete"]:
            assert all("rb_vm_exec" not in name for name in names)
        first = languages.index("ruby")
        if names[first] == {"<=>"} and blocks({"sites": [site]}):
            seen += 1
            assert first >= 2, "String's functions"
            assert languages[first + 1] == "native", "sort, which calls it"
            assert "ruby" in languages[first + 2 :]
    assert seen >= 2


@pytest.mark.nightly("emulation")
@pytest.mark.slow
@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_aarch64(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """There thread-local variables are above the thread pointer, tags are larger, and a call is another instruction."""
    file = stage.folder / "truth"
    ruby = interpreters.ruby(release, arch="arm64")
    environment = {"RUBYLIB": ruby.environment["RUBYLIB"], "ARENASCOPE_PROFILE": "exact,memory=64M"}
    process = emulated.start(stage, ruby.command(PROGRAM, file), **environment)
    _, stacks = truth(file)
    assert stacks.total() > 1000
    with emulated.core(stage, process) as core:
        answer = profile(arenadump, core)
    assert answer["unknown_interpreters"] == []
    compare(answer, stacks, release)
    check_callbacks(answer)


@pytest.mark.parametrize("flags", [[], ["-DHIDDEN"]], ids=["3.1", "3.4"])
def test_frames_that_are_not_what_they_say(stage: Stage, arenadump: harness.Arenadump, flags: list[str]) -> None:
    """No pointer is followed to where nothing is, and no frame is named that is none."""
    program = programs.build("forged_iseqs", "-rdynamic", *flags)
    process = stage.start([str(program)], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    pid, good, made = map(int, process.stdout.readline().split())
    answer = profile(arenadump, pid)
    found = blocks(answer)
    right, outer = ("right", 9, "f.rb"), ("outer", 9, "f.rb")
    assert found[right, outer] >= good
    assert found[()] > made / 2
    # Some of what is bad is not wrong: another place in the code, a frame twice, no line.
    assert {each[:1] for stack in found for each in stack} <= {("right",), ("outer",)}, found
    assert all(line in {8, 9, None} and file == "f.rb" for stack in found for _, line, file in stack), found
    assert found.total() == made
    (site,) = [site for site in answer["sites"] if of_ruby(site) == (right, outer)]
    assert site["stack"][0]["language"] == "ruby", "the function that seems to be the bytecode loop"
    assert answer["without_stack"]["count"] == 0


BUILT = {"3.1": ["OBJSPACE", "COUNT", "BLOCKING"], "3.4": ["OBJSPACE", "COUNT", "BLOCKING", "NAME", "PATH", "FIRST"]}


@pytest.mark.parametrize(("release", "place"), [(release, place) for release in BUILT for place in BUILT[release]])
def test_a_ruby_that_was_built_differently(
    stage: Stage, arenadump: harness.Arenadump, release: str, place: str
) -> None:
    """One of its functions reads elsewhere than those of its release do: none of its frames is believed."""
    hidden = ["-DHIDDEN"] if release == "3.4" else []
    process = stage.start(
        [str(programs.build("forged_iseqs", "-rdynamic", f"-DBUILT={place}", *hidden))], ARENASCOPE_PROFILE="exact"
    )
    assert process.stdout
    pid, _, made = map(int, process.stdout.readline().split())
    assert blocks(profile(arenadump, pid)) == {(): made}


def test_a_release_that_is_not_known_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Its frames are not guessed."""
    program = programs.build("forged_iseqs", "-rdynamic", "-DRELEASE=9")
    process = stage.start([str(program)], ARENASCOPE_PROFILE="exact")
    assert process.stdout
    process.stdout.readline()
    dump = stage.folder / "unknown.dump"
    arenadump.run("dump", "-o", str(dump), str(process.pid))
    for target in (process.pid, dump):
        answer = profile(arenadump, target)
        assert answer["unknown_interpreters"] == [{"language": "ruby", "release": "3.9"}]
        assert set(blocks(answer)) == {()}
    said = "Ruby 3.9: its frames are not known"
    assert said in arenadump.check("sites", dump)
    tell = [sys.executable, "-m", "arenascope", "profile"]
    assert said in subprocess.run([*tell, "top", str(dump)], capture_output=True, text=True, check=True).stdout
    page = stage.folder / "page.html"
    subprocess.run([sys.executable, "-m", "arenascope", "report", "-o", str(page), str(dump)], check=True)
    assert said in page.read_text()
    assert said in profile_of(read_profile(str(dump))).comments


def test_a_release_of_python_that_is_not_known_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Before 3.11, Python does not say in a variable which one it is."""
    command, environment = interpreters.old_python()
    process = stage.start(command, ARENASCOPE_PROFILE="exact", **environment)
    assert process.stdout
    process.stdout.readline()
    read = profile(arenadump, process.pid)
    assert read["unknown_interpreters"] == [{"language": "python", "release": None}]


WITHOUT_LOCK = """
require "fiddle"
kept = []
malloc = [true, false].map do |lock|
  Fiddle::Function.new(Fiddle.dlopen(nil)["malloc"], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP, need_gvl: lock)
end
define_method(:with) { 7.times { kept << malloc[0].call(9001) } }
define_method(:without) { 11.times { kept << malloc[1].call(9001) } }
3.times { with }
3.times { without }
GC.start
puts Process.pid
$stdout.flush
sleep
"""


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES[1:]))  # before, fiddle never keeps the lock
def test_a_thread_without_the_lock_is_not_read(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    how, environment = command(release, "-e", WITHOUT_LOCK, more=interpreters.FFI)
    process = stage.start(how, ARENASCOPE_PROFILE="exact", **environment)
    assert process.stdout
    found = blocks(profile(arenadump, int(process.stdout.readline())))
    assert {stack[0][0] if stack else "": count for stack, count in found.items()} == {
        "block (2 levels) in <main>": 21,
        "": 33,
    }


RUNS = """
kept = []
define_method(:grown) { kept << String.new(capacity: 9001) }
loop do
  grown
  sleep 0.001
  puts kept.size if (kept.size % 100).zero?
  $stdout.flush
end
"""


@pytest.mark.parametrize("release", tiers.daily(["3.1", "3.3", "3.4"], tiers.OF_DEBIAN_12, "runtimes"))
def test_a_process_that_runs(stage: Stage, arenadump: harness.Arenadump, release: str) -> None:
    """Another thread than those of Ruby searches for Ruby. Twice."""
    how, environment = command(release, "-e", RUNS)
    process = stage.start(how, LD_PRELOAD="", **environment)
    assert process.stdout
    process.stdout.readline()
    dump = stage.folder / "recorded.dump"
    for _ in range(2):
        arenadump.check("profile", process.pid, "-o", dump, "--for", "1s", "--exact")
        assert any(
            [each[0] for each in stack if each[0] != "loop"] == ["block in <main>", "block in <main>", "<main>"]
            for stack in blocks(profile(arenadump, dump))
        )
    assert process.poll() is None


ENDS = """
at_exit { 100.times { |i| KEPT << (i.to_s * 5000) } }
KEPT = (1..20000).map { |i| [i.to_s * 50] }
Thread.new { loop { KEPT.map(&:first) } }
"""


@pytest.mark.parametrize("release", tiers.daily(["3.1", "3.3", "3.4"], tiers.OF_DEBIAN_12, "runtimes"))
def test_ruby_ends(stage: Stage, release: str) -> None:
    """What the execution context leads to is freed, and its memory given back, before the process ends."""
    how, environment = command(release, "-e", ENDS)
    limits = {"ARENASCOPE_PROFILE": "exact", "MALLOC_TRIM_THRESHOLD_": "0"}
    for _ in range(3):
        done = subprocess.run(
            how, env=stage.environment(**limits, **environment), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
