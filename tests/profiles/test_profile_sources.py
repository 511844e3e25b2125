# SPDX-License-Identifier: MIT
"""`arenascope profile list` as root: a path is the target's word, and is read with the target's rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from profiles.test_profile_commands import served
from tools import harness

from arenascope.cli import profile as cli
from arenascope.cli.main import main
from arenascope.profiles import sources
from arenascope.profiles.sources import NOBODY, Rights, read_source, rights_of
from arenascope.wire.profile import Profile, Site, SourceLine, StackFrame
from arenascope.wire.profile_json import profile_of, read_profile

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads as another user")
USER, GROUP, OTHER_GROUP = 54321, 54322, 54323
SECRET = "the secret line"


@contextmanager
def sleeping(*how: str) -> Iterator[str]:
    """A process of an unprivileged user."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed: apt-get install util-linux")
    with subprocess.Popen(["setpriv", *how, "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.read(1) == b"\n"
            yield str(child.pid)
        finally:
            child.kill()


USERS = (f"--reuid={USER}", f"--regid={GROUP}", f"--groups={OTHER_GROUP}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that everybody may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def source(path: Path, mode: int = 0o644, owner: int = 0, group: int = 0) -> str:
    path.write_text(f"{SECRET}\nmore\n")
    os.chown(path, owner, group)
    path.chmod(mode)
    return str(path)


def text(path: str, rights: Rights | None) -> str:
    found = read_source(path, rights)
    return found.lines[0] if found else ""


def test_only_what_the_targets_user_may_read(folder: Path) -> None:
    with sleeping(*USERS) as pid:
        rights = rights_of(pid)
    assert rights
    assert (rights.uid, rights.gid, rights.groups) == (USER, GROUP, (OTHER_GROUP,))
    for name, how, readable in (
        ("everybody", (0o644, 0, 0), True),
        ("root", (0o600, 0, 0), False),
        ("own", (0o600, USER, 0), True),
        ("group", (0o640, 0, GROUP), True),
        ("other group", (0o640, 0, OTHER_GROUP), True),
        ("root's group", (0o640, 0, 0), False),
    ):
        assert text(source(folder / name, *how), rights) == (SECRET if readable else ""), name
        assert text(str(folder / name), None) == SECRET  # root itself
    (folder / "link").symlink_to(folder / "root")
    assert text(str(folder / "link"), rights) == ""
    (folder / "closed").mkdir(mode=0o700)
    assert text(source(folder / "closed" / "inside"), rights) == ""


def test_a_process_of_roots_without_capabilities(folder: Path) -> None:
    private = source(folder / "private", 0o600, USER, GROUP)
    with sleeping("--bounding-set=-all", "--inh-caps=-all") as pid:
        assert text(private, rights_of(pid)) == ""
        assert text(source(folder / "own", 0o600), rights_of(pid)) == SECRET
    with sleeping() as pid:
        assert text(private, rights_of(pid)) == SECRET


def test_a_set_user_id_program_counts_as_its_users(folder: Path) -> None:
    """Root may have started it by the target's wish: `exec su`."""
    with sleeping(f"--ruid={USER}", f"--rgid={GROUP}", "--clear-groups") as pid:
        rights = rights_of(pid)
    assert rights
    assert rights.uid == USER
    assert text(source(folder / "root", 0o600), rights) == ""


def test_files_are_those_below_the_targets_root(folder: Path) -> None:
    inner = folder / "inner"
    (inner / "src").mkdir(parents=True)
    source(inner / "src" / "app.c")
    outside = source(folder / "outside")
    root = os.open(inner, os.O_PATH | os.O_DIRECTORY)
    for rights in (Rights(USER, GROUP, (), root=root), Rights(0, 0, (), reads_all=True, root=root)):
        assert text("/src/app.c", rights) == SECRET
        assert text("/../src/app.c", rights) == SECRET
        assert text(outside, rights) == ""
        (inner / "link").symlink_to(outside)
        assert text("/link", rights) == ""
        (inner / "link").unlink()
        (inner / "link").symlink_to("/src/app.c")
        assert text("/link", rights) == SECRET
        (inner / "link").unlink()
    os.close(root)


def test_a_dump_has_the_rights_of_its_owner(folder: Path) -> None:
    own, secret, open_ = (
        source(folder / name, *how)
        for name, how in (("own", (0o600, USER, GROUP)), ("secret", (0o600, 0, 0)), ("open", (0o644, 0, 0)))
    )
    dump = folder / "dump"
    dump.touch()
    assert rights_of(str(dump)) == Rights(NOBODY, NOBODY, ())  # whose process it was nobody knows
    assert [text(path, rights_of(str(dump))) for path in (own, secret, open_)] == ["", "", SECRET]
    os.chown(dump, USER, GROUP)
    assert [text(path, rights_of(str(dump))) for path in (own, secret, open_)] == [SECRET, "", SECRET]


def test_what_is_nothing_to_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "empty").touch()
    (folder / "large").touch()
    os.truncate(folder / "large", sources.LARGEST + 1)
    monkeypatch.setenv("PASSWORD", SECRET)
    for path in ("", "relative", f"{folder}\0", str(folder), "/dev/zero", "/proc/self/environ", "/nowhere"):
        assert read_source(path) is None
        assert read_source(path, Rights(NOBODY, NOBODY, ())) is None
    for name in ("fifo", "empty", "large"):
        assert read_source(str(folder / name)) is None


def test_the_command_prints_no_line_of_roots_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, open_ = source(folder / "secret", 0o600), source(folder / "open")
    frames = tuple(
        StackFrame(at, None, (SourceLine("grow", path, 1),), "python") for at, path in ((0, secret), (1, open_))
    )
    monkeypatch.setattr(cli, "_read", lambda *_: None)
    monkeypatch.setattr(cli, "profile_of", lambda _: Profile([Site(frames, {"inuse_space": 9001})]))
    with sleeping(*USERS) as pid:
        assert main(["profile", "list", "grow", pid]) == 0
    said = capsys.readouterr().out
    assert said.count(SECRET) == 1, said
    assert f"{secret} (the source is not here)" in said.replace("\n", "")


def test_functions_of_a_program_that_only_root_may_read(
    arenadump: harness.Arenadump, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a build-id nothing tells that the dump's process had this file."""
    monkeypatch.setenv("ARENASCOPE_ARENADUMP", str(arenadump.path))
    dump = folder / "dump"
    with served(folder, arenadump, "-Wl,--build-id=none") as process:
        arenadump.check("dump", "-o", str(dump), str(process.pid))
    for mode, known in ((0o755, True), (0o750, False)):
        (folder / "server").chmod(mode)
        names = {name for site in profile_of(read_profile(str(dump))).sites for name in site.names()}
        assert any("fill_cache" in name for name in names) == known, mode
