# SPDX-License-Identifier: MIT
#
# Loads arenascope's agent into a running process with gdb, for those who have gdb and trust it:
#
#     gdb -p PID -batch -x arenascope.gdb
#
# and then arenascope trim PID, arenascope summary PID and so on find it there. `arenascope inject PID` does the same without
# gdb, and stops one thread where this stops all (docs/injection.md).
#
# The library is $ARENASCOPE_LIBRARY, or libarenascope.so beside this file, or what `arenascope agent-path` names. It comes in
# by a memfd, so that no path of ours has to exist for the process. It is loaded by a thread that is seen to be neither in
# malloc nor in the loader, nor anywhere else in libc but in a system call. gdb must not be killed while it runs: `arenascope
# inject` may. Where gdb cannot put the registers of a thread back after a call (gdb before 14, on a processor with AMX), the
# script says so before it changes anything.

set pagination off
set confirm off
set debuginfod enabled off
set print thread-events off

python
import ctypes
import os
import random
import re
import shutil
import subprocess
import time

import gdb

MEMFD = "arenascope-agent"
WAKE = "arenascope_wake"
AGENT_THREAD = "arenascope"
SYS_MEMFD_CREATE, SYS_FCNTL = 319, 72  # x86-64
F_DUPFD_CLOEXEC = 1030
RTLD_NOW = 2
PTRACE_GETREGSET, NT_X86_XSTATE = 0x4204, 0x202
MOST_STATE = 2696  # bytes of extended registers that gdb before 14 has room for: up to AVX-512 and protection keys
DYNAMIC_SINCE = 14  # the first gdb that asks the processor how many there are
INTERNAL_DLOPEN = 0x80000000  # what __libc_dlopen_mode of glibc before 2.34 wants
PATIENCE = 20  # seconds
DEPTH = 64  # frames of a stack that are inspected
FAULTS = sum(1 << (number - 1) for number in (4, 5, 7, 8, 11, 31))  # SIGILL, TRAP, BUS, FPE, SEGV, SYS
SYSTEM = re.compile(r"/(ld-linux|ld-2\.|libc[.-]|libpthread[.-]|libdl[.-]|\[vdso)")
LOADER = re.compile(r"/(ld-linux|ld-2\.)")
MALLOC = re.compile(r"^(_*libc_)?(_int_)?(malloc|free|calloc|realloc|memalign)|^(sysmalloc|systrim|malloc_consolidate|"
                    r"unlink_chunk|tcache_|arena_get|heap_trim|fork|_Fork|__libc_fork|pthread_create|exit|__run_exit_handlers|"
                    r"dl_iterate_phdr|_dl_)")


def fail(why):
    gdb.write(f"arenascope.gdb: {why}\n", gdb.STDERR)
    gdb.execute("detach", to_string=True)
    gdb.execute("quit 1")


def find_library():
    arguments = open("/proc/self/cmdline", "rb").read().decode().split("\0")
    scripts = [word for word in arguments if word.endswith("arenascope.gdb")]
    places = [os.environ.get("ARENASCOPE_LIBRARY", "")]
    places += [os.path.join(os.path.dirname(os.path.abspath(script)), "libarenascope.so") for script in scripts]
    if shutil.which("arenascope"):
        done = subprocess.run(["arenascope", "agent-path"], capture_output=True, text=True)
        places.append(done.stdout.strip())
    for place in places:
        if place and os.path.isfile(place):
            return place
    fail("libarenascope.so was not found: name it in $ARENASCOPE_LIBRARY")


class Buffer(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def state_size(tid):
    """How many bytes of extended registers the kernel wants for a thread, 0 where it does not say. Reads only."""
    state = ctypes.create_string_buffer(1 << 16)
    found = Buffer(ctypes.addressof(state), len(state))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    done = libc.ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, ctypes.addressof(found))
    return found.length if done == 0 else 0


def has_amx():
    """By the flags that the kernel prints of the processor."""
    with open("/proc/cpuinfo") as about:
        return any(line.startswith("flags") and "amx_tile" in line.split() for line in about)


def why_not(version, size, amx):
    """Why a gdb of that version cannot call functions here; None: it can. `size`: as state_size() says, 0 where unknown.

    After a call gdb writes all registers back: the general ones first, then the extended ones. The kernel takes these only
    whole. gdb before 14 has room for MOST_STATE bytes, whatever the processor has; where it has more, the kernel
    refuses (EFAULT), and the thread is left with the general registers of the call: an interrupted system call is not
    restarted, or fails with an error that no program knows.
    """
    large = size > MOST_STATE if size else amx
    number = re.search(r"(\d+)\.\d", version)
    if not large or (number and int(number[1]) >= DYNAMIC_SINCE):
        return None
    registers = f"{size} bytes of extended registers" if size else "AMX"
    return (f"gdb {version} cannot call functions on this processor, which has {registers}: gdb before {DYNAMIC_SINCE} "
            f"writes back {MOST_STATE} bytes at most, and the kernel refuses that")


def object_of(frame):
    return gdb.solib_name(frame.pc()) or ""


def obstacle(frame):
    """Why no library can be loaded from here; None: it can."""
    top, depth = True, 0
    while frame is not None and frame.is_valid() and depth < DEPTH:
        where, name = object_of(frame), frame.name() or ""
        if LOADER.search(where):
            return f"is in the loader ({name})"
        if SYSTEM.search(where) and MALLOC.search(name):
            return f"is in {name}"
        if top and SYSTEM.search(where) and not waits(frame):
            return f"runs in libc ({name})"
        frame, top, depth = frame.older(), False, depth + 1
    return None


def waits(frame):
    """Did the thread stop in a system call?"""
    code = bytes(gdb.selected_inferior().read_memory(frame.pc() - 2, 2))
    return code == b"\x0f\x05" and int(gdb.parse_and_eval("(long)$orig_rax")) >= 0


def has_fault(tid):
    """Does a signal wait for it that a fault of its own raises? Its handler is to find the registers as they are."""
    with open(f"/proc/{tid}/status") as status:
        masks = {key: int(mask, 16) for key, _, mask in (line.partition(":") for line in status)
                 if key in ("SigPnd", "ShdPnd", "SigBlk")}
    return bool((masks["SigPnd"] | masks["ShdPnd"]) & ~masks["SigBlk"] & FAULTS)


def choose_thread():
    """Switches to a thread that may load a library; else says of each why not."""
    reasons = []
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        reason = "has a fault pending" if has_fault(thread.ptid[1]) else obstacle(gdb.newest_frame())
        if reason is None:
            return []
        reasons.append(f"thread {thread.ptid[1]} {reason}")
    return reasons


def await_thread():
    """Where no thread would do, lets all of them run for an instant, one of them step by step, and reads again."""
    deadline = time.monotonic() + PATIENCE
    reasons = choose_thread()
    while reasons and time.monotonic() < deadline:
        gdb.execute(f"stepi {random.randint(20, 200)}", to_string=True)
        reasons = choose_thread()
    if reasons:
        fail(f"no thread came to a place from which a library can be loaded: {'; '.join(reasons[:4])}")


def call(expression):
    return int(gdb.parse_and_eval(expression))


def inner_pid(pid):
    """The process's number in its own PID namespace."""
    with open(f"/proc/{pid}/status") as status:
        numbers = [line.split()[1:] for line in status if line.startswith("NSpid:")]
    return int(numbers[0][-1]) if numbers else pid


def load(library):
    pid = gdb.selected_inferior().pid
    fd = call(f'((long(*)(long,...))syscall)({SYS_MEMFD_CREATE}, "{MEMFD}", 1)')
    if fd < 0:
        fail("memfd_create failed in the process")
    with open(library, "rb") as source, open(f"/proc/{pid}/fd/{fd}", "wb") as copy:
        shutil.copyfileobj(source, copy)
    # The name stays in the loader's list, and the next debugger opens it: the number must not be one that the process, or that
    # debugger, has another file under by then (a pipe, at which it would wait for ever).
    for least in (1000, 240, 60):
        moved = call(f"((long(*)(long,...))syscall)({SYS_FCNTL}, {fd}, {F_DUPFD_CLOEXEC}, {least})")
        if moved >= 0:
            call(f"((int(*)(int))close)({fd})")
            fd = moved
            break
    try:
        call("(long)&dlopen")
        loader, flags = "dlopen", RTLD_NOW
    except gdb.error:
        loader, flags = "__libc_dlopen_mode", RTLD_NOW | INTERNAL_DLOPEN
    # gdb opens what is loaded, too, by the same name: it must not be one of gdb's own files.
    path = f"/proc/{inner_pid(pid)}/fd/{fd}"
    if inner_pid(pid) != pid:
        gdb.execute(f"set sysroot /proc/{pid}/root")
    handle = call(f'(long)((void*(*)(const char*,int)){loader})("{path}", {flags})')
    if not handle:
        call(f"((int(*)(int))close)({fd})")
        fail("dlopen failed in the process")
    return fd


def is_awake(pid):
    """Does the agent run there already? gdb has no symbols of one that came in by a memfd."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as name:
            if name.read() == AGENT_THREAD + "\n":
                return True
    return False


def inject():
    pid = gdb.selected_inferior().pid
    if is_awake(pid):
        gdb.write(f"arenascope.gdb: the agent is in process {pid} already\n")
        return
    unable = why_not(gdb.VERSION, state_size(gdb.selected_thread().ptid[1]), has_amx())
    if unable:
        fail(f"{unable}. Nothing was changed. Use `arenascope inject {pid}`, which needs no gdb")
    library = find_library()
    await_thread()
    errno = call("(long)((int*(*)(void))__errno_location)()")
    kept = bytes(gdb.selected_inferior().read_memory(errno, 4))
    fd = None
    try:
        call(f"(long)&{WAKE}")
    except gdb.error:
        fd = load(library)
    result = call(f"((int(*)(void)){WAKE})()")
    if fd is not None:
        call(f"((int(*)(int))close)({fd})")  # not before: gdb reads it as well
    gdb.selected_inferior().write_memory(errno, kept)
    if result:
        fail(f"the agent could not start its thread: {os.strerror(result)}")
    gdb.write(f"arenascope.gdb: the agent is in process {pid}\n")


if gdb.selected_inferior().pid == 0:
    gdb.write("arenascope.gdb: attach to a process first: gdb -p PID -batch -x arenascope.gdb\n", gdb.STDERR)
    gdb.execute("quit 2")
try:
    inject()
except gdb.error as error:
    fail(f"{error}")
end

detach
