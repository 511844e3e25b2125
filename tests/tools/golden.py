# SPDX-License-Identifier: MIT
"""Makes the files of tests/golden, one of each format as it is today: `PYTHONPATH=tests python -m tools.golden`.

A file is made once, when its version is new, and then stays: that each later reader reads it is what test_golden.py
tests. So only those that are missing are made. The first argument is another directory for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from arenascope.timeline.columns import version
from arenascope.wire import dump_records as fmt

from . import programs, synthetic_dump
from .paths import ROOT

GOLDEN = ROOT / "tests" / "golden"
# Keeps blocks of one size and frees those of another; then it waits for its standard input to close.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static void *volatile kept[100];
int main(void)
{
    for (int i = 0; i < 100; i++)
        kept[i] = malloc(1000);
    for (int i = 0; i < 50; i++)
        free(malloc(3000));
    puts("done");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
"""
KEPT, KEPT_SIZE, FREED, FREED_SIZE = 100, 1000, 50, 3000
SNAPSHOTS = 2  # of the timeline, at least


def dump_name() -> str:
    return f"dump-{fmt.MAJOR}.{fmt.MINOR}"


def trace_name() -> str:
    found = re.search(r"AS_TRACE_VERSION = (\d+)", (ROOT / "inspector/trace/format.h").read_text())
    assert found
    return f"trace-{found[1]}"


def timeline_name() -> str:
    return f"timeline-{version()}"


def make_dump(path: Path) -> None:
    """One with records in every section."""
    synthetic_dump.write(path, synthetic_dump.everything())


def make_trace(path: Path, program: Path) -> None:
    """The file names the agent, too: a copy of it beside the program."""
    command = [sys.executable, "-m", "arenascope", "agent-path"]
    agent = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    copy = shutil.copy(agent, program.parent)
    environment = {**os.environ, "LD_PRELOAD": str(copy), "ARENASCOPE_PROFILE_TRACE": str(path)}
    subprocess.run([program], env=environment, stdin=subprocess.DEVNULL, check=True)


def make_timeline(path: Path, program: Path) -> None:
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        command = [sys.executable, "-m", "arenascope", "watch", str(process.pid), "-o", str(path), "--every", "1s"]
        watch = subprocess.Popen([*command, "--for", "20s"])
        assert watch.wait() == 0
        process.communicate()


def main(folder: Path) -> None:
    """Make those that are missing."""
    folder.mkdir(exist_ok=True)
    home = Path(tempfile.gettempdir()) / "arenascope-golden"  # which the files name
    home.mkdir(exist_ok=True)
    program = programs.build(SOURCE, "-O0", "-fno-builtin", at=home / "allocates")
    os.chdir(home)
    makers: dict[str, Callable[[Path], None]] = {
        dump_name(): make_dump,
        trace_name(): lambda path: make_trace(path, program),
        timeline_name(): lambda path: make_timeline(path, program),
    }
    for name, make in makers.items():
        if not (folder / name).exists():
            make(folder / name)
            print(f"{name}: {(folder / name).stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else GOLDEN)
