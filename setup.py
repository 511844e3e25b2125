# SPDX-License-Identifier: MIT
"""Builds arenadump and the agent with Meson, and puts them beside the scripts; the rest is pyproject.toml.

$ARENASCOPE_MESON_ARGS adds options to `meson setup` ("-Dlibdw=disabled -Dpng=disabled"); CC, CFLAGS and LDFLAGS are
honoured as Meson honours them. $ARENASCOPE_BUILD_DIR is a directory that Meson has set up already: what is built there
is brought up to date, and taken. $ARENASCOPE_PROGRAMS is a folder with both, which are taken as they are, and with what
goes along with them: licences/, and lists of parts in sboms/.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py
from setuptools.command.install_scripts import install_scripts
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
# Where Meson leaves each, and with which mode it is installed.
BUILT = {"inspector/cli/arenadump": 0o755, "inspector/agent/libarenascope.so": 0o644}

TABLE = "inspector/model/rows.def"
RECORDS = "wire/dump_records.py"  # made by scripts/records from the other tables in that folder
BUILT_FROM = "built.txt"  # in the package: version.py reads it
TEMPLATES = "report/templates"
COMMIT = "COMMIT"  # in a source distribution


def _version() -> str:
    """The project's one version, which meson.build states."""
    found = re.search(r"^\s*version:\s*'([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SystemExit("setup.py: meson.build states no version")
    return found[1]


def _description() -> str:
    """README.md without links and pictures: where a package index shows it, the files that they lead to are not."""
    text = re.sub(r"^!\[.*\]\(.*\)\n+", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)\s]+\)", r"\1", text)


def _commit() -> str:
    """The commit, "+" behind it if files differ from it; empty: not known. A source distribution has it in a file."""
    if not (ROOT / ".git").exists():
        noted = ROOT / COMMIT
        return noted.read_text(encoding="ascii").strip() if noted.exists() else ""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # there is no git
        return ""


class BuildProgram(Command):
    """Compiles what is C: `meson setup` and `ninja` in the temporary build directory."""

    description = "build arenadump and libarenascope.so with Meson"

    def initialize_options(self) -> None:
        """Take build_temp from `build`."""
        self.build_temp: str | None = None

    def finalize_options(self) -> None:
        """Take build_temp from `build`."""
        self.set_undefined_options("build", ("build_temp", "build_temp"))

    @property
    def built(self) -> dict[Path, int]:
        """What was compiled, and its mode."""
        if self._programs:
            return {Path(self._programs) / Path(path).name: mode for path, mode in BUILT.items()}
        return {self._directory / path: mode for path, mode in BUILT.items()}

    @property
    def _programs(self) -> str:
        return os.environ.get("ARENASCOPE_PROGRAMS", "")

    @property
    def _given(self) -> str:
        return os.environ.get("ARENASCOPE_BUILD_DIR", "")

    @property
    def _directory(self) -> Path:
        return Path(self._given).resolve() if self._given else Path(self.build_temp or "build").resolve() / "meson"

    def run(self) -> None:
        """Compile; end with one clear sentence when a tool for it is missing."""
        if self._programs:
            return
        self._check_tools()
        if not self._given:
            self._set_up()
        self._tool(["ninja", "-C", str(self._directory), *BUILT])

    @staticmethod
    def _check_tools() -> None:
        for tool in ("meson", "ninja"):
            if not shutil.which(tool):
                raise SystemExit(f"arenascope: {tool} was not found; apt-get install meson ninja-build")
        if not os.environ.get("CC") and not any(map(shutil.which, ("cc", "gcc", "clang"))):
            raise SystemExit("arenascope: no C compiler was found; apt-get install gcc libc6-dev (or set $CC)")

    def _set_up(self) -> None:
        setup_command = ["meson", "setup", str(self._directory), str(ROOT), "-Dtests=false"]
        setup_command += shlex.split(os.environ.get("ARENASCOPE_MESON_ARGS", ""))
        if (self._directory / "build.ninja").exists():
            setup_command.append("--wipe")  # the options, the compiler or Meson itself may be others today
        self._tool(setup_command)

    @staticmethod
    def _tool(command: list[str]) -> None:
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(
                f"arenascope: {shlex.join(command)} failed (its output is above); needed are gcc, libc6-dev, meson and "
                "ninja-build, and wanted, but not needed, libdw-dev, libpng-dev and libiberty-dev"
            )


class Build(build):
    """`build`, with the C program as its first part."""

    sub_commands = [("build_program", None), *build.sub_commands]  # noqa: RUF012 - setuptools' own declaration


class BuildPackage(build_py):
    """The package, with a copy of the table of rows, which the C program is compiled from too, and what it is built of.

    An editable install reads the table itself, and its code is of any commit.
    """

    def run(self) -> None:
        """Make the module of the tables and build; then write beside the modules what they read."""
        made = ROOT / "visualize" / "arenascope" / RECORDS
        subprocess.run([sys.executable, str(ROOT / "scripts" / "records"), "python", str(made)], check=True)
        super().run()
        if not self.editable_mode:
            self.copy_file(str(ROOT / TABLE), str(self._package / Path(TABLE).name))
            (self._package / BUILT_FROM).write_text(f"{_version()}\n{_commit()}\n", encoding="ascii")
            self._compile_templates()

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # noqa: FBT001, FBT002 - setuptools' signature
        """The package's files, and these."""
        compiled = sorted((self._package / TEMPLATES / "compiled").glob("*.*"))
        own = [str(path) for path in (self._package / Path(TABLE).name, self._package / BUILT_FROM, *compiled)]
        return [*super().get_outputs(include_bytecode), *own]

    def _compile_templates(self) -> None:
        """For the release of Jinja2 that is here. The page is the same without: each report compiles them then."""
        sys.path.insert(0, str(ROOT / "visualize"))
        try:
            from arenascope.report.page.environment import COMPILED, compile_into  # noqa: PLC0415 - it needs Jinja2
        except ImportError:
            return
        folder = self._package / TEMPLATES
        compile_into(folder, folder / COMPILED)

    @property
    def _package(self) -> Path:
        return Path(self.build_lib) / "arenascope"


class SourceDistribution(sdist):
    """The sources, with the commit that they are of."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make it, and note the commit."""
        super().make_release_tree(base_dir, files)
        if commit := _commit():
            (Path(base_dir) / COMMIT).write_text(f"{commit}\n", encoding="ascii")


class InstallProgram(install_scripts):
    """Puts the program where console scripts go, bin/ of the environment, and the library beside it."""

    def run(self) -> None:
        """Install the scripts, then the program and the library."""
        super().run()
        self.run_command("build_program")
        self.mkpath(self.install_dir)
        for built, mode in cast("BuildProgram", self.get_finalized_command("build_program")).built.items():
            target = Path(self.install_dir) / built.name
            self.copy_file(str(built), str(target))
            target.chmod(mode)
            self.outfiles.append(str(target))


class BinaryDistribution(Distribution):
    """A distribution with machine code in it, though none that Python imports."""

    def has_ext_modules(self) -> bool:
        """Yes: the wheel is of one platform."""
        return True

    def has_scripts(self) -> bool:
        """Yes: so that install_scripts runs, in an editable install too."""
        return True


class Wheel(bdist_wheel):
    """A wheel of one platform for every Python 3: the program is tied to the machine, the package to nothing.

    It has the licences of what is linked into the program, and the list of parts.
    """

    def get_tag(self) -> tuple[str, str, str]:
        """py3-none-<platform>."""
        return "py3", "none", super().get_tag()[2]

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Make the folder .dist-info, and put into it what came with the programs."""
        super().egg2dist(egginfo_path, distinfo_path)
        given = Path(os.environ.get("ARENASCOPE_PROGRAMS") or "none")
        if (given / "sboms").exists():
            shutil.copytree(given / "sboms", Path(distinfo_path, "sboms"), ignore=shutil.ignore_patterns("arenadump*"))
        if (given / "licences").exists():
            target = Path(distinfo_path, "licenses")
            shutil.copytree(given / "licences", target / "linked")
            named = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
            metadata = Path(distinfo_path, "METADATA")
            lines = "".join(f"License-File: {name}\n" for name in named)
            text = metadata.read_text(encoding="utf-8").replace("License-File: LICENSE\n", lines)
            metadata.write_text(text, encoding="utf-8")


setup(
    version=_version(),
    long_description=_description(),
    long_description_content_type="text/markdown",
    distclass=BinaryDistribution,
    scripts=[],
    ext_modules=[],
    cmdclass={
        "build": Build,
        "build_program": BuildProgram,
        "build_py": BuildPackage,
        "install_scripts": InstallProgram,
        "bdist_wheel": Wheel,
        "sdist": SourceDistribution,
    },
)
