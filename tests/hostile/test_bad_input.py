# SPDX-License-Identifier: MIT
"""Targets that cannot be inspected, files that are none, outputs that cannot be written.

Each has its exit code (docs/user-guide.md) and words that say what was found, the same from arenadump and arenascope.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools import harness, odd
from tools import synthetic_dump as synthetic

from arenascope.errors import Code
from arenascope.wire import dump_records as fmt

PF_KTHREAD = 0x00200000
MANY = 1_500_000


def refuse(
    arenadump: harness.Arenadump,
    code: Code,
    words: str,
    *arguments: object,
    only: str = "",
    program: Path | None = None,
) -> None:
    """Both programs (or only one) end with the code, have nothing on stdout, and say these words on stderr."""
    program = program or arenadump.path
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(program)}
    commands = {"arenadump": [str(program)], "arenascope": [sys.executable, "-m", "arenascope"]}
    running = {
        name: subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for name, command in commands.items()
        if only in ("", name)
    }
    for name, process in running.items():
        out, said = process.communicate(timeout=60)
        assert process.returncode == code, f"{name} {arguments}: {process.returncode}, {said}"
        assert out == ""
        assert said.startswith(f"{name}: ")
        assert words in " ".join(said.split())
        assert "Traceback" not in said


@pytest.fixture(scope="module")
def parked() -> Iterator[int]:
    with odd.running([str(odd.build("alloc"))]) as pid:
        yield pid


# --- targets ---


@pytest.mark.parametrize("mode", ["auto", "freeze", "live", "clone"])
def test_no_more_files(arenadump: harness.Arenadump, parked: int, mode: str) -> None:
    """That we may open no more files says nothing of the target, nor of its clone: neither has ended."""
    codes = []
    for limit in range(4, 24):
        command = ["prlimit", f"--nofile={limit}", str(arenadump.path), "summary", "--mode", mode, str(parked)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        if done.returncode != 0:
            assert done.returncode == Code.NO_MEMORY, f"with {limit}: {done.stderr}"
            assert "Too many open files; raise the limit (ulimit -n" in done.stderr
    assert codes[0] == codes[2] == Code.NO_MEMORY
    assert codes[-1] == 0


def test_no_such_process(arenadump: harness.Arenadump) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    for pid in (gone.pid, 2**22 + 1, 0, 2**64):
        refuse(arenadump, Code.NO_TARGET, str(pid), "summary", pid)


def test_a_thread_is_not_a_process(arenadump: harness.Arenadump, parked: int) -> None:
    tid = next(int(task.name) for task in Path(f"/proc/{parked}/task").iterdir() if int(task.name) != parked)
    refuse(arenadump, Code.NO_TARGET, f"a thread of process {parked}", "summary", tid)


@odd.needs_root
def test_no_permission(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    """As user nobody, who must be able to reach the program."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        program = Path(shutil.copy(arenadump.path, directory))
        nobody = tmp_path / "arenadump"
        drop = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        nobody.write_text(f'#!/bin/sh\nexec {drop} "{program}" "$@"\n')
        nobody.chmod(0o755)
        for mode in ("freeze", "live"):
            arguments = ("summary", "--mode", mode, parked)
            refuse(
                arenadump,
                Code.DENIED,
                "it belongs to user 0 and arenadump runs as user 65534",
                *arguments,
                program=nobody,
            )


def is_kernel_thread(pid: int) -> bool:
    """Returns whether a process of the machine is a kernel thread. The name of the process may be no text."""
    try:
        return bool(int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[6]) & PF_KTHREAD)
    except OSError:
        return False


def test_a_kernel_thread(arenadump: harness.Arenadump) -> None:
    found = next(
        (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and is_kernel_thread(int(p.name))), 0
    )
    if not found:
        pytest.xfail("no kernel thread is in sight: we are in a PID namespace of our own")
    refuse(arenadump, Code.UNSUPPORTED, "kernel thread", "summary", found)


def test_a_zombie(arenadump: harness.Arenadump) -> None:
    with subprocess.Popen(["true"]) as child:
        odd.wait_for(lambda: odd.state(child.pid) == "Z")
        refuse(arenadump, Code.UNSUPPORTED, "zombie", "summary", child.pid)


def test_a_32_bit_process(arenadump: harness.Arenadump) -> None:
    program = odd.build("odd/bits32", "-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pic", "-no-pie")
    with odd.running([str(program)]) as pid:
        refuse(arenadump, Code.UNSUPPORTED, "32-bit", "summary", pid)
    refuse(arenadump, Code.UNSUPPORTED, "32-bit", "summary", program)


def test_a_target_without_glibc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with odd.running([str(odd.build("alloc", compiler="musl-gcc"))]) as pid:
        refuse(arenadump, Code.NO_MALLOC, "musl", "chunks", pid, only="arenadump")
        refuse(arenadump, Code.NO_MALLOC, "musl", "png", pid, "-o", tmp_path / "pictures", only="arenadump")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_traced(arenadump: harness.Arenadump) -> None:
    """A debugger keeps us from stopping it, not from inspecting."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with odd.running([str(odd.build("alloc"))]) as pid:
        gdb = ["gdb", "-q", "-nx", "-iex", "set debuginfod enabled off", "-p", str(pid)]
        with subprocess.Popen(
            gdb, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as tracer:
            odd.wait_for(lambda: odd.tracer(pid) == tracer.pid and odd.state(pid) == "t")
            refuse(arenadump, Code.DENIED, f"traced by process {tracer.pid} (gdb)", "summary", pid)
            summary = arenadump.summary(pid, "--mode", "live")
            assert summary["chunks"]["in_use"]["count"] > 0
            assert odd.tracer(pid) == tracer.pid
            tracer.communicate(b"detach\nquit\n")
        odd.wait_for(lambda: odd.state(pid) == "S")  # it may still be about to wait again


@pytest.mark.parametrize("mode", ["freeze", "live"])
def test_a_target_that_ends_meanwhile(arenadump: harness.Arenadump, mode: str) -> None:
    """Half a heap is no answer: all of it, or exit code 7."""
    program = odd.build("odd/many")
    codes: Counter[int] = Counter()
    for delay in range(0, 100, 12):
        with odd.running([str(program), str(MANY)]) as pid:
            killer = threading.Timer(delay / 1000, os.kill, (pid, signal.SIGKILL))
            killer.start()
            done = arenadump.run("summary", "--json", "--mode", mode, pid)
            killer.join()
        codes[done.returncode] += 1
        if done.returncode == 0:
            assert json.loads(done.stdout)["chunks"]["in_use"]["count"] >= MANY
        else:
            assert done.returncode in (Code.NO_TARGET, Code.UNSUPPORTED, Code.TARGET_GONE), done.stderr
            assert "process" in done.stderr
    assert codes[Code.TARGET_GONE] > 0


@pytest.mark.parametrize("mode", ["freeze", "live"])
def test_a_target_that_execs_meanwhile(arenadump: harness.Arenadump, mode: str) -> None:
    with odd.running([str(odd.build("odd/again"))]) as pid:
        for _ in range(20):
            done = arenadump.run("summary", "--json", "--mode", mode, pid)
            assert done.returncode in (Code.OK, Code.TARGET_GONE), done.stderr
            if done.returncode == 0:
                summary = json.loads(done.stdout)
                assert summary["allocator"]["malloc"] in ("glibc", "unknown")  # ld.so may not have loaded libc yet
                known = [value for value in summary["ledger"].values() if value is not None]  # without a libc, null
                assert mode == "live" or sum(known) == summary["kernel"]["rss"]
            else:
                assert "process" in done.stderr
        assert odd.state(pid) in "RSD"
        assert odd.tracer(pid) == 0


# --- files ---


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path.name)
    finally:
        os.chdir(here)


def core(*segments: tuple[int, ...], machine: int = 62, bits: int = 2, count: int | None = None) -> bytes:
    """The headers of a core file: segments are (type, offset, vaddr, filesz, memsz)."""
    ident = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
    number = len(segments) if count is None else count
    header = ident + struct.pack("<HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, number, 0, 0, 0)
    parts = [
        struct.pack("<IIQQQQQQ", kind, 6, offset, at, 0, in_file, size, 4096)
        for kind, offset, at, in_file, size in segments
    ]
    return header + b"".join(parts)


LOAD, NOTE = 1, 4
PAGE = 4096
FILES: dict[str, tuple[bytes | Callable[[Path], None], Code, str]] = {
    "empty": (b"", Code.BAD_INPUT, "neither a dump of arenascope nor a core file"),
    "garbage": (bytes(range(256)) * 4000, Code.BAD_INPUT, "neither a dump of arenascope nor a core file"),
    "text": (b"#!/bin/sh\n", Code.BAD_INPUT, "neither a dump of arenascope nor a core file"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(1000), Code.BAD_INPUT, "compressed (zstd)"),
    "a directory": (Path.mkdir, Code.BAD_INPUT, "not a regular file"),
    "a fifo": (a_fifo, Code.BAD_INPUT, "not a regular file"),
    "a socket": (a_socket, Code.NO_TARGET, "cannot open"),
    "a program": (lambda path: path.symlink_to("/bin/sh"), Code.BAD_INPUT, "a program or a library, not a core file"),
    "magic only": (b"\x7fELF", Code.BAD_INPUT, "not a core file"),
    "half a header": (core()[:40], Code.BAD_INPUT, "truncated within its first header"),
    "no segments": (core(), Code.BAD_INPUT, "no memory at all"),
    "headers cut off": (core((LOAD, PAGE, PAGE, 0, PAGE), count=9), Code.BAD_INPUT, "truncated within its headers"),
    "65535 headers": (core((LOAD, PAGE, PAGE, 0, PAGE), count=65535), Code.BAD_INPUT, "truncated"),
    "32 bits": (core(bits=1), Code.UNSUPPORTED, "32-bit"),
    "s390": (core((LOAD, PAGE, PAGE, 0, PAGE), machine=22), Code.UNSUPPORTED, "ELF machine 22"),
    "more in the file": (core((LOAD, PAGE, PAGE, 2 * PAGE, PAGE)), Code.BAD_INPUT, "damaged"),
    "beyond the end": (core((LOAD, PAGE, 2**64 - PAGE, 0, 2 * PAGE)), Code.BAD_INPUT, "damaged"),
    "offset that wraps": (core((LOAD, 2**64 - PAGE, PAGE, 2 * PAGE, 2 * PAGE)), Code.BAD_INPUT, "damaged"),
    "overlapping": (core((LOAD, 0, PAGE, 0, 2 * PAGE), (LOAD, 0, 2 * PAGE, 0, PAGE)), Code.BAD_INPUT, "overlaps"),
    "not whole pages": (core((LOAD, 0, PAGE + 1, 0, PAGE)), Code.BAD_INPUT, "not whole pages"),
    "notes that wrap": (core((NOTE, 2**64 - 1, 0, PAGE, 0), (LOAD, 0, PAGE, 0, PAGE)), Code.BAD_INPUT, "damaged"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_core(arenadump: harness.Arenadump, tmp_path: Path, name: str) -> None:
    content, code, words = FILES[name]
    path = tmp_path / "file"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    refuse(arenadump, code, words, "summary", path)


def test_no_such_file(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    refuse(arenadump, Code.NO_TARGET, "neither a process id nor a file", "summary", tmp_path / "missing")
    (tmp_path / "file").touch()
    refuse(arenadump, Code.NO_TARGET, "neither a process id nor a file", "summary", tmp_path / "file" / "below")


def bend(name: str, field: str, value: int) -> Callable[[bytearray], None]:
    """Sets a field of the header, or of the entry of a section in the table."""

    def do(made: bytearray) -> None:
        record, at = (fmt.HEADER, 0) if name == "header" else (fmt.SECTION, entry(made, name))
        assert record.fields
        dtype, offset = record.fields[field][:2]
        made[at + offset : at + offset + dtype.itemsize] = value.to_bytes(dtype.itemsize, "little")

    return do


def entry(made: bytearray, name: str) -> int:
    table = int.from_bytes(made[24:32], "little")
    for i in range(int.from_bytes(made[32:36], "little")):
        at = table + i * fmt.SECTION.itemsize
        if bytes(made[at : at + len(name) + 1]) == name.encode() + b"\0":
            return at
    raise AssertionError(f"no section {name}")


LIES: dict[str, Callable[[bytearray], None]] = {
    "cut in the header": lambda made: made.__delitem__(slice(20, None)),
    "nothing but a header": lambda made: made.__delitem__(slice(fmt.HEADER.itemsize, None)),
    "cut at the end": lambda made: made.__delitem__(slice(len(made) - 1, None)),
    "offset that wraps": bend("pages", "offset", 2**64 - 64),
    "offset in the header": bend("arenas", "offset", 1),
    "count of 2^63": bend("chunks", "count", 2**63),
    "count that wraps": bend("pages", "count", 2**61),
    "records of nothing": bend("heaps", "record_size", 0),
    "no meta": bend("meta", "count", 0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hostile_dump(arenadump: harness.Arenadump, tmp_path: Path, lie: str) -> None:
    path = synthetic.write(tmp_path / "dump", synthetic.sections())
    made = bytearray(path.read_bytes())
    LIES[lie](made)
    path.write_bytes(made)
    refuse(arenadump, Code.BAD_INPUT, str(path), "summary", path)


# --- outputs ---


def test_output_that_cannot_be(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious")
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(tmp_path.iterdir())
    for name, words in {
        "missing/file": "No such file",
        "kept/file": "Not a directory",
        "link": "symbolic link",
        "dangling": "symbolic link",
        "fifo": "special file",
        ".": "does not name a file",
    }.items():
        refuse(arenadump, Code.IO, words, "dump", parked, "-o", f"{tmp_path}/{name}")
    refuse(arenadump, Code.IO, "special file", "dump", parked, "-o", "/dev/full")
    assert sorted(tmp_path.iterdir()) == before
    assert kept.read_text() == "precious"


def on_a_tmpfs(options: str, directory: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the command with a tmpfs on the directory; what it left there is on stdout."""
    script = 'mount -t tmpfs -o "$1" none "$0" || exit 99; shift; "$@"; code=$?; ls -A "$0"; exit $code'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(directory), options, *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode in (1, 99) and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip(f"no mount namespace, or no mount in it: {done.stderr}")
    return done


DISKS = {"full": ("size=16k", "No space left on device"), "read-only": ("ro", "Read-only file system")}


@odd.needs_root
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("program", ["arenadump", "arenascope"])
def test_output_to_a_disk_that_takes_none(
    arenadump: harness.Arenadump, parked: int, tmp_path: Path, disk: str, program: str
) -> None:
    options, words = DISKS[disk]
    command = [str(arenadump.path)]
    if program == "arenascope":
        command = ["env", f"ARENASCOPE_ARENADUMP={arenadump.path}", sys.executable, "-m", "arenascope"]
    done = on_a_tmpfs(options, tmp_path, [*command, "dump", "--chunks", str(parked), "-o", str(tmp_path / "dump")])
    assert done.returncode == Code.IO, done.stderr
    assert done.stdout == "", "something was left behind"
    assert done.stderr.startswith(f"{program}: ")
    assert words in done.stderr


@odd.needs_root
def test_pictures_to_a_full_disk(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    command = [str(arenadump.path), "png", str(parked), "-o", str(tmp_path)]
    done = on_a_tmpfs("size=16k", tmp_path, command)
    assert done.returncode == Code.IO, done.stderr
    assert "No space left on device" in done.stderr
    assert all(name.endswith(".png") for name in done.stdout.split()), "half a picture was left behind"


def test_a_reader_that_has_seen_enough(arenadump: harness.Arenadump) -> None:
    """As in `arenadump chunks PID | head -1`: the pipe breaks, and nobody is told of a bug."""
    with odd.running([str(odd.build("odd/many")), "20000"]) as pid:
        command = [str(arenadump.path), "chunks", str(pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as pipe:
            assert pipe.stdout
            assert pipe.stderr
            assert pipe.stdout.readline()
            pipe.stdout.close()
            said = pipe.stderr.read()
        assert pipe.returncode in (-signal.SIGPIPE, Code.IO)
        assert b"bug" not in said
        assert odd.tracer(pid) == 0
