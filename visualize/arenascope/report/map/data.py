# SPDX-License-Identifier: MIT
"""The map's data: planes of one byte for each page, deflated, for the browser's own DecompressionStream to open.

A plane holds one thing of every page, so equal bytes stand side by side and deflate into runs. A page's counts of
16-byte units (in use, tcache, …) are two planes each; `binned` is left out, being what the others leave of the page.
All of it together stays below LIMIT. What does not fit is left out or told coarser, and the page says so: the sizes of
pins, then the last bits of counts, then chunk records.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.report.colours import BACKGROUND, Colour, page_bytes
from arenascope.report.map.areas import RUNTIME
from arenascope.report.map.legend import Counted, count
from arenascope.report.map.order import Regions, sources, struct_of
from arenascope.report.map.page_colours import light_of, linear, rgb
from arenascope.report.map.page_users import Held, put_in_order
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from arenascope.wire.dump import Dump

COUNTS: Final = ("in_use", "tcache", "fastbin", "top", "metadata", "unknown")
LIMIT: Final = 3_550_000  # bytes of deflated data: in base64, and with all else, below 5 MB
PIN_LIMIT: Final = 500_000  # bytes of deflated sizes of pins
RUBY_LIMIT: Final = 300_000  # bytes of deflated pages of Ruby's
CHUNK_LIMIT: Final = 1_000_000  # bytes of deflated chunk records
USER_LIMIT: Final = 700_000  # bytes of deflated users of pages
CHUNKS_TRIED: Final = 1_000_000  # records
LEVEL: Final = 5
SAMPLED: Final = 16  # of a heap of more than LARGE pages, one part in so many
LARGE: Final = 1 << 20
MAX_PINS: Final = 65_535


class Block(NamedTuple):
    """Deflated bytes, and what the script needs to take them apart again."""

    name: str
    data: bytes  # a zlib stream
    layout: list[tuple[str, str, int]]  # column, type ("u1", "u2", …), count

    @property
    def text(self) -> str:
        """As it stands in the page."""
        return base64.b64encode(self.data).decode("ascii")


class Units(NamedTuple):
    """The counts of a dump's pages, in units of 16 bytes."""

    block: Block
    step: int  # in-use counts are multiples of it: 1 is exact


class Drawn(NamedTuple):
    """The map of all dumps."""

    blocks: list[Block]
    json_data: list[dict[str, Any]]  # for each dump: what the script and the page must know of its blocks
    states: list[NDArray[np.uint8]]  # for each dump: DumpPages.states()
    legends: list[Counted]  # for each dump


def pack(name: str, columns: Iterable[tuple[str, NDArray[Any]]], level: int = LEVEL) -> Block:
    """Deflate columns of numbers one behind the other, each wide one byte plane by byte plane."""
    squeeze = zlib.compressobj(level)
    layout, parts = [], []
    for column, values in columns:
        layout.append((column, f"{values.dtype.kind}{values.dtype.itemsize}", len(values)))
        planes = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
        parts += [squeeze.compress(np.ascontiguousarray(planes[:, index]).data) for index in range(planes.shape[1])]
    parts.append(squeeze.flush())
    return Block(name, b"".join(parts), layout)


class DumpPages:
    """One dump's part of the map."""

    def __init__(self, dump: Dump, laid: Regions, which: int) -> None:
        """`which`: of the dumps that `laid` was made from."""
        self.dump: Final = dump
        self.laid: Final = laid
        self.area: Final = laid.areas[which]
        self.heaps: Final = laid.heaps[which]
        self.source: Final = sources(self.area, self.heaps, laid)
        self.there: Final = self.source >= 0

    def _placed(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values for each page record of the dump, put in the map's order."""
        out = np.zeros(self.laid.total, values.dtype)
        out[self.there] = values[self.source[self.there]]
        return out

    def states(self) -> NDArray[np.uint8]:
        """A byte for each page of the map: its colour, and what else the kernel says of it."""
        return self._placed(page_bytes(self.area.pages))

    def units(self, limit: int = LIMIT) -> Units:
        """What lies on each page. Where that deflates to more than `limit` bytes, in coarser steps."""
        step = 1
        # A large heap is tried by a part of it first, so that all of it is deflated once as a rule.
        part = slice(self.laid.total // 2, self.laid.total // 2 + self.laid.total // SAMPLED)
        while self.laid.total > LARGE and step < self._per_page // 4:
            if len(pack("units", self._unit_columns(step, part)).data) * SAMPLED <= limit:
                break
            step *= 4
        while True:
            block = pack("units", self._unit_columns(step))
            if len(block.data) <= limit or step >= self._per_page // 4:
                return Units(block, step)
            step *= 4

    def legend(self) -> Counted:
        """What the map's legend says of this dump."""
        return count(self.area, self.states() & np.uint8(0xF))

    def light(self) -> NDArray[np.float32]:
        """For each page of the map the mean of its bytes' colours, as linear light; of no page, the background's."""
        out = np.broadcast_to(linear(rgb(BACKGROUND)), (self.laid.total, 3)).copy()
        out[self.there] = light_of(self.area.pages)[self.source[self.there]]
        return out

    def pools(self) -> Block:
        """Packs, for pages of runtimes' heaps (last on the map), the sizes of blocks, and which numbers are means."""
        source = self.source[self.laid.malloc_total :]
        own = np.where(source >= 0, source - self.area.malloc_pages, 0)
        columns = [("block", self.area.block_sizes), ("mean", self.area.means.astype(np.uint8))]
        if not len(self.area.block_sizes):
            return pack("pools", [(name, np.zeros(len(source), np.uint8)) for name, _ in columns])
        return pack(
            "pools", [(name, np.where(source >= 0, values[own], 0).astype(np.uint8)) for name, values in columns]
        )

    @property
    def _per_page(self) -> int:
        return int(self.dump.meta["page_size"]) // fmt.UNIT

    def _unit_columns(self, step: int, part: slice = slice(None)) -> Iterable[tuple[str, NDArray[Any]]]:
        pages = self.area.pages
        rest = (np.uint32(self.dump.meta["page_size"]) // self.area.units()).astype(np.uint16)
        for name in (*COUNTS, "binned"):
            rest -= pages[name]  # never below 0: the reader has checked it
        yield "rest", self._placed(rest)[part]  # of the page: not this heap's
        for name in COUNTS:
            counts = self._placed(np.ascontiguousarray(pages[name]))[part]
            if step > 1 and name in ("in_use", "fastbin", "tcache"):
                # To the nearest step, but something never becomes nothing.
                rounded = (counts + step // 2) // step * step
                counts = np.where(counts > 0, np.maximum(rounded, 1), 0).astype(np.uint16)
            yield name, counts

    def pins(self, states: NDArray[np.uint8], limit: int = PIN_LIMIT) -> tuple[Block, list[int]]:
        """For each page that one chunk alone keeps, in the map's order, which size that chunk has: an index, from 1 on.

        0, and an empty list, where it is not known: without chunk records, or where it would not fit.
        """
        pinned = np.flatnonzero((states & 0xF) == Colour.PINNED)
        sizes = np.zeros(len(pinned), np.uint64)
        if self.dump.has_chunks:
            behind = np.searchsorted(pinned, self.laid.first)
            for place in np.flatnonzero((self.heaps >= 0) & (self.laid.pages > 0)):
                if self.laid.kind[place] == RUNTIME:
                    continue
                first = int(self.laid.first[place])
                part = slice(behind[place], np.searchsorted(pinned, first + int(self.laid.pages[place])))
                sizes[part] = self._pin_sizes(int(place), pinned[part] - first)
                self.dump.let_go()
        known = np.unique(sizes[sizes > 0])[:MAX_PINS]
        index = np.where(np.isin(sizes, known), np.searchsorted(known, sizes) + 1, 0).astype(np.uint16)
        block = pack("pins", [("size", index)])
        if len(block.data) > limit:
            return pack("pins", [("size", np.zeros(len(pinned), np.uint16))]), []
        return block, known.tolist()

    def _pin_sizes(self, place: int, pinned: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The size of the chunk in use on each of these pages of a heap."""
        sizes = np.zeros(len(pinned), np.uint64)
        if not len(pinned):
            return sizes
        chunks = self.dump.heap_chunks(int(self.heaps[place]))
        held = chunks.classes == fmt.ChunkClass.IN_USE
        if held.any():
            starts, lengths = chunks.addresses[held], chunks.sizes[held]
            page_size = np.uint64(self.dump.meta["page_size"])
            page = (self.laid.start[place] // page_size + pinned.astype(np.uint64)) * page_size
            at = np.minimum(np.searchsorted(starts + lengths, page, side="right"), len(starts) - 1)
            on_page = (starts[at] < page + page_size) & (starts[at] + lengths[at] > page)
            sizes[on_page] = lengths[at[on_page]]
        return sizes

    def ruby(self, limit: int = RUBY_LIMIT) -> Block:
        """The pages of Ruby's own heap that are chunks of malloc's, so on the map; none where they would not fit."""
        pages = self.dump.ruby
        pages = pages[pages["heap"] != fmt.NO_INDEX]
        place = np.full(len(self.area.heaps), -1, np.int64)
        place[self.heaps[self.heaps >= 0]] = np.flatnonzero(self.heaps >= 0)
        region = place[pages["heap"]]
        pages, region = pages[region >= 0], region[region >= 0]
        page_size = np.uint64(self.dump.meta["page_size"])
        first = pages["address"] // page_size
        count = (pages["address"] + pages["size"] - np.uint64(1)) // page_size - first + np.uint64(1)
        at = self.laid.first[region] + (first - self.laid.start[region] // page_size).astype(np.int64)
        order = np.argsort(at, kind="stable")
        columns = [("first", at.astype(np.uint32)), ("pages", count.astype(np.uint16))]
        columns += [(name, pages[name].astype(np.uint16)) for name in ("slot_size", "total_slots", "free_slots")]
        block = pack("ruby", [(name, column[order]) for name, column in columns])
        return block if len(block.data) <= limit else pack("ruby", [(name, column[:0]) for name, column in columns])

    def users(self, held: Held, limit: int = USER_LIMIT) -> Block:
        """How many users each of malloc's pages has, and which. Where all do not fit, one for each page; or none."""
        counts, users = put_in_order(*held.on_pages(), self.source[: self.laid.malloc_total])
        block = pack("users", [("count", counts), ("user", users)])
        if len(block.data) > limit:
            first = np.cumsum(counts, dtype=np.int64) - counts
            users = users[first[counts > 0]]
            block = pack("users", [("count", np.minimum(counts, 1)), ("user", users)])
        if len(block.data) > limit:
            block = pack("users", [("count", np.zeros(len(counts), np.uint8)), ("user", users[:0])])
        return block

    def chunk_block(self, limit: int = CHUNK_LIMIT) -> Block:
        """Chunk records of as many regions as there is room for; which, says its first column."""
        tried = CHUNKS_TRIED
        while True:
            block = self._chunks(tried)
            if len(block.data) <= limit or not tried:
                return block
            tried = int(tried * 0.9 * limit / len(block.data))

    def _chunks(self, most: int) -> Block:
        empty = np.empty(0, np.uint32)
        if not self.dump.has_chunks:
            return pack("chunks", [("region", empty), ("count", empty), ("record", empty)])
        chosen, counts, records = [], [], []
        left = most
        for place in np.flatnonzero(self.heaps >= 0):
            heap = self.area.heaps[self.heaps[place]]
            many = int(heap["chunk_count"])
            if not many or many > left:
                continue
            left -= many
            chosen.append(int(place))
            counts.append(many)
            first = int(heap["first_chunk"])
            records.append(self.dump.chunks[first : first + many])
        columns = (
            ("region", np.array(chosen, np.uint32)),
            ("count", np.array(counts, np.uint32)),
            ("record", np.concatenate(records) if records else empty),
        )
        return pack("chunks", columns)


class More(NamedTuple):
    """What else is on the page under the same limit: a block, and one of each dump by its pages' order on the map."""

    block: Block
    of_dumps: Sequence[Callable[[NDArray[np.int64]], Block]]


def map_blocks(dumps: list[Dump], laid: Regions, page_size: int, held: Sequence[Held], more: More) -> Drawn:
    """All blocks of the page, those of the first paint first."""
    blocks = [pack("regions", struct_of(laid, page_size).items())]
    json_data: list[dict[str, Any]] = []
    shown: list[NDArray[np.uint8]] = []
    legends: list[Counted] = []
    parts = [DumpPages(dump, laid, index) for index, dump in enumerate(dumps)]
    share = (LIMIT - len(more.block.data)) // len(parts)
    details: list[Block] = [more.block]
    for index, part in enumerate(parts):
        states = part.states()
        shown.append(states)
        legends.append(part.legend())
        state = pack("state", [("state", states)])
        pins, sizes = part.pins(states, PIN_LIMIT // len(parts))
        rubys = part.ruby(RUBY_LIMIT // len(parts))
        pools = part.pools()
        users = part.users(held[index], USER_LIMIT // len(parts))
        others = more.of_dumps[index](part.source[: laid.malloc_total])
        left = share - sum(len(block.data) for block in (state, pins, rubys, pools, users, others))
        units = part.units(left)
        left -= len(units.block.data)
        chunks = part.chunk_block(max(min(left, CHUNK_LIMIT // len(parts)), 0))
        blocks.append(state._replace(name=f"state-{index}"))
        details += [
            block._replace(name=f"{block.name}-{index}")
            for block in (units.block, pins, rubys, pools, users, others, chunks)
        ]
        records = len(part.dump.chunks)
        json_data.append(
            {
                "step": units.step,
                "pinSizes": sizes,
                "users": held[index].on_map()[0] if len(part.dump.graph) else [],
                "usersLeftOut": users.layout[1][2] < len(part.dump.graph_places),
                "pinsLeftOut": bool(records and not sizes and pins.layout[0][2]),
                "rubyPages": rubys.layout[0][2],
                "chunksShown": chunks.layout[2][2],
                "chunks": records,
            }
        )
        part.dump.let_go()
    return Drawn(blocks + details, json_data, shown, legends)
