# SPDX-License-Identifier: MIT
"""A snapshot of a target that may be damaged, or hostile: within bounds of time and memory, with a documented end."""

from __future__ import annotations

import functools
import resource
import subprocess
import tempfile
from pathlib import Path

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

from . import harness, programs

TIMES = 60  # as much of a processor as an honest heap takes; the worst of tests/programs/trap.c takes 21 times as much
TIMEOUT = 600  # seconds, for what never ends
MEMORY = 1 << 30  # bytes of address space
EXIT_CODES = {0, 5, 6, 9, 10}  # docs/user-guide.md; never a signal, never 1 (a bug of ours)
GIVEN_UP = "before all of it was read"  # with exit code 4: a freeze that would have lasted too long
DOUBTS = {
    fmt.WarningCode.CORRUPT,
    fmt.WarningCode.TCACHE,
    fmt.WarningCode.MMAPPED,
    fmt.WarningCode.SUM,
    fmt.WarningCode.LAYOUT,
    fmt.WarningCode.LOCKED,
    fmt.WarningCode.ALLOCATOR,
    fmt.WarningCode.ESTIMATED,
}
OPTIONS = ("--threads", "6", "--seed", "5", "--slots", "16384", "--operations", "60000", "--biggest-log2", "18")


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@functools.cache
def honest_seconds(arenadump: Path) -> float:
    """What a dump of an honest heap of 8 million chunks (256 MiB) takes here, now, by this arenadump."""
    honest = [str(programs.build("trap", "-lpthread")), "honest"]
    with tempfile.TemporaryDirectory() as scratch, subprocess.Popen(honest, stdout=subprocess.PIPE) as trap:
        try:
            assert trap.stdout
            assert trap.stdout.readline() == b"ready\n"
            before = processor_seconds()
            command = [str(arenadump), "dump", "--chunks", "-o", f"{scratch}/honest.dump", str(trap.pid)]
            subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT)
            return processor_seconds() - before
        finally:
            trap.kill()


def take_snapshot(
    arenadump: harness.Arenadump, target: int | Path, scratch: Path, memory: int | None, *options: str
) -> Dump | None:
    """The dump of a target, made within the bounds; None where the inspector said why there is none."""
    output = scratch / "snapshot.dump"
    most = TIMES * honest_seconds(arenadump.path)
    limit = "unlimited" if memory is None else memory
    command = ["prlimit", f"--as={limit}", "--core=0", str(arenadump.path), "dump", "--chunks", "-o", str(output)]
    before = processor_seconds()
    done = subprocess.run(
        [*command, *options, str(target)], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    seconds = processor_seconds() - before  # not the clock's: that of other tests' work must not count
    known = done.returncode in EXIT_CODES or (done.returncode == 4 and GIVEN_UP in done.stderr)
    assert known, f"ended with {done.returncode}: {done.stderr}"
    assert seconds < most, f"took {seconds:.1f} s of a processor, the most is {most:.1f} s"
    if done.returncode != 0:
        assert done.stderr.startswith("arenadump: ")
        return None
    return Dump(output)


def is_sure(dump: Dump) -> bool:
    """True if the dump claims that what it says of malloc is the whole truth (residency apart)."""
    codes = {int(warning["code"]) for warning in dump.warnings}
    exact = bool(int(dump.meta["flags"]) & fmt.MetaFlag.EXACT)
    sure = int(dump.meta["torn_chunks"]) == 0 and not codes & DOUBTS
    assert sure or not exact
    return sure
