# SPDX-License-Identifier: MIT
"""leaks, owners and why on a program that knows who holds its objects; LeakSanitizer and Valgrind find the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools import debian, harness, odd, programs, tiers
from tools.cores import gcore
from tools.running import started

from arenascope.cli.main import cli, main
from arenascope.errors import Code
from arenascope.wire.graph import Leaks, Owners, Types, Why
from arenascope.wire.json_decode import parse

HEADER = 16
WHEEL = "(anonymous namespace)::Wheel"
CAR = "(anonymous namespace)::Car"
TEXT = "text (pointer, length, capacity)"
ARRAY = "array (begin, end, limit)"
LOST = ("direct", "indirect")


class Truth:
    """tests/programs/graph.cc, and what it says of its objects: what holds each → addresses."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.of: dict[str, list[str]] = defaultdict(list)
        assert self.process.stdout
        for line in self.process.stdout:
            if line == "ready\n":
                odd.wait_for_read(self.pid)
                return
            what, address = line.rstrip().split("\t")
            self.of[what].append(address)
        raise AssertionError(f"the program died: {self.process.wait()}")

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def truth(*flags: str, compiler: str = "g++") -> Iterator[Truth]:
    program = programs.build("graph", *flags, compiler=compiler)
    made = Truth(program)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


@pytest.fixture(scope="module")
def program() -> Iterator[Truth]:
    with truth() as made:
        yield made


def leaks(arenadump: harness.Arenadump, target: int | Path, *options: str) -> dict[str, Any]:
    return json.loads(arenadump.check("leaks", "--json", *options, target))  # type: ignore[no-any-return]


def why(arenadump: harness.Arenadump, target: int | Path, address: str) -> dict[str, Any]:
    return json.loads(arenadump.check("why", "--json", target, address))  # type: ignore[no-any-return]


def check_lost(found: dict[str, Any], made: Truth) -> None:
    """A circle of two is lost besides what the program names: which of the two directly is nobody's to say."""
    assert found["direct"]["count"] == len(made.of["direct"]) + 1
    assert found["indirect"]["count"] == len(made.of["indirect"]) + 1
    assert found["suspects"]["count"] == 0
    for kind in (*LOST, "suspects"):
        assert found[kind]["count"] == sum(group[kind]["count"] for group in found["by_type"])
        assert found[kind]["bytes"] == sum(group[kind]["bytes"] for group in found["by_type"])


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("g++", ()),
        ("g++", ("-O0",)),
        ("g++", ("-O2", "-s")),
        ("g++", ("-O2", "-no-pie")),
        pytest.param("clang++", ("-O2",), marks=pytest.mark.nightly("compilers")),
    ],
)
def test_what_is_lost_is_the_truth(
    mode: str, compiler: str, flags: tuple[str, ...], arenadump: harness.Arenadump
) -> None:
    with truth(*flags, compiler=compiler) as made:
        found = leaks(arenadump, made.pid, f"--mode={mode}")
        assert found["exact"] == (mode == "freeze"), "a clone shares its shared memory with the target, which runs on"
        check_lost(found, made)


def test_what_is_lost_in_a_core(program: Truth, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    core = gcore(program.pid, tmp_path)
    check_lost(leaks(arenadump, core), program)
    assert why(arenadump, core, program.of["tagged"][0])["owner"]["name"] == "tagged"


def test_each_object_is_held_or_lost(program: Truth, arenadump: harness.Arenadump) -> None:
    for what, addresses in program.of.items():
        for address in addresses[:: max(1, len(addresses) // 5)]:
            found = why(arenadump, program.pid, address)
            assert found["reached"] == (what not in LOST), f"{what} {address}"
            last = found["path"][-1]
            assert 0 <= int(address, 16) - int(last["address"], 16) < last["size"]
            assert (found["owner"] is None) == (what in LOST)


@pytest.mark.parametrize(
    ("what", "kind", "name"),
    [
        ("variable", "variable", "global_wheel"),
        ("Wheel", "variable", "global_wheel"),
        ("map", "variable", "by_name[abi:cxx11]"),
        ("list", "variable", "members"),
        ("hook", "variable", "hooks"),
        ("tagged", "variable", "tagged"),
        ("second base", "variable", "second_base"),
        ("past the end", "variable", "past_the_end"),
        ("arena", "variable", "arena"),
        ("in an arena", "variable", "arena"),
        ("vector", "variable", "large"),
        ("thread_local", "thread_variables", None),
        ("shared memory", "shared_memory", None),
        ("anonymous memory", "memory", None),
        ("stack", "stack", None),
    ],
)
def test_who_holds_it(what: str, kind: str, name: str | None, program: Truth, arenadump: harness.Arenadump) -> None:
    found = why(arenadump, program.pid, program.of[what][0])
    assert (found["owner"]["kind"], found["owner"]["name"]) == (kind, name)


def test_the_way_leads_from_word_to_word(program: Truth, arenadump: harness.Arenadump) -> None:
    found = why(arenadump, program.pid, program.of["Wheel"][0])
    wheel, text = found["path"]
    assert (wheel["type"], wheel["evidence"]) == (WHEEL, "vtable")
    assert (wheel["offset"], wheel["leads_to"]) == (8, 0), "the name lies behind the vtable's address"
    assert (text["type"], text["evidence"]) == (TEXT, "pattern")
    with Path(f"/proc/{program.pid}/mem").open("rb") as memory:
        memory.seek(int(found["word"], 16))
        assert int.from_bytes(memory.read(8), "little") == int(wheel["address"], 16) + found["leads_to"]
        memory.seek(int(wheel["address"], 16) + wheel["offset"])
        assert int.from_bytes(memory.read(8), "little") == int(text["address"], 16) + wheel["leads_to"]
    second = why(arenadump, program.pid, program.of["second base"][0])
    assert second["leads_to"] == 16, "the second base lies behind the first"
    tagged = why(arenadump, program.pid, program.of["tagged"][0])
    assert tagged["leads_to"] == 7


def unreached(arenadump: harness.Arenadump, pid: int, address: str) -> str | None:
    """Why nothing leads to a chunk."""
    answer: dict[str, Any] = json.loads(arenadump.check("why", "--json", pid, address))
    assert answer["reached"] == (answer["unreached"] is None)
    return answer["unreached"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("flags", [(), ("-s",)])
def test_types_of_what_is_lost(flags: tuple[str, ...], arenadump: harness.Arenadump) -> None:
    """A stripped program has its type_info all the same."""
    with truth(*flags) as made:
        found = leaks(arenadump, made.pid)
        named = {group["type"]: group for group in found["by_type"] if group["evidence"] == "vtable"}
        seen = {group["type"]: group for group in found["by_type"] if group["evidence"] == "pattern"}
        assert seen.keys() == {TEXT, ARRAY}
        assert seen[ARRAY]["indirect"]["count"] == 1
        assert named[WHEEL]["direct"]["count"] == 100
        assert named[CAR]["direct"]["count"] == 1
        (circle,) = [group for name, group in named.items() if name not in {WHEEL, CAR}]
        assert (circle["direct"]["count"], circle["indirect"]["count"]) == (1, 1)
        assert circle["in_cycles"] == 2
        assert named[WHEEL]["in_cycles"] == named[CAR]["in_cycles"] == 0
        cycles = found["in_cycles"]["direct"]["count"] + found["in_cycles"]["indirect"]["count"]
        assert cycles == sum(group["in_cycles"] for group in found["by_type"]) > 2, "and a std::map's nodes"
        said = arenadump.check("leaks", made.pid)
        assert re.search(rf"lost in a cycle: they point to each other +{cycles} ", said)
        assert unreached(arenadump, made.pid, circle["example"]) == "lost_in_a_cycle"
        assert unreached(arenadump, made.pid, named[WHEEL]["example"]) == "lost"
        assert unreached(arenadump, made.pid, seen[ARRAY]["example"]) == "lost_with_others"
        assert unreached(arenadump, made.pid, made.of["Wheel"][0]) is None
        assert named.keys() == {WHEEL, CAR, circle["type"]}
        assert "Friend" in circle["type"]
        assert named[WHEEL]["example"] in made.of["direct"]


def test_types_without_rtti(arenadump: harness.Arenadump) -> None:
    with truth("-fno-rtti") as made:
        found = leaks(arenadump, made.pid)
        check_lost(found, made)
        assert not any(group["type"] in {WHEEL, CAR} for group in found["by_type"])


def test_owners_retain_what_only_they_hold(program: Truth, arenadump: harness.Arenadump) -> None:
    found = json.loads(arenadump.check("owners", "--json", program.pid))
    graph = found["graph"]
    assert found["reached"] + found["unreached"] == graph["bytes"]
    lost = leaks(arenadump, program.pid)
    assert found["unreached"] == lost["direct"]["bytes"] + lost["indirect"]["bytes"]
    top = [branch for branch in found["branches"] if branch["depth"] == 0]
    assert sum(branch["retained"] for branch in top) == found["reached"]
    assert sum(branch["bytes"] for branch in found["branches"]) == found["reached"]
    sizes = arenadump.chunks(program.pid)["in_use"]
    held = {branch["owner"]["name"]: branch for branch in top}
    expected = [*program.of["arena"], *program.of["in an arena"]]
    assert held["arena"]["retained"] == sum(sizes[int(address, 16) - HEADER] for address in expected)
    assert held["hooks"]["retained"] == sum(sizes[int(address, 16) - HEADER] for address in program.of["hook"])
    for name, what in (("held_besides", "besides"), ("with_room", "room")):
        assert held[name]["retained"] == sum(sizes[int(address, 16) - HEADER] for address in program.of[what]), name
    assert held["global_wheel"]["retained"] == sum(
        sizes[int(address, 16) - HEADER] for address in (program.of["variable"][0], *program.of["Wheel"])
    )


def test_what_lies_behind_a_text_holds_nothing(arenadump: harness.Arenadump) -> None:
    """A string has room for 100 bytes, and a text of 60; an address is left over between the two.

    Two are left over behind a vector's only number, as malloc has rounded up.
    """
    with started([str(programs.build("slack", "-O0"))], "ready") as pid:
        by_type = json.loads(arenadump.check("leaks", "--json", pid))["by_type"]
    lost = [each for each in by_type if 700 < each["size"] < 800]
    assert [each["direct"]["count"] + each["suspects"]["count"] for each in lost] == [3]


HOLDS = {
    "python3": "import sys; kept = [object()] * 2_000_000; print('ready', flush=True); sys.stdin.read()",
    "ruby": "kept = (1..50_000).map { |i| 'value' * 200 }; puts 'ready'; $stdout.flush; $stdin.read",
}


@pytest.mark.parametrize("name", ["python3", *["ruby"] * 8])
def test_a_runtime_holds_its_objects_memory(name: str, arenadump: harness.Arenadump) -> None:
    """Python's arenas may lie right behind the .bss of a library, which does not hold what they do.

    A page of Ruby's begins right behind a large chunk in one run of three, with its first slot where the chunk's memory
    ends; and in the same mapping as thread-local variables.
    """
    with started([name, "-c" if name == "python3" else "-e", HOLDS[name]], "ready") as pid:
        found = json.loads(arenadump.check("owners", "--json", pid))
        sizes = arenadump.chunks(pid)["in_use"]
        table = max(sizes.values()) if name == "python3" else Counter(sizes.values()).most_common(1)[0][0]
        kept = next(chunk for chunk, size in sizes.items() if size == table)
        way = why(arenadump, pid, hex(kept + HEADER))
    assert way["owner"]["kind"] in {"variable", "thread_variables"}
    assert way["path"][-1]["type"] == ("list (items)" if name == "python3" else "String (bytes)")
    top = [branch for branch in found["branches"] if branch["depth"] == 0]
    retained: dict[str, int] = defaultdict(int)
    for branch in top:
        retained[branch["owner"]["kind"]] += branch["retained"]
    # Numbers that resemble pointers into a large chunk may make it several owners'.
    assert retained["interpreter"] + retained["several"] > 15_000_000
    assert retained["variable"] < 5_000_000
    assert sum(branch["owner"]["kind"] == "interpreter" for branch in top) == 1


def sanitized(compiler: str) -> str:
    path = programs.build("graph", "-fsanitize=leak", "-DWITH_LSAN", compiler=compiler)
    done = subprocess.run([path], capture_output=True, text=True, timeout=120, check=False)
    return done.stderr


@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_leak_sanitizer_agrees(compiler: str, arenadump: harness.Arenadump) -> None:
    said = sanitized(compiler)
    (summed,) = re.findall(r"leaked in (\d+) allocation", said)
    direct = sum(map(int, re.findall(r"Direct leak of \d+ byte\(s\) in (\d+) object", said)))
    with truth(compiler=compiler) as made:
        found = leaks(arenadump, made.pid)
    assert found["direct"]["count"] + found["indirect"]["count"] == int(summed)
    # It calls all of a circle indirect: two that point to each other, and a std::map, to which its nodes point.
    assert found["direct"]["count"] == direct + 2


def test_valgrind_agrees(arenadump: harness.Arenadump) -> None:
    valgrind = shutil.which("valgrind")
    if not valgrind:
        pytest.skip("valgrind is not installed")
    path = programs.build("graph")
    done = subprocess.run(
        [valgrind, "--leak-check=full", path], input="", capture_output=True, text=True, timeout=300, check=False
    )
    lost = {
        kind: int(blocks.replace(",", ""))
        for kind, blocks in re.findall(r"(definitely|indirectly) lost: [\d,]+ bytes in ([\d,]+) blocks", done.stderr)
    }
    with truth() as made:
        found = leaks(arenadump, made.pid)
    # To Valgrind a pointer behind the last byte of a block does not hold it.
    assert found["direct"]["count"] == lost["definitely"] - len(made.of["past the end"])
    assert found["indirect"]["count"] == lost["indirectly"]


def test_in_a_storm_of_malloc(own_libc: debian.Libc, actor: Path, arenadump: harness.Arenadump) -> None:
    """Threads that allocate have the only pointers to their blocks in registers, and none of these is lost.

    The program forgets 20,000 others. A word that is left over may lead to some of them.
    """
    command = own_libc.command(actor, "hold", "20000", "200", "storm", "4", "sleep")
    with subprocess.Popen(command) as process:
        try:
            while len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 5:  # the storm begins when all are held
                assert process.poll() is None
                time.sleep(0.01)
            exact = 0
            for mode in ("freeze", "clone") * 5:
                found = leaks(arenadump, process.pid, f"--mode={mode}")
                if not found["exact"]:  # it says so
                    continue
                exact += 1
                direct, indirect, suspects = (found[kind]["count"] for kind in (*LOST, "suspects"))
                assert 20000 - 8 <= direct + suspects <= direct + 8
                assert direct <= 20000, "a block that a thread is about to use is not lost"
                assert indirect == 0
            assert exact > 0
        finally:
            process.kill()


def test_a_running_process_is_not_exact(program: Truth, arenadump: harness.Arenadump) -> None:
    found = leaks(arenadump, program.pid, "--mode=live")
    assert not found["exact"]
    assert "not exact" in arenadump.check("leaks", "--mode=live", program.pid)


def test_a_dump_has_no_contents(program: Truth, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    arenadump.check("dump", program.pid, "-o", dump)
    for command in ("leaks", "owners", "why"):
        done = arenadump.run(command, dump, *([program.of["arena"][0]] if command == "why" else []))
        assert done.returncode == Code.USAGE
        assert "give a process or a core" in done.stderr


@pytest.mark.parametrize("address", ["0x1000", "12", "", "0x", "0xffffffffffffffff"])
def test_no_chunk_is_there(address: str, program: Truth, arenadump: harness.Arenadump) -> None:
    done = arenadump.run("why", program.pid, address)
    assert done.returncode == Code.USAGE
    assert done.stderr.startswith("arenadump: ")


def test_tables(program: Truth, arenadump: harness.Arenadump) -> None:
    """The small program's own words."""
    assert WHEEL in arenadump.check("leaks", program.pid)
    assert "variable arena (" in arenadump.check("owners", program.pid)
    said = arenadump.check("why", program.pid, program.of["Wheel"][0])
    assert "variable global_wheel (" in said
    assert "at +8, (anonymous namespace)::Wheel::name._M_dataplus._M_p, it points to +0 of" in said
    assert "nothing points to it" in arenadump.check("why", program.pid, program.of["direct"][0])


def test_types_are_those_of_owners_and_of_what_is_lost(program: Truth, arenadump: harness.Arenadump) -> None:
    pid = str(program.pid)
    answer = json.loads(arenadump.check("types", "--json", pid))
    assert not any(each["others"] for each in answer["types"])
    sums = {each["type"]: [each["count"], each["bytes"]] for each in answer["types"]}
    assert [sum(column) for column in zip(*sums.values(), strict=True)] == [
        answer["graph"]["chunks"],
        answer["graph"]["bytes"],
    ]
    for branch in json.loads(arenadump.check("owners", "--json", pid))["branches"]:
        if not branch["owner"]:
            sums[branch["type"]][0] -= branch["count"]
            sums[branch["type"]][1] -= branch["bytes"]
    for lost in json.loads(arenadump.check("leaks", "--json", pid))["by_type"]:
        for kind in ("direct", "indirect"):
            sums[lost["type"]][0] -= lost[kind]["count"]
            sums[lost["type"]][1] -= lost[kind]["bytes"]
    assert WHEEL in sums
    assert set(map(tuple, sums.values())) == {(0, 0)}
    assert WHEEL in arenadump.check("types", pid)


def test_why_takes_the_example_of_a_type(program: Truth, arenadump: harness.Arenadump) -> None:
    types = json.loads(arenadump.check("types", "--json", program.pid))["types"]
    text = arenadump.check("types", program.pid)
    reached = 0
    for each in types:
        found = json.loads(arenadump.check("why", program.pid, each["example"], "--json"))
        assert found["address"] == each["example"]
        assert f" {each['example']} " in text
        assert not found["reached"] or found["path"][-1]["type"] == each["type"]
        reached += found["reached"]
    assert reached > 1


def test_the_python_command(program: Truth, tmp_path: Path, arenadump: harness.Arenadump) -> None:
    os.environ["ARENASCOPE_ARENADUMP"] = str(arenadump.path)
    runner = CliRunner()
    pid = str(program.pid)
    shown = runner.invoke(cli, ["leaks", pid])
    assert WHEEL in shown.output
    assert parse(Leaks, runner.invoke(cli, ["leaks", pid, "--json"]).output).direct.count == 107
    assert main(["leaks", pid, "--fail-over", "1G"]) == Code.OK
    assert main(["leaks", pid, "--fail-over", "64K"]) == Code.LEAKS
    suppressions = tmp_path / "suppressions"
    suppressions.write_text("# all\nleak:*\n")
    assert main(["leaks", pid, "--fail-over", "0", "--suppressions", str(suppressions)]) == Code.OK
    suppressions.write_text("leak:^(anonymous namespace)::Wheel$\n")
    assert main(["leaks", pid, "--fail-over", "0", "--suppressions", str(suppressions)]) == Code.LEAKS
    suppressions.write_text("race:Wheel\n")
    assert main(["leaks", pid, "--suppressions", str(suppressions)]) == Code.USAGE
    assert main(["leaks", pid, "--fail-over", "much"]) == Code.USAGE
    assert "variable arena" in runner.invoke(cli, ["owners", pid]).output
    assert WHEEL in runner.invoke(cli, ["types", pid]).output
    types = parse(Types, runner.invoke(cli, ["types", pid, "--json"]).output)
    assert sum(each.count for each in types.types) == types.graph.chunks
    assert parse(Owners, runner.invoke(cli, ["owners", pid, "--json"]).output).reached > 0
    said = runner.invoke(cli, ["why", pid, program.of["in an arena"][0]]).output
    assert "variable arena" in said
    found = parse(Why, runner.invoke(cli, ["why", pid, program.of["direct"][0], "--json"]).output)
    assert not found.reached
    assert found.owner is None


# --- Memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["leaks", "owners"])
def test_a_limit_for_memory_is_kept(arenadump: harness.Arenadump, program: Truth, command: str) -> None:
    """Wherever memory ends, the answer is that it has ended."""
    codes = []
    for kib in [*range(100, 40_000, 700), 1 << 20]:
        words = [str(arenadump.path), command, "--json", f"--max-memory={kib}K", str(program.pid)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
        codes.append(done.returncode)
        if done.returncode != 0:
            assert done.returncode == Code.NO_MEMORY, f"with {kib} KiB: {done.stderr}"
            assert "--max-memory is the limit" in done.stderr
    assert codes[0] == Code.NO_MEMORY
    assert codes[-1] == 0
    assert program.process.poll() is None
