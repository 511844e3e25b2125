# SPDX-License-Identifier: MIT
"""Builds the programs of tests/programs (a file, or a directory of files), for this machine or for every libc."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from . import debian
from .preload import preloadable

SOURCES = Path(__file__).resolve().parents[1] / "programs"
BUILT = Path(__file__).resolve().parents[2] / ".cache" / "programs"
COMPILERS = {arch: "gcc" if arch == debian.NATIVE else f"{name}-gcc" for arch, name in debian.TRIPLETS.items()}
# A block that nothing looks into, compilers leave out; gcc 15 and later even where it is compared to NULL.
KEEP_MALLOC = [f"-fno-builtin-{name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc")]
FLAGS = ["-std=gnu11", "-O2", "-g", *KEEP_MALLOC, "-Wall", "-Wextra", "-Werror"]

# The environment to compile in where nobody reads the debug information: ccache then takes what was compiled in another
# directory, which debug information may name.
COMPILED_ANYWHERE = {"CCACHE_NOHASHDIR": "1"}

# Libraries of their own before glibc 2.34, with which a program is linked that needs them, and no other.
LIBRARIES = ["-Wl,--as-needed", "-lpthread", "-ldl", "-lrt"]


def build(name: str, *flags: str, compiler: str = "gcc") -> Path:
    """A program for this machine as it is. Raises UnavailableError when the compiler is missing."""
    if "TEST_PROGRAMS" in os.environ:
        return carried(name, *flags, compiler=compiler)
    return _compile(name, [compiler, *FLAGS], [*flags, *LIBRARIES])


def build_cxx(name: str, *flags: str, compiler: str = "g++") -> Path:
    """A program in C++, one file, for this machine as it is. Raises UnavailableError when the compiler is missing."""
    return _compile(name, [compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror"], list(flags), suffix="cc")


def build_portable(name: str, arch: str = debian.NATIVE, *flags: str) -> Path:
    """A program, or library, against the oldest libc there is a test for, which therefore runs on all of them."""
    if "TEST_PROGRAMS" in os.environ:
        return carried(name, *flags)
    return _compile(name, portable_command(arch), [*flags, "-lpthread", "-ldl", "-lrt"])


def carried_name(name: str, *flags: str) -> str:
    """What a program is called in the directory that $TEST_PROGRAMS names; libraries among them are told by it."""
    told_by = (flag[1:] for flag in flags if flag in {"-static", "-shared"} or flag.startswith("-D"))
    return "-".join([*name.split("/"), *told_by])


def carried(name: str, *flags: str, compiler: str = "gcc") -> Path:
    """A program that was built elsewhere: a virtual machine of tests/vm has no compiler.

    Not to have it is no reason to skip a test: tests/vm/image.py ought to list it.
    """
    path = Path(os.environ["TEST_PROGRAMS"]) / carried_name(name, *flags)
    if compiler != "gcc" or not path.exists():
        raise FileNotFoundError(f"{name} {' '.join(flags)} is not among the programs of tests/vm/image.py")
    return path


def portable_command(arch: str = debian.NATIVE) -> list[str]:
    """The compiler, with all it takes to compile and link against the oldest libc there is a test for."""
    root, triplet, compiler = debian.sysroot(arch), debian.TRIPLETS[arch], COMPILERS[arch]
    if not shutil.which(compiler):
        raise debian.UnavailableError(f"{compiler} is not installed")
    own_headers = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True, check=True)
    # --sysroot alone is not enough: the compiler looks into the machine's own directories before.
    headers = [own_headers.stdout.strip(), f"{root}/usr/include/{triplet}", f"{root}/usr/include"]
    command = [compiler, *FLAGS, f"--sysroot={root}", "-nostdinc", f"-B{root}/usr/lib/{triplet}"]
    command += [argument for header in headers for argument in ("-isystem", header)]
    return [*command, f"-L{root}/usr/lib/{triplet}", f"-L{root}/lib/{triplet}"]


def publish(built: Path, path: Path) -> None:
    """Not in place of what another worker has built meanwhile: a process may run it."""
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(built)
    built.unlink()


def _compile(name: str, command: list[str], libraries: list[str], suffix: str = "c") -> Path:
    sources = sorted((SOURCES / name).glob(f"*.{suffix}")) or [SOURCES / f"{name}.{suffix}"]
    if not shutil.which(command[0]):
        raise debian.UnavailableError(f"{command[0]} is not installed")
    places = [SOURCES / name, *(Path(flag[2:]) for flag in [*command, *libraries] if flag.startswith("-I"))]
    headers = [path for place in places for path in sorted(place.rglob("*.h"))]
    read = [path.read_bytes() for path in [*sources, *headers]]
    key = hashlib.sha256(b"".join(read) + repr((command, libraries)).encode()).hexdigest()[:16]
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / f"{name.replace('/', '-')}-{key}"
    if not program.exists():
        scratch = program.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(scratch), *map(str, sources), *libraries], check=True)
        publish(scratch, program)
    return preloadable(program) if "-shared" in libraries else program
