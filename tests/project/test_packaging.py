# SPDX-License-Identifier: MIT
"""What strangers install: the wheel, the sdist, and both programs in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from tools import programs
from tools.paths import ROOT

BUILD = "from setuptools import build_meta as b; import sys; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"

pytestmark = [pytest.mark.slow, pytest.mark.nightly("packaging")]


# A warning that the code does have: a later compiler may have more, and nobody must repair them to install.
WARNS = "-Wconversion"
MADE = "wire/dump_records.py"


def build(kind: str, source: Path, folder: Path, **environment: str) -> Path:
    """Build a "wheel" or an "sdist" with the setuptools that is installed here: no network, and not optimized.

    What was printed is in the file "log", beside it.
    """
    command = [sys.executable, "-c", BUILD, kind, str(folder)]
    given = os.environ.get("ARENASCOPE_MESON_ARGS", "")
    env = {**os.environ, "ARENASCOPE_MESON_ARGS": f"{given} -Doptimization=0", **programs.COMPILED_ANYWHERE}
    done = subprocess.run(command, cwd=source, env=env | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "log").write_text(done.stdout + done.stderr)
    return folder / done.stdout.splitlines()[-1]


def git(source: Path, *arguments: str) -> str:
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    command = ["git", "-C", str(source), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit_of(source: Path) -> str:
    return git(source, "rev-parse", "--short=12", "HEAD")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree, as building writes beside setup.py, and a commit of it. What building makes is not in it."""
    source = tmp_path_factory.mktemp("tree") / "source"
    made = ("build", "build-*", "dist", "*.egg-info", "__pycache__", MADE)
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", *made))
    git(source, "init", "--quiet")
    git(source, "add", "--all")
    git(source, "commit", "--quiet", "--message=all")
    return source


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", source, tmp_path_factory.mktemp("sdist"))


def noted_commit(sdist: Path) -> str:
    with tarfile.open(sdist) as archive:
        (name,) = (name for name in archive.getnames() if name.partition("/")[2] == "COMMIT")
        file = archive.extractfile(name)
        assert file
        return file.read().decode().strip()


def test_a_source_distribution_notes_its_commit(source: Path, sdist: Path, tmp_path: Path) -> None:
    """And whether the files are others."""
    assert noted_commit(sdist) == commit_of(source)
    text = (source / "setup.py").read_text()
    (source / "setup.py").write_text(f"{text}# changed\n")
    assert noted_commit(build("sdist", source, tmp_path)) == f"{commit_of(source)}+"
    (source / "setup.py").write_text(text)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that what the sdist lacks is found out."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    return build("wheel", next(folder.iterdir()), tmp_path_factory.mktemp("wheel"), CFLAGS=WARNS)


def test_a_warning_stops_no_installation(wheel: Path) -> None:
    assert f"[{WARNS}]" in wheel.with_name("log").read_text()


def test_wheel_is_of_one_platform_and_carries_the_program(wheel: Path) -> None:
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        (program,) = (entry for entry in archive.infolist() if entry.filename.endswith("/scripts/arenadump"))
        assert program.external_attr >> 16 & 0o777 == 0o755
        assert archive.read(program)[:4] == b"\x7fELF"
        (agent,) = (entry for entry in archive.infolist() if entry.filename.endswith("/scripts/libarenascope.so"))
        assert agent.external_attr >> 16 & 0o777 == 0o644
        assert archive.read(agent)[:4] == b"\x7fELF"
        names = archive.namelist()
    assert {"arenascope/cli/main.py", f"arenascope/{MADE}", "arenascope/rows.def"} <= set(names)
    assert "arenascope/py.typed" in names
    assert {"arenascope/report/templates/report.html.j2", "arenascope/report/static/main.js"} <= set(names)
    workloads = ROOT / "visualize/arenascope/experiment/workloads"
    assert {f"arenascope/experiment/workloads/{path.name}" for path in workloads.glob("*.*")} <= set(names)
    assert {"arenascope/experiment/configurations.toml", "arenascope/report/static/experiment.css"} <= set(names)
    ours = [name for name in names if "/experiment/workloads/" not in name]  # some of these are compiled later
    assert not [name for name in ours if name.endswith((".c", ".pyc")) or name.startswith("tests")]
    assert not [name for name in names if "__pycache__" in name]


def test_a_package_index_shows_no_dead_link(wheel: Path) -> None:
    """The text of README.md, and who wrote it; nothing in it leads to a file beside it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    shown = metadata.get_payload()
    assert isinstance(shown, str)
    assert "](" not in shown
    words = re.findall(r"\w+", re.sub(r"!?\[.*?\]\(.*?\)", "", (ROOT / "README.md").read_text()))
    left = iter(re.findall(r"\w+", shown))
    assert all(word in left for word in words), "a word is missing"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Author"] == "the arenascope maintainers"
    assert metadata["Author"] in (ROOT / "LICENSE").read_text()


def test_sdist_carries_the_sources(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = [*(ROOT / "inspector").rglob("*.[ch]"), *ROOT.glob("inspector/**/meson.build")]
    sources += (ROOT / "inspector").rglob("*.map")
    sources += [*(ROOT / "inspector").rglob("*.def"), ROOT / "scripts/records"]
    sources += [path for path in (ROOT / "visualize").rglob("*.py") if path.name != MADE]
    assert {str(path.relative_to(ROOT)) for path in sources} <= names
    assert {"meson.build", "meson_options.txt", "setup.py", "pyproject.toml", "LICENSE", "README.md"} <= names


def test_both_programs_run_in_a_fresh_environment(source: Path, wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True)
    folder = tmp_path / "venv" / "bin"
    assert os.access(folder / "arenadump", os.X_OK)
    clean = {key: value for key, value in os.environ.items() if key not in {"ARENASCOPE_ARENADUMP", "PYTHONPATH"}}
    version = subprocess.run(
        [folder / "arenadump", "--version"], capture_output=True, text=True, check=True, cwd="/"
    ).stdout
    # numpy and its friends come from the environment that runs the tests, arenascope from the wheel alone.
    friends = [path for path in sys.path if path.endswith("site-packages")]
    clean["PYTHONPATH"] = os.pathsep.join([str(next((tmp_path / "venv/lib").glob("python*/site-packages"))), *friends])
    script = folder / "arenascope"
    ours = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, cwd="/", env=clean).stdout
    name, number, commit = ours.split(maxsplit=2)
    assert name == "arenascope"
    assert commit == f"(commit {commit_of(source)})\n"
    assert version.splitlines()[0] == f"arenadump {number} (commit {commit_of(source)})"
    agent = subprocess.run(
        [script, "agent-path"], capture_output=True, text=True, check=True, cwd="/", env=clean
    ).stdout
    assert Path(agent.rstrip("\n")) == folder / "libarenascope.so"
    schema = subprocess.run(
        [script, "schema", "summary"], capture_output=True, text=True, check=True, cwd="/", env=clean
    )
    assert json.loads(schema.stdout)["title"] == "arenascope.summary/1"
    doctor = subprocess.run(
        [script, "doctor", "--json"], capture_output=True, text=True, check=False, cwd="/", env=clean
    )
    assert str(folder / "arenadump") in doctor.stdout, doctor.stderr
