# SPDX-License-Identifier: MIT
"""The function whose calls keep pages: of made-up stacks, and of a redis that nobody wrote for this."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools import harness
from tools.profiling import profile
from tools.tab import Tab, write

from arenascope.profiles.page_pins import LEAST_EXCESS, NEAR, Keeping, narrowest_pinner
from arenascope.profiles.stack_titles import bare_name, is_for_others
from arenascope.wire.dump import Dump


def fill() -> Iterator[str]:
    for number in range(60000):
        yield f"set text{number} {'x' * (300 + number % 200)}"
        if number % 20 == 0:
            yield f"pfadd counter{number} a {number}"


def drop(what: str) -> Iterator[str]:
    return (f"del {what}{number}" for number in range(60000))


def test_the_narrowest_function_is_named() -> None:
    stacks = [
        Keeping(("zmalloc", "make", "open", "serve", "main"), 80, 8000, 100),
        Keeping(("grow", "open", "serve", "main"), 15, 1500, 50),
        Keeping(("load", "serve", "main"), 5, 500, 850),
    ]
    assert narrowest_pinner(stacks) == ("open", 95, 9500, 150)
    assert narrowest_pinner(stacks[:1]) is None, "all pages, and all bytes"
    assert narrowest_pinner([]) is None
    assert narrowest_pinner([Keeping(("a",), 0, 0, 100)]) is None
    nameless = [Keeping(("lib.so+0x12", "main"), 80, 1, 10), Keeping(("b", "main"), 20, 1, 90)]
    assert narrowest_pinner(nameless) is None, "an offset says nothing"
    through_others = [Keeping(("xmalloc", "a", "main"), 80, 1, 10), Keeping(("xmalloc", "b", "main"), 20, 1, 90)]
    assert narrowest_pinner(through_others) == ("a", 80, 1, 10)


def test_work_on_a_name_is_done_once() -> None:
    """A name is on many stacks, and its letters are inspected one by one."""
    names = tuple(f"app::only_in_this_test_{at}(int)" for at in range(20))
    before = bare_name.cache_info().misses, is_for_others.cache_info().misses
    stacks = [Keeping(names, 5, 5, 1) for _ in range(50)] + [Keeping(("other_of_this_test",), 1, 1, 200)]
    assert narrowest_pinner(stacks) == ("app::only_in_this_test_0", 250, 250, 50)
    assert bare_name.cache_info().misses - before[0] == len(names) + 1
    assert is_for_others.cache_info().misses - before[1] == len(names) + 1
    assert all(each.cache_info().maxsize for each in (bare_name, is_for_others)), "a bound"


# By its bare name. Two functions have one, and two blocks of Ruby's have two.
BARE = {
    **{name: name for name in ("a", "b", "c", "d", "p.rb:block in f", "p.rb:block (2 levels) in f")},
    "Tree::add(int)": "Tree::add",
    "Tree::add(char)": "Tree::add",
}
NAMES = st.lists(st.sampled_from(list(BARE)), min_size=1, max_size=6).map(tuple)
STACKS = st.lists(st.builds(Keeping, NAMES, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), max_size=12)


@given(STACKS)
def test_sums_are_those_of_the_stacks_with_the_function(stacks: list[Keeping]) -> None:
    def sums(name: str) -> tuple[int, int, int]:
        of = [each for each in stacks if name in {BARE[each] for each in each.names}]
        return sum(each.pages for each in of), sum(each.stranded for each in of), sum(each.bytes for each in of)

    pages, held = sum(each.pages for each in stacks), sum(each.bytes for each in stacks)

    def excess(name: str) -> float:
        return sums(name)[0] / pages - sums(name)[2] / held

    found = narrowest_pinner(stacks)
    if found:
        assert found[1:] == sums(found.name)
        assert excess(found.name) >= NEAR * max(map(excess, BARE.values())) - 1e-9
    elif pages and held:
        assert max(map(excess, BARE.values())) < LEAST_EXCESS


@contextmanager
def redis(agent: Path, folder: Path) -> Iterator[tuple[int, Path]]:
    """Redis on glibc's malloc, which records every chunk; its PID, and its socket."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    socket = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    # On a busy machine a command takes long now and then: Redis keeps its words in between the others' chunks.
    command += ["--slowlog-log-slower-than", "-1"]
    values = {"LD_PRELOAD": f"{agent} libc.so.6", "ARENASCOPE_PROFILE": "exact", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=values, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while not socket.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline, "it opens no socket"
                time.sleep(0.02)
            yield process.pid, socket
        finally:
            process.kill()


def ask(socket: Path, commands: Iterable[str]) -> None:
    words = "".join(f"{command}\r\n" for command in commands)
    command = ["redis-cli", "-s", str(socket), "--pipe"]
    done = subprocess.run(command, input=words, check=True, capture_output=True, text=True)
    assert "errors: 0" in done.stdout, done.stdout


def of_function(answer: dict[str, Any], function: str, what: str) -> int:
    """The sum of what the stacks with this function keep."""
    return sum(
        site["pinned"][what]
        for site in answer["sites"]
        if any(each["name"] == function for frame in site["stack"] for each in frame["functions"])
    )


def test_the_page_names_who_keeps_redis_pages_and_freeing_brings_them_back(
    agent: Path, arenadump: harness.Arenadump, browser: Any, tmp_path: Path
) -> None:
    with redis(agent, tmp_path) as (pid, socket):
        ask(socket, fill())
        ask(socket, drop("text"))
        # What is free anyhow goes first, so that the second trim returns what the counters have kept.
        first = json.loads(arenadump.check("trim", "--json", pid))
        arenadump.check("dump", "-o", tmp_path / "dump", pid)
        ask(socket, drop("counter"))
        second = json.loads(arenadump.check("trim", "--json", pid))
    assert first["returned"] > 0
    dump, answer = Dump(tmp_path / "dump"), profile(arenadump, tmp_path / "dump")
    pages, returned = of_function(answer, "pfaddCommand", "pages"), of_function(answer, "pfaddCommand", "returned")
    assert pages > 500
    tab = Tab(browser, write(tmp_path, dump))
    words = tab.page.locator("#profile .pins li").first.inner_text()
    tab.context.close()
    who = "what pfaddCommand and its calls allocated"
    assert words.startswith(f"At least {pages:,} pages are kept by nothing but {who}, which has ")
    assert not tab.said
    # Freed together, stacks return at least what each would return alone.
    assert second["returned"] >= returned > 1 << 20
