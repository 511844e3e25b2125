# SPDX-License-Identifier: MIT
"""Which interpreters a trace met and has no frames of."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from profiles.test_profile_ruby import blocks
from profiles.test_trace_python import BAD_INPUT, read
from tools import harness, interpreters, programs
from tools.records import changed
from tools.stage import Stage, until

if TYPE_CHECKING:
    from pathlib import Path

INTERPRETERS = 9
RUBY_3_9 = {"language": "ruby", "release": "3.9"}


def forged(stage: Stage) -> Path:
    """The record of a program that says that it is Ruby 3.9; it sleeps when it has allocated all."""
    program = programs.build("forged_iseqs", "-rdynamic", "-DRELEASE=9")
    record = stage.folder / "record"
    process = stage.start([str(program)], ARENASCOPE_PROFILE_TRACE=str(record))
    assert process.stdout
    process.stdout.readline()
    return record


def test_a_release_that_is_not_known_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = forged(stage)
    until(lambda: blocks(read(arenadump, record)).total() > 0, "the record lacks blocks")
    answer = read(arenadump, record)
    assert answer["unknown_interpreters"] == [RUBY_3_9]
    assert set(blocks(answer)) == {()}
    said = "Ruby 3.9: its frames are not known"
    assert said in arenadump.check("trace", record)
    tell = [sys.executable, "-m", "arenascope", "trace", str(record)]
    assert said in subprocess.run(tell, capture_output=True, text=True, check=True).stdout


def test_releases_that_there_cannot_be(stage: Stage, arenadump: harness.Arenadump) -> None:
    record, bad = forged(stage), stage.folder / "bad"
    for words in ([1 << 16, 0], [0, 1 << 16], [0xFFFF_FFFF, 0xFFFF_FFFF]):
        release = b"".join(word.to_bytes(4, "little") for word in words)
        bad.write_bytes(changed(record.read_bytes(), INTERPRETERS, 0, release))
        done = arenadump.run("trace", bad)
        assert done.returncode == BAD_INPUT
        assert "interpreters that no process has" in done.stderr


def test_none_is_none(stage: Stage, arenadump: harness.Arenadump) -> None:
    record = stage.folder / "record"
    stage.start(["/bin/sleep", "600"], ARENASCOPE_PROFILE_TRACE=str(record))
    until(record.exists, "there is no record")
    until(lambda: arenadump.run("trace", record).returncode == 0, "the record has no head")
    until(lambda: read(arenadump, record)["unknown_interpreters"] == [], "it is not said that there is none")


def test_a_release_of_python_that_is_not_known_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    """Before 3.11, Python does not say in a variable which one it is."""
    command, environment = interpreters.old_python()
    record = stage.folder / "record"
    process = stage.start(command, ARENASCOPE_PROFILE_TRACE=str(record), **environment)
    assert process.stdout
    process.stdout.readline()
    assert read(arenadump, record)["unknown_interpreters"] == [{"language": "python", "release": None}]
    assert "Python of an unknown release: its frames are not known" in arenadump.check("trace", record)


LIBRARY = """
#include <stdlib.h>
const int ruby_api_version[3] = {3, RELEASE, 0};
void *volatile kept;
void use(void) { kept = malloc(999); free(kept); }
"""
LOADS = """
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **paths)
{
    for (int i = 1; i < count; i++) {
        void *library = dlopen(paths[i], RTLD_NOW);
        if (!library)
            return 1;
        ((void (*)(void))dlsym(library, "use"))();
        usleep(500000);
        dlclose(library);
        free(malloc(1));
        usleep(500000);
    }
    return 0;
}
"""


def test_what_was_loaded_and_unloaded_is_said(stage: Stage, arenadump: harness.Arenadump) -> None:
    """By a process that has none of them at the beginning, and none at its end."""
    flags = ("-O1", "-fno-builtin")
    libraries = [programs.build(LIBRARY, *flags, "-shared", "-fPIC", f"-DRELEASE={release}") for release in (8, 9)]
    program = programs.build(LOADS, *flags, "-ldl")
    record = stage.folder / "record"
    process = stage.start([str(program), *map(str, libraries)], ARENASCOPE_PROFILE_TRACE=str(record))
    assert process.wait(60) == 0
    assert read(arenadump, record)["unknown_interpreters"] == [{"language": "ruby", "release": "3.8"}, RUBY_3_9]
