# SPDX-License-Identifier: MIT
"""The profile of a process that the live view switches on and off, over real processes."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hostile.test_killed_commands import is_as_before
from live.test_top_live import KILLS, Terminal, driven, has, needs_tmux, program, shown, terminal, until
from textual.pilot import Pilot
from tools import harness, interpreters
from tools.odd import build, running, state, wait_for
from tools.profiling import hooks_left, profile, profiling

from arenascope.live.app import Live

__all__ = ["program"]  # a fixture
WITH_FRAMES = (3, 11)  # the oldest CPython whose frames a profile has (docs/profile.md)
NEVER = 86400  # seconds between polls: only the key l takes snapshots, and so what is new since the last one is known
EACH = 20016  # bytes of a chunk: so large that each is recorded
# Holds blocks that a function of its own has made.
KEEPS = """
import sys
kept = []
def hold(count):
    for _ in range(count):
        kept.append(bytearray(20000))
hold(100)
print("ready", flush=True)
for line in sys.stdin:
    hold(int(line))
    print("done", flush=True)
"""


class Keeps:
    """The program."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child, self.pid = child, child.pid

    def hold(self, count: int) -> None:
        """It has so many blocks more."""
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.write(f"{count}\n")
        self.child.stdin.flush()
        assert self.child.stdout.readline() == "done\n"

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


def with_frames() -> tuple[list[str], dict[str, str]]:
    """A CPython whose frames a profile has: the one that runs us, or where this is too old, Debian's."""
    if sys.version_info >= WITH_FRAMES:
        return [sys.executable], dict(os.environ)
    python = interpreters.python("3.11")
    return python.command(), python.environment


@pytest.fixture
def keeps() -> Iterator[Keeps]:
    pipe = subprocess.PIPE
    command, environment = with_frames()
    with subprocess.Popen([*command, "-c", KEEPS], stdin=pipe, stdout=pipe, text=True, env=environment) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield Keeps(child)
        finally:
            child.kill()


async def switched_on(live: Live, pilot: Pilot[int]) -> None:
    await until(live, pilot, has("Rss"))
    await pilot.press("p")
    assert "record who allocates in " in "\n".join(shown(live))
    await pilot.press("y")
    await until(live, pilot, has("A profile is on since "))


def is_clean(pid: int) -> bool:
    return not hooks_left(pid)


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def kill(pid: int) -> None:
    """And waits for the end of what it had started, also of what has not begun its program yet."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state(pid) == "T")
    tasks = Path(f"/proc/{pid}/task").iterdir()
    started = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(map(is_over, started)))


def is_over(pid: int) -> bool:
    with suppress(OSError):
        return state(pid) in "ZX"
    return True


def records() -> list[str]:
    """The profiles that this test has started."""
    here = os.getcwd()  # noqa: PTH109 - as /proc has it
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"\0--until-eof\0" in (each / "cmdline").read_bytes() and os.readlink(each / "cwd") == here:  # noqa: PTH115
                found.append(each.name)
    return found


def test_on_and_off(keeps: Keeps, tmp_path: Path) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("Pages"))
        assert not any("call stack" in line for line in shown(live))
        await pilot.press("p", "n")
        await pilot.pause(0.3)
        assert is_clean(keeps.pid)
        assert not records()
        await switched_on(live, pilot)
        assert hooks_left(keeps.pid)
        keeps.hold(500)
        await pilot.press("l")
        (line,) = [line for line in await until(live, pilot, has("500 chunks <string>:hold")) if "500 chunks <" in line]
        assert re.fullmatch(r" +9\.5 MiB( +\+9\.5 MiB)? +500 chunks <string>:hold < <string>:<module>", line)
        assert has("In use by call stack (estimated from the chunks on one page in 64)", "allocated before")(
            shown(live)
        )
        keeps.hold(200)
        await pilot.press("l")
        lines = await until(live, pilot, has("700 chunks <string>:hold"))
        assert any(re.match(r" +13\.4 MiB +\+3\.8 MiB +700 chunks <string>:hold", line) for line in lines)
        await pilot.press("p")
        await until(live, pilot, has(".profile.dump: written, with the profile"))
        assert not any("A profile is on" in line for line in shown(live))
        assert is_clean(keeps.pid)
        assert not records()
        await pilot.press("l")
        await until(live, pilot, lambda lines: not any("In use by call stack" in line for line in lines))

    driven(act, {keeps.pid}, size=(100, 45), first=keeps.pid, every=NEVER)
    (dump,) = tmp_path.iterdir()
    assert re.fullmatch(rf"arenascope-{keeps.pid}-[0-9-]+\.profile\.dump", dump.name)
    answer = json.loads(harness.Arenadump(harness.arenadump_path()).check("sites", "--json", dump))
    assert (EACH * 700, 700) in {(site["in_use"]["bytes"], site["in_use"]["count"]) for site in answer["sites"]}


def test_on_the_machine_and_again(keeps: Keeps, tmp_path: Path) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        for number in (1, 2):
            await until(live, pilot, has("1 process"))
            await pilot.press("p", "y")
            await until(live, pilot, has(f"process {keeps.pid} records who allocates"))
            await pilot.press("enter")
            await until(live, pilot, has("A profile is on since "))
            await pilot.press("escape", "p")
            await until(live, pilot, has(".profile.dump: written"))
            assert len(files(tmp_path)) == number
            assert is_clean(keeps.pid)

    driven(act, {keeps.pid})


@pytest.mark.parametrize("way", ["asked", "twice", "signal"])
def test_the_end_of_the_view_is_the_end_of_the_profile(keeps: Keeps, tmp_path: Path, way: str) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await switched_on(live, pilot)
        if way == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            await pilot.pause(0.2)
            return
        await pilot.press("q")
        assert has("Quit? A profile is on.", "without a dump")(shown(live))
        await pilot.press("n")
        await until(live, pilot, has("A profile is on since "))
        assert hooks_left(keeps.pid)
        await pilot.press(*(("q", "y") if way == "asked" else ("ctrl+c", "ctrl+c")))

    driven(act, {keeps.pid}, first=keeps.pid)
    assert is_clean(keeps.pid)
    assert not records()
    assert not list(tmp_path.iterdir())
    keeps.hold(1)


def test_of_a_process_that_another_records(keeps: Keeps, tmp_path: Path) -> None:
    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("In use by call stack"))  # somebody else's profile is shown, too
        await pilot.press("p", "y")
        await until(live, pilot, has(f"profile of process {keeps.pid} failed: no profile was begun: one is being made"))
        assert hooks_left(keeps.pid)

    with profiling(harness.Arenadump(harness.arenadump_path()), keeps.pid, tmp_path / "dump"):
        driven(act, {keeps.pid}, first=keeps.pid)


def test_it_ends_by_itself(keeps: Keeps) -> None:
    """The program that records is killed; another ends the profile; the process dies."""

    async def act(live: Live, pilot: Pilot[int]) -> None:
        await switched_on(live, pilot)
        (record,) = records()
        os.kill(int(record), signal.SIGKILL)
        await until(live, pilot, has("has ended: arenadump was killed by signal 9"))
        wait_for(lambda: is_clean(keeps.pid))
        await switched_on(live, pilot)
        assert not has("was killed by")(shown(live))
        harness.Arenadump(harness.arenadump_path()).check("profile", keeps.pid, "--stop")
        await until(live, pilot, has("has ended: the profile in process"))
        await switched_on(live, pilot)
        keeps.kill()
        await until(live, pilot, has("The process has ended", "has ended: the profile in process"))
        assert not records()

    driven(act, {keeps.pid}, size=(200, 40), first=keeps.pid)


@pytest.mark.parametrize(("compiler", "flags", "why"), [("gcc", ["-static"], "static"), ("musl-gcc", [], "musl")])
def test_programs_without_an_agent(compiler: str, flags: list[str], why: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    with running([str(build("alloc", *flags, compiler=compiler))]) as pid:

        async def act(live: Live, pilot: Pilot[int]) -> None:
            await until(live, pilot, has("1 process"))
            await pilot.press("p", "y")
            (line,) = [each for each in await until(live, pilot, has("failed: ")) if "failed: " in each]
            assert line.startswith(f"profile of process {pid} failed: ")
            assert why in line
            assert not live.profile_jobs.on

        driven(act, {pid}, size=(200, 30))


def test_without_permission(keeps: Keeps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can be another user, by setpriv")
    other = tmp_path / "arenadump"
    tmp_path.chmod(0o755)
    path = harness.arenadump_path().resolve()
    other.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups -- "{path}" "$@"\n')
    other.chmod(0o755)
    if subprocess.run([other, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("another user cannot execute arenadump here")
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(other))

    async def act(live: Live, pilot: Pilot[int]) -> None:
        await until(live, pilot, has("No snapshot: "))
        await pilot.press("p", "y")
        await until(live, pilot, has(f"profile of process {keeps.pid} failed: "))
        assert not live.profile_jobs.on

    driven(act, {keeps.pid}, first=keeps.pid)
    assert is_clean(keeps.pid)


def test_a_profile_ends_with_its_standard_input(keeps: Keeps, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    command = [str(harness.arenadump_path().resolve()), "profile", str(keeps.pid), "--until-eof", "-o", str(dump)]
    pipe = subprocess.PIPE
    for end in ("eof", "signal"):
        with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) as child:
            assert child.stdin
            assert child.stderr
            assert "records who allocates" in child.stderr.readline()
            child.stdin.write("ignored\n" * 1000)
            child.stdin.flush()
            time.sleep(0.3)
            assert child.poll() is None
            assert hooks_left(keeps.pid)
            if end == "signal":
                child.send_signal(signal.SIGINT)
                child.wait(60)
            child.stdin.close()
            assert child.wait(60) == 0
            said = child.stderr.read()
        assert is_clean(keeps.pid)
        assert dump.exists() == (end == "signal")
        assert ("no dump was written" in said) == (end == "eof")


@needs_tmux
def test_killed_it_leaves_no_hooks(keeps: Keeps, tmp_path: Path) -> None:
    """Killed at once, when the profile's program runs, when there is a hook, when the view says that it records."""
    (tmp_path / "home").mkdir()
    for digest in (None, records, lambda: hooks_left(keeps.pid), "A profile is on since"):
        with terminal(tmp_path / "home", keeps.pid) as made:
            made.until("Rss")
            made("send-keys", "p")
            made.until("record who allocates")
            made("send-keys", "y")
            if isinstance(digest, str):
                made.until(digest)
            elif digest:
                wait_for(lambda met=digest: bool(met()))  # type: ignore[misc]
            os.kill(made.pid(), signal.SIGKILL)
            keeps.hold(1)  # it answers
            wait_for(lambda: not records() and is_clean(keeps.pid))
    assert {each.name for each in tmp_path.iterdir()} == {"home"}


class Key:
    """The key p in a terminal, and the seconds in which it has its effect on this machine now."""

    def __init__(self, pid: int) -> None:
        self.pid, self.on, self.off = pid, 0.0, 0.0

    def switch_on(self, made: Terminal) -> None:
        """What follows is the work."""
        made.until("Rss")
        made("send-keys", "p")
        made.until("record who allocates")
        made("send-keys", "y")

    def is_on(self, made: Terminal) -> None:
        begun = time.monotonic()
        self.switch_on(made)
        made.until("A profile is on since")
        self.on = time.monotonic() - begun
        assert hooks_left(self.pid)

    def is_off(self, made: Terminal) -> None:
        begun = time.monotonic()
        made("send-keys", "p")
        made.until("written, with the profile")
        self.off = time.monotonic() - begun
        assert is_clean(self.pid)

    def come_to(self, digest: str, made: Terminal, chance: random.Random) -> None:
        """An instant at random: before the profile is on, while it is switched on, is on, or is switched off."""
        if digest == "before":
            made.until("Rss")
        elif digest == "switched on":
            self.switch_on(made)
        else:
            self.is_on(made)
        if digest == "switched off":
            made("send-keys", "p")
        time.sleep(chance.uniform(0, 1.2 * (self.on if digest == "switched on" else self.off)))


@contextmanager
def allocating() -> Iterator[subprocess.Popen[str]]:
    """Threads that allocate without a pause and check what they have: exit code 0 if all is well."""
    pipe = subprocess.PIPE
    with subprocess.Popen([str(build("attached")), "threads", "4"], stdout=pipe, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


@pytest.mark.slow
@needs_tmux
def test_killed_at_any_time_it_harms_nobody(tmp_path: Path) -> None:
    """And the profile can be switched on and off again."""
    chance = random.Random(KILLS)
    arenadump = harness.Arenadump(harness.arenadump_path())
    home, again = tmp_path / "home", tmp_path / "again"
    home.mkdir()
    with allocating() as child:
        key = Key(child.pid)
        with terminal(home, child.pid) as made:
            key.is_on(made)
            key.is_off(made)
        for number in range(KILLS):
            digest = ("switched on", "switched off", "on", "before")[number % 4]
            with terminal(home, child.pid) as made:
                key.come_to(digest, made, chance)
                kill(made.pid())
                wait_for(lambda: not records() and is_clean(child.pid) and is_as_before(child.pid))
            with profiling(arenadump, child.pid, again):
                assert hooks_left(child.pid)
            assert profile(arenadump, again)["sites"]
            wait_for(lambda: is_clean(child.pid) and is_as_before(child.pid))
        child.terminate()
        said, _ = child.communicate(timeout=120)
        assert child.returncode == 0, said
    dumps = [each for each in tmp_path.iterdir() if each not in (home, again)]
    assert dumps
    for each in dumps:
        assert re.fullmatch(rf"arenascope-{child.pid}-[0-9-]+\.profile\.dump", each.name)
        assert profile(arenadump, each)["sites"], "it is not whole"
