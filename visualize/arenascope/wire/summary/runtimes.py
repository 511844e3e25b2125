# SPDX-License-Identifier: MIT
"""The heaps of runtimes, and their objects. Part of the schema "arenascope.summary/1"."""

from typing import Annotated, NamedTuple, Optional

from arenascope.wire.json_types import EnumNames, Unsigned


class Slots(NamedTuple):
    """Pages of Ruby's own heap with slots of one size."""

    slot_size: Unsigned  # Bytes.
    pages: Unsigned  # Pages of Ruby's heap (GC.stat(:heap_allocated_pages)).
    slots: Unsigned  # Slots of these pages, each with room for one object.
    # Slots without an object (ObjectSpace.count_objects[:FREE]). An object that died since the last sweep still counts
    # as an object.
    free_slots: Unsigned


class ObjectType(NamedTuple):
    """A runtime's objects of one type. Bytes are those of whole blocks and chunks.

    Where another malloc than glibc's answers, its blocks were not searched: objects in them are not counted.
    """

    name: Optional[str]  # The type's name as the runtime has it; a class of a program has no module in it.
    address: Optional[str]  # The type's own. null: the types are built in (Ruby's T_STRING and others).
    count: Unsigned  # type: ignore[assignment]  # Objects.
    tracked: Unsigned  # Those in the lists of the runtime's garbage collector.
    bytes: Unsigned  # Bytes of the objects' blocks and chunks, headers included.
    # Bytes of the blocks and chunks that only these objects point to: a list's items, a dict's table, the values of
    # attributes. null: another malloc than glibc's has them.
    owned: Optional[Unsigned]
    # The part of bytes and owned in chunks of malloc. The rest is in the runtime's regions. null: as for owned.
    in_malloc: Optional[Unsigned]

    @property
    def held(self) -> int:
        """Bytes with what they own, as far as these are known."""
        return self.bytes + (self.owned or 0)


class ObjectClass(NamedTuple):
    """A Ruby's objects of one class that have one type."""

    name: Optional[str]  # What the class's name method says. null: see kind.
    # anonymous: a class without a name. singleton: the objects are singleton classes. internal: objects that no program
    # sees. null: one that came later than this arenadump.
    kind: Optional[Annotated[str, EnumNames("ClassKind")]]
    type: Optional[str]  # The objects' type (T_STRING, ...): a name in types.
    address: Optional[str]  # Address of the class. null: there is none.
    # Objects. For a named class of which ObjectSpace.each_object shows the objects: as many.
    count: Unsigned  # type: ignore[assignment]
    # Those that no GC has marked yet: made since the last one, garbage or not. null: unknown.
    not_marked: Optional[Unsigned]
    # Bytes of their slots, and of the chunks of malloc that they point to and no older object does. null: unknown.
    not_marked_bytes: Optional[Unsigned]
    bytes: Unsigned  # Bytes of their slots.
    # Bytes of the chunks of malloc that they point to. null: another malloc than glibc's has them.
    owned: Optional[Unsigned]

    @property
    def held(self) -> int:
        """Bytes with what they own, as far as these are known."""
        return self.bytes + (self.owned or 0)

    @property
    def title(self) -> str:
        """What to call it."""
        without = {
            "anonymous": "(class without a name)",
            "singleton": "(singleton classes)",
            "internal": "(Ruby's own)",
        }
        return self.name or without.get(self.kind or "", "(unknown)")


class Objects(NamedTuple):
    """A runtime's objects by type, largest first, and what is in blocks that no object owns; a Ruby's by class, too."""

    exact: bool  # Whether nothing changed while the objects were counted.
    other_blocks: Unsigned  # Blocks in use in the regions that are neither an object nor owned by one.
    other_bytes: Unsigned  # Bytes of these blocks.
    types: tuple[ObjectType, ...]  # The objects by type, those with the most bytes first.
    # A Ruby's objects that no GC has marked yet: made since the last one, garbage or not. null: the GC's bits could not
    # be proven, no object is old, or the runtime is no Ruby.
    not_marked: Optional[Unsigned]
    # Bytes of their slots, and of the chunks of malloc that they point to and no older object does. null: unknown.
    not_marked_bytes: Optional[Unsigned]
    # A Ruby's objects by class, those with the most bytes first; objects of one class and several types are several
    # elements. null: the names of classes could not be proven, or the runtime is no Ruby.
    classes: Optional[tuple[ObjectClass, ...]]


class Ruby(NamedTuple):
    """Ruby's own heap."""

    releases: Optional[str]  # Which releases of Ruby have the structures that were found.
    pages: Unsigned  # Pages of Ruby's heap (GC.stat(:heap_allocated_pages)).
    slots: Unsigned  # Slots of these pages, each with room for one object.
    # Slots without an object (ObjectSpace.count_objects[:FREE]). An object that died since the last sweep still counts
    # as an object.
    free_slots: Unsigned
    # The same for each slot size; at most 32 sizes. Size 0: pages that are not divided into slots yet.
    slot_sizes: tuple[Slots, ...]
    objects: Optional[Objects]  # Its objects by type (T_STRING, ...), with --objects. null: not asked for.


class SizeClass(NamedTuple):
    """The blocks of one size that a runtime has."""

    size: Unsigned  # Bytes of a block.
    pools: Unsigned  # Pools with a block in use.
    in_use: Unsigned  # Blocks in use.
    free: Unsigned  # Free blocks of these pools.


class Space(NamedTuple):
    """A part of a runtime's heap, as the runtime counts it."""

    name: Optional[str]  # As the JVM calls it: the generation's name, and the space's where the generation has several.
    used: Optional[Unsigned]  # Live objects and garbage. Some collectors count at a collection only.
    committed: Optional[Unsigned]  # What the space has of the memory that is committed.


class Goroutines(NamedTuple):
    """Go's goroutines, and the part of its heap that is stacks."""

    # Goroutines that have not ended. Go's own are among them, which runtime.NumGoroutine() leaves out. null: the table
    # of goroutines was not found.
    count: Optional[Unsigned]  # type: ignore[assignment]
    free: Optional[Unsigned]  # Records of goroutines that have ended, which Go keeps for the next ones.
    # Bytes of stacks, of threads' stacks that Go allocates, and of free stacks between these
    # (runtime.MemStats.StackInuse).
    stacks: Unsigned
    stacks_resident: Optional[Unsigned]  # The part of stacks on resident pages.


class Runtime(NamedTuple):
    """A part of a runtime's own memory, but Ruby's. Bytes are None where it was not found, or does not tell them."""

    # Which one. unknown: malloc is answered by something that was not recognised. null: one that came later than this
    # arenadump.
    runtime: Optional[Annotated[str, EnumNames("RUNTIME_NAMES")]]
    # Which part of its memory: a runtime may have several, each an element of its own. null: one that came later than
    # this arenadump.
    part: Optional[Annotated[str, EnumNames("RUNTIME_PARTS")]]
    releases: Optional[str]  # Which releases have the structures that were found.
    row: Optional[str]  # The row of the ledger that has the resident bytes of its regions.
    # Whether its regions were found and proven. false: their bytes stand in other rows, and the numbers below are null,
    # but for what the runtime itself tells (used, committed).
    found: bool
    evidence: Optional[str]  # What shows that the regions are what they seem.
    # Bytes of each region: what the runtime takes from the kernel in one piece (an arena).
    region_size: Optional[Unsigned]
    pool_size: Optional[Unsigned]  # Bytes of each pool: the part of a region that is divided into blocks of one size.
    regions: Optional[Unsigned]  # How many regions there are.
    size: Optional[Unsigned]  # Bytes of all regions, resident or not.
    resident: Optional[Unsigned]  # The part of size on resident pages.
    # Bytes in use by the runtime's own account, which may count garbage, and may be as old as the last collection.
    # null: it does not tell.
    used: Optional[Unsigned]
    committed: Optional[Unsigned]  # Bytes that the runtime has made usable, resident or not. null: it does not tell.
    in_use: Optional[Unsigned]  # Bytes in blocks in use. null: nothing is known of its blocks.
    free: Optional[Unsigned]  # Bytes in free blocks of pools that have a block in use.
    empty: Optional[Unsigned]  # Bytes of pools without a block in use.
    empty_resident: Optional[Unsigned]  # The part of empty on resident pages.
    # Blocks of which CPython's module tracemalloc has a trace, of Python's own (others have domains of their own).
    # null: no table of them was found, tracemalloc is off; or the agent made the dump.
    traces: Optional[Unsigned]
    # Bytes of malloc's chunks for these traces, at least: what tracebacks take is more. null: likewise, or another
    # malloc than glibc's has them.
    trace_bytes: Optional[Unsigned]
    size_classes: tuple[SizeClass, ...]  # The blocks by size, ascending.
    spaces: tuple[Space, ...]  # The spaces of a JVM's collector, by the JVM's own counters; empty where it has none.
    goroutines: Optional[Goroutines]  # null: this is no Go, or which of its heap is stacks could not be proven.
    objects: Optional[Objects]  # Its objects by type, with --objects. null: not asked for, or not found.
