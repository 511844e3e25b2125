# SPDX-License-Identifier: MIT
"""What is made of results: the verdict, the table and the page, of runs whose figures are chosen here."""

from __future__ import annotations

import html
import json
import random
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console
from tools import synthetic_dump as synthetic
from tools import tiers

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import run_reports, spec
from arenascope.experiment.analysis import Analysis, analyse
from arenascope.experiment.analysis_json import as_values
from arenascope.experiment.charts import LEDGER, ledgers, over_time
from arenascope.experiment.markdown import render as render_markdown
from arenascope.experiment.page import render as render_page
from arenascope.experiment.results_dir import Store
from arenascope.experiment.sampler import Sample
from arenascope.experiment.table import render as render_table
from arenascope.experiment.verdict import verdict
from arenascope.rows import RESIDENT
from arenascope.schema import schema
from arenascope.wire.dump import Dump
from arenascope.wire.summary import document_of

MIB = 1 << 20
SCHEMA = schema("analysis")
MATRIX = ("plain", "arenas-1", "arenas-2", "no-tcache")


def made(
    folder: Path,
    figures: dict[str, tuple[float, float] | None],
    *,
    repeats: int = 7,
    hostile: str = "",
    marks: tuple[str, ...] = ("full", "empty"),
    **changed: Any,
) -> Store:
    """Results in which a configuration has about these MiB and seconds; None: its runs fail."""
    data = spec.inline(
        {
            "name": "made",
            "title": f"Made up {hostile}",
            "experiment": {"repeats": repeats, "warmup": 0, **changed},
            "parameters": {"size": f"1 {hostile}"},
            "workload": {"command": ["true", hostile]},
            "configuration": [
                {"name": name, "says": hostile, "env": {"A": hostile}, "preload": ["libm.so.7|libm.so.6"]}
                for name in figures
            ],
        }
    )
    store = Store.create(folder, data, Path(), {"far": f"it is not here {hostile}"})
    rng = random.Random(1)
    for planned in store.plan:
        chosen = figures[planned.configuration]
        result: dict[str, Any] = {
            "status": "ok" if chosen else "failed",
            "reason": None if chosen else f"it ended with exit code 1 {hostile}",
            "environment": {"A": hostile, "LD_PRELOAD": "/lib/libm.so.6:/lib/libworkload.so"},
            "metrics": {"cpu": None, "rss_average": None},
            "marks": [],
            "notes": {},
            "sampling": {"processes": 1},
            "machine": {"others_cpu": 0.01, "noisy": False},
            "took": 1.0,
        }
        samples = []
        if chosen:
            held, cpu = (each * rng.uniform(0.98, 1.02) for each in chosen)
            result["metrics"] = {"cpu": cpu, "rss_average": round(held * MIB), "wall": 1.0, "minor_faults": 100}
            result["marks"] = [{"name": name, "rss": round(held * MIB), "pss": 0} for name in marks]
            samples = [Sample(at / 10, round(held * MIB), 0, 0, 0, 1) for at in range(11)]
        store.keep(planned, store.begin(planned), result, samples)
    return store


def judged(folder: Path, **figures: tuple[float, float] | None) -> Analysis:
    names = dict(zip(figures, figures.values()))
    return analyse(made(folder, {name.replace("_", "-"): each for name, each in names.items()}))


def test_a_clear_winner_is_recommended(tmp_path: Path) -> None:
    analysis = judged(tmp_path / "r", plain=(100, 1), small=(50, 1), large=(120, 0.99))
    assert analysis.front == ["small"]
    lead = verdict(analysis).lead
    assert re.match(r"Take small: memory on average -5\d % \(-5\d to -4\d\), CPU as plain, as far as can be told", lead)


def test_a_price_is_named_and_left_to_the_reader(tmp_path: Path) -> None:
    analysis = judged(tmp_path / "r", plain=(100, 1), small=(50, 1.5), worse=(110, 1.6))
    assert analysis.front == ["plain", "small"]
    lead = verdict(analysis).lead
    assert lead.startswith("No single recommendation: small needs the least memory (memory on average -5")
    assert "between plain and small" in lead
    assert "CPU +5" in lead


def test_what_is_better_at_no_higher_price_is_named(tmp_path: Path) -> None:
    lead = verdict(judged(tmp_path / "r", plain=(100, 1), small=(50, 1.5), both=(70, 0.8))).lead
    assert lead.startswith("No single recommendation: small needs the least memory (memory on average -5")
    assert re.search(r"At no higher price than plain: both \(memory on average -3\d % .*, CPU -2\d % ", lead)
    assert lead.endswith("Choose between small and both by the price that you accept.")


def test_of_several_that_are_alike_one_is_to_be_taken(tmp_path: Path) -> None:
    lead = verdict(judged(tmp_path / "r", plain=(100, 1), small=(50, 1), tiny=(50.1, 1))).lead
    assert lead.startswith("Take one of small and tiny, which cannot be told apart: memory on average -5")


def test_what_cannot_be_told_apart_is_not_recommended(tmp_path: Path) -> None:
    analysis = judged(tmp_path / "r", plain=(100, 1), same=(99.9, 1))
    assert verdict(analysis).lead == "Keep plain: no other configuration is known to need less memory on average."
    assert analysis.alike(analysis.memory) == [("plain", "same")]


def test_on_a_noisy_machine_nothing_is_recommended(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1)})
    for planned in store.plan[:8]:
        path = store.run_folder(planned) / "run.json"
        path.write_text(path.read_text().replace('"noisy": false', '"noisy": true'))
    outcome = verdict(analyse(store))
    assert outcome.lead.startswith("No recommendation: in most runs other programs used more than a tenth")
    assert (
        "In 8 of 14 runs other programs used more than a tenth of the machine: do not trust the times."
        in outcome.caveats
    )


def test_too_few_runs_are_no_ground(tmp_path: Path) -> None:
    analysis = analyse(made(tmp_path / "r", {"plain": (100, 1), "small": (10, 1)}, repeats=3))
    outcome = verdict(analysis)
    assert outcome.lead.startswith("No recommendation: fewer than 4 runs")
    assert outcome.findings == ()
    jsonschema.validate(as_values(analysis), SCHEMA)
    assert analysis.front == []
    shown = render_markdown(analysis)
    assert "*" not in shown.split("\n", 1)[1], "none is marked as better, or as not to be told apart"
    assert "~" not in shown


def test_failed_runs_are_named_and_left_out(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "bad": None, "small": (50, 1)})
    analysis = analyse(store)
    outcome = verdict(analysis)
    assert "Failed runs, left out: bad (7)." in outcome.caveats
    assert analysis.row("bad").runs == 0
    assert "bad" not in analysis.front
    page = render_page(analysis, store, {})
    assert "failed: it ended with exit code 1" in page
    assert re.findall(r"LD_PRELOAD=\S+", page) == ["LD_PRELOAD=libm.so.6</td></tr>"] * 3, (
        "what it was, of what it could be"
    )
    with pytest.raises(ArenascopeError) as caught:
        analyse(made(tmp_path / "all", {"plain": None, "bad": None}))
    assert caught.value.code == Code.NO_TARGET
    assert "the first failed: it ended with exit code 1" in str(caught.value)


def test_results_that_are_not_complete_are_analysed_and_said_so(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1)})
    for planned in store.plan[-3:]:
        (store.run_folder(planned) / "run.json").unlink()
    analysis = analyse(store)
    assert (analysis.made, analysis.planned) == (11, 14)
    assert "Not complete: 3 runs of 14 have not been made yet." in verdict(analysis).caveats


def test_several_processes_are_compared_by_pss(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1)})
    for planned in store.plan:
        path = store.run_folder(planned) / "run.json"
        result = json.loads(path.read_text())
        result["sampling"]["processes"] = 3
        result["metrics"]["pss_average"] = result["metrics"].pop("rss_average") // 2
        path.write_text(json.dumps(result))
    analysis = analyse(Store(store.folder))
    assert analysis.memory == "pss_average"
    assert 20 * MIB < analysis.row("small").estimates["pss_average"].median < 30 * MIB


def test_the_page_says_what_cannot_be_told_apart(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1), "tiny": (50.1, 1)})
    analysis = analyse(store)
    assert "1 cannot be told apart in memory on average, 3 in CPU." in verdict(analysis).caveats[-1]
    page = render_page(analysis, store, {})
    cells = re.findall(
        r"<td[^>]*>(?P<cell>.*?)</td>", page[page.index(">Each pair</h2>") : page.index(">At points of")]
    )
    memory, cpu = cells[:9], cells[9:]
    assert [cell if cell in {"", "~"} else cell[0] for cell in memory] == ["", "+", "+", "-", "", "~", "-", "~", ""]
    assert cpu == ["", "~", "~", "~", "", "~", "~", "~", ""]


def test_json_says_what_the_page_says(tmp_path: Path) -> None:
    analysis = judged(tmp_path / "r", plain=(100, 1), small=(50, 1.5))
    outcome = json.loads(json.dumps(as_values(analysis)))
    jsonschema.validate(outcome, SCHEMA)
    assert outcome["front"] == ["plain", "small"]
    assert outcome["verdict"]["lead"] == verdict(analysis).lead
    pairs = {(each["a"], each["b"]): each for each in outcome["differences"]["rss_average"]}
    assert pairs["plain", "small"]["apart"]
    assert pairs["plain", "small"]["median"] == -pairs["small", "plain"]["median"]


def test_the_table_fits_a_terminal(tmp_path: Path) -> None:
    console = Console(width=120)
    with console.capture() as shown:
        console.print(render_table(judged(tmp_path / "r", plain=(100, 1), small=(50, 1.5))))
    text = shown.get()
    assert "…" not in text
    for word in ("plain *", "small *", "average", "MiB", "far: not available here: it is not here", "full"):
        assert word in text


def test_a_narrow_terminal_gets_fewer_columns_and_whole_ones(tmp_path: Path) -> None:
    analysis = judged(tmp_path / "r", plain=(100, 1), small=(50, 1.5))
    shown = {}
    for width, repeated in ((100, 1), (60, 8), (46, 1)):
        console = Console(width=width)
        with console.capture() as text:
            console.print(render_table(replace(analysis, marks=analysis.marks * repeated)))
        shown[width] = text.get()
        assert "…" not in shown[width]
        assert max(map(len, shown[width].splitlines())) <= width
        assert "average" in shown[width]
    assert "Left out for lack of room: the memory at 16 points of the work." in " ".join(shown[60].split())
    assert "lack of room" not in shown[100]
    assert "98.9 Mi" in shown[46], "the memory at two marks"
    assert "Left out for lack of room: wall" in shown[46]


def test_markdown_is_a_table_whatever_the_names(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1.5)}, hostile="a | b\n<img>")
    lines = render_markdown(analyse(store)).splitlines()
    assert lines[0].startswith("**Made up a \\| b &lt;img>.** No single recommendation: small needs the least memory")
    table = lines[2 : lines.index("", 2)]
    assert table[0].startswith("| configuration | runs | average (MiB) | CPU (s) |")
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert any(line.startswith("| small \\* | 7 |") for line in table)


def test_what_a_workload_calls_its_marks_is_no_command_and_no_formula(tmp_path: Path) -> None:
    marks = ("\x1b[31mfull", "$\\frac{$", "a|b")
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1.5)}, marks=marks)
    analysis = analyse(store)
    console = Console(width=120, force_terminal=False)
    with console.capture() as shown:
        console.print(render_table(analysis))
    page = render_page(analysis, store, {})
    for text in (shown.get(), page, render_markdown(analysis)):
        assert "\x1b" not in text
        assert "\\x1b[31mfull" in text
        assert "$\\frac{$" in text


def test_links_lead_to_maps_wherever_the_results_lie(tmp_path: Path) -> None:
    store = made(tmp_path / "50% #1?", {"plain": (100, 1)}, repeats=1)
    folder = store.run_folder(store.plan[0])
    (folder / "dump.arenascope").touch()
    (folder / "map.html").touch()
    assert run_reports.links(store, tmp_path) == {0: "50%25%20%231%3F/runs/0000-plain/map.html"}


def test_every_row_of_the_ledger_has_a_colour_of_its_own() -> None:
    colours = [LEDGER[row.paint] for row in RESIDENT]
    assert len(set(colours)) == len(colours)


def test_a_single_configuration_has_room_for_its_ledger(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1)})
    summary = document_of(Dump(synthetic.write(tmp_path / "dump", synthetic.sections())), from_dump=False)
    summary["ledger"] = {row.name: MIB for row in RESIDENT}
    for planned in store.plan:
        (store.run_folder(planned) / "ledger.json").write_text(json.dumps(summary))
    figure = ledgers(analyse(store))
    assert figure
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    legend = figure.axes[0].get_legend()
    assert legend
    box = legend.get_window_extent()
    assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert "There is nothing to compare yet." in render_page(analyse(store), store, {})


def test_the_end_of_the_work_is_marked_on_the_curve_or_not_at_all(tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1)})
    for startup, dots in ((-0.1, 1), (0.5, 0)):  # a run has samples for a second, and the work takes one
        analysis = analyse(store)
        analysis.rows[0].figures["startup"] = [startup] * 7
        drawn = [line for line in over_time(analysis, store).axes[0].get_lines() if line.get_marker() == "o"]
        assert len(drawn) == dots


def test_a_command_is_named_once(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "r", spec.inline(spec.of_command(["sleep", "1"], ["arenas"])), Path(), {})
    done = made(tmp_path / "other", {"plain": (100, 1)})
    page = render_page(replace(analyse(done), spec=store.spec), done, {})
    assert page.count("sleep 1") == 2, "in the title of the window, and at the head of the page"


@pytest.mark.parametrize("broken", ["{", "[]", '{"schema": "other/1"}', '{"schema": "arenascope.experiment/1"}'])
def test_results_that_are_none_are_refused(broken: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(broken)
    with pytest.raises(ArenascopeError) as caught:
        Store(tmp_path)
    assert caught.value.code == Code.BAD_INPUT


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("run.json", text) for text in ("{", "null", "[]", "{}", '{"number": 0, "machine": {}}')),
        *(("samples.csv", text) for text in ("", "time\n", "time,rss\nx,y\n", "time,rss\n1\n")),
    ],
)
def test_a_run_that_is_damaged_is_named(name: str, text: str, tmp_path: Path) -> None:
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1)}, repeats=1)
    path = store.run_folder(store.plan[0]) / name
    path.write_text(text)
    with pytest.raises(ArenascopeError) as caught:
        render_page(analyse(store), store, {})
    assert caught.value.code == Code.BAD_INPUT
    assert str(path) in str(caught.value)


def test_the_page_is_complete_and_lets_nothing_in(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
    store = made(tmp_path / "r", {"plain": (100, 1), "small": (50, 1), "bad": None}, hostile=hostile)
    page = render_page(analyse(store), store, {0: "runs/0000-plain/map.html"})
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'; style-src 'sha256-" in html.unescape(page)
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert 'href="runs/0000-plain/map.html"' in page
    for title in ("Memory over time", "What it costs", "Figures", "Each pair", "At points of the work", "All runs"):
        assert f">{title}</h2>" in page


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    store = made(folder / "r", {"plain": (100, 1), "small": (50, 1.5), "bad": None})
    (folder / "page.html").write_text(render_page(analyse(store), store, {}), encoding="utf-8")
    return folder / "page.html"


@pytest.mark.slow
def test_the_page_in_a_browser(browser: Any, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert page.evaluate("getComputedStyle(document.querySelector('.interval')).display") == "block"
    assert page.locator("svg.chart").count() == 3
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.querySelector('.settings td:last-child').clientWidth") > 200
    assert page.evaluate("document.querySelector('svg.chart').getBoundingClientRect().width") > 600
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == [], "the policy lets the page's own style in"
    assert asked == [page_file.as_uri()]
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
def test_axe_finds_nothing(browser: Any, page_file: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run().then(found => found.violations)")
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]][:4]) for each in violations] == []
    context.close()
