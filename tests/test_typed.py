# SPDX-License-Identifier: MIT
"""Types by debug information: of tests/programs/typed.cc, which knows the type of each of its chunks."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, programs
from tools.cores import gcore
from tools.running import started

CHUNK_TYPES = Path(os.environ.get("CHUNK_TYPES", harness.ROOT / "build/tests/unit/chunk_types"))
TEXT = "text (pointer, length, capacity)"
# What compilers spell differently.
SPELLINGS = (
    ("long unsigned int", "unsigned long"),
    ("long int", "long"),
    ("const int", "int const"),
    ("const app::Key", "app::Key const"),
    (" *", "*"),
    ("> >", ">>"),
    ("> >", ">>"),
)
# What the program does not list: the tables of hash tables and deques, and the bits of vectors.
OTHERS = {"unsigned long[]", "std::__detail::_Hash_node_base*[]", "app::Plain*[]", "char[]"}


def spelled(name: str) -> str:
    for one, other in SPELLINGS:
        name = name.replace(one, other)
    return name


@dataclass
class Answer:
    """What was found, beside the truth: bytes of chunks."""

    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.right / (self.right + self.unknown)


class Truth:
    """tests/programs/typed.cc, and the type of each of its chunks."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.types: dict[int, str] = {}
        assert self.process.stdout
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, address = line.rstrip().split("\t")
            self.types[int(address, 16)] = spelled(name)
        raise AssertionError(f"the program died: {self.process.wait()}")

    def first(self, name: str) -> str:
        return hex(next(address for address, its in self.types.items() if its == name))

    def compare(self, target: int | Path, *options: str) -> Answer:
        command = [str(CHUNK_TYPES), *options, str(target)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        answer, left = Answer(), dict(self.types)
        for line in printed.splitlines():
            address, size, evidence, name = line.split("\t")
            found, known = spelled(name), evidence in {"dwarf", "vtable"}
            expected = left.pop(int(address, 16), None)
            if expected is None:
                if evidence == "dwarf" and found not in OTHERS:
                    answer.wrong.append(f"{address}: {found}, which nobody allocated")
            elif known and expected != found:
                answer.wrong.append(f"{address}: {found}, not {expected}")
            elif known or expected.startswith("!") or (expected == "char[]" and name == TEXT):
                answer.right += int(size)
            else:
                answer.unknown += int(size)
        assert not left, "not all chunks were found"
        return answer


@contextmanager
def running(program: Path) -> Iterator[Truth]:
    made = Truth(program)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


RUST = r"""
pub struct Session { id: u64, scores: Vec<u32>, peer: Option<Box<Session>>, room: [u64; 5] }
pub struct Holder { sessions: Vec<Session>, one: Box<Session> }
static mut ALL: Option<Box<Holder>> = None;
fn make(id: u64, peer: Option<Box<Session>>) -> Session {
    Session { id, scores: vec![1; 10], peer, room: [0; 5] }
}
fn main() {
    let sessions = (0..500).map(|i| make(i, Some(Box::new(make(i, None))))).collect();
    let all = Box::new(Holder { sessions, one: Box::new(make(1, None)) });
    let held: *const Holder = &*all;
    unsafe { ALL = Some(all) };
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let held = unsafe { &*held };
    let last = &held.sessions[499];
    println!("{} {} {}", last.id + held.one.id, last.scores[0], last.room[0] + last.peer.is_some() as u64);
}
"""


LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
struct mine { struct mine *next; long number; double room[5]; };
static __thread char unaligned[3];
static __thread struct { long count; struct mine *list; } of_thread;
static __thread struct mine *recent[4];
static struct mine *make(void) {
    struct mine *made = calloc(1, sizeof *made);
    printf("%p\n", (void *)made);
    made->number = of_thread.count++;
    return made;
}
void fill(int count) {
    unaligned[0] = (char)count;
    for (int i = 0; i < count; i++) {
        struct mine *made = make();
        made->next = of_thread.list;
        of_thread.list = made;
    }
    recent[of_thread.count % 4] = make();
    __asm__ volatile("" ::"r"(recent), "r"(unaligned), "r"(&of_thread) : "memory");
}
"""
THREADS = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#ifdef LATER
static void (*fill)(int);
#else
void fill(int count);
#endif
static pthread_barrier_t ready;
static void *work(void *unused) {
    fill(100);
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 4);
#ifdef LATER
    void *library = dlopen(argv[argc - 1], RTLD_NOW);
    *(void **)&fill = library ? dlsym(library, "fill") : NULL;
    if (!fill)
        return 1;
#else
    (void)argc, (void)argv;
#endif
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, work, NULL);
    fill(200);
    pthread_barrier_wait(&ready);
    puts("ready");
    fflush(stdout);
    pause();
}
"""


def build(compiler: str, *flags: str) -> Path:
    try:
        return programs.build_cxx("typed", "-std=c++17", *flags, compiler=compiler)
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def program() -> Iterator[Truth]:
    with running(build("g++")) as made:
        yield made


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("flags", [("-O0", "-gdwarf-4"), ("-O2", "-gdwarf-5"), ("-O1", "-gz", "-no-pie")])
def test_types_are_the_truth(compiler: str, flags: tuple[str, ...]) -> None:
    with running(build(compiler, *flags)) as made:
        answer = made.compare(made.process.pid)
    assert answer.wrong == []
    assert answer.share >= 0.99


def test_types_in_a_clone(program: Truth) -> None:
    answer = program.compare(program.process.pid, "--mode=snapshot")
    assert answer.wrong == []
    assert answer.share >= 0.99


def test_types_in_a_core(program: Truth, tmp_path: Path) -> None:
    answer = program.compare(gcore(program.process.pid, tmp_path))
    assert answer.wrong == []
    assert answer.share >= 0.99


@pytest.mark.parametrize("flag", ["-fdebug-types-section", "-gsplit-dwarf"])
def test_types_elsewhere_are_not_guessed(flag: str, tmp_path: Path) -> None:
    """What is not read (docs/graph.md) makes types unknown, not wrong. Files that a unit names are left alone."""
    source = programs.SOURCES / "typed.cc"
    made = tmp_path / "typed"
    subprocess.run(["g++", "-O1", "-g", "-std=c++17", flag, "-o", str(made), str(source)], check=True, cwd=tmp_path)
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
    assert answer.wrong == []
    assert answer.share < 0.5


def split(tmp_path: Path) -> tuple[Path, Path]:
    """The program without its debug information, and this in a file of its own."""
    made, debug = tmp_path / "typed", tmp_path / "typed.debug"
    shutil.copy(build("g++"), made)
    subprocess.run(["objcopy", "--only-keep-debug", made, debug], check=True)
    subprocess.run(["strip", made], check=True)
    return made, debug


@pytest.mark.parametrize("where", ["debug link", "debuginfod's cache", "nowhere", "another build's"])
def test_a_file_of_its_own(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arenadump: harness.Arenadump
) -> None:
    made, debug = split(tmp_path)
    if where in {"debug link", "another build's"}:
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", made], check=True)
    if where == "debuginfod's cache":
        notes = subprocess.run(["readelf", "-n", made], capture_output=True, text=True, check=True).stdout
        build_id = notes.split("Build ID: ")[1].split()[0]
        (tmp_path / "cache" / build_id).mkdir(parents=True)
        debug.rename(tmp_path / "cache" / build_id / "debuginfo")
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    if where == "another build's":
        subprocess.run(["objcopy", "--only-keep-debug", build("g++", "-O2"), debug], check=True)
    with running(made) as truth:
        answer = truth.compare(truth.process.pid)
        found = way_to_an_entry(truth, arenadump)
    assert answer.wrong == []
    there = where in {"debug link", "debuginfod's cache"}
    assert answer.share >= 0.99 if there else answer.share < 0.5
    assert found["owner"]["name"] == ("symbols" if there else None)
    assert found["owner"]["type"] == ("table*" if there else None)


def way_to_an_entry(truth: Truth, arenadump: harness.Arenadump) -> Any:
    """From the table's variable, if there is one: old pointers lead to some entries, on shorter ways."""
    found: Any = None
    for address in [address for address, name in truth.types.items() if name == "entry"][:40]:
        found = json.loads(arenadump.check("why", "--json", truth.process.pid, hex(address)))
        if len(found["path"]) == 3 and found["path"][0]["address"] == truth.first("table"):
            break
    return found


def test_members_on_the_way(program: Truth, arenadump: harness.Arenadump) -> None:
    pid = program.process.pid
    found = way_to_an_entry(program, arenadump)
    assert found["owner"]["type"] == "table*"
    assert found["member"] == ""
    assert [step["member"] for step in found["path"]][:2] == ["table::buckets", "entry*[]"]
    assert found["path"][0]["evidence"] == "dwarf"
    assert found["path"][-1]["member"] is None
    said = arenadump.check("why", pid, found["address"])
    assert ": table*" in said
    assert "table::buckets, it points to +0 of" in said
    # A member of an array of structs, and one of a variable that is a class.
    more = [address for address, name in program.types.items() if name == "app::net::Slot<app::net::Session>[]"]
    found = json.loads(arenadump.check("why", "--json", pid, hex(more[0])))
    assert found["path"][-2]["member"] == "app::net::Cache::more"
    nodes = [address for address, name in program.types.items() if name == "std::_Fwd_list_node<app::Plain>"]
    first = nodes[1999]  # of the list in `registry`: each new node comes before all others
    found = json.loads(arenadump.check("why", "--json", pid, hex(first)))
    assert found["member"] == ".forward._M_impl._M_head._M_next"
    assert found["owner"]["type"] == "app::Registry"


def test_rust(tmp_path: Path) -> None:
    """A Vec has a pointer to bytes, but its type says to what."""
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    (tmp_path / "held.rs").write_text(RUST)
    subprocess.run(["rustc", "-g", "-o", tmp_path / "held", tmp_path / "held.rs"], check=True)
    with started([str(tmp_path / "held")], "ready") as pid:
        printed = subprocess.run([CHUNK_TYPES, str(pid)], capture_output=True, text=True, check=True).stdout
    found = Counter(line.split("\t")[3] for line in printed.splitlines() if "\tdwarf\t" in line)
    assert found["held::Session"] == 501
    assert found["held::Session[]"] == 1
    assert found["u32[]"] == 1001
    assert found["held::Holder"] == 1


@pytest.mark.parametrize("where", ["program", "library", "later"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_thread_local_variables(where: str, compiler: str, tmp_path: Path) -> None:
    """Those of each thread lead on, in whichever of the three places they are."""
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "threads.c").write_text(THREADS)
    later, program, library = where == "later", tmp_path / "threads", tmp_path / "library.so"
    command: list[str | Path] = [compiler, "-g", "-O1", "-pthread", "-o"]
    subprocess.run([*command, library, "-shared", "-fPIC", tmp_path / "library.c"], check=True)
    part = "-DLATER" if later else tmp_path / "library.c" if where == "program" else library
    command += [program, tmp_path / "threads.c", part, "-ldl", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(command, check=True)
    with subprocess.Popen([program, library], stdout=subprocess.PIPE, text=True) as process:
        try:
            output = process.stdout
            assert output
            made = set()
            while (line := output.readline()) != "ready\n":
                assert line, "the program died"
                made.add(line.strip())
            printed = subprocess.run([CHUNK_TYPES, str(process.pid)], capture_output=True, text=True, check=True).stdout
        finally:
            process.kill()
    found = {line.split("\t")[0] for line in printed.splitlines() if line.endswith("\tdwarf\tmine")}
    assert len(made) == 200 + 1 + 3 * 101
    assert found == made


def test_damaged_debug_information(tmp_path: Path) -> None:
    """Whatever the file says: an answer, or an error with its reason, in bounded time; never a signal."""
    made, debug = split(tmp_path)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", made], check=True)
    sections = subprocess.run(["readelf", "-SW", debug], capture_output=True, text=True, check=True).stdout
    rows = [line.replace("[ ", "[").split() for line in sections.splitlines()]
    places = {
        row[1]: (int(row[4], 16), int(row[5], 16)) for row in rows if len(row) > 6 and row[1].startswith(".debug_")
    }
    whole = debug.read_bytes()
    rng = random.Random(1)
    with running(made) as truth:
        for _ in range(40):
            damaged = bytearray(whole)
            start, size = places[rng.choice([".debug_info", ".debug_info", ".debug_abbrev", ".debug_str"])]
            for _ in range(rng.choice([1, 10, 1000])):
                damaged[start + rng.randrange(size)] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
            debug.write_bytes(damaged)
            command = [str(CHUNK_TYPES), str(truth.process.pid)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, check=False)
            assert done.returncode == 0, done.stderr
