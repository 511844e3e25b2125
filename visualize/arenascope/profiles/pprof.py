# SPDX-License-Identifier: MIT
"""pprof's format: a gzipped protobuf message (profile.proto of github.com/google/pprof).

Its few messages are written by hand, so that no generated code has to fit a version of a runtime.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from arenascope.wire.profile import GROWN, MEASURES, SourceLine

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from arenascope.wire.profile import Module, Profile, Share, StackFrame

UNITS = {
    "alloc_objects": "count",
    "alloc_space": "bytes",
    "inuse_objects": "count",
    "inuse_space": "bytes",
    GROWN: "bytes",
}
# Numbers of fields: of Profile, and of the messages in it.
SAMPLE_TYPE, SAMPLE, MAPPING, LOCATION, FUNCTION, STRINGS = 1, 2, 3, 4, 5, 6
TIME, DURATION, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_TYPE = 9, 10, 11, 12, 13, 14


LIBRARY: Final = re.compile(r"\.so(?:[._]|$)|^\[")  # or the kernel's: [vdso]
OF_LIBC: Final = re.compile(r"(?:libc|libpthread|ld|ld-linux[^.]*|ld-musl[^.]*)(?:-[0-9.]+)?\.so")
COMM: Final = 15  # bytes of a program's name that the kernel keeps
LAST_BYTE: Final = 0x7F  # of a number, and what each byte has of it


def varint(value: int) -> bytes:
    """Negative numbers as 64 bits, two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > LAST_BYTE:
        out.append(value & LAST_BYTE | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field; 0 is what a missing one means."""
    return varint(field << 3) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    """A field with a message or a text in it."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field of many numbers."""
    return message(field, b"".join(map(varint, values)))


class Ids:
    """Numbers things as they come, from `first` on."""

    def __init__(self, first: int = 1) -> None:  # noqa: D107
        self.first = first
        self.ids: dict[Hashable, int] = {}

    def __getitem__(self, thing: Hashable) -> int:
        """The number of a thing, a new one if it was not seen before."""
        return self.ids.setdefault(thing, len(self.ids) + self.first)


class Writer:
    """A message in the making: what samples refer to is added before them, once."""

    def __init__(self) -> None:  # noqa: D107
        self.out = bytearray()
        self.strings = Ids(0)
        self.strings[""]
        self.modules = Ids()
        self.functions = Ids()
        self.locations = Ids()
        # Numbers of locations by id(): it costs much to hash a frame, and one is on many stacks.
        self.seen: dict[int, bytes] = {}

    def add(self, field: int, content: bytes) -> None:
        """Adds a field of Profile."""
        self.out += message(field, content)

    def value_type(self, name: str) -> bytes:
        """A measure and its unit."""
        return number(1, self.strings[name]) + number(2, self.strings[UNITS[name]])

    def labels(self, share: Share | None) -> bytes:
        """The thread of a sample, where it is known: its title, and its id."""
        if not share or not share.thread:
            return b""
        title = number(1, self.strings["thread"]) + number(2, self.strings[share.title])
        tid = number(1, self.strings["thread_id"]) + number(3, share.thread.tid or 0)
        return message(3, title) + (message(3, tid) if share.thread.tid else b"")

    def module(self, module: Module | None) -> int:
        """Its number; 0: there is none."""
        if module is None:
            return 0
        new = module not in self.modules.ids
        identity = self.modules[module]
        if new:
            described = number(1, identity) + number(2, module.start) + number(3, module.end)
            described += number(4, module.start - module.bias)
            described += number(5, self.strings[module.path]) + number(6, self.strings[module.build_id])
            self.add(MAPPING, described + number(7, 1) + number(8, 1) + number(9, 1) + number(10, 1))
        return identity

    def function(self, line: SourceLine) -> int:
        """The number of its function."""
        key = (line.function, line.file)
        new = key not in self.functions.ids
        identity = self.functions[key]
        if new:
            name = self.strings[line.function]
            described = number(1, identity) + number(2, name) + number(3, name) + number(4, self.strings[line.file])
            self.add(FUNCTION, described)
        return identity

    def location(self, frame: StackFrame) -> bytes:
        """Its number, as a varint. The frame has to stay: its id() is remembered."""
        found = self.seen.get(id(frame))
        if found is None:
            found = self.seen[id(frame)] = varint(self._location(frame))
        return found

    def _location(self, frame: StackFrame) -> int:
        new = frame not in self.locations.ids
        identity = self.locations[frame]
        if new:
            described = number(1, identity) + number(2, self.module(frame.module)) + number(3, frame.address)
            for name, line in zip(frame.names(), frame.lines or (SourceLine(),)):
                function = self.function(SourceLine(name, line.file))
                described += message(4, number(1, function) + number(2, line.line))
            self.add(LOCATION, described)
        return identity


def main_module(profile: Profile, comm: str) -> Module | None:
    """The program's own module, if frames lead to one; else that which is outermost most often, but for libc."""
    found: Counter[Module] = Counter()
    for site in profile.sites:
        modules = {id(frame.module): frame.module for frame in reversed(site.frames) if frame.module}.values()
        found.update(dict.fromkeys(modules, 0))
        found.update([module for module in modules if not OF_LIBC.match(module.name)][:1])

    def rank(module: Module) -> tuple[bool, bool, bool, int]:
        name = module.name.replace(" (deleted)", "")
        own = not name or name.encode("utf-8", "replace")[:COMM] == comm.encode("utf-8", "replace")
        return own, not LIBRARY.search(name), not OF_LIBC.match(name), found[module]

    return max(found, key=rank, default=None)


def encode(profile: Profile, comm: str = "") -> bytes:
    """The profile, gzipped; the same profile gives the same bytes. `comm`: what the process is called."""
    writer = Writer()
    writer.module(main_module(profile, comm))  # pprof takes the first mapping for the program
    grown = bool(profile.sites) and profile.has(GROWN)
    measures = [measure for measure in MEASURES if profile.has(measure)]
    for measure in measures:
        writer.add(SAMPLE_TYPE, writer.value_type(measure))
    if grown:
        writer.add(SAMPLE_TYPE, writer.value_type(GROWN))
    none = [0] * len(measures)
    for site in profile.sites:
        frames = message(1, b"".join(map(writer.location, site.frames)))
        for share in site.shares or (None,):
            values = [(share or site).values.get(measure, 0) for measure in measures]
            writer.add(SAMPLE, frames + packed(2, [*values, *[0] * grown]) + writer.labels(share))
        if grown and site.values[GROWN]:  # of no thread
            writer.add(SAMPLE, frames + packed(2, [*none, site.values[GROWN]]))
    writer.out += number(TIME, profile.taken_ns) + number(DURATION, max(0, profile.taken_ns - profile.started_ns))
    if profile.sampled:
        writer.add(PERIOD_TYPE, writer.value_type("alloc_space"))
        writer.out += number(PERIOD, profile.mean)
    for comment in profile.comments:
        writer.out += number(COMMENT, writer.strings[comment])
    writer.out += number(DEFAULT_TYPE, writer.strings[MEASURES[-1]])
    for text in writer.strings.ids:
        writer.add(STRINGS, str(text).encode("utf-8", "replace"))
    return gzip.compress(bytes(writer.out), mtime=0)
