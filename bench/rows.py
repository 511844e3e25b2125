# SPDX-License-Identifier: MIT
"""Which rows hold the memory of well-known programs (`make bench`): starts each, fills it, inspects it.

    rows.py            all that are installed
    rows.py java node  these

Servers listen on sockets in a directory of their own, and use no network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from figures import ROOT, parser, write
from tools import marked

if TYPE_CHECKING:
    from collections.abc import Iterator

ARENADUMP = os.environ.get("ARENADUMP", str(ROOT / ".venv/bin/arenadump"))
HOLDS = ROOT / "tests/programs"
PATIENCE = 120  # seconds
LEAST = 0.005  # of Rss: rows that hold less are not printed
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]

PYTHON = "kept = [[i] for i in range(300_000)]; print('ready', flush=True); input()"
RUBY = "a = Array.new(300_000) { |i| 'x' * (i % 200) }; puts :ready; $stdout.flush; sleep; a"
NODE = (
    "const kept = []; for (let i = 0; i < 400000; i++) kept.push({x: i}); "
    "console.log('ready'); setInterval(() => kept, 9)"
)


class MissingError(Exception):
    """A program is not installed."""


def need(*names: str | Path) -> None:
    for name in names:
        if not shutil.which(name):
            raise MissingError(f"{name} is not installed")


@contextmanager
def running(*command: str | Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server, its output in a file `log`."""
    need(command[0])
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def await_that(what: str, *command: str | Path) -> str:
    """The output of a command as soon as it succeeds and prints something."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout
        time.sleep(0.2)
    raise MissingError(f"{what} did not answer: {done.stderr.strip()[-200:]}")


@contextmanager
def script(*command: str | Path, folder: Path) -> Iterator[int]:
    """An interpreter at work, when it has printed something."""
    with running(*command, folder=folder) as process:
        await_that(str(command[0]), "cat", folder / "log")
        yield process.pid


@contextmanager
def redis(folder: Path, *before: str) -> Iterator[int]:
    need("redis-server", "redis-cli")
    socket = folder / "socket"
    command: tuple[str | Path, ...] = (*before, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
    with running(*command, folder=folder) as server:
        await_that("redis", "redis-cli", "-s", socket, "ping")
        fill = "for i = 1, 300000 do redis.call('set', 'key' .. i, string.rep('x', 100)) end return 1"
        await_that("redis", "redis-cli", "-s", socket, "eval", fill, "0")
        yield server.pid


@contextmanager
def nginx(folder: Path) -> Iterator[int]:
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors; events {{}}\n"
        f"http {{ access_log off; server {{ listen unix:{folder}/socket; root {folder}; }} }}\n"
    )
    with running("nginx", "-c", folder / "nginx.conf", folder=folder) as server:
        await_that(
            "nginx", "curl", "-s", "--unix-socket", folder / "socket", "http://localhost/log", "-w", "%{http_code}"
        )
        yield server.pid


@contextmanager
def php_fpm(folder: Path) -> Iterator[int]:
    """The worker."""
    program = next(iter(sorted(Path("/usr/sbin").glob("php-fpm*"))), Path("php-fpm"))
    (folder / "fpm.conf").write_text(
        f"[global]\nerror_log = {folder}/errors\n[www]\nlisten = {folder}/socket\nuser = nobody\npm = static\n"
        "pm.max_children = 1\n"
    )
    with running(program, "-F", "-R", "-y", folder / "fpm.conf", folder=folder) as server:
        yield int(await_that("php-fpm", "pgrep", "-P", str(server.pid)))


@contextmanager
def postgres(folder: Path) -> Iterator[int]:
    """A backend that has sorted, and waits."""
    if not POSTGRES:
        raise MissingError("postgres is not installed")
    need("psql", "setpriv")
    data = folder / "data"
    own = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
    folder.chmod(0o755)
    data.mkdir()
    shutil.chown(data, "postgres")
    subprocess.run([*own, POSTGRES[0] / "initdb", "-A", "trust", "-D", data], check=True, capture_output=True, cwd="/")
    options = ("-D", data, "-k", data, "-h", "", "-c", "shared_buffers=64MB")
    with running(*own, POSTGRES[0] / "postgres", *options, folder=folder):
        connect = (*own, "psql", "-h", data, "-d", "postgres", "-At")
        await_that("postgres", *connect, "-c", "select 1")
        sql = (
            "set work_mem = '64MB'; begin; declare c cursor for select md5(g::text) m from generate_series(1, 300000) g"
            " order by m; fetch 1 from c; select pg_sleep(100)"
        )
        with subprocess.Popen([*connect, "-c", sql], stdout=subprocess.DEVNULL) as client:
            ask = "select pid from pg_stat_activity where wait_event = 'PgSleep'"
            yield int(await_that("postgres", *connect, "-c", ask))
            client.terminate()


@contextmanager
def mariadb(folder: Path) -> Iterator[int]:
    need("mariadbd", "mariadb-install-db", "mariadb")
    data, socket = folder / "data", folder / "socket"
    install = ("mariadb-install-db", "--no-defaults", "--user=root", "--auth-root-authentication-method=normal")
    subprocess.run([*install, f"--datadir={data}"], check=True, capture_output=True)
    options = ("--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}", "--skip-networking")
    with running("mariadbd", *options, folder=folder) as server:
        connect = ("mariadb", "--no-defaults", f"--socket={socket}", "-N", "-e")
        await_that("mariadb", *connect, "select 1")
        sql = "create table t engine=innodb as select seq, md5(seq) m from seq_1_to_200000; select count(m) from t"
        await_that("mariadb", *connect, f"use test; {sql}")
        yield server.pid


PROGRAMS = {
    "python3": lambda folder: script("python3", "-c", PYTHON, folder=folder),
    "ruby": lambda folder: script("ruby", "-e", RUBY, folder=folder),
    "java": lambda folder: script("java", "-Xmx512m", HOLDS / "java/Holds.java", "200", "60", folder=folder),
    "node": lambda folder: script("node", "-e", NODE, folder=folder),
    "php": lambda folder: script("php", HOLDS / "holds.php", folder=folder),
    "php-fpm": php_fpm,
    "redis-server": redis,
    "nginx": nginx,
    "postgres": postgres,
    "mariadbd": mariadb,
}


TABLE = marked.Table("bench", "rows", ("program", "Rss, MiB", "other_anon, %", "rows, % of Rss", "commit", "date"))


def row(summary: dict[str, Any]) -> tuple[str, ...]:
    """The rows by their share of Rss, largest first."""
    ledger, rss = summary["ledger"], summary["kernel"]["rss"]
    held = sorted(((bytes_ or 0, name) for name, bytes_ in ledger.items()), reverse=True)
    shares = ", ".join(f"{name} {100 * bytes_ / rss:.1f}" for bytes_, name in held if bytes_ >= LEAST * rss)
    other = "unknown" if ledger["other_anon"] is None else f"{100 * ledger['other_anon'] / rss:.1f}"
    return f"{rss / (1 << 20):.1f}", other, shares


def ask(words: list[str], pid: int) -> dict[str, Any]:
    """What arenadump says of a process."""
    done = subprocess.run([ARENADUMP, *words, "--json", str(pid)], capture_output=True, text=True, check=False)
    if not done.stdout:  # of a part of the memory there is an answer, and an exit code
        raise MissingError(done.stderr.strip())
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure(
    table: marked.Table, programs: dict[str, Any], words: list[str], cells: Callable[[dict[str, Any]], tuple[str, ...]]
) -> None:
    """Prints the row of each program that the command line names, and writes them into the page."""
    arguments = parser(__doc__)
    arguments.add_argument("programs", nargs="*", choices=[[], *programs], metavar="PROGRAM")
    options = arguments.parse_args()
    made = []
    for name in options.programs or programs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with programs[name](Path(folder)) as pid:
                    made.append(dict(zip(table.columns, (name, *cells(ask(words, pid))))))
            except MissingError as reason:
                print(f"{name}: {reason}", file=sys.stderr)
            else:
                print(" | ".join(made[-1].values()), flush=True)
    if options.page:
        write(options.page, table, made)


if __name__ == "__main__":
    measure(TABLE, PROGRAMS, ["summary"], row)
