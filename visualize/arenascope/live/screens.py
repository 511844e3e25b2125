# SPDX-License-Identifier: MIT
"""The live view's screens: the machine's processes, one process, a question, and the list of keys."""

from __future__ import annotations

import time
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.binding import Binding
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from arenascope.humanize import printable
from arenascope.live.columns import COLUMNS, GROUPINGS, chosen, lines_of
from arenascope.live.line_widget import Lines
from arenascope.live.machine_text import LEAST, Drawing, draw_line, header, said
from arenascope.live.process_text import draw_process
from arenascope.live.scheduler import MachineScene, ProcessScene

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual.app import ComposeResult

    from arenascope.live.app import Live
    from arenascope.live.columns import Choice, Listed
    from arenascope.live.process_history import ProcessHistory
    from arenascope.live.process_table import Processes
    from arenascope.processes import Process

KEYS: Final = (
    ("up, down, PgUp, PgDn, Home, End", "move"),
    ("Enter", "inspect one process, or open a group"),
    ("Esc", "back; remove the filter, leave the group"),
    ("s, S", "sort by the next column, by the one before"),
    ("i", "invert the order"),
    ("/", "filter: words in PID, name, arguments or cgroup"),
    ("g", "group by command, by cgroup, not at all"),
    ("l", "inspect this process now"),
    ("d", "write a dump into this directory"),
    ("r", "write a report into this directory"),
    ("t", "trim: have the process return free memory"),
    ("p", "profile: have the process record who allocates; again: end it, with a dump"),
    ("?", "this list"),
    ("q", "quit"),
    ("", ""),
    ("~", "the kernel's quick count of Rss"),
    (LEAST, "at least: some were not inspected"),
    ("\N{EN DASH}", "not known"),
)
SHORT_HINT: Final = "q quit  ? keys"
MOST_LISTED: Final = 4  # lines
ANNOUNCED: Final = 20.0  # seconds for which the outcome of an action is shown
ASKED: Final = {"trim": "Trim", "profile": "Until p is typed again, record who allocates in"}
LOADED: Final = "The agent is loaded into the process if it is not there, and stays, asleep."
Bindings = list[Any]


class LinesScreen(Screen[None]):
    """Lines above, and one below them that tells of keys and outcomes."""

    hint = ""

    def __init__(self, live: Live) -> None:
        """`live`: the program. A screen that is gone may still be asked to draw."""
        super().__init__()
        self.live = live
        self._lines = Lines()

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._lines

    def on_resize(self) -> None:
        """Another terminal size."""
        self.draw()

    def draw(self) -> None:
        """Show what there is now."""
        width, height = self._lines.size
        if self.is_attached and width and height > 1:
            last = self._last(width)
            room = height - len(last)
            body = self.body(width, room)[:room]
            body += [Text()] * (room - len(body))
            self._lines.show([*body, *last])

    def body(self, width: int, height: int) -> list[Text]:
        """Everything but the last line."""
        raise NotImplementedError

    def _last(self, width: int) -> list[Text]:
        announced = self.live.announced
        if announced and time.monotonic() - announced[0] < ANNOUNCED:
            return [Text(line, style="bold yellow") for line in wrap(announced[1], width)[:MOST_LISTED]]
        return [Text(self.hint if len(self.hint) <= width else SHORT_HINT, style="dim")]

    def process(self) -> Process | None:
        """At which keys are directed."""
        raise NotImplementedError

    def action_do(self, name: str) -> None:
        """Do something to the process: dump, report; trim and profile ask first."""
        process = self.process()
        if process is None:
            self.live.tell("choose one process first")
            return
        if name == "profile" and process.identity in self.live.profile_jobs.on:
            name = "end of the profile"
        if name not in ASKED:
            self.live.do(name, process)
            return
        words = f"{ASKED[name]} {printable(process.comm)} (pid {process.pid})?"
        self.app.push_screen(Question(words, LOADED), lambda yes: self.live.do(name, process) if yes else None)

    def action_keys(self) -> None:
        """The list of keys."""
        self.app.push_screen(Keys())


SHARED: Final[Bindings] = [
    Binding("d", "do('dump')"),
    Binding("r", "do('report')"),
    Binding("t", "do('trim')"),
    Binding("p", "do('profile')"),
    Binding("question_mark,h", "keys"),
]


class MachineScreen(LinesScreen):
    """Every process."""

    hint = "q quit  ? keys  Enter open  s sort  / filter  g group  d dump  r report  t trim"
    CSS = "Input { dock: bottom; border: none; height: 1; padding: 0; }"
    BINDINGS: ClassVar[Bindings] = [
        *SHARED,
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "move(-10)"),
        Binding("pagedown", "move(10)"),
        Binding("home", "move(-1000000)"),
        Binding("end", "move(1000000)"),
        Binding("enter", "open"),
        Binding("s", "sort(1)"),
        Binding("S", "sort(-1)"),
        Binding("i", "invert"),
        Binding("g", "group"),
        Binding("slash", "filter"),
        Binding("l", "take_snapshot"),
        Binding("escape", "everything"),
    ]

    def __init__(self, live: Live, machine: Processes, choice: Choice, every: float) -> None:
        """`choice`: what to begin with."""
        super().__init__(live)
        self.choice = choice
        self.machine = machine
        self.scene = MachineScene(machine, every, lambda: live.later(self.draw))
        self.scene.wanted = lambda entry: chosen(entry, choice)
        # There from the beginning, lest keys that are typed fast come before it.
        self._asked = Input(placeholder="words to filter by", compact=True)
        self._asked.display = False
        self.found: list[Listed] = []
        self._spent = 0.0  # processor time of this thread until the last drawing
        self._first = 0
        self._at: Hashable = None  # the line of the cursor

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield from super().compose()
        yield self._asked

    def draw(self) -> None:
        """Show what there is now, and note what it costs to show: this thread does little else."""
        before, self._spent = self._spent, time.thread_time()
        if before:
            self.scene.drawing.append(self._spent - before)
        super().draw()

    def body(self, width: int, height: int) -> list[Text]:
        """The table and what stands above it."""
        entries = list(self.machine.entries.values())
        self.found = lines_of(entries, self.choice)
        drawing = Drawing(width, self.choice.sort)
        words = said([each for line in self.found for each in line.members], self.machine.census(), self.choice)
        above = [line for text in words for line in text.wrap(self.app.console, width)]
        above.append(header(drawing))
        place, room = self._place(), max(1, height - len(above))
        self._first = max(0, min(self._first, place, len(self.found) - room), place - room + 1)
        visible = self.found[self._first : self._first + room]
        self.scene.visible = {each.identity for line in visible for each in line.members}
        lines = [draw_line(line, drawing) for line in visible]
        if lines:
            lines[place - self._first] = _marked(lines[place - self._first], width)
        return [*above, *lines]

    def _place(self) -> int:
        """Where the cursor is: on its line, wherever this is now; if there is none any more, on the first one."""
        keys = [line.key for line in self.found]
        if self._at not in keys:
            self._at = keys[0] if keys else None
        return keys.index(self._at) if keys else 0

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        if self.found:
            self._at = self.found[max(0, min(self._place() + by, len(self.found) - 1))].key
            self.draw()

    def line(self) -> Listed | None:
        """Where the cursor is."""
        return self.found[self._place()] if self.found else None

    def process(self) -> Process | None:
        """Likewise, if it is one process."""
        line = self.line()
        return line.entry.process if line and line.entry else None

    def _choose(self, **changes: Any) -> None:
        self.choice = self.choice._replace(**changes)
        choice = self.choice
        self.scene.wanted = lambda entry: chosen(entry, choice)
        self.draw()

    def action_sort(self, by: int) -> None:
        """Sort by another column."""
        self._choose(sort=COLUMNS[(COLUMNS.index(self.choice.sort) + by) % len(COLUMNS)], reverse=False)

    def action_invert(self) -> None:
        """The other way round."""
        self._choose(reverse=not self.choice.reverse)

    def action_group(self) -> None:
        """Group in another way."""
        self._at, self._first = None, 0
        self._choose(group=GROUPINGS[(GROUPINGS.index(self.choice.group) + 1) % len(GROUPINGS)])

    def action_everything(self) -> None:
        """Without the filter, also where it is being typed, and out of the groups."""
        self._asked.value = ""
        self._end_typing()
        self._choose(words="", within=())

    def action_open(self) -> None:
        """One process; or the members of a group."""
        line = self.line()
        if line and line.entry:
            self.live.open(line.entry.process)
        elif line:
            # Not by its words, which others may have, too: each path has the "/" of the cgroup at the top.
            self._choose(group="none", within=(*self.choice.within, (self.choice.group, line.title)))

    def action_take_snapshot(self) -> None:
        """Inspect it now."""
        line = self.line()
        if line and line.entry:
            self.scene.asked = line.entry.identity
            self.live.hands.wake()

    def action_filter(self) -> None:
        """Ask for words."""
        self._asked.display = True
        self._asked.value = self.choice.words
        self.set_focus(self._asked)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._choose(words=event.value)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """That is all."""
        self._end_typing()

    def _end_typing(self) -> None:
        """Keys are commands again."""
        self._asked.display = False
        self.set_focus(self._lines)


def _marked(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis", pad=True)
    line.stylize("reverse")
    return line


class ProcessScreen(LinesScreen):
    """One process."""

    hint = "q quit  ? keys  Esc back  l snapshot now  d dump  r report  t trim  p profile"
    BINDINGS: ClassVar[Bindings] = [*SHARED, Binding("l", "take_snapshot"), Binding("escape,backspace", "back")]

    def __init__(self, live: Live, history: ProcessHistory, every: float) -> None:
        """`history`: what is known of the process."""
        super().__init__(live)
        self.history = history
        self.scene = ProcessScene(history, every, lambda: live.later(self.draw))

    def body(self, width: int, height: int) -> list[Text]:
        """What is known."""
        return draw_process(self.history, width, height, self._noted())

    def _noted(self) -> Sequence[Text]:
        """Returns what is noted of the profile that p has switched on."""
        identity, profile_jobs = self.history.process.identity, self.live.profile_jobs
        made, ended = profile_jobs.on.get(identity), profile_jobs.ended.get(identity)
        if made:
            since = time.strftime("%H:%M:%S", time.localtime(made.since))
            return [Text(f"A profile is on since {since}: p ends it, and writes a dump.", style="bold green")]
        return [Text(line, style="yellow") for line in wrap(ended or "", self._lines.size.width)[:MOST_LISTED]]

    def process(self) -> Process | None:
        """This one."""
        return None if self.history.ended else self.history.process

    def action_take_snapshot(self) -> None:
        """Snapshot now."""
        self.scene.asked = True
        self.live.hands.wake()

    def action_back(self) -> None:
        """To the machine."""
        self.live.back()


class Question(ModalScreen[bool]):
    """Yes or no, in the last lines."""

    CSS = "Question { align: left bottom; } Question Lines { height: 4; }"
    BINDINGS: ClassVar[Bindings] = [
        Binding("y", "answer(True)"),
        Binding("n,escape,enter,q", "answer(False)"),
    ]

    def __init__(self, words: str, about: str) -> None:
        """`words`: the question. `about`: what the answer leads to."""
        super().__init__()
        self._words, self._about = words, about
        self._lines = Lines()

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._lines

    def on_mount(self) -> None:
        """Ask."""
        lines = [Text(), Text(self._words, style="bold"), Text(self._about), Text("y: yes   n: no", style="bold")]
        self._lines.show(lines)

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - of a binding
        """The user's answer."""
        self.dismiss(yes)


class Keys(ModalScreen[None]):
    """The list of keys."""

    BINDINGS: ClassVar[Bindings] = [Binding("escape,q,question_mark,enter,h", "dismiss")]

    def __init__(self) -> None:
        """The list is always the same."""
        super().__init__()
        self._lines = Lines()

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield self._lines

    def on_mount(self) -> None:
        """Show it."""
        wide = max(len(key) for key, _ in KEYS)
        lines = [Text(f"{key:{wide}}  ", style="bold").append(words, style="not bold") for key, words in KEYS]
        self._lines.show([Text("Keys", style="bold underline"), Text(), *lines])
