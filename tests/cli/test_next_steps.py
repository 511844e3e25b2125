# SPDX-License-Identifier: MIT
"""The commands of findings: each as it is printed, pasted into a shell, on a real process."""

from __future__ import annotations

import ast
import contextlib
import ctypes.util
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import browser, debian, harness, jvms, parts, programs
from tools.keeps import Keeps
from tools.paths import ROOT
from tools.preload import preloadable
from tools.profiling import profiling
from tools.running import process, started

from arenascope.findings import Facts, judge
from arenascope.findings.evidence_in_use import _of_graph
from arenascope.humanize import size
from arenascope.processes import children
from arenascope.wire.summary import parse

SLEEPS = re.compile(r"sleep 60\b")
PATIENCE = 120  # seconds


def steps(arenadump: harness.Arenadump, pid: int) -> list[str]:
    """The commands that the findings about a process name, in their order."""
    facts = Facts(parse(arenadump.check("summary", "--json", pid)))
    return [step.command for finding in judge(facts).findings for step in finding.next]


def shell(command: str, arenadump: harness.Arenadump, folder: Path, **environment: str) -> str:
    """What a command prints in a shell of which `folder` is the working directory."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "ARENASCOPE_ARENADUMP": str(arenadump.path.resolve()), "COLUMNS": "100"}
    done = subprocess.run(
        ["sh", "-c", command],
        check=False,
        cwd=folder,
        env={**os.environ, **own, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def restarted(setting: str, program: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program, started from a shell into which `setting` was pasted before. It has said that it is ready."""
    with subprocess.Popen(
        ["sh", "-c", f"{setting}\nexec {program}"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            assert running.stdout
            assert any("ready" in line for line in running.stdout), "it ended before it was ready"
            yield running
        finally:
            running.kill()


def await_file(folder: Path, pattern: str) -> Path:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for path in folder.glob(pattern):
            if path.stat().st_size:
                return path
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} in {folder} after {PATIENCE} s")


def test_growth(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        (command,) = (each for each in steps(arenadump, pid) if each.endswith("growth.html"))
        shell(SLEEPS.sub("sleep 0", command), arenadump, tmp_path)
    page = (tmp_path / "growth.html").read_text(encoding="utf-8")
    assert "200,000" in page


def test_owners(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([str(programs.build("leak"))], "ready") as pid:
        command = steps(arenadump, pid)[0]
        assert command == f"arenascope owners {pid}"
        printed = shell(command, arenadump, tmp_path)
    assert re.search(r"variable \w+ \(leak", printed) or "is lost" in printed


def test_leaks(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Where one size has most of what is in use, in a program of no runtime."""
    with started([str(programs.build("leak"))], "ready") as pid:
        (command,) = (each for each in steps(arenadump, pid) if each.startswith("arenascope leaks"))
        printed = shell(command, arenadump, tmp_path)
    assert "200,000" in printed


WORKERS = """
import os, sys
class Session:
    def __init__(self):
        self.data = bytearray(1000)
ready, says = os.pipe()
for count in 100, 40_000:
    if not os.fork():
        kept = [Session() for _ in range(count)]
        os.write(says, b".")
        sys.exit(sys.stdin.read())
    os.read(ready, 1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_another_worker(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The larger one is compared with the smaller one; this one has nothing to be compared with, nor has the parent."""
    with started([sys.executable, "-c", WORKERS], "ready") as pid:
        small, large = children(pid)
        commands = {each: [step for step in steps(arenadump, each) if " diff " in step] for each in (pid, small, large)}
        assert commands == {pid: [], small: [], large: [f"arenascope diff --graph {small} {large}"]}
        printed = shell(commands[large][0], arenadump, tmp_path)
    assert re.search(r"__main__\.Session .*\+39,900\b", printed)


ALLOCATES = "import time; kept = []\nwhile True: kept += [bytes(2000) for _ in range(50)]; time.sleep(0.01)"


def test_profile(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = f"kept_before = [bytes(600) for _ in range(50_000)]; print('ready', flush=True)\n{ALLOCATES}"
    with started([sys.executable, "-c", program], "ready") as pid:
        (command,) = (each for each in steps(arenadump, pid) if "arenascope profile" in each)
        assert f"arenascope profile {pid} --for 60s " in command
        printed = shell(command.replace("60s", "1s"), arenadump, tmp_path)
        assert "PyBytes_FromStringAndSize" in printed or "<module>" in printed or "_PyBytes" in printed
        with profiling(arenadump, pid, tmp_path / "dump"):
            assert not [each for each in steps(arenadump, pid) if "profile" in each]


def test_with_a_graph_the_finding_says_who(arenadump: harness.Arenadump, keeps: Keeps, tmp_path: Path) -> None:
    summary = parse(arenadump.check("summary", "--json", keeps.path))
    found = {finding.rule: finding for finding in judge(Facts(summary)).findings}
    assert not [step for finding in found.values() for step in finding.next if "owners" in step.command]
    pins = found["stranded by pins"].evidence
    who = r"By type and owner: Connection held by open_connections \(owning\S*\): [\d.]+ MiB"
    assert re.search(who + r"\. The first are alone on 1,\d{3} pages\.", pins), pins
    held = _of_graph(Facts(summary))
    assert "open_connections (owning" in held
    types = held.partition("The largest types of ")[2]
    assert f"Connection ({size(48 * len(keeps.of['Connection']))}), Session (" in types
    assert f"in {summary.graph.direct.count} chunks is lost" in held  # type: ignore[union-attr]
    graph = summary.graph
    assert graph
    assert ("of the bytes have no known type" in held) == (graph.typed < graph.bytes)


def test_python(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = "kept = [[i] for i in range(200_000)]; print('ready', flush=True); input()"
    with started([sys.executable, "-c", program], "ready") as pid:
        objects, owners, *_ = steps(arenadump, pid)
        by_type, held = (shell(step, arenadump, tmp_path) for step in (objects, owners))
    assert "Python's objects by type" in by_type
    assert re.search(r"^list +200,\d{3} ", by_type, re.MULTILINE)
    assert re.search(r" (199|200),\d{3} +0x[0-9a-f]+ +list *$", held, re.MULTILINE)


def test_java(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    jvm = jvms.required()
    path = f"{jvm.home}/bin:{os.environ['PATH']}"
    source = programs.SOURCES / "java/Holds.java"
    with started([jvm.tool("java"), "-Xmx256m", str(source), "60", "60"], "ready") as pid:
        found = steps(arenadump, pid)  # the heap's or malloc's first: which is larger differs
        heap, histogram, setting, native = (
            next(step for step in found if part in step)
            for part in ("GC.heap_info", "GC.class_histogram", "JAVA_TOOL_OPTIONS", "VM.native_memory")
        )
        assert " used " in shell(heap, arenadump, tmp_path, PATH=path)
        assert re.search(r"6\d\s+6\d{7}\s+\[\[?B|\d+\s+6\d{7}\s+\[B", shell(histogram, arenadump, tmp_path, PATH=path))
        assert "not enabled" in shell(native, arenadump, tmp_path, PATH=path)
    with restarted(setting, f"{jvm.tool('java')} -Xmx256m {shlex.quote(str(source))} 20 20", tmp_path) as java:
        again = native.replace(str(pid), str(java.pid))
        assert "Java Heap (reserved=" in shell(again, arenadump, tmp_path, PATH=path)


def test_ruby(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    # Ruby 3.2 and later keep up to 640 bytes of a string in its own pages, not in malloc's.
    program = "a = Array.new(100_000) { 'x' * 700 }; a = nil; puts :ready; $stdout.flush; loop { sleep 0.1 }"
    with started(["ruby", "-e", f"GC.disable; {program}"], "ready") as pid:
        objects, setting = steps(arenadump, pid)[:2]
        printed = shell(objects, arenadump, tmp_path)
    assert re.search(r"^T_STRING +\d{3},\d{3} ", printed, re.MULTILINE)
    with restarted(setting, f"ruby -e {programs_word(program)}", tmp_path) as ruby:
        before = used(arenadump, ruby.pid)
        os.kill(ruby.pid, signal.SIGUSR2)
        until = time.monotonic() + PATIENCE
        while used(arenadump, ruby.pid) > before - (20 << 20):
            assert time.monotonic() < until, "nothing was collected"
            time.sleep(0.1)


FEW_OLD = (
    "def made; Array.new(1_000_000) { Object.new }.each_slice(70).map(&:first); end; "
    "kept = Thread.new { made }.value; 3.times { GC.start }; "
    "puts :ready; $stdout.flush; loop { sleep 0.1 }"
)


def ruby_pages(arenadump: harness.Arenadump, pid: int) -> float:
    """Infinite while Ruby moves its objects: its pages cannot be proven then."""
    held: int | None = arenadump.summary(pid)["ledger"]["ruby_pages"]
    return math.inf if held is None else held


def test_ruby_of_which_most_slots_are_free(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """A few old objects keep all pages: a collection gives back next to nothing, the command that is named does."""
    with started(["ruby", "-e", FEW_OLD], "ready") as pid:
        (setting,) = (each for each in steps(arenadump, pid) if "RUBYOPT" in each)
    assert "GC.compact" in setting
    collect = setting.replace("GC.compact; ", "")
    left = {}
    for way in (collect, setting):
        with restarted(way, f"ruby -e {programs_word(FEW_OLD)}", tmp_path) as ruby:
            before = ruby_pages(arenadump, ruby.pid)
            os.kill(ruby.pid, signal.SIGUSR2)
            until = time.monotonic() + (PATIENCE if way == setting else 3)
            while (after := ruby_pages(arenadump, ruby.pid)) > before / 2 and time.monotonic() < until:
                time.sleep(0.2)
            left[way] = after / before
    assert left[collect] > 0.9
    assert left[setting] < 0.5


PHP = """$all = []; $kept = [];
for ($i = 0; $i < 30000; $i++) {
    $all[] = str_repeat(chr(65 + $i % 26), 2000);
    if (KEEPS && $i % 200 == 0) $kept[] = str_repeat("z", 2000 + $i % 7);
}
$all = null;
echo "ready\\n"; fgets(STDIN);
gc_collect_cycles(); gc_mem_caches();
echo "returned\\n"; fgets(STDIN);"""


@pytest.mark.parametrize("keeps", ["true", "false"])
def test_php(arenadump: harness.Arenadump, keeps: str) -> None:
    """No more comes back than was said: nothing of the chunks in each of which a string is left."""
    words = ["php", "-d", "memory_limit=-1", "-r", PHP.replace("KEEPS", keeps)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as php:
        assert php.stdin
        assert php.stdout
        assert php.stdout.readline() == "ready\n"
        facts = Facts(parse(arenadump.check("summary", "--json", php.pid)))
        before = facts.row("other_malloc") or 0
        said = next(each.evidence for each in judge(facts).findings if each.rule == "other malloc")
        php.stdin.write("\n")
        php.stdin.flush()
        assert php.stdout.readline() == "returned\n"
        after = arenadump.summary(php.pid)["ledger"]["other_malloc"]
        php.kill()
    assert "return at most the chunks of 2 MiB in which nothing is in use" in said
    assert (after > 0.9 * before) if keeps == "true" else (after < 0.5 * before)


LOSES = """import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for _ in range(30_000): ctypes.memset(ctypes.c_void_p(libc.malloc(1000)), 1, 1000)
print("ready", flush=True); input()"""


def test_leaks_beside_a_runtime(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """What a C library under an interpreter has lost."""
    with started([sys.executable, "-c", LOSES], "ready") as pid:
        (command,) = (each for each in steps(arenadump, pid) if each.startswith("arenascope leaks"))
        printed = shell(command, arenadump, tmp_path)
    assert re.search(r"^30,0\d\d +\S+ MiB +1,?008 B|^ *(29,9|30,0)\d\d ", printed, re.MULTILINE)


def test_what_strands_memory(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("pins") as pid:
        command = steps(arenadump, pid)[0]
        assert command == f"arenascope report {pid} --graph -o pins.html"
        shell(command, arenadump, tmp_path)
    assert "stranded" in (tmp_path / "pins.html").read_text(encoding="utf-8")


def test_mappings(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with process("not-malloc") as pid:
        command = next(each for each in steps(arenadump, pid) if " report " in each)
        assert command == f"arenascope report {pid} -o memory.html"
        shell(command, arenadump, tmp_path)
    assert "anonymous" in (tmp_path / "memory.html").read_text(encoding="utf-8")


def test_who_holds_the_mappings(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([str(programs.build("mapped"))], "ready") as pid:
        command = steps(arenadump, pid)[0]
        assert command == f"arenascope owners {pid}"
        printed = shell(command, arenadump, tmp_path)
    assert re.search(r"variable free_list.*\n.* frame *\n.*anonymous mapping", printed)


STACKS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t deep;
static void *work(void *unused)
{
    char held[2 << 20];
    pthread_setname_np(pthread_self(), "worker");
    memset(held, 1, sizeof held);
    pthread_barrier_wait(&deep);
    pause();
    return held[1] ? unused : NULL;
}
int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&deep, NULL, 13);
    for (int i = 0; i < 12; i++)
        pthread_create(&thread, NULL, work, NULL);
    pthread_barrier_wait(&deep);
    puts("ready");
    fflush(stdout);
    pause();
}
"""


def test_stacks(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started([str(programs.build(STACKS, "-pthread"))], "ready") as pid:
        (command, *_) = steps(arenadump, pid)
        printed = shell(command, arenadump, tmp_path)
    assert printed.splitlines()[0].split() == ["12", "worker"]


def test_the_largest_finding_has_a_command(arenadump: harness.Arenadump) -> None:
    """Whatever it is."""
    for cause in ("tcache", "fastbin", "returned", "idle-arenas", "mmapped", "withheld"):
        with process(cause) as pid:
            first = judge(Facts(parse(arenadump.check("summary", "--json", pid)))).findings[0]
        assert first.command or first.next, cause


def programs_word(program: str) -> str:
    return "'" + program.replace("'", '"') + "'"


def used(arenadump: harness.Arenadump, pid: int) -> int:
    held = parse(arenadump.check("summary", "--json", pid)).sums.used
    assert held is not None
    return held


NODE = (
    "const kept = []; for (let i = 0; i < 200000; i++) kept.push({x: i}); "
    "console.log('ready'); setInterval(() => kept, 9)"
)


def test_node(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started(["node", "-e", NODE], "ready") as pid:
        (setting,) = (each for each in steps(arenadump, pid) if "NODE_OPTIONS" in each)
    with restarted(setting, f'node -e "{NODE}"', tmp_path) as node:
        os.kill(node.pid, signal.SIGUSR2)
        await_file(tmp_path, "Heap*.heapsnapshot")


# Says the bytes of its Buffers, and after each line of its input again, with more of them.
BUFFERS = """
const kept = [];
const say = () => console.log('ready', process.memoryUsage().arrayBuffers);
process.stdin.on('data', () => {
    for (let i = 0; i < 600; i++) kept.push(Buffer.alloc(100 * 1024, 1));
    for (let i = 0; i < 4000; i++) kept.push(Buffer.alloc(6000, 1));
    say();
});
say();
"""


def test_buffers_of_node(arenadump: harness.Arenadump) -> None:
    """What the process says of its Buffers is what they have in malloc's chunks. What else may be there may be lost."""
    if not shutil.which("node"):
        pytest.skip("node is not installed (Debian: nodejs)")
    says, in_chunks = [], []
    with subprocess.Popen(["node", "-e", BUFFERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdin
            assert node.stdout
            for _ in range(2):
                says.append(int(node.stdout.readline().removeprefix("ready ")))
                summary = arenadump.check("summary", "--json", node.pid)
                in_chunks.append(Facts(parse(summary)).allocated.bytes or 0)
                node.stdin.write("more\n")
                node.stdin.flush()
            facts = Facts(parse(summary))
            (finding,) = (each for each in judge(facts).findings if each.rule == "in use")
        finally:
            node.kill()
    assert "process.memoryUsage().arrayBuffers in the process tells the bytes of Buffers" in finding.evidence
    assert f"arenascope leaks {node.pid}" in [step.command for step in finding.next]
    more = says[1] - says[0]
    # Buffers that Node had at its start may be gone.
    assert more == pytest.approx(600 * 100 * 1024 + 4000 * 6000, rel=0.01)
    # Each chunk has a header besides; what stands for a Buffer, and what Node compiles, takes some more of malloc.
    assert more <= in_chunks[1] - in_chunks[0] <= 1.05 * more


def test_node_that_was_started_so(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    if not shutil.which("node"):
        pytest.skip("node is not installed (Debian: nodejs)")
    with restarted(":", f'node --heapsnapshot-signal=SIGUSR2 -e "{NODE}"', tmp_path) as node:
        command = f"kill -USR2 {node.pid}"
        assert command in steps(arenadump, node.pid)
        shell(command, arenadump, tmp_path)
        await_file(tmp_path, "Heap*.heapsnapshot")


def test_an_argument_of_the_program_is_no_option_of_node(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """There the signal would end the process."""
    script = tmp_path / "kept.js"
    script.write_text(NODE)
    with started(["node", str(script), "--heapsnapshot-signal=SIGUSR2"], "ready") as pid:
        assert not any(command.startswith("kill") for command in steps(arenadump, pid))


def test_chromium(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Each process of the browser that runs JavaScript names a start that tells what all of them hold."""
    with browser.renderers("about:blank") as (_, _, pids):
        settings = {command for pid in pids for command in steps(arenadump, pid) if "trace" in command}
    (setting,) = settings
    # A slow browser has not come to V8's heap when its trace ends: it gets longer ones, up to the setting's own minute.
    for seconds in (5, 15, 60):
        if '"v8/main/heap' in trace_of(setting.replace("=60", f"={seconds}"), tmp_path / f"{seconds}"):
            return
    pytest.fail("nothing of V8's heap in what Chromium wrote")


def trace_of(setting: str, folder: Path) -> str:
    """What a browser that was started so writes, once all of it is written."""
    folder.mkdir()
    command = f"{setting} --headless=new --user-data-dir={shlex.quote(str(folder))} {' '.join(browser.FLAGS)}"
    with subprocess.Popen(
        ["sh", "-c", f"exec {command}"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as program:
        try:
            written = await_file(folder, "memory.json")
            until = time.monotonic() + PATIENCE
            while True:
                text = written.read_text()
                with contextlib.suppress(ValueError):
                    json.loads(text)
                    return text
                assert time.monotonic() < until, "Chromium does not come to its trace's end"
                time.sleep(0.5)
        finally:
            program.terminate()


GO = """package main

import (
	"fmt"
	"net"
	"runtime"
%s)

var kept [][]byte

func hold() {
	for i := 0; i < 100; i++ {
		kept = append(kept, make([]byte, 1<<20))
		for j := range kept[i] {
			kept[i][j] = 1
		}
	}
}

func main() {
	hold()
	runtime.GC()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	%s
}
"""
SERVES = GO % ('\t"net/http"\n\t_ "net/http/pprof"\n', "http.Serve(server, nil)")
DOES_NOT_SERVE = GO % ("", "server.Accept()")
CLOSES = GO % ('\t"net/http"\n\t_ "net/http/pprof"\n', "server.Close(); _ = http.Serve; select {}")

WAITS = SERVES.replace("\thold()\n", "\tfor i := 0; i < 30000; i++ {\n\t\tgo wait()\n\t}\n") + (
    "\nvar never = make(chan int)\n\nfunc wait() {\n\t<-never\n}\n"
)


def go_program(source: str, arenadump: harness.Arenadump, folder: Path) -> str:
    if not shutil.which("go"):
        pytest.skip("go is not installed (Debian: golang-go)")
    (folder / "holds.go").write_text(source)
    shell("go build -o holds holds.go", arenadump, folder, GOFLAGS="")
    return str(folder / "holds")


def test_go(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """The command names the port on which this process listens."""
    with started([go_program(SERVES, arenadump, tmp_path)], "ready") as pid:
        command = steps(arenadump, pid)[0]
        assert command.startswith("go tool pprof -top http://localhost:")
        printed = shell(command, arenadump, tmp_path, GOFLAGS="", PPROF_TMPDIR=str(tmp_path))
    assert re.search(r"\d[kM]B .*main\.(hold|main)", printed)  # hold() may be inlined


def test_goroutines_that_wait(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Their stacks are most of Go's heap: the finding says so, and its first command where they wait."""
    with started([go_program(WAITS, arenadump, tmp_path)], "ready") as pid:
        command, heap, *_ = steps(arenadump, pid)
        assert re.fullmatch(r"go tool pprof -top http://localhost:\d+/debug/pprof/goroutine", command)
        assert heap == command.replace("goroutine", "heap")
        printed = shell(command, arenadump, tmp_path, GOFLAGS="", PPROF_TMPDIR=str(tmp_path))
        said = arenadump.check("summary", "--json", pid)
    assert re.search(r" 30000 .*main\.wait", printed)
    (finding,) = (each for each in judge(Facts(parse(said))).findings if each.rule == "managed memory")
    # 2 KiB each, before they grow; Go's own goroutines are few.
    parts.check_verdict(said)
    says = re.search(r"; (\d+\.\d) MiB of it is in stacks of 30,0\d\d goroutines", finding.sentence)
    assert says
    assert float(says[1]) > 30000 * 2 / 1024


@pytest.mark.parametrize("source", [DOES_NOT_SERVE, CLOSES], ids=["without the package", "listens nowhere"])
def test_go_without_a_server(arenadump: harness.Arenadump, tmp_path: Path, source: str) -> None:
    """No port is named that does not answer. What the runtime says by itself is."""
    program = go_program(source, arenadump, tmp_path)
    with started([program], "ready") as pid:
        setting, *others = steps(arenadump, pid)
    assert not [command for command in (setting, *others) if "pprof" in command]
    with restarted(f"{setting}; exec 2>said", shlex.quote(program), tmp_path):
        pass
    assert re.search(r"^gc 1 @.* MB goal", (tmp_path / "said").read_text(), re.MULTILINE)


def test_jemalloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    jemalloc = ctypes.util.find_library("jemalloc")
    if not jemalloc:
        pytest.skip("libjemalloc2 is not installed")
    with process("in-use", LD_PRELOAD=jemalloc) as pid:
        setting = steps(arenadump, pid)[0]
    done = subprocess.run(
        ["sh", "-c", f"{setting}\nLD_PRELOAD={jemalloc} exec true"], capture_output=True, text=True, check=True
    )
    assert "Allocated: " in done.stderr


def test_tcmalloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    tcmalloc = ctypes.util.find_library("tcmalloc_minimal")
    if not tcmalloc:
        pytest.skip("libtcmalloc-minimal4 is not installed")
    with process("in-use", LD_PRELOAD=tcmalloc) as pid:
        setting = steps(arenadump, pid)[0]
    done = subprocess.run(
        ["sh", "-c", f"{setting}\nLD_PRELOAD={tcmalloc} exec /bin/true"], capture_output=True, text=True, check=True
    )
    assert "Bytes in use by application" in done.stderr
    assert "Bytes released to OS" in done.stderr


def test_mimalloc(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    root = debian.unpack("libmimalloc2.0", "bookworm", debian.NATIVE, {"root": ["libmimalloc2.0"]})
    (mimalloc,) = (str(preloadable(path)) for path in root.glob("root/usr/lib/*/libmimalloc.so.2.0"))
    with process("in-use", LD_PRELOAD=mimalloc) as pid:
        setting = steps(arenadump, pid)[0]
    done = subprocess.run(
        ["sh", "-c", f"{setting}\nLD_PRELOAD={mimalloc} exec /bin/true"], capture_output=True, text=True, check=True
    )
    assert "reserved" in done.stdout + done.stderr


def test_a_core_has_no_commands(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """None of them means a process that is gone."""
    if not shutil.which("gcore"):
        pytest.skip("gdb is not installed")
    with started([sys.executable, "-c", "print('ready', flush=True); input()"], "ready") as pid:
        subprocess.run(["gcore", "-o", str(tmp_path / "core"), str(pid)], check=True, capture_output=True)
    facts = Facts(parse(arenadump.check("summary", "--json", tmp_path / f"core.{pid}")))
    assert [
        (finding.command, finding.next) for finding in judge(facts).findings if finding.command or finding.next
    ] == []


TRIED = {
    "of_growth": test_growth,
    "of_owners": test_owners,
    "of_siblings": test_another_worker,
    "of_leaks": test_leaks,
    "of_sites": test_profile,
    "of_pins": test_what_strands_memory,
    "of_mapped": test_who_holds_the_mappings,
    "of_mappings": test_mappings,
    "of_threads": test_stacks,
    "_objects": test_python,
    "_java": test_java,
    "java_native": test_java,
    "_collect": test_ruby,
    "_compact": test_ruby_of_which_most_slots_are_free,
    "_chromium": test_chromium,
    "_node": test_node_that_was_started_so,
    "_go": test_go,
    "_jemalloc": test_jemalloc,
    "_tcmalloc": test_tcmalloc,
    "_mimalloc": test_mimalloc,
}
"""Each function of findings/ that makes a step, and a test that carries the step out on a process that caused it."""


@pytest.mark.check
def test_each_step_is_tried() -> None:
    """A step that no test carries out is refused."""
    made = {
        function.name
        for path in (ROOT / "visualize/arenascope/findings").glob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Step"
    }
    assert made == TRIED.keys()
