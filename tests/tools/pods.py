# SPDX-License-Identifier: MIT
"""Many processes that write all their memory, each alone in a memory cgroup that leaves it little room."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import kernel, tight


@dataclass(frozen=True)
class Shape:
    """What a pod is like."""

    headroom: float  # per cent of what it uses
    megabytes: int
    limit: str  # hard; above: that of the cgroup above its own; soft: memory.high (version 2)


class Pod:
    """A process in its cgroup. One that was killed is followed by another."""

    def __init__(self, shape: Shape, parent: str, stack: contextlib.ExitStack) -> None:
        self.shape = shape
        self._parent, self._stack = parent, stack
        self._start()

    def _start(self) -> None:
        self._here = contextlib.ExitStack()
        self._stack.push(self._here)
        self._group = tight.TightCgroup(f"{self._parent}/pod")
        self._here.enter_context(self._group)
        inside = self._group.inner("container") if self.shape.limit == "above" else self._group.path
        self._seen = 0
        self._process = self._here.enter_context(tight.running(inside, self.shape.megabytes))
        self._group.leave(int(self._group.usage * self.shape.headroom / 100), soft=self.shape.limit == "soft")
        self._slowed = self._group.slowed()

    @property
    def pid(self) -> int:
        return self._process.pid

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """It writes nothing meanwhile."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def harm(self) -> Counter[str]:
        """What has come of it. If it is dead, there is a new one afterwards."""
        dead = self._process.poll() is not None
        found = Counter({"targets killed": int(dead), "kernel kills": self._kills(), "memory.high met": self._met()})
        if dead:
            self._here.close()
            self._start()
        return found

    def _kills(self) -> int:
        """Returns the kernel's kills in its cgroup since the last question: its own, and those of clones."""
        now = self._group.kills()
        found, self._seen = now - self._seen, now
        return found

    def _met(self) -> int:
        """How often it met memory.high since the last question."""
        now = self._group.slowed()
        found, self._slowed = now - self._slowed, now
        return found


@contextlib.contextmanager
def running(shapes: Sequence[Shape]) -> Iterator[tuple[str, list[Pod]]]:
    """The pods, and the cgroup that has all of them. Raises kernel.NotAllowedError."""
    name = f"arenascope-pods-{os.getpid()}-{time.monotonic_ns()}"
    with contextlib.ExitStack() as stack:
        parent = stack.enter_context(kernel.Cgroup(name))
        if parent.limit.name == "memory.high":
            (parent.path / "cgroup.subtree_control").write_text("+memory")
        yield name, [Pod(shape, name, stack) for shape in shapes]
