# SPDX-License-Identifier: MIT
"""arenadump png: every pixel of a small dump where it belongs, and files that go nowhere else."""

from __future__ import annotations

import os
import stat
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from tools import harness
from tools import synthetic_dump as synthetic

from arenascope.wire import dump_records as fmt

LEFT = 100  # where the blocks of a heap's picture begin
OVERVIEW_LEFT = 12
BLOCK = 16
USED, STRANDED, RETURNED = (0xD6, 0x27, 0x28), (0x70, 0x70, 0x70), (0xFF, 0xFF, 0xFF)
USED_SAFE = (0xD5, 0x5E, 0x00)

Colour = tuple[int, int, int]


class Picture:
    """A PNG of ours, without filters: a palette and four bits a pixel, or (overviews) three bytes a pixel."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        packed, self.palette, at = b"", list[Colour](), 8
        while at < len(data):
            length, kind = struct.unpack_from(">I4s", data, at)
            body = data[at + 8 : at + 8 + length]
            assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + length)[0]
            if kind == b"IHDR":
                self.width, self.height, depth, colour_type = struct.unpack_from(">IIBB", body)
                assert (depth, colour_type) in ((4, 3), (8, 2))
                self.mean = colour_type == 2
            elif kind == b"PLTE":
                self.palette = [(body[i], body[i + 1], body[i + 2]) for i in range(0, length, 3)]
            elif kind == b"IDAT":
                packed += body
            at += 12 + length
        raw, stride = zlib.decompress(packed), (3 * self.width if self.mean else (self.width + 1) // 2) + 1
        assert len(raw) == stride * self.height
        self.rows = [raw[i * stride + 1 : (i + 1) * stride] for i in range(self.height)]
        assert all(raw[i * stride] == 0 for i in range(self.height)), "filtered rows"

    def __getitem__(self, place: tuple[int, int]) -> Colour:
        x, y = place
        if self.mean:
            red, green, blue = self.rows[y][3 * x : 3 * x + 3]
            return red, green, blue
        return self.palette[self.rows[y][x // 2] >> (0 if x % 2 else 4) & 15]

    def first_row(self, x: int, colour: Colour) -> int:
        return next(y for y in range(self.height) if self[x, y] == colour)


def draw(arenadump: harness.Arenadump, dump: Path, pictures: Path, *options: str) -> set[str]:
    arenadump.check("png", dump, "-o", pictures, *options)
    return {path.name for path in pictures.iterdir()}


def test_a_pixel_is_sixteen_bytes(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    chunks = ((4096 - 160, fmt.ChunkClass.IN_USE), (160, fmt.ChunkClass.BINNED), (4096, fmt.ChunkClass.TOP))
    made["chunks"] = np.array([record for size, kind in chunks for record in synthetic.chunk(size, kind)], fmt.CHUNKS)
    dump = synthetic.write(tmp_path / "dump", made)
    names = draw(arenadump, dump, tmp_path / "pictures")
    assert names == {"README.txt", "main-arena-heap-00.png", "main-arena-overview.png"}
    assert " main arena, heap 0 (brk segment, " in (tmp_path / "pictures/README.txt").read_text()
    picture = Picture(tmp_path / "pictures/main-arena-heap-00.png")
    top = picture.first_row(LEFT, USED)
    # The first page: in use but for its last ten pixels. A gap. The second page: top, stranded.
    for y in range(BLOCK):
        for x in range(BLOCK):
            free = y * BLOCK + x >= BLOCK * BLOCK - 10
            assert picture[LEFT + x, top + y] == (STRANDED if free else USED), (x, y)
            assert picture[LEFT + BLOCK + 1 + x, top + y] == STRANDED
        assert picture[LEFT + BLOCK, top + y] == picture[0, 0]
    assert picture[LEFT, top + BLOCK] == picture[0, 0]


def test_absent_pages_are_white(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["pages"][1]["residency"], made["pages"][1]["state"] = 0, fmt.PageState.RETURNED
    draw(arenadump, synthetic.write(tmp_path / "dump", made), tmp_path / "pictures")
    picture = Picture(tmp_path / "pictures/main-arena-heap-00.png")
    assert picture[LEFT + BLOCK + 1, picture.first_row(LEFT, USED)] == RETURNED


@pytest.mark.parametrize(("palette", "used"), [("phusion", USED), ("safe", USED_SAFE)])
@pytest.mark.parametrize("scale", [1, 4, 16])
def test_a_cell_is_a_page(arenadump: harness.Arenadump, tmp_path: Path, scale: int, palette: str, used: Colour) -> None:
    dump = synthetic.write(tmp_path / "dump", synthetic.sections())
    draw(arenadump, dump, tmp_path / "pictures", "--scale", str(scale), "--palette", palette)
    picture = Picture(tmp_path / "pictures/main-arena-overview.png")
    top = picture.first_row(OVERVIEW_LEFT, used)
    cell = scale - (scale >= 6)  # a gap of one pixel where it can be spared
    for y in range(scale):
        for x in range(scale):
            inside = x < cell and y < cell
            assert picture[OVERVIEW_LEFT + x, top + y] == (used if inside else picture[0, 0])
            assert picture[OVERVIEW_LEFT + scale + x, top + y] == (STRANDED if inside else picture[0, 0])
    assert picture[OVERVIEW_LEFT + 2 * scale, top] == picture[0, 0]


def test_a_cell_has_the_mean_of_its_bytes(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Four fifths free: half way between the two greys and reds would be far too red. The mean is taken of light."""
    made = synthetic.sections()
    made["pages"][0]["in_use"], made["pages"][0]["binned"] = 51, 205
    draw(arenadump, synthetic.write(tmp_path / "dump", made), tmp_path / "pictures")
    picture = Picture(tmp_path / "pictures/main-arena-overview.png")

    def light(encoded: int) -> float:
        return float(((encoded / 255 + 0.055) / 1.055) ** 2.4)

    wanted = [(51 * light(used) + 205 * light(free)) / 256 for used, free in zip(USED, STRANDED)]
    mean = [round(255 * (1.055 * c ** (1 / 2.4) - 0.055)) for c in wanted]
    top = picture.first_row(OVERVIEW_LEFT + 4, STRANDED)  # the second page, all free
    assert list(picture[OVERVIEW_LEFT, top]) == mean


def test_python_and_ruby_have_overviews(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Two runs of Python's pages, and one page of Ruby's; a quarter of the first page is headers."""
    made = synthetic.sections()
    made["runtime_pages"] = np.zeros(5, fmt.RUNTIME_PAGE)
    made["runtime_pages"]["address"] = [0x10000, 0x11000, 0x20000, 0x21000, 0x30000]
    made["runtime_pages"]["in_use"], made["runtime_pages"]["free"] = [384, 512, 0, 0, 512], [0, 0, 512, 0, 0]
    made["runtime_pages"]["kind"] = [fmt.RuntimeKind.CPYTHON] * 4 + [fmt.RuntimeKind.RUBY]
    made["runtime_pages"]["residency"] = [fmt.Residency.PRESENT] * 3 + [0, fmt.Residency.PRESENT]
    names = draw(arenadump, synthetic.write(tmp_path / "dump", made), tmp_path / "pictures")
    assert {"python-overview.png", "ruby-overview.png"} <= names
    picture = Picture(tmp_path / "pictures/python-overview.png")
    top = picture.first_row(OVERVIEW_LEFT + 4, USED)
    assert picture[OVERVIEW_LEFT, top] not in (USED, picture[0, 0]), "with the headers' part of blue"
    assert picture[OVERVIEW_LEFT + 8, top] == picture[0, 0]
    under = picture.first_row(OVERVIEW_LEFT, STRANDED)
    assert under > top + 4, "a run of its own, below its label"
    assert picture[OVERVIEW_LEFT + 4, under] == RETURNED
    ruby = Picture(tmp_path / "pictures/ruby-overview.png")
    row = ruby.first_row(OVERVIEW_LEFT, USED)
    assert ruby[OVERVIEW_LEFT + 4, row] == ruby[0, 0]


def test_without_chunks_there_are_overviews(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"][0]["flags"] &= ~fmt.MetaFlag.HAS_CHUNKS & 0xFFFFFFFF
    made["heaps"][0]["chunk_count"] = 0
    del made["chunks"]
    done = arenadump.run("png", synthetic.write(tmp_path / "dump", made), "-o", tmp_path / "pictures")
    assert done.returncode == 0
    assert "--chunks" in done.stderr
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"README.txt", "main-arena-overview.png"}


def test_of_a_running_process(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    names = draw(arenadump, Path(str(os.getpid())), tmp_path / "pictures")
    assert "main-arena-overview.png" in names
    assert any(name.startswith("main-arena-heap-00") for name in names)  # a large heap is drawn in parts
    readme = (tmp_path / "pictures/README.txt").read_text()
    for name in names - {"README.txt"}:
        assert name in readme
        assert Picture(tmp_path / "pictures" / name).mean == name.endswith("-overview.png")
    assert str(os.getpid()) in readme


def test_private_and_never_through_a_symlink(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    dump = synthetic.write(tmp_path / "dump", synthetic.sections())
    pictures, elsewhere = tmp_path / "pictures", tmp_path / "elsewhere"
    draw(arenadump, dump, pictures)
    draw(arenadump, dump, pictures)  # replaces what it drew before
    assert stat.S_IMODE(pictures.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in pictures.iterdir()} == {0o600}

    elsewhere.write_text("precious")
    (pictures / "main-arena-overview.png").unlink()
    (pictures / "main-arena-overview.png").symlink_to(elsewhere)
    done = arenadump.run("png", dump, "-o", pictures)
    assert done.returncode == 8
    assert "symbolic link" in done.stderr
    assert elsewhere.read_text() == "precious"

    (tmp_path / "link").symlink_to(pictures)
    for name in ("link", "link/"):
        done = arenadump.run("png", dump, "-o", f"{tmp_path}/{name}")
        assert done.returncode == 8, done.stderr


@pytest.mark.parametrize("options", [["--scale", "0"], ["--scale", "17"], ["--scale", "4x"], ["--palette", "red"], []])
def test_usage(arenadump: harness.Arenadump, tmp_path: Path, options: list[str]) -> None:
    where = ["-o", str(tmp_path)] if options else []
    assert arenadump.run("png", sys.executable, *options, *where).returncode == 2
