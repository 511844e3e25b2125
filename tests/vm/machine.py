# SPDX-License-Identifier: MIT
"""The machines there are: architectures, kernels and processors. Another one is another row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """What qemu needs to know of an architecture, named as Debian names it."""

    name: str
    qemu: str  # the emulator
    package: str  # of Debian's, that holds it
    machine: tuple[str, ...]  # its options for a machine with a serial port and virtio disks
    console: str  # the serial port, as the kernel names it
    image: str  # the kernel's file in /boot begins so


@dataclass(frozen=True)
class Kernel:
    """A kernel of Debian's, and the libc that its suite came with."""

    name: str
    arch: str
    suite: str
    package: str
    says: str = ""  # on its command line
    only: tuple[str, ...] = ()  # the checks that are tried on it; none: all


@dataclass(frozen=True)
class Processor:
    """A processor to emulate."""

    name: str
    arch: str
    model: str  # qemu's -cpu
    needs: tuple[str, ...] = ()  # flags that /proc/cpuinfo must list, else the kernel does not know the feature
    lacks: tuple[str, ...] = ()  # and those that it must not list, else the row would be named wrongly


ARCHS = {
    arch.name: arch
    for arch in (
        Arch("amd64", "qemu-system-x86_64", "qemu-system-x86", ("-machine", "pc"), "ttyS0", "vmlinuz-"),
        Arch(
            "arm64", "qemu-system-aarch64", "qemu-system-arm", ("-machine", "virt,gic-version=3"), "ttyAMA0", "vmlinuz-"
        ),
    )
}
# What systemd calls it, and tests/vm/start obeys: memory is with version 1 of cgroups. Debian's 6.12 has none of it.
CGROUP_1 = "systemd.unified_cgroup_hierarchy=0"
KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("5.10-cgroup1", "amd64", "bullseye", "linux-image-cloud-amd64", CGROUP_1, only=("memory",)),
        Kernel("5.10", "amd64", "bullseye", "linux-image-cloud-amd64"),
        Kernel("6.1", "amd64", "bookworm", "linux-image-cloud-amd64"),
        # Nobody may write to what a process may not write to itself, not even a tracer.
        Kernel("6.12-strict", "amd64", "trixie", "linux-image-cloud-amd64", "proc_mem.force_override=never"),
        Kernel("6.12", "amd64", "trixie", "linux-image-cloud-amd64"),
        Kernel("5.10-arm64", "arm64", "bullseye", "linux-image-cloud-arm64"),
        Kernel("6.1-arm64", "arm64", "bookworm", "linux-image-cloud-arm64"),
        Kernel("6.12-arm64-16k", "arm64", "trixie", "linux-image-arm64-16k"),
        Kernel("6.12-arm64", "arm64", "trixie", "linux-image-cloud-arm64"),
    )
}
# qemu 7.2, interrupted at a CMPXCHG16B, now and then goes on with flags that are none (EFLAGS was 81362e6a, half a
# pointer), and the kernel, which allocates by that instruction if it is there, panics. No program of ours needs it.
NO_CX16 = ",-cx16"
PROCESSORS = {
    processor.name: processor
    for processor in (
        Processor("max", "amd64", f"max{NO_CX16}", needs=("avx2",)),
        Processor("sse2", "amd64", f"qemu64{NO_CX16}", lacks=("avx", "xsave")),
        Processor("avx", "amd64", f"max,-avx2{NO_CX16}", needs=("avx", "xsave"), lacks=("avx2",)),
        Processor("la57", "amd64", f"max,+la57{NO_CX16}", needs=("la57",)),
        # With SVE. Return addresses are signed, by an algorithm that is quick to emulate. (Linux 5.10 knows no BTI.)
        Processor("armv9", "arm64", "max,pauth-impdef=on,lpa2=off", needs=("sve", "paca")),
        # This one is of the first generation: no SVE, no signatures, and no pages of 16 KiB.
        Processor("cortex-a72", "arm64", "cortex-a72", lacks=("sve", "paca", "bti")),
    )
}
# The first of an architecture's is what its kernels are tried on; the others are tried on its last kernel.


def processors(arch: str) -> list[Processor]:
    """Those of an architecture, the usual one first."""
    return [processor for processor in PROCESSORS.values() if processor.arch == arch]
