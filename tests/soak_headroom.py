# SPDX-License-Identifier: MIT
"""Looks at a process that writes all its memory and is near its cgroup's limit: counts processes that the kernel kills.

    .venv/bin/python tests/soak_headroom.py --looks 100 --headroom 1,5,10,20

Each look is at a target of its own. It counts targets killed, all kills of the kernel's in the cgroups (clones
included), looks that failed, and the modes of the answers. With --many N, N such targets are there at once (for top).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tools import exporting, harness, tight

RUN = [sys.executable, "-m", "arenascope"]
DUMP = str(harness.arenadump_path())
PYTHON = ("watch", "top", "exporter")


def look(command: str, pid: int, folder: Path) -> tuple[int, str, str]:
    """Looks once, in the given way: the exit code, the mode where the answer says it, and what it complains of."""
    if command == "exporter":
        with exporting.exporting(pid, eager=True) as exporter:
            exporter.after_turn()
        return 0, "", ""
    words = {
        "dump": [DUMP, "dump", "-o", str(folder / "dump")],
        "watch": [*RUN, "watch", "--every", "1s", "--for", "2s", "-o", str(folder / "timeline")],
        "top": [*RUN, "top", "--once", "--json"],
    }.get(command, [DUMP, command, "--json"])
    done = subprocess.run([*words, str(pid)], capture_output=True, text=True, timeout=600, check=False)
    mode = json.loads(done.stdout)["snapshot"]["mode"] if command == "summary" and done.returncode == 0 else ""
    return done.returncode, mode, done.stderr.strip()[:200]


def try_once(command: str, headroom: float, megabytes: int, many: int, counts: Counter[str]) -> None:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        groups = [tight.TightCgroup() for _ in range(many)]
        for group in groups:
            stack.enter_context(group)
        targets = [stack.enter_context(tight.running(group.path, megabytes)) for group in groups]
        for group in groups:
            group.leave(int(group.usage * headroom / 100))
        code, mode, said = look(command, targets[0].pid, folder)
        counts["looks"] += 1
        counts["failed"] += code != 0
        counts[f"mode {mode}"] += bool(mode)
        if code != 0:
            print(f"{command}: exit code {code}: {said}", flush=True)
        counts["targets killed"] += sum(target.poll() is not None for target in targets)
        counts["kernel kills"] += sum(group.kills() for group in groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--looks", type=int, default=25, help="of each command, at each headroom")
    parser.add_argument("--headroom", default="1,5,10,20", help="per cent of what is used")
    parser.add_argument("--commands", default="summary,owners,types,leaks,dump,watch,top,exporter")
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--many", type=int, default=1, help="targets at once")
    chosen = parser.parse_args()
    total: Counter[str] = Counter()
    for command in chosen.commands.split(","):
        for headroom in chosen.headroom.split(","):
            counts: Counter[str] = Counter()
            for _ in range(chosen.looks):
                try_once(command, float(headroom), chosen.megabytes, chosen.many, counts)
            print(f"{command} at {headroom} %: {dict(counts)}", flush=True)
            total.update(counts)
    print(f"all: { {name: total[name] for name in sorted(total)} }")
    sys.exit(1 if total["targets killed"] else 0)


if __name__ == "__main__":
    main()
