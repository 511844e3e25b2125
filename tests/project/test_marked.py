# SPDX-License-Identifier: MIT
"""Tables of docs/ that programs write: what is between the markers is theirs, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tools.marked import END, WRITTEN, MarkerError, Table
from tools.paths import ROOT

pytestmark = pytest.mark.check
TABLE = Table("bench", "start", ("what", "ours"))
OTHER = Table("bench", "starts", ("what",))
PAGE = f"# Page\n\n{TABLE.begin}\n{END}\n\nProse.\n\n{OTHER.begin}\n\n| what |\n| --- |\n| x |\n\n{END}\nend\n"
ROWS = [{"what": "a", "ours": "1 s"}, {"what": "b | c", "ours": ""}]


def test_what_is_written_is_read() -> None:
    """And the prose and the other table stay."""
    page = TABLE.written(PAGE, ROWS)
    assert TABLE.rows(page) == ROWS
    assert TABLE.written(page, ROWS) == page
    assert page.startswith("# Page\n\n")
    assert page.endswith(PAGE.partition(END)[2])


def test_a_row_is_replaced_and_others_stay() -> None:
    page = TABLE.replaced(TABLE.written(PAGE, ROWS), [{"what": "d", "ours": "4 s"}, {"what": "a", "ours": "3 s"}])
    assert [tuple(row.values()) for row in TABLE.rows(page)] == [("a", "3 s"), ("b | c", ""), ("d", "4 s")]


def test_a_column_that_is_new_is_empty_and_one_that_is_gone_is_left_out() -> None:
    later = Table("bench", "start", ("what", "limit"))
    page = later.written(TABLE.written(PAGE, ROWS), later.rows(TABLE.written(PAGE, ROWS)))
    assert later.rows(page) == [{"what": "a", "limit": ""}, {"what": "b | c", "limit": ""}]


@pytest.mark.parametrize(
    "page",
    [
        PAGE.replace(TABLE.begin, ""),
        PAGE.replace(END, "", 1),
        PAGE.replace(END, ""),
        PAGE + PAGE,
    ],
    ids=["no begin", "no end", "no end at all", "twice"],
)
def test_a_marker_that_is_missing_is_an_error(page: str) -> None:
    with pytest.raises(MarkerError, match="make bench writes this: start"):
        TABLE.written(page, ROWS)


def test_each_page_with_such_a_table_is_known() -> None:
    """A program does not take another program's rows for a change of what it tests."""
    found = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md") if written_by_programs(page)}
    assert found == set(WRITTEN)


def written_by_programs(page: Path) -> bool:
    return re.search(r"^<!-- make \w+ writes this: [\w-]+ -->$", page.read_text(), re.MULTILINE) is not None


def test_lines_of_prose_are_wrapped_and_the_tables_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    long = [{"what": "word " * 50 + "end", "ours": "1 s"}]
    page.write_text(TABLE.written(PAGE, long).replace("Prose.", "word " * 50))
    subprocess.run([ROOT / "scripts/wrap-docs", page], check=True)
    assert TABLE.rows(page.read_text()) == long
    assert max(map(len, re.sub(r"^\|.*", "", page.read_text(), flags=re.MULTILINE).splitlines())) <= 120
