# SPDX-License-Identifier: MIT
"""Files of full records as tests change them: blocks, with their checksums right (docs/record-format.md)."""

from __future__ import annotations

import struct

BLOCK = struct.Struct("<IIIIQQ")
WORD = (1 << 64) - 1


def checksum(block: bytes) -> int:
    """Of a block whose own field is 0 (format.h)."""

    def over(total: int, data: bytes) -> int:
        lanes = [total, 1, 2, 3]
        for i, (word,) in enumerate(struct.iter_unpack("<Q", data)):
            lane = (lanes[i & 3] ^ word) * 0x9E3779B97F4A7C15 & WORD
            lanes[i & 3] = lane ^ lane >> 29
        for each in lanes[1:]:
            lanes[0] = (lanes[0] ^ each) * 0x9FB21C651E98DF25 & WORD
        return lanes[0] ^ lanes[0] >> 32

    return over(over(0, block[: BLOCK.size]), block[BLOCK.size :])


def changed(data: bytes, kind: int, at: int, word: bytes) -> bytes:
    """The record with the first block of a kind changed at a place of its contents, and its checksum right."""
    place = 0
    while True:
        _, found, size, *_ = BLOCK.unpack_from(data, place)
        if found == kind:
            break
        place += BLOCK.size + size
    block = bytearray(data[place : place + BLOCK.size + size])
    block[BLOCK.size + at : BLOCK.size + at + len(word)] = word
    block[BLOCK.size - 8 : BLOCK.size] = bytes(8)
    block[BLOCK.size - 8 : BLOCK.size] = checksum(bytes(block)).to_bytes(8, "little")
    return data[:place] + bytes(block) + data[place + len(block) :]
