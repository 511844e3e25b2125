# SPDX-License-Identifier: MIT
"""The Python API, on real processes: what it says is what the command line says, and it leaves nothing behind."""

from __future__ import annotations

import gc
import json
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from tools import command, harness, programs
from tools import synthetic_dump as synthetic
from tools.keeps import Keeps
from tools.paths import ROOT

import arenascope
from arenascope.table import Table
from arenascope.wire.dump_records import SECTIONS

PUBLIC = [
    "Code",
    "Error",
    "LeakRow",
    "Ledger",
    "OwnerRow",
    "SiteRow",
    "Snapshot",
    "Table",
    "TypeRow",
    "diff",
    "inspect",
    "open_dump",
    "profile",
    "read_timeline",
    "read_trace",
    "trim",
]
pytestmark = pytest.mark.usefixtures("own_arenadump")


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Churn]:
    folder = tmp_path_factory.mktemp("churn")
    with harness.Churn([str(programs.build("churn", "-lpthread"))], directory=folder) as made:
        made.ask("go")
        yield made


@pytest.mark.check
def test_the_public_names_are_these() -> None:
    """A change of this list is a change of the contract: docs/python-api.md."""
    assert sorted(arenascope.__all__) == sorted([*PUBLIC, "__version__"])
    assert all(hasattr(arenascope, name) for name in arenascope.__all__)
    page = (ROOT / "docs/python-api.md").read_text()
    functions = {name for name in PUBLIC if name[0].islower()}
    assert functions == set(re.findall(r"^\| `(\w+)\(.*?\)` \|", page.split("## Snapshot")[0], re.MULTILINE))
    members = {name for name in dir(arenascope.Snapshot) if not name.startswith("_")} - {"dump"}
    assert members | {"source", "remarks"} <= set(re.findall(r"`(\w+)", page))


@pytest.mark.check
def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    asked = ("trim", "Snapshot")
    code = "; ".join(
        ["import sys, arenascope", *(f"arenascope.{name}; print('numpy' in sys.modules)" for name in asked)]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_the_example_of_the_readme(keeps: Keeps, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"pid": keeps.pid})
    first, *owners = capsys.readouterr().out.splitlines()
    assert " resident" in first
    assert len(owners) == 5


def test_it_says_what_the_command_says(churn: harness.Churn, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    with arenascope.inspect(churn.pid, mode="freeze", max_pause=600, chunks=True) as snapshot:
        snapshot.save(path)
        assert snapshot.source == "target"
        assert snapshot.exact
        assert snapshot.mode == "freeze"
        assert snapshot.pid == churn.pid
        assert snapshot.pause_ns
        assert snapshot.taken_ns
        assert snapshot.rss == sum(held for held in snapshot.ledger.resident.values() if held is not None)
        assert snapshot.ledger["in_use"] == snapshot.facts.ledger["in_use"]
        assert len(snapshot.section("chunks")) > 0
        assert snapshot.verdict.findings
        assert snapshot.arenas
    with arenascope.open_dump(path) as again:
        printed = json.loads(command.arenascope("summary", path, "--json").stdout)
        printed.pop("findings")
        assert again.summary() == printed
        assert again.ledger == snapshot.ledger
        assert again.source == "dump"
        assert arenascope.inspect(path).ledger == again.ledger


def test_who_holds_it(keeps: Keeps) -> None:
    with arenascope.inspect(keeps.pid, graph=True, max_pause=600) as snapshot:
        owners, types, leaks = snapshot.owners(), snapshot.types(), snapshot.leaks()
    said = json.loads(command.arenascope("owners", keeps.pid, "--json").stdout)
    assert [row.retained for row in owners] == sorted((row.retained for row in owners), reverse=True)
    assert {row.retained for row in owners} <= {each["retained"] for each in said["branches"] if each["depth"] == 0}
    assert sum(row.count for row in types) == said["graph"]["chunks"] + said["graph"]["objects"]["count"]
    assert all(row.count > 0 for row in leaks)
    assert pickle.loads(pickle.dumps(owners[0])) == owners[0]


def test_why(keeps: Keeps, monkeypatch: pytest.MonkeyPatch) -> None:
    with arenascope.inspect(keeps.pid, mode="freeze", max_pause=600) as snapshot:
        with pytest.raises(arenascope.Error) as caught:
            snapshot.why(1)
        assert caught.value.code in {arenascope.Code.USAGE, arenascope.Code.NO_TARGET}
        address = min(keeps.of[next(iter(keeps.of))]) + 16
        assert snapshot.why(address).address == hex(address)
    with arenascope.inspect(keeps.pid, mode="live") as snapshot:
        monkeypatch.setattr("arenascope.snapshot.identity_of", lambda _: None)  # as if another process had the PID
        with pytest.raises(arenascope.Error, match="not the one of the snapshot") as caught:
            snapshot.why(address)
        assert caught.value.code == arenascope.Code.TARGET_GONE


def test_what_is_not_there_says_what_to_ask_for(churn: harness.Churn) -> None:
    with arenascope.inspect(churn.pid) as snapshot:
        for ask, word in (
            (snapshot.owners, "graph=True"),
            (snapshot.types, "graph=True"),
            (snapshot.leaks, "graph=True"),
            (snapshot.sites, "profile"),
            (lambda: snapshot.section("chunks"), "chunks=True"),
            (lambda: snapshot.section("nothing"), "no section 'nothing'"),
        ):
            with pytest.raises(LookupError, match=word):
                ask()
        assert {name for name in SECTIONS if name != "chunks"} == {
            name for name in SECTIONS if name != "chunks" and snapshot.section(name) is not None
        }
    with pytest.raises(ValueError, match="closed"):
        snapshot.section("pages")
    with pytest.raises(arenascope.Error, match="there is no process") as caught:
        arenascope.inspect(999_999_999)
    assert caught.value.code == arenascope.Code.NO_TARGET


def test_a_difference(churn: harness.Churn) -> None:
    changes = arenascope.diff(arenascope.inspect(churn.pid), arenascope.inspect(churn.pid))
    assert changes.same_process
    assert changes.rss.change is not None
    assert {row.title for row in changes.rows} >= {"in_use", "other_file"}


def test_a_trim_and_a_profile(churn: harness.Churn) -> None:
    forecast = arenascope.trim(churn.pid, forecast_only=True)
    assert not forecast.trimmed
    done = arenascope.trim(churn.pid, max_hold=1.0)
    assert done.trimmed
    assert done.returned is not None
    assert churn.held()
    with arenascope.profile(churn.pid, 0.2, exact=True) as snapshot:
        sites = snapshot.sites()
        assert [row.value for row in sites] == sorted((row.value for row in sites), reverse=True)
        assert snapshot.source == "target"
    assert churn.held()


def test_a_table_goes_to_numpy_and_pandas() -> None:
    known = arenascope.TypeRow("a", None, 1, 2**62 + 1, 3, False)  # noqa: FBT003
    leak = arenascope.LeakRow(None, None, 1, 2, 3, 4, 2**63)
    types, leaks = Table(arenascope.TypeRow, [known]), Table(arenascope.LeakRow, [leak, leak._replace(size=16)])
    array = types.to_numpy()
    assert array["bytes"].dtype == np.int64
    assert array["bytes"].tolist() == [2**62 + 1]
    assert array["evidence"].tolist() == [None]
    assert leaks.to_numpy()["example"].dtype == np.uint64
    frame = leaks.to_pandas()
    assert frame["size"].isna().tolist() == [True, False]
    assert frame["direct"].dtype == pd.Int64Dtype()
    assert frame["direct"].sum() == 2
    assert leaks.column("size") == (None, 16)
    assert leaks[1].size == 16
    assert leaks[:1][0].size is None


def test_a_notebook_gets_escaped_names(tmp_path: Path) -> None:
    made = synthetic.sections()
    made["meta"]["comm"] = b"<b>x</b>"
    text = arenascope.open_dump(synthetic.write(tmp_path / "dump", made))._repr_html_()
    assert "&lt;b&gt;x" in text
    assert "<b>x" not in text
    row = arenascope.SiteRow(("<script>", "main"), 1000)
    assert "&lt;script&gt; &lt; main" in Table(arenascope.SiteRow, [row])._repr_html_()
    assert "1,000" in Table(arenascope.SiteRow, [row])._repr_html_()


def test_nothing_is_left_behind(churn: harness.Churn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By many snapshots, of several threads at once: no descriptor, no file, no child, no handler."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found: list[int | None] = []

    def work() -> None:
        for _ in range(5):
            with arenascope.inspect(churn.pid, mode="live") as snapshot:
                found.append(snapshot.pid)

    work()
    gc.collect()
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    gc.collect()
    assert found == [churn.pid] * 25
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list(tmp_path.iterdir()) == []
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
