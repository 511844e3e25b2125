# SPDX-License-Identifier: MIT
"""Targets that are not the usual program under the usual libc: what is theirs is still in its right row, and named.

Whatever allocator answers, the rows sum to Rss to the byte, nothing of another allocator's stands in malloc's rows, and
no warning is given that is not true.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, odd, programs
from tools.preload import preloadable

OTHER_ROWS = {"other_file", "other_anon", "other_shmem", "stacks", "file_copies", "other_malloc", "managed"}
CHURN = ("--threads", "3", "--seed", "3")
PATIENT = (
    "--max-pause",
    "60s",
)  # on a machine that is busy with other things, too, the way is a freeze, and no note says why


def check_sum(summary: dict[str, Any], pid: int) -> None:
    known = [value for row, value in summary["ledger"].items() if (row, value) != ("other_malloc", None)]
    assert sum(known) == summary["kernel"]["rss"] == harness.smaps(pid, "Rss")
    assert summary["ledger"]["unknown"] == 0
    assert summary["snapshot"]["torn_chunks"] == 0


def check_heap(arenadump: harness.Arenadump, program: harness.Churn, pid: int = 0) -> dict[str, Any]:
    """Has the truth harness's program churn, and holds what is seen of it against what it knows."""
    pid = pid or program.pid
    baseline = arenadump.chunks(pid, *PATIENT)["in_use"].keys()
    program.ask("go")
    chunks, summary = arenadump.chunks(pid, *PATIENT), arenadump.summary(pid, *PATIENT)
    check_sum(summary, pid)
    assert summary["warnings"] == []
    assert summary["snapshot"]["exact"]
    held, in_use = program.held(), chunks["in_use"]
    assert held.keys() - in_use.keys() == set(), "held, but not found in use"
    assert in_use.keys() - held.keys() - baseline == set(), "found in use, but not held"
    return summary


def check_stranger(arenadump: harness.Arenadump, pid: int, kind: str, detail: str) -> None:
    """What glibc's malloc there may be has never been used."""
    summary = arenadump.summary(pid, *PATIENT)
    assert summary["allocator"]["malloc"] == kind
    assert detail in summary["allocator"]["detail"]
    check_sum(summary, pid)
    assert {row for row, held in summary["ledger"].items() if held} <= OTHER_ROWS
    assert summary["ledger"]["other_anon"] > 0
    assert all(tally == {"count": 0, "bytes": 0} for tally in summary["chunks"].values())
    assert [warning["code"] for warning in summary["warnings"]] == ["allocator"]
    table = arenadump.check("summary", pid, *PATIENT)
    other = "The malloc of this process is not glibc's"
    if kind == "unknown":
        other = "It is unknown which malloc this process uses"
    assert other in table


# --- other allocators ---


def unpacked(package: str, pattern: str) -> Path:
    """A file of a Debian package, which is not installed for it."""
    home = debian.unpack(package, "bookworm", "amd64", {"root": [package]})
    return preloadable(next(path for path in sorted((home / "root").rglob(pattern)) if path.is_file()))


@pytest.mark.parametrize(
    ("package", "library", "kind"),
    [
        ("libjemalloc2", "libjemalloc.so.2", "jemalloc"),
        ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4*", "tcmalloc"),
        ("libmimalloc2.0", "libmimalloc.so.2*", "mimalloc"),
    ],
)
def test_a_preloaded_allocator(arenadump: harness.Arenadump, package: str, library: str, kind: str) -> None:
    path = unpacked(package, library)
    with odd.running([str(odd.build("alloc"))], LD_PRELOAD=str(path)) as pid:
        check_stranger(arenadump, pid, kind, f"{path.resolve().name} is loaded ahead of libc")


@pytest.mark.parametrize(
    ("compiler", "flags", "kind", "detail"),
    [
        ("gcc", ["-fsanitize=address"], "asan", "libasan.so"),
        ("gcc", ["-fsanitize=address", "-static-libasan"], "asan", "the program itself"),
        ("musl-gcc", [], "musl", ""),
        ("musl-gcc", ["-static"], "musl", "statically"),
        ("musl-gcc", ["-static", "-s"], "unknown", "without glibc's malloc"),
    ],
    ids=["asan", "asan-static", "musl", "musl-static", "musl-static-stripped"],
)
def test_another_libc_or_runtime(
    arenadump: harness.Arenadump, compiler: str, flags: list[str], kind: str, detail: str
) -> None:
    with odd.running([str(odd.build("alloc", *flags, compiler=compiler))]) as pid:
        check_stranger(arenadump, pid, kind, detail)


@pytest.mark.parametrize("tool", ["memcheck", "massif"])
def test_valgrind(arenadump: harness.Arenadump, tool: str) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    command = ["valgrind", f"--tool={tool}", "--massif-out-file=/dev/null" if tool == "massif" else "-q"]
    with odd.running([*command, str(odd.build("alloc"))]) as pid:
        check_stranger(arenadump, pid, "valgrind", "Valgrind runs the program")


def test_go(arenadump: harness.Arenadump) -> None:
    """A filter that is written in Go and built without cgo: it waits for its stdin."""
    with subprocess.Popen([unpacked("pup", "pup")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        odd.wait_for(lambda: harness.smaps(process.pid, "Anonymous") > 100_000)
        odd.wait_for(lambda: odd.state(process.pid) == "S")
        os.kill(process.pid, signal.SIGSTOP)  # its runtime has threads that wake now and then
        odd.wait_for(lambda: odd.state(process.pid) == "T")
        check_stranger(arenadump, process.pid, "go", "a heap of its own")
        process.kill()


@pytest.mark.skipif(not Path("/usr/lib/chromium/chromium").exists(), reason="Debian's chromium is not installed")
def test_chromium(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Its malloc is PartitionAlloc, which no function and no file is named after."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "about:blank"]
    command = ["/usr/lib/chromium/chromium", *options, "--remote-debugging-port=0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            odd.wait_for(lambda: harness.smaps(process.pid, "Anonymous") > 10 << 20)
            allocator = arenadump.summary(process.pid, "--mode", "live")["allocator"]
        finally:
            process.kill()
    assert allocator["malloc"] == "partitionalloc"
    assert "PartitionAlloc" in allocator["detail"]


if shutil.which("javac"):  # too much to install for one test

    def test_java(arenadump: harness.Arenadump) -> None:
        """Its heap is its own, and glibc's malloc serves the virtual machine, whose threads never quite stand still."""
        source = programs.SOURCES / "odd/Idle.java"
        with odd.running(["java", "-Xmx64m", str(source)]) as pid:
            summary = arenadump.summary(pid, *PATIENT)
        assert summary["allocator"]["malloc"] == "glibc"
        assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]
        assert summary["ledger"]["unknown"] == 0
        assert summary["chunks"]["mmapped"]["count"] == summary["mallocs"][0]["n_mmaps"]
        assert {warning["code"] for warning in summary["warnings"]} <= {"note", "locked"}


def test_the_malloc_of_a_program(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """One that hands requests on to glibc's: the answer is doubtful, and what sits in the arenas is right."""
    library = programs.build("only_malloc", "-shared", "-fPIC", at=tmp_path / "libmine.so")
    with odd.running([str(odd.build("alloc"))], LD_PRELOAD=str(library)) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        check_sum(summary, pid)
    assert summary["allocator"]["malloc"] == "unknown"
    assert "libmine.so defines malloc" in summary["allocator"]["detail"]
    assert summary["chunks"]["in_use"]["count"] > 1000
    assert [warning["code"] for warning in summary["warnings"]] == ["allocator"]


# --- glibc in other places ---


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize(
    "flags", [["-static"], ["-static", "-no-pie", "-s"], ["-static-pie"], ["-static-pie", "-s"]], ids="".join
)
def test_static(arenadump: harness.Arenadump, flags: list[str], threads: int) -> None:
    """The main thread's tcache is found through its thread pointer, which lies in brk memory there."""
    program = odd.build("churn", *flags)
    with harness.Churn([str(program), "--threads", str(threads)]) as churn:
        summary = check_heap(arenadump, churn)
    assert summary["allocator"]["malloc"] == "glibc"
    assert "statically" in summary["allocator"]["detail"]
    assert summary["chunks"]["tcache"]["count"] > 0
    threads_known = [thread for arena in summary["arenas"] for thread in arena["threads"]]
    assert len(threads_known) >= threads
    assert all(thread["tcache_count"] is not None for thread in threads_known)


@pytest.mark.parametrize("check", ["", "3"], ids=["idle", "checking"])
def test_malloc_debug(arenadump: harness.Arenadump, check: str) -> None:
    program = [str(odd.build("churn", "-lpthread")), *CHURN]
    command = ["env", "LD_PRELOAD=libc_malloc_debug.so.0", *([f"MALLOC_CHECK_={check}"] if check else []), *program]
    with harness.Churn(command) as churn:
        summary = check_heap(arenadump, churn)
    used = {summary["mallocs"][arena["malloc"]]["path"] for arena in summary["arenas"] if arena["system_mem"]}
    (path,) = used
    assert ("libc_malloc_debug" in path) == bool(check)
    assert (summary["chunks"]["tcache"]["count"] == 0) == bool(check)


def test_a_second_libc(arenadump: harness.Arenadump) -> None:
    """There are two more by dlmopen; one of them has been asked for 100 blocks of 1000 bytes."""
    with odd.running([str(odd.build("namespaces", "-ldl"))]) as pid:
        summary, chunks = arenadump.summary(pid, *PATIENT), arenadump.chunks(pid, *PATIENT)
        check_sum(summary, pid)
    assert summary["warnings"] == []
    assert [malloc["proven"] for malloc in summary["mallocs"]] == [True] * 3
    assert list(chunks["in_use"].values()).count(1008) >= 100
    (second,) = [arena for arena in summary["arenas"] if arena["malloc"] != 0 and arena["system_mem"]]
    assert second["main"]
    assert second["noncontiguous"] or second["ledger"]["in_use"] >= 100 * 1008


def test_memory_that_resembles_mmapped_chunks(arenadump: harness.Arenadump, own_libc: debian.Libc) -> None:
    """As Java's tables do: what mp_ counts tells the true ones."""
    program = programs.build_portable("odd/decoys")
    with odd.running(own_libc.command(program)) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        check_sum(summary, pid)
    assert summary["warnings"] == []
    assert summary["chunks"]["mmapped"]["count"] == summary["mallocs"][0]["n_mmaps"] == 5


def test_memory_that_could_be_an_mmapped_chunk(arenadump: harness.Arenadump, own_libc: debian.Libc) -> None:
    """As long as a true one, and met before it: mp_'s count and sum are right either way, and so prove nothing."""
    program = programs.build_portable("odd/decoys")
    with odd.running(own_libc.command(program, "twins")) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        check_sum(summary, pid)
    assert not summary["snapshot"]["exact"]
    assert "the choice could be wrong" in "".join(warning["text"] for warning in summary["warnings"])
    assert summary["chunks"]["mmapped"]["count"] == summary["mallocs"][0]["n_mmaps"] == 5


# --- more of everything ---


def test_many_mapped_files(arenadump: harness.Arenadump) -> None:
    """The mapping of libc is behind them all."""
    with odd.running([str(odd.build("odd/files")), "9000"]) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        check_sum(summary, pid)
    assert summary["warnings"] == []
    assert summary["allocator"]["malloc"] == "glibc"
    assert summary["chunks"]["in_use"]["count"] >= 500


def test_more_objects_than_are_inspected(arenadump: harness.Arenadump) -> None:
    """What cannot be found is not nothing."""
    with odd.running([str(odd.build("odd/files")), "9000", "code"]) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        known = sum(value for value in summary["ledger"].values() if value is not None)
        assert known == summary["kernel"]["rss"] == harness.smaps(pid, "Rss")
    assert not summary["snapshot"]["exact"]
    assert summary["ledger"]["unknown"] > 500 * 600
    assert {"allocator", "layout"} == {warning["code"] for warning in summary["warnings"]}
    assert "too many objects" in summary["allocator"]["detail"]


def test_a_path_longer_than_paths_can_be(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What is mapped above it is there all the same."""
    with odd.running(["env", "-C", str(tmp_path), str(odd.build("odd/deep"))]) as pid:
        summary = arenadump.summary(pid, *PATIENT)
        check_sum(summary, pid)
    assert summary["warnings"] == []
    assert summary["allocator"]["malloc"] == "glibc"
    assert summary["chunks"]["in_use"]["count"] >= 500


# --- containers, so to speak ---


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with nothing in it but the truth harness's program and what it needs."""
    program = odd.build("churn", "-lpthread")
    root = tmp_path / "root"
    root.mkdir()
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"(/\S+) \(0x", libraries):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    shutil.copy(program, root / "churn")
    return root


def libc_of(root: Path) -> Path:
    return next(root.rglob("libc.so.6"))


def leave(_root: Path) -> None:
    pass


def delete(root: Path) -> None:
    shutil.rmtree(root)


def replace(root: Path) -> None:
    """As an upgrade does. What is there now is no libc at all."""
    libc = libc_of(root)
    (root / "new").write_bytes(b"\x7fELF" + bytes(5000))
    (root / "new").rename(libc)


def replace_by_a_liar(root: Path) -> None:
    """Another build under the same name, at the same length."""
    libc = libc_of(root)
    content = libc.read_bytes()
    (root / "new").write_bytes(content[:0x1000] + content[0x1000:].translate(bytes(range(255, -1, -1))))
    (root / "new").rename(libc)


@odd.needs_root
@pytest.mark.parametrize("limited", [False, True], ids=["root", "limited"])
@pytest.mark.parametrize("change", [leave, delete, replace, replace_by_a_liar])
def test_a_chroot(arenadump: harness.Arenadump, tree: Path, *, change: Callable[[Path], None], limited: bool) -> None:
    """`limited`: without the right to use /proc/PID/map_files, which alone leads to a deleted file."""
    inspector = arenadump
    if limited:
        script = tree.parent / "limited"
        drop = "setpriv --bounding-set=-sys_admin,-checkpoint_restore --inh-caps=-all"
        script.write_text(f'#!/bin/sh\nexec {drop} "{arenadump.path}" "$@"\n')
        script.chmod(0o755)
        inspector = harness.Arenadump(script)
    with harness.Churn(["chroot", str(tree), "/churn", *CHURN]) as churn:
        change(tree)
        summary = check_heap(inspector, churn)
    assert summary["allocator"]["malloc"] == "glibc"
    assert summary["mallocs"][0]["proven"]


NAMESPACES = {
    "pid": ["unshare", "--pid", "--fork", "--kill-child", "chroot"],
    "mount": ["unshare", "--mount", "--fork", "--kill-child", "chroot"],
    "user": ["unshare", "--user", "--map-root-user", "--pid", "--mount", "--fork", "--kill-child", "chroot"],
    "tmpfs": [
        *("unshare", "--mount", "--fork", "--kill-child", "sh", "-c"),
        'mount -t tmpfs none /mnt && cp -r "$0"/. /mnt && exec chroot /mnt "$@"',
    ],
}


@odd.needs_root
def test_a_libc_on_tmpfs(
    arenadump: harness.Arenadump, own_libc: debian.Libc, churn_program: Path, tmp_path: Path
) -> None:
    """As in a container or an initramfs that is all memory: its mappings are a file's, though the kernel's shmem."""
    command = odd.on_tmpfs(own_libc.command(churn_program, *CHURN), own_libc.root, tmp_path / "memory")
    with harness.Churn(command) as churn:
        check_heap(arenadump, churn)
        proven = arenadump.summary(churn.pid, *PATIENT)["mallocs"]
        scanned = arenadump.summary(churn.pid, "--layout-source=scan", *PATIENT)
    assert scanned["snapshot"]["exact"], scanned["warnings"]
    assert [malloc["main_arena"] for malloc in scanned["mallocs"]] == [malloc["main_arena"] for malloc in proven]


@odd.needs_root
@pytest.mark.parametrize("kind", NAMESPACES)
def test_another_namespace(arenadump: harness.Arenadump, tree: Path, kind: str) -> None:
    """The process is named by the pid it has in our namespace."""
    refused = subprocess.run([*NAMESPACES[kind][:-1], "true"], capture_output=True, text=True, check=False).stderr
    if kind == "user" and refused:  # the kernel makes no user namespace inside a chroot
        pytest.xfail(f"this machine does not allow it: {refused}")
    with harness.Churn([*NAMESPACES[kind], str(tree), "/churn", *CHURN]) as unshare:
        (child,) = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        summary = check_heap(arenadump, unshare, int(child))
    assert summary["target"]["pid"] == int(child)
    assert summary["allocator"]["malloc"] == "glibc"
    assert summary["allocator"]["layout_source"]
