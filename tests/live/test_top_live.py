# SPDX-License-Identifier: MIT
"""The live view: driven by Textual's pilot, and in a real terminal by tmux, over real processes."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input
from tools import harness
from tools.hoarder import SIZE, Hoarder, hoarding
from tools.odd import state, wait_for

from arenascope.compare.digest import Pages
from arenascope.humanize import compact
from arenascope.live.app import Live
from arenascope.live.columns import Choice
from arenascope.live.line_widget import Lines
from arenascope.live.process_table import Processes
from arenascope.live.process_text import cells_of
from arenascope.live.screens import Keys, MachineScreen, ProcessScreen, Question
from arenascope.processes import process_at
from arenascope.signals import leaving
from arenascope.wire import dump_records as fmt
from arenascope.wire.how import How

HOW = How(mode="freeze", max_pause="9s")
KILLS = int(os.environ.get("KILLS", "6"))  # `make kills`: 100
MIB = 1 << 20


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(harness.arenadump_path().resolve()))
    monkeypatch.chdir(tmp_path)
    yield
    leaving.clear()  # the next test in this process of pytest snapshots, too


@pytest.fixture
def mark() -> str:
    return f"mark{uuid.uuid4().hex}"


@pytest.fixture
def hoarder(mark: str) -> Iterator[Hoarder]:
    with hoarding(mark) as made:
        yield made


def driven(
    act: Callable[[Live, Pilot[int]], Awaitable[None]],
    pids: set[int],
    size: tuple[int, int] = (100, 30),
    first: int | None = None,
    every: float = 0.1,
) -> None:
    """Run the view of these processes, and drive it."""
    process = process_at(first) if first else None
    live = Live(Processes(HOW, lambda each: each.pid in pids), Choice(), every, (process, HOW) if process else None)

    async def run() -> None:
        async with live.run_test(size=size) as pilot:
            await act(live, pilot)

    asyncio.run(run())


def shown(live: Live) -> list[str]:
    return [line.plain.rstrip() for line in live.screen.query_one(Lines).shown]


async def until(live: Live, pilot: Pilot[int], what: Callable[[list[str]], Any]) -> list[str]:
    """Until the screen has it."""
    deadline = time.monotonic() + 240
    while not what(shown(live)):
        assert time.monotonic() < deadline, "\n".join(shown(live))
        await pilot.pause(0.02)
    return shown(live)


def has(*words: str) -> Callable[[list[str]], bool]:
    return lambda lines: all(any(word in line for line in lines) for word in words)


def test_the_machine(mark: str) -> None:
    with hoarding(mark) as one, hoarding(mark) as other:

        async def act(live: Live, pilot: Pilot[int]) -> None:
            lines = await until(live, pilot, has("2 inspected"))
            assert lines[0].startswith("2 processes, Rss ")
            assert lines[0].rstrip().endswith("2 inspected; shared pages counted in each")
            assert re.search(r"Would come back: 3\d\.\d MiB by malloc_trim", lines[1])
            pids = [line.split()[0] for line in lines[4:6]]
            assert set(pids) == {str(one.pid), str(other.pid)}
            one.ask("leak", 500)
            await until(live, pilot, lambda now: now[4].split()[0] == str(one.pid))
            await pilot.press("s", "s", "s", "s")
            screen = live.screen
            assert isinstance(screen, MachineScreen)
            assert screen.choice.sort == "releasable"
            await pilot.press("S", "i", "g")
            lines = await until(live, pilot, has("\N{MULTIPLICATION SIGN}2"))
            await pilot.press("enter")
            group = ("command", screen.found[0].members[0].process.comm)
            assert screen.choice == Choice("stranded", reverse=True, within=(group,))
            await pilot.press("escape", "slash", *str(other.pid), "enter", "down")
            lines = await until(live, pilot, has("1 process, "))
            assert lines[4].split()[0] == str(other.pid)
            await pilot.press("question_mark")
            assert "sort by the next column" in "\n".join(shown(live))
            await pilot.press("escape")
            other.child.kill()
            other.child.wait()
            await until(live, pilot, has("0 processes, "))
            await pilot.press("t")
            await until(live, pilot, has("choose one process first"))

        driven(act, {one.pid, other.pid})


def named(pid: int, name: str) -> Callable[[], bool]:
    return lambda: Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"


def test_a_group_has_its_members_alone(tmp_path: Path) -> None:
    """Not all that have its name in theirs."""
    with ExitStack() as running:
        pids = {}
        for name in ("qz", "qzother", "other"):
            shutil.copy(shutil.which("sleep") or "sleep", tmp_path / name)
            child = running.enter_context(subprocess.Popen([tmp_path / name, "600"], env={"IN": "qz"}))
            running.callback(child.kill)
            pids[child.pid] = name
            wait_for(named(child.pid, name))

        async def act(live: Live, pilot: Pilot[int]) -> None:
            await until(live, pilot, has("3 processes"))
            screen = live.screen
            assert isinstance(screen, MachineScreen)
            await pilot.press("S", "S", "g")
            assert screen.choice == Choice("command", group="command")
            await until(live, pilot, lambda _: {line.title for line in screen.found} == set(pids.values()))
            while (line := screen.line()) and line.title != "qz":
                await pilot.press("down")
            await pilot.press("enter")
            await until(live, pilot, has("1 process,", "filter: command qz (of 3)"))
            (line,) = screen.found
            assert [pids[each.process.pid] for each in line.members] == ["qz"]
            await pilot.press("escape")
            await until(live, pilot, has("3 processes"))

        driven(act, set(pids))


def test_esc_ends_the_typing_of_a_filter(hoarder: Hoarder) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("1 inspected"))
        screen = live.screen
        assert isinstance(screen, MachineScreen)
        await pilot.press("slash", *"no such")
        await until(live, pilot, has("0 processes", "filter: no such (of 1)"))
        await pilot.press("escape")
        await until(live, pilot, has("1 process,"))
        assert not screen.query_one(Input).display
        await pilot.press("i")
        assert screen.choice == Choice(reverse=True), "a key is a command, not a part of the filter"
        await pilot.press("slash", "x", "escape", "q")
        await pilot.pause()
        assert live.return_code == 0

    driven(act, {hoarder.pid})


def test_one_process(hoarder: Hoarder) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        lines = await until(live, pilot, has("Pages", "1 arena"))
        assert f"(pid {hoarder.pid})" in lines[0]
        assert "exact" in lines[1]
        assert any(re.match(r"releasable +1\d\.\d MiB", line) for line in lines)
        assert any(line.count("R") > 50 for line in lines)
        hoarder.ask("leak", 2 * SIZE)
        await pilot.press("l")
        # A snapshot of its own accord may come while the process leaks: then a part of the growth is shown first.
        grown = re.compile(rf" {{3}}\+9\.6 MiB .*\+(4,99|5,00)\d chunks of {2 * SIZE + 16} B")
        await until(live, pilot, lambda now: any(grown.match(line) for line in now))
        hoarder.ask("trim")
        await pilot.press("l")
        await until(live, pilot, lambda now: any(line.count("·") > 50 for line in now))
        hoarder.child.kill()
        hoarder.child.wait()
        await until(live, pilot, has("The process has ended"))
        await pilot.press("d")
        await until(live, pilot, has("choose one process first"))
        await pilot.press("escape")
        await until(live, pilot, has("0 processes, "))
        assert isinstance(live.screen, MachineScreen)

    driven(act, {hoarder.pid}, size=(100, 45), first=hoarder.pid)


@pytest.mark.parametrize("size", [(80, 24), (40, 24), (40, 8), (20, 5), (200, 60)])
def test_any_size(hoarder: Hoarder, size: tuple[int, int]) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        machine = live.screen
        assert isinstance(machine, MachineScreen)
        # Twenty columns have no room for the words, and a key that comes before the process opens nothing.
        await until(live, pilot, has("1 inspected") if size[0] > 20 else lambda _: machine.found)
        width, height = size
        strips = [live.screen.query_one(Lines).render_line(y) for y in range(height)]
        assert {strip.cell_length for strip in strips} == {width}
        lines = shown(live)
        assert len(lines) == height
        if width >= 40:
            assert str(hoarder.pid) in "\n".join(lines)
        await pilot.press("enter")
        await until(live, pilot, lambda _: isinstance(live.screen, ProcessScreen) and live.screen.history.last)
        await pilot.pause(0.1)
        lines = shown(live)
        assert len(lines) == height
        if width >= 40 and height >= 24:
            assert all(cell_len(line) <= width for line in lines[1:])
            assert "releasable" in "\n".join(lines)

    driven(act, {hoarder.pid}, size=size)


def test_keys_do_what_they_say(hoarder: Hoarder, tmp_path: Path) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("1 inspected"))
        await pilot.press("d")
        await until(live, pilot, has(".dump: written"))
        check_dump(tmp_path, hoarder.pid)
        await pilot.press("t")
        assert "Trim python" in "\n".join(shown(live))
        await pilot.press("n")
        await pilot.pause(0.3)
        hoarder.ask("nothing")
        assert not agent_in(hoarder.pid)
        before = kernels_rss(hoarder.pid)
        await pilot.press("t", "y")
        (line,) = [line for line in await until(live, pilot, has("returned 1")) if "returned" in line]
        assert re.fullmatch(rf"process {hoarder.pid} returned 1\d\.\d MiB \(forecast: 1\d\.\d MiB\).*", line)
        assert kernels_rss(hoarder.pid) < before - 15 * MIB

    driven(act, {hoarder.pid})


def check_dump(folder: Path, pid: int) -> None:
    (dump,) = folder.glob(f"arenascope-{pid}-*.dump")
    command = [str(harness.arenadump_path()), "summary", str(dump)]
    assert "releasable" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def agent_in(pid: int) -> bool:
    return "libarenascope.so" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("kind", [Live, MachineScreen, ProcessScreen, Question, Keys])
def test_each_key_has_something_to_do(kind: type[Any]) -> None:
    """Textual says nothing of a key whose action there is not."""
    actions = {binding.action.partition("(")[0] for binding in kind.BINDINGS}
    assert actions
    assert [each for each in actions if not hasattr(kind, f"action_{each}")] == []


def test_a_failed_action_is_told(hoarder: Hoarder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("1 inspected"))
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        await pilot.press("d")
        await until(live, pilot, has(f"dump of process {hoarder.pid} failed: "))

    driven(act, {hoarder.pid})


def test_leaving_ends_a_snapshot(hoarder: Hoarder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "arenadump"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(slow))
    begun = time.monotonic()

    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("1 not yet inspected"))
        await pilot.press("q")

    driven(act, {hoarder.pid})
    assert time.monotonic() - begun < 500, "it has waited for the snapshot"
    assert leaving.is_set()


def test_cells_of_the_map() -> None:
    used, free, gone = fmt.PageState.USED, fmt.PageState.RELEASABLE, fmt.PageState.RETURNED
    states = np.array([used, used, free, free, free, used, gone], dtype=np.uint8)
    address = np.arange(7, dtype=np.uint64) * np.uint64(4096)
    now = Pages(address, states, None)
    found, changed, each = cells_of(now, None, 3)
    assert (found.tolist(), changed.tolist(), each) == ([used, free, gone], [False] * 3, 3)
    found, changed, each = cells_of(now, Pages(address[1:], np.full(6, used, np.uint8), None), 7)
    assert found.tolist() == states.tolist()
    assert each == 1
    assert changed.tolist() == [True, False, True, True, True, False, True]  # the first page is new


# In a terminal.

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")


class Terminal:
    """A tmux of its own with one pane."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = (
            home / f"t{len(list(home.iterdir()))}{uuid.uuid4().hex[:4]}"
        )  # the last server may still be ending

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def screen(self, *options: str) -> str:
        return self("capture-pane", "-p", *options)

    def until(self, word: str) -> str:
        wait_for(lambda: word in self.screen())
        return self.screen()

    def pid(self) -> int:
        """Returns the PID of the program that runs in it."""
        shell = self("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def status(self) -> int:
        """With which the program ended. A tmux 3.3 may never notice that its own child has."""
        file = self.home / "status"
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())


@contextmanager
def terminal(
    home: Path, *arguments: object, width: int = 80, height: int = 24, **environment: str
) -> Iterator[Terminal]:
    made = Terminal(home)
    words = [sys.executable, "-m", "arenascope", "top", *HOW.words(), *map(str, arguments)]
    # In a file: with the word that the view filters by in its arguments, tmux would be in the view, too.
    script = home / "start"
    script.write_text(
        "".join(f"export {name}={value}\n" for name, value in environment.items())
        + f"{shlex.join(words)}\necho $? > {home / 'status'}\n"
    )
    server = [
        "tmux",
        "-S",
        str(made.socket),
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        str(width),
        "-y",
        str(height),
    ]
    subprocess.run([*server, f"exec sh {script}", ";", "set-option", "remain-on-exit", "on"], check=True)
    try:
        yield made
    finally:
        subprocess.run(["tmux", "-S", str(made.socket), "kill-server"], check=False, capture_output=True)


@needs_tmux
def test_in_a_terminal(hoarder: Hoarder, mark: str, tmp_path: Path) -> None:
    with terminal(tmp_path, "--filter", mark) as made:
        lines = made.until("1 inspected").splitlines()
        row = next(line for line in lines if line.split()[:1] == [str(hoarder.pid)])
        assert row.split()[1] == compact(kernels_rss(hoarder.pid))
        made("send-keys", "Enter")
        made.until("Pages")
        made("resize-window", "-x", "40", "-y", "24")
        wait_for(lambda: max(map(len, made.screen().splitlines())) <= 40 and "releasable" in made.screen())
        made("send-keys", "q")
        assert made.status() == 0


def kernels_rss(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Rss:"))


@needs_tmux
def test_without_colours_there_are_none(hoarder: Hoarder, mark: str, tmp_path: Path) -> None:
    with terminal(tmp_path, "--filter", mark, height=40, NO_COLOR="1") as made:
        made.until("1 inspected")
        made("send-keys", "Enter")
        made.until("RRRRR")
        codes = set(";".join(re.findall(r"\x1b\[([0-9;]*)m", made.screen("-e"))).split(";"))
        assert codes <= {
            "",
            "0",
            "1",
            "2",
            "4",
            "7",
            "39",
            "49",
        }  # bold, dim, underlined, reversed; the default colours
    with terminal(tmp_path, "--filter", mark, height=40) as made:
        made.until("1 inspected")
        made("send-keys", "Enter")
        made.until("RRRRR")
        assert {"31", "32"} <= set(";".join(re.findall(r"\x1b\[([0-9;]*)m", made.screen("-e"))).split(";"))


@needs_tmux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_told_to_go_it_leaves_the_terminal_as_it_was(
    hoarder: Hoarder, mark: str, tmp_path: Path, number: signal.Signals
) -> None:
    with terminal(tmp_path, "--filter", mark) as made:
        made.until("1 inspected")
        os.kill(made.pid(), number)
        assert made.status() == 128 + number
        assert made("display-message", "-p", "#{alternate_on}").strip() == "0"


@needs_tmux
def test_killed_it_leaves_nobody_stopped(mark: str, tmp_path: Path) -> None:
    with hoarding(mark) as one, hoarding(mark) as other:
        for _ in range(KILLS):
            with terminal(tmp_path, "--filter", mark, "--every", "100ms") as made:
                made.until("Rss")
                time.sleep(random.uniform(0, 0.5))
                os.kill(made.pid(), signal.SIGKILL)
                for target in (one, other):
                    wait_for(lambda pid=target.pid: state(pid) == "S")  # type: ignore[misc]
                    target.ask("nothing")  # it answers
        for target in (one, other):
            status = Path(f"/proc/{target.pid}/status").read_text()
            assert re.search(r"^TracerPid:\t0$", status, re.MULTILINE)
