# SPDX-License-Identifier: MIT
"""Targets that name what harms who follows the name: descriptors, doors, files, sizes. Nothing is written but the target's own
memory, nothing is opened but regular files below the target's own root, and nothing is waited for without a limit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import harness, odd

DENIED, UNSUPPORTED = 4, 5
PLENTY = 60  # seconds: more than any limit that a test sets, less than what was waited for without one


def hostile() -> str:
    return str(odd.build("hostile", f"-I{harness.ROOT}/inspector", f"-I{harness.ROOT}/inspector/include", "-lpthread"))


# --- What is written ---


@odd.needs_root
def test_a_descriptor_that_is_exchanged(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The library is written where it was meant to go, or nowhere: never to a file that the target may only read."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o755)
    victim = tmp_path / "victim"
    content = b"only root may write this\n"
    victim.write_bytes(content)
    victim.chmod(0o644)
    codes = set()
    for _ in range(8):  # a race, which the target nearly always wins
        with odd.running(["setpriv", "--reuid=65534", "--clear-groups", hostile(), "swaps", str(victim)]) as pid:
            codes.add(arenadump.run("inject", pid).returncode)
            assert victim.read_bytes() == content
            assert odd.tracer(pid) == 0
    assert codes <= {0, DENIED, UNSUPPORTED}


def test_a_limit_on_the_size_of_files(arenadump: harness.Arenadump) -> None:
    """Refused: the kernel would end the process (SIGXFSZ) whose thread makes the library's file as large as it must be."""
    with odd.running(["prlimit", "--fsize=4096", str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("inject", pid)
        assert done.returncode == UNSUPPORTED
        assert "no file larger than 4096 bytes (RLIMIT_FSIZE)" in done.stderr
        assert "arenascope-agent" not in Path(f"/proc/{pid}/maps").read_text()
        time.sleep(0.05)
        assert odd.state(pid) == "S"
        assert odd.tracer(pid) == 0


# --- What is waited for ---


def wait_in_vain(arenadump: harness.Arenadump, pid: int, words: str) -> None:
    """The agent's door is that of a process which does not want to answer: said in the time that is allowed."""
    for command in ("inject", "trim"):
        began = time.monotonic()
        done = arenadump.run(command, "--timeout", "500ms", pid)
        took = time.monotonic() - began
        assert done.returncode == DENIED, done
        assert words in done.stderr
        assert 0.5 <= took < PLENTY
        assert odd.tracer(pid) == 0


def test_a_door_that_is_full(arenadump: harness.Arenadump) -> None:
    with odd.running([hostile(), "full"]) as pid:
        wait_in_vain(arenadump, pid, "as many as can wait at its door do so already")


@pytest.mark.parametrize("how", ["silent", "drips", "arenas"])
def test_an_agent_that_never_comes_to_an_end(arenadump: harness.Arenadump, how: str) -> None:
    with odd.running([hostile(), how]) as pid:
        wait_in_vain(arenadump, pid, "has not given a whole answer within 0.5 s")


def test_a_door_of_somebody_else(arenadump: harness.Arenadump) -> None:
    """Who listens is not the process that was named, and is told nothing, though he answers."""
    with odd.running([hostile(), "heir"]) as pid:
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        for command in ("inject", "trim"):
            done = arenadump.run(command, child)
            assert done.returncode == DENIED, done
            assert f"who listens at the door of process {child} is somebody else" in done.stderr


def test_a_carrier_that_hangs(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Memory may be of a kind that answers when the target likes; here the carrier is stopped. Arenadump says so and ends."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), tmp_path / "go"
    with odd.running([str(odd.build("posing")), "idle"], LD_AUDIT=str(audit), SLOW_AUDIT_UNTIL=str(until)) as pid:
        command = [str(arenadump.path), "inject", "--timeout", "2s", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            odd.wait_for(lambda: odd.tracer(pid) != 0)
            carrier = odd.tracer(pid)
            os.kill(carrier, signal.SIGSTOP)
            try:
                _, said = process.communicate(timeout=PLENTY)
            finally:
                os.kill(carrier, signal.SIGCONT)
                until.touch()
                process.kill()
        assert process.returncode == DENIED, said
        assert f"our process {carrier}, which was to load the library, has not come to an end" in said
        odd.wait_for(lambda: odd.tracer(pid) == 0)
        odd.wait_for(lambda: odd.state(pid) == "S")


# --- What is opened ---


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root directory with a program, and a libc of a build-id that no debug file on this machine has."""
    program = odd.build("posing")
    folder = tmp_path / "root"
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", libraries):
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path[1:])
    shutil.copy(program, folder / "posing")
    libc = libc_of(folder)
    content, note = libc.read_bytes(), struct.pack("<III4s", 4, 20, 3, b"GNU")
    at = content.index(note) + len(note)
    libc.write_bytes(content[:at] + BUILD_ID + content[at + 20 :])
    return folder


BUILD_ID = bytes(range(100, 120))


def libc_of(root: Path) -> Path:
    return next(root.rglob("libc.so.6"))


def debug_files(root: Path) -> list[Path]:
    """Where the libc's debug file is looked for."""
    libc, name = libc_of(root), BUILD_ID.hex()
    listed = subprocess.run(["readelf", "-p", ".gnu_debuglink", libc], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"\]\s+(\S+\.debug)\s", listed)
    places = [libc.with_name(link) for link in names] + [libc.parent / ".debug" / link for link in names]
    return [root / f"usr/lib/debug/.build-id/{name[:2]}/{name[2:]}.debug", *places]


def plain(root: Path, fifo: Path) -> None:
    """The FIFO itself stands there."""
    for path in debug_files(root):
        path.hardlink_to(fifo)


def absolute(root: Path, fifo: Path) -> None:
    """A link to the FIFO on the host, by a name that means something else to the target."""
    for path in debug_files(root):
        path.symlink_to(fifo)


def upwards(root: Path, fifo: Path) -> None:
    for path in debug_files(root):
        path.symlink_to("../" * 30 + str(fifo)[1:])


@odd.needs_root
@pytest.mark.parametrize("lay", [plain, absolute, upwards])
def test_a_fifo_for_a_debug_file(
    arenadump: harness.Arenadump, root: Path, tmp_path: Path, lay: Callable[[Path, Path], None]
) -> None:
    """Nobody opens it: who wants to write to it waits on."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in debug_files(root):
        path.parent.mkdir(parents=True, exist_ok=True)
    lay(root, fifo)
    with (
        odd.running(["chroot", str(root), "/posing", "idle"]) as pid,
        subprocess.Popen(["sh", "-c", 'exec 3>"$0"', fifo]) as writer,
    ):
        odd.wait_for(lambda: odd.state(writer.pid) == "S")
        time.sleep(0.1)
        try:
            summary = arenadump.summary(pid)
            assert summary["mallocs"][0]["proven"]
            time.sleep(0.2)
            assert writer.poll() is None, "somebody has opened the FIFO"
        finally:
            writer.kill()
