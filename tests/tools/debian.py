# SPDX-License-Identifier: MIT
"""Packages and sources of other Debian suites and architectures, unpacked beside the machine's and never installed.

They come through the mirror that this machine's apt is set up with (its proxies and certificates too), or the one that
$DEBIAN_MIRROR names, are verified by apt as any package is, and are kept in .cache/: a second run needs no network.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .paths import ROOT

CACHE = ROOT / ".cache" / "debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Each carries another generation of malloc's structures.
SUITES = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41", "forky": "2.43", "experimental": "2.44"}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
MACHINES = {arch: triplet.partition("-")[0] for arch, triplet in TRIPLETS.items()}  # the kernel's names
NATIVE = "arm64" if platform.machine() == "aarch64" else "amd64"  # this machine


def tool(name: str, arch: str) -> str:
    """What Debian calls a tool for programs of an architecture: "strip", or "aarch64-linux-gnu-strip"."""
    return name if arch == NATIVE else f"{TRIPLETS[arch]}-{name}"


class UnavailableError(unittest.SkipTest):
    """What a test needs cannot be had here; the text says why. pytest skips a test that raises it."""


def emulator(arch: str = "arm64") -> str:
    """The program that runs another architecture's programs. Releases differ in its name. Raises UnavailableError."""
    machine = TRIPLETS[arch].partition("-")[0]
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if shutil.which(name):
            return name
    raise UnavailableError(f"qemu-{machine} is not installed (scripts/install-deps emulation)")


@dataclass(frozen=True)
class Libc:
    """An unpacked libc6, and its debug information in a tree of its own."""

    suite: str
    arch: str
    version: str  # as the package has it, 2.36-9+deb12u10
    root: Path
    debug: Path

    @property
    def release(self) -> tuple[int, int]:
        """The upstream release, (2, 36)."""
        major, minor = self.version.split("-")[0].split(".")[:2]
        return int(major), int(minor)

    @property
    def directory(self) -> Path:
        """Where libc.so.6 stands."""
        return _only(self.root, f"lib/{TRIPLETS[self.arch]}/libc.so.6").parent

    @property
    def loader(self) -> Path:
        """The dynamic loader; the links in /lib64 are absolute in some suites, so not those."""
        for pattern in (f"lib/{TRIPLETS[self.arch]}/ld-linux-*.so.*", f"lib/{TRIPLETS[self.arch]}/ld-2.*.so"):
            for base in (self.root, self.root / "usr"):
                for path in base.glob(pattern):
                    if path.exists():
                        return path
        raise FileNotFoundError(f"no dynamic loader in {self.root}")

    def command(self, program: Path | str, *args: str) -> list[str]:
        """The command that runs a program of this architecture under this libc."""
        return [*command_with(self.loader, str(self.directory), self.arch), str(program), *args]


def command_with(loader: Path, libraries: str, arch: str) -> list[str]:
    """The command that runs a program by a loader, with these directories of libraries.

    On arm64 the loader of glibc 2.31 loses what the kernel tells the process, unless it leaves out an even number of
    words.
    """
    even = ["--inhibit-cache"] if arch == "arm64" else []
    return [str(loader), "--library-path", libraries, *even]


def nearest_suite(machine: str | None = None) -> str:
    """The suite whose glibc is this machine's, or else the newest that is older, or else the oldest of all."""
    version = machine or (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    own = _release(version)
    older = [suite for suite, known in SUITES.items() if _release(known) <= own]
    return older[-1] if older else next(iter(SUITES))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])


def libc(suite: str, arch: str = NATIVE) -> Libc:
    """libc6 and libc6-dbg of a suite."""
    home = unpack("libc", suite, arch, {"root": ["libc6"], "debug": ["libc6-dbg"]})
    version = (home / "versions").read_text().split()[1]
    return Libc(suite, arch, version, home / "root", home / "debug")


def libgcc(arch: str = NATIVE) -> Path:
    """Where libgcc_s.so.1 stands, which libc loads when a thread is cancelled: the oldest suite's, for all."""
    root = unpack("libgcc", "bullseye", arch, {"root": ["libgcc-s1"]}) / "root"
    return next(root.glob("**/libgcc_s.so.1")).parent


def sysroot(arch: str = NATIVE) -> Path:
    """What a compiler needs for a program that runs on every libc above: the oldest suite's headers and libraries."""
    return unpack("sysroot", "bullseye", arch, {"root": ["libc6", "libc6-dev", "linux-libc-dev"]}) / "root"


def kernel(suite: str, package: str, arch: str = NATIVE) -> Path:
    """What a suite's kernel package holds; linux-image-cloud-amd64 and the like only name the newest one."""
    shown = _run(["apt-cache", *_apt_root(suite, NATIVE), "depends", "--important", f"{package}:{arch}"]).split()
    images = [name.split(":")[0] for name in shown[1:] if name.startswith("linux-image-")]
    return unpack(f"kernel-{package}", suite, arch, {"root": images[:1] or [package]}) / "root"


def closure(suite: str, arch: str, packages: list[str]) -> list[str]:
    """Packages and all that they need, none being installed yet."""
    names = [f"{name}:{arch}" for name in packages]
    options = ["-q", "--simulate", "--no-install-recommends"]
    shown = _run(["apt-get", *_apt_root(suite, arch), *options, "install", *names])
    return [line.split()[1].split(":")[0] for line in shown.splitlines() if line.startswith("Inst ")]


def unpack(purpose: str, suite: str, arch: str, trees: dict[str, list[str]]) -> Path:
    """A directory with one tree for each name in `trees`, made of those packages; `versions` in it lists what they are.

    Raises UnavailableError.
    """
    home = CACHE / f"{purpose}-{suite}-{arch}"
    with _locked(home.name):
        if not (home / "versions").exists():
            shutil.rmtree(home, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                _download(Path(scratch) / "home", suite, arch, trees)
                (Path(scratch) / "home").rename(home)
    return home


def _apt_settings() -> list[str]:
    """Returns options of mmdebstrap: how this machine's apt reaches its mirror, which may be a frozen one."""
    settings = sorted(Path("/etc/apt/apt.conf.d").glob("*"))
    means = re.compile(r"proxy|CAInfo|Check-(Valid-Until|Date)", re.IGNORECASE)
    return [f"--aptopt={path}" for path in settings if means.search(path.read_text())]


def installed(suite: str, packages: list[str]) -> Path:
    """A small installation of a suite, with these packages and what they need: to be copied, and entered by chroot.

    Raises UnavailableError; also where mmdebstrap is not installed, or may not make one.
    """
    home = CACHE / f"installed-{suite}-{NATIVE}"
    wanted = "\n".join(sorted(packages))
    with _locked(home.name):
        if not (home / "packages").exists() or (home / "packages").read_text() != wanted:
            shutil.rmtree(home, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                (Path(scratch) / "home").mkdir()
                options = [f"--include={','.join(packages)}", f"--keyring={KEYRING}", "--variant=minbase", "--quiet"]
                options += _apt_settings()
                _run(["mmdebstrap", *options, suite, f"{scratch}/home/root", mirror()])
                (Path(scratch) / "home/packages").write_text(wanted)
                (Path(scratch) / "home").rename(home)
    return home / "root"


def source(suite: str, package: str) -> Path:
    """The upstream tarball of a source package: the release as its authors made it, without Debian's changes.

    Raises UnavailableError.
    """
    home = CACHE / f"source-{package}-{suite}"
    with _locked(home.name):
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                _download_source(Path(scratch), suite, package)
                tarball = next(Path(scratch).glob("*.orig.tar.*[!c]"))  # and not its signature, .asc
                (Path(scratch) / "home").mkdir()
                tarball.rename(Path(scratch) / "home" / tarball.name)
                (Path(scratch) / "home").rename(home)
    return next(home.iterdir())


def has_source(suite: str, package: str, version: str) -> bool:
    """Whether the suite still has this version of a source package. Raises UnavailableError."""
    shown = _run(
        ["apt-cache", *_apt_root(suite, NATIVE, sources=True, fresh=True), "showsrc", "--only-source", package]
    )
    return f"Version: {version}\n" in shown


def mirror() -> str:
    """The address of the Debian archive: $DEBIAN_MIRROR, or what this machine's apt uses for its own suite."""
    if os.environ.get("DEBIAN_MIRROR"):
        return os.environ["DEBIAN_MIRROR"]
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    if release.get("ID", "").strip('"') != "debian":
        raise UnavailableError("this machine is not a Debian, and $DEBIAN_MIRROR names no mirror of it")
    codename = release.get("VERSION_CODENAME", "").strip('"')
    for line in _run(["apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)"]).splitlines():
        fields = line.split()
        if fields[:2] == [codename, "main"]:
            return fields[2]
    raise UnavailableError(f"apt knows no mirror for {codename}/main (apt-get update may help)")


def _download(home: Path, suite: str, arch: str, trees: dict[str, list[str]]) -> None:
    versions = []
    for tree, packages in trees.items():
        debs = home / "debs"
        debs.mkdir(parents=True)
        download = ["-q", "download", *(f"{name}:{arch}" for name in packages)]
        try:
            _run(["apt-get", *_apt_root(suite, arch), *download], cwd=debs)
        except UnavailableError:  # the suite has moved on since its lists were fetched
            _run(["apt-get", *_apt_root(suite, arch, fresh=True), *download], cwd=debs)
        for deb in sorted(debs.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(deb), str(home / tree)])
            versions.append(_run(["dpkg-deb", "-W", "--showformat", "${Package} ${Version}\n", str(deb)]))
        shutil.rmtree(debs)
        _make_links_relative(home / tree)
    (home / "versions").write_text("".join(versions))


def _download_source(scratch: Path, suite: str, package: str) -> None:
    options = _apt_root(suite, NATIVE, sources=True, fresh=True)
    shown = _run(["apt-cache", *options, "showsrc", "--only-source", package])
    versions = [line.split()[1] for line in shown.splitlines() if line.startswith("Version:")]
    failure = UnavailableError(f"{suite} has no source package {package}")
    # The index may already name a newer version than the mirror holds: experimental's are often taken away.
    for version in ["", *(f"={version}" for version in versions)]:
        try:
            _run(["apt-get", *options, "-q", "source", "--download-only", package + version], cwd=scratch)
        except UnavailableError as error:
            failure = error
        else:
            return
    raise failure


def _apt_root(suite: str, arch: str, *, sources: bool = False, fresh: bool = False) -> list[str]:
    """Options that give apt lists of its own for one suite's packages or sources, and leave the machine's alone.

    What is the same for all architectures counts as of `arch`. For each of them apt keeps what it makes of the lists,
    also where the machine's settings forbid it (a container's): to make it anew takes a second.
    """
    name = f"{suite}-source" if sources else suite
    kind = "deb-src [" if sources else "deb [arch=amd64,arm64 "
    root = CACHE / "apt" / name
    for directory in ("lists/partial", "archives/partial"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    source_list = root / "sources.list"
    options = [
        f"-oDir::Etc::SourceList={source_list}",
        "-oDir::Etc::SourceParts=/dev/null",
        f"-oDir::State::Lists={root}/lists",
        "-oDir::State::Status=/dev/null",
        f"-oDir::Cache={root}",
        f"-oDir::Cache::pkgcache=pkgcache-{arch}.bin",
        f"-oAPT::Architecture={arch}",
        "-oAPT::Architectures::=amd64",
        "-oAPT::Architectures::=arm64",
        "-oAPT::Sandbox::User=" + (_run(["id", "-un"]).strip()),
        "-oAcquire::Languages=none",
        "-oAcquire::Retries=3",
    ]
    with _locked(f"apt-{name}"):
        if fresh or not (root / "updated").exists():
            source_list.write_text(f"{kind}signed-by={KEYRING}] {mirror()} {suite} main\n")
            _run(["apt-get", *options, "-q", "-oAPT::Update::Error-Mode=any", "update"])
            (root / "updated").touch()
    return options


def _make_links_relative(root: Path) -> None:
    """Absolute links mean the machine's own files once a package is unpacked elsewhere."""
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():
            target = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))


def _only(root: Path, relative: str) -> Path:
    for base in (root, root / "usr"):
        if (base / relative).exists():
            return base / relative
    raise FileNotFoundError(f"no {relative} in {root}")


def _run(command: list[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=600)
    except FileNotFoundError as error:
        raise UnavailableError(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{' '.join(command)}: {error.stderr.strip()}") from error
    return done.stdout


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    for name in SUITES:
        for machine in TRIPLETS:
            found = libc(name, machine)
            print(found.suite, found.arch, found.version, found.loader)
    for machine in TRIPLETS:
        print("sysroot", machine, sysroot(machine))
