# SPDX-License-Identifier: MIT
"""Makes what the fuzzers begin with, from real things: `python -m tools.fuzz_seeds ARENADUMP DIRECTORY`.

DIRECTORY/core, dump, elf, walker and runtimes are filled: cores of the truth harness under each libc, cut down to what
malloc keeps in them; dumps of it; a small library with a libc's structures. The walker's inputs are patches to
DIRECTORY/image.core, those of the runtimes to the cores in DIRECTORY/images.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from arenascope import format as fmt
from arenascope.dump import Dump

from . import debian, forged, harness, programs

PAGE = 4096
# Programs of tests/programs that lay out a runtime's memory: the name, the source with its flags, and the arguments.
FORGED = (
    ("python3", ("forged_python",), ("few",)),
    ("ruby", ("forged",), ("whole", "6")),
    ("php", ("forged_allocators",), ("php",)),
    ("jemalloc", ("forged_allocators",), ("jemalloc",)),
    ("mimalloc", ("forged_allocators",), ("mimalloc-small",)),
    ("tcmalloc", ("forged_mallocs", "-rdynamic"), ("tcmalloc",)),
    ("musl", ("forged_mallocs", "-rdynamic"), ("musl",)),
    ("mimalloc3", ("forged_mallocs", "-rdynamic"), ("mimalloc3",)),
    ("partition", ("forged_mallocs", "-rdynamic"), ("partition",)),
    ("mariadbd", ("forged_innodb",), ("innodb",)),
    ("node", ("forged_v8",), ("true",)),
    ("deno", ("forged_v8",), ("apart",)),
    ("electron", ("forged_v8",), ("cage",)),
    ("chromium", ("forged_v8",), ("cppgc",)),
    ("go", ("forged_go",), ("true",)),
    ("libjvm.so", ("forged_jvm", "-rdynamic"), ("metaspace",)),
    ("python3.12", ("forged_python",), ("interpreters",)),
)
# Interpreters as they are: what they run says that it is there, and waits.
INTERPRETERS = (
    ("python3", "-I", "-S", "-c", "print('ready', flush=True); input()"),
    ("ruby", "--disable-gems", "-e", "$stdout.sync = true; puts 'ready'; gets"),
)
OPTIONS = ("--threads", "2", "--seed", "3", "--slots", "64", "--operations", "600", "--biggest-log2", "9")
PATCH = struct.Struct("<BbHII")
PT_LOAD = 1

Ranges = list[tuple[int, int]]


def wanted(dump: Dump) -> Ranges:
    """The memory that the inspector reads of a process: heaps up to their tops, malloc_state, mp_."""
    ranges: Ranges = []
    for i, heap in enumerate(dump.heaps):
        chunks = dump.heap_chunks(i)
        top = chunks.addresses[chunks.classes == fmt.ChunkClass.TOP]
        mmapped = heap["kind"] == fmt.HeapKind.MMAPPED
        end = int(top[0]) + 32 if len(top) else int(heap["start"]) + 4096 if mmapped else int(heap["end"])
        ranges.append((int(heap["start"]), end))
        if mmapped:
            ranges += [(address, address + 32) for address in chunks.addresses.tolist()]
    for malloc in dump.mallocs:
        ranges += [(int(malloc[name]), int(malloc[name]) + 2304) for name in ("main_arena", "mp")]
    return ranges


def shrink(core: Path, keep: Ranges) -> bytes:
    """The core with the content of these pages only, its mappings and notes as they were."""
    data = core.read_bytes()
    header = bytearray(data[:64])
    (table,) = struct.unpack_from("<Q", header, 32)
    (count,) = struct.unpack_from("<H", header, 56)
    pages = sorted({page for start, end in keep for page in range(start // PAGE, (end - 1) // PAGE + 1)})
    headers: list[tuple[int, ...]] = []
    content: list[bytes] = []
    for entry in struct.iter_unpack("<IIQQQQQQ", data[table : table + 56 * count]):
        kind, flags, offset, address, physical, stored, size, align = entry
        if kind != PT_LOAD:
            headers.append(entry)
            content.append(data[offset : offset + stored])
            continue
        at = address
        for page in [p * PAGE for p in pages if address <= p * PAGE < address + stored]:
            if page > at:
                headers.append((kind, flags, 0, at, 0, 0, page - at, align))
                content.append(b"")
            headers.append((kind, flags, 0, page, physical, PAGE, PAGE, align))
            content.append(data[offset + page - address : offset + page - address + PAGE])
            at = page + PAGE
        if at < address + size:
            headers.append((kind, flags, 0, at, 0, 0, address + size - at, align))
            content.append(b"")
    struct.pack_into("<Q", header, 32, 64)
    struct.pack_into("<Q", header, 40, 0)  # no sections
    struct.pack_into("<HHHHH", header, 54, 56, len(headers), 64, 0, 0)
    place = 64 + 56 * len(headers)
    table_bytes = b""
    for (kind, flags, _, address, physical, stored, size, align), piece in zip(headers, content):
        table_bytes += struct.pack("<IIQQQQQQ", kind, flags, place, address, physical, stored, size, align)
        place += len(piece)
    return bytes(header) + table_bytes + b"".join(content)


def tls(core: Path) -> Ranges:
    """The pages around each thread's thread pointer (NT_PRSTATUS, fs_base)."""
    notes = subprocess.run(["readelf", "-lW", str(core)], capture_output=True, text=True, check=True).stdout
    (line,) = [words for words in map(str.split, notes.splitlines()) if words[:1] == ["NOTE"]]
    at, end = int(line[1], 16), int(line[1], 16) + int(line[4], 16)
    data, ranges = core.read_bytes(), []
    while at < end:
        name_size, size, kind = struct.unpack_from("<III", data, at)
        at += 12 + (name_size + 3 & ~3)
        if kind == 1:
            (pointer,) = struct.unpack_from("<Q", data, at + 112 + 8 * 21)
            ranges.append((pointer - PAGE, pointer + 64))
        at += size + 3 & ~3
    return ranges


def small_core(pid: int, dump: Dump, scratch: Path, more: Ranges | None = None) -> bytes:
    """A core of a process as gdb's gcore writes it, cut down to what matters by a dump of it."""
    whole = scratch / f"{pid}.core"
    gcore = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"generate-core-file {whole}"]
    subprocess.run(gcore, check=True, capture_output=True)
    small = shrink(whole, wanted(dump) + tls(whole) + (more or []))
    whole.unlink()
    return small


def forged_core(arenadump: harness.Arenadump, scratch: Path) -> bytes:
    """A core in which Ruby's pages are found (inspector/runtimes/ruby_find.c): of a few, all there is of them."""
    program, path = shutil.copy(programs.build("forged"), scratch / "ruby"), scratch / "ruby.dump"
    with subprocess.Popen([program, "whole", "6"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        arenadump.check("dump", "--chunks", "-o", path, process.pid)
        dump = Dump(path)
        at = int(dump.ruby["address"][0])
        around = [(int(m["start"]), int(m["end"])) for m in dump.mappings if m["start"] <= at < m["end"]]
        core = small_core(process.pid, dump, scratch, around)
        process.kill()
    path.unlink()
    return core


def whole_core(pid: int, path: Path) -> None:
    """A core of a process as gdb's gcore writes it, with holes for what is zero."""
    gcore = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", f"generate-core-file {path}.whole"]
    subprocess.run(gcore, check=True, capture_output=True)
    subprocess.run(["cp", "--sparse=always", f"{path}.whole", path], check=True)
    Path(f"{path}.whole").unlink()


def runtime_cores(home: Path, scratch: Path) -> None:
    """Cores of processes that have the heap of a runtime, forged or real. The programs stay: cores name them."""
    for name, source, kind in FORGED:
        with forged.running(forged.named(name, scratch, *source), *kind) as pid:
            whole_core(pid, home / f"forged-{name}")
    for command in INTERPRETERS:
        path = shutil.which(command[0], path="/usr/bin")
        if not path:
            print(f"fuzz: there is no {command[0]} here: its memory is not fuzzed", file=sys.stderr)
            continue
        with subprocess.Popen([path, *command[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            whole_core(process.pid, home / command[0])
            process.kill()


def patches(rng: random.Random) -> bytes:
    """A few changes of words."""
    deltas = [0, 1, 8, 16, -16]
    return b"".join(
        PATCH.pack(rng.randrange(6), rng.choice(deltas), rng.getrandbits(16), *(rng.getrandbits(24) for _ in range(2)))
        for _ in range(rng.randrange(1, 9))
    )


def make(arenadump: harness.Arenadump, home: Path) -> None:
    program = programs.build_portable("churn")
    for name in ("core", "dump", "elf", "walker", "runtimes", "images"):
        (home / name).mkdir(parents=True, exist_ok=True)
    for suite in debian.SUITES:
        with harness.Churn(harness.under(debian.libc(suite), program, *OPTIONS)) as churn:
            churn.ask("go")
            arenadump.check("dump", "--chunks", "-o", home / "dump" / suite, churn.pid)
            (home / "core" / suite).write_bytes(small_core(churn.pid, Dump(home / "dump" / suite), home))
    (home / "core" / "ruby").write_bytes(forged_core(arenadump, home))
    assert arenadump.summary(home / "core" / "ruby")["ruby"]
    (home / "image.core").write_bytes((home / "core" / "bookworm").read_bytes())
    library = home / "elf" / "library"
    source = harness.ROOT / "tests" / "fuzz" / "seed" / "malloc.c"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-nostdlib", "-o", str(library), str(source)], check=True)
    bare = ["gcc", "-O1", "-s", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,pack-relative-relocs"]
    if subprocess.run([*bare, "-o", f"{library}-relr", str(source)], check=False, capture_output=True).returncode:
        subprocess.run([*bare[:-1], "-o", f"{library}-bare", str(source)], check=True)
    (home / "programs").mkdir(exist_ok=True)
    runtime_cores(home / "images", home / "programs")
    rng = random.Random(1)
    for i in range(50):
        (home / "walker" / f"patches-{i}").write_bytes(patches(rng))
    for i in range(len(FORGED) + len(INTERPRETERS)):
        for wanted in (0, 1):
            (home / "runtimes" / f"whole-{i}-{wanted}").write_bytes(bytes((i, wanted)))
            (home / "runtimes" / f"patches-{i}-{wanted}").write_bytes(bytes((i, wanted)) + patches(rng))


if __name__ == "__main__":
    make(harness.Arenadump(Path(sys.argv[1])), Path(sys.argv[2]))
