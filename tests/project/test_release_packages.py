# SPDX-License-Identifier: MIT
"""The packages of `make release` in installations of Debian without a compiler, and the image in a container."""

from __future__ import annotations

import configparser
import gzip
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import debian, releases
from tools.odd import running, wait_for
from tools.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]

# What the package for apt depends on, and what the one line that installs a wheel needs.
DEPENDS = ["python3", "python3-click", "python3-jinja2", "python3-numpy", "python3-rich"]
STILL = ["--mode=freeze", "--max-pause=600s"]  # a busy machine takes its time
PYTHONS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13", "forky": "3.14"}
# Held in chunks of their own, beside as many that are free: a trim returns these.
PROGRAM = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
blocks = [libc.malloc(100_000) for _ in range(400)]
for block in blocks:
    ctypes.memset(block, 1, 100_000)
for block in blocks[:-1]:
    libc.free(block)
libc.malloc(50_000)
print("ready", flush=True)
sys.stdin.read()
"""


class Root:
    """A copy of an installation. The kernel's processes are the machine's own: it reads those outside, too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def command(self, *words: str | Path | int) -> list[str]:
        """The command that runs `words` in it, with nothing of our environment but how PyPI is reached."""
        script = """
        for each in proc dev; do mount --rbind "/$each" "$0/$each"; done
        exec chroot "$0" env --ignore-environment "$@"
        """
        given = {
            name: value for name, value in os.environ.items() if name.startswith("PIP_") and name != "PIP_FIND_LINKS"
        }
        plain = {"PATH": "/opt/v/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", **given}
        settings = [f"{name}={value}" for name, value in plain.items()]
        return ["unshare", "--mount", "bash", "-ec", script, str(self.path), *settings, *map(str, words)]

    def said(self, *words: str | Path | int) -> str:
        """What the command prints; it does not fail."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def ours(self) -> set[str]:
        """The files with our name, but for those in which dpkg and pip say what they have done."""
        found = (str(path.relative_to(self.path)) for path in self.path.rglob("*arena*"))
        return {
            path for path in found if not path.startswith(("proc", "dev", "var/log", "var/lib/dpkg", "root", "tmp"))
        }


@pytest.fixture(scope="module")
def dist() -> Path:
    return releases.dist()


@pytest.fixture
def root(suite: str, tmp_path: Path) -> Root:
    if os.geteuid() != 0:
        pytest.skip("only root may enter another installation")
    path = tmp_path / "root"
    made = debian.installed(suite, [*DEPENDS, "python3-venv"])
    subprocess.run(["cp", "--archive", "--reflink=auto", str(made), str(path)], check=True)
    assert not (path / "usr/bin/gcc").exists()
    for settings in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(settings).exists():
            (path / settings[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(settings, path / settings[1:])
    return Root(path)


@pytest.fixture
def held(root: Root) -> Iterator[int]:
    """A Python of the installation, which nobody here built."""
    (root.path / "root/program.py").write_text(PROGRAM)
    with running(root.command("python3", "/root/program.py")) as pid:
        yield pid


def does_all(root: Root, pid: int) -> None:
    """What people do first: each answer is right, and the last makes the process smaller."""
    summary = json.loads(root.said("arenascope", "summary", "--json", *STILL, pid))
    assert summary["snapshot"]["exact"]
    assert "malloc" in root.said("arenascope", "summary", pid)
    assert "chunks" in root.said("arenascope", "types", pid)
    root.said("arenascope", "dump", pid, "-o", "/root/before.dump", "--chunks")
    root.said("arenascope", "report", pid, "-o", "/root/report.html")
    assert "</html>" in (root.path / "root/report.html").read_text()
    root.said("arenascope", "inject", pid)
    root.said("arenascope", "trim", pid)
    grown = json.loads(root.said("arenascope", "diff", "--json", "/root/before.dump", pid))
    assert grown["rss"]["change"] < -30_000_000
    root.said(
        "arenascope",
        "run",
        "--profile",
        "-o",
        "/root/inside.dump",
        "--",
        "python3",
        "-c",
        "import os; os.kill(os.getpid(), 12)",
    )
    assert (root.path / "root/inside.dump").exists()
    root.said("arenadump", "check", "/root/before.dump", "/root/inside.dump")


@pytest.mark.parametrize("suite", PYTHONS)
def test_apts_package(suite: str, dist: Path, root: Root, held: int) -> None:
    """Installed, used, removed without rest."""
    before = root.ours()
    (package,) = dist.glob(f"*_{debian.NATIVE}.deb")
    shutil.copy(package, root.path / "root/arenascope.deb")
    root.said("dpkg", "--install", "/root/arenascope.deb")
    assert (
        root.said("python3", "-c", "import arenascope, sys; print(sys.version_info[1])").strip() == PYTHONS[suite][2:]
    )
    does_all(root, held)
    root.said("dpkg", "--purge", "arenascope")
    assert root.ours() == before


@pytest.mark.parametrize("suite", PYTHONS)
def test_a_wheel(suite: str, dist: Path, root: Root, held: int) -> None:
    """Installed by one line."""
    (wheel,) = dist.glob(f"*_{releases.MACHINES[debian.NATIVE]}.whl")
    shutil.copy(wheel, root.path / "root")
    root.said("python3", "-m", "venv", "/opt/v")
    root.said("pip", "install", "--quiet", f"/root/{wheel.name}")
    assert "3." in root.said("python3", "-c", "import sys; print(sys.version)")
    does_all(root, held)


@pytest.mark.parametrize("suite", ["bookworm"])
def test_rpms_package(suite: str, dist: Path, root: Root, held: int) -> None:
    """Installed by rpm below another root, used, removed without rest. dpkg has its libraries: rpm knows none."""
    del suite
    before = root.ours()
    (package,) = dist.glob(f"*.{releases.MACHINES[debian.NATIVE]}.rpm")
    rpm = ["rpm", f"--root={root.path}", "--nodeps"]
    subprocess.run([*rpm, "--install", str(package)], check=True)
    does_all(root, held)
    subprocess.run([*rpm, "--erase", "arenascope"], check=True)
    assert root.ours() == before


@pytest.mark.parametrize("arch", releases.MACHINES)
def test_what_linters_find(dist: Path, arch: str) -> None:
    """What static linking means, and Sphinx's search; and that nobody signed, and that no bug was filed for it."""
    (deb,) = dist.glob(f"*_{arch}.deb")
    done = subprocess.run(["lintian", "--allow-root", str(deb)], capture_output=True, text=True, check=False)
    found = set(re.findall(r"^[EW]: arenascope: (\S+)", done.stdout, re.MULTILINE))
    theirs = {"embedded-javascript-library", "zero-byte-file-in-doc-directory"}
    assert found <= {"embedded-library", "statically-linked-binary", "initial-upload-closes-no-bugs", *theirs}, (
        done.stdout
    )
    (rpm,) = dist.glob(f"*.{releases.MACHINES[arch]}.rpm")
    done = subprocess.run(["rpmlint", str(rpm)], capture_output=True, text=True, check=False)
    errors = set(re.findall(r": E: (\S+)", done.stdout))
    theirs = {"zero-length"}  # a script of the docs' theme
    assert errors <= {"statically-linked-binary", "no-signature", "no-binary", *theirs}, done.stdout


def test_each_command_has_a_manual_page(dist: Path, tmp_path: Path) -> None:
    """And man finds nothing to complain of."""
    (deb,) = dist.glob(f"*_{debian.NATIVE}.deb")
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(tmp_path)], check=True)
    pages = {
        page.name: gzip.decompress(page.read_bytes()).decode()
        for page in tmp_path.rglob("*.gz")
        if "/man/" in str(page)
    }
    assert "arenascope-profile-take.1.gz" in pages
    assert "First aid" in (tmp_path / "usr/share/doc/arenascope/html/docs/first-aid.html").read_text()
    assert "--max-hold" in pages["arenadump.1.gz"].replace("\\", "")
    for name in pages:
        (page,) = tmp_path.rglob(name)
        done = subprocess.run(
            ["man", "--warnings", "--local-file", str(page)], capture_output=True, text=True, check=True
        )
        assert not done.stderr, name
        assert "NAME" in done.stdout


def contained(dist: Path, name: str, store: Path, rights: list[str]) -> list[str]:
    """The command that runs an image; its arguments come behind it."""
    (image,) = dist.glob(f"{name}-*-oci-{debian.NATIVE}.tar")
    places = ["--storage-driver=vfs", f"--root={store}/store", f"--runroot={store}/run", "--cgroup-manager=cgroupfs"]
    limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]  # podman's own are more than a sandbox may have
    rights = ["--read-only", "--cap-drop=all", "--pid=host", *limits, *rights]
    return ["podman", *places, "--runtime=runc", "run", "--quiet", "--rm", *rights, f"oci-archive:{image}"]


@pytest.fixture
def store() -> Iterator[Path]:
    """Where podman keeps what it loads: it refuses a path of more than 50 letters."""
    with tempfile.TemporaryDirectory(prefix="store", dir="/tmp") as place:
        yield Path(place)


@pytest.mark.parametrize("name", ["arenadump", "arenascope"])
def test_an_image(name: str, dist: Path, store: Path, tmp_path: Path) -> None:
    """In a container without any right but one, it reads a process that is outside."""
    command = contained(dist, name, store, ["--cap-add=SYS_PTRACE", "--network=none"])
    with running(["python3", "-c", PROGRAM]) as pid:
        done = subprocess.run(
            [*command, "summary", "--json", *STILL, str(pid)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["snapshot"]["exact"]
    inside = layers(dist, name, tmp_path)
    assert [path for path in inside if path.endswith("licenses/LICENSE")]
    assert [path for path in inside if path.endswith("usr/share/doc/python3-numpy/copyright")] or name == "arenadump"


def layers(dist: Path, name: str, folder: Path) -> list[str]:
    """What is in the layers of an image."""
    (image,) = dist.glob(f"{name}-*-oci-{debian.NATIVE}.tar")
    subprocess.run(["tar", "--extract", f"--file={image}", f"--directory={folder}"], check=True)
    paths = []
    for blob in (folder / "blobs/sha256").iterdir():
        listed = subprocess.run(["tar", "--list", f"--file={blob}"], capture_output=True, text=True, check=False)
        paths += listed.stdout.splitlines() if listed.returncode == 0 else []
    return paths


def shows(exporter: list[str], port: int) -> None:
    """Started, the exporter shows how large a process is that it did not start."""
    process = subprocess.Popen(["python3", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = subprocess.Popen(exporter, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = f'pid="{process.pid}"'
    try:
        wait_for(lambda: server.poll() is not None or any(name in line for line in metrics(port)))
        sizes = [line for line in metrics(port) if line.startswith("arenascope_rss_bytes{") and name in line]
        assert sizes
        assert float(sizes[0].split()[-1]) > 30e6
    finally:
        server.terminate()
        process.kill()
        server.wait()
        process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_the_service_of_systemd() -> None:
    """With the rights that it has, and no others."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging/arenascope-exporter.service")
    service = unit["Service"]
    assert service["NoNewPrivileges"] == "yes"
    rights = ",".join(f"+{each[4:].lower()}" for each in service["CapabilityBoundingSet"].split())
    options = service["Environment"].strip('"').removeprefix("OPTIONS=")
    command = shlex.split(service["ExecStart"].replace("$OPTIONS", options))
    assert command[:2] == ["/usr/bin/arenascope", "exporter"]
    port = free_port()
    limited = ["setpriv", f"--bounding-set=-all,{rights}", "--no-new-privs"]
    ours = [str(Path(sys.executable).with_name("arenascope")), *command[1:], f"--listen=127.0.0.1:{port}"]
    shows([*limited, *ours], port)


def test_the_exporter_of_each_node(dist: Path, store: Path) -> None:
    """What Kubernetes gets is valid; with these rights and arguments the exporter shows a process outside."""
    import yaml  # noqa: PLC0415 - of `make release-tools`, which the other tests do without

    manifest = ROOT / "packaging/kubernetes/exporter.yaml"
    subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", str(manifest)], check=True)
    (container,) = yaml.safe_load(manifest.read_text())["spec"]["template"]["spec"]["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert context["capabilities"]["drop"] == ["ALL"]
    rights = [f"--cap-add={each}" for each in context["capabilities"]["add"]]
    port = free_port()
    arguments = [each.replace(":9764", f":{port}") for each in container["args"]]
    assert arguments != container["args"]
    shows([*contained(dist, "arenascope", store, [*rights, "--network=host"]), *arguments], port)


def metrics(port: int) -> list[str]:
    """The lines of a scrape; none: nobody listens yet."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/metrics") as answer:
            lines: list[str] = answer.read().decode().splitlines()
            return lines
    except OSError:
        return []
    finally:
        time.sleep(0.1)
