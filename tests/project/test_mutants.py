# SPDX-License-Identifier: MIT
"""The faults of mutants.txt have their places in the source: `make mutants` takes hours, and would refuse the table.

And docs/testing.md names the tests without which `make test` would not see a fault.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from tools import mutants

DOCS = mutants.ROOT / "docs" / "testing.md"


LIST = """
import sys
import pytest
from tools import tiers
class Listing:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        for item in items:
            print("@@", item.nodeid, tiers.part_of(item) or "", sep="\\t")
sys.exit(pytest.main(["--collect-only", "-q", *sys.argv[1:]], plugins=[Listing()]))
"""


def parts(files: set[str]) -> dict[str, str]:
    """Returns the part of the night that has each test of these files, if one does; where the libc is Debian 12's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"NEAREST_LIBC": "bookworm", "PYTHONPATH": "tests"}
    command = [sys.executable, "-c", LIST, *sorted(files)]
    done = subprocess.run(
        command, cwd=mutants.ROOT, env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    return dict(line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("@@\t"))


def named_by(arguments: list[str], tests: Iterable[str]) -> list[str]:
    """Those of the tests that pytest would run, given these arguments."""
    words = [word for flag, word in zip(arguments, arguments[1:]) if flag == "-k"]
    names = [name for name in arguments if name.startswith("tests/")]
    return [
        test
        for test in tests
        if any(test == name or test.startswith((f"{name}[", f"{name}::")) for name in names)
        and all(word in test for word in words)
    ]


@pytest.mark.slow
def test_what_dies_only_at_night_is_listed() -> None:
    """And each fault is asked about by a test that there is."""
    asked = Counter(" ".join(mutant.pytest) for mutant in mutants.read_table(mutants.TABLE) if mutant.pytest)
    part_of = parts({word.partition("::")[0] for each in asked for word in each.split() if word.startswith("tests/")})
    named = {each: named_by(mutants.ARGUMENT.findall(each), part_of) for each in asked}
    assert [each for each, tests in named.items() if not tests] == []
    nightly = {f"`{each}`: {asked[each]}" for each, tests in named.items() if all(part_of[test] for test in tests)}
    section = DOCS.read_text().partition("## What dies only at night\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^- (.*)$", section, re.MULTILINE)) == nightly


@pytest.mark.check
def test_slices_have_each_fault_once() -> None:
    table = mutants.read_table(mutants.TABLE)
    slices = [table[mutants.slice_of(f"{number}/6")] for number in range(1, 7)]
    assert sorted(mutant.line for each in slices for mutant in each) == [mutant.line for mutant in table]
    assert max(map(len, slices)) - min(map(len, slices)) <= 1
    with pytest.raises(ValueError):  # noqa: PT011 - argparse says what it was
        mutants.slice_of("7/6")


@pytest.mark.check
def test_every_fault_has_its_place() -> None:
    mutants.check_places(mutants.ROOT, mutants.read_table(mutants.TABLE))


@pytest.mark.check
def test_a_fault_without_a_place_is_named() -> None:
    lost = mutants.Mutant(line=7, folder="base", old="no such line anywhere", new="")
    with pytest.raises(mutants.TableError, match=r"mutants\.txt:7: .*no such line"):
        mutants.check_places(mutants.ROOT, [lost])


@pytest.mark.check
def test_a_tests_parameters_may_have_spaces(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("[base]\n- a\n+ b\n? tests/x.py::f[as it was-1] tests/y.py -k z\n")
    (mutant,) = mutants.read_table(table)
    assert mutant.pytest == ["tests/x.py::f[as it was-1]", "tests/y.py", "-k", "z"]
