# SPDX-License-Identifier: MIT
"""Targets that name what harms who follows the name: descriptors, sockets, files, sizes.

Nothing is written but the target's own memory, nothing is opened but regular files below the target's own root, and
nothing is waited for without a limit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import harness, odd, programs
from tools.stage import let_others_in

DENIED, UNSUPPORTED = 4, 5
# Runs a command; the most memory that it had, in KiB, is the last line.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
PLENTY = 60  # seconds: more than any limit that a test sets, less than what was waited for without one


# --- What is written ---


@odd.needs_root
def test_a_descriptor_that_is_exchanged(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The library is written where it was meant to go, or nowhere: never to a file that the target may only read."""
    let_others_in(tmp_path)
    victim = tmp_path / "victim"
    content = b"only root may write this\n"
    victim.write_bytes(content)
    victim.chmod(0o644)
    codes = set()
    for _ in range(8):  # a race, which the target nearly always wins
        with odd.running(["setpriv", "--reuid=65534", "--clear-groups", odd.hostile(), "swaps", str(victim)]) as pid:
            codes.add(arenadump.run("inject", pid).returncode)
            assert victim.read_bytes() == content
            assert odd.tracer(pid) == 0
    assert codes <= {0, DENIED, UNSUPPORTED}


def test_a_limit_on_the_size_of_files(arenadump: harness.Arenadump) -> None:
    """Refused: the kernel would end the process (SIGXFSZ) whose thread makes a file as large as the library."""
    with odd.running(["prlimit", "--fsize=4096", str(odd.build("posing")), "idle"]) as pid:
        done = arenadump.run("inject", pid)
        assert done.returncode == UNSUPPORTED
        assert "may not write a file larger than 4096 bytes (RLIMIT_FSIZE)" in done.stderr
        assert "arenascope-agent" not in Path(f"/proc/{pid}/maps").read_text()
        time.sleep(0.05)
        assert odd.state(pid) == "S"
        assert odd.tracer(pid) == 0


# --- What is waited for ---


def wait_in_vain(arenadump: harness.Arenadump, how: str, words: str) -> None:
    """The control socket is that of a process which does not answer: the error comes before the deadline."""
    for command in ("inject", "trim", "policy"):
        with odd.running([odd.hostile(), how]) as pid:
            began = time.monotonic()
            done = arenadump.run(command, "--timeout", "500ms", pid)
            took = time.monotonic() - began
            assert done.returncode == DENIED, done
            assert words in done.stderr
            assert took >= 0.5
            assert odd.tracer(pid) == 0


def test_a_control_socket_whose_queue_is_full(arenadump: harness.Arenadump) -> None:
    wait_in_vain(arenadump, "full", "the queue of its control socket is full")


@pytest.mark.parametrize("how", ["silent", "arenas"])
def test_an_agent_that_never_comes_to_an_end(arenadump: harness.Arenadump, how: str) -> None:
    wait_in_vain(arenadump, how, "has not answered within 0.5 s")


def test_a_control_socket_of_another_process(arenadump: harness.Arenadump) -> None:
    """Who listens is not the process that was named, and is told nothing, though he answers."""
    with odd.running([odd.hostile(), "heir"]) as pid:
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        for command in ("inject", "trim", "policy"):
            done = arenadump.run(command, child)
            assert done.returncode == DENIED, done
            assert f"the control socket of process {child} belongs to another process" in done.stderr


def test_a_tracer_of_our_name(arenadump: harness.Arenadump) -> None:
    """It is waited for, as an inspector of ours is that finishes soon: but not for ever, and who it is is said."""
    with (
        odd.running([str(odd.build("posing")), "idle"]) as pid,
        odd.running([odd.hostile(), "traces", str(pid)]) as tracer,
    ):
        done = arenadump.run("inject", "--timeout", "500ms", pid)
        assert done.returncode == DENIED
        assert f"was traced by process {tracer} all the time" in done.stderr
        done = arenadump.run("summary", "--mode", "freeze", pid)
        assert done.returncode == DENIED
        assert f"already being traced by process {tracer}" in done.stderr


def test_a_version_that_a_terminal_obeys(arenadump: harness.Arenadump) -> None:
    with odd.running([odd.hostile(), "shouts"]) as pid:
        said = arenadump.check("inject", pid)
        assert said.startswith(f"agent \\x1b[31mred\\x0a answers in process {pid}: it was there already\n")
        assert "\x1b" not in said
        assert json.loads(arenadump.check("inject", "--json", pid))["agent_version"] == "\x1b[31mred\n"
        assert arenadump.check("policy", pid) == f"process {pid} has agent \\x1b[31mred\\x0a, which has no policy\n"


def test_a_carrier_that_hangs(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Memory may answer when the target likes; here the carrier is stopped. Arenadump says so and ends."""
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
        assert f"the injector, process {carrier}, has not finished" in said
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
    """Where the libc's debug file is searched for."""
    libc, name = libc_of(root), BUILD_ID.hex()
    listed = subprocess.run(
        ["readelf", "-p", ".gnu_debuglink", libc], capture_output=True, text=True, check=True
    ).stdout
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


# --- What is unpacked ---


def section(name: int, offset: int, size: int, flags: int = 0, kind: int = 1) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 8, 0)


def zeros(size: int) -> bytes:
    """So many, packed: a thousandth of it."""
    packer, block = zlib.compressobj(1), bytes(1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(size >> 20)), packer.flush()])


def with_sections(elf: bytes, sections: dict[str, tuple[bytes, int]]) -> bytes:
    """That ELF file, where it has these sections, with those flags, and no other."""
    names, headers, body = b"\0", [bytes(64)], bytearray(elf)
    everything = {**sections, ".shstrtab": (b"", 0)}
    for name, (content, flags) in everything.items():
        body += bytes(-len(body) % 16)
        at, names = len(names), names + name.encode() + b"\0"
        held = content or names
        headers.append(section(at, len(body), len(held), flags, 1 if content else 3))
        body += held
    body += bytes(-len(body) % 16)
    body[0x28:0x30] = struct.pack("<Q", len(body))  # e_shoff
    body[0x3A:0x40] = struct.pack("<HHH", 64, len(headers), len(headers) - 1)
    return bytes(body) + b"".join(headers)


BOMB = 512 << 20  # bytes


def packed(size: int) -> bytes:
    return struct.pack("<IIQQ", 1, 0, size, 8) + zeros(size)


BOMBS: dict[str, Callable[[], dict[str, tuple[bytes, int]]]] = {
    "section": lambda: {".debug_info": (packed(BOMB), 0x800), ".debug_abbrev": (b"\0", 0)},
    "GNU": lambda: {".zdebug_info": (b"ZLIB" + struct.pack(">Q", BOMB) + zeros(BOMB), 0), ".debug_abbrev": (b"\0", 0)},
    "sum": lambda: {
        f".debug_{name}": (packed(60 << 20), 0x800)
        for name in ("info", "abbrev", "aranges", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists")
    },
}


def read_by_dwarf(arenadump: harness.Arenadump, pid: int) -> tuple[str, int]:
    """A snapshot that asks debug information alone: what it prints, and the most memory it had, bytes."""
    if "libdw yes" not in arenadump.check("--version"):
        pytest.skip("this arenadump was built without libdw")
    command = [str(arenadump.path), "summary", "--json", "--layout-source", "dwarf", str(pid)]
    # A process begins with the size of the one that made it, and ours is large: a small one makes it.
    wrapped = [sys.executable, "-c", MEASURE, *command]
    with subprocess.Popen(wrapped, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=PLENTY)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail("it did not come to an end")
    assert process.returncode == 0, out
    out, _, most = out.rstrip().rpartition("\n")
    return out, int(most) * 1024


@odd.needs_root
@pytest.mark.parametrize("kind", BOMBS)
def test_debug_information_that_unpacks_to_too_much(arenadump: harness.Arenadump, root: Path, kind: str) -> None:
    """It is left out, and said: its size is inspected before it is unpacked."""
    debug = debug_files(root)[0]
    debug.parent.mkdir(parents=True)
    debug.write_bytes(with_sections(libc_of(root).read_bytes(), BOMBS[kind]()))
    assert debug.stat().st_size < 8 << 20
    with odd.running(["chroot", str(root), "/posing", "idle"]) as pid:
        out, most = read_by_dwarf(arenadump, pid)
    assert most < 128 << 20
    texts = [warning["text"] for warning in json.loads(out)["warnings"]]
    size = "120.0" if kind == "sum" else "512.0"
    words = f"debug information of libc.so.6 was left out: its debug information has {size} MiB unpacked"
    assert any(text.startswith(words) and text.endswith("at most 64 MiB are read") for text in texts), texts


def debug_file_of(tmp_path: Path, source: str) -> bytes:
    """A library with that build-id, assembled; the bytes of its file."""
    path = tmp_path / "malloc.s"
    path.write_text(source)
    flags = ("-shared", "-nostdlib", f"-Wl,--build-id=0x{BUILD_ID.hex()}")
    return programs.build(path, *flags, at=tmp_path / "out.so").read_bytes()


ELSEWHERE = """
 .section .debug_abbrev,"",@progbits
 .uleb128 1, 0x11; .byte 0; .uleb128 3, 0x1f21, 0, 0
 .byte 0
 .section .debug_info,"",@progbits
 .long end - after
after:
 .value 4; .long 0; .byte 8
 .uleb128 1; .long 0
end:
 .section .gnu_debugaltlink,"",@progbits
 .asciz "FIFO"
 .fill 20, 1, 7
 .section .note.GNU-stack,"",@progbits
"""


@odd.needs_root
def test_debug_information_that_goes_on_in_a_fifo(arenadump: harness.Arenadump, root: Path, tmp_path: Path) -> None:
    """The name of the unit is in another file, by a path of the target's choice: that is not opened."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    debug = debug_files(root)[0]
    debug.parent.mkdir(parents=True)
    debug.write_bytes(debug_file_of(tmp_path, ELSEWHERE.replace("FIFO", str(fifo))))
    with (
        odd.running(["chroot", str(root), "/posing", "idle"]) as pid,
        subprocess.Popen(["sh", "-c", 'exec 3>"$0"', fifo]) as writer,
    ):
        odd.wait_for(lambda: odd.state(writer.pid) == "S")
        time.sleep(0.1)
        try:
            read_by_dwarf(arenadump, pid)
            time.sleep(0.2)
            assert writer.poll() is None, "somebody has opened the FIFO"
        finally:
            writer.kill()


NESTED = """
 .section .debug_abbrev,"",@progbits
 .uleb128 1, 0x11; .byte 1; .uleb128 3, 8, 0, 0
 .uleb128 2, 0x13; .byte 1; .uleb128 3, 8, 0x0b, 0x0b, 1, 0x13, 0, 0
 .byte 0
 .section .debug_info,"",@progbits
begin:
 .long end - after
after:
 .value 4; .long 0; .byte 8
 .uleb128 1; .asciz "malloc.c"
 .rept 190000
 .uleb128 2; .asciz "malloc_state"; .byte 200; .long . - begin + 4
 .endr
 .byte 0
end:
 .section .note.GNU-stack,"",@progbits
"""


@odd.needs_root
def test_types_that_are_in_each_other(arenadump: harness.Arenadump, root: Path, tmp_path: Path) -> None:
    """Each struct's first child is what follows it, too: all of the children of all would be 18 thousand million."""
    debug = debug_files(root)[0]
    debug.parent.mkdir(parents=True)
    debug.write_bytes(debug_file_of(tmp_path, NESTED))
    with odd.running(["chroot", str(root), "/posing", "idle"]) as pid:
        read_by_dwarf(arenadump, pid)


@odd.needs_root
def test_memory_that_does_not_answer(arenadump: harness.Arenadump) -> None:
    """A read through /proc/PID/mem does not wait for userfaultfd: the kernel lets it fail."""
    if not odd.USERFAULTFD.exists():
        pytest.skip("this kernel has no userfaultfd")
    with odd.running([odd.hostile(), "waits"]) as pid:
        assert arenadump.summary(pid, "--mode", "freeze", "--max-pause", "60s")["snapshot"]["exact"]
        assert not arenadump.summary(pid, "--mode", "live")["snapshot"]["exact"]
        assert odd.state(pid) == "S"
