# SPDX-License-Identifier: MIT
"""Pictures for elsewhere: a still of the map with legend and verdict, the charts, and the C program's heat maps."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from arenascope.compare import compare
from arenascope.errors import ArenascopeError, Code
from arenascope.findings import judge
from arenascope.humanize import printable
from arenascope.private_files import create
from arenascope.report.charts import histograms
from arenascope.report.charts import matplotlib_charts as charts
from arenascope.report.colours import BACKGROUND
from arenascope.report.map.areas import TITLES
from arenascope.report.map.data import DumpPages
from arenascope.report.map.legend import STATES, legend
from arenascope.report.map.order import regions
from arenascope.report.map.page_colours import encoded, linear, rgb
from arenascope.report.page.compare import changes
from arenascope.report.page.inputs import PageFacts
from arenascope.wire import commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from arenascope.report.map.order import Regions
    from arenascope.wire.snapshot import TakenDump

ACROSS: Final = 1600  # pixels of the map, at most
ASPECT: Final = 2
DPI: Final = 160
TITLE: Final = 88  # characters a line
LABEL_APART: Final = 0.028  # of the map's height, between names of arenas


class Band(NamedTuple):
    """The pages of one arena: rows from `y` on."""

    arena: int
    first: int
    pages: int
    y: int


def write(snapshots: Sequence[TakenDump], folder: str, kind: str) -> list[Path]:
    """Write the stills as `kind` ("png" or "svg") files of mode 0600 into a directory; heat maps with the PNGs."""
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ArenascopeError(Code.IO, f"'{folder}' exists already, and is not a directory: choose another") from error
    written = []
    for name, figure in _figures(snapshots):
        path = place / f"{name}.{kind}"
        with create(path) as file, mpl.rc_context({**charts.STYLE, "svg.hashsalt": name}):
            figure.set_facecolor("white")
            figure.set_dpi(DPI)
            if kind == "svg":
                FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # type: ignore[no-untyped-call]
            else:
                FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})  # type: ignore[no-untyped-call]
        written.append(path)
    if kind == "png":
        for snapshot, side in zip(snapshots, _sides(snapshots)):
            _heat_maps(snapshot, place / f"heaps{'-' if side else ''}{side}")
    return written


def _heat_maps(snapshot: TakenDump, folder: Path) -> None:
    """What `arenadump png` draws, of the very dump that the page shows; nothing where there are no heaps of glibc's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".arenascope-", dir=folder) as own:
        dump = Path(own) / "dump"
        snapshot.dump.save(dump)
        try:
            commands.png(str(dump), str(folder))
        except ArenascopeError as error:
            if error.code != Code.NO_MALLOC:
                raise


def _sides(snapshots: Sequence[TakenDump]) -> list[str]:
    return [""] if len(snapshots) == 1 else ["before", "after"]


def _figures(snapshots: Sequence[TakenDump]) -> Iterator[tuple[str, Figure]]:
    dumps = [snapshot.dump for snapshot in snapshots]
    laid = regions(dumps)
    facts = [PageFacts(snapshot.dump, from_dump=snapshot.from_dump) for snapshot in snapshots]
    drawn = [DumpPages(dump, laid, index) for index, dump in enumerate(dumps)]
    if laid.total:
        yield "map", _map(facts, laid, drawn)
    who = _who(facts[-1])
    sizes = histograms.by_chunk_size(dumps[-1])
    if sizes:
        figure = charts.draw(sizes, "chunk size, from", apart=histograms.PINNING)
        yield "sizes", _titled(figure, f"{who}: bytes in chunks of each size")
    runs = histograms.by_free_run(drawn[-1].states()[: laid.malloc_total], laid, facts[-1].summary.target.page_size)
    if runs:
        figure = charts.draw(runs, "length of the run, from")
        yield "runs", _titled(figure, f"{who}: free pages, by the run that they lie in")


def _titled(figure: Figure, words: str) -> Figure:
    """A chart that stands alone has to say what it is."""
    figure.suptitle(words, x=0.01, ha="left", fontsize=11, fontweight="bold", parse_math=False)
    return figure


def _who(facts: PageFacts) -> str:
    target = facts.summary.target
    return printable(target.comm) + (f" (pid {target.pid})" if target.pid else "")


def _map(facts: list[PageFacts], laid: Regions, drawn: list[DumpPages]) -> Figure:
    names = facts[0].arena_names | facts[-1].arena_names | {-kind: title.name for kind, title in TITLES.items()}
    with mpl.rc_context(charts.STYLE):
        across = len(drawn)
        figure = Figure(figsize=(12, 7.2), layout="constrained")
        axes = figure.subplots(1, across, squeeze=False)[0]
        for place, pages, side in zip(axes, drawn, ["before", "after"]):
            _one_map(place, laid, pages.light(), names, ASPECT / across)
            if across > 1:
                place.set_title(side, loc="left", fontsize=11)
        words = f"{_who(facts[-1])}: {_verdict(facts)}"
        figure.suptitle(
            textwrap.fill(words, TITLE), x=0.01, ha="left", fontsize=14, fontweight="bold", parse_math=False
        )
        patches = []
        for line in legend([pages.legend() for pages in drawn]):
            if line.colour not in STATES:
                label = f"{line.appearance.name}, {' → '.join(line.shown)}"
                patches.append(
                    Patch(facecolor=line.appearance.phusion, edgecolor="#999999", linewidth=0.5, label=label)
                )
        figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _verdict(facts: list[PageFacts]) -> str:
    if len(facts) > 1:
        return changes(compare(facts[0].digest, facts[-1].digest)).lead
    verdict = judge(facts[0])
    return " ".join([verdict.lead, *(finding.sentence for finding in verdict.findings[:1])])


def _one_map(axes: Axes, laid: Regions, light: NDArray[np.float32], names: dict[int, str], aspect: float) -> None:
    width = max(32, int(np.ceil(np.sqrt(laid.total * aspect))))
    bands, height = _bands(laid, width)
    cells = np.broadcast_to(linear(rgb(BACKGROUND)), (height * width, 3)).copy()
    for band in bands:
        cells[band.y * width : band.y * width + band.pages] = light[band.first : band.first + band.pages]
    cells = cells.reshape(height, width, 3)
    axes.imshow(blended(cells, -(-width // ACROSS)), interpolation="none", aspect="auto", extent=(0, width, height, 0))
    ticks: list[Any] = []
    for band in bands:
        middle = band.y + -(-band.pages // width) / 2
        if not ticks or middle - ticks[-1][0] >= LABEL_APART * height:
            ticks.append((middle, "mmapped" if band.arena < 0 else names[laid.arenas[band.arena]]))
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _bands(laid: Regions, width: int) -> tuple[list[Band], int]:
    """Each arena from a row of its own on, as the page's map has them."""
    gap = max(1, round(laid.total / width / 100))
    bands, y = [], 0
    edges = np.flatnonzero(np.diff(laid.arena)) + 1
    for group in np.split(np.arange(len(laid.arena)), edges):
        count = int(laid.pages[group].sum())
        if count:
            bands.append(Band(int(laid.arena[group[0]]), int(laid.first[group[0]]), count, y))
            y += -(-count // width) + gap
    return bands, max(y - gap, 1)


def blended(cells: NDArray[np.float32], factor: int) -> NDArray[np.uint8]:
    """An image of cells of linear light; squares of `factor` by `factor` become one pixel, their mean."""
    if factor > 1:
        height, width = (-(-side // factor) for side in cells.shape[:2])
        padded = np.broadcast_to(linear(rgb(BACKGROUND)), (height * factor, width * factor, 3)).copy()
        padded[: cells.shape[0], : cells.shape[1]] = cells
        cells = padded.reshape(height, factor, width, factor, 3).mean(axis=(1, 3))
    return encoded(cells)
