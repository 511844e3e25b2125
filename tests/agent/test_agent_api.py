# SPDX-License-Identifier: MIT
"""What the agent offers to others: the commands that preload it, its manual page, and its C API."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools import harness, programs
from tools.paths import ROOT
from tools.stage import Stage, in_use, until

UNSUPPORTED, IO = 5, 8  # exit codes

# --- The commands -----------------------------------------------------------------------------------------------------


def arenascope(stage: Stage, *arguments: str) -> list[str]:
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from arenascope.cli.main import run; run()"
    return [sys.executable, "-c", code, str(ROOT / "visualize"), *arguments]


def test_run(stage: Stage, actor: Path, arenadump: harness.Arenadump) -> None:
    command = arenascope(stage, "run", "--signal", "RTMIN+1", "-o", "run.%n", "--chunks", "--log", "run.log")
    command += ["--", str(actor), "hold", "20000", "200", "mark", "mark", "sleep"]
    variables = {"LD_PRELOAD": "", "ARENASCOPE_OUT": "", "ARENASCOPE_LOG": "", "ARENASCOPE_LIBRARY": str(stage.agent)}
    process = stage.start(command, **variables, ARENASCOPE_ARENADUMP=str(arenadump.path))
    pid = stage.marked()
    assert pid == process.pid
    os.kill(pid, signal.SIGRTMIN + 1)
    until((stage.folder / "run.1").exists, "no dump")
    assert len(arenadump.chunks(stage.folder / "run.1")["in_use"]) >= 20000
    assert "wrote" in (stage.folder / "run.log").read_text()


@pytest.mark.parametrize(
    ("command", "code"),
    [("no-such-program", 127), ("true", 0), ("false", 1), ("sh -c :", 0), ("--sometimes true", 2), ("", 2)],
)
def test_run_ends_as_the_command_does(stage: Stage, arenadump: harness.Arenadump, command: str, code: int) -> None:
    environment = stage.environment(LD_PRELOAD="", ARENASCOPE_ARENADUMP=str(arenadump.path))
    environment["ARENASCOPE_LIBRARY"] = str(stage.agent)
    done = subprocess.run(arenascope(stage, "run", *command.split()), env=environment, check=False)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("log", "why"), [("missing/run.log", "No such file or directory"), ("file/run.log", "Not a directory")]
)
def test_run_refuses_a_log_that_cannot_be(stage: Stage, arenadump: harness.Arenadump, log: str, why: str) -> None:
    (stage.folder / "file").touch()
    environment = stage.environment(LD_PRELOAD="", ARENASCOPE_ARENADUMP=str(arenadump.path))
    environment["ARENASCOPE_LIBRARY"] = str(stage.agent)
    command = arenascope(stage, "run", "--log", log, "--", "touch", "begun")
    done = subprocess.run(command, cwd=stage.folder, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, f"{log}': {why}" in done.stderr) == (IO, True)
    assert not (stage.folder / "begun").exists()


def test_agent_path(stage: Stage, arenadump: harness.Arenadump) -> None:
    environment = stage.environment(LD_PRELOAD="", ARENASCOPE_ARENADUMP=str(arenadump.path))
    done = subprocess.run(arenascope(stage, "agent-path"), env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.rstrip("\n")).resolve() == stage.agent.resolve()


@pytest.mark.parametrize("name", ["a b", "a:b", "ü ß"])
def test_a_path_that_ld_preload_cannot_hold(stage: Stage, actor: Path, tmp_path: Path, name: str) -> None:
    """The command has a link to it in its environment. It stays, for what the command starts later."""
    library = tmp_path / name / "libarenascope.so"
    library.parent.mkdir()
    shutil.copy(stage.agent, library)
    variables = {"LD_PRELOAD": "", "ARENASCOPE_OUT": "", "ARENASCOPE_LOG": "", "ARENASCOPE_LIBRARY": str(library)}
    variables["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    for _ in range(2):
        command = arenascope(stage, "run", "-o", "run.%n", "--", str(actor), "mark", "mark", "sleep")
        pid = stage.start(command, **variables).pid
        assert stage.marked() == pid
        assert str(library) in Path(f"/proc/{pid}/maps").read_text()
        (stage.folder / "mark").unlink()
    (link,) = (tmp_path / "cache").rglob("*.so")
    assert (link.is_symlink(), link.resolve()) == (True, library)


def test_no_link_is_made_where_others_may_change_it(stage: Stage, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("it takes root to give a directory to another user")
    library = tmp_path / "a b" / "libarenascope.so"
    library.parent.mkdir()
    shutil.copy(stage.agent, library)
    (tmp_path / "cache" / "arenascope").mkdir(parents=True)
    os.chown(tmp_path / "cache", 65534, 65534)
    variables = {"LD_PRELOAD": "", "ARENASCOPE_LIBRARY": str(library), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = arenascope(stage, "run", "--", "true")
    done = subprocess.run(command, env=stage.environment(**variables), capture_output=True, text=True, check=False)
    assert (done.returncode, "LD_PRELOAD cannot hold" in done.stderr) == (UNSUPPORTED, True), done.stderr


def test_manual_page() -> None:
    page = ROOT / "docs" / "arenascope.7"
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    source = "".join(path.read_text() for path in (ROOT / "inspector" / "agent").glob("*.c"))
    for variable in set(re.findall(r'secure_getenv\("(ARENASCOPE_\w+)"\)', source)):
        assert variable in page.read_text()


# --- The public API ---------------------------------------------------------------------------------------------------


def test_header_is_c_and_cpp() -> None:
    header = ROOT / "inspector" / "include"
    for compiler, flags in (("gcc", []), ("g++", ["-Wno-missing-field-initializers"])):
        text = '#include "arenascope.h"\nint f(void);\nint f(void)\n{\n'
        text += "    struct arenascope_summary s = ARENASCOPE_INIT(s);\n    return (int)s.size;\n}\n"
        flags += ["-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{header}", "-c"]
        programs.build(text, *flags, compiler=compiler)


def test_api_from_python(stage: Stage, arenadump: harness.Arenadump) -> None:
    text = f"""
import ctypes, os
lib = ctypes.CDLL({str(stage.agent)!r})
lib.arenascope_error.restype = lib.arenascope_version.restype = ctypes.c_char_p
assert lib.arenascope_dump(b"by-path", 1) == 0, lib.arenascope_error()
fd = os.memfd_create("x")
assert lib.arenascope_dump_fd(fd, 0) == 0, lib.arenascope_error()
open("by-fd", "wb").write(os.pread(fd, os.fstat(fd).st_size, 0))
assert lib.arenascope_dump(b"no/such/place", 0) == 8
assert b"no/such" in lib.arenascope_error()
assert lib.arenascope_dump_fd(os.open(os.devnull, os.O_RDWR), 0) == 2
assert lib.arenascope_dump_fd(os.open("appended", os.O_RDWR | os.O_CREAT | os.O_APPEND), 0) == 2
assert lib.arenascope_request_dump() == 2
assert lib.arenascope_dump_on_signal(12, b"signalled.%n", 0) == 0
assert lib.arenascope_error() == b""
assert lib.arenascope_request_dump() == 0
summary = (ctypes.c_uint64 * 40)(8 * 40)
assert lib.arenascope_summarize(summary) == 0
assert 0 < summary[3] < summary[1]
print(lib.arenascope_version().decode())
import time
while not os.path.exists("signalled.1"): time.sleep(0.01)
"""
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=stage.folder,
        env=stage.environment(LD_PRELOAD=""),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("by-path", "by-fd", "signalled.1"):
        assert in_use(arenadump, stage.folder / name) > 0
    assert arenadump.check("chunks", stage.folder / "by-path")


def test_file_too_large(stage: Stage) -> None:
    """A limit on the size of files ends whoever runs into it, by a signal, but not for what we write."""
    text = f"""
import ctypes, os, resource, signal
lib = ctypes.CDLL({str(stage.agent)!r})
lib.arenascope_error.restype = ctypes.c_char_p
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
assert lib.arenascope_dump(b"x", 0) == 8
assert b"file too large" in lib.arenascope_error(), lib.arenascope_error()
assert os.listdir() == []
"""
    subprocess.run(
        [sys.executable, "-c", text], cwd=stage.folder, env=stage.environment(LD_PRELOAD=""), timeout=60, check=True
    )


def test_application_handler_found_by_the_api(stage: Stage) -> None:
    text = f"""
import ctypes, signal
lib = ctypes.CDLL({str(stage.agent)!r})
signal.signal(signal.SIGUSR2, lambda *_: None)
assert lib.arenascope_dump_on_signal(12, b"x", 0) == 4
"""
    subprocess.run([sys.executable, "-c", text], env=stage.environment(LD_PRELOAD=""), timeout=60, check=True)
