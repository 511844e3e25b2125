# SPDX-License-Identifier: MIT
"""ways.py FILE: allocates by some hundred call stacks, again and again in no order, and tells what it made by each.

Many of them differ in nothing but one frame: a caller's line, a C function, or a function where another one has died.
"""

# A program as others write them, under each release.
# mypy: ignore-errors
# ruff: noqa: PLW0603, PTH104, PTH119, PTH123

import os
import sys
import time
from collections import Counter

# Each of the C functions that the same instruction calls has its own size. A bytes object has 33 bytes more.
CHANGE = (bytes.upper, bytes.lower, bytes.title, bytes.capitalize, bytes.swapcase)
DATA = [b"x" * (2001 - 33 + 512 * way) for way in range(len(CHANGE))]
kept = []
truth = Counter()
state = 7


def choose(among):
    global state
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return (state >> 16) % among


def keep(way, block):
    stack = []
    frame = sys._getframe(1)
    while frame:
        code = frame.f_code
        stack.append((code.co_qualname, frame.f_lineno, os.path.basename(code.co_filename)))
        frame = frame.f_back
    kept.append(block)
    truth[way, tuple(stack)] += 1


def leaf():
    for _ in range(6):
        way = choose(len(CHANGE))
        keep(way, CHANGE[way](DATA[way]))


def left(depth):
    if depth == 0:
        leaf()
        leaf()
    elif choose(2):
        right(depth - 1)
    else:
        left(depth - 1)


def right(depth):
    if depth == 0:
        leaf()
    elif choose(2):
        left(depth - 1)
    else:
        [*map(right, (depth - 1,))]


def made(lines):
    space = {"keep": keep, "upper": bytes.upper, "data": DATA[0]}
    text = "\n" * lines + "def made():\n    for _ in range(9): keep(0, upper(data))\n"
    exec(compile(text, "made.py", "exec"), space)
    return space["made"]


for at in range(1500):
    left(4)
    if at % 20 == 0:
        made(at // 20 % 7)()
with open(sys.argv[1] + ".new", "w") as file:
    for (way, stack), count in truth.items():
        print(repr((count, way, stack)), file=file)
    print(repr(os.getpid()), file=file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
