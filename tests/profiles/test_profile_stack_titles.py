# SPDX-License-Identifier: MIT
"""Stacks in a few words: names as compilers and libraries have them."""

from __future__ import annotations

import dataclasses

import pytest
from rich.console import Console

from arenascope.humanize import MINUS
from arenascope.profiles.language import OTHER, within
from arenascope.profiles.source_lines import plain_name
from arenascope.profiles.stack_titles import bare_name, caller_and_callee, is_for_others
from arenascope.render.profile import language_hint, render_top, render_tree
from arenascope.wire.profile import Module, Profile, Site, SourceLine, StackFrame, apart, difference, rows

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("function", "plain", "bare"),
    [
        ("main", "main", "main"),
        ("server::Connection::open(int)", "server::Connection::open", "server::Connection::open"),
        ("app::f(void (*)(int)) const", "app::f", "app::f"),
        ("std::string app::make<std::pair<int, char> >(int)", "std::string app::make<std::pair<int, char> >", None),
        (
            "void std::vector<int>::_M_grow<int>(int&&)",
            "void std::vector<int>::_M_grow<int>",
            "std::vector<int>::_M_grow<int>",
        ),
        ("operator new(unsigned long)", "operator new", "operator new"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f", None),
        ("?", "?", "?"),
        ("pool.rb:block in <main>", "pool.rb:block in <main>", "pool.rb:block in <main>"),
        ("pool.rb:block (2 levels) in <main>", None, "pool.rb:block (2 levels) in <main>"),
        ("", "", ""),
    ],
)
def test_names_without_arguments_and_results(function: str, plain: str | None, bare: str | None) -> None:
    if plain is not None:
        assert plain_name(function) == plain
    if bare is not None:
        assert bare_name(function) == bare
    elif function.startswith("std"):
        assert bare_name(function) == "app::make<std::pair<int, char> >"


def test_what_allocates_for_others_is_passed_over() -> None:
    for name in (
        "operator new[](unsigned long)",
        "void std::string::_M_mutate()",
        "xmalloc",
        "g_malloc0",
        "PyMem_RawMalloc",
        "zmalloc_usable",
        "zcalloc_num",
        "CRYPTO_malloc",
        "xreallocarray",
        "sqlite3Malloc",
        "ztrymalloc_usable",
    ):
        assert is_for_others(name), name
    for name in (
        "main",
        "std_main",
        "std::string app::make<int>()",
        "malloc_stats_of_ours",
        "xmalloc_user_of",
        "reallocate",
        "callocator",
        "prealloc",
        "hashmap_prealloc",
        "DocAlloc",
        "ItemAlloc",
        "a.rb:block in malloc",
    ):
        assert not is_for_others(name), name
    inwards = [
        "operator new(unsigned long)",
        "std::string::_M_create()",
        "std::string::assign()",
        "app::open(int)",
        "main",
    ]
    assert caller_and_callee(inwards) == ["app::open", "std::string::assign"]
    assert caller_and_callee(["site", "main"]) == ["main", "site"]
    assert caller_and_callee(["walk", "walk", "walk", "main"]) == ["main", "walk"]
    assert caller_and_callee(["operator new(unsigned long)"]) == ["operator new"]
    assert caller_and_callee([]) == []


def printed(profile: Profile, measure: str, *, compared: bool = False) -> str:
    console = Console(width=100)
    with console.capture() as caught:
        console.print(render_top(profile, measure, 30, compared=compared))
    return caught.get()


def names_of(text: str) -> list[str]:
    return [line.split("%")[-1].strip() for line in text.splitlines()[1:]]


def test_top_begins_with_functions_that_say_something() -> None:
    """What asks has what was allocated for it; what every program has comes last."""
    outer = ["_start", "__libc_start_main_impl", "main", "serve"]
    sites = [
        native(*outer, "handle", "std::vector<int>::push_back(int)", "operator new(unsigned long)", space=900),
        native(*outer, "handle", "parse", "xmalloc", space=2000),
        native("operator new(unsigned long)", space=10),
    ]
    text = printed(Profile(sites), "inuse_space")
    assert names_of(text)[:7] == ["parse", "handle", "operator new(unsigned long)", *reversed(outer)]
    lines = {line.split("%")[-1].strip(): line.split() for line in text.splitlines()[1:]}
    assert lines["handle"][:2] == ["900", "B"]
    assert lines["xmalloc"][:2] == ["0", "B"]


def test_the_language_of_most_is_told() -> None:
    line = SourceLine("handle", "/srv/app.py", 7)
    python = Site(
        (*native("eval", "PyObject_Malloc", space=9).frames, StackFrame(0, None, (line,), "python")), {"inuse_space": 9}
    )
    assert "--language python " in language_hint(Profile([python, native("main", space=8)]), "inuse_space")
    assert not language_hint(Profile([python, native("main", space=10)]), "inuse_space")
    assert not language_hint(Profile([]), "inuse_space")


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_cuts_no_number(width: int) -> None:
    """Nor does a function lose its name: its line is longer than the terminal's."""
    sites = [native("main", "a_function_with_a_name", space=-900_000), native("main", "other", space=1_000_000)]
    console = Console(width=width)
    with console.capture() as caught:
        console.print(render_top(Profile(sites), "inuse_space", 30, compared=True), crop=False)
    lines = [line.split() for line in caught.get().splitlines()]
    more, less = ["+976.6", "KiB"], [f"{MINUS}878.9", "KiB"]
    assert [*more, "52.6", "%", "52.6", "%", *more, "52.6", "%", "other"] in lines
    part = [f"{MINUS}47.4", "%"]
    assert [*less, *part, "5.3", "%", *less, *part, "a_function_with_a_na"] in lines


def native(*names: str, space: int, complete: bool = True) -> Site:
    """A site, its functions from the outermost one inwards."""
    frames = tuple(StackFrame(16, None, (SourceLine(name),)) for name in reversed(names))
    return Site(frames, {"inuse_space": space}, complete=complete)


def tree_of(sites: list[Site], width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as caught:
        console.print(render_tree(Profile(sites), "inuse_space", width))
    return [line.rstrip() for line in caught.get().splitlines()]


def test_a_deep_stack_in_the_tree() -> None:
    """It is there to its end, without an indentation for each of its functions."""
    names = ["main", *(f"walk_{at}" for at in range(300))]
    deep = native(*names, "leaf", space=1000)
    assert tree_of([deep]) == [
        "1000 B in all",
        "└── 1000 B 100.0 %  main",
        *(f"    1000 B 100.0 %  {name}" for name in [*names[1:], "leaf"]),
    ]
    cut = native("walk_298", "walk_299", "leaf", space=1000, complete=False)
    assert [line[18:] for line in tree_of([cut])[1:]] == ["  …", "  walk_298", "  walk_299", "  leaf"]


def test_what_the_tree_leaves_out_is_counted() -> None:
    """Small branches, and what is so deep that there is no room for its names."""
    small = [native("main", "read", f"parse_{at}", space=at) for at in (0, 2, 3)]
    assert tree_of([native("main", "read", "load", space=990), native("main", "tiny", space=5), *small]) == [
        "1000 B in all",
        "└── 1000 B 100.0 %  main",
        "    995 B 99.5 %  read … and 1 smaller one (5 B)",
        "    990 B 99.0 %  load … and 2 smaller ones (5 B)",
    ]
    two = [native("main", "a", space=500), native("main", "b", space=495), *small]
    assert tree_of(two)[-1] == "    └── … and 1 smaller one (5 B)"
    # A tree that forks at each of 30 levels; of each two branches one goes on.
    forks = [native("main", *(f"on_{at}" for at in range(level)), f"end_{level}", space=100) for level in range(30)]
    forks.append(native("main", *(f"on_{at}" for at in range(30)), "end", space=100))
    for width, levels in ((80, 10), (120, 20)):
        lines = tree_of(forks, width)
        assert max(map(len, lines)) <= width
        # main is a level, then each fork; of what is left one end a level, and a function that goes on.
        ends, on = 30 - levels + 2, 30 - levels + 1
        (said,) = (line for line in lines if "deeper" in line)
        assert said.endswith(f"… and {ends + on} functions deeper ({100 * ends / 1024:.1f} KiB)"), said
        assert sum("end_" in line for line in lines) == 31 - ends


def test_a_profile_of_which_nothing_is_left() -> None:
    """What was allocated is freed: no table of nothing, and the measure that has something is named."""
    frame = StackFrame(16, None, (SourceLine("load", "server.c", 5),))
    profile = Profile([Site((frame,), {"alloc_objects": 3, "alloc_space": 96, "inuse_objects": 0, "inuse_space": 0})])
    assert printed(profile, "inuse_space") == "No function has any inuse_space. Freed since: --measure alloc_space.\n"
    assert "96 B" in printed(profile, "alloc_space")
    same = printed(difference(profile, profile), "alloc_space", compared=True)
    assert same == "No function has more or less alloc_space.\n"
    none, other = "No allocation was recorded: the program made none", "its malloc is not glibc's (`arenascope summary`"
    missed = "or so few that the samples missed them (`--exact` records each), "
    for whole in (False, True):
        said = " ".join(printed(Profile([], whole=whole), "inuse_space").split())
        assert said == f"{none}, {'' if whole else missed}or {other} names it)."


def python(file: str, function: str = "grow") -> StackFrame:
    return StackFrame(0, None, (SourceLine(function, file, 3),), "python")


@pytest.mark.parametrize(
    ("files", "titles"),
    [
        (["/srv/a.py", "/srv/b.py"], ["a.py", "b.py"]),
        (["/srv/aa/m.py", "/srv/bb/m.py", "/srv/n.py"], ["aa/m.py", "bb/m.py", "n.py"]),
        (["/x/aa/m.py", "/y/aa/m.py", "/y/bb/m.py"], ["x/aa/m.py", "y/aa/m.py", "bb/m.py"]),
        (["m.py", "aa/m.py", "/m.py", "/aa/m.py"], ["m.py", "aa/m.py", "/m.py", "/aa/m.py"]),
        (["", "/srv/", "<string>"], ["?", "srv/", "<string>"]),
    ],
)
def test_files_of_one_name(files: list[str], titles: list[str]) -> None:
    """Each has as many directories before its name as it takes, and no two are called the same."""
    (frames,) = apart([[python(file) for file in files]])
    assert [frame.names() for frame in frames] == [(f"{title}:grow",) for title in titles]
    native = StackFrame(1, None, (SourceLine("f", "/a/m.c"), SourceLine("f", "/b/m.c")))
    assert apart([[native], [python("/srv/a.py")]]) == [(native,), (python("/srv/a.py"),)]


def test_files_of_one_name_in_one_of_two_profiles() -> None:
    """What one has alone is told from what both have, by the same names for both."""
    first, second = python("/srv/aa/m.py"), python("/srv/bb/m.py")
    before = Profile([Site((first,), {"inuse_space": 5})])
    after = Profile([Site((first,), {"inuse_space": 7}), Site((second,), {"inuse_space": 4})])
    after = dataclasses.replace(
        after, sites=[dataclasses.replace(s, frames=f) for s, f in zip(after.sites, apart([(first,), (second,)]))]
    )
    for less, more, sign in ((before, after, 1), (after, before, -1)):
        found = {row.name: row.flat for row in rows(difference(less, more).sites, "inuse_space")}
        assert found == {"aa/m.py:grow": sign * 2, "bb/m.py:grow": sign * 4}


def test_functions_in_one_language() -> None:
    """What C allocates for Python's functions counts as theirs; the sum stays."""

    def frame(name: str, language: str = "native") -> StackFrame:
        file = "app.py" if language == "python" else "app.c"
        return StackFrame(0 if language != "native" else 16, None, (SourceLine(name, file, 5),), language)

    def module(name: str) -> StackFrame:
        return dataclasses.replace(frame(name), module=Module("/lib/libpython3.so"))

    def site(space: int, *frames: StackFrame) -> Site:
        return Site(frames, {"inuse_space": space})

    profile = Profile(
        [
            site(5, module("malloc"), frame("load", "python"), module("call"), frame("main", "python"), module("run")),
            site(7, module("realloc"), frame("load", "python"), module("run")),
            site(9, module("start"), module("run")),
        ]
    )
    python = within(profile, "Python")
    found = {row.name: (row.flat, row.cum) for row in rows(python.sites, "inuse_space")}
    assert found == {"app.py:load": (12, 12), "app.py:main": (0, 5), "(no function in Python)": (9, 9)}
    assert python.total("inuse_space") == profile.total("inuse_space") == 21
    native = {row.name: row.flat for row in rows(within(profile, OTHER).sites, "inuse_space")}
    assert native == {"malloc": 5, "realloc": 7, "start": 9, "call": 0, "run": 0}
