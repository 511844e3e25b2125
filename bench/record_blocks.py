# SPDX-License-Identifier: MIT
"""What takes the room in a full record's file, by kinds of blocks; and what its stacks take as frames and callers."""

from __future__ import annotations

import argparse
import struct
from collections import Counter
from pathlib import Path

BLOCK = struct.Struct("<4s3I2Q")
KINDS = ("", "head", "modules", "contexts", "events", "state", "losses", "end", "functions", "interpreters")
CONTEXTS = 3
WORD = 8
NODE = 16  # bytes of a frame and the number of its caller's stack, and of a context that names a stack


def contexts(words: tuple[int, ...], seen: dict[tuple[int, int], int]) -> tuple[int, int]:
    """How many there are in a block, and of how many frames; `seen` gets each frame with its caller's stack once."""
    at = count = frames = 0
    while at < len(words):
        depth = words[at] >> 32 & 0xFFFF
        stack = 0
        for frame in reversed(words[at + 1 : at + 1 + depth]):
            stack = seen.setdefault((frame, stack), len(seen) + 1)
        count, frames, at = count + 1, frames + depth, at + 1 + depth
    return count, frames


def main() -> None:
    """Reads a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    data = parser.parse_args().file.read_bytes()
    sizes: Counter[int] = Counter()
    seen: dict[tuple[int, int], int] = {}
    at = count = frames = 0
    while at + BLOCK.size <= len(data):
        magic, kind, size, *_ = BLOCK.unpack_from(data, at)
        if magic != b"rblk":
            break
        sizes[kind] += BLOCK.size + size
        if kind == CONTEXTS:
            found = contexts(struct.unpack_from(f"<{size // WORD}Q", data, at + BLOCK.size), seen)
            count, frames = count + found[0], frames + found[1]
        at += BLOCK.size + size
    for kind, size in sorted(sizes.items()):
        print(f"{KINDS[kind] if kind < len(KINDS) else kind:>14} {size:14,} bytes {100 * size / at:6.2f} %")
    print(
        f"{count:,} contexts of {frames:,} frames; as {len(seen):,} frames with callers "
        f"they would take {NODE * (len(seen) + count):,} bytes"
    )


if __name__ == "__main__":
    main()
