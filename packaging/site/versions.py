# SPDX-License-Identifier: MIT
"""Makes the site of the docs, of each release and of the working tree: `make site`.

    python packaging/site/versions.py FOLDER

FOLDER gets a site for each tag of a release (v1.0.0), made of its own files as they were, one of the working tree
(latest), and a page that leads to the newest release, or to latest where there is none. Each names all in its sidebar.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATEST = "latest"
FIRST = """<!DOCTYPE html>
<meta charset="utf-8">
<title>arenascope</title>
<meta http-equiv="refresh" content="0; url={version}/README.html">
<a href="{version}/README.html">arenascope {version}</a>
"""


def git(*words: str) -> bytes:
    """Return what it printed. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def build(source: Path, folder: Path, here: str, versions: list[str]) -> None:
    """Make the site of a tree. Raises CalledProcessError; what is wrong is above."""
    named = ["-A", f"versions={' '.join(versions)}", "-A", f"here={here}"]
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html"]
    trees = ["-d", str(folder.parent / f".{here}"), "-c", str(source / "packaging/site"), str(source), str(folder)]
    subprocess.run([*sphinx, *named, *trees], check=True)
    shutil.rmtree(folder.parent / f".{here}")


def main(folder: Path) -> None:
    """Make all. Raises CalledProcessError."""
    tags = git("tag", "--list", "--sort=-version:refname", "v[0-9]*").decode().split()
    versions = [LATEST, *(tag[1:] for tag in tags)]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    build(ROOT, folder / LATEST, LATEST, versions)
    for tag in tags:
        with tempfile.TemporaryDirectory() as source:
            subprocess.run(["tar", "--extract", f"--directory={source}"], input=git("archive", tag), check=True)
            build(Path(source), folder / tag[1:], tag[1:], versions)
    (folder / "index.html").write_text(FIRST.format(version=versions[1 if tags else 0]), encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
