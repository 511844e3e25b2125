# SPDX-License-Identifier: MIT
"""How the parts of `make nightly` are run and written down, and how tests' durations are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import durations, marked, nightly, paths, tiers

pytestmark = pytest.mark.check
PAGE = nightly.TABLE.written(f"before\n\n{nightly.TABLE.begin}\n{marked.END}\nafter\n", [])
PASSED = nightly.Result("1234567", "2026-01-02", "passed, 3 passed", 4)


def test_each_mark_has_its_part() -> None:
    """And no part runs marks that there are not."""
    answer = " ".join(command for part in nightly.PARTS.values() for command in part.commands)
    assert [part for part in tiers.PARTS if f"--tier={part}" not in answer] == []
    assert answer.count("--tier=") == len(tiers.PARTS)


@pytest.mark.parametrize("tier", [tier for tier in tiers.NAMES if (paths.ROOT / tier).exists()])
def test_a_tier_that_has_a_folders_name(tier: str) -> None:
    """Before conftest.py is loaded, pytest takes the word behind `--tier` as a path, and loads its conftest.py."""
    command = f"{nightly.pytest(tier)} --markers"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=paths.ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_has_each_part() -> None:
    page = nightly.PAGE.read_text()
    assert list(nightly.PARTS) == [row["part"] for row in nightly.TABLE.rows(page)]
    assert nightly.written(page, {}) == page, "tests/tools/nightly.py --write"


def test_a_result_is_written_down_and_others_stay() -> None:
    page = nightly.written(PAGE, {"gem": PASSED})
    assert "| gem | the gem, installed and tested | 1234567 | 2026-01-02 | passed, 3 passed | 4 |" in page.splitlines()
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    page = nightly.written(page, {"vm-arm64": PASSED})
    results = {row["part"]: row["result"] for row in nightly.TABLE.rows(page)}
    assert (results["gem"], results["vm-arm64"], results["libcs"]) == (
        "passed, 3 passed",
        "passed, 3 passed",
        "not run yet",
    )


@pytest.mark.parametrize(("last", "ended"), [("true", "passed"), ("false", "FAILED")])
def test_a_part_that_fails_is_said_to(last: str, ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its later commands run all the same, and what they print is kept."""
    monkeypatch.setattr(nightly, "LOGS", tmp_path)
    said = "=== 2 failed, 3 passed, 1 deselected in 1.50s (0:00:01) ==="
    result = nightly.run(nightly.Part("made", "", (last, f"echo '{said}'")))
    assert result.ended == f"{ended}, 2 failed, 3 passed, 1 deselected"
    assert (tmp_path / "made.log").read_text() == f"{said}\n"


def test_counts_of_other_programs() -> None:
    assert nightly.counted("x\n72 faults planted, 72 caught, 0 survived\n") == [
        "72 faults planted, 72 caught, 0 survived"
    ]


def test_a_part_that_there_is_not_is_refused() -> None:
    done = subprocess.run([sys.executable, nightly.__file__, "libc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part libc; there are libcs, " in done.stderr


def test_modules_are_expected_to_take_what_they_took() -> None:
    took = {"tests/test_a.py::x": durations.Cost(5, 1), "tests/test_a.py::y": durations.Cost(7, 1)}
    tests = [*took, "tests/test_b.py::x", "tests/test_c.py::x", "tests/test_c.py::y"]
    assert durations.expected(tests, took, {"test_b.py": 30}) == {"test_a.py": 12, "test_b.py": 30, "test_c.py": 2}
    assert durations.expected(tests[:1], took, {"test_a.py": 30}) == {"test_a.py": 5}, "only some of it is run"


def test_durations_are_kept_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "durations.json"
    assert durations.read(path) == {}
    durations.merge({"a::x": durations.Cost(1, 2), "a::y": durations.Cost(3, 4)}, path)
    durations.merge({"a::y": durations.Cost(5, 6)}, path)
    assert durations.by_module(durations.read(path)) == {"a": durations.Cost(6, 8)}
    path.write_text("[")
    assert durations.read(path) == {}
