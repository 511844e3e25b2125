# SPDX-License-Identifier: MIT
"""Objects of glib's type system, of tests/programs/gobjects.c, which knows the class of each."""

from __future__ import annotations

import bisect
import subprocess
from collections import Counter

import pytest
from graph.test_libraries import running
from graph.test_types import LIST_TYPES
from tools import holding, tiers

CLASSES = ["HeldPlain", "HeldPrivate", "HeldDerived", "HeldLarge"]


def compare(pid: int, kinds: dict[str, str]) -> None:
    """Each object's chunk, which may begin before it, has the name of the class, and no other chunk has."""
    done = subprocess.run([LIST_TYPES, str(pid)], capture_output=True, text=True, timeout=120, check=True)
    chunks = sorted((int(line.split("\t")[0], 16), line.split("\t")[3]) for line in done.stdout.splitlines())
    names = {}
    for address, kind in kinds.items():
        chunk, name = chunks[bisect.bisect(chunks, (int(address, 16), "\x7f")) - 1]
        if kind == "decoy":
            assert name not in (*CLASSES, "class (GObject)"), (address, name)
        else:
            assert name == kind
            names[chunk] = name
    assert Counter(names.values()) == dict.fromkeys(CLASSES, 50)
    found = Counter(name for _, name in chunks)
    assert {name: found[name] for name in CLASSES} == dict.fromkeys(CLASSES, 50)
    assert found["class (GObject)"] == found["type (GObject)"] == found["type's data (GObject)"] >= len(CLASSES)


@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_objects_have_their_class(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G_SLICE", "always-malloc")  # glib before 2.76 has objects in slices of its own
    with running(holding.build("gobjects", compiler)) as (pid, kinds):
        compare(pid, kinds)
