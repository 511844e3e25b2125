# SPDX-License-Identifier: MIT
"""Files of traces as tests change them: blocks, with their checksums right (docs/trace-format.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

BLOCK = struct.Struct("<IIIIQQ")
WORD = (1 << 64) - 1
BLOCK_MAGIC = 0x6B6C6272
HEAD, STACKS = 1, 3

Block = tuple[int, int, bytes]  # its kind, its thread, and what it holds


def checksum(block: bytes) -> int:
    """Returns the checksum of a block whose own field is 0 (format.h)."""

    def over(total: int, data: bytes) -> int:
        lanes = [total, 1, 2, 3]
        for i, (word,) in enumerate(struct.iter_unpack("<Q", data)):
            lane = (lanes[i & 3] ^ word) * 0x9E3779B97F4A7C15 & WORD
            lanes[i & 3] = lane ^ lane >> 29
        for each in lanes[1:]:
            lanes[0] = (lanes[0] ^ each) * 0x9FB21C651E98DF25 & WORD
        return lanes[0] ^ lanes[0] >> 32

    return over(over(0, block[: BLOCK.size]), block[BLOCK.size :])


def blocks(data: bytes) -> list[Block]:
    found, at = [], 0
    while at < len(data):
        magic, kind, size, thread, *_ = BLOCK.unpack_from(data, at)
        assert magic == BLOCK_MAGIC
        found.append((kind, thread, data[at + BLOCK.size : at + BLOCK.size + size]))
        at += BLOCK.size + size
    return found


def joined(parts: Iterable[Block]) -> bytes:
    """A file of these blocks, with their numbers and checksums."""
    data = bytearray()
    for number, (kind, thread, text) in enumerate(parts):
        head = BLOCK.pack(BLOCK_MAGIC, kind, len(text), thread, number, 0)
        data += head[:-8] + checksum(head + text).to_bytes(8, "little") + text
    return bytes(data)


def place(data: bytes, kind: int) -> int:
    """Where the first block of a kind is."""
    at = 0
    while True:
        _, found, size, *_ = BLOCK.unpack_from(data, at)
        if found == kind:
            return at
        at += BLOCK.size + size


def payload(data: bytes, kind: int) -> bytes:
    return next(text for found, _, text in blocks(data) if found == kind)


def changed(data: bytes, kind: int, at: int, word: bytes) -> bytes:
    """The record with the first block of a kind changed at a place of its contents, and its checksum right."""
    start = place(data, kind)
    size = BLOCK.size + len(payload(data, kind))
    block = bytearray(data[start : start + size])
    block[BLOCK.size + at : BLOCK.size + at + len(word)] = word
    block[BLOCK.size - 8 : BLOCK.size] = bytes(8)
    block[BLOCK.size - 8 : BLOCK.size] = checksum(bytes(block)).to_bytes(8, "little")
    return data[:start] + bytes(block) + data[start + size :]


# --- Stacks -----------------------------------------------------------------------------------------------------------

Stacks = list[tuple[int, int]]  # each a frame and the number of its caller's stack, from 1 on


def new_contexts(text: bytes, known: Stacks) -> list[tuple[int, Stacks]]:
    """Returns each context's word in a block of stacks, and its new stacks, which are added to those that are known."""
    words = struct.unpack(f"<{len(text) // 8}Q", text)
    found, at = [], 1
    while at < len(words):
        caller, count = words[at] & 0xFFFF_FFFF, words[at] >> 32 & 0xFFFF
        new: Stacks = []
        for frame in words[at + 1 : at + 1 + count]:
            new.append((frame, caller))
            caller = len(known) + len(new)
        known += new
        found.append((words[at] & ~0xFFFF_FFFF | caller, new))
        at += 1 + count
    return found


def contexts(data: bytes) -> list[tuple[int, Stacks]]:
    """Returns all contexts of a file, each with its new stacks."""
    known: Stacks = []
    return [one for kind, _, text in blocks(data) if kind == STACKS for one in new_contexts(text, known)]
