# SPDX-License-Identifier: MIT
"""What InnoDB has mapped for itself in MariaDB, found from outside, held against the server's own variables."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import harness
from tools.bounded import MEMORY, take_snapshot
from tools.forged import named, running

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

PATIENCE = 180  # seconds
POOL, LOG = 40 << 20, 4 << 20
EXTENT, FORGED_LOG = 8 << 20, 1 << 20
FIRST_RELEASES = {(10, 6): 22, (10, 11): 12, (11, 4): 6, (11, 8): 2}  # that have the buffer pool in extents


def need_release() -> None:
    """Skips the test where no MariaDB is installed, or one whose buffer pool is built otherwise."""
    for name in ("mariadbd", "mariadb-install-db", "mariadb"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed (Debian: mariadb-server-core, mariadb-client-core)")
    said = subprocess.run(["mariadbd", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Ver (\d+)\.(\d+)\.(\d+)", said)
    assert found, said
    major, minor, patch = map(int, found.groups())
    if patch < FIRST_RELEASES.get((major, minor), 0) or (major, minor) < min(FIRST_RELEASES):
        pytest.skip(f"this MariaDB has its buffer pool in other structures: {said.strip()}")


@contextmanager
def mariadb(folder: Path, rows: int) -> Iterator[tuple[int, dict[str, int]]]:
    """The server's PID, and what it says of its sizes. It has a table of so many rows."""
    need_release()
    data, socket = folder / "data", folder / "socket"
    install = (
        "mariadb-install-db",
        "--no-defaults",
        f"--user={getpass.getuser()}",
        "--auth-root-authentication-method=normal",
    )
    subprocess.run([*install, f"--datadir={data}"], check=True, capture_output=True, timeout=PATIENCE)
    sizes = (f"--innodb-buffer-pool-size={POOL}", f"--innodb-log-buffer-size={LOG}")
    options = (
        "--no-defaults",
        f"--user={getpass.getuser()}",
        f"--datadir={data}",
        f"--socket={socket}",
        "--skip-networking",
        "--loose-innodb-log-file-mmap=OFF",  # since 10.11.10; a mapped log has no buffers
    )
    connect = ("mariadb", "--no-defaults", "--user=root", f"--socket={socket}", "-N", "-e")
    with subprocess.Popen(
        ["mariadbd", *options, *sizes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            until = time.monotonic() + PATIENCE
            ask = f"use test; create or replace table t engine=innodb as select seq, md5(seq) m from seq_1_to_{rows}"
            while subprocess.run([*connect, ask], check=False, capture_output=True).returncode:
                assert time.monotonic() < until, "mariadbd does not answer"
                time.sleep(0.3)
            said = subprocess.run([*connect, "show variables like 'innodb%size'"], capture_output=True, check=True)
            lines = (line.split() for line in said.stdout.decode().splitlines())
            yield server.pid, {line[0]: int(line[1]) for line in lines if len(line) > 1}
        finally:
            server.terminate()


@pytest.mark.parametrize("rows", [1, 50000])
def test_buffer_pool_and_log_are_what_the_server_says(rows: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """However far the buffers of the log are filled."""
    with mariadb(tmp_path, rows) as (pid, says):
        summary = arenadump.summary(pid)
    parts: dict[str, dict[str, Any]] = {each["part"]: each for each in summary["runtimes"]}
    assert {each["runtime"] for each in summary["runtimes"]} == {"innodb"}
    pool, log = parts["buffer pool"], parts["log buffers"]
    assert pool["size"] == pool["committed"] == says["innodb_buffer_pool_size"] == POOL
    assert log["size"] == log["committed"] == 2 * says["innodb_log_buffer_size"] == 2 * LOG
    assert f"pages of {says['innodb_page_size']} bytes" in pool["evidence"]
    ledger = summary["ledger"]
    assert ledger["other_malloc"] == pool["resident"] + log["resident"] > 1 << 20
    assert sum(ledger.values()) == summary["kernel"]["rss"]


# --- Memory that only resembles InnoDB's -----------------------------------------------------------------------------


def dump_of(kind: str, arenadump: harness.Arenadump, scratch: Path) -> Dump:
    with running(named("mariadbd", scratch, "forged_innodb"), kind) as pid:
        dump = take_snapshot(arenadump, pid, scratch, MEMORY)
    assert dump is not None
    assert sum(int(dump.totals["ledger"][row]) for row in fmt.LEDGER_ROWS) == int(dump.meta["rss"])
    return dump


def found(dump: Dump) -> dict[int, int]:
    """The bytes of the regions, by the record's kind."""
    return {
        int(record["kind"]): int(dump.regions["size"][dump.regions["runtime"] == index].sum())
        for index, record in enumerate(dump.runtimes)
    }


@pytest.mark.parametrize(
    ("kind", "pool", "log"),
    [
        ("innodb", 2 * EXTENT, 2 * FORGED_LOG),
        ("innodb-descriptor", EXTENT, 2 * FORGED_LOG),
        ("innodb-mark", 2 * EXTENT, 0),
        ("innodb-later", 2 * EXTENT, 2 * FORGED_LOG),
        ("innodb-size", 2 * EXTENT, 0),
        ("innodb-crossed", 2 * EXTENT, 0),
    ],
)
def test_only_what_fits_is_believed(
    kind: str, pool: int, log: int, arenadump: harness.Arenadump, tmp_path: Path
) -> None:
    expected = {fmt.RuntimeKind.INNODB_POOL: pool, fmt.RuntimeKind.INNODB_LOG: log}
    dump = dump_of(kind, arenadump, tmp_path)
    assert found(dump) == {int(part): size for part, size in expected.items() if size}
    assert int(dump.totals["ledger"]["other_malloc"]) >= log
