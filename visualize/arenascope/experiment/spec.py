# SPDX-License-Identifier: MIT
"""What is to be run: a workload, and the configurations that it is run in. docs/experiments.md describes the file."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Union

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment.toml_reader import TomlTable

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ModuleNotFoundError as missing:  # Debian 11 has no package of it
        raise ArenascopeError(Code.USAGE, "experiment needs Python 3.11, or tomli: pip install tomli") from missing

if TYPE_CHECKING:
    Json = dict[str, Any]

HERE: Final = Path(__file__).parent
WORKLOADS: Final = HERE / "workloads"
CONFIGURATIONS: Final = HERE / "configurations.toml"
MEMORY: Final = ("average", "peak", "end", "settled")
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")
SMOKE: Final[Json] = {"repeats": 1, "warmup": 0, "settle": "200ms", "interval": "20ms", "timeout": "60s"}

Need = Union[str, tuple[str, ...]]  # a program's name, "$VARIABLE", or a command that succeeds


@dataclass(frozen=True)
class Workload:
    """What is run, and how one knows that it is ready, how it is put to work, and when that work is done."""

    command: tuple[str, ...]
    build: tuple[tuple[str, ...], ...]
    env: dict[str, str]
    preload: tuple[str, ...]  # behind those of the configuration
    needs: tuple[Need, ...]
    get: str  # how to get what it needs
    ready_line: str | None  # a regular expression; None: as soon as it runs, or as the port says
    ready_port: str | None
    load_stdin: str | None
    load_command: tuple[str, ...]
    done: str  # "exit", "load" or "line"
    done_line: str | None


@dataclass(frozen=True)
class Configuration:
    """One way to run the workload."""

    name: str
    says: str
    env: dict[str, str]
    preload: tuple[str, ...]
    wrapper: tuple[str, ...]
    parameters: dict[str, str]
    needs: tuple[Need, ...]
    get: str


@dataclass(frozen=True)
class Spec:
    """An experiment."""

    name: str
    title: str
    imitates: str
    differs: str
    here: Path  # {here}: the directory of the spec
    workload: Workload
    parameters: dict[str, str]
    configurations: tuple[Configuration, ...]
    baseline: str
    repeats: int
    warmup: int
    settle: float
    interval: float
    timeout: float
    seed: int
    memory: str  # which of MEMORY the comparison is about

    def configuration(self, name: str) -> Configuration:
        """The configuration of that name."""
        return next(each for each in self.configurations if each.name == name)


def load(path: Path) -> Json:
    """The contents of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArenascopeError(Code.BAD_INPUT, f"{path}: not a TOML file: {error}") from error


def shipped() -> dict[str, Path]:
    """The experiments that come with arenascope, by name."""
    return {path.stem: path for path in sorted(WORKLOADS.glob("*.toml"))}


def find(name: str) -> Path:
    """A spec by its path, or the name of a shipped one."""
    known = shipped()
    if name in known:
        return known[name]
    if Path(name).is_file():
        return Path(name)
    names = ", ".join(known)
    raise ArenascopeError(
        Code.NO_TARGET, f"'{name}' is neither a file nor an experiment that comes with arenascope, which are: {names}"
    )


def matrices() -> dict[str, list[str]]:
    """The ready-made matrices: names of configurations."""
    return {name: list(names) for name, names in load(CONFIGURATIONS)["matrices"].items()}


def ready_made(names: list[str]) -> list[Json]:
    """The configurations of some matrices, each once."""
    data, known = load(CONFIGURATIONS), matrices()
    wanted: dict[str, None] = {}
    for name in names:
        if name not in known:
            raise ArenascopeError(Code.USAGE, f"there is no matrix '{name}'; there are {', '.join(known)}")
        wanted.update(dict.fromkeys(known[name]))
    by_name = {each["name"]: each for each in data["configuration"]}
    return [by_name[name] for name in wanted]


def parse(data: Json, file: str, here: Path) -> Spec:
    """A spec of what a TOML file holds; `file` is its name in messages."""
    top = TomlTable(data, file)
    how, name = top.table("experiment"), top.text("name", Path(file).stem)
    if not NAME.fullmatch(name):
        top.fail(f"has the name '{name}': small letters, digits, '-', '_' and '.' are allowed")
    top.raw("smoke")  # `smoke` has a snapshot of it
    configurations = _configurations(top, how)
    baseline = how.text("baseline", configurations[0].name)
    if baseline not in {each.name for each in configurations}:
        how.fail(f"names the baseline '{baseline}', but no configuration has that name")
    spec = Spec(
        name=name,
        title=top.text("title", name),
        imitates=top.text("imitates", ""),
        differs=top.text("differs", ""),
        here=here,
        workload=_workload(top.table("workload")),
        parameters=top.strings("parameters"),
        configurations=configurations,
        baseline=baseline,
        repeats=how.number("repeats", 7, 1),
        warmup=how.number("warmup", 1, 0),
        settle=how.duration("settle", "2s"),
        interval=how.duration("interval", "50ms"),
        timeout=how.duration("timeout", "5m"),
        seed=how.number("seed", 1, 0),
        memory=how.choice("memory", "average", MEMORY),
    )
    how.finish()
    top.finish()
    return spec


def smoke(data: Json) -> Json:
    """The same experiment, small enough for a test: what [smoke] says, and one short repeat."""
    changed = dict(data)
    changed["experiment"] = {**data.get("experiment", {}), **SMOKE}
    changed["parameters"] = {**data.get("parameters", {}), **data.get("smoke", {})}
    return changed


def inline(data: Json) -> Json:
    """The same with the configurations of its matrices written out, so that it stays what it is from now on."""
    how = dict(data.get("experiment", {}))
    made = [*ready_made(how.pop("matrix", [])), *data.get("configuration", [])]
    return {**data, "experiment": how, "configuration": made}


def of_command(command: list[str], matrix: list[str]) -> Json:
    """The spec of somebody's own command: it is at work from its start to its end."""
    literal = [word.replace("{", "{{").replace("}", "}}") for word in command]
    name = re.sub(r"[^a-z0-9_.-]+", "-", Path(command[0]).name.lower()).strip("-._") or "command"
    return {
        "name": name,
        "title": " ".join(command),
        "experiment": {"matrix": matrix},
        "workload": {"command": literal},
    }


def _configurations(top: TomlTable, how: TomlTable) -> tuple[Configuration, ...]:
    matrix = list(how.words("matrix"))
    read = [_configuration(TomlTable(each, str(CONFIGURATIONS), each["name"])) for each in ready_made(matrix)]
    read += [_configuration(table) for table in top.tables("configuration")]
    if not read:
        top.fail("has no configuration: write [[configuration]] tables, or name a matrix under [experiment]")
    names = [each.name for each in read]
    for name in names:
        if names.count(name) > 1:
            top.fail(f"has two configurations named '{name}'")
    return tuple(read)


def _configuration(table: TomlTable) -> Configuration:
    name = table.text("name")
    if not NAME.fullmatch(name):
        table.fail(f"has the name '{name}': small letters, digits, '-', '_' and '.' are allowed")
    read = Configuration(
        name=name,
        says=table.text("says", ""),
        env=table.strings("env"),
        preload=table.words("preload"),
        wrapper=table.words("wrapper"),
        parameters=table.strings("parameters"),
        needs=table.each("needs", lambda need: _need(table, need)),
        get=table.text("get", ""),
    )
    table.finish()
    return read


def _need(table: TomlTable, value: Any) -> Need:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return tuple(value)
    return table.fail(
        "has in 'needs' what is neither a program's name, nor \"$VARIABLE\", nor a command (an array of strings)"
    )


def _workload(table: TomlTable) -> Workload:
    ready, load_with = table.table("ready"), table.table("load")
    done = table.raw("done")
    line = None
    if isinstance(done, dict):
        inner = table.table("done")
        done, line = "line", _pattern(inner, "line")
        inner.finish()
    if done not in {None, "exit", "load", "line"} or (done == "line" and line is None):
        table.fail(f'has done = {done!r}; it can be "exit", "load" or {{ line = "a regular expression" }}')
    read = Workload(
        command=table.words("command", required=True),
        build=table.each("build", lambda words: _command(table, words)),
        env=table.strings("env"),
        preload=table.words("preload"),
        needs=table.each("needs", lambda need: _need(table, need)),
        get=table.text("get", ""),
        ready_line=_pattern(ready, "line") if ready.has("line") else None,
        ready_port=ready.text("port") if ready.has("port") else None,
        load_stdin=load_with.text("stdin") if load_with.has("stdin") else None,
        load_command=load_with.words("command", required=True) if load_with.has("command") else (),
        done=done or ("load" if load_with.has("command") else "exit"),
        done_line=line,
    )
    ready.raw("line"), ready.raw("port"), load_with.raw("stdin"), load_with.raw("command")
    if read.ready_line is not None and read.ready_port is not None:
        ready.fail("has both 'line' and 'port': give only one of them")
    if read.load_stdin is not None and read.load_command:
        load_with.fail("has both 'stdin' and 'command': give only one of them")
    if read.done == "load" and not read.load_command:
        table.fail("is done when its load is, but has no load.command")
    for inner in (ready, load_with, table):
        inner.finish()
    return read


def _command(table: TomlTable, words: Any) -> tuple[str, ...]:
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        table.fail("has in 'build' something that is not a command: each is an array of strings")
    return tuple(words)


def _pattern(table: TomlTable, key: str) -> str:
    text = table.text(key)
    try:
        re.compile(text)
    except re.error as error:
        table.fail(f"has {key} = '{text}', which is not a regular expression: {error}")
    return text
