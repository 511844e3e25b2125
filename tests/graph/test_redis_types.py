# SPDX-License-Identifier: MIT
"""Types of redis' chunks: of redis itself, and of two programs that have chunks that are nearly redis'.

These are tests/programs/dicts.c and late_dicts.c (as of redis 8.2 and later).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from graph.test_libraries import check, running
from graph.test_types import LIST_TYPES
from tools import programs, redises, tiers

KEYS = 1000  # of each kind
MANY = 2000  # elements of a large key
FILL = f"""
for i = 1, {KEYS} do
  redis.call('set', 'raw' .. i, string.rep('x', 60 + i))
  redis.call('set', 'text' .. i, 'some text ' .. i)
  redis.call('set', 'number' .. i, 100000 + i)
  redis.call('sadd', 'numbers' .. i, i, i + 70000, -i * 3)
  redis.call('hset', 'hash' .. i, 'field', 'value' .. i, 'number', i * 100000 - 50000000)
  redis.call('rpush', 'list' .. i, 'a', 'b' .. i, string.rep('y', i), i, -i)
end
for i = 1, {MANY} do
  redis.call('hset', 'fields', 'field' .. i, 'value' .. i)
  redis.call('sadd', 'members', 'member' .. i)
  redis.call('rpush', 'elements', 'element' .. i)
end
return redis.call('dbsize')
"""


def ask(socket: Path, *words: str, lines: str | None = None) -> str:
    command = ["redis-cli", "-s", str(socket), *words]
    return subprocess.run(command, capture_output=True, text=True, input=lines, check=True).stdout


def installed() -> list[str]:
    """The machine's redis, on glibc's malloc."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    return ["env", "LD_PRELOAD=libc.so.6", "redis-server"]


def of_suite(name: str, suite: str, folder: Path) -> list[str]:
    return redises.command(name, suite, folder)


@contextmanager
def redis(command: list[str], folder: Path) -> Iterator[tuple[int, Path]]:
    """A server, filled: process and socket."""
    socket = folder / "socket"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with subprocess.Popen([*command, *options, "--enable-debug-command", "local"], stdout=subprocess.DEVNULL) as server:
        try:
            while not socket.exists():
                if server.poll() is not None:
                    pytest.xfail("the redis of this release runs on no other malloc than its own")
                time.sleep(0.05)
            assert int(ask(socket, "eval", FILL, "0")) == 6 * KEYS + 3
            yield server.pid, socket
        finally:
            server.kill()


def read_text(memory: bytes) -> bytes:
    """The text of a string, by its header."""
    for kind, size in ((1, 1), (2, 2), (3, 4), (4, 8)):
        length, room = (int.from_bytes(memory[at : at + size], "little") for at in (0, size))
        header = 2 * size + 1
        if memory[header - 1] == kind and length <= room and len(memory) - 48 <= header + room < len(memory):
            return memory[header : header + length]
    return memory[1 : 1 + (memory[0] >> 3)]


def room(memory: bytes, header: int) -> int:
    """The bytes that a string with such a header takes of its chunk."""
    if header == 1:
        return 1 + (memory[0] >> 3) + 1
    return header + int.from_bytes(memory[header // 2 : header - 1], "little") + 1


@pytest.mark.parametrize("release", ["installed", "trixie"])
def test_what_redis_says_of_its_objects(release: str, tmp_path: Path) -> None:
    """Redis tells where each object is, and what is in it. That of trixie is 8.0, with dicts of keys alone."""
    command = installed() if release == "installed" else of_suite("redis", release, tmp_path)
    with redis(command, tmp_path) as (pid, socket):
        done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
        keys = ask(socket, "keys", "*").split()
        answer = ask(socket, lines="".join(f"debug object {key}\n" for key in keys)).splitlines()
        names, sizes, texts, shared = {}, Counter[str](), set[bytes](), 0
        with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
            for line in done.stdout.splitlines():
                address, size, _, name = line.split("\t")
                names[int(address, 16)] = name
                sizes[name] += int(size)
                memory.seek(int(address, 16))
                if name == "string (redis)":
                    texts.add(read_text(memory.read(int(size))))
                elif name == "object (redis)":
                    shared += memory.read(8)[4:] == b"\xff\xff\xff\x7f"
    objects = [dict(word.split(":", 1) for word in line.split() if ":" in word) for line in answer]
    encodings = Counter(each["encoding"] for each in objects)
    assert encodings["raw"] == encodings["embstr"] == encodings["int"] == encodings["intset"] == KEYS
    for each in objects:
        expected = "object with string (redis)" if each["encoding"] == "embstr" else "object (redis)"
        assert names[int(each["at"], 16)] == expected, each
    counts = Counter(names.values())
    # Each key is one, and nothing else but those that redis makes at its start for the first 10,000 numbers and more.
    assert counts["object (redis)"] - shared == len(keys) - KEYS
    assert 10000 <= shared < 10200
    assert counts["intset (redis)"] == KEYS
    nodes = sum(int(each.get("ql_nodes", "0")) for each in objects)
    assert counts["listpack (redis)"] == encodings["listpack"] + nodes
    held = [f"raw{i}" for i in range(1, KEYS + 1)] + [f"numbers{i}" for i in range(1, KEYS + 1)]
    held += ["x" * (60 + i) for i in range(1, KEYS + 1)]
    held += [f"{word}{i}" for word in ("member", "field", "value") for i in range(1, MANY + 1)]
    missing = {text.encode() for text in held} - texts
    assert not missing
    assert counts["dict (redis)"] <= counts["dict table (redis)"] <= 2 * counts["dict (redis)"]
    # A dict of keys alone has fewer entries than keys.
    assert counts["dict entry (redis)"] >= len(keys) + MANY
    assert sizes["?"] <= 0.3 * sum(sizes.values())


STRINGS = ("raw", "embstr", "int")
# Since 8.2, more is in one chunk with its key: a value, a field's value, an element.
FILL_LATE = f"""
for i = 1, {KEYS} do
  redis.call('set', 'until' .. i, 'text ' .. i, 'ex', 100000)
  redis.call('set', string.rep('k', 40) .. i, 'short')
  redis.call('zadd', 'scores', i, 'element' .. i)
  redis.call('hset', 'timed', 'some field ' .. i, 'value' .. i)
  redis.call('hset', 'longer', 'field' .. i, string.rep('z', i))
end
redis.call('hexpire', 'timed', 100000, 'fields', 2, 'some field 1', 'some field 2')
redis.call('hset', 'one', 'field', string.rep('w', 3000))
redis.call('sadd', 'alone', string.rep('v', 3000))
return redis.call('dbsize')
"""


def test_what_late_redis_says_of_its_objects(tmp_path: Path) -> None:
    """Keys and values are one in redis 8.2 and later, and how large they are is told to the byte."""
    command = redises.late_command(tmp_path)
    with redis(command, tmp_path) as (pid, socket):
        ask(socket, "eval", FILL_LATE, "0")
        done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
        keys = ask(socket, "keys", "*").split()
        answer = ask(socket, lines="".join(f"debug object {key}\n" for key in keys)).splitlines()
        usage = ask(socket, lines="".join(f"memory usage {key} samples 0\n" for key in keys)).split()
        names, sizes, texts, nodes, leads = {}, {}, set[bytes](), set[bytes](), {}
        with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
            for line in done.stdout.splitlines():
                address, size, _, name = line.split("\t")
                names[int(address, 16)], sizes[int(address, 16)] = name, int(size)
                memory.seek(int(address, 16))
                if name == "string (redis)":
                    texts.add(read_text(memory.read(int(size))))
                elif name == "list node (next, previous)":
                    # Behind it may be what is left of another one.
                    nodes.update(re.findall(rb"element\d+", memory.read(int(size)))[:1])
            objects = [dict(word.split(":", 1) for word in line.split() if ":" in word) for line in answer]
            for each in objects:
                memory.seek(int(each["at"], 16) + 8)
                leads[each["at"]] = int.from_bytes(memory.read(8), "little")
            own = []
            for key, each in zip(keys, objects, strict=True):
                # A key that expires has a number before it.
                start = int(each["at"], 16) - 8 * key.startswith("until")
                assert names[start] == "object with key (redis)", each
                own.append(sizes[start] - 8)
                if each["encoding"] == "raw":
                    text = next(at for at in range(leads[each["at"]] - 1, 0, -1) if at in names)
                    assert names[text] == "string (redis)"
                    memory.seek(text)
                    own[-1] += room(memory.read(sizes[text]), leads[each["at"]] - text)
    encodings = Counter(each["encoding"] for each in objects)
    of_strings = [(a, int(b)) for a, b, o in zip(own, usage, objects, strict=True) if o["encoding"] in STRINGS]
    assert len(of_strings) == 5 * KEYS
    assert [a for a, _ in of_strings] == [b for _, b in of_strings]
    counts = Counter(names.values())
    assert counts["object with key (redis)"] == len(keys) == 8 * KEYS + 8
    assert counts["intset (redis)"] == encodings["intset"] == KEYS
    assert counts["listpack (redis)"] == encodings["listpack"] + sum(int(each.get("ql_nodes", "0")) for each in objects)
    assert counts["hash entry (redis)"] == 2 * KEYS + MANY + 1
    assert nodes == {f"element{i}".encode() for i in range(1, KEYS + 1)}
    held = ["x" * (60 + i) for i in range(1, KEYS + 1)] + [f"member{i}" for i in range(1, MANY + 1)]
    held += ["short", "v" * 3000, "w" * 3000]
    assert not {text.encode() for text in held} - texts
    assert counts["dict (redis)"] <= counts["dict table (redis)"] <= 2 * counts["dict (redis)"]
    assert sum(size for address, size in sizes.items() if names[address] == "?") <= 0.3 * sum(sizes.values())


@pytest.mark.parametrize("suite", ["trixie", "forky"])
def test_what_valkey_says_of_its_objects(suite: str, tmp_path: Path) -> None:
    """Valkey 8.1 and 9.1 have hash tables where redis has dicts, and an object's key behind the object."""
    with redis(of_suite("valkey", suite, tmp_path), tmp_path) as (pid, socket):
        done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
        keys = ask(socket, "keys", "*").split()
        answer = ask(socket, lines="".join(f"debug object {key}\n" for key in keys)).splitlines()
        names, texts = {}, set[bytes]()
        with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
            for line in done.stdout.splitlines():
                address, size, _, name = line.split("\t")
                names[int(address, 16)] = name
                if name == "string (redis)":
                    memory.seek(int(address, 16))
                    texts.add(read_text(memory.read(int(size))))
    objects = [dict(word.split(":", 1) for word in line.split() if ":" in word) for line in answer]
    encodings = Counter(each["encoding"] for each in objects)
    assert encodings["raw"] + encodings["embstr"] + encodings["int"] == 3 * KEYS
    assert encodings["intset"] == KEYS
    assert {names[int(each["at"], 16)] for each in objects} == {"object with key (redis)"}
    counts = Counter(names.values())
    assert counts["object with key (redis)"] == len(keys)
    assert counts["intset (redis)"] == KEYS
    nodes = sum(int(each.get("ql_nodes", "0")) for each in objects)
    assert counts["listpack (redis)"] == encodings["listpack"] + nodes
    assert counts["hash table (valkey)"] == 3  # the database, a hash and a set
    assert counts["hash entry (redis)"] == MANY
    missing = {f"member{i}".encode() for i in range(1, MANY + 1)} - texts
    missing |= {b"x" * (60 + i) for i in range(100, KEYS + 1)} - texts  # shorter ones are in the object
    assert not missing


@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_near_misses(compiler: str) -> None:
    with running(programs.build("dicts", "-g0", compiler=compiler)) as (pid, kinds):
        check(pid, kinds)


@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_near_misses_of_late_releases(compiler: str) -> None:
    with running(programs.build("late_dicts", "-g0", compiler=compiler)) as (pid, kinds):
        assert check(pid, kinds)["list node (next, previous)"] == 2 * 20  # the nodes of two sorted sets
