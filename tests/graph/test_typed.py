# SPDX-License-Identifier: MIT
"""Types by debug information: of tests/programs/typed.cc, which knows the type of each of its chunks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import harness, odd, programs, tiers
from tools.cores import gcore
from tools.running import started
from tools.typed import CHUNK_TYPES, SPLIT, TYPES, Truth, build_split, pack, running, split_note

RUST = r"""
pub struct Session { id: u64, scores: Vec<u32>, peer: Option<Box<Session>>, room: [u64; 5] }
pub struct Container { sessions: Vec<Session>, one: Box<Session> }
static mut ALL: Option<Box<Container>> = None;
fn make(id: u64, peer: Option<Box<Session>>) -> Session {
    Session { id, scores: vec![1; 10], peer, room: [0; 5] }
}
fn main() {
    let sessions = (0..500).map(|i| make(i, Some(Box::new(make(i, None))))).collect();
    let all = Box::new(Container { sessions, one: Box::new(make(1, None)) });
    let held: *const Container = &*all;
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


@pytest.fixture(scope="module")
def program() -> Iterator[Truth]:
    with running(programs.build("typed", "-std=c++17")) as made:
        yield made


@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
@pytest.mark.parametrize("flags", [("-O0", "-gdwarf-4"), ("-O2", "-gdwarf-5"), ("-O1", "-gz", "-no-pie")])
def test_types_are_the_truth(compiler: str, flags: tuple[str, ...]) -> None:
    with running(programs.build("typed", "-std=c++17", *flags, compiler=compiler)) as made:
        answer = made.compare(made.process.pid)
    assert answer.wrong == []
    assert answer.share >= 0.99


def test_types_in_a_clone(program: Truth) -> None:
    answer = program.compare(program.process.pid, "--mode=clone")
    assert answer.wrong == []
    assert answer.share >= 0.99


def test_types_in_a_core(program: Truth, tmp_path: Path) -> None:
    answer = program.compare(gcore(program.process.pid, tmp_path))
    assert answer.wrong == []
    assert answer.share >= 0.99


VERSIONS = pytest.mark.parametrize("version", tiers.daily(["-gdwarf-4", "-gdwarf-5"], ["-gdwarf-5"], "compilers"))


@VERSIONS
@pytest.mark.parametrize("flags", [(TYPES,), (SPLIT,), (TYPES, SPLIT), (SPLIT, "-gz")], ids=" ".join)
@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_types_in_units_and_files_of_their_own(
    compiler: str, flags: tuple[str, ...], version: str, tmp_path: Path, arenadump: harness.Arenadump
) -> None:
    with running(build_split(tmp_path, version, *flags, compiler=compiler)) as truth:
        answer = truth.compare(truth.process.pid)
        assert split_note(arenadump, truth) is None
    assert answer.wrong == []
    assert answer.missing == set()
    assert answer.share >= 0.99


@VERSIONS
def test_types_in_a_file_that_several_share(version: str, tmp_path: Path) -> None:
    """What dwz has moved to a file of several programs, as distributions do (.gnu_debugaltlink)."""
    if not shutil.which("dwz"):
        pytest.skip("dwz is not installed (scripts/install-deps test)")
    shared = Path(f"/usr/lib/debug/.dwz/arenascope-{os.getpid()}.debug")
    try:
        shared.parent.mkdir(parents=True, exist_ok=True)
        shared.touch()
    except PermissionError as reason:
        pytest.skip(f"no file can be put where such files are searched for: {reason}")
    made, other = tmp_path / "typed", tmp_path / "other"
    shutil.copy(programs.build("typed", "-std=c++17", "-O1", version), made)
    shutil.copy(programs.build("typed", "-std=c++17", "-O0", version), other)
    try:
        subprocess.run(["dwz", "-m", shared, "-M", shared, made, other], check=True, capture_output=True)
        with running(made) as truth:
            answer = truth.compare(truth.process.pid)
            shared.unlink()
            without = truth.compare(truth.process.pid)
    finally:
        shared.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            shared.parent.rmdir()
    assert answer.wrong == without.wrong == []
    assert answer.share >= 0.99
    assert without.share < 0.5


def split(tmp_path: Path) -> tuple[Path, Path]:
    """The program without its debug information, and this in a file of its own."""
    made, debug = tmp_path / "typed", tmp_path / "typed.debug"
    shutil.copy(programs.build("typed", "-std=c++17"), made)
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
        subprocess.run(
            ["objcopy", "--only-keep-debug", programs.build("typed", "-std=c++17", "-O2"), debug], check=True
        )
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
        if found["path"][0]["address"] == truth.first("table"):
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


LOST = """
#include <cstdio>
struct Plain { long number; Plain *next; long more[6]; };
struct Object { virtual ~Object() {} long number = 1; };
struct Container : Object { Plain *first = new Plain{1, new Plain{2, nullptr, {}}, {}}; };
void lose(bool plain)
{
    for (int i = 0; i < 1000; i++) {
        void *lost = plain ? static_cast<void *>(new Plain()) : static_cast<void *>(new Container());
        asm volatile("" : : "r"(lost) : "memory"); // else no compiler would make it
    }
}
int main(int count, char **)
{
    lose(count > 1);
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() != EOF;
}
"""


@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_what_is_lost_has_types(mode: str, arenadump: harness.Arenadump) -> None:
    """From a lost object's class on. Of what has no class with a name, debug information tells nothing."""
    program = programs.build(LOST, "-g", "-O1", compiler="g++")

    def lost(*more: str) -> dict[tuple[str | None, str | None], int]:
        with started([str(program), *more], "ready") as pid:
            odd.wait_for_read(pid)
            found = json.loads(arenadump.check("leaks", "--json", f"--mode={mode}", pid))
        sums = {(group["type"], group["evidence"]): 0 for group in found["by_type"]}
        for group in found["by_type"]:
            sums[group["type"], group["evidence"]] += group["direct"]["count"] + group["indirect"]["count"]
        return sums

    typed = lost()
    assert typed["Container", "vtable"] >= 999  # a register may have the last one still
    assert typed["Plain", "dwarf"] >= 2 * 999
    assert lost("plain").get(("Plain", "dwarf")) is None


LARGE = """
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>
struct Session { long number; Session *none; };
struct Event { Session *session; long rest[63]; };
struct Small { long numbers[6]; };
static std::vector<Session *> vector;
static std::vector<unsigned char> bytes(1000, 1);
static std::deque<Event> long_deque; // with a block of its own for each
static std::deque<Small *> deque;
static Small **table;
// What is taken from a pool lies behind the header of a block, and is no header.
struct Block { Block *next; char *last, *end; };
static Block *pool;
static void make_pool()
{
    for (int i = 0; i < 200; i++) {
        Block *block = static_cast<Block *>(std::malloc(16384));
        long *taken = reinterpret_cast<long *>(block + 1);
        for (int k = 0; k < 1000; k++)
            taken[k] = reinterpret_cast<long>(k % 2 ? static_cast<void *>(&vector) : block);
        taken[1] = reinterpret_cast<long>(vector.empty() ? nullptr : vector[0]);
        *block = {pool, reinterpret_cast<char *>(taken + 1000), reinterpret_cast<char *>(block) + 16384};
        pool = block;
    }
}
static void make_table()
{
    void **before = static_cast<void **>(std::malloc(65 * sizeof(void *)));
    before[64] = new Session{0, nullptr};
    asm volatile("" : : "r"(before) : "memory");
    std::free(before);
    table = static_cast<Small **>(std::malloc(64 * sizeof *table)); // lies there now
    for (int i = 0; i < 64; i++)
        table[i] = new Small();
}
int main()
{
    make_table();
    for (long i = 0; i < 50000; i++) {
        vector.push_back(new Session{i, nullptr});
        long_deque.push_back({new Session{i, nullptr}, {}});
        deque.push_back(new Small());
    }
    make_pool();
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() != EOF;
}
"""


def test_large_containers(arenadump: harness.Arenadump) -> None:
    """An array far longer than 2^15 words has types to its end. What an array's end leaves of its chunk is no doubt."""
    program = programs.build(LARGE, "-g", "-O1", compiler="g++")
    with started([str(program)], "ready") as pid:
        found = json.loads(arenadump.check("types", "--json", pid))
    counts = {row["type"]: row["count"] for row in found["types"]}
    assert counts["Session"] + counts.get("Session[]", 0) == 100000  # malloc gives a few of them room for two
    assert counts["Small"] + counts.get("Small[]", 0) == 50064
    assert counts["Event"] >= 50000
    assert counts["Block[]"] == 200
    assert counts["unsigned char[]"] == 1
    assert sum(row["count"] for row in found["types"] if row["type"] is None) < 10


SPARSE = """
#include <cstdio>
#include <cstdlib>
struct Session { long number; Session *none; };
struct Slot { Session *session; long number; };
static Slot *slots;
int main()
{
    const size_t count = (size_t(8) << 30) / sizeof *slots;
    slots = static_cast<Slot *>(std::calloc(count + 100, sizeof *slots));
    if (!slots)
        return 1;
    for (size_t i = count - 100; i < count + 100; i++)
        slots[i] = {new Session{1, nullptr}, 1};
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 2;
}
"""


@pytest.mark.nightly("limits")
def test_pointers_too_far_behind_the_beginning(arenadump: harness.Arenadump) -> None:
    """The number of pointers that were not followed is said."""
    program = programs.build(SPARSE, "-g", "-O1", compiler="g++")
    if subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0:
        pytest.xfail("the kernel gives no process 8 GiB of addresses (vm.overcommit_memory)")
    with started([str(program)], "ready") as pid:
        found = json.loads(arenadump.check("types", "--json", pid))
    counts = {row["type"]: row["count"] for row in found["types"]}
    assert (counts["Session"], counts[None]) == (100, 100)
    assert found["graph"]["left_out"].startswith("100 pointers were not followed")


def test_a_declaration_behind_its_definition(arenadump: harness.Arenadump) -> None:
    """As some compilers write units for types: the name of the namespace comes with the declaration."""
    with started([str(programs.build("declared_behind", "-g0"))], "ready") as pid:
        found = json.loads(arenadump.check("types", "--json", pid))
    assert {row["type"]: row["count"] for row in found["types"]}["space::behind"] == 50


BY_DAY = {
    ("program", "module"),
    ("program", ".dwo files"),
    ("library", "module"),
    ("library", "package"),
    ("later", "module"),
}
WAYS = [
    pytest.param(where, debug, marks=() if (where, debug) in BY_DAY else pytest.mark.nightly("compilers"))
    for where in ("program", "library", "later")
    for debug in ("module", ".dwo files", "package")
]


def test_rust() -> None:
    """A Vec has a pointer to bytes, but its type says to what."""
    program = programs.build(RUST, "-g", "--crate-name=held", compiler="rustc")
    with started([str(program)], "ready") as pid:
        printed = subprocess.run([CHUNK_TYPES, str(pid)], capture_output=True, text=True, check=True).stdout
    found = Counter(line.split("\t")[3] for line in printed.splitlines() if "\tdwarf\t" in line)
    assert found["held::Session"] == 501
    assert found["held::Session[]"] == 1
    assert found["u32[]"] == 1001
    assert found["held::Container"] == 1


RUST_TABLES = r"""
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
pub struct Event { pub number: u64, pub text: String }
pub struct Session { pub peer: String, pub events: Vec<Event> }
static SESSIONS: OnceLock<Mutex<HashMap<u64, Session>>> = OnceLock::new();
static mut OTHERS: Vec<usize> = Vec::new();
fn main() {
    let mut all = SESSIONS.get_or_init(|| Mutex::new(HashMap::new())).lock().unwrap();
    for id in 0..4000u64 {
        let mut events = Vec::with_capacity(3);
        events.push(Event { number: id, text: format!("what happened in session {}", id) });
        all.insert(id, Session { peer: format!("203.0.113.{}", id), events });
    }
    for id in 0..3000 {
        all.remove(&id);
    }
    // Lies where events of sessions lay that are gone, and buckets that are empty lead there.
    for _ in 0..3000 {
        let numbers: Vec<u64> = vec![7; 3 * std::mem::size_of::<Event>() / 8];
        unsafe { (*std::ptr::addr_of_mut!(OTHERS)).push(Box::leak(numbers.into_boxed_slice()).as_ptr() as usize) };
    }
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{} {}", all.len(), all[&3500].events[0].text.len() as u64 + all[&3600].events[0].number);
}
"""


def test_rust_hash_tables() -> None:
    """Full buckets lead on, and empty ones nowhere."""
    program = programs.build(RUST_TABLES, "-g", "-O", "--crate-name=tables", compiler="rustc")
    with started([str(program)], "ready") as pid:
        printed = subprocess.run([CHUNK_TYPES, str(pid)], capture_output=True, text=True, check=True).stdout
    found = Counter(line.split("\t")[3] for line in printed.splitlines() if "\tdwarf\t" in line)
    assert found["(u64, tables::Session)[]"] == 1
    assert found["tables::Event[]"] == 1000
    assert "usize[]" in found or "u64[]" in found


@pytest.mark.parametrize(("where", "debug"), WAYS)
@pytest.mark.parametrize("compiler", tiers.compilers(["gcc", "clang"]))
def test_thread_local_variables(where: str, compiler: str, debug: str, tmp_path: Path) -> None:
    """Those of each thread lead on, in whichever of the three places they are."""
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "threads.c").write_text(THREADS)
    later, program, library = where == "later", tmp_path / "threads", tmp_path / "library.so"
    # llvm-dwp 14 never comes to an end with several files of gcc's in DWARF 5.
    version = "-gdwarf-4" if (compiler, debug) == ("gcc", "package") else "-g"
    command: list[str | Path] = [compiler, "-g" if debug == "module" else SPLIT, version, "-O1", "-pthread", "-o"]
    subprocess.run([*command, library, "-shared", "-fPIC", tmp_path / "library.c"], check=True, cwd=tmp_path)
    if debug == "package" and where != "program":
        pack(library)
    part = "-DLATER" if later else tmp_path / "library.c" if where == "program" else library
    command += [program, tmp_path / "threads.c", part, "-ldl", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(command, check=True, cwd=tmp_path)
    if debug == "package":
        pack(program)
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


@pytest.mark.parametrize("times", [15, pytest.param(100, marks=pytest.mark.nightly("limits"))])
@pytest.mark.parametrize("what", ["debug file", ".dwo file", "package"])
def test_damaged_debug_information(what: str, times: int, tmp_path: Path) -> None:
    """Whatever the file says: an answer, or an error with its reason, in bounded time; never a signal."""
    if what == "debug file":
        made, file = split(tmp_path)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={file}", made], check=True)
    else:
        made = build_split(tmp_path, SPLIT, TYPES)
        file = pack(made) if what == "package" else made.with_suffix(".dwo")
    sections = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True).stdout
    rows = [line.replace("[ ", "[").split() for line in sections.splitlines()]
    places = [(row[1].removesuffix(".dwo"), int(row[4], 16), int(row[5], 16)) for row in rows if ".debug_" in str(row)]
    parts = [".debug_info", ".debug_info", ".debug_abbrev", ".debug_str"]
    parts += [".debug_cu_index", ".debug_tu_index", ".debug_str_offsets"] if what == "package" else []
    whole = file.read_bytes()
    rng = random.Random(1)
    with running(made) as truth:
        for _ in range(times):
            damaged = bytearray(whole)
            part = rng.choice(parts)
            start, size = rng.choice([(start, size) for name, start, size in places if name == part])
            for _ in range(rng.choice([1, 10, 1000])):
                damaged[start + rng.randrange(size)] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
            file.write_bytes(damaged)
            command = [str(CHUNK_TYPES), str(truth.process.pid)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, check=False)
            assert done.returncode == 0, done.stderr
