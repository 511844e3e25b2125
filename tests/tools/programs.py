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
from .paths import PROGRAMS, ROOT
from .preload import preloadable

SOURCES = PROGRAMS
BUILT = ROOT / ".cache" / "programs"
# A block that nothing inspects, compilers leave out; gcc 15 and later even where it is compared to NULL.
KEEP_MALLOC = [f"-fno-builtin-{name}" for name in ("malloc", "calloc", "realloc", "aligned_alloc")]
FLAGS = ["-std=gnu11", "-O2", "-g", *KEEP_MALLOC, "-Wall", "-Wextra", "-Werror"]
CXX_FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror"]

# The environment to compile in where nobody reads the debug information: ccache then takes what was compiled in another
# directory, which debug information may name.
COMPILED_ANYWHERE = {"CCACHE_NOHASHDIR": "1"}

# Libraries of their own before glibc 2.34, with which a program is linked that needs them, and no other.
LIBRARIES = ["-Wl,--as-needed", "-lpthread", "-ldl", "-lrt"]


def build(source: str | Path, *flags: str, compiler: str = "", at: Path | None = None) -> Path:
    """A program for this machine as it is: of tests/programs, by its name; of another file; of a text of some lines.

    Those of tests/programs are compiled with the house's flags and `flags`, the others with `flags` alone. They are in
    C, or the language of `compiler`. What was compiled once is kept. With `at` the program has that path, and is
    compiled anew in its folder, the text beside it: where debug information must name the folder, or the test replaces
    the program. Raises UnavailableError when the compiler is missing.
    """
    shipped = isinstance(source, str) and "\n" not in source
    cxx = compiler.endswith("++") or (not compiler and shipped and (SOURCES / f"{source}.cc").exists())
    if shipped and not cxx and "TEST_PROGRAMS" in os.environ:
        return carried(str(source), *flags, compiler=compiler or "gcc")
    command, libraries = [compiler or ("g++" if cxx else "gcc")], list(flags)
    if shipped:
        command += CXX_FLAGS if cxx else FLAGS
        libraries += [] if cxx else LIBRARIES
    suffix = "rs" if compiler == "rustc" else "cc" if cxx else "c"
    if at is None:
        return _kept(source, command, libraries, suffix)
    sources = _files(source, suffix)
    if not sources:
        sources = [at.with_suffix(f".{suffix}")]
        sources[0].write_text(str(source))
    _compile(command, sources, libraries, at, at.parent)
    return at


def build_portable(name: str, arch: str = debian.NATIVE, *flags: str) -> Path:
    """A program, or library, against the oldest libc there is a test for, which therefore runs on all of them."""
    if "TEST_PROGRAMS" in os.environ:
        return carried(name, *flags)
    return _kept(name, [*portable_command(arch), *FLAGS], [*flags, "-lpthread", "-ldl", "-lrt"])


def carried_name(name: str, *flags: str) -> str:
    """What a program is called in the directory that $TEST_PROGRAMS names; libraries among them are told by it."""
    named_by = (flag[1:] for flag in flags if flag in {"-static", "-shared"} or flag.startswith("-D"))
    return "-".join([*name.split("/"), *named_by])


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
    root, triplet, compiler = debian.sysroot(arch), debian.TRIPLETS[arch], debian.tool("gcc", arch)
    if not shutil.which(compiler):
        raise debian.UnavailableError(f"{compiler} is not installed")
    own_headers = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True, check=True)
    # --sysroot alone is not enough: the compiler inspects the machine's own directories before.
    headers = [own_headers.stdout.strip(), f"{root}/usr/include/{triplet}", f"{root}/usr/include"]
    command = [compiler, f"--sysroot={root}", "-nostdinc", f"-B{root}/usr/lib/{triplet}"]
    command += [argument for header in headers for argument in ("-isystem", header)]
    return [*command, f"-L{root}/usr/lib/{triplet}", f"-L{root}/lib/{triplet}"]


def publish(built: Path, path: Path) -> None:
    """Not in place of what another worker has built meanwhile: a process may run it."""
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(built)
    built.unlink()


def _files(source: str | Path, suffix: str) -> list[Path]:
    """The sources of a program; of a text none."""
    if isinstance(source, Path):
        return [source]
    if "\n" in source:
        return []
    return sorted((SOURCES / source).glob(f"*.{suffix}")) or [SOURCES / f"{source}.{suffix}"]


def _compile(command: list[str], sources: list[Path], libraries: list[str], out: Path, folder: Path) -> None:
    if not shutil.which(command[0]):
        raise debian.UnavailableError(f"{command[0]} is not installed (scripts/install-deps test)")
    subprocess.run([*command, "-o", str(out), *map(str, sources), *libraries], check=True, cwd=folder)


def _kept(source: str | Path, command: list[str], libraries: list[str], suffix: str = "c") -> Path:
    """Compiled once from the same text, headers, flags, and files among the flags."""
    sources = _files(source, suffix)
    name = str(source).replace("/", "-") if sources and isinstance(source, str) else "program"
    places = [SOURCES / str(source)] if sources else []
    places += [Path(flag[2:]) for flag in [*command, *libraries] if flag.startswith("-I")]
    headers = [path for place in places for path in sorted(place.rglob("*.h"))]
    more = [Path(flag) for flag in libraries if flag.startswith("/") and Path(flag).is_file()]
    read = b"".join(path.read_bytes() for path in [*sources, *headers, *more]) + (
        b"" if sources else str(source).encode()
    )
    key = hashlib.sha256(read + repr((command, libraries)).encode()).hexdigest()[:16]
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / f"{name}-{key}"
    if not program.exists():
        scratch = program.with_suffix(f".{os.getpid()}")
        if not sources:
            sources = [program.with_suffix(f".{suffix}")]
            scratch.write_text(str(source))
            publish(scratch, sources[0])
        _compile(command, sources, libraries, scratch, Path.cwd())
        publish(scratch, program)
    return preloadable(program) if "-shared" in libraries else program
