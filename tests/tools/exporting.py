# SPDX-License-Identifier: MIT
"""An exporter that serves, its page, and Debian's Prometheus with the configuration of docs/live.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from . import harness, serve_each
from .paths import ROOT

DOCS = ROOT / "docs"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "live.md").read_text(), re.MULTILINE | re.DOTALL)
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


# An arenadump of which the tests can have each call, or those of one command, fail or wait.
STALLS = """#!/bin/bash
{serve}[[ $1 == {command} ]] || exec "{program}" "$@"
[[ ! -e {folder}/fail ]] || {{ echo "arenadump: no right to inspect" >&2; exit 4; }}
if [[ -e {folder}/stall ]]; then
    touch {folder}/stalled
    while [[ -e {folder}/stall ]]; do sleep 0.05; done
fi
exec "{program}" "$@"
"""


def failing(folder: Path, command: str = "*") -> Path:
    """It fails while there is a file "fail"; while there is "stall", it makes "stalled", and waits."""
    script = folder / "stalls"
    program = harness.arenadump_path().resolve()
    script.write_text(STALLS.format(serve=serve_each.line_for(script), folder=folder, program=program, command=command))
    script.chmod(0o755)
    return script


class Exporter:
    """One that serves."""

    def __init__(self, child: subprocess.Popen[str], said: str) -> None:
        self.child = child
        self.url = said.rpartition(" ")[2].strip()
        self.port = urllib.parse.urlsplit(self.url).port or 0

    def get(self, accept: dict[str, str], timeout: float = 120) -> tuple[str, str]:
        request = urllib.request.Request(self.url, headers=accept)
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def scrape(self, timeout: float = 120) -> dict[str, Metric]:
        kind, text = self.get(OPEN_METRICS, timeout)
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        return {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]

    def after_poll(self, number: int = 1) -> dict[str, Metric]:
        """The page after so many polls."""
        end = time.monotonic() + 240
        while value(page := self.scrape(), "arenascope_exporter_polls") < number:
            assert time.monotonic() < end
            time.sleep(0.05)
        return page


# The same program, whose turns follow one another as fast as they can, whatever they cost.
EAGER = "from arenascope.exporter import poller; poller.SHARE = 1e6; from arenascope.cli.main import run; run()"


@contextmanager
def exporting(
    *arguments: object, every: str = "1h", program: Path | None = None, eager: bool = False
) -> Iterator[Exporter]:
    words = ["exporter", "--listen=127.0.0.1:0", f"--every={every}", *map(str, arguments)]
    env = {**os.environ, "ARENASCOPE_ARENADUMP": str(program or harness.arenadump_path().resolve())}
    command = [sys.executable, *(["-c", EAGER] if eager else ["-m", "arenascope"]), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as child:
        try:
            assert child.stderr
            said = child.stderr.readline()
            assert "serving http://127.0.0.1:" in said, said + child.stderr.read()
            yield Exporter(child, said)
        finally:
            child.terminate()
            assert child.wait(60) == 0


def samples(page: dict[str, Metric], name: str, **labels: object) -> dict[tuple[str, ...], float]:
    """Values by the labels that are not given."""
    wanted = {label: str(each) for label, each in labels.items()}
    ours = [each for each in page[name].samples if wanted.items() <= each.labels.items()]
    return {tuple(text for label, text in each.labels.items() if label not in wanted): each.value for each in ours}


def value(page: dict[str, Metric], name: str, **labels: object) -> float:
    (only,) = samples(page, name, **labels).values()
    return only


def of_process(page: dict[str, Metric], pid: int, name: str, label: str) -> dict[str, float]:
    found = [each for each in page[name].samples if each.labels["pid"] == str(pid)]
    return {each.labels[label]: each.value for each in found}


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[str]:
    """Debian's Prometheus with the documented configuration, scraping that port each second."""
    program = tool("prometheus")
    config = BLOCKS[0].replace("9764", str(port)).replace("30s", "1s")
    (folder / "prometheus.yml").write_text(config)
    (folder / "arenascope.rules").write_text(BLOCKS[1])
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log) as child,
    ):
        try:
            yield f"http://{address}"
        finally:
            child.terminate()


def answer(server: str, query: str) -> list[Any]:
    url = f"{server}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as got:
        made = json.load(got)
    assert made["status"] == "success", made
    found: list[Any] = made["data"]["result"]
    return found
