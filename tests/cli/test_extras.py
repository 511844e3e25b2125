# SPDX-License-Identifier: MIT
"""A plain installation, without the extras: what works, and what says which command brings the rest."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tools import harness
from tools.command import PARK
from tools.paths import ROOT
from tools.plain import Plain, required

from arenascope.extras import EXTRAS


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    return Plain(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", PARK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.check
def test_the_extras_are_those_of_the_package() -> None:
    named: dict[str, dict[str, str]] = {}
    for line in required():
        requirement = Requirement(line)
        for extra in EXTRAS:
            if requirement.marker and requirement.marker.evaluate({"extra": extra}):
                named.setdefault(extra, {})[requirement.name] = f"{requirement.name}{requirement.specifier}"
    assert named == EXTRAS


@pytest.mark.check
def test_all_has_each_of_them() -> None:
    (every,) = re.findall(r'^all = \["arenascope\[([^\]]*)\]"\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert every.split(",") == list(EXTRAS)


def test_a_plain_installation_has_none_of_them(plain: Plain) -> None:
    there = {path.name for path in plain.folder.iterdir()}
    assert {"click", "rich", "numpy", "jinja2"} <= there
    assert not there & {module for modules in EXTRAS.values() for module in modules}


@pytest.mark.slow
def test_what_works_without_them(plain: Plain, pid: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    shown = ("summary", "owners", "types", "leaks")
    commands: list[tuple[object, ...]] = [("--help",), *((name, pid) for name in shown)]
    commands += [("trim", "--forecast", pid), ("top", "--once", pid), ("doctor",), ("experiment", "list")]
    commands += [("report", "-o", tmp_path / "page.html", pid), ("dump", "-o", tmp_path / "dump", pid)]
    commands += [("diff", tmp_path / "dump", tmp_path / "dump")]
    commands += [("watch", "--for=1ms", "-o", tmp_path / "timeline", pid), ("timeline", tmp_path / "timeline")]
    commands += [("report", "-o", tmp_path / "page.html", tmp_path / "timeline")]
    for command in commands:
        done = plain.run(*command, arenadump=arenadump.path)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


REFUSED = {
    "live": ["top"],
    "exporter": ["exporter", "--listen=127.0.0.1:0", "PID"],
    "pictures": ["report", "--png=DIR", "-o", "DIR.html", "PID"],
    "pictures, svg": ["report", "--svg=DIR", "-o", "DIR.html", "PID"],
    "pictures, run": ["experiment", "run", "-o", "DIR", "--", "true"],
    "pictures, page": ["experiment", "report", "DIR"],
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_missing_is_named(
    plain: Plain, pid: int, arenadump: harness.Arenadump, tmp_path: Path, which: str
) -> None:
    """With the line to type, before anything is done."""
    extra = which.partition(",")[0]
    words = [each.replace("PID", str(pid)).replace("DIR", str(tmp_path / "out")) for each in REFUSED[which]]
    ours, theirs = pty.openpty()  # of the live view
    done = plain.run(*words, arenadump=arenadump.path, capture_output=False, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert f"{shlex.quote(sys.executable)} -m pip install 'arenascope[{extra}]'" in said
    assert all(required in said for required in EXTRAS[extra].values())
    assert not list(tmp_path.iterdir())


def test_one_that_is_too_old_is_named(plain: Plain, pid: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Its modules lack what is imported from them."""
    (tmp_path / "prometheus_client").mkdir()
    for module in ("__init__", "metrics_core"):
        (tmp_path / "prometheus_client" / f"{module}.py").write_text("")
    old = Plain(tmp_path)
    done = old.run("exporter", "--listen=127.0.0.1:0", pid, arenadump=arenadump.path)
    assert done.returncode == 2
    assert "prometheus_client>=0.14" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_them(plain: Plain, arenadump: harness.Arenadump) -> None:
    done = plain.run("doctor", "--json", arenadump=arenadump.path)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for extra in EXTRAS:
        assert checks[f"extra {extra}"]["status"] == "limited"
        assert f"arenascope[{extra}]" in checks[f"extra {extra}"]["fix"]
