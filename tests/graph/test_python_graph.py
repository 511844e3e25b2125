# SPDX-License-Identifier: MIT
"""A Python's objects in the graph, held against what the interpreter knows: who holds them, and what they retain."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from graph.test_types import LIST_TYPES
from runtimes.test_python_objects import RELEASES, waiting
from tools import command, cores, harness, tiers
from tools.running import started
from tools.tab import write

from arenascope.wire.dump import Dump

# Which words are left over depends on the processor, the environment and the seed of hashes; here none decides. Lists
# that an interpreter frees leave their addresses in its array of free lists, also when it takes them from there again,
# and when the collector clears the array: a new list or Session may lie there. `kept` fills this array, and that of
# dicts, and takes all that is in it. In the end `sort` overwrites 2 KiB of the stack below the interpreter's loop with
# addresses of 1, as it copies what it merges there, and `max` what is left where the module's frame computes.
#
# Sessions are held by one list, and weakly by another; Circles by nothing but themselves. `alone` is what a session
# retains: it, its name, its rows and their numbers. What is asked for at the end says where some objects are.
PROGRAM = """
import gc, os, sys, weakref
gc.collect()
gc.disable()
class Session:
    __slots__ = ("name", "rows", "__weakref__")
class Circle:
    __slots__ = ("me",)
class Pair:
    __slots__ = ("first", "last") # to the end of its block
class Shared:
    __slots__ = ("name",)
def block(size):
    return -size % 16 + size
def make(i):
    session = Session()
    session.name = "user-%d" % (i * 1000003)
    session.rows = [i + k / 8 for k in range(7)]
    del session.rows[6]
    return session
def alone(session):
    empty = [].__sizeof__() + 16
    return (block(sys.getsizeof(session)) + block(sys.getsizeof(session.name)) + block(empty)
            + block(sys.getsizeof(session.rows) - empty) + sum(block(sys.getsizeof(n)) for n in session.rows))
for again in range(2):
    kept = None
    kept = [[{i: []}] for i in range(200)]
sessions = [make(i) for i in range(3000)]
watching = [weakref.ref(session) for session in sessions]
numbers = []
for i in range(500):
    circle = Circle()
    circle.me = circle
    numbers.append(id(circle).to_bytes(8, "little")) # no reference
pairs = [Pair() for i in range(1000)]
for i, pair in enumerate(pairs):
    pair.last = i / 8
del pair
del circle
shared = Shared()
shared.name = "shared by %d" % 2
one, two = [shared], [shared]
del shared
([1] * 256 + [0] * 256).sort()
max(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
os.write(1, b".")
os.read(0, 1)
some = sessions[1234]
held = sum(block(sys.getsizeof(pair)) + block(sys.getsizeof(pair.last)) for pair in pairs)
print({"pairs": held, "alone": sum(map(alone, sessions)), "session": id(some), "name": id(some.name)})
"""


OLD_FRAMES = {"3.8", "3.9", "3.10"}  # they are objects


def ask(arenadump: harness.Arenadump, command: str, *arguments: Any) -> Any:
    return json.loads(arenadump.check(command, "--json", *arguments))


class Tree:
    """The branches of owners, each with those above it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.branches: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        way: list[dict[str, Any]] = []
        for branch in answer["branches"]:
            del way[branch["depth"] :]
            self.branches.append((branch, list(way)))
            way.append(branch)

    def of(self, kind: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        return [(branch, way) for branch, way in self.branches if branch["type"] == kind]

    def owners(self, kind: str) -> set[str]:
        return {way[0]["owner"]["kind"] for _, way in self.of(kind)}


def check(tree: Tree, says: dict[str, Any]) -> None:
    """Words left over in memory that Python has not filled lead to some sessions: these have two owners."""
    sessions, way = max(tree.of("__main__.Session"), key=lambda found: found[0]["count"])
    assert 0.95 * 3000 <= sessions["count"] <= sum(branch["count"] for branch, _ in tree.of("__main__.Session")) == 3000
    assert sessions["evidence"] == "ob_type"
    assert 0.95 * says["alone"] <= sessions["retained"] <= says["alone"]
    assert way[-1]["type"] == "list (items)"
    assert way[0]["owner"]["kind"] == "interpreter"
    circles = {way[0]["owner"]["kind"]: branch["count"] for branch, way in tree.of("__main__.Circle")}
    assert 490 <= circles["unreached_objects"] <= sum(circles.values()) <= 500
    pairs, _ = max(tree.of("__main__.Pair"), key=lambda found: found[0]["count"])
    assert 0.95 * says["pairs"] <= pairs["retained"] <= says["pairs"]
    ((_, way),) = tree.of("__main__.Shared")
    assert way[-1]["type"] == "dict (table)", "neither list holds it alone"


@pytest.mark.parametrize("mode", ["freeze", "clone"])
@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_who_holds_what(arenadump: harness.Arenadump, release: str, mode: str) -> None:
    with waiting(release, PROGRAM) as program:
        answer = ask(arenadump, "owners", f"--mode={mode}", program.pid)
        says = program.says()
    assert answer["exact"] or mode == "clone", "what a clone does not inherit is read of the process"
    assert answer["reached"] + answer["unreached"] == answer["graph"]["bytes"]
    assert 0 < answer["graph"]["objects"]["bytes"] < answer["graph"]["bytes"]
    check(Tree(answer), says)
    kinds = {branch["owner"]["kind"] for branch in answer["branches"] if branch["depth"] == 0}
    assert ("frames" in kinds) == (release not in OLD_FRAMES)


UNCOLLECTED = """
import gc, os
gc.disable()
class Request: pass
for i in range(2000):
    one, other = Request(), Request()
    one.other, other.other, one.body = other, one, bytearray(1000)
os.write(1, b".")
os.read(0, 1)
"""


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_garbage_is_the_same_everywhere(arenadump: harness.Arenadump, release: str) -> None:
    """What owners says that nothing holds is garbage for leaks and for why, and lost for none of them."""
    with waiting(release, UNCOLLECTED) as program:
        pid = program.pid
        owners = ask(arenadump, "owners", "--mode=freeze", pid)
        leaks = ask(arenadump, "leaks", "--mode=freeze", pid)
        (held,) = [
            each for each in owners["branches"] if each["owner"] and each["owner"]["kind"] == "unreached_objects"
        ]
        assert held["retained"] == leaks["garbage"]["bytes"] > 2000 * 1000
        said = arenadump.check("leaks", pid)
    assert leaks["direct"]["count"] + leaks["indirect"]["count"] < 100
    assert re.search(r"not lost: garbage not yet collected, or held in an unknown way +[\d,]+ ", said)


SWITCHED = """
import gc, os
class Request: pass
gc.disable()
for i in range(2000):
    one, other = Request(), Request()
    one.other, other.other = other, one
for does in (int, gc.collect, gc.enable, gc.freeze, gc.disable):
    does()
    os.write(1, b".")
    os.read(0, 1)
"""
SAID = "Python's collector is switched off (gc.disable): garbage in cycles stays until gc.collect()."


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_a_collector_that_is_switched_off(arenadump: harness.Arenadump, release: str) -> None:
    """It is said, and no more once it is on; what is told to collect the garbage does so."""
    with waiting(release, SWITCHED) as program:
        assert program.process.stdin
        assert program.process.stdout
        found = []
        for _ in range(5):
            leaks = ask(arenadump, "leaks", "--mode=freeze", program.pid)
            found.append((leaks["graph"]["collector_off"] == "cpython", leaks["garbage"]["count"] > 2000))
            for said in (arenadump.check("leaks", program.pid), command.here("leaks", program.pid).stdout):
                assert (SAID in " ".join(said.split())) == found[-1][0]
            program.process.stdin.write(b"x")
            program.process.stdin.flush()
            program.process.stdout.read(1)
    assert found == [(True, True), (True, False), (False, False), (False, False), (True, False)]


IN_CHUNKS = """
import gc, os, sys
class Order:
    def __init__(self, i):
        self.i = i + 0.5
        self.rows = [i] * 5
class Ring:
    __slots__ = ("me",)
gc.collect()
gc.disable()
BOOK = [Order(i) for i in range(20000)]
sets = [set(range(i % 50)) for i in range(3000)]
tables = [{k: k for k in range(i % 70)} for i in range(500)]
for i in range(1000):
    ring = Ring()
    ring.me = ring
del ring
os.write(1, b".")
os.read(0, 1)
kinds = {}
for each in gc.get_objects():
    name = type(each).__qualname__
    kinds[name] = kinds.get(name, 0) + 1
print({"types": kinds, "rows": id(BOOK[777].rows)})
"""


@pytest.mark.parametrize("allocator", ["malloc", "malloc_debug"])
@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_objects_that_are_chunks(arenadump: harness.Arenadump, release: str, allocator: str, tmp_path: Any) -> None:
    """Without pymalloc each object is a chunk of malloc's, whatever its size."""
    with waiting(release, IN_CHUNKS, PYTHONMALLOC=allocator) as program:
        types, owners, leaks = (ask(arenadump, each, program.pid) for each in ("types", "owners", "leaks"))
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    found = {each["type"]: each for each in types["types"]}
    assert not owners["not_searched"]["objects_of"]
    for name in ("set", "function", "module"):
        assert found[name]["count"] >= says["types"][name], name
    assert found["__main__.Order"]["count"] == 20_000
    assert found["__main__.Ring"]["count"] == 1_000
    assert found["float"]["count"] >= 20_000
    assert found["list (items)"]["count"] >= 20_000
    assert found["set (table)"]["count"] > 2_500
    assert leaks["garbage"]["count"] >= 990, "words that are left over may lead to a few"
    assert all(leaks[each]["count"] == 0 for each in ("direct", "indirect"))
    path = [step["type"] for step in ask(arenadump, "why", core, hex(says["rows"]))["path"]]
    assert path[-1] == "list"
    assert "__main__.Order" in path
    assert found[None]["bytes"] < 0.05 * types["graph"]["bytes"]


def test_more_objects_than_a_python_has_types(arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the lowest 4 GiB, where a program without PIE has its heap, an address may be a reference count."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    program = "kept = [[i, i + 0.5] for i in range(200_000)]; print('ready', flush=True); input()"
    with started(["/usr/bin/python3", "-c", program], "ready") as pid:
        found = {each["type"]: each["count"] for each in ask(arenadump, "types", pid)["types"]}
    assert found["list"] >= 200_000


def test_a_core(arenadump: harness.Arenadump, tmp_path: Any) -> None:
    with waiting("3.13", PROGRAM) as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    check(Tree(ask(arenadump, "owners", core)), says)


@pytest.mark.parametrize("release", tiers.runtimes(RELEASES))
def test_the_way_to_an_object(arenadump: harness.Arenadump, release: str, tmp_path: Any) -> None:
    with waiting(release, PROGRAM) as program:
        core = cores.gcore(program.pid, tmp_path)
        says = program.says()
    answer = ask(arenadump, "why", core, hex(says["name"]))
    assert answer["reached"]
    assert [step["type"] for step in answer["path"]][-3:] == ["list (items)", "__main__.Session", "str"]
    assert int(answer["path"][-1]["address"], 16) == says["name"]
    session = ask(arenadump, "why", core, hex(says["session"]))["path"][-1]
    assert 0 <= says["session"] - int(session["address"], 16) <= 32, "the collector's head is before it"


def test_pools_agree(arenadump: harness.Arenadump) -> None:
    """The nodes that are no chunks are the blocks in use."""
    with waiting("3.11", PROGRAM) as program:
        answer = ask(arenadump, "owners", "--mode=freeze", program.pid)
        (runtime,) = arenadump.summary(program.pid, "--mode=freeze")["runtimes"]
    assert answer["graph"]["objects"]["bytes"] == runtime["in_use"]


STALE = """
import ctypes, time
class Session:
    __slots__ = ("name", "rows")
sessions = [Session() for i in range(3000)]
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
chunk = libc.malloc(40)
ctypes.c_void_p.from_address(chunk).value = id(sessions)
ctypes.c_void_p.in_dll(libc, "optarg").value = chunk # getopt's, of libc
print("ready", flush=True)
time.sleep(600)
"""


def test_a_word_of_another_library_owns_no_object(arenadump: harness.Arenadump) -> None:
    with started(["python3", "-c", STALE], "ready") as pid:
        tree = Tree(ask(arenadump, "owners", "--mode=freeze", pid))
    sessions, way = max(tree.of("__main__.Session"), key=lambda found: found[0]["count"])
    assert sessions["count"] >= 2900
    assert way[0]["owner"]["kind"] == "interpreter"


# What libc's variable and an object of Python's both lead to: a chunk with the rest of an earlier one's words.
SHARED = STALE.replace("libc.malloc(40)", "libc.malloc(50000)").replace(
    "print(", "pointer = ctypes.c_void_p(chunk)\nprint("
)


def test_what_several_lead_to_owns_no_object(arenadump: harness.Arenadump) -> None:
    """The interpreter holds the list by words of its own; the chunk has two owners."""
    with started(["python3", "-c", SHARED], "ready") as pid:
        answer = ask(arenadump, "owners", "--mode=freeze", pid)
    sessions, way = max(Tree(answer).of("__main__.Session"), key=lambda found: found[0]["count"])
    assert sessions["count"] >= 2900
    assert way[0]["owner"]["kind"] == "interpreter"
    assert answer["several"]["bytes"] >= 50000
    # A word of ld.so's may by chance be an address in the list or the chunk, too.
    leading = [each["owner"] for each in answer["several"]["leading"] if each["bytes"] >= 50000]
    assert "interpreter" in [owner["kind"] for owner in leading]
    assert ("variable", "optarg") in [(owner["kind"], owner["name"]) for owner in leading]


RULE = "Objects that an interpreter surely holds count for it alone"


def test_the_rule_is_told(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started(["python3", "-c", SHARED], "ready") as pid:
        arenadump.check("dump", "--graph", "-o", tmp_path / "dump", pid)
        assert RULE in arenadump.check("owners", pid)
    assert RULE in write(tmp_path, Dump(tmp_path / "dump")).read_text()
    with started(["sh", "-c", "echo ready; while :; do sleep 1; done"], "ready") as pid:
        assert RULE not in arenadump.check("owners", pid)


LOST = """
import array, ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
held = array.array("Q", [libc.malloc(40000 + i) for i in range(10)])
for i in range(10):
    libc.malloc(60000)
print("ready", flush=True)
time.sleep(600)
"""


def test_only_what_c_code_forgot_is_lost(arenadump: harness.Arenadump) -> None:
    with started(["python3", "-c", LOST], "ready") as pid:
        answer = ask(arenadump, "leaks", "--mode=freeze", pid)
    sizes = {group["size"]: group["direct"]["count"] + group["suspects"]["count"] for group in answer["by_type"]}
    assert sizes.get(60016, 0) >= 9, "one may still be in a register"
    assert not [size for size in sizes if size and 40000 <= size < 41000]


NUMPY = """
import numpy, time
held = [numpy.arange(i, dtype=float) for i in range(2, 3000, 7)]
held += [numpy.zeros((1000, 40)), numpy.array([1, "x"] * 500)]
views = [array[1:] for array in held] + [numpy.frombuffer(bytearray(1000 + i), dtype="u1") for i in range(100)]
objects = numpy.array([object() for i in range(1000)], dtype=object)
for array in [*held, objects]:
    print("own", hex(array.ctypes.data))
for array in views:
    print("view", hex(array.ctypes.data))
print("ready", flush=True)
time.sleep(600)
"""


def python_with_numpy() -> str:
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode != 0:
        pytest.skip("python3-numpy is not installed")
    return python


def test_the_data_of_arrays() -> None:
    """An array of numpy's has a chunk for its data; one that shows another's data has none."""
    python = python_with_numpy()
    with subprocess.Popen([python, "-c", NUMPY], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            own: set[str] = set()
            views: set[str] = set()
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program died"
                kind, address = line.split()
                (own if kind == "own" else views).add(address)
            listed = subprocess.run([LIST_TYPES, str(process.pid)], capture_output=True, text=True, check=True).stdout
        finally:
            process.kill()
    lines = [line.split("\t") for line in listed.splitlines()]
    data = {address for address, _, _, name in lines if name == "numpy.ndarray (data)"}
    assert own <= data
    assert sorted(views & data) == []
    # What the 1,000 objects are held by is no text nor number: their array leads to them.
    objects = sum(1 for _, _, evidence, name in lines if evidence == "ob_type" and name == "object")
    assert objects >= 1000


CLASSES = """
import numpy, time
for cls in {type(numpy.dtype(letter)) for letter in "?bhilqBHILQefdgFDGSUVOMm"}:
    assert not type(cls).__flags__ & 1 << 9 and not cls.__flags__ & 1 << 9, "they are static"
    print("class", hex(id(cls)))
print("ready", flush=True)
time.sleep(600)
"""


def test_static_classes_in_chunks(arenadump: harness.Arenadump) -> None:
    """A class of numpy's dtypes has no head before it, though its type asks for one. Numpy's variables lead to it."""
    with subprocess.Popen([python_with_numpy(), "-c", CLASSES], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            classes = set()
            while (line := process.stdout.readline()) != "ready\n":
                assert line, "the program died"
                classes.add(line.split()[1])
            listed = subprocess.run([LIST_TYPES, str(process.pid)], capture_output=True, text=True, check=True).stdout
            tree = Tree(ask(arenadump, "owners", "--mode=freeze", process.pid))
        finally:
            process.kill()
    lines = [line.split("\t") for line in listed.splitlines()]
    named = {address for address, _, evidence, name in lines if evidence == "ob_type" and name == "numpy._DTypeMeta"}
    assert len(classes) >= 20
    assert classes <= named
    # These classes lead to methods, for casts from each to each. (A table of numpy's own holds one class as well.)
    for kind, least in (("numpy._DTypeMeta", 20), ("numpy._ArrayMethod", 1000)):
        found = [(branch["count"], way[0]["owner"]["kind"]) for branch, way in tree.of(kind)]
        total = sum(count for count, _ in found)
        assert total >= least
        assert sum(count for count, owner in found if owner == "interpreter") >= 0.9 * total


def test_a_file_of_a_core_is_opened_once(tmp_path: Path) -> None:
    """The names of static types are in files, of which a core has no pages: they are hundreds."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed (scripts/install-deps test)")
    with started(
        ["/usr/bin/python3", "-c", "import decimal, json, ssl, time; print('ready', flush=True); time.sleep(600)"],
        "ready",
    ) as pid:
        core = cores.gcore(pid, tmp_path)
    trace = tmp_path / "trace"
    calls = ["-f", "-qq", "-e", "trace=open,openat,openat2"]
    snapshot = [str(harness.arenadump_path()), "summary", "--objects", str(core)]
    subprocess.run(["strace", *calls, "-o", trace, *snapshot], capture_output=True, check=True, timeout=300)
    opened = Counter(re.findall(r'"([^"]*/(?:python3[^"/]*|[^"/]*\.so[^"/]*))".*= \d', trace.read_text()))
    assert any("/python3" in path for path in opened)
    assert max(opened.values()) <= 20
