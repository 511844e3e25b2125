# SPDX-License-Identifier: MIT
"""Knows the Python stack of each of its blocks: functions and lines, innermost first. Writes them down, and waits.

frames.py FILE ACT... - as tests/profiles/test_profile_python.py runs it, with no module but built-in ones where ctypes is missing.
"""

# A program as others write them, under each release.
# mypy: ignore-errors
# ruff: noqa: B009, D403, E501, F841, FURB192, PLC2401, PLC3002, PLW0108, PTH104, PTH119, PTH123

import _functools
import _thread
import _weakref
import os
import sys
import time
from collections import Counter

try:
    import ctypes
except ImportError:
    ctypes = None

SIZE = 9001  # of all blocks, and of no other
kept = []
truth = Counter()
addresses = {}  # of code objects that are gone: how many were there
lock = _thread.allocate_lock()


def keep(block, *inner):
    """Block was made in the line that calls this; or, called from there, by functions that have returned since."""
    stack = list(inner)
    frame = sys._getframe(1)
    while frame:
        stack.append((frame.f_code.co_qualname, frame.f_lineno, os.path.basename(frame.f_code.co_filename)))
        frame = frame.f_back
    with lock:
        kept.append(block)
        truth[tuple(stack)] += 1


def left():
    for _ in range(60):
        keep(bytearray(SIZE))


def right():
    for _ in range(90):
        keep(bytearray(SIZE))
    keep(bytearray(SIZE))


def plain():
    left()
    left()
    right()
    left()


def sink(depth):
    if depth > 0:
        return sink(depth - 1) + 1
    keep(bytearray(SIZE))
    return 0


def recursion():
    for depth in (0, 1, 2, 30, 31, 200):
        for _ in range(3):
            sink(depth)
    sink(100)
    sink(100)


def counter(count):
    for at in range(count):
        keep(bytearray(SIZE))
        yield at
        keep(bytearray(SIZE))


def outer(count):
    keep(bytearray(SIZE))
    got = yield from counter(count)
    return got


def generators():
    list(counter(5))
    for _ in outer(4):
        keep(bytearray(SIZE))
    half = outer(3)
    next(half)
    sink(2)
    next(half)
    try:
        half.throw(KeyError)
    except KeyError:
        keep(bytearray(SIZE))
    sum(keep(bytearray(SIZE)) or 1 for _ in range(7))


class Waiting:
    def __await__(self):
        keep(bytearray(SIZE))
        yield
        keep(bytearray(SIZE))


async def inner_task():
    await Waiting()
    keep(bytearray(SIZE))


async def task():
    keep(bytearray(SIZE))
    await inner_task()
    keep(bytearray(SIZE))


def coroutines():
    tasks = [task() for _ in range(3)]
    while tasks:
        for each in list(tasks):
            try:
                each.send(None)
            except StopIteration:
                tasks.remove(each)


class Value:
    keep(bytearray(SIZE))

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        keep(bytearray(SIZE))
        return self.value < other.value

    def __eq__(self, other):
        sink(3)
        return self.value == other.value

    def __hash__(self):
        keep(bytearray(SIZE))
        return 1

    @property
    def shown(self):
        return keep(bytearray(SIZE))

    def __getattr__(self, name):
        keep(bytearray(SIZE))
        return name

    def __del__(self):
        keep(bytearray(SIZE))


def dropped():
    first, second = Value(1), Value(2)
    keep(bytearray(SIZE))


def callbacks():
    for _ in range(5):
        sorted([3, 1, 2], key=lambda value: (keep(bytearray(SIZE)), value)[1])
    sorted([Value(2), Value(1), Value(3)])
    {Value(1): 1, Value(2): 2}
    first = Value(4)
    first.shown, first.absent, getattr(first, "other")
    list(map(sink, range(4)))
    max([Value(1), Value(2)], key=lambda value: sorted([value, Value(0)])[0].value)
    eval("sink(2)")
    exec("for _ in range(3):\n    sink(1)\nkeep(bytearray(SIZE))")
    dropped()


def broken(depth):
    if depth == 0:
        keep(bytearray(SIZE))
        raise ValueError
    try:
        broken(depth - 1)
    finally:
        keep(bytearray(SIZE))


def exceptions():
    for depth in (1, 2, 5):
        try:
            broken(depth)
        except ValueError as error:
            keep(bytearray(SIZE))
            sink(error.args == ())
    for _ in range(3):
        with Guard():
            keep(bytearray(SIZE))
            raise ValueError


class Guard:
    def __enter__(self):
        keep(bytearray(SIZE))

    def __exit__(self, *error):
        keep(bytearray(SIZE))
        return True


def made_and_gone():
    """Code objects that die, and others of the same name and size where they were: only their lines differ, or nothing.

    Some are told of when they die: memory is allocated while the frame still names them.
    """
    answer = []
    for number in range(200):
        before = number % 40
        source = "def made():\n" + "\n" * before + "    return bytearray(SIZE)\n"
        space = {"SIZE": SIZE}
        exec(compile(source, "<made>", "exec"), space)
        code = space["made"].__code__
        addresses[id(code)] = addresses.get(id(code), 0) + 1
        if number % 3:
            answer.append(_weakref.ref(code, _functools.partial(dict.fromkeys, range(200))))
        del code
        keep(space.pop("made")(), ("made", before + 2, "<made>"))


def replaced():
    """The same, where no memory of malloc's is taken between one's death and the next one's first block."""

    def made(): return bytearray(SIZE)  # fmt: skip

    code, function = made.__code__, type(made)
    del made
    for number in range(100):
        made = function(code.replace(co_firstlineno=1000 + number), {"SIZE": SIZE, "bytearray": bytearray})
        addresses[id(made.__code__)] = addresses.get(id(made.__code__), 0) + 1
        keep(made(), ("replaced.<locals>.made", 1000 + number, os.path.basename(__file__)))
        del made


def shared():
    keep(bytearray(SIZE))
    keep(bytearray(SIZE))


def between():
    shared()
    keep(bytearray(SIZE))


def paths():
    """Two that differ in an outer frame alone."""
    for _ in range(3):
        between()
        between()


def threads():
    done = []

    def run(depth):
        sink(depth)
        left()
        done.append(depth)

    for depth in range(8):
        _thread.start_new_thread(run, (depth,))
    while len(done) < 8:
        time.sleep(0.01)


def without_lock():
    """malloc itself, by a call that gives the interpreter's lock back; and by one that does not; and Python below qsort."""
    for library in (ctypes.CDLL(None), ctypes.PyDLL(None)):
        malloc = library.malloc
        malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        for _ in range(20):
            keep(malloc(SIZE))
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def compare(one, other):
        keep(malloc(SIZE))
        sorted([2, 1], key=lambda value: sink(value))
        return 0

    ctypes.CDLL(None).qsort((ctypes.c_int * 4)(4, 3, 2, 1), 4, 4, kind(compare))


def bläh():
    keep(bytearray(SIZE))
    (lambda: keep(bytearray(SIZE)))()
    [keep(bytearray(SIZE)) for _ in range(3)]


def fork():
    child = os.fork()
    name = sys.argv[1] + (".child" if child == 0 else "")
    plain()
    sink(9)
    tell(name)


def tell(name):
    with open(name + ".new", "w") as file:
        for stack, count in truth.items():
            print(repr((count, stack)), file=file)
        print(repr((os.getpid(), max(addresses.values(), default=0))), file=file)
    os.rename(name + ".new", name)
    time.sleep(600)


ACTS = (plain, recursion, generators, coroutines, callbacks, exceptions, made_and_gone, replaced, paths, threads, bläh)
for act in (*ACTS, *([without_lock] if ctypes else [])):
    act()
if "fork" in sys.argv:
    fork()
tell(sys.argv[1])
