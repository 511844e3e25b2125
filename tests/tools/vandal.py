# SPDX-License-Identifier: MIT
"""Wrecks the heap of a parked process, or of a core file, one place at a time, and puts back what was there.

Each kind of damage knows whether it can be seen at all: a size that swallows exactly the next chunk, say, leaves a heap
that malloc itself could have made.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

MASK = 2**64 - 1
PREV_INUSE, IS_MMAPPED, NON_MAIN_ARENA = 1, 2, 4
WORDS = (0, 1, 8, 0x10, 0x21, 2**12 - 1, 2**31, 2**47, 2**47 + 8, 2**63, MASK - 15, MASK)
"""Values that overflow something, or nearly."""


class Memory:
    """The memory of a stopped or parked process, or what a core file keeps of one, to be written and restored."""

    def __init__(self, file: BinaryIO, offsets: list[tuple[int, int, int]] | None = None) -> None:
        self._file = file
        self._offsets = offsets  # of a core: start, end, place in the file
        self._undo: list[tuple[int, bytes]] = []

    @classmethod
    def of_process(cls, pid: int) -> Memory:
        return cls(Path(f"/proc/{pid}/mem").open("r+b", buffering=0))

    @classmethod
    def of_core(cls, path: Path) -> Memory:
        file = path.open("r+b", buffering=0)
        header = file.read(64)
        (table,) = struct.unpack_from("<Q", header, 32)
        (count,) = struct.unpack_from("<H", header, 56)
        file.seek(table)
        loads = []
        for kind, _, offset, address, _, stored, _, _ in struct.iter_unpack("<IIQQQQQQ", file.read(56 * count)):
            if kind == 1:
                loads.append((address, address + stored, offset))
        return cls(file, loads)

    def __enter__(self) -> Memory:  # noqa: PYI034 - Self is younger than our oldest Python
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def read(self, address: int, length: int = 8) -> bytes:
        """Raises OSError where there is no memory."""
        data = b""
        for place, size in self._places(address, length):
            self._file.seek(place)
            data += self._file.read(size)
        if len(data) != length:
            raise OSError(f"nothing at {address:#x}")
        return data

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address), "little")

    def write(self, address: int, data: bytes | int) -> None:
        if isinstance(data, int):
            data = (data & MASK).to_bytes(8, "little")
        self._undo.append((address, self.read(address, len(data))))
        self._put(address, data)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """What is written within is taken back at the end, last write first."""
        try:
            yield
        finally:
            while self._undo:
                self._put(*self._undo.pop())

    def _put(self, address: int, data: bytes) -> None:
        done = 0
        for place, size in self._places(address, len(data)):
            self._file.seek(place)
            self._file.write(data[done : done + size])
            done += size

    def _places(self, address: int, length: int) -> list[tuple[int, int]]:
        """Where these bytes stand in the file: place and size of each piece."""
        if self._offsets is None:
            if address >= 2**63:
                raise OSError(f"nothing at {address:#x}")
            return [(address, length)]
        pieces = []
        for start, end, offset in self._offsets:
            if start <= address < end and length > 0:
                size = min(length, end - address)
                pieces.append((offset + address - start, size))
                address, length = address + size, length - size
        if length > 0:
            raise OSError(f"the core keeps nothing of {address:#x}")
        return pieces


@dataclass(frozen=True)
class Layout:
    """Where malloc.c's structures have the fields that are damaged here, by release; glibc's malloc.c and arena.c."""

    fastbins: int | None
    top: int
    bins: int
    next: int
    system_mem: int
    mp: dict[str, int]
    tcache_entries: int
    tcache_count_size: int
    safe_linking: bool

    @classmethod
    def of(cls, release: tuple[int, int]) -> Layout:
        fastbins: int | None = 16
        top, bins, ring, system_mem = 96, 112, 2160, 2184
        if release >= (2, 43):
            fastbins, (top, bins, ring, system_mem) = None, (8, 24, 2072, 2096)
            mp = {
                "thp_pagesize": 48,
                "hp_pagesize": 56,
                "n_mmaps": 68,
                "mmapped_mem": 88,
                "sbrk_base": 104,
                "tcache_count": 128,
            }
        else:
            mp = {"n_mmaps": 40, "mmapped_mem": 56, "sbrk_base": 72, "tcache_count": 96}
            if release >= (2, 35):
                mp = {
                    "thp_pagesize": 40,
                    "hp_pagesize": 48,
                    "n_mmaps": 60,
                    "mmapped_mem": 80,
                    "sbrk_base": 96,
                    "tcache_count": 120,
                }
        count_size = 2 if release >= (2, 30) else 1
        entries = (76 if release >= (2, 42) else 64) * count_size
        return cls(fastbins, top, bins, ring, system_mem, mp, entries, count_size, release >= (2, 32))


@dataclass
class Victim:
    """A heap in good order, as the inspector saw it before any damage."""

    memory: Memory
    layout: Layout
    main_arena: int
    mp: int
    arenas: list[int] = field(default_factory=list)
    heaps: list[tuple[int, int, int, int]] = field(default_factory=list)  # start, end, kind, arena
    chunks: dict[int, tuple[int, int]] = field(default_factory=dict)  # address → size, ChunkClass
    following: dict[int, int] = field(default_factory=dict)  # chunk → the end of its heap
    of_class: dict[int, list[int]] = field(default_factory=dict)
    tcaches: list[int] = field(default_factory=list)

    @classmethod
    def from_dump(cls, dump: Dump, memory: Memory, release: tuple[int, int]) -> Victim:
        malloc = dump.mallocs[0]
        victim = cls(memory, Layout.of(release), int(malloc["main_arena"]), int(malloc["mp"]))
        victim.arenas = [int(arena["address"]) for arena in dump.arenas]
        victim.tcaches = [int(t["tcache"]) for t in dump.threads if 0 < int(t["tcache"]) < fmt.UNKNOWN]
        for i, heap in enumerate(dump.heaps):
            start, end, kind = int(heap["start"]), int(heap["end"]), int(heap["kind"])
            victim.heaps.append((start, end, kind, int(heap["arena"])))
            found = dump.heap_chunks(i)
            for address, size, chunk_class in zip(
                found.addresses.tolist(), found.sizes.tolist(), found.classes.tolist()
            ):
                mmapped = kind == fmt.HeapKind.MMAPPED
                victim.chunks[address] = (size, chunk_class)
                victim.following[address] = end
                if not mmapped or chunk_class == fmt.ChunkClass.IN_USE:
                    victim.of_class.setdefault(-1 if mmapped else chunk_class, []).append(address)
        return victim

    def any(self, rng: random.Random, *classes: int) -> int:
        """The address of some chunk; -1 stands for mmapped ones."""
        lists = [self.of_class[c] for c in classes if self.of_class.get(c)]
        return rng.choice(rng.choice(lists))

    def link(self, position: int, pointer: int) -> int:
        """A tcache's or fastbin's link, as this release stores it at `position`."""
        return (position >> 12) ^ pointer if self.layout.safe_linking else pointer


@dataclass(frozen=True)
class Damage:
    what: str
    certain: bool  # the heap is broken in a way that can be seen


Vandalism = Callable[[Victim, random.Random], Damage]
KINDS: dict[str, Vandalism] = {}


def _kind(function: Vandalism) -> Vandalism:
    KINDS[function.__name__] = function
    return function


IN_USE, TCACHE, FASTBIN = fmt.ChunkClass.IN_USE, fmt.ChunkClass.TCACHE, fmt.ChunkClass.FASTBIN
BINNED, TOP, METADATA = fmt.ChunkClass.BINNED, fmt.ChunkClass.TOP, fmt.ChunkClass.METADATA


def _can_be_a_chunk(v: Victim, address: int, end: int) -> bool:
    """True where the header at `address` could pass for one, so that a chain may go on from it."""
    if address == end:
        return True
    if not address < end - 16:
        return False
    size = v.memory.word(address + 8)
    return not size & IS_MMAPPED and 16 <= size & ~7 <= end - address and size % 16 < 8


@_kind
def chunk_size(v: Victim, rng: random.Random) -> Damage:
    chunk = v.any(rng, IN_USE, BINNED, TCACHE)
    old = v.memory.word(chunk + 8)
    near = [old & 7, old + 16, old - 16, old + 8, old ^ 1 << rng.randrange(4, 64)]
    new = rng.choice([*near, *(w | 1 for w in WORDS), rng.getrandbits(64), rng.randrange(2, 1 << 20) << 4 | old & 7])
    v.memory.write(chunk + 8, new)
    new &= MASK
    size = new & ~7
    end = v.following[chunk]
    whole = size >= 32 and size % 16 == 0 and size <= end - chunk and not new & IS_MMAPPED
    same = size == old & ~7
    lucky = whole and not same and _can_be_a_chunk(v, chunk + size, end)
    return Damage(f"size of {chunk:#x}: {old:#x} -> {new:#x}", certain=not (same or lucky))


@_kind
def chunk_flags(v: Victim, rng: random.Random) -> Damage:
    chunk = v.any(rng, IN_USE, BINNED, TCACHE)
    old = v.memory.word(chunk + 8)
    flag = rng.choice([PREV_INUSE, IS_MMAPPED, NON_MAIN_ARENA])
    v.memory.write(chunk + 8, old ^ flag)
    # A binned chunk's arena bit means nothing; PREV_INUSE is borne out by prev_size and the bins.
    certain = flag == IS_MMAPPED or (flag == NON_MAIN_ARENA and v.chunks[chunk][1] != BINNED)
    first = not any(chunk == a + s for a, (s, _) in v.chunks.items()) if flag == PREV_INUSE else False
    return Damage(f"flags of {chunk:#x}: {old:#x} ^ {flag}", certain or (flag == PREV_INUSE and not first))


@_kind
def prev_size(v: Victim, rng: random.Random) -> Damage:
    chunk = v.any(rng, BINNED)
    behind = chunk + v.chunks[chunk][0]
    old = v.memory.word(behind)
    new = rng.choice([*WORDS, old + 16, old - 16, rng.getrandbits(64)]) & MASK
    v.memory.write(behind, new)
    return Damage(f"prev_size at {behind:#x}: {old:#x} -> {new:#x}", certain=new != old)


@_kind
def bin_link(v: Victim, rng: random.Random) -> Damage:
    chunk = v.any(rng, BINNED)
    place = chunk + rng.choice([16, 24])
    old = v.memory.word(place)
    new = rng.choice([*WORDS, chunk, v.any(rng, BINNED, IN_USE), v.main_arena, old ^ 16, old + 8])
    v.memory.write(place, new)
    return Damage(f"bin link at {place:#x}: {old:#x} -> {new:#x}", certain=new != old)


@_kind
def bin_head(v: Victim, rng: random.Random) -> Damage:
    place = rng.choice(v.arenas) + v.layout.bins + 8 * rng.randrange(254)
    old = v.memory.word(place)
    new = rng.choice([*WORDS, v.any(rng, BINNED, IN_USE), old ^ 16])
    v.memory.write(place, new)
    return Damage(f"bin head at {place:#x}: {old:#x} -> {new:#x}", certain=new != old)


def _cache_link(v: Victim, rng: random.Random, chunk: int, others: list[int]) -> str:
    place = chunk + 16
    old = v.memory.word(place)
    somewhere = rng.choice([chunk + 16, rng.choice(others) + 16, v.any(rng, IN_USE) + 16, v.any(rng, IN_USE) + 24])
    wild = rng.choice([*WORDS, rng.getrandbits(47), v.link(place, somewhere)])
    v.memory.write(place, wild)
    return f"link at {place:#x}: {old:#x} -> {wild:#x}"


@_kind
def tcache_link(v: Victim, rng: random.Random) -> Damage:
    what = _cache_link(v, rng, v.any(rng, TCACHE), v.of_class[TCACHE])
    # Where the list has another member of that size to offer, the count alone does not tell.
    return Damage("tcache " + what, certain=False)


@_kind
def tcache_cycle(v: Victim, rng: random.Random) -> Damage:
    tcache = rng.choice(v.tcaches)
    bins = [b for b in range(64) if v.memory.word(tcache + v.layout.tcache_entries + 8 * b)]
    if not bins:
        return Damage("an empty tcache", certain=False)
    entry = v.memory.word(tcache + v.layout.tcache_entries + 8 * rng.choice(bins))
    length = rng.randrange(1, 4)
    last = entry
    for _ in range(length - 1):
        following = v.memory.word(last)
        following = (last >> 12) ^ following if v.layout.safe_linking else following
        if following == 0:
            break
        last = following
    v.memory.write(last, v.link(last, entry))
    return Damage(f"a cycle in the tcache at {tcache:#x}: {last:#x} -> {entry:#x}", certain=True)


@_kind
def tcache_counts(v: Victim, rng: random.Random) -> Damage:
    tcache = rng.choice(v.tcaches)
    size = v.layout.tcache_count_size
    place = tcache + size * rng.randrange(64)
    old = int.from_bytes(v.memory.read(place, size), "little")
    new = rng.choice([0, 1, 3, 7, 16, 17, 0x7F, 0xFF, 0xFFFF]) % 256**size
    v.memory.write(place, new.to_bytes(size, "little"))
    return Damage(f"count at {place:#x}: {old} -> {new}", certain=new != old)


@_kind
def tcache_entry(v: Victim, rng: random.Random) -> Damage:
    place = rng.choice(v.tcaches) + v.layout.tcache_entries + 8 * rng.randrange(64)
    old = v.memory.word(place)
    new = rng.choice([*WORDS, v.any(rng, IN_USE) + 16, v.any(rng, BINNED) + 16, v.any(rng, TCACHE) + 16, old + 8])
    v.memory.write(place, new)
    return Damage(f"tcache entry at {place:#x}: {old:#x} -> {new:#x}", certain=new != old)


@_kind
def fastbin(v: Victim, rng: random.Random) -> Damage:
    if v.layout.fastbins is None:
        return Damage("no fastbins in this release", certain=False)
    if v.of_class.get(FASTBIN) and rng.randrange(2):
        chunk = v.any(rng, FASTBIN)
        what = _cache_link(v, rng, chunk, v.of_class[FASTBIN])
        return Damage("fastbin " + what, certain=False)
    place = rng.choice(v.arenas) + v.layout.fastbins + 8 * rng.randrange(7)
    old = v.memory.word(place)
    new = rng.choice([*WORDS, v.any(rng, IN_USE) + 8, v.any(rng, BINNED)])
    v.memory.write(place, new)
    return Damage(f"fastbin head at {place:#x}: {old:#x} -> {new:#x}", certain=new not in {old, 0})


@_kind
def top(v: Victim, rng: random.Random) -> Damage:
    place = rng.choice(v.arenas) + v.layout.top
    old = v.memory.word(place)
    new = rng.choice([*WORDS, old + 16, old - 16, old + 8, old + 4096, old + (64 << 20), v.any(rng, IN_USE)])
    v.memory.write(place, new)
    return Damage(f"top at {place:#x}: {old:#x} -> {new:#x}", certain=True)


@_kind
def top_size(v: Victim, rng: random.Random) -> Damage:
    chunk = v.any(rng, TOP)
    old = v.memory.word(chunk + 8)
    new = rng.choice([*WORDS, old + 16, old - 16, old + 8, old + 4096, old + (1 << 30), old ^ 1 << 62])
    v.memory.write(chunk + 8, new)
    return Damage(f"top's size at {chunk:#x}: {old:#x} -> {new:#x}", certain=new & ~7 != old & ~7)


@_kind
def arena_ring(v: Victim, rng: random.Random) -> Damage:
    place = rng.choice(v.arenas) + v.layout.next
    old = v.memory.word(place)
    new = rng.choice([*WORDS, place - v.layout.next, v.any(rng, IN_USE), v.any(rng, BINNED), old + 8, old + 16])
    new = rng.choice([new, rng.choice(v.arenas)])
    v.memory.write(place, new)
    # A shorter ring that closes is a ring: an arena that fell out of it is other memory to us.
    return Damage(f"arena.next at {place:#x}: {old:#x} -> {new:#x}", certain=new not in {old, *v.arenas})


@_kind
def system_mem(v: Victim, rng: random.Random) -> Damage:
    place = rng.choice(v.arenas) + v.layout.system_mem
    old = v.memory.word(place)
    new = rng.choice(WORDS)
    v.memory.write(place, new)
    return Damage(f"system_mem at {place:#x}: {old:#x} -> {new:#x}", certain=new > old)


@_kind
def heap_info(v: Victim, rng: random.Random) -> Damage:
    heaps = [start for start, _, kind, _ in v.heaps if kind == fmt.HeapKind.THREAD]
    heap = rng.choice(heaps)
    name, offset = rng.choice([("ar_ptr", 0), ("prev", 8), ("size", 16)])
    old = v.memory.word(heap + offset)
    new = rng.choice([*WORDS, heap, rng.choice(heaps), old + 16, old + (64 << 20), v.main_arena])
    v.memory.write(heap + offset, new)
    return Damage(f"heap_info.{name} at {heap:#x}: {old:#x} -> {new:#x}", certain=new != old and name != "prev")


@_kind
def malloc_par(v: Victim, rng: random.Random) -> Damage:
    name, offset = rng.choice(sorted(v.layout.mp.items()))
    old = v.memory.word(v.mp + offset)
    new = rng.choice([*WORDS, 3 << 20, 1 << 21, 1 << 40, 65535, old + 4096, old + 1, v.any(rng, IN_USE), v.main_arena])
    if name == "n_mmaps":  # an int, beside another
        new = old & ~0xFFFFFFFF | new & 0xFFFFFFFF
    v.memory.write(v.mp + offset, new)
    return Damage(f"mp_.{name}: {old:#x} -> {new:#x}", certain=False)


@_kind
def mmapped_header(v: Victim, rng: random.Random) -> Damage:
    if -1 not in v.of_class:
        return Damage("no mmapped chunk", certain=False)
    chunk = v.any(rng, -1)
    offset = rng.choice([0, 8])
    old = v.memory.word(chunk + offset)
    new = rng.choice([*WORDS, old + 4096, old - 4096, old ^ 2, old + 16, old + (1 << 40)])
    v.memory.write(chunk + offset, new)
    # The map of an aligned chunk begins with a header of its own, which does as well.
    aligned = chunk % 4096 != 0
    # From 2.43 on (no fastbins) mp_.mmapped_mem grows too large by itself, with 256 reallocs by as much as this.
    drift = v.layout.fastbins is None and (offset, new) == (8, old - 4096)
    what = f"mmapped chunk's header at {chunk + offset:#x}: {old:#x} -> {new:#x}"
    return Damage(what, certain=not aligned and not drift)


@_kind
def plausible_chain(v: Victim, rng: random.Random) -> Damage:
    """Sizes that follow each other inside application data, and lead nowhere."""
    chunk = max((v.any(rng, IN_USE) for _ in range(50)), key=lambda a: v.chunks[a][0])
    at, end = chunk + 16, chunk + v.chunks[chunk][0]
    flags = v.memory.word(chunk + 8) & 7 | PREV_INUSE
    while at + 64 < end:
        v.memory.write(at + 8, 32 | flags)
        at += 32
    v.memory.write(chunk + 8, 0)
    return Damage(f"a chain of small sizes within {chunk:#x}", certain=True)


@_kind
def scribble(v: Victim, rng: random.Random) -> Damage:
    """An overflow: many bytes in a row."""
    chunk = v.any(rng, IN_USE, BINNED, TCACHE)
    length = rng.choice([16, 64, 4096, 65536])
    length = min(length, v.following[chunk] - chunk)
    data = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length), b"\x21" + bytes(7) * (length // 8)])
    for at in range(0, len(data), 4096):
        with suppress(OSError):  # a core does not keep what lies behind the top
            v.memory.write(chunk + at, data[at : at + 4096])
    return Damage(f"{len(data)} bytes over {chunk:#x}", certain=False)


@_kind
def everywhere(v: Victim, rng: random.Random) -> Damage:
    """Several things at once."""
    names = [name for name in KINDS if name != "everywhere"]
    done = [KINDS[rng.choice(names)](v, rng) for _ in range(rng.randrange(2, 6))]
    return Damage("; ".join(d.what for d in done), certain=False)


def sets(dump: Dump) -> dict[str, Any]:
    """What the dump says of each class: address → size."""
    found: dict[str, Any] = {name: {} for name in ("IN_USE", "TCACHE", "FASTBIN", "BINNED")}
    for i in range(len(dump.heaps)):
        chunks = dump.heap_chunks(i)
        for name, members in found.items():
            chosen = chunks.classes == fmt.ChunkClass[name]
            members.update(zip(chunks.addresses[chosen].tolist(), chunks.sizes[chosen].tolist()))
    return found
