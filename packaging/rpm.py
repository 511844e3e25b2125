# SPDX-License-Identifier: MIT
"""The RPM package. Its modules are in a folder of its own: Python's folder differs from release to release."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import files
import licences

sys.path.insert(0, str(files.ROOT / "tests"))
from tools import debian

SITE = "/usr/lib/arenascope/python"
OWN = (SITE, "/usr/share/doc/arenascope")  # with all that is in them
SPEC = """Name: arenascope
Version: {version}
Release: 1
Summary: Where the memory of a process went, and what brings it back
License: {licence}
Group: Development/Tools
Packager: {maintainer}
AutoReqProv: no
Requires: glibc >= 2.17, python3 >= 3.9
Recommends: python3-click, python3-jinja2, python3-numpy, python3-rich
Suggests: python3-prometheus_client, python3-matplotlib
%description
arenascope reads a running process on glibc from outside, without a restart or
debug symbols. Each resident byte is in one row of a ledger, which adds up to
the kernel's Rss. It names who holds memory, what has leaked and who allocates,
and gives free memory back to the kernel. arenadump does most of this alone and
needs no Python.
%install
cp --archive {root}/. %{{buildroot}}
%post
python3 -m compileall -q {site} || :
%preun
find {site} -name __pycache__ -exec rm -rf {{}} + || :
%files
%dir /usr/lib/arenascope
{listed}
%changelog
* {date} {maintainer} - {version}-1
- See /usr/share/doc/arenascope/changelog.gz.
"""
DEFINED = {
    "__os_install_post": "%{nil}",
    "_binary_payload": "w9.xzdio",
    "_build_id_links": "none",
    "_buildhost": "localhost",
    "clamp_mtime_to_source_date_epoch": "1",
    "debug_package": "%{nil}",
    "use_source_date_epoch_as_buildtime": "1",
}


def build(release: files.Release, wheel: Path, arch: str, folder: Path) -> Path:
    """Make arenascope-VERSION-1.MACHINE.rpm in `folder`. Raises CalledProcessError."""
    machine, licence = debian.MACHINES[arch], licences.expression(arch)
    with tempfile.TemporaryDirectory() as scratch:
        root, top, spec = (Path(scratch) / name for name in ("root", "top", "arenascope.spec"))
        files.install(release, wheel, root, SITE)
        paths = [f"/{path.relative_to(root)}" for path in sorted(root.rglob("*")) if path.is_file()]
        listed = "\n".join([*OWN, *(path for path in paths if not path.startswith(OWN))])
        date = release.date("%a %b %d %Y")
        text = SPEC.format(site=SITE, root=root, listed=listed, date=date, licence=licence, **vars(release))
        spec.write_text(text, encoding="utf-8")
        defined = [
            word for each in {"_topdir": top, **DEFINED}.items() for word in ("--define", " ".join(map(str, each)))
        ]
        files.run("rpmbuild", "-bb", "--quiet", f"--target={machine}-linux", *defined, spec)
        (made,) = top.glob("RPMS/*/*.rpm")
        return Path(shutil.move(made, folder / made.name))
