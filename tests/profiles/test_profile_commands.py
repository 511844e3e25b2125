# SPDX-License-Identifier: MIT
"""`arenascope profile` and the JSON below it, on a program whose sites are known: names, lines, sums, other formats."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from graph.test_graph_schemas import closed
from tools import command, harness, odd, programs
from tools.profiling import profiling, write_stacks_out
from tools.stage import until

from arenascope.humanize import MINUS
from arenascope.schema import schema
from arenascope.wire.profile_json import profile_of, read_profile

SCHEMA = schema("profile")
SERVER = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <unistd.h>
struct Connection { char buffer[3000]; };
static std::vector<void *> held;
static inline __attribute__((always_inline)) void *allocate(std::size_t size)
{
    return std::malloc(size);                      // line 10
}
extern "C" __attribute__((noinline)) void open_connections(int count)
{
    for (int i = 0; i < count; i++)
        held.push_back(allocate(sizeof(Connection)));
}
extern "C" __attribute__((noinline)) void fill_cache(int count)
{
    for (int i = 0; i < count; i++)
        held.push_back(std::malloc(100));          // line 20
    std::free(std::malloc(50));
}
int main()
{
    held.reserve(100000);
    open_connections(2000);
    fill_cache(30000);
    std::puts("ready");
    std::fflush(stdout);
    for (int byte; (byte = std::getchar()) != EOF;)
        if (byte == 'o')
            open_connections(500);
}
"""
CONNECTIONS, CACHE = 2000 * 3008, 30000 * 112
MEBIBYTE = 1 << 20
NAMES = ("main", "fill_cache")


def arenascope(*arguments: str | Path | int, arenadump: harness.Arenadump) -> str:
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "COLUMNS": "120"}
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(
    folder: Path,
    arenadump: harness.Arenadump,
    *flags: str,
    source: str = SERVER,
    options: tuple[str, ...] = ("--exact",),
) -> Iterator[subprocess.Popen[str]]:
    program = programs.build(source, "-O2", *flags, compiler="g++", at=folder / "server")
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)}
    command = [sys.executable, "-m", "arenascope", "run", *options, "--", str(program)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            odd.wait_for_read(process.pid)
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server(arenadump: harness.Arenadump, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("server"), arenadump, "-g") as process:
        yield process.pid


def read(arenadump: harness.Arenadump, target: int | Path) -> Any:
    answer = json.loads(arenadump.check("sites", "--json", target))
    jsonschema.validate(answer, closed(SCHEMA))
    write_stacks_out(answer)
    return answer


def site_of(answer: Any, name: str) -> Any:
    """The site whose innermost frame, with all that is inlined there, is in that function."""
    (found,) = (
        site for site in answer["sites"] if name in [function["name"] for function in site["stack"][0]["functions"]]
    )
    return found


def chunks_by(answer: Any, name: str) -> int:
    """In use, by all stacks with that function innermost."""
    stacks = [(site["in_use"]["count"], site["stack"][0]["functions"]) for site in answer["sites"]]
    return sum(count for count, functions in stacks if name in [function["name"] for function in functions])


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == "arenascope.profile/1"


def test_sites_have_functions_and_lines(server: int, arenadump: harness.Arenadump) -> None:
    answer = read(arenadump, server)
    opened, filled = site_of(answer, "open_connections"), site_of(answer, "fill_cache")
    assert opened["in_use"] == {"count": 2000, "bytes": CONNECTIONS}
    assert filled["in_use"] == {"count": 30000, "bytes": CACHE}
    functions = opened["stack"][0]["functions"]
    assert [(each["name"].partition("(")[0], each["inlined"]) for each in functions] == [
        ("allocate", True),
        ("open_connections", False),
    ]
    assert (Path(functions[0]["file"]).name, functions[0]["line"]) == ("server.cc", 10)
    assert functions[1]["line"] == 15
    assert filled["stack"][0]["functions"][0]["line"] == 20
    assert [each["name"] for each in opened["stack"][1]["functions"]] == ["main"]
    module = answer["modules"][opened["stack"][0]["module"]]
    assert Path(module["path"]).name == "server"
    assert int(module["start"], 16) <= int(opened["stack"][0]["offset"], 16) + int(module["bias"], 16)


def test_frames_and_callers_stand_once(server: int, arenadump: harness.Arenadump) -> None:
    answer = read(arenadump, server)
    stacks = answer["stacks"]
    assert len(set(zip(stacks["frame"], stacks["caller"]))) == len(stacks["frame"])
    assert len(stacks["frame"]) < sum(len(site["stack"]) for site in answer["sites"])
    assert len({json.dumps(frame) for frame in answer["frames"]}) == len(answer["frames"])


def test_without_debug_information_there_are_functions(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with served(tmp_path, arenadump) as process:
        (function,) = site_of(read(arenadump, process.pid), "fill_cache")["stack"][0]["functions"]
        assert (function["file"], function["line"]) == (None, None)
    with served(tmp_path, arenadump, "-s") as process:
        answer = read(arenadump, process.pid)
        (site,) = (site for site in answer["sites"] if site["in_use"]["bytes"] == CACHE)
        assert site["stack"][0]["functions"] == []
        assert f"server+{site['stack'][0]['offset']}" in arenascope("profile", "top", process.pid, arenadump=arenadump)


def test_a_program_that_was_built_anew_has_no_names(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Functions of another build would be wrong ones."""
    dump = tmp_path / "dump"
    with served(tmp_path, arenadump, "-g") as process:
        arenadump.check("dump", process.pid, "-o", dump)
    assert site_of(read(arenadump, dump), "fill_cache")
    other = SERVER.replace("fill_cache", "other_name")
    programs.build(other, "-O2", "-g", compiler="g++", at=tmp_path / "server")
    (site,) = (site for site in read(arenadump, dump)["sites"] if site["in_use"]["bytes"] == CACHE)
    assert site["stack"][0]["functions"] == []


LIBRARY = """
#include <stdlib.h>
void *kept[30000];
void fill_cache(int count)
{
    for (int i = 0; i < count; i++)
        kept[i] = malloc(100);
}
"""


def test_what_was_upgraded_and_still_runs_has_its_names(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Another build of the program and of a library has the name by now. The process has mapped what it runs."""
    library, flags = tmp_path / "libcache.so", ("-O2", "-g", "-shared", "-fPIC", "-Wl,--build-id")
    calls = re.sub(
        r'(extern "C" )__attribute__\(\(noinline\)\) (void fill_cache\(int count\))\n{.*?\n}',
        r"\1\2;",
        SERVER,
        flags=re.DOTALL,
    )
    programs.build(LIBRARY, *flags, at=library)
    linked = ("-Wl,--build-id", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{tmp_path}")
    dump = tmp_path / "dump"
    with served(tmp_path, arenadump, "-g", *linked, source=calls) as process:
        arenadump.check("dump", process.pid, "-o", dump)
        other = LIBRARY.replace("fill_cache", "other_name")
        programs.build(other, *flags, at=tmp_path / "new").replace(library)
        (tmp_path / "server").unlink()
        for target in (process.pid, dump):
            answer = read(arenadump, target)
            assert chunks_by(answer, "allocate") == 2000
            # Without the right to open mapped files, only the program can be opened.
            assert chunks_by(answer, "fill_cache") == (30000 if opens_mapped(process.pid) else 0)
            assert chunks_by(answer, "other_name") == 0


def test_folded_stacks_are_utf_8_in_any_locale(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with served(tmp_path, arenadump, source=SERVER.replace("fill_cache", "größe")) as process:
        environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path), "PYTHONIOENCODING": "latin-1"}
        command = [sys.executable, "-m", "arenascope", "profile", "folded", str(process.pid)]
        stacks = subprocess.run(command, capture_output=True, env=environment, check=True).stdout
    assert ";größe " in stacks.decode()


def opens_mapped(pid: int) -> bool:
    folder = Path(f"/proc/{pid}/map_files")
    try:
        return bool(next(folder.iterdir()).read_bytes())
    except PermissionError:
        return False


def test_top_and_tree(server: int, arenadump: harness.Arenadump) -> None:
    top = arenascope("profile", "top", server, arenadump=arenadump)
    found = {
        row[2]: row[1] for row in re.finditer(r"^ *[\d.]+ \w+ .* ([\d.]+ \w+) +[\d.]+ %  (\w+)", top, re.MULTILINE)
    }
    assert found["open_connections"] == f"{CONNECTIONS / MEBIBYTE:.1f} MiB"
    assert found["fill_cache"] == f"{CACHE / MEBIBYTE:.1f} MiB"
    assert "by every chunk" in top
    tree = arenascope("profile", "tree", server, arenadump=arenadump)
    lines = tree.splitlines()
    depth = {name: next(line.index(f" {name}") for line in lines if f" {name}" in line) for name in NAMES}
    assert depth["main"] < depth["fill_cache"]
    allocated = arenascope("profile", "top", server, "--measure", "inuse_objects", arenadump=arenadump)
    assert re.search(r"30,000 .* fill_cache", allocated)


def lines_of(listing: str) -> dict[int, tuple[str, str, str]]:
    """Flat, cum and text of each line that `list` shows with numbers."""
    rows = re.finditer(r"^ *([\d.,]+ (?:\w+ )?) *([\d.,]+(?: \w+)?) +(\d+)  ?(.*)$", listing, re.MULTILINE)
    return {int(row[3]): (row[1].strip(), row[2], row[4].strip()) for row in rows}


def test_lines_of_a_function(server: int, arenadump: harness.Arenadump) -> None:
    """A line has what it allocates itself, and what it calls allocates."""
    answer = arenascope("profile", "list", "fill_cache", server, "--measure", "inuse_objects", arenadump=arenadump)
    assert lines_of(answer) == {20: ("30,000", "30,000", "held.push_back(std::malloc(100));          // line 20")}
    assert "    std::free(std::malloc(50));" in answer
    bytes_ = arenascope("profile", "list", "open_connections", server, arenadump=arenadump)
    shown = f"{CONNECTIONS / MEBIBYTE:.1f} MiB"
    assert {number: each[:2] for number, each in lines_of(bytes_).items()} == {15: ("0 B", shown)}
    inlined = arenascope("profile", "list", "allocate", server, arenadump=arenadump)
    assert lines_of(inlined)[10][:2] == (shown, shown)
    main = lines_of(arenascope("profile", "list", "main", server, arenadump=arenadump))
    assert main[26][:2] == ("0 B", shown)
    assert main[27][2] == "fill_cache(30000);"
    refused = subprocess.run(
        [sys.executable, "-m", "arenascope", "profile", "list", "no_such", str(server)],
        capture_output=True,
        text=True,
        env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
        check=False,
    )
    assert refused.returncode == 6
    assert "has 'no_such' in its name" in refused.stderr


def test_a_source_that_is_nothing_to_read(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The path of a source is the target's word: a FIFO there is not waited for, escape sequences are shown."""
    with served(tmp_path, arenadump, "-g") as process:
        source = tmp_path / "server.cc"
        listed = ("profile", "list", "fill_cache", process.pid)
        source.write_text(source.read_text().replace("std::malloc(100)", "\x1b[31mmalloc"))
        os.utime(source, (2**32, 2**32))
        changed = arenascope(*listed, arenadump=arenadump)
        assert "\\x1b[31mmalloc" in changed
        assert "its lines may have moved" in changed
        (tmp_path / "moved.cc").write_text(SERVER)
        source.unlink()
        source.symlink_to(tmp_path / "moved.cc")
        assert "held.push_back(std::malloc(100));" in arenascope(*listed, arenadump=arenadump)
        source.unlink()
        os.mkfifo(source)
        answer = arenascope(*listed, arenadump=arenadump)
        assert "the source is not here" in answer
        assert lines_of(answer)[20][2] == ""


def test_folded_stacks_add_up(server: int, arenadump: harness.Arenadump) -> None:
    folded = arenascope("profile", "folded", server, arenadump=arenadump)
    sums = {stack: int(value) for stack, _, value in (line.rpartition(" ") for line in folded.splitlines())}
    assert sum(sums.values()) == read(arenadump, server)["known"]["bytes"]
    (opened,) = (stack for stack in sums if "open_connections" in stack)
    assert re.search(r";main;open_connections;allocate(\(unsigned long\))?$", opened)
    assert sums[opened] == CONNECTIONS


def test_pprof_reads_the_file(server: int, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    go = shutil.which("go")
    if not go:
        pytest.skip("go is not installed (scripts/install-deps test)")
    path = tmp_path / "profile.pb.gz"
    path.symlink_to(tmp_path / "elsewhere")
    refused = subprocess.run(
        [sys.executable, "-m", "arenascope", "profile", "pprof", str(server), "-o", str(path)],
        capture_output=True,
        env={**os.environ, "ARENASCOPE_ARENADUMP": str(arenadump.path)},
        check=False,
    )
    assert refused.returncode != 0
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()
    arenascope("profile", "pprof", server, "-o", path, arenadump=arenadump)
    assert path.stat().st_mode & 0o777 == 0o600
    assert gzip.decompress(path.read_bytes())
    answer = subprocess.run(
        [go, "tool", "pprof", "-peek", "open_connections|fill_cache", "-unit=B", str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PPROF_TMPDIR": str(tmp_path)},
    ).stdout
    assert answer.startswith("File: server\n")
    assert f"{CACHE}B" in answer
    assert f"{CONNECTIONS}B" in answer


def test_times_are_those_of_the_json(
    server: int, arenadump: harness.Arenadump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the nanosecond: 61 bits do not fit into a float."""
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(arenadump.path))
    answer = read_profile(str(server))._replace(started="2026-11-27T16:13:55.338Z", time="2026-11-27T16:14:08.001Z")
    made = profile_of(answer)
    assert (made.started_ns, made.taken_ns) == (1_795_796_035_338_000_000, 1_795_796_048_001_000_000)


def test_what_grew_between_two_dumps(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with served(tmp_path, arenadump, "-g") as process:
        arenadump.check("dump", process.pid, "-o", tmp_path / "before")
        assert process.stdin
        process.stdin.write("o")
        process.stdin.flush()
        until(lambda: chunks_by(read(arenadump, process.pid), "open_connections") == 2500, "it did not grow")
        arenadump.check("dump", process.pid, "-o", tmp_path / "after")
    arguments = (tmp_path / "before", tmp_path / "after", "--measure", "inuse_objects")
    answer = arenascope("profile", "diff", *arguments, arenadump=arenadump)
    assert re.search(r"^ *0 .* \+500 .* open_connections", answer, re.MULTILINE)
    assert "fill_cache" not in answer
    for when in ("Before", "After"):
        head = rf"^{when}: server \(pid {process.pid}\): \S+ MiB in use with a stack, by every chunk$"
        assert re.search(head, answer, re.MULTILINE)
    assert not re.search("^(Two|Other) ", answer, re.MULTILINE)
    less = arenascope("profile", "diff", tmp_path / "after", tmp_path / "before", arenadump=arenadump)
    shown = f"{500 * 3008 / MEBIBYTE:.1f} MiB"
    assert re.search(rf"^ *0 B .* {MINUS}{shown} +{MINUS}100\.0 %  open_connections", less, re.MULTILINE)


def test_what_two_profiles_do_not_have_alike_is_said(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    pids = []
    rates = {"exact": ("--exact",), "rates": ("--rates", "pages=8,bytes=64K"), "none": ("--rates", "bytes=0")}
    for name, options in rates.items():
        with served(tmp_path, arenadump, options=options) as process:
            arenadump.check("dump", process.pid, "-o", tmp_path / name)
            pids.append(process.pid)
    answer = arenascope("profile", "diff", tmp_path / "exact", tmp_path / "rates", arenadump=arenadump)
    assert re.search(r"^Before: server .*by every chunk$", answer, re.MULTILINE)
    assert re.search(r"^After: server .*by chunks on one page in 8, which stand for all$", answer, re.MULTILINE)
    assert f"Two processes: server (pid {pids[0]}) and server (pid {pids[1]})." in answer
    assert "Two profiles: what was allocated is counted from the beginning of each." in answer
    said = " ".join(answer.split())
    assert "what is in use is known by every chunk before, by chunks on one page in 8 after." in said
    assert "what was allocated is known from a sample in 512.0 KiB before, from a sample in 64.0 KiB after." in said
    unsampled = arenascope("profile", "diff", tmp_path / "exact", tmp_path / "none", arenadump=arenadump)
    said = " ".join(unsampled.split())
    assert "what was allocated is known from a sample in 512.0 KiB before, not at all after." in said


def test_a_process_without_a_recorder(arenadump: harness.Arenadump) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        odd.wait_for_read(process.pid)
        done = arenadump.run("sites", process.pid)
        assert done.returncode == 5
        assert "has no profile: run the program by `arenascope run --profile -- COMMAND`" in done.stderr
        process.kill()


EIGHT = r"""
#include <stdio.h>
#include <stdlib.h>
static char *kept[8];
int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    getchar();
    for (int i = 0; i < 8; i++)
        kept[i] = malloc(100);
    puts("made");
    getchar();
    return kept[0] == NULL;
}
"""


MISSED = "the program made none, or so few that the samples missed them (`--exact` records each), or its malloc"


@pytest.mark.parametrize(("rates", "answer"), [("--rates=pages=65536,bytes=64M", MISSED), ("--exact", " main ")])
def test_few_small_chunks(arenadump: harness.Arenadump, tmp_path: Path, rates: str, answer: str) -> None:
    """Samples miss them, and that is said: no other malloc is suspected first. What is proposed shows them."""
    file = tmp_path / "dump"
    with subprocess.Popen([programs.build(EIGHT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "ready\n"
        with profiling(arenadump, program.pid, file, rates):
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "made\n"
        program.kill()
    assert answer in " ".join(command.here("profile", "top", file).stdout.split()) + " "
