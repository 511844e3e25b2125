# SPDX-License-Identifier: MIT
"""Makes what the fuzzers begin with, from real things: `python -m tools.fuzz_seeds ARENADUMP DIRECTORY`.

DIRECTORY/core, dump, elf, walker, runtimes, graph, unwind and record are filled: cores of the truth harness under
each libc, cut down to what malloc keeps in them; dumps of it; a small library with a libc's structures; .eh_frame.
The inputs of the walker are patches to DIRECTORY/image.core, those of the runtimes to the cores in DIRECTORY/images,
those of the graph to the cores in DIRECTORY/graphs.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

from . import debian, forged, harness, holding, programs
from .paths import ROOT

PAGE = 4096
# Programs of tests/programs that lay out a runtime's memory: the name, the source with its flags, and the arguments.
# Interpreters are known by the names that they export.
FORGED = (
    ("python3", ("forged_python",), ("few",)),
    ("ruby", ("forged", "-rdynamic"), ("whole", "6")),
    ("php", ("forged_allocators", "-rdynamic"), ("php",)),
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
FEW = "7"  # rounds of a program that holds structures
OPTIONS = ("--threads", "2", "--seed", "3", "--slots", "64", "--operations", "600", "--biggest-log2", "9")
PATCH = struct.Struct("<BbHII")
PT_LOAD = 1
PT_GNU_EH_FRAME = 0x6474E550
EM_AARCH64 = 183

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
    program, path = programs.build("forged", "-rdynamic"), scratch / "ruby.dump"
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


def forged_runtime_core(program: Path, kind: tuple[str, ...], path: Path) -> None:
    with forged.running(program, *kind) as pid:
        whole_core(pid, path)


def interpreter_core(command: list[str], path: Path) -> None:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        whole_core(process.pid, path)
        process.kill()


def runtime_cores(home: Path, scratch: Path, pool: Executor) -> list[Future[None]]:
    """Cores of processes that have the heap of a runtime, forged or real. The programs stay: cores name them."""
    # All of them first: a program that is still open for writing in a child of another thread's cannot be started.
    named = [(forged.named(name, scratch, *source), kind) for name, source, kind in FORGED]
    made = [pool.submit(forged_runtime_core, program, kind, home / f"forged-{program.name}") for program, kind in named]
    for command in INTERPRETERS:
        path = shutil.which(command[0], path="/usr/bin")
        if path:
            made.append(pool.submit(interpreter_core, [path, *command[1:]], home / command[0]))
        else:
            print(f"fuzz: there is no {command[0]} here: its memory is not fuzzed", file=sys.stderr)
    return made


def graph_core(program: Path, path: Path) -> None:
    # Glib before 2.76 has objects in slices of its own.
    environment = {**os.environ, "G_SLICE": "always-malloc"}
    with subprocess.Popen([program, FEW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        for line in process.stdout:
            if line == b"ready\n":
                break
        # With the pages of files: what is code, and the names of classes, gdb would leave out.
        Path(f"/proc/{process.pid}/coredump_filter").write_text("0x3f")
        whole_core(process.pid, path)
        process.kill()


def graph_cores(home: Path, pool: Executor) -> list[Future[None]]:
    """Cores of programs that hold structures which have a type."""
    made = []
    for name in holding.PROGRAMS:
        try:
            made.append(pool.submit(graph_core, holding.build(name), home / name))
        except debian.UnavailableError as reason:
            print(f"fuzz: {reason}: what {name} holds is not fuzzed", file=sys.stderr)
    return made


def cores(home: Path) -> int:
    """Makes cores of runtimes' heaps, and of graphs. Returns how many there are of the latter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a gdb; programs are built by this thread alone
        made = runtime_cores(home / "images", home / "programs", pool)
        graphs = graph_cores(home / "graphs", pool)
        for core in [*made, *graphs]:
            core.result()
    return len(graphs)


SPLITS = [(compiler, version) for compiler in ("clang++", "g++") for version in (4, 5)]


def split_files(home: Path, seeds: Path) -> None:
    """What fuzz_split takes: modules with their .dwo files; as inputs these too, and packages, compressed and not."""
    source = ROOT / "tests" / "fuzz" / "seed" / "split.cc"
    for number, (compiler, version) in enumerate(SPLITS):
        name = f"{compiler.strip('+')}-{version}"
        how = ["-std=c++17", "-gsplit-dwarf", f"-gdwarf-{version}", "-fdebug-types-section", "-g", "-c"]
        subprocess.run([compiler, *how, "-o", f"{name}.o", str(source)], check=True, cwd=home)
        subprocess.run([compiler, "-o", name, f"{name}.o"], check=True, cwd=home)
        package = ["llvm-dwp", "-e", name, "-o", f"{name}.dwp"]
        subprocess.run(package, check=True, cwd=home, timeout=60)
        for kind, file in ((0, name), (1, f"{name}.dwo"), (2, f"{name}.dwo"), (3, f"{name}.dwp")):
            packed = home / f"packed.{kind}"
            subprocess.run(["objcopy", "--compress-debug-sections", home / file, packed], check=True)
            for what, path in (("", home / file), ("-packed", packed)):
                content = bytes((number * 4 + kind,)) + path.read_bytes()
                (seeds / f"{name}-{kind}{what}").write_bytes(content)
            packed.unlink()


def patches(rng: random.Random) -> bytes:
    """A few changes of words."""
    deltas = [0, 1, 8, 16, -16]
    return b"".join(
        PATCH.pack(rng.randrange(6), rng.choice(deltas), rng.getrandbits(16), *(rng.getrandbits(24) for _ in range(2)))
        for _ in range(rng.randrange(1, 9))
    )


def frames(path: Path) -> bytes:
    """What fuzz_unwind takes: the segment of a module that has its .eh_frame_hdr, behind a head."""
    data = path.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 32)
    (machine,) = struct.unpack_from("<H", data, 18)
    (count,) = struct.unpack_from("<H", data, 56)
    entries = list(struct.iter_unpack("<IIQQQQQQ", data[table : table + 56 * count]))
    (header,) = [entry[3] for entry in entries if entry[0] == PT_GNU_EH_FRAME]
    offset, address, size = next(
        (e[2], e[3], e[5]) for e in entries if e[0] == PT_LOAD and e[3] <= header < e[3] + e[5]
    )
    return struct.pack("<IB3x", header - address, machine == EM_AARCH64) + data[offset : offset + size]


def record(version: int) -> bytes:
    """A trace without checksums, which fuzz_record repairs: a block of each kind, and each kind of event."""

    def block(kind: int, payload: bytes, thread: int = 0) -> bytes:
        return struct.pack("<IIIIQQ", 0, kind, len(payload), thread, 0, 0) + payload

    def event(kind: int, place: int, *more: int) -> bytes:
        return struct.pack(f"<{1 + len(more)}Q", place << 20 | 100 << 3 | kind, *more)

    allocation = 48 << 24 | 2  # bytes, and the context
    state = struct.pack("<8Q", 1000, 1000, 10**18, 1, 1, 0, 0, 0)
    frames = (5, 0xFFFE << 48 | 1 << 24 | 7)  # innermost first
    if version < 3:
        stacks = [block(3, struct.pack("<QQQ", 1 << 63 | 2 << 32 | 2, *frames))]
    else:  # two contexts: one with both frames, and one with another innermost frame
        stacks = [
            block(10, struct.pack("<4Q", 1 << 32 | 2, 1 << 63 | 2 << 32, *reversed(frames))),
            block(10, struct.pack("<3Q", 3 << 32 | 3, 1 << 63 | 1 << 32 | 1, 6)),
        ]
    first = event(7, 0) + event(1, 16, allocation) + event(2, 32, allocation) + event(3, 48, allocation, 64)
    second = event(7, 0) + event(4, 16, allocation) + event(5, 32) + event(6, 64, allocation) + event(0, 48)
    return b"".join(
        [
            block(1, struct.pack("<QIIQII1024s", 0x31746365726E7261, version, 1, 7, 62, PAGE, b"/bin/true")),
            block(5, state),
            block(2, struct.pack("<QQQII24s200s", PAGE, 2 * PAGE, 0, 0, 20, bytes(24), b"")),
            block(8, struct.pack("<Q8s", 5 << 48 | 3 << 32 | 1, b"runa.py")),
            *stacks,
            block(4, first, 1),
            block(4, second, 2),
            block(6, struct.pack("<IIQQ", 1, 0, 3, 4)),
            block(5, struct.pack("<8Q", 9000, 9000, 10**18, 1, 1, 0, 0, 0)),
            block(7, struct.pack("<II", 1, 0)),
        ]
    )


def make(arenadump: harness.Arenadump, home: Path) -> None:
    program = programs.build_portable("churn")
    for name in (
        "core",
        "dump",
        "elf",
        "walker",
        "runtimes",
        "images",
        "graph",
        "graphs",
        "split",
        "splits",
        "unwind",
        "record",
    ):
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
    source = ROOT / "tests" / "fuzz" / "seed" / "malloc.c"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-nostdlib", "-o", str(library), str(source)], check=True)
    bare = ["gcc", "-O1", "-s", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,pack-relative-relocs"]
    if subprocess.run([*bare, "-o", f"{library}-relr", str(source)], check=False, capture_output=True).returncode:
        subprocess.run([*bare[:-1], "-o", f"{library}-bare", str(source)], check=True)
    for compiler in ("gcc", "aarch64-linux-gnu-gcc"):
        shape = home / "unwind" / compiler
        subprocess.run([compiler, "-O2", *bare[3:6], "-o", str(shape), str(source)], check=True)
        shape.write_bytes(frames(shape))
    (home / "unwind" / "true").write_bytes(frames(Path("/bin/true").resolve()))
    (home / "record" / "version-2").write_bytes(record(2))
    (home / "record" / "version-3").write_bytes(record(3))
    (home / "programs").mkdir(exist_ok=True)
    split_files(home / "splits", home / "split")
    graphs = cores(home)
    rng = random.Random(1)
    for i in range(50):
        (home / "walker" / f"patches-{i}").write_bytes(patches(rng))
    for i in range(len(FORGED) + len(INTERPRETERS)):
        for wanted in (0, 1):
            (home / "runtimes" / f"whole-{i}-{wanted}").write_bytes(bytes((i, wanted)))
            (home / "runtimes" / f"patches-{i}-{wanted}").write_bytes(bytes((i, wanted)) + patches(rng))
    for i in range(graphs):
        (home / "graph" / f"whole-{i}").write_bytes(bytes((i,)))
        for k in range(4):
            (home / "graph" / f"patches-{i}-{k}").write_bytes(bytes((i,)) + patches(rng))


if __name__ == "__main__":
    make(harness.Arenadump(Path(sys.argv[1])), Path(sys.argv[2]))
