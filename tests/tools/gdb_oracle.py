# SPDX-License-Identifier: MIT
"""What gdb, with libc6-dbg's symbols, says of a process's malloc: the opinion that the inspector is held against.

Two halves in one file: `snapshot(...)` is for tests and starts gdb on this very file; inside gdb, the rest walks the
lists by the names and types in the debug information, and prints JSON. Nothing here knows an offset.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    import gdb
except ImportError:
    gdb = None

MARK = "gdb-oracle: "


def take_snapshot(pid: int, debug_root: Path) -> dict[str, Any]:
    """The fields, lists and caches of a parked process whose libc's debug information lies unpacked in `debug_root`."""
    libc_base, libc = _mapped(pid, "libc")
    loader_base, loader = _mapped(pid, "ld")
    libc_symbols, loader_symbols = _debug_file(libc, debug_root), _debug_file(loader, debug_root)
    settings = {
        "libc": [str(libc_symbols), libc_base],
        "loader": [str(loader_symbols), loader_base],
        "tls_offset": _tls_symbol(libc_symbols, "tcache"),
    }
    command = ["gdb", "-nx", "-batch", "-iex", "set auto-solib-add off", "-iex", "set debuginfod enabled off"]
    command += ["-iex", "set libthread-db-search-path /nonexistent", "-p", str(pid), "-x", __file__]
    environment = {**os.environ, "GDB_ORACLE": json.dumps(settings)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])  # type: ignore[no-any-return]
    raise AssertionError(f"gdb said nothing of {pid}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def _mapped(pid: int, stem: str) -> tuple[int, str]:
    """Where the file named libc.so.6, libc-2.31.so, ... begins in the process, and its path."""
    name = rf"{stem}(?:-2\.\d+|-linux[^/]*)?\.so(?:\.\d+)?"
    maps = Path(f"/proc/{pid}/maps").read_text()
    found = re.search(rf"^([0-9a-f]+)-\S+ \S+ 00000000 .* (/.*/{name})$", maps, re.MULTILINE)
    assert found, f"process {pid} maps no {stem}"
    return int(found[1], 16), found[2]


def _debug_file(binary: str, debug_root: Path) -> Path:
    notes = subprocess.run(["readelf", "-n", binary], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    assert build_id, f"{binary} has no build-id"
    path = debug_root / "usr/lib/debug/.build-id" / build_id[1][:2] / f"{build_id[1][2:]}.debug"
    assert path.exists(), f"no debug information for {binary}: {path} is missing"
    return path


def _tls_symbol(debug_file: Path, name: str) -> int:
    symbols = subprocess.run(["readelf", "-sW", str(debug_file)], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\s*\d+: ([0-9a-f]+)\s+\d+ TLS .* {name}$", symbols, re.MULTILINE)
    assert found, f"no thread-local {name} in {debug_file}"
    return int(found[1], 16)


class _Oracle:
    """Runs inside gdb."""

    def __init__(self, settings: dict[str, Any]) -> None:
        for path, base in (settings["libc"], settings["loader"]):
            gdb.execute(f'add-symbol-file "{path}" -o {base}', to_string=True)
        self.tls_offset = settings["tls_offset"]
        self.main_arena = gdb.parse_and_eval("&main_arena").dereference()
        self.mp = gdb.parse_and_eval("&mp_").dereference()
        banner = gdb.parse_and_eval("(const char *)&banner").string()
        version = re.search(r"version (\d+)\.(\d+)", banner)
        assert version, banner
        self.version = (int(version[1]), int(version[2]))

    def follow(self, head: gdb.Value, link: str) -> list[int]:
        """The members of a singly linked list of caches, whose links may be mangled by their own position."""
        entries: list[int] = []
        entry = head
        while int(entry) and len(entries) < 10_000_000:
            entries.append(int(entry))
            field = entry.dereference()[link]
            following = int(field)
            if self.version >= (2, 32):
                following ^= int(field.address) >> 12
            entry = gdb.Value(following).cast(head.type)
        return entries

    def circle(self, head: int, chunk_type: gdb.Type) -> list[int]:
        """The members of a bin, a doubly linked ring around its head."""
        chunks: list[int] = []
        chunk = gdb.Value(head).cast(chunk_type.pointer())["fd"]
        while int(chunk) not in (0, head):  # 0: malloc has not been called yet
            chunks.append(int(chunk))
            chunk = chunk["fd"]
        return chunks

    def arena(self, arena: gdb.Value) -> dict[str, Any]:
        names = {field.name for field in arena.type.fields()}
        fastbins: list[int] = []
        if "fastbinsY" in names:
            array = arena["fastbinsY"]
            for i in range(array.type.range()[1] + 1):
                fastbins += self.follow(array[i], "fd")
        chunk_type = gdb.lookup_type("struct malloc_chunk")
        fd = next(field.bitpos // 8 for field in chunk_type.fields() if field.name == "fd")
        bins = arena["bins"]
        binned: list[int] = []
        for i in range(0, bins.type.range()[1] + 1, 2):
            binned += self.circle(int(bins[i].address) - fd, chunk_type)
        return {
            "address": int(arena.address),
            "top": int(arena["top"]),
            "flags": int(arena["flags"]),
            "system_mem": int(arena["system_mem"]),
            "max_system_mem": int(arena["max_system_mem"]),
            "attached_threads": int(arena["attached_threads"]),
            "fastbins": fastbins,
            "binned": binned,
        }

    def arenas(self) -> list[dict[str, Any]]:
        found = [self.arena(self.main_arena)]
        arena = self.main_arena["next"]
        while int(arena) != int(self.main_arena.address):
            found.append(self.arena(arena.dereference()))
            arena = arena["next"]
        return found

    def tls_block(self) -> int:
        """How far from the thread pointer libc's thread-local storage begins: below on x86-64, above on aarch64."""
        link_map = gdb.parse_and_eval("_rtld_global._dl_ns[0]._ns_loaded")
        while int(link_map):
            if "/libc.so" in link_map["l_name"].string() or "/libc-2" in link_map["l_name"].string():
                return int(link_map["l_tls_offset"])
            link_map = link_map["l_next"]
        raise AssertionError("libc is not among the loaded objects")

    def threads(self) -> list[dict[str, Any]]:
        aarch64 = "aarch64" in gdb.selected_inferior().architecture().name()
        tls_block = self.tls_block() if aarch64 else -self.tls_block()
        register = "$tpidr" if aarch64 else "$fs_base"
        tcache_type = gdb.lookup_type("struct tcache_perthread_struct")
        found = []
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.ptid[1] or t.ptid[0]):
            thread.switch()
            variable = int(gdb.parse_and_eval(f"(unsigned long){register}")) + tls_block + self.tls_offset
            pointer = gdb.Value(variable).cast(tcache_type.pointer().pointer()).dereference()
            entries: list[int] = []
            if int(pointer):
                array = pointer["entries"]
                for i in range(array.type.range()[1] + 1):
                    entries += self.follow(array[i], "next")
            found.append({"tid": thread.ptid[1] or thread.ptid[0], "tcache": int(pointer), "entries": entries})
        return found

    def everything(self) -> dict[str, Any]:
        plain = {f.name: f.name for f in self.mp.type.fields() if f.type.strip_typedefs().code == gdb.TYPE_CODE_INT}
        mp = {name: int(self.mp[name]) for name in plain}
        mp["sbrk_base"] = int(self.mp["sbrk_base"])
        return {
            "version": self.version,
            "main_arena": int(self.main_arena.address),
            "mp_": int(self.mp.address),
            "mp": mp,
            "arenas": self.arenas(),
            "threads": self.threads(),
        }


if gdb is not None:
    gdb.execute("set width 0")
    print(MARK + json.dumps(_Oracle(json.loads(os.environ["GDB_ORACLE"])).everything()))
    sys.stdout.flush()
