# SPDX-License-Identifier: MIT
"""The order of folders, circles of includes, calls, imports, the picture of inspector/, one meaning for each name."""

from __future__ import annotations

import os
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from tools import imports
from tools.paths import ROOT

pytestmark = pytest.mark.check


def script(name: str) -> ModuleType:
    """A script of scripts/ as a module."""
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = ModuleType(name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


architecture, names = script("architecture"), script("names")


def test_folders_and_units_keep_to_the_order() -> None:
    assert architecture.complaints(architecture.sources()) == []


def test_calls_keep_to_the_order() -> None:
    found = architecture.objects(architecture.BUILD)
    files = {path for path in architecture.sources() if path.endswith(".c")}
    others = {path for path in files if architecture.OTHERS.search(path)}
    assert len(others) == 5
    assert found.keys() == files - others
    arrows = architecture.calls(found)
    assert len(arrows) > 1000
    assert architecture.complaints_of_calls(arrows) == []


def test_a_build_of_other_sources_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone, one that has no object, and one that is newer than its object."""
    monkeypatch.setattr(architecture, "INSPECTOR", tmp_path)
    found = {name: tmp_path / f"{name}.o" for name in ("gone.c", "newer.c", "built.c")}
    for at, path in enumerate([*found.values(), *(tmp_path / name for name in ("built.c", "newer.c", "none.c"))]):
        path.touch()
        os.utime(path, (at, at))
    os.utime(found["built.c"], (9, 9))
    sources = ("built.c", "newer.c", "none.c", "built.h")
    assert architecture.not_built(sources, found) == ["gone.c", "newer.c", "none.c"]


def test_calls_are_read_from_objects(tmp_path: Path) -> None:
    """Functions and variables, weak ones too; nothing that is a file's own."""
    texts = {
        "base/sort.c": "extern int as_b; int as_d(void) __attribute__((weak)); int as_a(void) { return as_b + !as_d; }",
        "base/vec.c": "int as_b = 1; static int own(void) { return 2; } int as_c(void) { return own(); }",
        "base/error.c": "int as_a(void); static int own(void) { return as_a(); } int as_d(void) { return own(); }",
    }
    found = {}
    for number, (name, text) in enumerate(texts.items()):
        found[name] = tmp_path / f"{number}.o"
        source = tmp_path / f"{number}.c"
        source.write_text(text)
        subprocess.run(["cc", "-O0", "-c", source, "-o", found[name]], check=True)
    arrows = architecture.calls(found)
    assert arrows == {
        ("base/sort.c", "base/vec.c"): ["as_b"],
        ("base/sort.c", "base/error.c"): ["as_d"],
        ("base/error.c", "base/sort.c"): ["as_a"],
    }
    assert architecture.complaints_of_calls(arrows) == [
        "files in a circle of calls: base/error.c, base/sort.c",
        "    base/error.c calls as_a of base/sort.c",
        "    base/sort.c calls as_d of base/error.c",
    ]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("base/error.c", "malloc/walk.c"), "base/error.c calls as_new of malloc/walk.c: malloc/ stands above base/"),
        (
            ("target/process/read/maps.c", "target/process/stop/freeze.c"),
            "target/process/read/maps.c calls as_new of target/process/stop/freeze.c: target/process/stop/ stands ",
        ),
        (("libc/elf_read.c", "libc/elf.c"), "files in a circle of calls: libc/elf.c, libc/elf_read.c"),
    ],
)
def test_a_call_in_breach_is_found(pair: tuple[str, str], said: str) -> None:
    """One arrow more than the built code has."""
    arrows = architecture.calls(architecture.objects(architecture.BUILD))
    arrows[pair] = ["as_new"]
    assert any(line.startswith(said) for line in architecture.complaints_of_calls(arrows))


def test_the_picture_is_fresh() -> None:
    drawn = architecture.picture(architecture.sources())
    assert architecture.PICTURE.read_text(encoding="utf-8") == drawn, "run scripts/architecture --write"
    assert f"]({architecture.PICTURE.relative_to(ROOT / 'docs')})" in architecture.PAGE.read_text(encoding="utf-8")


def test_every_folder_is_described() -> None:
    page = architecture.PAGE.read_text(encoding="utf-8")
    folders = {architecture.folder_of(path) for path in architecture.sources()}
    assert {folder for folder in folders if f"| `{folder}/` |" not in page} == set()
    python = {path.parent.name for path in (ROOT / "visualize/arenascope").glob("*/__init__.py")}
    assert {folder for folder in python if f"| `{folder}/` |" not in page} == set()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "base/error.h",
            '#include "malloc/walk.h"\n',
            "base/error.h includes malloc/walk.h: malloc/ stands above base/",
        ),
        ("libc/prove.c", '#include "dump/dump.h"\n', "folders in a circle: "),
        (
            "target/process/read/live_process.h",
            '#include "target/process/stop/freeze.h"\n',
            "target/process/read/live_process.h includes target/process/stop/freeze.h: target/process/stop/ stands ",
        ),
        ("base/sort.h", '#include "base/vec.h"\n', "units in a circle: base/sort, base/vec"),
        ("new/thing.c", "", "inspector/new/ has no floor"),
    ],
)
def test_a_breach_is_found(file: str, text: str, said: str) -> None:
    """Each rule, broken in a copy of the sources."""
    files = {**architecture.sources()}
    files[file] = files.get(file, "") + text
    files.setdefault("malloc/walk.h", "")
    files["dump/dump.h"] += '#include "libc/libc.h"\n'
    files["base/vec.h"] += '#include "base/sort.h"\n' if "vec" in text else ""
    assert any(line.startswith(said) for line in architecture.complaints(files))


PACKAGE = imports.sources(ROOT / "visualize/arenascope")
# Circles that stay. The screens of the live view know their application by its type; it makes them.
DEFENDED = [["arenascope.live.app", "arenascope.live.screens"]]


def test_packages_of_python_form_no_circle() -> None:
    assert len(PACKAGE) > 150
    assert imports.circles(imports.between_rooms(PACKAGE)) == []


def test_modules_of_python_form_no_circle() -> None:
    assert imports.circles(imports.arrows(PACKAGE)) == DEFENDED


@pytest.mark.parametrize(
    ("module", "line", "circle"),
    [
        ("arenascope.wire.dump", "from arenascope.profiles.filters import Filters", "arenascope.profiles"),
        ("arenascope.timeline.store", "def f():\n    from arenascope.watch import loop", "arenascope.watch"),
        ("arenascope.report.map.legend", "import arenascope.report.page.tables", "arenascope.report.page"),
        ("arenascope.render.terminal", "from ..live.columns import COLUMNS", "arenascope.live"),
        ("arenascope.rows", "from arenascope import api", "arenascope.rows"),
    ],
)
def test_a_circle_of_python_is_found(module: str, line: str, circle: str) -> None:
    planted = {**PACKAGE, module: f"{PACKAGE[module]}\n{line}\n"}
    assert circle in {each for found in imports.circles(imports.between_rooms(planted)) for each in found}


RUNNER = "arenascope.wire.arenadump"
# What starts programs other than arenadump, and which.
OTHER_PROGRAMS = {
    "arenascope.cli.run": "the command of the user",
    "arenascope.cli.run_leaks": "the command of the user",
    "arenascope.doctor.software": "gdb",
    "arenascope.doctor.target": "a Python to inspect",
    "arenascope.experiment.available": "what a workload needs",
    "arenascope.experiment.child": "a workload",
    "arenascope.experiment.expand": "ldconfig",
    "arenascope.experiment.runner": "a workload's preparation",
    "arenascope.live.profile_jobs": "none: it waits for what wire/ has started",
    "arenascope.profiles.sources": "a fork with the rights of a target",
}


def starters(modules: imports.Sources) -> list[str]:
    """What starts arenadump, or may, and is not in wire/."""
    outside = {name: text for name, text in modules.items() if not name.startswith("arenascope.wire.")}
    using = {name for name, text in outside.items() if RUNNER in set(imports.imported(name, text, modules))}
    using |= {name for name, text in outside.items() if imports.starts_programs(text)} - set(OTHER_PROGRAMS)
    path = {name for name, text in outside.items() if ("commands", "program") in imports.attributes(text)}
    return sorted(using | path - {"arenascope.doctor.software"})  # which tells the path


def test_arenadump_is_started_in_one_room() -> None:
    assert starters(PACKAGE) == []
    assert [name for name in OTHER_PROGRAMS if not imports.starts_programs(PACKAGE[name])] == []


@pytest.mark.parametrize(
    "line",
    [
        "from arenascope.wire.arenadump import run_arenadump",
        "from arenascope.wire import arenadump",
        "def f():\n    import subprocess",
        "import os\nos.execv('/bin/true', [])",
        "from subprocess import run",
        "from arenascope.wire import commands\ncommands.program()",
    ],
)
def test_another_start_of_arenadump_is_found(line: str) -> None:
    name = "arenascope.cli.trim"
    assert starters({**PACKAGE, name: f"{PACKAGE[name]}\n{line}\n"}) == [name]


API = {"arenascope.api", "arenascope.snapshot"}
# What a command starts by other ways than the API: where it stands, and why.
BESIDE_API = {
    ("doctor", "doctor"): "it asks whether arenadump can be started at all",
    ("experiment", "experiment"): "it runs workloads, and inspects each at its end",
    ("exporter", "exporter"): "it polls",
    ("exporter", "wire.arenadump_server"): "one arenadump serves all polls",
    ("profile", "render.listing"): "it reads sources with the rights of the target",
    ("profile", "wire.commands"): "it becomes arenadump: Ctrl-C is for arenadump alone",
    ("report", "report"): "it draws, of snapshots that the API has taken",
    ("run", "os"): "it becomes the command of the user",
    ("run", "subprocess"): "it asks the agent what it understands",
    ("run_leaks", "subprocess"): "it runs the command of the user",
    ("top", "live"): "it polls",
    ("top", "wire.arenadump_server"): "one arenadump serves all polls",
    ("watch", "watch"): "it polls",
    ("watch", "wire.arenadump_server"): "one arenadump serves all polls",
}


def beside_api(modules: imports.Sources) -> set[tuple[str, str]]:
    """Through what but the API commands start programs. Of a folder that is not wire/: the folder."""
    found = set()
    for (module, _), through in imports.starting(modules).items():
        for other in {name for name, _ in through} - API:
            if module.startswith("arenascope.cli.") and not other.startswith("arenascope.cli."):
                command, parts = module.rpartition(".")[2], other.removeprefix("arenascope.").split(".")
                found.add((command, parts[0] if parts[0] not in {"wire", "render"} else ".".join(parts)))
    return found


def test_commands_are_clients_of_the_api() -> None:
    assert beside_api(PACKAGE) == BESIDE_API.keys()


@pytest.mark.parametrize(
    ("command", "text", "through"),
    [
        ("trim", "from arenascope.wire import commands\ncommands.trim('1', {})", "wire.commands"),
        ("diff", "def f():\n    from arenascope.wire.snapshot import take_all as t\n    t([])", "wire.snapshot"),
        ("summary", "from arenascope.profiles.site_digest import with_stacks\nf = with_stacks", "profiles"),
        ("inject", "import os\ndef f():\n    os.execv('/bin/true', [])", "os"),
    ],
)
def test_a_command_beside_the_api_is_found(command: str, text: str, through: str) -> None:
    name = f"arenascope.cli.{command}"
    planted = {**PACKAGE, name: f"{PACKAGE[name]}\n{text}\n"}
    assert beside_api(planted) - BESIDE_API.keys() == {(command, through)}


def test_a_name_means_one_thing() -> None:
    found = names.names()
    assert len(found) > 500
    assert names.doubles(found) == {}


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ("struct as_pen { int ink; };", "enum as_pen { AS_RED };", "as_pen (C)"),
        ("void as_draw(int x);", "struct as_draw { int x; };", "as_draw (C)"),
        ("bool as_ink(struct pen *p,\n            int x) __attribute__((pure));", "int as_ink(void);", "as_ink (C)"),
        ("enum { AS_BLUE = 1, AS_RED };", "enum pen { AS_RED = (3), };", "AS_RED (C)"),
    ],
)
def test_a_second_meaning_is_found(one: str, other: str, name: str) -> None:
    found = [*names.names_of_c("png/a.h", one), *names.names_of_c("cli/b.h", other)]
    assert list(names.doubles(found)) == [name]
    machines = [*names.names_of_c("png/a_aarch64.h", one), *names.names_of_c("png/a_x86_64.h", one)]
    assert names.doubles(machines) == {}


def test_lines_of_docs_are_wrapped() -> None:
    wrap = script("wrap-docs")
    for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        assert wrap.wrapped(text).split() == text.split()
        assert wrap.wrapped(text) == text, f"run scripts/wrap-docs {page.relative_to(ROOT)}"
    assert wrap.wrapped("- " + "word " * 40).split("\n")[1].startswith("  word")
