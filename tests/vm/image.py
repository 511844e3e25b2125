# SPDX-License-Identifier: MIT
"""What a virtual machine boots from: an initramfs with the drivers, a disk with a Debian, a disk with this checkout.

Nothing here needs root, and nothing of this machine's own system gets into the guest.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import debian, programs, trimmer
from tools.paths import ROOT

from vm.checks import BY_NAME
from vm.machine import Kernel

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "vm"
# The tools that the tests run on come from one suite, with a Python and a pytest that are young enough for them.
ROOT_SUITE = "trixie"
ROOT_PACKAGES = [
    *("base-files", "base-passwd", "bash", "dash", "coreutils", "tar", "sed", "grep", "findutils", "kmod", "mount"),
    *("util-linux",),
    *("procps", "binutils", "gdb", "python3", "python3-numpy", "python3-pytest", "python3-click", "python3-rich"),
    *("python3-jinja2", "python3-prometheus-client", "libdw1t64", "libpng16-16t64"),
]
# The file system is a module, too, of a kernel that is not of the cloud flavour, and does not say that it needs crc32c.
MODULES = ("virtio_pci", "virtio_mmio", "virtio_blk", "crc32c_generic", "ext4")
# mke2fs's own choice grows from release to release, past what old kernels mount.
FEATURES = (
    "none,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize"
)
GUEST_CHECKOUT = "/checkout"
# Built against the oldest libc, all of them: the guest's is not this machine's.
PROGRAMS = {
    **dict.fromkeys(("churn", "actor", "selfcheck", "trim_storm", "postures", "posing", "holds", "odd/inside"), ()),
    **dict.fromkeys(("causes", "changes_user", "matrix", "sites", "hardened", "sandboxed", "sleeper", "tight"), ()),
    "allocates": ("-shared", "-fPIC", "-DROOM=64"),
    "sets_user": ("-Wl,-z,now",),
    **dict.fromkeys(("slow_disk", "slow_audit", "meddler", "slow_reads"), ("-shared", "-fPIC")),
}


def root_disk(arch: str) -> Path:
    """The Debian that the tests run in. Pinned until what it is made from changes. Raises UnavailableError."""
    made_from = (ROOT_PACKAGES, inspect.getsource(furnished), inspect.getsource(compile_python), FEATURES)
    key = hashlib.sha256(repr(made_from).encode()).hexdigest()[:12]
    disk = CACHE / f"root-{arch}-{key}.ext4"
    if not disk.exists():
        tree = unpacked(arch)
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            root = furnished(tree, Path(scratch) / "root")
            compile_python(root, unpacked(debian.NATIVE))
            make_disk(root, Path(scratch) / "disk", megabytes=4096)
            (Path(scratch) / "disk").rename(disk)
    return disk


def unpacked(arch: str) -> Path:
    """The packages of the root, of an architecture."""
    packages = debian.closure(ROOT_SUITE, arch, ROOT_PACKAGES)
    listed = hashlib.sha256(repr(ROOT_PACKAGES).encode()).hexdigest()[:12]
    return debian.unpack(f"vm-{listed}", ROOT_SUITE, arch, {"root": packages}) / "root"


def furnished(tree: Path, root: Path) -> Path:
    """A copy of unpacked packages with what their installation would have made of them."""
    # No hard links: the cache of packages may be a mount of its own (shared by several checkouts).
    subprocess.run(["cp", "-a", "--reflink=auto", str(tree), str(root)], check=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    for name in ("proc", "sys", "dev", "tmp", "run", "var/tmp", "root", GUEST_CHECKOUT[1:]):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    for library in (root / "usr/lib").glob(
        "*-linux-gnu/*/lib*.so.3"
    ):  # BLAS and LAPACK: update-alternatives links them
        (library.parents[1] / library.name).symlink_to(library.relative_to(library.parents[1]))
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    return root


def compile_python(root: Path, own: Path) -> None:
    """Compiles the modules of a root's Python here: emulated, at each start, that takes longer than a test.

    The Python of `own`, the same packages of this machine's architecture, does it: what is compiled suits all of them,
    and under user emulation it takes an hour.
    """
    libraries = own / "usr/lib" / debian.TRIPLETS[debian.NATIVE]
    loader = next(libraries.glob("ld-linux-*.so.*"))
    python = next(path for path in (own / "usr/bin").glob("python3.*") if path.name[-1].isdigit())
    command = [str(loader), "--library-path", str(libraries), str(python), "-S", "-m", "compileall", "-q"]
    command += ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    command += [str(root / "usr/lib" / name) for name in (python.name, "python3")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHOME": str(own / "usr")})


@dataclass(frozen=True)
class Built:
    """This checkout's own programs, of one architecture: they need nothing of the guest's but the kernel."""

    arch: str
    arenadump: Path
    agent: Path


def built(arch: str) -> Built:
    """Raises UnavailableError."""
    folder = ROOT / f"build-static-{arch}"
    agents = ROOT / "build" if arch == debian.NATIVE else folder
    found = Built(arch, folder / "inspector/cli/arenadump", agents / "inspector/agent/libarenascope.so")
    if not found.arenadump.exists():
        raise debian.UnavailableError(f"{found.arenadump} does not exist: make build-static-{arch}")
    return found


def checkout_disk(scratch: Path, own: Built, suites: Iterable[str], plan: dict[str, Any]) -> Path:
    """This checkout as it stands, built, with some suites' libcs and the test programs. Raises UnavailableError."""
    tree = scratch / "checkout"
    names = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "tests",
            "visualize",
            "docs/live.md",
            "inspector/control",
            "inspector/include",
            "inspector/model",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    made = "visualize/arenascope/wire/dump_records.py"  # git does not have it
    for name in ["pyproject.toml", made, *filter(None, names)]:
        put(ROOT / name, tree / name)
    put(own.arenadump, tree / "build/inspector/cli/arenadump")
    put(own.agent, tree / "build/inspector/agent/libarenascope.so")
    if own.arch == debian.NATIVE:  # with the libraries of the root disk; only this one takes LD_PRELOAD
        put(ROOT / "build/inspector/cli/arenadump", tree / "build/inspector/cli/arenadump-dynamic")
    for name, flags in PROGRAMS.items():
        put(programs.build_portable(name, own.arch, *flags), tree / "programs" / programs.carried_name(name, *flags))
    if any(
        "agent/test_trim.py" in BY_NAME[name].tests for name in plan["checks"]
    ):  # a minute's work, of all the inspector's sources
        put(trimmer.build(own.arch), tree / "programs" / "trim-preload")
    for suite in suites:
        home = debian.libc(suite, own.arch).root.parent
        shutil.copytree(home, tree / ".cache/debian" / home.name, symlinks=True)
    (tree / "vm.json").write_text(json.dumps(plan))
    return make_disk(tree, scratch / "checkout.ext4", megabytes=2048)


def put(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, place, follow_symlinks=False)


def make_disk(tree: Path, disk: Path, megabytes: int) -> Path:
    """An ext4 file system of a directory's files; sparse, so that it takes as much as they do."""
    command = ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", FEATURES, "-d", str(tree), str(disk), f"{megabytes}M"]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if not shutil.which("mke2fs", path=path):
        raise debian.UnavailableError("mke2fs is not installed (scripts/install-deps vm)")
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PATH": path})
    return disk


def kernel_files(kernel: Kernel, image: str) -> tuple[Path, Path]:
    """The kernel itself, and the tree of its modules. Raises UnavailableError."""
    tree = debian.kernel(kernel.suite, kernel.package, kernel.arch)
    (found,) = (tree / "boot").glob(f"{image}*")
    modules = next(path for base in ("usr/lib", "lib") for path in (tree / base / "modules").glob("*"))
    return found, modules


def initramfs(scratch: Path, arch: str, modules: Path, suite: str = ROOT_SUITE) -> Path:
    """A busybox, the drivers of the disks, and the script that hands over to the first of them."""
    busybox = debian.unpack("busybox", suite, arch, {"root": ["busybox-static"]}) / "root/usr/bin/busybox"
    entries = [(name, 0o040755, b"") for name in ("bin", "dev", "proc", "sys", "root", "modules")]
    entries += [("bin/busybox", 0o100755, busybox.read_bytes()), ("init", 0o100755, (HERE / "init").read_bytes())]
    for index, (name, content) in enumerate(drivers(modules).items()):
        entries.append((f"modules/{index:02}-{name}.ko", 0o100644, content))
    archive = scratch / "initramfs"
    archive.write_bytes(b"".join(cpio(entries)))
    return archive


def drivers(modules: Path) -> dict[str, bytes]:
    """The modules that the disks take, what a module needs before it; those that are built in are not among them."""
    files = {path.name.split(".")[0].replace("-", "_"): path for path in modules.rglob("*.ko*")}
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in files:
            return
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        needed = re.search(rb"\0depends=([^\0]*)\0", content)
        for other in needed[1].decode().split(",") if needed else []:
            add(other.replace("-", "_"))
        found[name] = content

    for name in MODULES:
        add(name)
    return found


def cpio(entries: Iterable[tuple[str, int, bytes]]) -> Iterable[bytes]:
    """An archive as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst): newc."""
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        yield head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)
