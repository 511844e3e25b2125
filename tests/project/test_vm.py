# SPDX-License-Identifier: MIT
"""`make vm` in short, at night: one old kernel, a few tests in it. And that a machine which fails is said to have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.marked import END as END_OF_TABLE
from tools.paths import ROOT
from vm import checks, image, results
from vm.boot import Boot, Patience, boot
from vm.machine import KERNELS, PROCESSORS
from vm.run import Job, cell, failed, jobs, mislabelled, note, reasons, run, table

ONLY_ARM64 = ("inspector/test_matrix.py",)  # has no test elsewhere
OLDEST = Job(KERNELS["5.10"], PROCESSORS["max"], ("short",))
QUICK = Patience(silence=20, whole=60)
EVENT = '@@vm {"event": "test", "test": "a", "outcome": "%s", "why": "because", "seconds": 1, "checks": ["live"]}'
END = '@@vm {"event": "end", "code": 0}'


def said(*lines: str, then: str = "", patience: Patience = QUICK) -> Boot:
    """What comes of a machine that says this on its console, and does that then."""
    words = "".join(f"{line}\n" for line in lines)
    return boot(["sh", "-c", f"cat <<'EOF'\n{words}EOF\n{then}"], patience)


@pytest.mark.nightly("vm")
@pytest.mark.slow
def test_the_oldest_kernel(tmp_path: Path) -> None:
    boots = run(OLDEST, tmp_path, verbose=True)
    last = boots[-1]
    assert not last.failure, f"{last.failure}\n{last.tail}"
    (machine,) = last.of("machine")
    assert machine["kernel"].startswith("5.10.")
    assert mislabelled(OLDEST, last) == []
    assert [e for e in last.of("test") if e["outcome"] != "passed"] == []
    assert len(last.of("test")) == last.of("collected")[0]["tests"] >= 4
    assert cell("short", last) == f"pass {len(last.of('test'))}"


def test_a_machine_that_panics() -> None:
    last = said(EVENT % "passed", "[    1.0] Kernel panic - not syncing: Attempted to kill init!")
    assert "Kernel panic" in last.failure
    assert cell("live", last) == "unfinished (1)"
    assert failed(Job(OLDEST.kernel, OLDEST.processor, ("live",)), last)
    assert "Kernel panic" in last.tail


@pytest.mark.parametrize(
    ("then", "patience", "why"),
    [
        ("exec sleep 60", Patience(silence=2, whole=60), "the console was silent for"),
        ("while :; do echo .; sleep 0.1; done", Patience(silence=60, whole=4), "not done after"),
        ("", QUICK, "ended"),
    ],
    ids=["silent", "endless", "early"],
)
def test_a_machine_that_does_not_get_to_its_end(then: str, patience: Patience, why: str) -> None:
    last = said(then=then, patience=patience)
    assert why in last.failure
    assert cell("live", last) == "unfinished (0)"


def test_a_machine_whose_disk_is_missing() -> None:
    assert said("@@vm-trouble: the root disk cannot be mounted").failure == "the root disk cannot be mounted"


@pytest.mark.parametrize(
    ("outcome", "found"), [("passed", "pass 1"), ("failed", "FAIL 1/1"), ("skipped", "not possible")]
)
def test_the_table(outcome: str, found: str) -> None:
    job = Job(OLDEST.kernel, OLDEST.processor, ("live",))
    last = said("noise", EVENT % outcome, END)
    assert last.failure == ""
    assert failed(job, last) == (outcome == "failed")
    assert f"| {found} " in table([(job, [last])], ["live"])
    assert any("because" in line for line in reasons([(job, [last])])) == (outcome == "skipped")


def test_a_check_that_is_not_of_a_processor_has_a_dash() -> None:
    """No cell is empty: what was to be tried there and was not has a word of its own."""
    names = ["live", "swap"]
    found = jobs(["6.12"], ["max", "sse2"], names)
    live, swap = table([(job, [said(END)]) for job in found], names).splitlines()[2:4]
    assert [cell.strip() for cell in live.split("|")[1:-1]] == ["live", "no tests", "no tests"]
    assert [cell.strip() for cell in swap.split("|")[1:-1]] == ["swap", "no tests", "-"]


def test_a_kernel_that_is_there_for_one_check() -> None:
    (job,) = jobs(["5.10-cgroup1"], ["max", "sse2"], ["live", "memory"])
    assert job.checks == ("memory",)
    live, memory = table([(job, [said(END)])], ["live", "memory"]).splitlines()[2:4]
    assert [word.strip() for word in live.split("|")[1:-1]] == ["live", "-"]
    assert [word.strip() for word in memory.split("|")[1:-1]] == ["memory", "no tests"]
    assert jobs(["5.10-cgroup1"], ["max", "sse2"], ["live"]) == []


def test_the_version_of_cgroups_and_what_a_soak_counted_are_told() -> None:
    event = '@@vm {"event": "machine", "cgroups": "2, PSI", "flags": []}'
    soak = EVENT.replace('"a"', '"soak_headroom.py --snapshots 1"') % "passed"
    outcome = [(OLDEST, [said(event, soak, END)])]
    assert "| memory cgroups | 2, PSI " in table(outcome, ["short"])
    assert any(line.endswith("soak_headroom.py --snapshots 1: because") for line in reasons(outcome))


LIVE = Job(OLDEST.kernel, OLDEST.processor, ("live",))
NEWER = Job(KERNELS["6.12"], PROCESSORS["max"], ("live",))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    found = tmp_path / "kernels.md"
    found.write_text(results.TABLE.written(f"before\n{results.TABLE.begin}\n{END_OF_TABLE}\nbehind\n", []))
    return found


def noted(page: Path) -> list[list[str]]:
    """The machine, the commit and the cells of each row."""
    rows = results.TABLE.rows(page.read_text())
    return [[row["machine"], row["commit"], *(f"{n}: {row[n]}" for n in results.NAMES if row[n])] for row in rows]


def test_what_a_machine_has_tried_is_written_down(page: Path) -> None:
    """In a row with the commit, where the row of the same check is gone, and rows of others stay."""
    passed = said(EVENT % "passed", END)
    for job in (NEWER, LIVE):
        note(page, "1111111", job, passed)
    assert noted(page) == [["5.10 on max", "1111111", "live: pass 1"], ["6.12 on max", "1111111", "live: pass 1"]]
    note(page, "2222222", LIVE, said(EVENT % "failed", END))
    assert noted(page) == [["5.10 on max", "2222222", "live: FAIL 1/1"], ["6.12 on max", "1111111", "live: pass 1"]]
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nbehind\n")


def test_a_cell_that_was_not_tried_again_keeps_its_commit(page: Path) -> None:
    passed = said(EVENT % "passed", EVENT.replace('"live"', '"swap"') % "passed", END)
    note(page, "1111111", Job(OLDEST.kernel, OLDEST.processor, ("live", "swap")), passed)
    note(page, "2222222", LIVE, passed)
    assert noted(page) == [
        ["5.10 on max", "1111111", "swap: pass 1"],
        ["5.10 on max", "2222222", "live: pass 1"],
    ]
    note(page, "2222222", Job(OLDEST.kernel, OLDEST.processor, ("swap",)), passed)
    assert noted(page) == [["5.10 on max", "2222222", "live: pass 1", "swap: pass 1"]]


def test_another_processor_than_the_rows_has_no_result(page: Path) -> None:
    machine = '@@vm {"event": "machine", "flags": ["sse2"]}'
    note(page, "1111111", LIVE, said(machine, EVENT % "passed", END))
    assert noted(page) == [["5.10 on max", "1111111", "live: another processor"]]


def test_the_page_has_machines_that_there_are() -> None:
    """And a check that is renamed is renamed there, too: its column would be lost with the next row."""
    text = (ROOT / "docs/kernels.md").read_text()
    rows = results.TABLE.rows(text)
    known = {str(job) for job in jobs(list(KERNELS), list(PROCESSORS), list(results.NAMES))}
    assert {row["machine"] for row in rows} <= known
    assert results.TABLE.written(text, rows) == text


def test_no_tests_is_no_pass() -> None:
    last = said(END)
    assert cell("live", last) == "no tests"
    assert failed(Job(OLDEST.kernel, OLDEST.processor, ("live",)), last)


def test_a_processor_is_what_its_row_says() -> None:
    last = said('@@vm {"event": "machine", "flags": ["sse2", "avx", "avx2"]}', END)
    job = Job(KERNELS["6.12"], PROCESSORS["sse2"], ("live",))
    assert "it has avx" in mislabelled(job, last)[0]
    assert failed(job, last)


def test_each_kernel_and_each_processor_is_tried() -> None:
    amd64 = [name for name, kernel in KERNELS.items() if kernel.arch == "amd64"]
    found = jobs(amd64, list(PROCESSORS), list(checks.BY_NAME))
    assert {job.kernel.name for job in found} == set(amd64)
    assert {job.processor.name for job in found} == {p.name for p in PROCESSORS.values() if p.arch == "amd64"}


# Hides what the root disk has no package of, then has pytest load the files.
IN_THE_GUEST = """
import re, sys
from importlib.metadata import PackageNotFoundError, distribution, distributions
wanted, there = sys.argv[1].split(), {"arenascope"}
while wanted:
    name = wanted.pop().lower().replace("_", "-")
    if name not in there:
        there.add(name)
        try:
            needed = distribution(name).requires or []
        except PackageNotFoundError:  # of another Python or system
            continue
        wanted += [re.match(r"[\\w.-]+", line)[0] for line in needed if "extra ==" not in line]
for found in distributions():
    if found.metadata["Name"].lower().replace("_", "-") not in there:
        tops = {file.parts[0].partition(".")[0] for file in found.files or [] if file.suffix in (".py", ".so")}
        sys.modules.update(dict.fromkeys(top for top in tops if top.isidentifier() and top != "__pycache__"))
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", "--collect-only", "-q", *sys.argv[2:]]))
"""


@pytest.mark.nightly("vm")
def test_each_check_has_its_tests() -> None:
    """With what the guest has: a test file that imports more would be missing from every row of the table.

    And a test that is renamed does not fall out of it unseen.
    """
    packages = [name.partition("-")[2] for name in image.ROOT_PACKAGES if name.startswith("python3-")]
    files = sorted({name for check in checks.CHECKS for name in check.tests})
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_GUEST, " ".join(packages), *files],
        cwd=ROOT / "tests",
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for check in checks.BY_NAME.values():
        for file, starts in check.tests.items():
            there = re.findall(rf"^(?:tests/)?{file}::(.*)$", done.stdout, re.MULTILINE)
            for start in starts if file not in ONLY_ARM64 else ():
                taken = [test for test in there if checks.is_one_of(test, start) and check.takes(f"{file}::{test}")]
                assert taken, f"{check.name}: {file} has no test_{start}..."


@pytest.mark.nightly("vm")
def test_drivers_are_in_the_order_that_they_need() -> None:
    _, modules = image.kernel_files(KERNELS["5.10"], "vmlinuz-")
    names = list(image.drivers(modules))
    assert {"virtio", "virtio_ring", "virtio_pci", "virtio_blk"} <= set(names)
    assert names.index("virtio") < names.index("virtio_pci")
    assert names.index("virtio_ring") < names.index("virtio_blk")


@pytest.mark.nightly("vm")
@pytest.mark.parametrize("name", [name for name in KERNELS if name.endswith("-16k")])
def test_a_kernel_has_the_disks_file_system(name: str) -> None:
    """Built in, or a module that is taken along: else there is no root."""
    _, modules = image.kernel_files(KERNELS[name], "vmlinuz-")
    built_in = (modules / "modules.builtin").read_text()
    assert "/ext4.ko" in built_in or list(image.drivers(modules))[-1] == "ext4"
