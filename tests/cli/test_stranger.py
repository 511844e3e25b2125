# SPDX-License-Identifier: MIT
"""The first ten minutes of a stranger: what is said to who types something that is not right."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tools import harness
from tools import synthetic_dump as synthetic
from tools.command import PARK, arenascope, here
from tools.odd import needs_root, wait_for
from tools.running import started

import arenascope as package
from arenascope.cli.main import cli
from arenascope.errors import Code

SCREEN = 60  # lines


def meant(said: str) -> list[str]:
    """The command that an error suggests, in its words."""
    return said.partition("Did you mean: ")[2].rstrip("\n").split(" ")


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("25752", "arenascope summary 25752"),
        ("sumary 25752", "arenascope summary 25752"),
        ("owners", None),
        ("tmri 25752 --deep", "arenascope trim 25752 --deep"),
        ("profile tops 1", "arenascope profile top 1"),
        ("experiment lits", "arenascope experiment list"),
        ("help sumary", "arenascope summary --help"),
        ("nonsense", None),
    ],
)
def test_a_command_that_is_none(typed: str, suggested: str | None) -> None:
    done = here(*typed.split())
    assert done.returncode == Code.USAGE
    assert done.stdout == ""
    assert ("No such command" in done.stderr) == (typed != "owners")
    assert meant(done.stderr) == (suggested.split() if suggested else [""])


def test_a_file_is_no_command(tmp_path: Path, arenadump: harness.Arenadump) -> None:
    """The command that is suggested works as it stands."""
    path = synthetic.write(tmp_path / "synthetic.dump", synthetic.sections())
    suggested = meant(here(path).stderr)
    assert suggested == ["arenascope", "summary", str(path)]
    assert here(*suggested[1:], arenadump=arenadump.path).returncode == Code.OK
    done = arenadump.run(path)
    assert done.returncode == Code.USAGE
    assert meant(done.stderr) == ["arenadump", "summary", str(path)]
    assert arenadump.run(*meant(done.stderr)[1:]).returncode == Code.OK


@pytest.mark.parametrize("typed", ["", "help", "help help", "help trim", "help profile top", "profile help top"])
def test_help_is_a_command(typed: str) -> None:
    words = typed.split()
    wanted = here(*(word for word in words if word != "help"), "--help")
    assert wanted.returncode == Code.OK
    done = here(*words)
    assert done.stdout + done.stderr == wanted.stdout
    assert done.returncode == (Code.OK if words else Code.USAGE)
    assert bool(done.stdout) == bool(words)


@pytest.mark.parametrize("command", ["summary", "trim", "watch"])
def test_an_option_that_is_none(command: str) -> None:
    done = here(*command.split(), "--max-puase", "5ms", "1")
    assert done.returncode == Code.USAGE
    assert "Did you mean" in done.stderr
    assert "--max-pause" in done.stderr


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("25752", "unknown command '25752'. Did you mean: arenadump summary 25752\n"),
        ("sumary 25752", "unknown command 'sumary': did you mean summary? (arenadump help summary)\n"),
        ("tirm 25752", "unknown command 'tirm': did you mean trim? (arenadump help trim)\n"),
        ("help ownrs", "unknown command 'ownrs': did you mean owners? (arenadump help owners)\n"),
        ("summary --jsno 1", "summary: unknown option '--jsno': did you mean --json? (arenadump help summary)\n"),
        ("dump --otput=x 1", "dump: unknown option '--otput=x': did you mean --output? (arenadump help dump)\n"),
        ("summary --deeep 1", "summary: unknown option '--deeep' (arenadump summary --help lists all)\n"),
        (f"{'summary' * 10} 1", f"unknown command '{'summary' * 10}': use summary, dump,"),
    ],
)
def test_arenadump_is_asked_amiss(arenadump: harness.Arenadump, typed: str, says: str) -> None:
    done = arenadump.run(*typed.split())
    assert (done.returncode, done.stdout) == (Code.USAGE, "")
    assert done.stderr.startswith(f"arenadump: {says}")


def test_the_help_of_arenadump(arenadump: harness.Arenadump) -> None:
    overall = arenadump.check("help")
    assert overall == arenadump.check("--help") == arenadump.check("-h")
    done = arenadump.run()
    assert (done.returncode, done.stdout, done.stderr) == (Code.USAGE, "", overall)
    names = [line.split()[1] for line in overall.splitlines() if line.startswith("  arenadump ")]
    assert len(names) == 16
    for command in names:
        assert arenadump.check("help", command) == arenadump.check(command, "--help")
        assert arenadump.check("help", command).startswith(f"arenadump {command} ")


def every_command(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each
            yield from every_command(each, *path, name)


def test_each_help_fits_on_a_screen(arenadump: harness.Arenadump) -> None:
    shown = {
        path: CliRunner().invoke(cli, [*path, "--help"], env={"COLUMNS": "80"}).output for path in every_command(cli)
    }
    assert len(shown) > 30
    names = [(), *((line.split()[1],) for line in arenadump.check("--help").splitlines() if line.startswith("  arena"))]
    shown |= {("arenadump", *name): arenadump.check(*name, "--help") for name in names}
    assert {path: text.count("\n") for path, text in shown.items() if text.count("\n") > SCREEN} == {}
    assert {path for path, text in shown.items() if not text or max(map(len, text.splitlines())) > 80} == set()


@pytest.fixture(scope="module")
def parked() -> Iterator[int]:
    """The PID of a Python that waits."""
    with started([sys.executable, "-c", PARK], ".") as pid:
        yield pid


def test_a_page_on_standard_output(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The same as in a file, and nothing else on either stream."""
    dump = synthetic.write(tmp_path / "synthetic.dump", synthetic.sections())
    written = arenascope("report", dump, "-o", tmp_path / "page.html", arenadump=arenadump.path)
    assert written.stderr == f"{tmp_path}/page.html: open it in a browser\n"
    done = arenascope("report", dump, "-o", "-", arenadump=arenadump.path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (Code.OK, "")
    assert done.stdout == (tmp_path / "page.html").read_text()
    assert not (tmp_path / "-").exists()


# In a copy of the root: / itself may be no mount (chroot). What is mounted below it stays as it is.
IN_READ_ONLY = """
root="$0/root"; mkdir "$root" && mount --rbind / "$root" && mount -o remount,bind,ro "$root" &&
mount --bind "$root$0" "$root/tmp" && mount -o remount,bind,ro "$root/tmp" && exec chroot "$root" "$@"
"""
READ_ONLY = ["unshare", "--mount", "sh", "-c", IN_READ_ONLY]


@needs_root
@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("summary PID", ""),
        ("report PID -o -", ""),
        ("report PID --chunks -o -", ""),
        ("diff PID PID", ""),
        ("top --once PID", ""),
        ("trim --forecast PID", ""),
        ("leaks PID", ""),
        ("report PID", "cannot write 'report.html': Read-only file system"),
        ("report PID -o - --png pictures", "set the MPLCONFIGDIR environment variable to a writable directory"),
        ("dump PID -o x", "Read-only file system"),
        ("watch PID --for 1ms -o x", "Read-only file system"),
    ],
)
def test_nothing_can_be_written(
    arenadump: harness.Arenadump, parked: int, tmp_path: Path, typed: str, says: str
) -> None:
    """No directory takes a file, a temporary one neither, and there is no home."""
    words = [str(parked) if word == "PID" else word for word in typed.split()]
    environment = {name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_CACHE_HOME"}}
    environment |= {"ARENASCOPE_ARENADUMP": str(arenadump.path), "TMPDIR": "/nowhere"}
    command = [*READ_ONLY, str(tmp_path), sys.executable, "-m", "arenascope", *words]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (Code.IO if says else Code.OK), done.stderr
    assert bool(done.stdout) != bool(says)
    assert (says in done.stderr.splitlines()[-1]) if says else not done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}, {"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C"}])
def test_a_pipe_has_the_columns_that_it_is_told(
    arenadump: harness.Arenadump, parked: int, width: int, environment: dict[str, str]
) -> None:
    """Lines that are filled; a table whose numbers need more has more."""
    given = {**os.environ, **environment, "COLUMNS": str(width), "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    done = arenascope("summary", parked, env=given)
    assert (done.returncode, done.stderr) == (Code.OK, "")
    assert "\x1b" not in done.stdout
    longest = max(map(len, done.stdout.splitlines()))
    assert longest <= 80 if width == 60 else 120 < longest <= 200


FINDS = "from arenascope.wire.agent import find_agent\nfrom arenascope.wire.commands import program\n"


@pytest.mark.parametrize("place", ["bin", "arenascope"])
def test_what_lies_beside_the_package_is_found(arenadump: harness.Arenadump, tmp_path: Path, place: str) -> None:
    """As pip install --target has it, and what unpacks itself; before what another installation has on PATH."""
    folder = tmp_path / "target"
    shutil.copytree(Path(package.__file__).parent, folder / "arenascope", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / place).mkdir(exist_ok=True)
    shutil.copy(arenadump.path, folder / place / "arenadump")
    shutil.copy(harness.agent_path(arenadump.path), folder / place)
    environment = {name: value for name, value in os.environ.items() if name != "ARENASCOPE_ARENADUMP"}
    done = subprocess.run(
        [sys.executable, "-c", f"{FINDS}print(program(), find_agent())"],
        env={**environment, "PYTHONPATH": str(folder)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [f"{folder}/{place}/arenadump", f"{folder}/{place}/libarenascope.so"], done.stderr


@needs_root
def test_another_users_library_is_not_preloaded(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Who may write beside the folder of a copied arenadump would be loaded into what the caller starts."""
    program, library = tmp_path / "bin/arenadump", tmp_path / "lib/libarenascope.so"
    program.parent.mkdir()
    library.parent.mkdir()
    shutil.copy(arenadump.path, program)
    shutil.copy(harness.agent_path(arenadump.path), library)
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(program)}
    assert arenascope("agent-path", env=environment).stdout == f"{library}\n"
    os.chown(library, 12345, 12345)
    done = arenascope("agent-path", env=environment)
    assert (done.returncode, done.stdout) == (Code.INTERNAL, "")
    assert "libarenascope.so was not found beside" in done.stderr


ON_TARGET = (
    "summary T",
    "dump T -o F",
    "report T -o F",
    "report T -o -",
    "diff T T",
    "leaks T",
    "types T",
    "owners T",
    "why T 0x1000",
    "profile top T",
    "profile tree T",
)
ON_PROCESS = (
    "trim T",
    "trim T --forecast",
    "inject T",
    "profile take T --for 1ms -o F",
    "profile take T --stop",
    "top --once T",
    "watch T --for 1ms -o F",
)
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"
WEAK = "setpriv --bounding-set=-sys_ptrace,-dac_read_search,-dac_override --inh-caps=-all"
HIDDEN = "unshare --mount sh -c 'mount -t proc -o hidepid=2 proc /proc && exec \"$@\"' sh"
POSTURES = {"foreign": NOBODY, "no capability": WEAK, "hidden": f"{HIDDEN} {NOBODY}"}  # how arenadump is started
KERNEL_THREADS = [each.parent.name for each in Path("/proc").glob("[0-9]*/stat") if each.read_text().split()[3] == "2"]


@contextmanager
def zombie() -> Iterator[int]:
    """A child that has ended, for which nobody has waited."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def refused(typed: str, target: object, folder: Path, arenadump: Path) -> tuple[int, str]:
    """The exit code, and the one line that a command says to stderr where it cannot do what is asked."""
    places = {"T": str(target), "F": str(folder / "file")}
    run = arenascope if "take" in typed else here  # a profile is taken by another program, which we become
    done = run(*(places.get(word, word) for word in typed.split()), arenadump=arenadump)
    assert done.stdout == "", typed
    assert "Traceback" not in done.stderr, typed
    assert not (folder / "file").exists() or "watch" in typed, "a timeline without a poll"
    (line,) = done.stderr.splitlines()
    assert line.startswith(("arenascope: ", "arenadump: ")), typed
    return done.returncode, line


@pytest.mark.parametrize("typed", [*ON_TARGET, *ON_PROCESS])
def test_a_target_that_is_none(arenadump: harness.Arenadump, tmp_path: Path, typed: str) -> None:
    """One that has ended, one that was never there, one that nobody has waited for, one of the kernel's own."""
    code, line = refused(typed, 2**22 - 1, tmp_path, arenadump.path)
    assert code == Code.NO_TARGET
    assert "ps -e" in line
    code, line = refused(typed, tmp_path / "nothing", tmp_path, arenadump.path)
    assert code == Code.NO_TARGET
    assert "neither a process id nor a file" in line or "there is no such process" in line
    with zombie() as pid:
        code, line = refused(typed, pid, tmp_path, arenadump.path)
    assert code == Code.UNSUPPORTED
    assert "zombie" in line
    for thread in KERNEL_THREADS[:1]:  # none where we have a PID namespace of our own
        code, line = refused(typed, thread, tmp_path, arenadump.path)
        assert code == Code.UNSUPPORTED
        assert "kernel thread" in line


@needs_root
@pytest.mark.parametrize("posture", POSTURES)
@pytest.mark.parametrize("typed", [*ON_TARGET, *ON_PROCESS])
def test_a_target_that_is_denied(
    arenadump: harness.Arenadump, parked: int, tmp_path: Path, typed: str, posture: str
) -> None:
    """Another user's, also where /proc hides it, and root's own without capabilities: what is missing is named."""
    program = tmp_path / "arenadump"
    program.write_text(f'#!/bin/sh\nexec {POSTURES[posture]} {shlex.quote(str(arenadump.path))} "$@"\n')
    program.chmod(0o755)
    code, line = refused(typed, parked, tmp_path, program)
    assert code == Code.DENIED
    assert ("--cap-add" if posture == "no capability" else "run as root") in line


@pytest.mark.parametrize("typed", ["doctor", *ON_TARGET, "trim T", "inject T", "top --once T"])
def test_ctrl_c(parked: int, tmp_path: Path, typed: str) -> None:
    """While arenadump is at work, without end: no words, the exit code of the guide, and arenadump goes, too."""
    program, pid = tmp_path / "arenadump", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > '{pid}.new' && mv '{pid}.new' '{pid}'\nexec sleep 600\n")
    program.chmod(0o755)
    places = {"T": str(parked), "F": str(tmp_path / "file")}
    command = [sys.executable, "-m", "arenascope", *(places.get(word, word) for word in typed.split())]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(program)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        wait_for(lambda: pid.exists() or running.poll() is not None)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)
    assert (running.returncode, *said) == (128 + signal.SIGINT, "", "\n")  # behind the ^C of a terminal
    assert not (tmp_path / "file").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("command", ["--help", "doctor", "summary PID", "leaks PID", "report PID -o -", "top --once"])
def test_head(arenadump: harness.Arenadump, parked: int, command: str) -> None:
    """A reader that goes away ends a command without a word."""
    shell = '"$0" -m arenascope "$@" | head -1; exit ${PIPESTATUS[0]}'
    words = [str(parked) if word == "PID" else word for word in command.split()]
    done = subprocess.run(
        ["bash", "-c", shell, sys.executable, *words],
        env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 128 + signal.SIGPIPE}
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
