# SPDX-License-Identifier: MIT
"""Boots a virtual machine and listens to its console until it ends, or its time is over."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from tools import debian

from vm.guest_words import MARK, TROUBLE
from vm.machine import Arch, Processor

MEMORY = "2G"
# Other page tables for each system call (against Meltdown) are slow to emulate, and no program can tell.
NO_ISOLATION = "mitigations=off"
TAIL = 40  # lines of the console in a report of failure


@dataclass
class Boot:
    """How one went."""

    events: list[dict[str, Any]] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    failure: str = ""  # why it did not come to its end; "" when it did
    seconds: float = 0

    def of(self, event: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event]

    @property
    def tail(self) -> str:
        return "\n".join(line for line in self.console[-TAIL:] if not line.startswith(MARK))


@dataclass(frozen=True)
class Files:
    """What is booted."""

    kernel: Path
    initramfs: Path
    disks: tuple[Path, ...]  # never written: what the guest changes is gone with it


@dataclass(frozen=True)
class Patience:
    """Seconds: how long the console may be silent, and how long all may take. Emulation is slow."""

    silence: float = 1200
    whole: float = 4 * 3600


USUAL = Patience()


def command(arch: Arch, processor: Processor, files: Files, says: str = "") -> list[str]:
    qemu = shutil.which(arch.qemu)
    if not qemu:
        raise debian.UnavailableError(f"{arch.qemu} is not installed (scripts/install-deps vm installs {arch.package})")
    found = [qemu, *arch.machine, "-accel", "tcg", "-cpu", processor.model, "-smp", "2", "-m", MEMORY]
    found += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"]
    found += ["-kernel", str(files.kernel), "-initrd", str(files.initramfs)]
    found += ["-append", f"console={arch.console} panic=-1 quiet {NO_ISOLATION} {says}"]
    for disk in files.disks:
        found += ["-drive", f"if=virtio,format=raw,snapshot=on,file={disk}"]
    return found


def boot(command_: list[str], patience: Patience, tell: Callable[[dict[str, Any]], None] = lambda _: None) -> Boot:
    """Runs it to its end. Whatever comes of it is in the answer; nothing of it runs on."""
    result, began = Boot(), time.monotonic()
    process = subprocess.Popen(command_, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        _listen(process, result, patience, tell)
    finally:
        process.kill()
        process.communicate()
    result.seconds = time.monotonic() - began
    if not result.failure and not result.of("end"):
        panic = [line for line in result.console if "Kernel panic" in line]
        result.failure = panic[0].strip() if panic else "the machine ended before its tests did"
    return result


def _listen(
    process: subprocess.Popen[bytes], result: Boot, patience: Patience, tell: Callable[[dict[str, Any]], None]
) -> None:
    assert process.stdout
    began, rest = time.monotonic(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not result.failure:
            left = began + patience.whole - time.monotonic()
            if left <= 0:
                result.failure = f"not done after {patience.whole:.0f} s"
            elif not selector.select(min(left, patience.silence)):
                if left > patience.silence:
                    result.failure = f"the console was silent for {patience.silence:.0f} s"
            elif data := os.read(process.stdout.fileno(), 1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    _hear(line.decode(errors="replace").rstrip("\r"), result, tell)
            else:
                return


def _hear(line: str, result: Boot, tell: Callable[[dict[str, Any]], None]) -> None:
    result.console.append(line)
    if line.startswith(TROUBLE):
        result.failure = line[len(TROUBLE) :]
    elif line.startswith(MARK):
        try:
            event = json.loads(line[len(MARK) :])
        except ValueError:
            result.console.append("(the line above was broken into)")
            return
        result.events.append(event)
        tell(event)
