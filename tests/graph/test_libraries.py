# SPDX-License-Identifier: MIT
"""Structures of well-known libraries, of tests/programs/libraries.c, which knows its chunks; and of Rust's own."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from graph.test_types import LIST_TYPES
from runtimes.test_innodb import mariadb
from tools import holding, programs, tiers
from tools.cores import gcore

# What a chunk is, and its name.
NAMES = {
    "deflate": "deflate_state (zlib)",
    "inflate": "inflate_state (zlib)",
    "window": "window (zlib)",
    "chains": "chains of hashes (zlib)",
    "pending": "pending output (zlib)",
    "FILE": "FILE (glibc)",
    "DIR": "DIR (glibc)",
    "link_map": "link_map (ld.so)",
    "dtv": "dtv (ld.so)",
    "sized": "bytes (pointer, size)",
    "keys": "GHashTable (keys)",
    "hashes": "GHashTable (hashes)",
    "values": "GHashTable (values)",
    "table": "hash table (as Rust's HashMap has)",
    "text": "text (pointer, length, capacity)",
    "end": "block (leads to its own end)",
    "dict": "dict (redis)",
    "dict table": "dict table (redis)",
    "dict entry": "dict entry (redis)",
    "sds": "string (redis)",
    "object": "object (redis)",
    "listpack": "listpack (redis)",
    "intset": "intset (redis)",
    "hash table": "hash table (valkey)",
    "buckets": "hash table buckets (valkey)",
    "keyed": "object with key (redis)",
    "hash entry": "hash entry (redis)",
    "DenseMap": "DenseMap table (LLVM)",
    "StringMap entry": "StringMap entry (LLVM)",
    "slab": "slab (LLVM)",
    "my_malloc": "block of my_malloc (MariaDB)",
    "LHASH": "LHASH (OpenSSL)",
    "LHASH table": "LHASH table (OpenSSL)",
    "LHASH node": "LHASH node (OpenSSL)",
    "STACK": "STACK (OpenSSL)",
    "STACK items": "STACK items (OpenSSL)",
    "QString": "text in UTF-16 (QArrayData)",
    "QArrayData": "array (QArrayData)",
    "QHash": "QHash (Qt)",
    "QHash table": "QHash table (Qt)",
    "QHash nodes": "QHash nodes (Qt)",
    "QMap": "QMap (Qt)",
    "QMap node": "QMap node (Qt)",
}
# What no decoy may be called: names that say what a chunk is for.
SAID = set(NAMES.values()) | {"GHashTable (glib)", "thread-local variables", "array (PHP)", "string (PHP)"}
SAID |= {"object with string (redis)", "StringMap table (LLVM)"}

RUST = r"""
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Watched;
static LAST: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let made = System.alloc(layout);
        LAST.store(!(made as usize), Ordering::Relaxed);
        SIZE.store(layout.size(), Ordering::Relaxed);
        made
    }
    unsafe fn dealloc(&self, chunk: *mut u8, layout: Layout) {
        System.dealloc(chunk, layout)
    }
}
#[global_allocator]
static ALLOCATOR: Watched = Watched;

struct Held {
    small: Vec<HashMap<u8, u8>>,
    large: Vec<HashMap<u64, [u64; 3]>>,
    odd: Vec<HashMap<[u8; 3], u32>>,
    sets: Vec<HashSet<u32>>,
    texts: Vec<String>,
    decoys: Vec<Vec<u8>>,
}

fn last(kind: &'static str, lines: &mut Vec<(&'static str, usize)>) {
    lines.push((kind, LAST.load(Ordering::Relaxed)))
}

fn main() {
    let mut lines = Vec::with_capacity(100_000);
    let mut held = Held {
        small: Vec::with_capacity(2000), large: Vec::with_capacity(2000), odd: Vec::with_capacity(2000),
        sets: Vec::with_capacity(2000), texts: Vec::with_capacity(20_000), decoys: Vec::with_capacity(2000),
    };
    for i in 3..300usize {
        let mut made = HashMap::with_capacity(i);
        last("table", &mut lines);
        for k in 0..i * 2 / 3 { made.insert(k as u64, [k as u64; 3]); }
        for k in 0..i / 3 { made.remove(&(k as u64)); }
        held.large.push(made);
        let mut made = HashMap::with_capacity(i);
        last("table", &mut lines);
        for k in 0..i { made.insert([k as u8, (k >> 8) as u8, 7], k as u32); }
        held.odd.push(made);
        let mut made = HashSet::with_capacity(i);
        last("table", &mut lines);
        for k in 0..i / 2 { made.insert(k as u32); }
        held.sets.push(made);
        if i < 100 {
            let mut made = HashMap::with_capacity(i);
            last("table", &mut lines);
            for k in 0..i { made.insert(k as u8, 1); }
            held.small.push(made);
        }
    }
    for i in 15..250usize {
        for spare in [0, 1, 40] {
            let mut made = String::with_capacity(i + spare);
            last("text", &mut lines);
            for k in 0..i { made.push((b'a' + (k % 26) as u8) as char); }
            held.texts.push(made);
        }
        let mut made = Vec::with_capacity(i);
        last("decoy", &mut lines);
        for k in 0..i { made.push((k % 3) as u8); }
        held.decoys.push(made);
    }
    for (kind, address) in &lines { println!("{}\t{:#x}", kind, !address); }
    println!("ready");
    let mut byte = [0];
    let _ = std::io::stdin().read(&mut byte);
    let tables = held.small.len() + held.large.len() + held.odd.len() + held.sets.len();
    println!("{}", tables + held.texts.len() + held.decoys.len());
}
"""


@contextmanager
def running(program: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """A process, and what it says of its chunks: address → kind."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            output = process.stdout
            assert output
            kinds: dict[str, str] = {}
            while (line := output.readline()) != "ready\n":
                assert line, "the program died"
                kind, address = line.rstrip("\n").split("\t")
                kinds[address] = kind
            yield process.pid, kinds
        finally:
            process.kill()


def check(target: int | Path, kinds: dict[str, str], least: float = 1.0) -> Counter[str]:
    """No chunk has a name that is not its own, and of each kind that part has one. Returns all names."""
    done = subprocess.run([LIST_TYPES, str(target)], capture_output=True, text=True, timeout=120, check=True)
    found, all_names = {}, Counter[str]()
    for line in done.stdout.splitlines():
        address, _, _, name = line.split("\t")
        found[address] = name
        all_names[name] += 1
    wrong = Counter((kind, found[a]) for a, kind in kinds.items() if found[a] in SAID and found[a] != NAMES.get(kind))
    assert not wrong
    total, right = Counter(kinds.values()), Counter(k for a, k in kinds.items() if found[a] == NAMES.get(k))
    missing = {
        kind: (right[kind], total[kind]) for kind in total if kind != "decoy" and right[kind] < least * total[kind]
    }
    assert not missing
    return all_names


@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_structures_of_c(compiler: str) -> None:
    with running(programs.build("libraries", "-lz", "-g0", compiler=compiler)) as (pid, kinds):
        names = check(pid, kinds)
    # One of each stream; the program's own, which it has read with, may come on top.
    kinds_of = Counter(kinds.values())
    assert kinds_of["deflate"] == names["deflate_state (zlib)"] == 11
    assert kinds_of["inflate"] == names["inflate_state (zlib)"] == 2


def test_numbers_beside_a_pointer_that_fit_by_chance() -> None:
    """The next chunk's size is none of the program's numbers, and what is proven counts more than two numbers."""
    with running(programs.build("beside")) as (pid, kinds):
        names = check(pid, {address: kind for address, kind in kinds.items() if kind == "FILE"})
    assert Counter(kinds.values()) == {"FILE": 50, "plain": 50}
    assert names["FILE (glibc)"] >= 50
    assert not names["bytes (pointer, length, capacity)"]


def test_structures_in_a_core(tmp_path: Path) -> None:
    with running(programs.build("libraries", "-lz", "-g0")) as (pid, kinds):
        # gdb leaves out the pages of files, and with them the FILEs' vtables.
        check(gcore(pid, tmp_path), {address: kind for address, kind in kinds.items() if kind != "FILE"})


def test_structures_of_glib() -> None:
    program = holding.build("libraries")
    with running(program) as (pid, kinds):
        names = check(pid, kinds)
    # Eleven tables and eleven sets, which have no values of their own; glib has some tables, too.
    assert names["GHashTable (keys)"] >= names["GHashTable (hashes)"] >= 22
    assert Counter(kinds.values())["keys"] >= 4


@pytest.mark.parametrize("release", ["rustc", "/usr/bin/rustc"])
def test_structures_of_rust(release: str, tmp_path: Path) -> None:
    """By the machine's compiler, and by Debian's own."""
    if not shutil.which(release):
        pytest.skip("rustc is not installed")
    (tmp_path / "held.rs").write_text(RUST)
    flags = ["-C", "opt-level=1", "-C", "debuginfo=0", "-C", "strip=symbols"]
    subprocess.run([release, *flags, "-o", tmp_path / "held", tmp_path / "held.rs"], check=True)
    with running(tmp_path / "held") as (pid, kinds):
        check(pid, kinds, least=0.9)


PHP = """<?php
$names = get_defined_functions()["internal"];
echo implode(" ", $names), "\n";
flush();
sleep(600);
"""


def test_structures_of_php(tmp_path: Path) -> None:
    """The names of all functions are strings that PHP keeps in malloc's chunks, and one table has all functions."""
    if not shutil.which("php"):
        pytest.skip("php is not installed")
    (tmp_path / "names.php").write_text(PHP)
    with subprocess.Popen(["php", tmp_path / "names.php"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            names = process.stdout.readline().split()
            done = subprocess.run([LIST_TYPES, str(process.pid)], capture_output=True, text=True, check=True)
            lines = [line.split("\t") for line in done.stdout.splitlines()]
            texts = set()
            with Path(f"/proc/{process.pid}/mem").open("rb") as memory:
                for address, _, _, name in lines:
                    if name == "string (PHP)":
                        memory.seek(int(address, 16) + 16)
                        length = int.from_bytes(memory.read(8), "little")
                        texts.add(memory.read(length).decode(errors="replace"))
        finally:
            process.kill()
    assert len(names) > 500
    assert len(texts.intersection(names)) >= 0.95 * len(names)
    places = 1 << (len(names) - 1).bit_length()
    assert any(name == "array (PHP)" and int(size) >= 40 * places for _, size, _, name in lines)


def of_my_malloc(pid: int) -> int:
    """How many bytes the chunks have that my_malloc has returned, by their own sizes and headers."""
    done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
    total = 0
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in done.stdout.splitlines():
            address, _, _, name = line.split("\t")
            if name == NAMES["my_malloc"]:
                memory.seek(int(address, 16) + 8)
                total += (int.from_bytes(memory.read(8), "little") & ~3) + 24
    return total


def test_memory_of_mariadb(tmp_path: Path) -> None:
    """The server counts what my_malloc has returned, and more that it has mapped; here, by how much each grows."""
    with mariadb(tmp_path, 1000) as (pid, _):
        connect = ["mariadb", "--no-defaults", "--user=root", f"--socket={tmp_path / 'socket'}", "-N", "-e"]
        counts = []
        for size in (0, 24 << 20):
            ask = f"set global query_cache_size={size}; show global status like 'Memory_used'"
            says = subprocess.run([*connect, ask], capture_output=True, text=True, check=True).stdout
            counts.append((int(says.split()[1]), of_my_malloc(pid)))
    (used, found), (used_later, found_later) = counts
    assert found <= used
    assert found_later - found == pytest.approx(used_later - used, rel=0.01) == pytest.approx(24 << 20, rel=0.01)
