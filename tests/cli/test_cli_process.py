# SPDX-License-Identifier: MIT
"""The `arenascope` command as a process: what it loads, its streams, and the signals that it gets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest
from tools import harness
from tools import synthetic_dump as synthetic
from tools.command import PARK, arenascope
from tools.paths import ROOT
from tools.running import started

from arenascope.cli.main import COMMANDS, cli
from arenascope.errors import Code
from arenascope.timeline.store import is_timeline


@pytest.fixture(scope="module")
def parked(agent: Path) -> Iterator[int]:
    """The PID of a Python that waits, and has a profile."""
    profiled = ["env", f"LD_PRELOAD={agent}", "ARENASCOPE_PROFILE=1"]
    with started([*profiled, sys.executable, "-c", PARK], ".") as pid:
        yield pid


@pytest.fixture
def synthetic_dump(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "synthetic.dump", synthetic.sections())


HEAVY = {"numpy", "rich", "jinja2", "matplotlib", "textual", "prometheus_client"}


def imported_by(*arguments: object, **environment: str) -> set[str]:
    """The modules that a command imports until its end, in success."""
    command = [sys.executable, "-v", "-m", "arenascope", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall("^import '([^']+)'", done.stderr, re.MULTILINE))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [(["--version"], set()), (["--help"], set()), (["why", "--help"], {"arenascope.cli.graph"})],
)
def test_a_command_loads_no_other_one(arguments: list[str], wanted: set[str]) -> None:
    commands = {f"arenascope.cli.{place.where.partition(':')[0]}" for place in COMMANDS.values()}
    assert imported_by(*arguments) & commands == wanted


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--version", ""),
        ("--help", ""),
        ("summary PID", "rich"),
        ("summary --json PID", ""),
        ("dump -o OUT PID", ""),
        ("trim --forecast PID", "rich"),
        ("trim --forecast --json PID", ""),
        ("inject --json PID", ""),
        ("run -- true", ""),
        ("owners PID", "rich"),
        ("owners --json PID", ""),
        ("leaks PID", "rich"),
        ("leaks --json PID", ""),
        ("types PID", "rich"),
        ("types --json PID", ""),
        ("why --json PID CHUNK", ""),
        ("agent-path", ""),
        ("gdb-script", ""),
        ("diff DUMP DUMP", "numpy rich"),
        ("report -o OUT DUMP", "jinja2 numpy"),
        ("report -o OUT --svg PICTURES DUMP", "jinja2 matplotlib numpy"),
        ("top --once PID", "numpy rich"),
        ("top --once --json PID", "numpy rich"),
        ("watch --for 1ms -o OUT PID", "numpy rich"),
    ],
)
def test_a_command_loads_what_it_needs(  # noqa: PLR0917 - one for each fixture
    arenadump: harness.Arenadump, parked: int, synthetic_dump: Path, tmp_path: Path, arguments: str, wanted: str
) -> None:
    """A command loads only what it needs of what takes long to load."""
    chunks = [line.split() for line in arenadump.check("chunks", parked).splitlines()]
    places = {
        "PID": parked,
        "CHUNK": hex(next(int(chunk[0], 16) for chunk in chunks if chunk[2] == "in_use") + 16),  # what malloc gave
        "DUMP": synthetic_dump,
        "OUT": tmp_path / "out",
        "PICTURES": tmp_path / "pictures",
    }
    words = [str(places.get(word, word)) for word in arguments.split()]
    assert imported_by(*words, ARENASCOPE_ARENADUMP=str(arenadump.path)) & HEAVY == set(wanted.split())


def test_a_summary_loads_no_answers_of_other_commands(arenadump: harness.Arenadump, parked: int) -> None:
    loaded = imported_by("summary", parked, ARENASCOPE_ARENADUMP=str(arenadump.path))
    assert "arenascope.wire.graph_parts" in loaded
    answers = ("graph", "inject_result", "policy", "profile_json", "trace", "trim_result")
    assert loaded & {f"arenascope.wire.{name}" for name in answers} == set()


FINDS = """
import sys, sysconfig
from arenascope.wire.commands import program
found = program()
print(found, *(name for name in sys.modules if name.startswith("_sysconfigdata")), sep="\\n")
print(sysconfig.get_path("scripts") + "/arenadump")
"""


def test_arenadump_is_found_without_what_python_was_built_with(arenadump: harness.Arenadump) -> None:
    """That is a module of its own, which sysconfig reads for all of its answers."""
    environment = {name: value for name, value in os.environ.items() if name != "ARENASCOPE_ARENADUMP"}
    environment["PATH"] = f"{arenadump.path.parent}:{environment['PATH']}"
    done = subprocess.run([sys.executable, "-c", FINDS], env=environment, capture_output=True, text=True, check=True)
    found, *built_with, installed = done.stdout.splitlines()
    assert built_with == []
    assert found == installed or not Path(installed).exists()


SEARCHES = """
import gc, sys
from arenascope.__main__ import run
gc.callbacks.append(lambda phase, _: phase == "start" and print("searched", len(gc.get_objects()), file=sys.stderr))
run()
"""


@pytest.mark.parametrize("command", ["summary", "summary --json", "owners", "top --once"])
def test_no_garbage_is_searched_for(arenadump: harness.Arenadump, parked: int, command: str) -> None:
    """A command that ends at once spends no time on a search for garbage among its modules, at its end neither."""
    done = subprocess.run(
        [sys.executable, "-c", SEARCHES, *command.split(), str(parked)],
        env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sum(map(int, re.findall("^searched ([0-9]+)$", done.stderr, re.MULTILINE))) < 1000


@pytest.mark.parametrize("command", ["profile top", "profile tree"])
def test_a_profile_that_is_shown_loads_no_numpy(arenadump: harness.Arenadump, parked: int, command: str) -> None:
    loaded = imported_by(*command.split(), parked, ARENASCOPE_ARENADUMP=str(arenadump.path))
    assert loaded & HEAVY == {"rich"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_the_first_sentence_of_each_command(name: str) -> None:
    """As the command itself says it."""
    command = cli.get_command(click.Context(cli), name)
    assert command
    assert COMMANDS[name].help == click.Command(name, help=command.help).get_short_help_str(limit=1000)


def test_the_version_where_nothing_is_installed(tmp_path: Path) -> None:
    """A source tree, and click: --version needs nothing else."""
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "arenascope", "--version"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'visualize'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())
    assert version
    assert (done.returncode, done.stdout, done.stderr) == (0, f"arenascope {version[1]} (working copy)\n", "")


@pytest.mark.parametrize(
    ("streams", "code", "says"),
    [
        (">&-", Code.IO, "arenascope: output: Bad file descriptor\n"),
        (">/dev/full", Code.IO, "arenascope: output: No space left on device\n"),
        ("<&-", Code.OK, ""),
        ("2>&-", Code.OK, ""),
        ("2>/dev/full", Code.OK, ""),
        (">&- 2>&-", Code.IO, ""),
        (">/dev/full 2>/dev/full", Code.IO, ""),
    ],
)
def test_streams_that_are_closed_or_full(
    arenadump: harness.Arenadump, synthetic_dump: Path, streams: str, code: int, says: str
) -> None:
    """No traceback: an answer that nobody can get is an error, words that nobody can get are none."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "arenascope"]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    whole = subprocess.run([*shell, "summary", synthetic_dump], capture_output=True, env=environment, check=False)
    assert (whole.returncode, whole.stderr.decode()) == (code, says)
    assert (b"Verdict" in whole.stdout) == (code == Code.OK)


def test_a_watch_outlives_its_log(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    """What it would say is lost where the log's disk is full; it goes on inspecting, and the timeline is whole."""
    often = ["--every", "1ms", "--for", "1s"]  # this cannot be, and it would say so
    command = [sys.executable, "-m", "arenascope", "watch", str(parked), "-o", str(tmp_path / "t.db"), *often]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stderr=full, env=environment, check=False)
    assert done.returncode == 0
    assert is_timeline(str(tmp_path / "t.db"))


def test_a_report_without_a_stdin(arenadump: harness.Arenadump, synthetic_dump: Path, tmp_path: Path) -> None:
    """The dump that arenadump gets by its number does not have a standard stream's, which arenadump has itself."""
    shell = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-m", "arenascope"]
    page = tmp_path / "page.html"
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    subprocess.run([*shell, "report", synthetic_dump, "-o", page], env=environment, check=True)
    assert page.stat().st_size > 0


@pytest.mark.parametrize(
    ("shell", "code", "says"),
    [([], -signal.SIGINT, ""), (["sh", "-c", 'trap "" INT; exec "$@"', "sh"], Code.OK, "arenascope ")],
    ids=["handled", "ignored"],
)
@pytest.mark.parametrize(
    "command", [[Path(sys.executable).with_name("arenascope")], [sys.executable, "-m", "arenascope"]]
)
def test_ctrl_c_while_it_is_loaded(tmp_path: Path, command: list[str], shell: list[str], code: int, says: str) -> None:
    """No traceback, and no matter to those who have it ignored, as in the background of a script."""
    lines = ["import os, signal, sys", "os.kill(os.getpid(), signal.SIGINT)", f"sys.path.remove({str(tmp_path)!r})"]
    lines += ["del sys.modules['click']", "import click"]
    (tmp_path / "click.py").write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*shell, *command, "-V"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(says)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_told_to_go(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The temporary dump goes with us, and so does arenadump."""
    program, temporary = tmp_path / "arenadump", tmp_path / "temporary"
    temporary.mkdir()
    lines = (
        "#!/bin/sh",
        f"echo unfinished > {temporary}/arenascope-*/dump",
        f"echo $$ > {tmp_path}/pid.new && mv {tmp_path}/pid.new {tmp_path}/pid",
        "exec sleep 600",
    )
    program.write_text("\n".join(lines))
    program.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(temporary), "ARENASCOPE_ARENADUMP": str(program)}
    command = [sys.executable, "-m", "arenascope", "report", "1", "-o", str(tmp_path / "page.html")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        while not (tmp_path / "pid").exists():
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(number)
        _, words = running.communicate(timeout=60)
    assert running.returncode == code
    assert "Traceback" not in words
    assert list(temporary.iterdir()) == []
    inspector = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(inspector, 0)


@pytest.mark.parametrize("option", [(), ("--leaks",)])
def test_a_command_ends_by_the_signals_that_end_it(
    arenadump: harness.Arenadump, tmp_path: Path, option: tuple[str, ...]
) -> None:
    """Python ignores SIGPIPE and SIGXFSZ; what the caller ignores stays so."""
    large = "dd if=/dev/zero of=large bs=1024 count=100 2>/dev/null; echo $?; exit"
    command = ["sh", "-c", f"grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -f 8; {large}"]
    alone = subprocess.run(
        [*IGNORING, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert alone.stdout.splitlines()[-1] == str(128 + signal.SIGXFSZ)
    found = re.search(r"SigIgn:\s+([0-9a-f]+)", alone.stdout)
    ignored = 1 << signal.SIGHUP - 1 | 1 << signal.SIGUSR1 - 1  # and what who runs the tests ignores
    assert found
    assert int(found[1], 16) & ignored == ignored
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve())}
    run = [*IGNORING, sys.executable, "-m", "arenascope", "run", *option, "--", *command]
    ours = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert ours.stdout == alone.stdout, ours.stderr


# A caller that ignores SIGHUP, as nohup does, and SIGUSR1.
IGNORING = ["sh", "-c", 'trap "" HUP USR1; exec "$@"', "sh"]


def test_told_to_go_while_it_starts(tmp_path: Path) -> None:
    """Whoever is started goes with us, known already or not."""
    program = tmp_path / "arenadump"
    program.write_text(f"#!/bin/sh\nkill -TERM $PPID\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    for _ in range(6):
        (tmp_path / "pid").unlink(missing_ok=True)
        assert arenascope("summary", "1", arenadump=program).returncode == 128 + signal.SIGTERM
        time.sleep(0.05)  # for one that is left to say so
        with suppress(FileNotFoundError):
            said = (tmp_path / "pid").read_text()  # nothing where it was ended in the middle of saying so
            assert not said or not Path(f"/proc/{said.strip()}").exists()


def test_a_reader_that_goes_away(synthetic_dump: Path) -> None:
    command = '"$0" -m arenascope summary --json "$1" | true; exit ${PIPESTATUS[0]}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, synthetic_dump], capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, -13, 141}
    assert done.stderr == ""


def test_output_that_cannot_be_written(synthetic_dump: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = arenascope(
            "summary", "--json", synthetic_dump, capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == Code.IO
    assert "No space left" in done.stderr
