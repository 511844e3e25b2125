# SPDX-License-Identifier: MIT
"""What is below /usr/share: manual pages, made by help2man of --help; completions, by click; the docs, by sphinx."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arenascope.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(sys.executable).parent  # arenascope and arenadump, as they are installed beside this Python
SITE = Path(__file__).with_name("site")  # how sphinx makes the docs
COMPLETIONS = {
    "bash": "bash-completion/completions/arenascope",
    "zsh": "zsh/vendor-completions/_arenascope",
    "fish": "fish/vendor_completions.d/arenascope.fish",
}
SEE_ALSO = "[SEE ALSO]\n.BR arenascope (1),\n.BR arenadump (1),\n.BR arenascope (7)\n"
PROGRAM = "Where did the memory of a process on glibc go, and what will bring it back?"


def write(share: Path, version: str, notes: Path) -> None:
    """Make man/, doc/ and the folders of three shells in `share`; `notes` is docs/, whose *.7 are pages.

    All is the same for each $SOURCE_DATE_EPOCH. Raises CalledProcessError, where help2man or a program fails.
    """
    for name, help_line in commands():
        _page(share, f"{name.replace(' ', '-')}.1", _made(name, help_line.rstrip("."), version))
    _page(share, "arenadump.1", _made("arenadump", PROGRAM, version, _arenadumps_commands()))
    for page in notes.glob("*.7"):
        _page(share, page.name, page.read_text(encoding="utf-8"))
    for shell, path in COMPLETIONS.items():
        (share / path).parent.mkdir(parents=True)
        (share / path).write_text(_run("arenascope", _ARENASCOPE_COMPLETE=f"{shell}_source"), encoding="utf-8")
    site = share / "doc/arenascope/html"
    _run(sys.executable, "-m", "sphinx", "-q", "-W", "-E", "-b", "html", "-c", str(SITE), str(notes.parent), str(site))
    shutil.rmtree(site / ".doctrees")


def commands() -> Iterator[tuple[str, str]]:
    """Each command of arenascope, groups too, and what it does in a sentence."""
    yield "arenascope", (cli.help or "").partition("\n")[0]
    for name, place in COMMANDS.items():
        yield f"arenascope {name}", place.help
        command = cli.get_command(click.Context(cli), name)
        for each in command.commands.values() if isinstance(command, click.Group) else ():
            yield f"arenascope {name} {each.name}", each.get_short_help_str(200)


def _page(share: Path, name: str, text: str) -> None:
    path = share / "man" / f"man{name[-1]}" / f"{name}.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _made(name: str, help_line: str, version: str, more: str = "") -> str:
    """A page. click indents the description, which help2man takes for an example."""
    source = f"--version-string={version}"
    command = ("help2man", "--no-info", f"--name={help_line}", source, "--manual=arenascope", "--include=-", name)
    made = _run(*command, to=more + SEE_ALSO)
    page = name.replace(" ", "-")
    made = re.sub(r'^\.TH .* "1" ', f'.TH {page.upper()} "1" ', made, flags=re.MULTILINE)
    made = made.replace(rf"{name} \-", page.replace("-", r"\-") + r" \-", 1)
    return made.replace(".SH DESCRIPTION\n.IP\n", ".SH DESCRIPTION\n").replace(".IP\n", ".PP\n")


def _arenadumps_commands() -> str:
    """What `arenadump help COMMAND` prints of each, as a section for help2man."""
    names = re.findall(r"^  arenadump (\w+)  ", _run("arenadump", "--help"), re.MULTILINE)
    sections = []
    for name in names:
        usage, *text = re.split(
            r"^  (?=\S)", _run("arenadump", "help", name).partition("\ndocs/")[0], flags=re.MULTILINE
        )
        sections.append(f".SS {name}\n.nf\n{usage}.fi\n.PP\n{''.join(text)}")
    return "[COMMANDS]\n" + "\n".join(sections).replace("-", r"\-") + "\n"


def _run(*command: str, to: str = "", **environment: str) -> str:
    plain = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
    done = subprocess.run(
        command, input=to, env=os.environ | plain | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
