# SPDX-License-Identifier: MIT
"""What Python reads of arenadump's JSON: more than it knows is no matter, less is an error that names the key."""

from __future__ import annotations

import copy
import io
import json
import stat
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tools import synthetic_dump as synthetic

from arenascope.cli.main import main
from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import final_snapshot, spec
from arenascope.experiment.results_dir import Store
from arenascope.render.summary import render_summary
from arenascope.wire.agent_answers import Trim
from arenascope.wire.dump import Dump
from arenascope.wire.json_decode import DecodeError, decode
from arenascope.wire.summary import Summary, document_of, parse

pytestmark = pytest.mark.check

TRIM = {
    "schema": "arenascope.trim/1",
    "pid": 42,
    "agent_version": None,
    "injected": False,
    "agent_resident": None,
    "trimmed": False,
    "deep": False,
    "forecast": 4096,
    "returned": None,
    "returned_swap": None,
    "released": None,
    "longest_hold_ms": None,
    "max_hold_ms": 5,
    "elapsed_ms": None,
    "cpu_ms": None,
    "skipped_arenas": None,
    "watched_ms": None,
    "faulted_back": None,
    "minor_faults": None,
    "note": None,
    "arenas": [
        {
            "index": 3,
            "name": "arena 3",
            "address": "0x7f8dc0000030",
            "resident": 8192,
            "releasable": None,
            "withheld": 0,
            "returned": None,
            "longest_hold_ms": None,
        }
    ],
}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """A summary in which every list has an item, Ruby's too."""
    made = synthetic.sections()
    made["meta"][0]["ruby"] = 1
    made["meta"][0]["malloc_kind"] = 1
    made["totals"][0]["ledger"]["tcache"] = 0
    return document_of(Dump(synthetic.write(tmp_path / "dump", made)))


def keys(value: Any, place: str = "") -> list[str]:
    """The place of each key of a JSON document, the first item of each array standing for all."""
    if isinstance(value, list):
        return keys(value[0], f"{place}[0]") if value else []
    if not isinstance(value, dict):
        return []
    named = {key: f"{place}.{key}" if place else key for key in value}
    return [each for key, here in named.items() for each in (here, *keys(value[key], here))]


def without(value: dict[str, Any], place: str) -> dict[str, Any]:
    made = copy.deepcopy(value)
    *path, last = place.replace("[0]", ".[0]").split(".")
    inner: Any = made
    for key in path:
        inner = inner[0] if key == "[0]" else inner[key]
    del inner[last]
    return made


def test_a_missing_key_is_named(document: dict[str, Any]) -> None:
    """Python has a field for each key of a summary."""
    missing = set()
    for place in keys(document):
        try:
            decode(Summary, without(document, place))
        except DecodeError as error:
            assert str(error) == f"{place} is missing"  # noqa: PT017 - the schema's own key is missed elsewhere
            missing.add(place)
    assert set(keys(document)) - missing == {"schema"}


def test_more_than_is_known_is_ignored(document: dict[str, Any]) -> None:
    more = copy.deepcopy(document)
    for place in (more, more["kernel"], more["ledger"], more["arenas"][0], more["arenas"][0]["chunks"]):
        place["planted"] = {"of a": ["newer", "arenadump"]}
    assert decode(Summary, more) == decode(Summary, document)


def test_unknown_stays_unknown(document: dict[str, Any]) -> None:
    document["ledger"]["in_use"] = document["kernel"]["rss"] = document["ruby"] = None
    summary = decode(Summary, document)
    assert summary.ledger["in_use"] is None
    assert summary.kernel.rss is None
    assert summary.ruby is None


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("kernel", [], "kernel is no object"),
        ("arenas", {}, "arenas is no array"),
        ("hugetlb", "1", "hugetlb is no number of bytes"),
        ("ledger", {"in_use": True}, "ledger.in_use is no number of bytes"),
        ("snapshot", {"mode": None}, "snapshot.mode is null, and not str"),
        ("target", {"kind": "dump", "dump_of": None, "pid": True}, "target.pid is true, and not int"),
    ],
)
def test_what_is_something_else_is_named(document: dict[str, Any], place: str, value: Any, said: str) -> None:
    document[place] = value
    with pytest.raises(DecodeError) as raised:
        decode(Summary, document)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"count": True}, "largest_sizes[2].count is true, and not int"),
        ({"count": None}, "largest_sizes[2].count is null, and not int"),
        ({"bytes": 1.5}, "largest_sizes[2].bytes is 1.5, and not int"),
        (None, "largest_sizes[2] is no object"),
        ("bytes", "largest_sizes[2] is no object"),
        ("count", "largest_sizes[2].count is missing"),
    ],
)
def test_each_item_of_a_list_is_read(document: dict[str, Any], item: Any, said: str) -> None:
    """All are taken at once where they are as they should be."""
    good = document["largest_sizes"][0]
    document["largest_sizes"] = [good, {**good, "count": 7, "planted": None}, {**good, "chunk_size": 48}]
    sizes = decode(Summary, document).largest_sizes
    assert [each.count for each in sizes] == [good["count"], 7, good["count"]]
    assert sizes[2] == sizes[0]._replace(chunk_size=48)
    if item == "count":
        item = {name: value for name, value in good.items() if name != item}
    elif isinstance(item, dict):
        item = {**good, **item}
    document["largest_sizes"][2] = item
    with pytest.raises(DecodeError) as raised:
        decode(Summary, document)
    assert str(raised.value) == said


def test_what_was_read_before_is_no_matter(document: dict[str, Any]) -> None:
    """What is to be converted is found once for values of such types: other types are other values."""
    document["target"]["exe"] = "/bin/a"
    assert decode(Summary, document).target.exe == "/bin/a"
    document["target"]["exe"] = None
    assert decode(Summary, document).target.exe is None
    for value, said in ((16, "16"), ([], "[]"), (True, "true")):
        document["target"]["exe"] = value
        with pytest.raises(DecodeError) as raised:
            decode(Summary, document)
        assert str(raised.value) == f"target.exe is {said}, and not str"


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"schema": "arenascope.summary/2"}', "\ud800"])
def test_what_is_no_summary(text: str) -> None:
    with pytest.raises(ArenascopeError, match=r"printed no summary of arenascope\.summary/1") as raised:
        parse(text)
    assert raised.value.code == Code.INTERNAL


def program(folder: Path, printed: str) -> Path:
    """A program that prints this, whatever it is asked."""
    (folder / "printed").write_text(printed)
    path = folder / "arenadump"
    path.write_text(f'#!/bin/sh\nexec cat "{folder}/printed"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def arenascope(arenadump: Path, *arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    """Runs a command in this process, where a locale has that encoding: to start one takes a second."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding, errors="replace", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("ARENASCOPE_ARENADUMP", str(arenadump))
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.buffer.getvalue(), err.buffer.getvalue())


@pytest.mark.parametrize("command", ["types", "owners", "why", "trim", "inject"])
def test_json_is_utf_8_in_any_locale(tmp_path: Path, command: str) -> None:
    """Latin-1 has some of its letters as other bytes, and the others not at all."""
    printed = '{"comm": "gr\xfc\xdfe \u2713"}\n'
    words = ["0x10"] if command == "why" else []
    done = arenascope(program(tmp_path, printed), command, "--json", "1", *words, encoding="latin-1")
    assert (done.stdout, done.stderr) == (printed.encode(), b"")


def test_the_commands_name_what_is_missing(tmp_path: Path, document: dict[str, Any]) -> None:
    done = arenascope(program(tmp_path, json.dumps(without(document, "kernel.rss"))), "summary", "1")
    assert done.returncode == Code.INTERNAL
    assert b"printed no summary of arenascope.summary/1 (kernel.rss is missing): reinstall arenascope" in done.stderr
    done = arenascope(program(tmp_path, json.dumps(without(TRIM, "arenas[0].name"))), "trim", "1")
    assert done.returncode == Code.INTERNAL
    assert b"printed no trim of arenascope.trim/1 (arenas[0].name is missing): reinstall arenascope" in done.stderr


def test_json_is_passed_through(tmp_path: Path, document: dict[str, Any]) -> None:
    """As arenadump printed it, to the byte, in any locale: a number's digits, the order of keys, and what is new.

    Only the findings come behind it.
    """
    document["target"]["comm"] = "gr\xfc\xdfe"
    printed = json.dumps({"planted": 1.500, **document}, ensure_ascii=False).replace("1.5", "1.500") + "\n"
    done = arenascope(program(tmp_path, printed), "summary", "--json", "1", encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed[: printed.rindex('"findings": [')].encode()), done.stderr
    both = json.loads(done.stdout)
    assert [finding["rule"] for finding in both.pop("findings")] == ["in use", "files"]
    del document["findings"]
    assert both == {"planted": 1.5, **document}


def test_a_trim_is_read(tmp_path: Path) -> None:
    trim = decode(Trim, {**TRIM, "planted": 1})
    assert trim.arenas[0].releasable is None
    assert trim.max_hold_ms == 5.0
    done = arenascope(program(tmp_path, json.dumps(TRIM)), "trim", "--forecast", "1")
    line = done.stdout.decode().splitlines()[-1]
    assert line.split() == ["arena", "3", "0x7f8dc0000030", "8.0", "KiB", "unknown", "0", "B"], done.stdout


def test_an_experiments_ledger_is_read(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / final_snapshot.LEDGER
    assert final_snapshot.read(tmp_path) is None
    path.write_text(json.dumps(document))
    found = final_snapshot.read(tmp_path)
    assert found
    assert (found.ledger["in_use"], found.allocator.malloc) == (document["ledger"]["in_use"], "glibc")
    del document["allocator"]
    for text, said in ((json.dumps(document), "allocator is missing"), ("{", "not JSON")):
        path.write_text(text)
        with pytest.raises(ArenascopeError, match=said) as raised:
            final_snapshot.read(tmp_path)
        assert raised.value.code == Code.BAD_INPUT


def test_it_is_all_shown(document: dict[str, Any]) -> None:
    """A summary that holds nothing but what is decoded is enough for the terminal."""
    assert render_summary(decode(Summary, document))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": {"noisy": False}}, "machine.others_cpu is missing"),
        ({"marks": [{"name": "full", "rss": 1}]}, r"marks\[0\]\.pss is missing"),
        ({"metrics": {"cpu": "much"}}, "metrics.cpu is .much., and not float"),
        ({"warmup": 0}, "warmup is 0, and not bool"),
    ],
)
def test_a_run_that_is_no_record_is_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    data = spec.inline({"name": "made", "workload": {"command": ["true"]}, "configuration": [{"name": "plain"}]})
    store = Store.create(tmp_path / "r", data, Path(), {})
    record: dict[str, Any] = {
        "status": "ok",
        "reason": None,
        "environment": {},
        "metrics": {"rss_end": 1, "cpu": 0.5},
        "marks": [],
        "sampling": {"processes": 1},
        "machine": {"noisy": False, "others_cpu": None},
        "took": 1,
        "new": 1,
    }
    planned = store.plan[0]
    kept = store.keep(planned, store.begin(planned), record, [])
    assert store.runs() == [kept]
    assert repr(kept.metrics) == "{'rss_end': 1, 'cpu': 0.5}", "bytes stay whole numbers"
    path = store.run_folder(planned) / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(
        ArenascopeError, match=f"run.json: not the record of a run .{said}.: remove the run's directory"
    ) as raised:
        store.runs()
    assert raised.value.code == Code.BAD_INPUT
