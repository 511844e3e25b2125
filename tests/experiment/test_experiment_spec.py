# SPDX-License-Identifier: MIT
"""The spec of an experiment: what is understood, and what is said of mistakes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import available, spec
from arenascope.experiment.expand import UnavailableError, expand, library
from arenascope.experiment.plan import plan

pytestmark = pytest.mark.check

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LEAST = """
[workload]
command = ["true"]
[[configuration]]
name = "plain"
"""


def parse(text: str) -> spec.Spec:
    return spec.parse(tomllib.loads(text), "some.toml", Path("/somewhere"))


def test_the_least_that_is_a_spec() -> None:
    read = parse(LEAST)
    assert (read.name, read.repeats, read.warmup, read.baseline) == ("some", 7, 1, "plain")
    assert (read.settle, read.interval, read.timeout) == (2.0, 0.05, 300.0)
    assert read.workload.done == "exit"


def test_everything_that_can_be_said() -> None:
    read = parse("""
        title = "A title"
        [experiment]
        repeats = 3
        settle = "1.5s"
        interval = "5ms"
        timeout = "2m"
        memory = "settled"
        baseline = "b"
        [parameters]
        size = 10
        ratio = 0.5
        [workload]
        command = ["{here}/server", "{size}"]
        build = [["cc", "x.c"]]
        needs = ["cc", "$HOME", ["cc", "--version"]]
        env = { A = "1", B = 2 }
        ready = { port = "{port}" }
        load = { command = ["ab", "{port}"] }
        [[configuration]]
        name = "a"
        preload = ["libx.so.1"]
        wrapper = ["nice"]
        [[configuration]]
        name = "b"
        parameters = { size = "20" }
    """)
    assert read.parameters == {"size": "10", "ratio": "0.5"}
    assert read.workload.env == {"A": "1", "B": "2"}
    assert read.workload.needs == ("cc", "$HOME", ("cc", "--version"))
    assert (read.workload.done, read.workload.ready_port) == ("load", "{port}")
    assert read.configuration("b").parameters == {"size": "20"}
    assert (read.baseline, read.settle, read.interval, read.timeout) == ("b", 1.5, 0.005, 120.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[configuration]]\nname = "a"', "[workload] has no 'command'"),
        (LEAST.replace('["true"]', '"true"'), "'command', which is a string: an array of strings is needed"),
        ('[workload]\ncommand = []\n[[configuration]]\nname="a"', "[workload] has an empty 'command'"),
        ('[workload]\ncommand = ["true"]', "has no configuration"),
        (
            LEAST.replace("command", "comand"),
            "has no 'command': an array of strings is needed; is 'comand' a misspelling of it?",
        ),
        (f"{LEAST}enviroment = 1", "'enviroment', which means nothing here"),
        (f"{LEAST}enw = {{}}", "did you mean 'env'?"),
        (f'{LEAST}[experiment]\nsettle = "5 minutes"', "settle = '5 minutes', which is not a time"),
        (f"{LEAST}[experiment]\nrepeats = 0", "repeats = 0, but the minimum is 1"),
        (f"{LEAST}[experiment]\nrepeats = true", "'repeats', which is a boolean"),
        (f'{LEAST}[experiment]\nmemory = "mean"', "memory = 'mean'; it can be average, peak, end, settled"),
        (f'{LEAST}[experiment]\nbaseline = "b"', "names the baseline 'b'"),
        (f'{LEAST}[experiment]\nmatrix = ["b"]', "there is no matrix 'b'"),
        (f'{LEAST}[[configuration]]\nname = "plain"', "two configurations named 'plain'"),
        (f'{LEAST}[[configuration]]\nname = "../etc"', "has the name '../etc'"),
        (f"{LEAST}needs = [1]", "has in 'needs' what is neither"),
        (LEAST.replace('["true"]', '["true"]\nready = { line = "(" }'), "which is not a regular expression"),
        (LEAST.replace('["true"]', '["true"]\nready = { line = "a", port = "1" }'), "both 'line' and 'port'"),
        (LEAST.replace('["true"]', '["true"]\ndone = "later"'), "has done = 'later'"),
        (LEAST.replace('["true"]', '["true"]\ndone = "load"'), "is done when its load is, but has no load.command"),
    ],
)
def test_mistakes_are_named(text: str, says: str) -> None:
    with pytest.raises(ArenascopeError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert caught.value.code in {Code.BAD_INPUT, Code.USAGE}


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = = 1")
    with pytest.raises(ArenascopeError, match=r"x\.toml: not a TOML file"):
        spec.load(tmp_path / "x.toml")


@pytest.mark.parametrize("name", spec.shipped())
def test_shipped_specs_are_specs(name: str) -> None:
    path = spec.shipped()[name]
    data = spec.load(path)
    read = spec.parse(data, str(path), path.parent)
    assert read.imitates
    assert read.differs
    assert set(data["smoke"]) <= set(data["parameters"]), "the smoke size changes what is there"
    small = spec.parse(spec.smoke(data), str(path), path.parent)
    assert (small.repeats, small.warmup) == (1, 0)
    assert small.parameters != read.parameters


def test_matrices_name_configurations_that_are_there() -> None:
    assert spec.matrices()
    for name, names in spec.matrices().items():
        assert [each["name"] for each in spec.ready_made([name])] == names


def test_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME", "thing")
    values = {"here": "/h", "size": "{here}/10"}
    assert expand("{here} {size} {env:SOME} {{here}} {} {A}", values) == "/h /h/10 thing {here} {} {A}"
    with pytest.raises(ArenascopeError, match=r"placeholder \{other\}; known are"):
        expand("{other}", values)
    with pytest.raises(ArenascopeError, match="placeholder"):
        expand("{a}", {"a": "{b}", "b": "{a}"})  # round and round
    with pytest.raises(UnavailableError, match=r"\$NONE_SUCH is not set"):
        expand("{env:NONE_SUCH}", values)


def test_a_command_keeps_its_braces() -> None:
    data = spec.of_command(["awk", "{print $1}", "{size}"], ["arenas"])
    read = spec.parse(data, "command line", Path())
    assert [expand(word, {}) for word in read.workload.command] == ["awk", "{print $1}", "{size}"]
    assert [each.name for each in read.configurations] == ["plain", "arenas-1", "arenas-2", "arenas-4"]


def test_what_is_missing_is_said_with_what_to_do() -> None:
    read = parse("""
        [workload]
        command = ["true"]
        [[configuration]]
        name = "library"
        preload = ["libnonesuch.so.9"]
        get = "apt-get install nonesuch"
        [[configuration]]
        name = "probe"
        needs = [["false"]]
        [[configuration]]
        name = "program"
        needs = ["nonesuch-program"]
        [[configuration]]
        name = "variable"
        needs = ["$NONE_SUCH"]
        [[configuration]]
        name = "fine"
        needs = ["true", ["true"]]
        preload = ["libc.so.6"]
    """)
    missing = {each.name: available.missing(read, each) for each in read.configurations}
    assert missing == {
        "library": "libnonesuch.so.9 is not installed; apt-get install nonesuch",
        "probe": "`false` fails",
        "program": "nonesuch-program is not installed",
        "variable": "$NONE_SUCH is not set",
        "fine": None,
    }


def test_a_library_is_found_by_its_soname_or_another() -> None:
    path = library("libc.so.6")
    assert Path(path).is_file()
    assert library("libnonesuch.so.9|libc.so.6") == library(f"/nonesuch/libc.so.6|{path}") == path
    with pytest.raises(UnavailableError, match=r"libnonesuch\.so\.8 or libnonesuch\.so\.9 is not installed"):
        library("libnonesuch.so.8|libnonesuch.so.9")


def test_the_order_is_random_interleaved_and_repeatable() -> None:
    names = list("abcdef")
    made = plan(names, names[1], repeats=6, warmup=2, seed=1)
    assert [each.number for each in made] == list(range(48))
    blocks = [[each.configuration for each in made if each.block == block] for block in range(8)]
    assert all(sorted(block) == names for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1
    assert [block[0] for block in blocks[:2]] == ["b", "b"], "warm-ups begin with the baseline"
    assert {block[0] for block in blocks[2:]} != {"b"}
    assert [each.warmup for each in made] == [True] * 12 + [False] * 36
    assert plan(names, names[1], 6, 2, 1) == made
    assert plan(names, names[1], 6, 2, 2) != made
