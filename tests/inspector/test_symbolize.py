# SPDX-License-Identifier: MIT
"""Functions and source lines of addresses of code, compared with llvm-symbolizer; perf maps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools import programs, tiers
from tools.paths import ROOT

PLACE_NAMES = Path(os.environ.get("PLACE_NAMES", ROOT / "build/tests/unit/place_names"))
UNKNOWN, SYMBOL, PERF_MAP, DEBUG_INFO = range(4)
CXX = """
#include <map>
#include <string>
#include <vector>
#include <cstdio>
namespace app {
struct Session {
    std::string name;
    std::vector<int> values;
    __attribute__((noinline)) void open(int n);
    static std::string name_of(int x) { return std::to_string(x) + "a long name of a thing"; }
    static inline int twice(int x) { return x * 2 + (int)name_of(x).size(); }
};
void Session::open(int n)
{
    for (int i = 0; i < n; i++)
        values.push_back(twice(i));
    name = name_of(n);
}
}
extern "C" __attribute__((noinline, visibility("default"))) int exported(int n) { std::printf("%d", n); return n * 3; }
int main(int count, char **)
{
    std::map<int, app::Session> all;
    for (int i = 0; i < count * 10; i++)
        all[exported(i)].open(i);
    return (int)all.size();
}
"""


@dataclass(frozen=True)
class Place:
    source: int
    inlined: bool
    function: str
    file: str
    line: int


def ask(arguments: list[str], addresses: list[int]) -> tuple[dict[int, list[Place]], float]:
    """The places at each address, and nanoseconds of processor time for all."""
    text = "".join(f"{address:x}\n" for address in addresses)
    out = subprocess.run([PLACE_NAMES, *arguments], input=text, check=True, capture_output=True, text=True).stdout
    *lines, last = out.splitlines()
    places: dict[int, list[Place]] = {}
    for line in lines:
        address, source, inlined, function, file, number = line.split("\t")
        place = Place(int(source), inlined == "1", function, Path(file).name, int(number))
        places.setdefault(int(address, 16), []).append(place)
    return places, float(last.split()[1])


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-nW", path], check=True, capture_output=True, text=True).stdout
    return next(iter(re.findall(r"Build ID: (\w+)", notes)), "")


def instructions(path: Path, functions: set[str] | None = None) -> list[int]:
    """The addresses of all instructions in .text (of these functions), in objdump's words."""
    out = subprocess.run(
        ["objdump", "-d", "-j", ".text", "--no-show-raw-insn", path], check=True, capture_output=True, text=True
    ).stdout
    addresses, wanted = [], True
    for line in out.splitlines():
        if name := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            wanted = functions is None or name[1] in functions
        elif wanted and (address := re.match(r" +([0-9a-f]+):\t(?!nop|data16|xchg   %ax|cs nop|int3)", line)):
            addresses.append(int(address[1], 16))
    return addresses


def symbolizer(path: Path, addresses: list[int]) -> dict[int, list[tuple[str, str, int]]]:
    """What LLVM says; binutils' addr2line leaves inlined functions out, and takes files of DWARF 5 for others."""
    if not shutil.which("llvm-symbolizer"):
        pytest.skip("llvm-symbolizer is not installed (scripts/install-deps test)")
    text = "".join(f"{address:#x}\n" for address in addresses)
    command = ["llvm-symbolizer", "-e", str(path)]
    out = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    places = {}
    for address, block in zip(addresses, out.strip().split("\n\n"), strict=True):
        lines = block.splitlines()
        places[address] = [
            (name, Path(where.rsplit(":", 2)[0]).name, int(where.rsplit(":", 2)[1]))
            for name, where in zip(lines[::2], lines[1::2], strict=True)
        ]
    return places


@pytest.fixture(scope="module", params=["g++", "clang++", "g++ -gdwarf-4 -gz", "rustc"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, *flags = request.param.split()
    out = tmp_path_factory.mktemp("symbolize") / "program"
    if compiler == "rustc":
        source = (
            "use std::collections::BTreeMap;\n"
            'mod app { pub fn name_of(n: u32) -> String { format!("{} things", n) } }\n'
            "fn main() {\n    let all: BTreeMap<u32, String> = (0..9).map(|n| (n, app::name_of(n))).collect();\n"
            '    println!("{}", all.len());\n}\n'
        )
        return programs.build(source, "-g", "-O", "-C", "link-arg=-Wl,--build-id", compiler=compiler, at=out)
    return programs.build(CXX, "-O2", "-g", *flags, "-Wl,--build-id", "-rdynamic", compiler=compiler, at=out)


def bare(name: str) -> str:
    """Without arguments, in which demanglers differ, Rust's hash, and the suffix of a part that was moved away."""
    return re.sub(r"::h[0-9a-f]{16}$", "", name.removesuffix(".cold")).partition("(")[0]


def same(ours: list[Place], theirs: list[tuple[str, str, int]]) -> bool:
    # LLVM cannot demangle all names.
    return len(ours) == len(theirs) and all(
        (bare(name) == bare(our.function) or name.startswith(("_Z", "_R")) or "$" in name)
        and (our.line, our.file if line else "") == (line, file if line else "")
        for our, (name, file, line) in zip(ours, theirs, strict=True)
    )


def test_functions_inlined_ones_and_lines(program: Path) -> None:
    addresses = instructions(program)
    addresses = addresses[:: max(1, len(addresses) // 3000)]
    ours, took = ask([str(program), build_id(program)], addresses)
    theirs = symbolizer(program, addresses)
    assert ours.keys() == theirs.keys()
    different = {
        a: (ours[a], theirs[a]) for a in ours if ours[a][0].source == DEBUG_INFO and not same(ours[a], theirs[a])
    }
    described = [places for places in ours.values() if places[0].source == DEBUG_INFO]
    assert len(described) >= 300
    # Rust's standard library has functions of the same code at one address: which of them it is nobody knows.
    assert len(different) <= (len(described) * 0.01 if (program.parent / "program.rs").exists() else 0), list(
        different.items()
    )[:5]
    assert any(len(places) >= 4 and places[0].inlined for places in described)
    # Where it has a line, so have we.
    assert not [a for a in ours if theirs[a][0][2] and not ours[a][0].line and ours[a][0].source != DEBUG_INFO][:5]
    print(f"{took / len(addresses):.0f} ns an address")


def test_files_of_debug_information_and_symbols(program: Path, tmp_path: Path) -> None:
    addresses = instructions(program)[::7]
    own, _ = ask([str(program), build_id(program)], addresses)
    stripped, debug = tmp_path / "program", tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, stripped], check=True)
    apart, _ = ask([str(stripped), build_id(program)], addresses)
    assert apart == own
    # Symbols only, then those of .dynsym only.
    symbols, _ = ask([str(copy(program, tmp_path / "symbols", "--strip-debug")), build_id(program)], addresses)
    assert {p.source for places in symbols.values() for p in places} <= {SYMBOL, UNKNOWN}
    outermost = {a: places[-1].function for a, places in own.items() if places[0].source == DEBUG_INFO}
    agree = sum(bare(symbols[a][0].function) == bare(name) for a, name in outermost.items())
    assert agree >= len(outermost) * 0.9
    dynamic, _ = ask([str(copy(program, tmp_path / "bare", "--strip-all")), build_id(program)], addresses)
    if "exported" in {places[-1].function for places in own.values()}:
        assert "exported" in {places[0].function for places in dynamic.values()}


def copy(program: Path, out: Path, option: str) -> Path:
    subprocess.run(["objcopy", option, program, out], check=True)
    return out


def test_another_build_at_the_path_gives_no_names(program: Path) -> None:
    addresses = instructions(program)[:50]
    for identity in ("00" * 20, "", "x"):
        places, _ = ask([str(program), identity], addresses)
        assert {p.source for found in places.values() for p in found} == {UNKNOWN}
    missing, _ = ask([str(program.parent / "missing"), build_id(program)], addresses)
    assert {p.function for found in missing.values() for p in found} == {""}


@pytest.mark.parametrize("dwarf", [4, 5])
@pytest.mark.parametrize("compiler", tiers.compilers(["g++", "clang++"]))
def test_a_relative_path_begins_where_the_compiler_ran(tmp_path: Path, compiler: str, dwarf: int) -> None:
    """An included, inlined file's path does, too; where that directory is hidden, the path stays as it is."""
    (tmp_path / "src").mkdir()
    always = "static volatile int kept;\nstatic inline __attribute__((always_inline)) void keep(int x) { kept = x; }\n"
    (tmp_path / "src/near.h").write_text(always)
    (tmp_path / "src/far.cc").write_text('#include "near.h"\nint main(int n, char **) { keep(n); return kept; }\n')
    for flags, start in (([], f"{tmp_path}/"), ([f"-fdebug-prefix-map={tmp_path}=."], "")):
        flags += [f"-gdwarf-{dwarf}", "-O1", "-Wl,--build-id"]
        program = programs.build(Path("src/far.cc"), *flags, compiler=compiler, at=tmp_path / "program")
        asked = "".join(f"{address:x}\n" for address in instructions(program, {"main"}))
        done = subprocess.run(
            [PLACE_NAMES, program, build_id(program)], input=asked, check=True, capture_output=True, text=True
        ).stdout
        files = {line.split("\t")[4] for line in done.splitlines() if line.count("\t") == 5}
        assert {file.removeprefix("./") for file in files} == {f"{start}src/far.cc", f"{start}src/near.h"}


def test_perf_map(tmp_path: Path) -> None:
    path, owner = tmp_path / "perf-1.map", str(os.getuid())
    path.write_text(
        "1000 20 LazyCompile:~main /a b.js:1\nzz\n2000 0 empty\n1010 8 inner\nffffffffffffffff 8 wraps\n3000 8 cut"
    )
    path.chmod(0o644)

    def names(user: str = owner) -> list[str]:
        places, _ = ask(["--map", str(path), user], [0xFFF, 0x1000, 0x1012, 0x1018, 0x1020, 0x2000, 0x3000])
        return [found[0].function for found in places.values()]

    main = "LazyCompile:~main /a b.js:1"
    nothing = [""] * 7
    assert names() == ["", main, "inner", main, "", "", ""]
    assert names(str(os.getuid() + 1)) == nothing
    addresses = [0x1000, 0x3000]
    below, _ = ask(["--map", f"/{path.name}", owner, str(tmp_path)], addresses)  # a container's
    assert [found[0].function for found in below.values()] == [main, ""]
    path.chmod(0o666)  # anybody may have written it
    assert names() == nothing
    path.chmod(0o644)
    link = path.rename(tmp_path / "real")
    path.symlink_to(link)
    assert names() == nothing
    path.unlink()
    os.mkfifo(path)
    assert names() == nothing
