# SPDX-License-Identifier: MIT
"""What `make release SIGNING_KEY=FILE` signs, checked by the commands of docs/releases.md."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from tools.paths import ROOT

pytestmark = pytest.mark.check


def signed(folder: Path, *settings: str) -> str:
    command = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), "signature", *settings]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A folder with `dist`, which has a file and its sum, and with a key."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "file").write_bytes(b"some bytes")
    (dist / "SHA256SUMS").write_text(f"{hashlib.sha256(b'some bytes').hexdigest()}  file\n")
    key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "of a test", "-f", str(tmp_path / "key")]
    try:
        subprocess.run(key, check=True)
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    (dist / "signers").write_text(f"releases {(tmp_path / 'key.pub').read_text()}")
    return tmp_path


def whole(dist: Path) -> bool:
    shown = re.findall(r"^\$ (.*(?:SHA256SUMS).*)$", (ROOT / "docs/releases.md").read_text(), re.MULTILINE)
    assert len(shown) == 2
    done = (subprocess.run(["bash", "-c", line], cwd=dist, capture_output=True, check=False) for line in shown)
    return all(each.returncode == 0 for each in done)


def test_what_is_signed_is_whole(released: Path) -> None:
    signed(released, f"SIGNING_KEY={released / 'key'}")
    assert whole(released / "dist")


@pytest.mark.parametrize("name", ["file", "SHA256SUMS", "SHA256SUMS.sig", "signers"])
def test_what_was_changed_is_not(released: Path, name: str) -> None:
    signed(released, f"SIGNING_KEY={released / 'key'}")
    path = released / "dist" / name
    text = path.read_text()
    path.write_text(text.replace(text[len(text) // 2], "!"))
    assert not whole(released / "dist")


def test_without_a_key_nothing_is_signed(released: Path) -> None:
    assert signed(released) == "make release: dist/SHA256SUMS is not signed; SIGNING_KEY=FILE signs it\n"
    assert [path.name for path in (released / "dist").glob("*.sig")] == []
