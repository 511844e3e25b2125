# SPDX-License-Identifier: MIT
"""arenadump as one file: nothing lies beside it, nothing is in its environment, and it does all that it says.

By day the developer's build, which needs its libraries; at night the static program as `make release` has it, also
in roots without Python, without glibc, or without a folder that can be written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, odd, programs
from tools.injection import DENIED, loaded
from tools.paths import ROOT
from tools.stage import Stage, let_others_in

pytestmark = pytest.mark.usefixtures("pages_stay")

AT_NIGHT = pytest.mark.nightly("release")
USAGE, IO = 2, 8
NOBODY = 65534
HELD = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { COUNT = 40000, EACH = 1000, KEPT = 16 };
void **everything;
static void *make_one(void) { return memset(malloc(EACH), 1, EACH); }
int main(void)
{
    everything = calloc(COUNT, sizeof *everything);
    for (int i = 0; i < COUNT; i++)
        everything[i] = make_one();
    for (int i = 0; i < COUNT; i++)
        if (i % KEPT) {
            free(everything[i]);
            everything[i] = NULL;
        }
    for (char c = 0; puts("ready") >= 0 && fflush(stdout) == 0 && read(0, &c, 1) == 1;) // for a profile
        for (int i = 1; i < COUNT; i += KEPT) {
            free(everything[i]);
            everything[i] = make_one();
        }
    return 0;
}
"""
MIB = 1 << 20


@pytest.fixture(scope="module", params=["build", pytest.param("release", marks=AT_NIGHT)])
def one_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> harness.Arenadump:
    """The program, in a folder of its own."""
    copy = tmp_path_factory.mktemp("alone") / "arenadump"
    if request.param == "build":
        shutil.copy(harness.arenadump_path(), copy)
    else:
        strip(copy)
    let_others_in(copy.parent)
    return harness.Arenadump(copy)


def strip(to: Path) -> None:
    """As packaging/release.py does."""
    static = ROOT / f"build-static-{debian.NATIVE}/inspector/cli/arenadump"
    subprocess.run(["strip", "--strip-unneeded", "-o", to, static], check=True)


@contextmanager
def bloated(*before: str, program: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has freed nearly all that it had, started by a command. At each byte that it gets it allocates."""
    command = [*before, program or str(programs.build_portable(HELD))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            await_ready(process)
            yield process
        finally:
            process.kill()


def await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    odd.wait_for_read(process.pid)


def asked(command: list[str] | harness.Arenadump, *words: object, code: int = 0, cwd: Path = Path("/")) -> str:
    """What it prints, on either stream. Nothing is in its environment."""
    program = [str(command.path)] if isinstance(command, harness.Arenadump) else command
    done = subprocess.run(
        [*program, *map(str, words)],
        cwd=cwd,
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done
    return done.stdout + done.stderr


def answer(command: list[str] | harness.Arenadump, *words: object) -> dict[str, Any]:
    return json.loads(asked(command, words[0], "--json", *words[1:]))  # type: ignore[no-any-return]


def check_trim(command: list[str] | harness.Arenadump, pid: int) -> None:
    """It loads the agent, and gives back what was forecast."""
    assert loaded(pid) == 0
    forecast = answer(command, "trim", "--forecast", pid)["forecast"]
    before = harness.smaps(pid, "Rss")
    done = answer(command, "trim", "--deep", pid)
    assert loaded(pid) == 1
    assert done["returned"] >= forecast > 20 * MIB
    assert before - harness.smaps(pid, "Rss") >= forecast - MIB  # the agent has come, and pages of libc
    assert answer(command, "inject", pid)["how"] == "present"


def test_trim(one_file: harness.Arenadump) -> None:
    with bloated() as process:
        forecast = answer(one_file, "trim", "--forecast", process.pid)["forecast"]
        assert answer(one_file, "inject", process.pid)["how"] == "loaded"
        done = answer(one_file, "trim", process.pid)
        assert done["returned"] == done["forecast"] == forecast
    assert [path.name for path in one_file.path.parent.iterdir()] == ["arenadump"], "something was left beside it"


def test_profile(one_file: harness.Arenadump, tmp_path: Path) -> None:
    """It begins, carries the recorder's code, and ends; a second one, too."""
    dump = tmp_path / "dump"
    with bloated() as process:
        assert process.stdin
        for _ in range(2):
            command = [str(one_file.path), "profile", str(process.pid), "--exact", "-o", str(dump)]
            with subprocess.Popen(command, env={}, stderr=subprocess.PIPE, text=True) as recording:
                assert recording.stderr
                assert "records who allocates" in recording.stderr.readline()
                process.stdin.write("x")
                process.stdin.flush()
                await_ready(process)
                recording.send_signal(signal.SIGINT)
                assert recording.wait() == 0, recording.stderr.read()
            assert "make_one" in asked(one_file, "sites", dump)
            dump.unlink()
        assert loaded(process.pid) == 1


def test_questions(one_file: harness.Arenadump, tmp_path: Path) -> None:
    """Each command without Python answers in words, of a process and where a dump will do of a dump."""
    dump = tmp_path / "dump"
    with bloated() as process:
        asked(one_file, "dump", process.pid, "-o", dump, "--chunks", "--graph")
        for target in (process.pid, dump):
            assert "What would come back" in asked(one_file, "summary", target)
        assert "everything" in asked(one_file, "owners", process.pid)
        for command in ("leaks", "types"):
            assert asked(one_file, command, process.pid)
        kept = re.findall(r"^(0x\w+) 1008 in_use$", asked(one_file, "chunks", process.pid), re.MULTILINE)
        assert len(kept) == 40000 // 16
        assert "add 0x10" in asked(one_file, "why", process.pid, "0x10", code=USAGE)
        assert "everything" in asked(one_file, "why", process.pid, hex(int(kept[1000], 16) + 0x10))
        assert loaded(process.pid) == 0


def test_library_to_preload(one_file: harness.Arenadump, tmp_path: Path, actor: Path) -> None:
    """What it writes is the agent: it dumps at a signal. Other users may load it, as the umask says."""
    library = tmp_path / "libarenascope.so"
    umask = os.umask(0o027)
    try:
        asked(one_file, "agent", "-o", library)
    finally:
        os.umask(umask)
    assert library.stat().st_mode & 0o7777 == 0o640
    printed = subprocess.run([one_file.path, "agent", "-o", "-"], env={}, stdout=subprocess.PIPE, check=True).stdout
    assert printed == library.read_bytes()
    tmp_path.chmod(0o777)
    with ExitStack() as stack:
        stage = Stage(tmp_path, library, stack)
        stage.start([str(actor), "hold", "1000", "200", "mark", "mark", "sleep"])
        dump = stage.ask(stage.marked())
        assert one_file.summary(dump)["ledger"]["in_use"] > 200_000


def test_library_with_another_name(one_file: harness.Arenadump, tmp_path: Path) -> None:
    """The agent would not know itself by it. No link is followed; no target is taken."""
    assert "must begin with libarenascope.so" in asked(one_file, "agent", "-o", tmp_path / "agent.so", code=USAGE)
    (tmp_path / "libarenascope.so").symlink_to(tmp_path / "elsewhere")
    assert "a symbolic link" in asked(one_file, "agent", "-o", tmp_path / "libarenascope.so", code=IO)
    assert "'1' is one too many" in asked(one_file, "agent", "-o", tmp_path / "libarenascope.so.0", "1", code=USAGE)
    assert "no output given" in asked(one_file, "agent", code=USAGE)
    assert [path.name for path in tmp_path.iterdir()] == ["libarenascope.so"]


@odd.needs_root
def test_user_without_rights(one_file: harness.Arenadump) -> None:
    """He reaches his own processes, and no one else's."""
    nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command = [*nobody, str(one_file.path)]
    with bloated(*nobody) as own, bloated() as others:
        check_trim(command, own.pid)
        assert str(others.pid) in asked(command, "inject", others.pid, code=DENIED)
        assert loaded(others.pid) == 0


# --- Roots ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("static") / "arenadump"
    strip(copy)
    return copy


def make_root(folder: Path, static: Path) -> Path:
    for name in ("proc", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(static, folder / "arenadump")
    return folder


def inside(root: Path, *command: str, read_only: bool = False) -> list[str]:
    """A command in a root with a /proc; with read_only, nothing there can be written."""
    script = 'mount --bind "$0" "$0" && mount -t proc proc "$0/proc"'
    script += ' && mount -o remount,bind,ro "$0"' if read_only else ""
    return ["unshare", "--mount", "sh", "-c", f'{script} && exec chroot "$0" "$@"', str(root), *command]


@AT_NIGHT
@odd.needs_root
def test_root_without_python(static: Path, tmp_path: Path) -> None:
    """A libc and a shell are all that it has; the process has the same root."""
    shell = debian.unpack("shell", "bookworm", debian.NATIVE, {"root": ["libc6", "dash"]})
    root = tmp_path / "root"
    shutil.copytree(shell / "root", root, symlinks=True)
    make_root(root, static)
    shutil.copy(programs.build_portable(HELD), root / "held")
    assert not list(root.glob("**/*python*"))
    with bloated(*inside(root), program="/held") as process:
        script = f"/arenadump summary {process.pid} && /arenadump owners {process.pid}"
        assert "everything" in asked(inside(root, "/bin/dash", "-c", script))
        check_trim(inside(root, "/arenadump"), process.pid)


LAUNCHER = """
#include <unistd.h>
int main(int argc, char **argv) { return argc > 1 ? execv(argv[1], argv + 1) : 1; }
"""


@AT_NIGHT
@odd.needs_root
@pytest.mark.parametrize("read_only", [False, True])
def test_root_of_musl(static: Path, tmp_path: Path, *, read_only: bool) -> None:
    """It has no glibc, and perhaps no folder that can be written; the process outside has all."""
    root = make_root(tmp_path / "root", static)
    shutil.copy(programs.build(LAUNCHER, compiler="musl-gcc"), root / "launcher")
    (loader,) = Path("/lib").glob("ld-musl-*.so.1")
    (root / "lib").mkdir()
    shutil.copy(loader, root / "lib")
    command = inside(root, "/launcher", "/arenadump", read_only=read_only)
    with bloated() as process:
        asked(command, "dump", process.pid, "-o", "/tmp/dump", code=IO if read_only else 0)
        assert "everything" in asked(command, "owners", process.pid)
        check_trim(command, process.pid)
        profile = [*command, "profile", str(process.pid), "--for", "10ms", "-o", "-"]
        done = subprocess.run(profile, env={}, capture_output=True, check=True)
        (tmp_path / "dump").write_bytes(done.stdout)
        assert "Profile since" in asked([str(static)], "sites", tmp_path / "dump")
    left = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert left == {"arenadump", "launcher", f"lib/{loader.name}"} | (set() if read_only else {"tmp/dump"})
