# SPDX-License-Identifier: MIT
"""nested.py FILE: loads nested lists and dictionaries by one line, and tells how many strings of each size are left.

A function in C calls itself for each level, from one place for a list, and from another one for a dictionary. Each
order of these has strings of a size of its own: their call stacks differ in nothing else.
"""

# A program as others write them, under each release.
# mypy: ignore-errors
# ruff: noqa: PLW0603, PTH104, PTH123

import marshal
import os
import sys
import time

LEVELS, SHUFFLED, KINDS, TIMES = (6, 14, 40, 90), 6, 10, 60
state = 7


def choose(among):
    global state
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return (state >> 16) % among


def shuffled(levels):
    """As many lists as dictionaries; the outermost ones in any order."""
    order = [level % 2 == 0 for level in range(levels)]
    for last in range(levels - 1, levels - SHUFFLED, -1):
        other = levels - SHUFFLED + choose(last + 1 - levels + SHUFFLED)
        order[last], order[other] = order[other], order[last]
    return tuple(order)


def nested(order, text):
    for is_list in order:
        text = [text] if is_list else {0: text}
    return text


orders = {}
for levels in LEVELS:
    enough = len(orders) + KINDS
    while len(orders) < enough:
        orders.setdefault(shuffled(levels), len(orders))
texts = ["x" * (9000 + 64 * number) for number in range(len(orders))]
dumps = [marshal.dumps(nested(order, text)) for order, text in zip(orders, texts)]


def load_one():
    return marshal.loads(dumps[choose(len(dumps))])


kept = [load_one() for _ in range(TIMES * len(dumps))]


def leaf(value):
    while not isinstance(value, str):
        value = value[0]
    return value


sizes = [sys.getsizeof(leaf(value)) for value in kept]
with open(sys.argv[1] + ".new", "w") as file:
    for size in sorted(set(sizes)):
        print(repr((size, sizes.count(size))), file=file)
    print(repr(os.getpid()), file=file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
