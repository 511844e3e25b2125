# SPDX-License-Identifier: MIT
"""`arenascope report` as people type it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tools import harness, tiers
from tools import synthetic_dump as synthetic
from tools.command import here
from tools.running import process

from arenascope.errors import Code, DumpError
from arenascope.report.map.data import LIMIT, DumpPages, More, map_blocks, pack
from arenascope.report.map.order import regions
from arenascope.report.map.page_users import of_dumps
from arenascope.report.page.html import render
from arenascope.report.page.model import build
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump
from arenascope.wire.snapshot import TakenDump

TARGET_LIMIT = 5_000_000


def run(*arguments: str | Path | int, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arenascope", "report", *map(str, arguments)]
    env = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve())}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)


def run_here(*arguments: str | Path | int, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same without a process of its own."""
    return here("report", *arguments, arenadump=harness.arenadump_path().resolve(), cwd=cwd)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return synthetic.write(tmp_path / "dump", synthetic.sections())


def test_of_a_process_with_pictures(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    heaps = tmp_path / "stills" / "heaps"
    heaps.mkdir(parents=True)
    (heaps / "heaps.arenascope").touch()  # as one that was killed left it
    (tmp_path / "victim").touch()
    (tmp_path / "stills" / "map.png").symlink_to(tmp_path / "victim")
    with process("pins") as pid:
        done = run(pid, "-o", tmp_path / "r.html", "--png", tmp_path / "stills", "--svg", tmp_path / "stills")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "stranded: something in use on the same page keeps it resident" in text
    assert "without <code>--chunks</code>" not in text  # so little is resident that chunks come by themselves
    names = {path.name for path in (tmp_path / "stills").iterdir()}
    assert {"map.png", "sizes.png", "runs.png", "map.svg", "sizes.svg", "runs.svg", "heaps"} <= names
    assert list(heaps.glob("main-arena-heap-*.png"))
    assert not list(heaps.glob(".arenascope-*"))
    assert (tmp_path / "victim").read_bytes() == b""
    assert "bytes in chunks of each size" in (tmp_path / "stills" / "sizes.svg").read_text(encoding="utf-8")
    with Image.open(tmp_path / "stills" / "map.png") as image:
        assert image.size == (1920, 1152)
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 4
    for path in [tmp_path / "r.html", *(tmp_path / "stills").glob("*.*")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_chunks_are_left_out_when_told(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("pins") as pid:
        assert run_here(pid, "--no-chunks", "-o", tmp_path / "r.html").returncode == 0
    assert "without <code>--chunks</code>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_default_name(dump: Path, tmp_path: Path) -> None:
    done = run(dump, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
    assert not done.stdout


def test_the_name_of_the_page_cannot_command_the_terminal(dump: Path, tmp_path: Path) -> None:
    done = run_here(dump, "-o", "\x1b[31m.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "\\x1b[31m.html: open it in a browser\n")


def test_a_symlink_is_not_followed(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "link.html").symlink_to(tmp_path / "victim")
    done = run_here(dump, "-o", tmp_path / "link.html")
    assert done.returncode == Code.IO
    assert "not a regular file" in done.stderr
    assert (tmp_path / "victim").read_text() == "untouched"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["./nothing"], Code.NO_TARGET, "'./nothing' is neither a process id nor a file"),
        ([], Code.USAGE, "Missing argument 'TARGET'"),
        (["DUMP", "-o", "/nowhere/r.html"], Code.IO, "cannot write '/nowhere/r.html': No such file"),
        (["DUMP", "-o", "/dev/null"], Code.IO, "'/dev/null' exists already, and is not a regular file"),
    ],
)
def test_errors_have_a_code_and_leave_nothing(
    arguments: list[str], code: Code, says: str, dump: Path, tmp_path: Path
) -> None:
    done = run_here(*[str(dump) if word == "DUMP" else word for word in arguments], cwd=tmp_path)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"dump"}


def test_a_page_for_which_there_is_no_room(dump: Path, tmp_path: Path) -> None:
    """The error names the file, and what is left is what was there before."""
    page = tmp_path / "page.html"
    page.write_text("of yesterday")
    command = [sys.executable, "-m", "arenascope", "report", str(dump), "-o", str(page)]
    limited = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command]
    env = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve())}
    done = subprocess.run(limited, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == Code.IO
    assert done.stderr == f"arenascope: cannot write '{page}': File too large\n"
    assert page.read_text() == "of yesterday"
    assert {path.name for path in tmp_path.iterdir()} == {"dump", "page.html"}


def test_a_directory_for_pictures_that_is_none(dump: Path, tmp_path: Path) -> None:
    done = run_here(dump, "--png", dump, cwd=tmp_path)
    assert done.returncode == Code.IO
    assert f"'{dump}' exists already, and is not a directory" in done.stderr


def test_dumps_that_lack_things(tmp_path: Path) -> None:
    """No chunks, no pages, no arenas, no mallocs: each still gives a page."""

    def without(*names: str) -> dict[str, np.ndarray[Any, Any]]:
        made = synthetic.sections()
        for name in names:
            made[name] = made[name][:0]
        if "heaps" in names and "arenas" not in names:
            made["arenas"]["heap_count"] = 0
        if "heaps" in names:
            made["ruby"]["heap"] = fmt.NO_INDEX
        made["heaps"]["chunk_count"] = made["heaps"]["page_count"] = 0
        return made

    everything = ("heaps", "arenas", "mallocs", "sizes", "threads", "mappings", "warnings")
    for index, names in enumerate((("pages",), ("pages", "heaps"), ("pages", *everything))):
        made = without(*names)
        if "arenas" in names:
            made["threads"] = made["threads"][:0]
        path = synthetic.write(tmp_path / f"dump{index}", made)
        done = run_here(path, path, "-o", tmp_path / "r.html", "--png", tmp_path / f"stills{index}")
        assert done.returncode == 0, done.stderr


def test_pictures_without_chunks(tmp_path: Path) -> None:
    """What lacks is said, and names no file of ours that is gone by then."""
    with process("pins") as pid:
        done = run_here(pid, "--no-chunks", "-o", tmp_path / "r.html", "--png", tmp_path / "stills")
    assert done.returncode == 0, done.stderr
    assert "no chunk records, so there are overviews only" in done.stderr
    assert ".arenascope-" not in done.stderr


def test_all_data_of_two_dumps_stays_below_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = [noise(tmp_path / name, 200_000) for name in ("one", "two")]
    monkeypatch.setattr("arenascope.report.map.data.LIMIT", 300_000)
    nothing = More(pack("calls", []), [lambda _: pack("sites", [])] * 2)
    drawn = map_blocks(dumps, regions(dumps), 4096, of_dumps(dumps)[1], nothing)
    assert sum(len(block.data) for block in drawn.blocks) <= 300_000 + 1000
    assert drawn.json_data
    assert all(part["step"] > 1 for part in drawn.json_data)


@pytest.mark.parametrize("seed", tiers.daily(range(24), range(8), "limits"))
def test_a_dump_that_lies_is_refused_or_drawn(tmp_path: Path, seed: int) -> None:
    """Some fields of nonsense: either the reader says no, or there is a page. Never an exception, never a warning."""
    random = np.random.default_rng(seed)
    made = synthetic.sections()
    for name in random.choice([name for name in made if name != "strings" and made[name].size], 3):
        raw = bytearray(made[name].tobytes())
        width = int(random.choice([1, 2, 4, 8]))
        at = int(random.integers(0, len(raw))) // width * width
        raw[at : at + width] = random.choice([b"\xff" * 8, random.bytes(8), b"\0" * 7 + b"\1"]).ljust(8, b"\0")[:width]
        made[name] = np.frombuffer(bytes(raw[: made[name].nbytes]), made[name].dtype)
    path = synthetic.write(tmp_path / "dump", made)
    try:
        dump = Dump(path)
    except DumpError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "</html>" in render(build([TakenDump(dump, from_dump=True)]))


def test_what_is_left_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of pins and chunk records that do not fit, and arenas beyond those that are listed."""
    made = synthetic.sections()
    made["pages"]["state"], made["pages"]["residency"] = fmt.PageState.PINNED, fmt.Residency.PRESENT
    dump = Dump(synthetic.write(tmp_path / "dump", made))

    def page() -> str:
        return render(build([TakenDump(dump, from_dump=True)]))

    assert "pins cannot be highlighted by size" not in page()
    assert "This file has room" not in page()
    monkeypatch.setattr("arenascope.report.map.data.PIN_LIMIT", 0)
    assert "pins cannot be highlighted by size" in page()
    monkeypatch.setattr("arenascope.report.map.data.CHUNK_LIMIT", 0)
    assert "This file has room for 0 of" in page()
    assert "arenas with the most free memory" not in page()
    made["arenas"] = np.repeat(made["arenas"], 3)
    made["arenas"]["heap_count"][1:] = 0
    dump = Dump(synthetic.write(tmp_path / "dump", made))
    monkeypatch.setattr("arenascope.report.page.tables.SHOWN_ARENAS", 2)
    assert "The 2 arenas with the most free memory" in page()


def test_pages_of_two_sizes_are_not_compared(tmp_path: Path) -> None:
    made = synthetic.sections()
    one = synthetic.write(tmp_path / "one", made)
    made["meta"][0]["page_size"] = 65536
    made["heaps"][0]["page_count"] = 1
    done = run_here(one, synthetic.write(tmp_path / "other", made), "-o", tmp_path / "r.html")
    assert done.returncode == Code.BAD_INPUT
    assert "4096, 65536" in done.stderr


def noise(path: Path, pages: int) -> Dump:
    """A dump that no compression helps with."""
    random = np.random.default_rng(1)
    made = synthetic.sections()
    end = synthetic.HEAP_START + pages * 4096
    made["heaps"][0]["end"] = made["heaps"][0]["protected_end"] = end
    made["heaps"][0]["page_count"], made["heaps"][0]["chunk_count"] = pages, 0
    made["pages"] = np.zeros(pages, fmt.PAGE)
    made["pages"]["in_use"] = random.integers(1, 200, pages)
    made["pages"]["fastbin"] = random.integers(0, 40, pages)
    made["pages"]["binned"] = 256 - made["pages"]["in_use"] - made["pages"]["fastbin"]
    made["pages"]["residency"], made["pages"]["state"] = fmt.Residency.PRESENT, fmt.PageState.USED
    made["chunks"] = np.zeros(0, fmt.CHUNKS)
    return Dump(synthetic.write(path, made))


def test_what_does_not_fit_is_told_coarser(tmp_path: Path) -> None:
    dump = noise(tmp_path / "dump", 200_000)
    laid = regions([dump])
    limit = 150_000  # for 200,000 pages, as LIMIT is for ten gigabytes
    units = DumpPages(dump, laid, 0).units(limit)
    assert len(units.block.data) <= limit
    assert units.step > 1
    planes = np.frombuffer(zlib.decompress(units.block.data), np.uint8).reshape(-1, 2, laid.total).astype(int)
    in_use = planes[1][0] + 256 * planes[1][1]
    assert np.abs(in_use - dump.pages["in_use"]).max() <= units.step // 2
    assert in_use.min() > 0  # something never becomes nothing
    # In base64, and with a hundred kilobytes and more for all else.
    assert LIMIT * 4 / 3 < TARGET_LIMIT - 200_000
