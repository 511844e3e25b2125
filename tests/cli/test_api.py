# SPDX-License-Identifier: MIT
"""The Python API, on real processes: what it says is what the command line says, and it leaves nothing behind."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from tools import command, harness, odd, programs
from tools import synthetic_dump as synthetic
from tools.keeps import Keeps
from tools.paths import ROOT

import arenascope
from arenascope.schema import schema
from arenascope.table import Table
from arenascope.wire.dump_records import SECTIONS

PUBLIC = [
    "Answer",
    "Code",
    "Error",
    "LeakRow",
    "Ledger",
    "Options",
    "OwnerRow",
    "SiteRow",
    "Snapshot",
    "Table",
    "TypeRow",
    "diff",
    "dump",
    "inject",
    "inspect",
    "inspect_all",
    "leaks",
    "open_dump",
    "owners",
    "profile",
    "read_instant",
    "read_profile",
    "read_timeline",
    "read_trace",
    "summary",
    "trim",
    "types",
    "why",
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
    members = {name for name in dir(arenascope.Snapshot) if not name.startswith("_")} - {"dump", "taken"}
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
        made = again.summary()
        assert made.pop("findings")
        assert made == printed
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
    forecast = arenascope.trim(churn.pid, forecast_only=True).facts
    assert not forecast.trimmed
    done = arenascope.trim(churn.pid, max_hold=1.0).facts
    assert done.trimmed
    arena = int(done.arenas[0].address, 16)
    assert [int(each.address, 16) for each in arenascope.trim(churn.pid, arena=arena).facts.arenas] == [arena]
    with pytest.raises(arenascope.Error, match="--arena"):
        arenascope.trim(churn.pid, arena="main")
    assert done.returned is not None
    assert churn.held()
    with arenascope.profile(churn.pid, 0.2, exact=True) as snapshot:
        sites = snapshot.sites()
        assert [row.value for row in sites] == sorted((row.value for row in sites), reverse=True)
        assert snapshot.source == "target"
    assert churn.held()


def without_times(text: str) -> str:
    """What two answers of a process that stands still have in common."""
    return re.sub(r'"(time|pause_ms|\w*_ms)": [^,\n]+', "", text)


def test_an_answer_is_what_the_command_prints(keeps: Keeps) -> None:
    """To the byte; and the same typed."""
    pid, address = keeps.pid, hex(min(keeps.of[next(iter(keeps.of))]) + 16)
    how = arenascope.Options(mode="freeze", max_pause=600.0)
    answers: dict[str, arenascope.Answer[Any]] = {
        "owners": arenascope.owners(pid, **how),
        "types": arenascope.types(pid, **how),
        "leaks": arenascope.leaks(str(pid), **how),
        "why": arenascope.why(pid, address, **how),
    }
    for name, answer in answers.items():
        words = [name, "--json", "--mode=freeze", "--max-pause=600s", pid, *([address] if name == "why" else [])]
        assert without_times(answer.json) == without_times(command.arenascope(*words).stdout)
        assert answer.facts.target.pid == pid
    assert answers["leaks"].facts.direct.bytes == sum(group.direct.bytes for group in answers["leaks"].facts.by_type)
    summary = arenascope.summary(pid, mode="freeze", max_pause="600s", max_memory=1 << 30)
    assert summary.facts.snapshot.mode == "freeze"
    assert json.loads(summary.json)["target"]["pid"] == pid
    assert arenascope.trim(pid, forecast_only=True).facts.forecast == summary.facts.forecast["malloc_trim"]
    with pytest.raises(TypeError, match="moed"):
        arenascope.summary(pid, moed="live")  # type: ignore[call-arg]


def test_numbers_are_seconds_and_bytes(keeps: Keeps) -> None:
    refused: list[tuple[arenascope.Options, arenascope.Code]] = [
        ({"mode": "freeze", "max_pause": 1e-9}, arenascope.Code.DENIED),
        ({"mode": "freeze", "max_pause": "1ns"}, arenascope.Code.USAGE),
        ({"max_memory": 1 << 20}, arenascope.Code.NO_MEMORY),
        ({"max_memory": "1x"}, arenascope.Code.USAGE),
        ({"layout_source": "none"}, arenascope.Code.USAGE),
    ]
    for options, code in refused:
        with pytest.raises(arenascope.Error) as caught:
            arenascope.types(keeps.pid, **options)
        assert caught.value.code == code, options


def test_an_agent_is_loaded() -> None:
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        first, again = arenascope.inject(pid, timeout=60.0), arenascope.inject(str(pid))
        jsonschema.validate(json.loads(first.json), schema("inject"))
        jsonschema.validate(json.loads(again.json), schema("inject"))
        assert (first.facts.how, first.facts.thread, first.facts.pid) == ("loaded", pid, pid)
        assert (again.facts.how, again.facts.thread, again.facts.where) == ("present", None, None)
        assert "it was there already\n" in command.arenascope("inject", pid).stdout
        assert json.loads(command.arenascope("inject", "--json", pid).stdout)["how"] == "present"


def test_dumps_are_written_and_read(churn: harness.Churn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arenascope.dump(churn.pid, "-", chunks=True)  # a file of that name
    with (tmp_path / "123").open("wb") as file:
        arenascope.dump(churn.pid, file.fileno())
    asked: list[tuple[Any, arenascope.Options]] = [("-", {}), (Path("123"), {}), (churn.pid, {"chunks": True})]
    said: list[str] = []
    one, other, live = arenascope.inspect_all(asked, said.append)
    assert (one.source, other.source, live.source) == ("dump", "dump", "target")
    assert len(one.section("chunks")) > 0
    assert len(live.section("chunks")) > 0
    assert {each.pid for each in (one, other, live)} == {churn.pid}
    assert said == list(live.remarks)
    assert arenascope.diff(one, other).same_process


def test_a_profile_is_read(churn: harness.Churn, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with arenascope.profile(churn.pid, 0.1, exact=True) as snapshot:
        assert f"process {churn.pid} records who allocates" in "".join(snapshot.remarks)
        snapshot.save(tmp_path / "dump")
        sites = snapshot.sites()
    answer = arenascope.read_profile(tmp_path / "dump")
    assert answer.facts.every_page
    assert sum(site.in_use.bytes for site in answer.facts.sites) == sum(row.value for row in sites)
    assert answer.json == arenadump.check("sites", "--json", tmp_path / "dump")
    with pytest.raises(arenascope.Error, match="no profile") as caught:
        arenascope.read_profile(os.getpid())
    assert caught.value.code == arenascope.Code.UNSUPPORTED


def test_an_instant_of_a_timeline(churn: harness.Churn, tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    assert command.arenascope("watch", churn.pid, "-o", path, "--for", "1ms").returncode == 0
    changes = arenascope.diff(arenascope.read_instant(path), arenascope.inspect(churn.pid))
    assert changes.same_process
    assert len(arenascope.read_timeline(path).polls) == 1
    with pytest.raises(arenascope.Error, match="types and owners"):
        arenascope.read_instant(path, "first", named=True)


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
