# SPDX-License-Identifier: MIT
"""What the recorder calls: its own code, functions of libc's that are listed here, and those that its hooks stand for.

Code of the target's may be gone when it is called, wait for a lock that the caller holds, or allocate.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from functools import cache

import pytest
from tools import harness

# The recorder calls these functions of libc, which is never unloaded, by the reason: none allocates, or takes a lock
# that a caller of malloc may hold.
REASONS = {
    "bytes and texts of ours, or of the loader's list": "memchr memcmp memcpy memset strchr strcmp strcspn strlen "
    "strncmp strncpy strtoul",
    "texts of ours, without a locale: names of files, errors": "snprintf",
    "system calls as they are, and what the kernel has told the process": "__errno_location clock_gettime getauxval "
    "geteuid getpid madvise mmap64 mprotect munmap nanosleep prctl sigaltstack syscall sysconf",
    "the cache of the unwinder's tables, a trace's file, and the clock's source": "close ftruncate64 lseek64 "
    "mkdir open64 openat64 read readlink renameat unlink unlinkat write writev secure_getenv fstatfs64 pread64",
    "the list of loaded objects; it waits for the loader's lock, which loader.c takes before": "dl_iterate_phdr",
    "the loader's lock": "pthread_mutex_trylock pthread_mutex_unlock",
    "a value of the thread's own, without a lock: the thread as CPython and Ruby 2.7 have it": "pthread_getspecific",
    "words of the thread's own": "pthread_self pthread_setcancelstate",
    "how libc mangles addresses in a jmp_buf, which Ruby's tags may be": "_setjmp",
}
KNOWN = {name for names in REASONS.values() for name in names.split()}

# Functions with calls by a pointer, or jumps by a table.
POINTERS = {
    r"(?:hook|entry)_\w+|as_recorder_close": "what the hook stands for",
    r"as_python_dealloc": "what the hook stands for: it is called by what is there",
    r"as_recorder_chains_\w+|as_recorder_start|as_profile_stacks_add": "a function of ours, which the caller names",
    r"as_recorder_map_entries|as_recorder_write_slots|pass|write_object": "as_target's functions, which are ours",
    r"as_unwind_\w+|run_one|as_program_run": "a switch of ours",
    r"as_preloaded_start": "libc's functions, of which it has the address in a register",
}


@cache
def disassembly() -> str:
    if platform.machine() != "x86_64" or not shutil.which("objdump"):
        pytest.skip("this reads x86-64 code, by objdump")
    agent = harness.agent_path(harness.arenadump_path())
    command = ["objdump", "-d", "-j", ".as_profile", "--no-show-raw-insn", str(agent)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_which_functions_of_libc_it_calls() -> None:
    called = set(re.findall(r"\b(?:call|jmp) +\w+ <(\w+)@plt>", disassembly()))
    assert "dl_iterate_phdr" in called, "calls are found"
    assert called <= KNOWN, "what is missing in REASONS needs a reason"


def test_what_it_calls_by_a_pointer() -> None:
    """Constants lie among the code, and resemble instructions: only what a compiler makes of a pointer counts."""
    found = set()
    for part in re.split(r"^\w+ <(?=.*>:$)", disassembly(), flags=re.MULTILINE)[1:]:
        name = part.partition(">")[0].partition(".")[0]
        if re.search(r"\t(?:call|jmp) +\*(?:%r\w+$|-?0x\w+\(%rip\))", part, re.MULTILINE):
            found.add(name)
    assert {"hook_malloc", "hook_dlclose", "as_python_dealloc"} <= found, "calls are found"
    unknown = {name for name in found if not any(re.fullmatch(pattern, name) for pattern in POINTERS)}
    assert not unknown, "what is missing in POINTERS needs a reason"
