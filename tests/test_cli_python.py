# SPDX-License-Identifier: MIT
"""The `arenascope` command as people run it: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
import synthetic_dump as synthetic
from rich.console import Console
from tools import harness

from arenascope import format as fmt
from arenascope import text
from arenascope.cli.main import COMMANDS, cli
from arenascope.decode import answer
from arenascope.doctor import software
from arenascope.doctor.check import Status
from arenascope.dump import Dump
from arenascope.errors import Code
from arenascope.render.summary import render_summary
from arenascope.rows import RESIDENT
from arenascope.summary import SCHEMA, Summary, document_of
from arenascope.timeline.store import is_timeline

ROOT = Path(__file__).resolve().parents[1]
PARK = "import sys; print('.', flush=True); sys.stdin.read()"


def arenascope(
    *arguments: object, arenadump: Path | str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"}
    if arenadump:
        environment["ARENASCOPE_ARENADUMP"] = str(arenadump)
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment, **options}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **options)
    return done


@pytest.fixture(scope="module")
def parked() -> Iterator[int]:
    """The PID of a Python that waits."""
    with subprocess.Popen([sys.executable, "-c", PARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        yield child.pid


@pytest.fixture
def synthetic_dump(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "synthetic.dump", synthetic.sections())


def test_summary_of_a_process(arenadump: harness.Arenadump, parked: int) -> None:
    done = arenascope("summary", parked, arenadump=arenadump.path)
    assert done.returncode == 0, done.stderr
    for words in (str(parked), "Rss", "in use", "files", "malloc_trim(0)", "main arena"):
        assert words in done.stdout


def test_json_of_a_process_sums_to_rss(arenadump: harness.Arenadump, parked: int) -> None:
    done = arenascope("summary", "--json", parked, arenadump=arenadump.path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["target"]["kind"] == "process"
    assert summary["target"]["dump_of"] is None
    assert summary["target"]["pid"] == parked
    assert sum(summary["ledger"].values()) == summary["kernel"]["rss"]


def test_nothing_is_left_behind(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    assert arenascope("summary", parked, env=environment).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_dump_then_summary(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    done = arenascope("dump", parked, "-o", path, "--chunks", arenadump=arenadump.path)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    printed = arenascope("summary", "--json", path, arenadump=arenadump.path).stdout
    summary = json.loads(printed)
    assert isinstance(summary.pop("findings"), list)
    assert summary == json.loads(arenadump.check("summary", "--json", path)), "arenadump computes it, nobody else"
    made_up = arenascope("summary", "--json", path, arenadump="/bin/true")
    assert made_up.returncode == Code.INTERNAL, "what is no summary is not shown as one"
    assert "printed no summary" in made_up.stderr
    assert summary["target"]["kind"] == "dump"
    assert summary["target"]["dump_of"] == "process"
    assert summary["target"]["pid"] == parked


def test_errors_have_the_exit_codes_of_the_guide(arenadump: harness.Arenadump, parked: int, tmp_path: Path) -> None:
    garbage, link = tmp_path / "garbage", tmp_path / "link"
    garbage.write_bytes(b"nonsense" * 1000)
    link.symlink_to(garbage)
    liar = tmp_path / "liar"
    liar.write_bytes(fmt.MAGIC + bytes(5000))
    cases: list[tuple[tuple[object, ...], Code]] = [
        (("summary",), Code.USAGE),
        (("summary", "--nonsense", parked), Code.USAGE),
        (("dump", parked), Code.USAGE),
        (("summary", 2**22 + 1), Code.NO_TARGET),
        (("summary", tmp_path / "missing"), Code.NO_TARGET),
        (("summary", garbage), Code.BAD_INPUT),
        (("summary", liar), Code.BAD_INPUT),
        (("dump", parked, "-o", link), Code.IO),
        (("dump", parked, "-o", tmp_path / "no" / "folder"), Code.IO),
    ]
    for arguments, code in cases:
        done = arenascope(*arguments, arenadump=arenadump.path)
        assert done.returncode == code, (arguments, done.stderr)
        assert done.stdout == ""
        assert done.stderr.strip()
        assert "Traceback" not in done.stderr
    assert garbage.read_bytes() == b"nonsense" * 1000


@pytest.mark.parametrize("group", [(), ("experiment",), ("timeline",)])
def test_help_is_whole_in_80_columns(group: tuple[str, ...]) -> None:
    done = arenascope(*group, "--help", env={**os.environ, "COLUMNS": "80"})
    commands = done.stdout.partition("Commands:\n")[2].splitlines()
    assert len(commands) >= 2
    assert not [line for line in commands if line.endswith("...") or len(line) > 80]


def test_the_docs_have_every_option_and_no_other() -> None:
    told = {word for page in (ROOT / "docs").glob("*.md") for word in re.findall(r"`(--[a-z-]+)", page.read_text())}
    ours = {option for option in _options(cli) if option.startswith("--")}
    source = (ROOT / "inspector/cli/options.c").read_text()
    theirs = {f"--{name}" for name in re.findall(r'\{"([a-z-]+)", (?:no|required)_argument', source)}
    other_programs = {"--cap-add", "--compress-debug-sections", "--heapsnapshot-signal", "--sparse", "--with-jemalloc"}
    assert ours - told - {"--help"} == set()
    assert told - ours - theirs - other_programs == set()


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each
            yield from _options(each)


def _modules(*arguments: str) -> set[str]:
    """What a command has loaded when it ends."""
    code = "import sys; from arenascope.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "wanted"), [(["--version"], set()), (["why", "--help"], {"arenascope.cli.graph"})]
)
def test_a_command_loads_no_other_one(arguments: list[str], wanted: set[str]) -> None:
    assert _modules(*arguments) & {f"arenascope.cli.{place.partition(':')[0]}" for place in COMMANDS.values()} == wanted


@pytest.mark.parametrize("command", ["summary", "profile", "trim", "types", "leaks", "run", "inject"])
def test_a_command_that_reads_no_dump_loads_no_numpy(command: str) -> None:
    """It would take as long to load as all else of theirs."""
    loaded = _modules(command, "--help")
    assert "numpy" not in loaded
    assert command != "run" or "rich" not in loaded


def test_the_version_where_nothing_is_installed(tmp_path: Path) -> None:
    """A source tree, and click: --version needs nothing else."""
    (tmp_path / "click").symlink_to(Path(click.__file__).parent)
    (tmp_path / "arenascope").symlink_to(ROOT / "visualize/arenascope")
    done = subprocess.run(
        [sys.executable, "-S", "-m", "arenascope", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "arenascope 0+uninstalled\n", "")


def test_an_unknown_command() -> None:
    done = arenascope("reprot")
    assert done.returncode == Code.USAGE
    assert "No such command 'reprot'" in done.stderr


@pytest.mark.parametrize("command", ["trim", "inject"])
def test_how_long_a_thread_is_looked_for(arenadump: harness.Arenadump, parked: int, command: str) -> None:
    done = arenascope(command, "--timeout", "soon", parked, arenadump=arenadump.path)
    assert done.returncode == Code.USAGE
    assert "--timeout 'soon': give a time" in done.stderr


def test_an_arenadump_that_fails_oddly(tmp_path: Path) -> None:
    """Its exit code and words come through; a signal is 128 and more; none at all is said in words."""
    program = tmp_path / "arenadump"
    cases = {
        "exit 7": (7, "exit code 7"),
        "echo 'arenadump: gone \033[31m' >&2; exit 7": (7, "arenascope: gone \\x1b[31m"),
        "kill -9 $$": (137, "signal 9"),
        "exit 0": (Code.INTERNAL, "printed no summary"),
    }
    for script, (code, words) in cases.items():
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        done = arenascope("summary", "1", arenadump=program)
        assert done.returncode == code, script
        assert words in done.stderr, script
    done = arenascope("summary", "1", arenadump=tmp_path / "missing")
    assert done.returncode == Code.USAGE
    assert "ARENASCOPE_ARENADUMP" in done.stderr


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
    """What it would say is lost where the log's disk is full; it goes on looking, and the timeline is whole."""
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


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--trim", "evrey=1s", "touch", "ran"], Code.USAGE, "--trim: 'evrey=1s' is not one of every, min, percent"),
        (["--signal", "USER2", "touch", "ran"], Code.USAGE, "--signal: 'USER2' is not a signal"),
        (["--trim", "every=1h,deep", "--signal", "RTMIN+3", "touch", "ran"], Code.OK, ""),
        (["--record", "", "touch", "ran"], Code.USAGE, "--record is empty"),
        (["--rates=", "touch", "ran"], Code.USAGE, "--rates is empty"),
        (["--dump-at", "", "touch", "ran"], Code.USAGE, "--dump-at is empty"),
        (["./nothing"], 127, "./nothing: no such program"),
        (["./\x1b[31m"], 127, "./\\x1b[31m: no such program"),
        (["./text"], 126, "./text: not a program"),
    ],
)
def test_what_is_run_and_what_is_refused(
    arenadump: harness.Arenadump, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    (tmp_path / "text").touch()
    done = arenascope("run", *arguments, arenadump=arenadump.path.resolve(), cwd=tmp_path)
    assert done.returncode == code
    assert says in done.stderr
    assert (tmp_path / "ran").exists() == (code == Code.OK)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tops", "1"], "No such command 'tops'"),
        (["server", "--for", "1s", "-o", "out"], "No such command 'server'"),
        (["list", "", "1"], "FUNCTION is empty"),
        (["1"], "give -o FILE, for the dump that has the profile"),
        (["--for", "1s", "1"], "give -o FILE, for the dump that has the profile"),
    ],
)
def test_a_profile_of_nothing(arenadump: harness.Arenadump, words: list[str], says: str) -> None:
    """A word that is no command is no process either: a process has a number."""
    done = arenascope("profile", *words, arenadump=arenadump.path)
    assert done.returncode == Code.USAGE
    assert f"Error: {says}" in done.stderr


@pytest.mark.parametrize("flags", [(), ("-static",), ("-static-pie",)])
def test_a_static_program_has_no_agent(arenadump: harness.Arenadump, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Nothing would be recorded, and nobody would know."""
    program = tmp_path / "program"
    subprocess.run(["gcc", *flags, "-xc", "-", "-o", program], input=b"int main(void) { return 0; }", check=True)
    done = arenascope("run", "--profile", program, arenadump=arenadump.path.resolve(), cwd=tmp_path)
    assert done.returncode == 0
    static = f"arenascope: {program} is a static program: no loader preloads anything into it\n"
    assert done.stderr == (static if flags else "")


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


def test_json_cannot_command_the_terminal_either(arenadump: harness.Arenadump) -> None:
    """Control characters of eight bits, and what turns the direction of writing: escaped, and still what they are."""
    said = "\x9b31m \u202e \u2028 \x7f\x1b é"
    with subprocess.Popen([sys.executable, "-c", PARK, said], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        own = arenascope("summary", "--json", child.pid, arenadump=arenadump.path)
        theirs = arenadump.check("summary", "--json", child.pid)
    for printed in (own.stdout, theirs):
        assert json.loads(printed)["target"]["cmdline"].endswith(said)
        assert [c for c in printed if not c.isprintable() and c != "\n"] == []
        assert "é" in printed


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


def test_a_number_is_a_pid_and_a_path_is_a_file(synthetic_dump: Path) -> None:
    numbered = synthetic_dump.rename(synthetic_dump.parent / "123")
    folder = numbered.parent
    assert arenascope("summary", "./123", cwd=folder).returncode == 0
    assert "synthetic" not in arenascope("summary", "123", cwd=folder).stdout


def test_names_cannot_command_the_terminal(synthetic_dump: Path) -> None:
    done = arenascope("summary", synthetic_dump)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "synth\\x1b[31m" in done.stdout


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_terminal_gets_whole_numbers(synthetic_dump: Path, width: int) -> None:
    summary = document_of(Dump(synthetic_dump))
    held = 1023 << 10
    ledger = dict.fromkeys(summary["arenas"][0]["ledger"], held)
    thread = summary["arenas"][0]["threads"][0]
    threads = [{**thread, "tid": 4194304 + index, "name": "fifteen letters"} for index in range(7)]
    arena = {
        **summary["arenas"][0],
        "name": "arena 9",
        "main": False,
        "address": "0x7f8dc0000030",
        "ledger": ledger,
        "threads": threads,
    }
    summary["arenas"] = [arena] * 6
    summary["ledger"] = dict.fromkeys(summary["ledger"], held)
    console = Console(width=width)
    with console.capture() as shown:
        console.print(render_summary(answer(Summary, summary, SCHEMA)))
    lines = shown.get()
    assert "…" not in lines
    assert max(map(len, lines.splitlines())) <= width
    assert lines.count("1023.0 KiB") >= len(RESIDENT) + 5 * 4, "of each row, and of each arena shown"
    assert lines.count("4194309") == 5, "the threads of each"
    table = lines[lines.index("What holds it") : lines.index("Not in Rss")]
    assert len(table.splitlines()) == 3 + len(RESIDENT), "a line each"


def test_unknown_is_never_shown_as_zero(tmp_path: Path) -> None:
    made = synthetic.sections()
    ledger = made["totals"][0]["ledger"]
    ledger["stranded"] = ledger["returned"] = made["arenas"][0]["ledger"]["stranded"] = fmt.UNKNOWN
    made["meta"][0]["rss"] = fmt.UNKNOWN
    done = arenascope("summary", synthetic.write(tmp_path / "dump", made))
    assert "Rss unknown" in done.stdout
    lines = {line.split("  ")[0].strip(): line for line in done.stdout.splitlines()}
    assert "unknown" in lines["stranded"]
    assert "unknown" in lines["a deep trim adds"]
    assert "unknown returned" in done.stdout
    assert lines["main arena"].split()[-3] == "unknown"


def test_without_residency_the_chunks_are_shown(tmp_path: Path) -> None:
    made = synthetic.sections()
    for row in fmt.LEDGER_ROWS:
        made["totals"][0]["ledger"][row] = fmt.UNKNOWN
    made["meta"][0]["later_rows"] = fmt.UNKNOWN
    made["totals"][0]["chunks"]["in_use"] = (1234, 5 << 20)
    done = arenascope("summary", synthetic.write(tmp_path / "dump", made))
    assert done.returncode == 0, done.stderr
    assert "is unknown" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("in use"))
    assert line.split() == ["in", "use", "1,234", "5.0", "MiB"]


def test_a_reader_that_goes_away(synthetic_dump: Path) -> None:
    command = f"{sys.executable} -m arenascope summary --json {synthetic_dump} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode in {0, -13, 141}
    assert done.stderr == ""


def test_output_that_cannot_be_written(synthetic_dump: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = arenascope(
            "summary", "--json", synthetic_dump, capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == Code.IO
    assert "No space left" in done.stderr


def test_doctor(arenadump: harness.Arenadump) -> None:
    done = arenascope("doctor", "--json", arenadump=arenadump.path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "arenascope.doctor/1"
    assert report["ok"] is True
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["inspection"]["status"] == "ok", checks["inspection"]
    assert checks["libc"]["status"] == "ok", checks["libc"]
    assert {check["status"] for check in report["checks"]} <= {"ok", "limited", "missing"}
    lines = arenascope("doctor", arenadump=arenadump.path).stdout.splitlines()
    assert sum(line.startswith(("ok ", "limited ", "missing ")) for line in lines) == len(checks)


@pytest.mark.parametrize(
    ("words", "processor", "status"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1", "amx", Status.LIMITED),
        ("GNU gdb (Debian 13.1-3) 13.1", "avx", Status.OK),
        ("GNU gdb (Debian 16.3-1) 16.3", "amx", Status.OK),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 10.2-13.el9", "amx", Status.LIMITED),
        ("GNU gdb (GDB; openSUSE Tumbleweed) 14.2", "amx", Status.OK),
        ("", "amx", Status.LIMITED),
    ],
)
def test_doctor_tells_which_gdb_can_load_the_agent(words: str, processor: str, status: Status) -> None:
    check = software.judge_gdb("/usr/bin/gdb", software.gdb_version(words), amx=processor == "amx")
    assert check.status is status
    assert ("arenascope inject" in check.found) == (status is Status.LIMITED)


def test_doctor_without_arenadump(tmp_path: Path) -> None:
    done = arenascope("doctor", "--json", arenadump=tmp_path / "missing")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert report["checks"][0]["status"] == "missing"
    assert report["checks"][0]["fix"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (1536 << 20, "1.5 GiB"),
        (2**64 - 2, "16.0 EiB"),
        (-1023, "\N{MINUS SIGN}1023 B"),
        (-30240000, "\N{MINUS SIGN}28.8 MiB"),
        (None, "unknown"),
    ],
)
def test_sizes(number: int | None, shown: str) -> None:
    assert text.size(number) == shown
    assert text.signed(number) == (f"+{shown}" if number and number > 0 else shown)


def test_narrow_sizes() -> None:
    assert [text.compact(number) for number in (12_900_000, -12_900_000, -5, 0)] == [
        "12.3M",
        "\N{MINUS SIGN}12.3M",
        "\N{MINUS SIGN}5B",
        "0",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0009994, "999 µs"),
        (0.0009996, "1.0 ms"),
        (0.9994, "999.4 ms"),
        (0.99997, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1.0 min"),
        (3596, "59.9 min"),
        (3599, "1.0 h"),
        (4520, "1.3 h"),
    ],
)
def test_times_are_rounded_before_the_unit_is_chosen(seconds: float, shown: str) -> None:
    assert text.span(seconds) == shown
