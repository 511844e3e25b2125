# SPDX-License-Identifier: MIT
"""The `arenascope` command as people run it: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console
from tools import harness, programs
from tools import synthetic_dump as synthetic
from tools.command import PARK, arenascope, here
from tools.paths import ROOT
from tools.running import started

from arenascope.cli.main import COMMANDS, HARMLESS, cli
from arenascope.errors import Code
from arenascope.render.summary import render_summary
from arenascope.rows import RESIDENT
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.json_decode import answer
from arenascope.wire.summary import SCHEMA, Summary, document_of


@pytest.fixture(scope="module")
def parked() -> Iterator[int]:
    """The PID of a Python that waits."""
    with started([sys.executable, "-c", PARK], ".") as pid:
        yield pid


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
    theirs = json.loads(arenadump.check("summary", "--json", path))
    for ours, judged in zip_longest(summary.pop("findings"), theirs.pop("findings")):
        assert (ours["rule"], ours["sentence"]) == (judged["rule"], judged["sentence"])
    assert summary == theirs, "arenadump computes it, nobody else"
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


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_names_the_page_of_hazards(name: str) -> None:
    """The help of each command that touches a process, and the page names that command."""
    page = (ROOT / "docs/hazards.md").read_text()
    shown = CliRunner().invoke(cli, [name, "--help"]).output
    assert ("docs/hazards.md" in shown) == (name not in HARMLESS)
    assert f"`{name}" in page or name in HARMLESS


def test_the_docs_have_every_option_and_no_other() -> None:
    answer = {word for page in (ROOT / "docs").glob("*.md") for word in re.findall(r"`(--[a-z-]+)", page.read_text())}
    ours = {option for option in _options(cli) if option.startswith("--")}
    source = (ROOT / "inspector/cli/options.c").read_text()
    theirs = {f"--{name}" for name in re.findall(r'\{"([a-z-]+)", (?:0|AS_OPTION_)', source)}
    other_programs = {
        "--cap-add",
        "--compress-debug-sections",
        "--heapsnapshot-signal",
        "--page",
        "--sparse",
        "--tier",
        "--with-jemalloc",
    }
    assert ours - answer - {"--help"} == set()
    assert answer - ours - theirs - other_programs == set()


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each
            yield from _options(each)


def test_an_unknown_command() -> None:
    done = here("reprot")
    assert done.returncode == Code.USAGE
    assert "No such command 'reprot'" in done.stderr


@pytest.mark.parametrize("command", ["trim", "inject"])
def test_how_long_a_thread_is_searched_for(arenadump: harness.Arenadump, parked: int, command: str) -> None:
    done = here(command, "--timeout", "soon", parked, arenadump=arenadump.path)
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
    ("arguments", "code", "says"),
    [
        (["--trim", "evrey=1s", "touch", "ran"], Code.USAGE, "--trim: 'evrey=1s' is not one of every, min, percent"),
        (["--signal", "USER2", "touch", "ran"], Code.USAGE, "--signal: 'USER2' is not a signal"),
        (["--trim", "every=1h,deep", "--signal", "RTMIN+3", "touch", "ran"], Code.OK, ""),
        (["--trace", "", "touch", "ran"], Code.USAGE, "--trace is empty"),
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
    program = programs.build("int main(void) { return 0; }\n", *flags)
    done = arenascope("run", "--profile", program, arenadump=arenadump.path.resolve(), cwd=tmp_path)
    assert done.returncode == 0
    static = f"arenascope: {program} is a static program: no loader preloads anything into it\n"
    assert done.stderr == (static if flags else "")


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
    made["totals"][0]["chunks"]["in_use"] = (1234, 5 << 20)
    done = arenascope("summary", synthetic.write(tmp_path / "dump", made))
    assert done.returncode == 0, done.stderr
    assert "is unknown" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("in use"))
    assert line.split() == ["in", "use", "1,234", "5.0", "MiB"]
