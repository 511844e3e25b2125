# SPDX-License-Identifier: MIT
"""The live view as a program in a terminal."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from textual.app import App
from textual.binding import Binding

from arenascope.humanize import printable
from arenascope.live.actions import ACTIONS, carried_out
from arenascope.live.process_history import ProcessHistory
from arenascope.live.profile_jobs import ProfileJobs
from arenascope.live.scheduler import Hands
from arenascope.live.screens import MachineScreen, ProcessScreen, Question
from arenascope.signals import leaving

if TYPE_CHECKING:
    from arenascope.live.columns import Choice
    from arenascope.live.process_table import Processes
    from arenascope.live.screens import LinesScreen
    from arenascope.processes import Process
    from arenascope.wire.how import How


class Live(App[int]):
    """All of it: a screen of the machine or of one process, and a thread that works for it."""

    CSS = "Screen { background: transparent; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[Any]] = [Binding("q,ctrl+c,ctrl+q", "leave", priority=False)]

    def __init__(self, machine: Processes, choice: Choice, every: float, first: tuple[Process, How] | None) -> None:
        """`first`: begin with this process, inspected so."""
        super().__init__(ansi_color=True)  # the terminal's own colours; with NO_COLOR none
        self._leaving: Question | None = None  # the question whether to leave
        self.theme = "ansi-dark"
        self.every = every
        self.announced: tuple[float, str] | None = None
        self._first = first
        self._machine = MachineScreen(self, machine, choice, every)
        self.profile_jobs = ProfileJobs()
        self._actions = {**ACTIONS, "profile": self.profile_jobs.begin, "end of the profile": self.profile_jobs.end}
        self.hands = Hands(self._machine.scene)
        self.hands.beside = self._tell_ended

    def on_mount(self) -> None:
        """Begin."""
        leaving.clear()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self.exit, 128 + number)
        self.hands.alive = self._has_terminal
        self.push_screen(self._machine)
        if self._first:
            self.open(*self._first)
        self.run_worker(self._work, thread=True)

    def _work(self) -> None:
        """The thread. Its last act is for the processes that record: they do not longer than the view lasts."""
        try:
            self.hands.run()
        finally:
            self.profile_jobs.close()

    def _tell_ended(self) -> None:
        for words in self.profile_jobs.check():
            self.call_later(self.tell, printable(words))

    def on_unmount(self) -> None:
        """The thread ends, and what it has started."""
        leaving.set()
        self.hands.wake()

    def _has_terminal(self) -> bool:
        """Whether there is still a terminal to draw on. Where SIGHUP is ignored, Textual would spin on a dead one."""
        poll = select.poll()
        poll.register(0, 0)
        if self.is_headless or not any(event & (select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0)):
            return True
        self.call_later(self.exit, 128 + signal.SIGHUP)
        return False

    def later(self, draw: Callable[[], None]) -> None:
        """Draw from the other thread."""
        if not leaving.is_set():
            self.call_later(draw)

    def open(self, process: Process, how: How | None = None) -> None:
        """Show one process."""
        screen = ProcessScreen(
            self, ProcessHistory(process, self._machine.machine.how if how is None else how), self.every
        )
        self.push_screen(screen)
        self.hands.show_scene(screen.scene)

    def back(self) -> None:
        """Show the machine again."""
        self.pop_screen()
        self._machine.scene.resume()
        self.hands.show_scene(self._machine.scene)

    def do(self, name: str, process: Process) -> None:
        """Have an action done, and tell what came of it."""
        self.tell(f"{name} of process {process.pid} …")

        def act() -> None:
            words = carried_out(name, process, self._actions[name])
            self.call_later(self.tell, words)

        self.hands.do(act)

    def tell(self, words: str) -> None:
        """In the last line, for a while."""
        self.announced = time.monotonic(), words
        screen: LinesScreen = self.screen  # type: ignore[assignment]
        if hasattr(screen, "draw"):
            screen.draw()

    def action_leave(self) -> None:
        """The user goes; asked first, if a profile would be lost. Who types Ctrl-C at this question means it."""
        if not self.profile_jobs.on or self.screen is self._leaving:
            self.exit(os.EX_OK)
            return
        words = "Quit? A profile is on."
        about = "It ends with the view, without a dump. The key p ends it with a dump."
        self._leaving = Question(words, about)
        self.push_screen(self._leaving, lambda yes: self.exit(os.EX_OK) if yes else None)
