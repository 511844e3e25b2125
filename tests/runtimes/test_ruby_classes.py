# SPDX-License-Identifier: MIT
"""A Ruby's objects by class, and those that its last GC has not marked: held against what ObjectSpace says of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tools import cores, harness, interpreters, tiers
from tools.waiting import Waiting, waiting

from arenascope.schema import schema

SCHEMA = schema("summary")
GARBAGE = 20_000

# It has a class of each kind, and garbage. Then it waits without making another object, and says what it has.
PROGRAM = """
require "objspace"
require "json"
module Outer
  class Inner; end
  Point = Struct.new(:x, :y)
end
module Mixed; end
class Base; end
class Derived < Base
  include Mixed
  prepend Comparable
  def self.of_class; end
end
nameless = Class.new
named_later = Class.new
NamedLater = named_later
late = Class.new { @a, @b, @c, @d = 1, 2, 3, 4 }
LateWithVariables = late
$kept = [
  Array.new(1000) { Outer::Inner.new }, Array.new(500) { |i| Outer::Point.new(i, i) }, Array.new(700) { Derived.new },
  Array.new(300) { nameless.new }, Array.new(200) { NamedLater.new }, Array.new(100) { LateWithVariables.new },
  Array.new(50) { |i| Base.new.tap { |base| base.define_singleton_method(:own) { i } } },
  Array.new(400) { |i| Class.new(String).new("x" * (i * 7)) }
]
GC.start
GC.disable
made_before = GC.stat(:total_allocated_objects)
garbage = Array.new(GARBAGE) { |i| "garbage " * 20 }
garbage = nil
$stdout.sync = true
buffer = String.new(capacity: 10)
made = GC.stat(:total_allocated_objects) - made_before
2.times do
  $stdout.syswrite(".")
  $stdin.sysread(1, buffer)
end
counts = Hash.new(0)
class_of = Kernel.instance_method(:class)
ObjectSpace.each_object(BasicObject) { |each| counts[class_of.bind_call(each)] += 1 }
singletons = ObjectSpace.each_object(Class).count(&:singleton_class?)
names = counts.map { |klass, count| [klass.name, count] }
puts JSON.generate([names, singletons, made])
""".replace("GARBAGE", str(GARBAGE))


def arenascope(*arguments: str | Path) -> str:
    """What the program prints, wide enough for each table."""
    return subprocess.run(
        [sys.executable, "-m", "arenascope", *arguments],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def said_by(program: Waiting) -> tuple[Counter[str | None], int, int]:
    """Objects by the name of their class, singleton classes, and objects made since the last GC."""
    names, singletons, made = program.says()
    counts: Counter[str | None] = Counter()
    for name, count in names:
        counts[name] += count
    return counts, singletons, made


def check(summary: dict[str, Any], says: tuple[Counter[str | None], int, int]) -> None:
    jsonschema.validate(summary, SCHEMA)
    counts, singletons, made = says
    counts = counts.copy()
    objects = summary["ruby"]["objects"]
    classes = objects["classes"]
    found: Counter[str | None] = Counter()
    for each in classes:
        if each["kind"] in {"named", "anonymous"}:
            found[each["name"]] += each["count"]
    # To count them it makes some itself: a few of these four, and the table of counts.
    for own in ("String", "Hash", "Array", "Proc", "Enumerator", "UnboundMethod", "Method", "Object", "Thread::Mutex"):
        assert 0 <= counts.pop(own, 0) - found.pop(own, 0) <= 2 * len(counts) + 50, own
    counts["Class"] -= singletons
    assert dict(found) == {name: count for name, count in counts.items() if count}
    assert found["Outer::Inner"] == 1000
    assert found[None] == 700
    kinds = Counter(each["kind"] for each in classes)
    assert kinds["singleton"] == 1
    assert kinds["internal"] >= 1
    # By type, and in all, they are the objects by type.
    for of_type in objects["types"]:
        parts = [each for each in classes if each["type"] == of_type["name"]]
        for name in ("count", "bytes", "owned"):
            assert sum(each[name] for each in parts) == of_type[name], (of_type["name"], name)
    assert objects["not_marked"] == sum(each["not_marked"] for each in classes) >= GARBAGE
    # Nothing is said of objects without a write barrier, and some never get older: up to 81 of 40,000 were seen.
    assert 0.99 * made <= objects["not_marked"] <= 1.01 * made
    kept = {"Outer::Inner", "Outer::Point", "Derived", "NamedLater", "LateWithVariables", "Base"}
    assert not any(each["not_marked"] for each in classes if each["name"] in kept)
    assert objects["not_marked_bytes"] == sum(each["not_marked_bytes"] for each in classes) >= GARBAGE * 160
    sums = [each["bytes"] + each["owned"] for each in classes]
    assert sums == sorted(sums, reverse=True)


@pytest.mark.parametrize("release", tiers.runtimes(interpreters.RUBIES))
def test_objects_are_of_the_classes_that_ruby_says(arenadump: harness.Arenadump, release: str, tmp_path: Path) -> None:
    with waiting(release, PROGRAM, tmp_path) as program:
        summary = arenadump.summary(program.pid, "--objects")
        says = said_by(program)
    check(summary, says)


def test_a_core_and_a_dump(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.1", PROGRAM, tmp_path) as program:
        core = cores.gcore(program.pid, tmp_path)
        arenadump.check("dump", "--objects", "-o", tmp_path / "dump", program.pid)
        says = said_by(program)
    check(arenadump.summary(core, "--objects"), says)
    check(arenadump.summary(tmp_path / "dump"), says)


def test_every_surface_has_the_classes_and_the_garbage(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with waiting("3.3", PROGRAM, tmp_path) as program:
        arenadump.check("dump", "--objects", "-o", tmp_path / "dump", program.pid)
    said = json.loads(arenascope("summary", "--json", tmp_path / "dump"))
    unmarked = said["ruby"]["objects"]["not_marked"]
    words = f"{unmarked:,} of Ruby's "
    assert any(words in each["evidence"] and "made since its last GC" in each["evidence"] for each in said["findings"])
    shown = arenascope("summary", tmp_path / "dump")
    assert "Ruby's objects by class" in shown
    assert re.search(r"String +T_STRING +[\d,]+ +4\d,\d{3} ", shown)
    table = arenadump.check("summary", tmp_path / "dump").partition("Ruby's objects by class\n")[2]
    (strings,) = (each for each in said["ruby"]["objects"]["classes"] if each["name"] == "String")
    assert re.search(rf"^ +{strings['count']} +{strings['not_marked']} .* String, T_STRING$", table, re.MULTILINE)
    assert re.search(r"^  and \d+ more classes: summary --json has them all$", table, re.MULTILINE)
    arenascope("report", tmp_path / "dump", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Ruby's objects by class" in page.replace("&#39;", "'")
    assert "<code>Outer::Inner</code>" in page
    assert "<code>(class without a name)</code>" in page


def test_without_a_mark_it_is_said_that_garbage_cannot_be_told(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    ruby = interpreters.ruby("3.1")
    script = tmp_path / "no_gc.rb"
    script.write_text("GC.disable; a = Array.new(200_000) { |i| 'x' * 100 }; puts :ready; $stdout.flush; sleep; a")
    with subprocess.Popen(ruby.command(script), env=ruby.environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        objects = arenadump.summary(process.pid, "--objects")["ruby"]["objects"]
        process.kill()
    assert sum(each["count"] for each in objects["classes"]) > 200_000
    assert objects["not_marked"] is objects["not_marked_bytes"] is None
