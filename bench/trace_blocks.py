# SPDX-License-Identifier: MIT
"""What takes the room in a trace's file, by kinds of blocks; and what stacks take with all frames, or once."""

from __future__ import annotations

import argparse
import struct
from collections import Counter
from pathlib import Path

BLOCK = struct.Struct("<4s3I2Q")
KINDS = ("", "head", "modules", "contexts", "events", "state", "losses", "end", "functions", "interpreters", "stacks")
CONTEXTS, STACKS = 3, 10  # of versions 1 and 2, and of version 3
WORD = 8


class Stacks:
    """Each a frame and the stack of its caller."""

    def __init__(self) -> None:
        self.contexts = self.frames = 0  # `frames`: of all contexts, as if each had its own
        self.seen: dict[tuple[int, int], int] = {}
        self.depths = [0]
        self.numbers = [0]  # what each stack of a file of version 3 is here

    def add(self, caller: int, frames: tuple[int, ...]) -> None:
        """A context with these frames below a caller, outermost first."""
        for frame in frames:
            known = self.seen.setdefault((frame, caller), len(self.depths))
            if known == len(self.depths):
                self.depths.append(self.depths[caller] + 1)
            self.numbers.append(known)
            caller = known
        self.contexts += 1
        self.frames += self.depths[caller]

    def read(self, kind: int, words: tuple[int, ...]) -> None:
        """A block of contexts."""
        at = 1 if kind == STACKS else 0
        while at < len(words):
            count = words[at] >> 32 & 0xFFFF
            frames = words[at + 1 : at + 1 + count]
            if kind == STACKS:
                self.add(self.numbers[words[at] & 0xFFFF_FFFF], frames)
            else:
                self.add(0, frames[::-1])
            at += 1 + count


def main() -> None:
    """Reads a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    data = parser.parse_args().file.read_bytes()
    sizes: Counter[int] = Counter()
    stacks = Stacks()
    at = 0
    while at + BLOCK.size <= len(data):
        magic, kind, size, *_ = BLOCK.unpack_from(data, at)
        if magic != b"rblk":
            break
        sizes[kind] += BLOCK.size + size
        if kind in {CONTEXTS, STACKS}:
            stacks.read(kind, struct.unpack_from(f"<{size // WORD}Q", data, at + BLOCK.size))
        at += BLOCK.size + size
    for kind, size in sorted(sizes.items()):
        print(f"{KINDS[kind] if kind < len(KINDS) else kind:>14} {size:14,} bytes {100 * size / at:6.2f} %")
    count, once = stacks.contexts, len(stacks.seen)
    print(f"{count:,} contexts with all their {stacks.frames:,} frames take {WORD * (count + stacks.frames):,} bytes,")
    print(f"with {once:,} stacks, each a frame below its caller's, {WORD * (count + once):,} bytes")


if __name__ == "__main__":
    main()
