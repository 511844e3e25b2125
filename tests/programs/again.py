# SPDX-License-Identifier: MIT
"""again.py DEPTH COUNT: allocates COUNT times below DEPTH functions, by the same stacks, prints its PID, and waits."""

# A program as others write them, under each release.
# mypy: ignore-errors

import os
import sys
import time

kept = []


def inner(count):
    for at in range(count):
        kept.append(bytearray(2000))
        kept[at % 100] = bytearray(2000)


def deep(depth, count):
    if depth > 0:
        deep(depth - 1, count)
    else:
        inner(count)


deep(int(sys.argv[1]), int(sys.argv[2]))
print(os.getpid(), flush=True)
time.sleep(600)
