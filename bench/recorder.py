# SPDX-License-Identifier: MIT
"""What the recorder costs programs that allocate a lot, beside other profilers; each malloc; memory (`make bench`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import profilers
from children import spent_by
from figures import ROOT, Figure, Limit, parser, publish

from arenascope.wire.agent import preloadable

if TYPE_CHECKING:
    from collections.abc import Iterator

SQL = """
create table t(a integer primary key, b text, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
  insert into t select i, hex(i * 7919), printf('%08d', i * 31 % 100003) from n;
create index x on t(c);
select count(*), sum(length(x.b)) from t x join t y on x.c = y.c where x.a < 60000;
select b, group_concat(c) from t group by a % 1000 order by 2 limit 3;
"""
FUNCTION = """
struct s%d { int a[%d]; double d; struct s%d *n; };
int f%d(struct s%d *p, int k)
{
    int t = %d;
    for (int j = 0; j < k; j++) {
        if (p->a[j %% 3] > t) t += p->a[0] * j;
        else if (j & 1) t ^= (int)p->d;
        else p = p->n ? p->n : p;
        switch (t %% 5) { case 0: t += __builtin_strlen("x%d"); break; case 3: t -= __builtin_abs(j); break; }
    }
    return t;
}
"""
MODES = {"agent, no profile": "0", "default rates": "1", "every chunk": "exact", "trace": "record"}
SLOW = 8  # times the program alone, more than heaptrack takes: a way that takes longer is not run again
TIMES = ("median", "p99", "p99.9", "mean")
SHARES = ("recorder_share", "tables_share")
SHARE_GOAL = 3  # per cent of Rss
# The goals are for the median of all programs' times beside the programs alone, and for a malloc.
GOALS = {"agent, no profile": 1.0, "default rates": 1.02, "every chunk": 1.15, "trace": 1.35}
MALLOC_GOALS = {("default rates", "p99.9"): 1.05}


def programs(folder: Path) -> dict[str, list[str]]:
    """Those that this machine has."""
    source = folder / "functions.c"
    source.write_text("".join(FUNCTION % (i, i % 7 + 3, i, i, i, i, i) for i in range(400)))
    loop = "for _ in range(40): kept = [{str(i): [i] * 5 for i in range(200)} for _ in range(200)]"
    python = os.path.realpath(sys.executable)
    commands = {
        "python3": ["env", "-u", "PYTHONMALLOC", python, "-c", loop],
        "python3, malloc": [python, "-c", loop],
        # Garbage is collected when the program says so. Ruby would do it 50 or 71 times, by what is on the C stack.
        "ruby": [
            "ruby",
            "-e",
            "GC.disable; 60.times { (1..40_000).map { |i| [i.to_s * 9, { i => 'x' * 50 }] }; GC.start }",
        ],
        "sort": ["bash", "-c", "seq 600000 | sort -R | sort > /dev/null"],
        "git": ["git", "-C", str(ROOT), "log", "--stat", "-n", "300"],
        "sqlite": ["sqlite3", ":memory:", SQL],
        "clang": ["clang", "-O1", "-S", "-o", os.devnull, str(source)],
    }
    return {name: command for name, command in commands.items() if shutil.which(command[0])}


def environment(library: Path, mode: str | None, record: Path) -> dict[str, str]:
    values = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    if mode is not None:
        values |= {"LD_PRELOAD": str(library), "ARENASCOPE_SIGNAL": "none"}
        values |= {"ARENASCOPE_PROFILE_TRACE": str(record)} if mode == "record" else {"ARENASCOPE_PROFILE": mode}
    return values


def environments(library: Path, output: Path) -> dict[str, dict[str, str]]:
    """Returns environments: plain, with each mode of the recorder, with other profilers, which write to `output`."""
    alone = environment(library, None, output)
    ours = {how: environment(library, mode, output / "record") for how, mode in MODES.items()}
    return {"plain": alone, **ours, **{how: alone | values for how, values in profilers.available(output).items()}}


@contextmanager
def directory(path: Path) -> Iterator[None]:
    """Exists meanwhile, for what one run writes."""
    path.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(path)


def measure(commands: dict[str, list[str]], library: Path, runs: int, folder: Path) -> dict[str, dict[str, float]]:
    """The least processor time of each program in each way; all in turn."""
    least: dict[str, dict[str, float]] = {name: {} for name in commands}
    output = folder / "output"
    ways = environments(library, output)
    for _ in range(runs):
        for name, command in commands.items():
            for how, values in ways.items():
                if how in least[name] and least[name][how] > SLOW * least[name]["plain"]:
                    continue
                with directory(output):
                    least[name][how] = min(spent_by(command, values), least[name].get(how, float("inf")))
    return least


def mallocs(program: Path, library: Path, runs: int, record: Path) -> dict[str, list[float]]:
    """The least of each of TIMES of one malloc, in nanoseconds; all ways in turn."""
    least: dict[str, list[float]] = {}
    for _ in range(runs):
        for how, mode in {"plain": None, **MODES}.items():
            values = environment(library, mode, record)
            done = subprocess.run([program], env=values, check=True, capture_output=True, text=True)
            record.unlink(missing_ok=True)
            figures = [float(word) for word in done.stdout.split()]
            least[how] = [min(pair) for pair in zip(figures, least.get(how, figures))]
    return least


def shares_of_memory(arenadump: Path, pid: int) -> dict[str, float]:
    """Returns shares of a process's Rss: the row `recorder`, and the unwinder's tables, files that processes share."""
    done = subprocess.run(
        [arenadump, "summary", str(pid), "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    answer = json.loads(done.stdout)
    smaps = Path(f"/proc/{pid}/smaps").read_text()
    if not smaps:
        raise ProcessLookupError(pid)
    tables = sum(
        int(line.split()[1]) * 1024
        for part in re.split(r"^(?=[0-9a-f]+-)", smaps, flags=re.MULTILINE)
        if re.search(r"\.unwind\d+$", part.partition("\n")[0])
        for line in part.splitlines()
        if line.startswith("Rss:")
    )
    rss = answer["kernel"]["rss"]
    return {"rss": rss, "recorder_share": answer["ledger"]["recorder"] / rss, "tables_share": tables / rss}


def memory(commands: dict[str, list[str]], library: Path, arenadump: Path) -> dict[str, dict[str, float]]:
    """Each program's shares at the default rates when its Rss was largest, of snapshots one after another."""
    largest: dict[str, dict[str, float]] = {}
    values = environment(library, MODES["default rates"], Path(os.devnull))
    for name, command in commands.items():
        with subprocess.Popen(command, env=values, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                try:
                    found = shares_of_memory(arenadump, process.pid)
                except (OSError, subprocess.CalledProcessError, TypeError):  # it begins, or ends
                    continue
                if found["rss"] >= largest.get(name, found)["rss"]:
                    largest[name] = found
    return largest


def figure_of_memory(name: str, how: str, found: dict[str, float]) -> Figure:
    """A program's, or a server's; the goal is that of the default rates."""
    recorder, tables = (100 * found[key] for key in SHARES)
    of = f"of {found['rss'] / 1e6:.3g} MB; the unwinder's tables {tables:.2g} %"
    limit = Limit(SHARE_GOAL, of, 1.0 if how == "default rates" else None)
    return Figure(f"{how}: {name}: recorder, of Rss", recorder, "%", limit)


def figures_of_time(least: dict[str, dict[str, float]]) -> list[Figure]:
    """Each way's median of all programs, with each program's."""
    figures = []
    for how in [*MODES, *profilers.LIBRARIES]:
        ratios = {name: taken[how] / taken["plain"] for name, taken in least.items() if how in taken}
        if ratios:
            limit = Limit(1, "the program alone", GOALS.get(how))
            each = "; ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
            what = f"{how}: the median of {' + '.join(ratios)}"
            figures.append(Figure(what, list(ratios.values()), "times", limit, f"({each})"))
    return figures


def figures_of_mallocs(times: dict[str, list[float]]) -> list[Figure]:
    """With the clock's own time."""
    return [
        Figure(f"{how}: {name} of a malloc", ours, "ns", Limit(plain, "plain", MALLOC_GOALS.get((how, name))))
        for how, figures in times.items()
        for name, ours, plain in zip(TIMES, figures, times["plain"])
    ]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--programs", help="of python3, ruby, sort, git, sqlite, clang; comma-separated")
    arguments.add_argument("--mallocs", action="store_true", help="only how long each malloc takes")
    arguments.add_argument(
        "--memory", action="store_true", help="only how much of a program's memory is the recorder's"
    )
    options = arguments.parse_args()
    library = preloadable(options.build.resolve() / "inspector/agent/libarenascope.so")
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm") as temporary:
        folder = Path(temporary)
        chosen = [] if options.mallocs else options.programs.split(",") if options.programs else None
        commands = {n: c for n, c in programs(folder).items() if chosen is None or n.split(",")[0] in chosen}
        if commands:
            largest = memory(commands, library, options.build.resolve() / "inspector/cli/arenadump")
            figures = (figure_of_memory(name, "default rates", found) for name, found in largest.items())
            publish(options.page, "memory", figures)
        if not options.memory:
            publish(options.page, "recorder", figures_of_time(measure(commands, library, options.runs, folder)))
            times = mallocs(options.build / "bench/malloc_times", library, options.runs, folder / "record")
            publish(options.page, "mallocs", figures_of_mallocs(times))


if __name__ == "__main__":
    main()
