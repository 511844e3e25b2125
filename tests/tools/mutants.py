# SPDX-License-Identifier: MIT
"""Plants one fault after another in a copy of the source, and says which test caught it: `make mutants`.

tests/mutants.txt has the faults. A fault that no test notices is a line that nobody watches: then this fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "mutants.txt"
PACKAGE = "visualize"  # its faults are in Python
SUITE = "mock"  # of meson: the tests that need no process and take milliseconds
ARGUMENT = re.compile(r"(?:\[[^]]*\]|\S)+")  # of pytest; the parameters of a test, in brackets, may have spaces
PATIENCE = 60  # seconds for one test: a fault may well make a loop endless
PYTEST_PATIENCE = 900
# What the Python tests run, of the build. Without the agent its tests would end with an error, whatever the fault.
PROGRAMS = (
    "inspector/cli/arenadump",
    "inspector/agent/libarenascope.so",
    "tests/unit/chunk_types",
    "tests/unit/list_types",
    "tests/unit/place_names",
    "tests/unit/say",
)


@dataclass
class Mutant:
    """One line of the source, and what it is made into."""

    folder: str  # in inspector/; or PACKAGE
    line: int  # of the table
    old: str
    new: str
    pytest: list[str] = field(default_factory=list)  # asked first, where there are some; then the unit tests


class TableError(Exception):
    """The table, or the source, is not what it must be for a mutant to be planted."""


def read_table(path: Path) -> list[Mutant]:
    """The table: [folder], then for each mutant "- old", "+ new" and perhaps "? arguments of pytest", a line each."""
    mutants: list[Mutant] = []
    folder = old = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        sign, text = line[:2], line[2:]
        if not line.strip() or sign == "# ":
            continue
        if line.startswith("["):
            folder = line.strip("[]")
        elif sign == "- " and not old:
            old = text
        elif line[:1] == "+" and old:
            mutants.append(Mutant(folder, number - 1, old, text))
            old = ""
        elif sign == "? " and mutants and not old:
            mutants[-1].pytest = ARGUMENT.findall(text)
        else:
            message = f"{path.name}:{number}: not a [folder], - line, + line or ? line in its place"
            raise TableError(message)
    return mutants


def find_place(tree: Path, mutant: Mutant) -> tuple[Path, str]:
    """The one file in the folder that has the old text, and has it once; and that file's text."""
    places = []
    folder, files = tree / "inspector" / mutant.folder, "*.[ch]"
    if mutant.folder == PACKAGE:
        folder, files = tree / PACKAGE, "*.py"
    for path in sorted(folder.rglob(files)):
        text = path.read_text()
        places += [(path, text)] * text.count(mutant.old)
    if len(places) != 1:
        message = (
            f"{TABLE.name}:{mutant.line}: {mutant.old!r} is {len(places)} times in {folder.relative_to(tree)}, "
            "not once: the line has changed; write down what it is now, or a longer part of it"
        )
        raise TableError(message)
    return places[0]


def check_places(tree: Path, mutants: list[Mutant]) -> None:
    """Finds the place of each, before the first is tried; says of all that have none."""
    problems = []
    for mutant in mutants:
        try:
            find_place(tree, mutant)
        except TableError as error:
            problems.append(str(error))
    if problems:
        raise TableError("\n".join(problems))


@dataclass
class Outcome:
    """What became of a program: its exit status, None when it took too long; and its last line."""

    status: int | None
    said: str


def start(command: list[str], cwd: Path, patience: float, env: dict[str, str] | None = None) -> Outcome:
    """Runs the command to its end, or to the end of the patience."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, f"not done after {patience:.0f} s")
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return Outcome(done.returncode, lines[-1] if lines else f"status {done.returncode}")


def run(command: list[str], cwd: Path, patience: float) -> str | None:
    """None when the command succeeds; else the last line that it printed, or that it took too long."""
    done = start(command, cwd, patience)
    return None if done.status == 0 else done.said


class Tree:
    """A copy of the working tree with a build directory of its own."""

    def __init__(self, path: Path) -> None:
        """Copies what git knows and what is new, and configures."""
        self.path, self.build = path, path / "build"
        self.sound: dict[str, bytes] = {}  # the digests of the unit tests without any fault
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        for name in names:
            if name and (ROOT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, path / name)
        if problem := run(
            ["meson", "setup", str(self.build), "-Ddebug=false", "-Doptimization=1"],
            path,
            PYTEST_PATIENCE,
        ):
            message = f"meson: {problem}"
            raise TableError(message)
        listed = subprocess.run(
            ["meson", "introspect", "--tests", str(self.build)], capture_output=True, text=True, check=True
        ).stdout
        self.tests = {t["name"]: Path(t["cmd"][0]) for t in json.loads(listed) if any(SUITE in s for s in t["suite"])}
        if not self.tests:
            message = f"the build has no test of the suite {SUITE!r}"
            raise TableError(message)

    def make(self, targets: Iterable[str]) -> None:
        """Builds these, and nothing else."""
        if problem := run(["ninja", "-C", str(self.build), "-j1", *targets], self.path, PYTEST_PATIENCE):
            message = f"the source does not build: {problem}"
            raise TableError(message)

    def digests(self) -> dict[str, bytes]:
        """The name of each unit test, and a digest of its program."""
        return {name: hashlib.sha256(path.read_bytes()).digest() for name, path in self.tests.items()}

    def prepare(self) -> None:
        """Builds all, and runs the unit tests, without any fault."""
        self.make(PROGRAMS)
        if problem := self.first_to_fail({}):
            message = f"without any fault: {problem}"
            raise TableError(message)
        self.sound = self.digests()

    def first_to_fail(self, sound: dict[str, bytes]) -> str | None:
        """The first unit test that notices, and what it says. A program that is as it was has nothing of the fault."""
        self.make(str(path.relative_to(self.build)) for path in self.tests.values())
        for name, digest in self.digests().items():
            if digest != sound.get(name) and (problem := run([str(self.tests[name])], self.path, PATIENCE)):
                return f"{name}: {problem}"
        return None

    def ask_pytest(self, arguments: list[str]) -> str | None:
        """As first_to_fail, of the Python tests named: with the programs of this tree."""
        self.make(PROGRAMS)
        records = [sys.executable, "scripts/records", "python", f"{PACKAGE}/arenascope/wire/dump_records.py"]
        if problem := run(records, self.path, PATIENCE):
            message = f"there is no dump_records.py: {problem}"
            raise TableError(message)
        env = os.environ | {
            "ARENADUMP": str(self.build / "inspector/cli/arenadump"),
            "PYTHONPATH": str(self.path / PACKAGE),  # before what is installed
            # What is compiled is known by its seconds and size: two faults of one file may have both in common.
            "PYTHONDONTWRITEBYTECODE": "1",
            "CHUNK_TYPES": str(self.build / "tests/unit/chunk_types"),
            "LIST_TYPES": str(self.build / "tests/unit/list_types"),
            "PLACE_NAMES": str(self.build / "tests/unit/place_names"),
            "SAY": str(self.build / "tests/unit/say"),
        }
        pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
        done = start(pytest, ROOT, PYTEST_PATIENCE, env)
        if done.status not in (0, 1, None):  # 1: a test failed; what is above: no test could be asked
            message = f"these tests cannot be asked: {' '.join(arguments)}: {done.said}"
            raise TableError(message)
        return None if done.status == 0 else f"pytest {' '.join(arguments)}: {done.said}"


def judge(tree: Tree, mutant: Mutant) -> str | None:
    """Plants the fault, asks the tests, and takes it out again. None: nobody has noticed."""
    path, text = find_place(tree.path, mutant)
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        return (tree.ask_pytest(mutant.pytest) if mutant.pytest else None) or tree.first_to_fail(tree.sound)
    except TableError as error:
        message = f"{TABLE.name}:{mutant.line}: with {mutant.new!r}: {error}"
        raise TableError(message) from None
    finally:
        path.write_text(text)


def say(number: int, mutant: Mutant, path: Path, verdict: str | None, seconds: float) -> None:
    """One row of the table of results."""
    print(
        f"{number:3} {mutant.folder}/{path.name}  ({seconds:.0f} s)\n"
        f"    - {mutant.old.strip()}\n    + {mutant.new.strip()}\n"
        f"    {'caught by ' + verdict if verdict else 'SURVIVED: no test has noticed'}",
        flush=True,
    )


def try_all(trees: list[Tree], mutants: list[Mutant]) -> int:
    """How many survive. Each tree has one fault at a time."""
    check_places(trees[0].path, mutants)
    free: queue.Queue[Tree] = queue.Queue()

    def try_one(number: int, mutant: Mutant) -> bool:
        tree = free.get()
        try:
            began = time.monotonic()
            path = find_place(tree.path, mutant)[0]
            verdict = judge(tree, mutant)
            say(number, mutant, path, verdict, time.monotonic() - began)
            return verdict is None
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(Tree.prepare, trees))
        for tree in trees:
            free.put(tree)
        return sum(pool.map(try_one, range(1, len(mutants) + 1), mutants))


def slice_of(text: str) -> slice:
    """Returns, for "2/6", every sixth, from the second on, so that each slice has some of each folder."""
    number, count = (int(part) for part in text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return slice(number - 1, None, count)


def main() -> int:
    """Exit status 0: every fault was caught; 1: some survived; 2: the table does not fit the source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="try only mutants of these folders, or whose old text has this in it")
    parser.add_argument("--slice", type=slice_of, default=slice(None), help="2/6: the second of six parts of them")
    parser.add_argument("-j", "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="faults at a time")
    options = parser.parse_args()
    try:
        mutants = read_table(TABLE)
        if options.only:
            mutants = [m for m in mutants if any(word == m.folder or word in m.old for word in options.only)]
        mutants = mutants[options.slice]
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            trees = [Tree(Path(folder) / str(number)) for number in range(options.jobs)]
            survivors = try_all(trees, mutants)
    except TableError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(mutants)} faults planted, {len(mutants) - survivors} caught, {survivors} survived")
    return 1 if survivors or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
