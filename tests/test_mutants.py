# SPDX-License-Identifier: MIT
"""The faults of mutants.txt have their places in the source: `make mutants` takes hours, and would refuse the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import mutants


def test_every_fault_has_its_place() -> None:
    mutants.check_places(mutants.ROOT, mutants.read_table(mutants.TABLE))


def test_a_fault_without_a_place_is_named() -> None:
    lost = mutants.Mutant(line=7, folder="base", old="no such line anywhere", new="")
    with pytest.raises(mutants.TableError, match=r"mutants\.txt:7: .*no such line"):
        mutants.check_places(mutants.ROOT, [lost])


def test_a_tests_parameters_may_have_spaces(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("[base]\n- a\n+ b\n? tests/x.py::f[as it was-1] tests/y.py -k z\n")
    (mutant,) = mutants.read_table(table)
    assert mutant.pytest == ["tests/x.py::f[as it was-1]", "tests/y.py", "-k", "z"]
