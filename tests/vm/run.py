# SPDX-License-Identifier: MIT
"""The tests on other kernels and processors, and the table of how they went: `make vm`.

    python -m vm.run [--kernels 5.10,6.12] [--processors max,avx] [--checks inject,trim] [--verbose]

Exit code 1 when a test failed, or a machine did not get to its end; 2 when it cannot be tried here.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools import debian, marked
from tools.paths import ROOT

from vm import checks, image, results
from vm.boot import USUAL, Boot, Files, Patience, boot, command
from vm.machine import ARCHS, KERNELS, PROCESSORS, Kernel, Processor, processors

RESULTS = ROOT / ".cache" / "vm"
BOOTS = 2  # a machine that does not get to its end is started once more


@dataclass(frozen=True)
class Job:
    """One machine and what is tried on it."""

    kernel: Kernel
    processor: Processor
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel.name} on {self.processor.name}"


def jobs(kernels: list[str], processors_: list[str], wanted: list[str]) -> list[Job]:
    """Each kernel on its architecture's usual processor; the other processors on the newest kernel chosen."""
    found = []
    for name in kernels:
        usual, *_ = processors(KERNELS[name].arch)
        there = tuple(check for check in wanted if check in (KERNELS[name].only or wanted))
        if usual.name in processors_ and there:
            found.append(Job(KERNELS[name], usual, there))
    for processor in (PROCESSORS[name] for name in processors_):
        newest = [k for k in map(KERNELS.__getitem__, kernels) if k.arch == processor.arch and not k.only][-1:]
        if newest and processor is not processors(processor.arch)[0]:
            found.append(Job(newest[0], processor, tuple(c for c in wanted if c in checks.OF_PROCESSORS)))
    return found


def run(job: Job, scratch: Path, *, verbose: bool, command_: str = "", patience: Patience = USUAL) -> list[Boot]:
    """Boots it; every boot there was, the last of them the one that counts. Raises UnavailableError."""
    arch = ARCHS[job.kernel.arch]
    suites = [job.kernel.suite]
    plan = {"checks": job.checks, "suites": suites, "command": command_}
    root = image.root_disk(arch.name)
    checkout = image.checkout_disk(scratch, image.built(arch.name), suites, plan)
    kernel, modules = image.kernel_files(job.kernel, arch.image)
    files = Files(kernel, image.initramfs(scratch, arch.name, modules), (root, checkout))
    boots: list[Boot] = []
    while len(boots) < BOOTS and (not boots or boots[-1].failure):
        started = command(arch, job.processor, files, job.kernel.says)
        boots.append(boot(started, patience, lambda e: tell(job, e, verbose=verbose)))
        keep(job, boots)
    return boots


def keep(job: Job, boots: list[Boot]) -> None:
    """The console whole, and what it said, for whoever wants to know more."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    stem = RESULTS / f"{job.kernel.name}-{job.processor.name}-{len(boots)}"
    stem.with_suffix(stem.suffix + ".console").write_text("\n".join(boots[-1].console))
    stem.with_suffix(stem.suffix + ".json").write_text(json.dumps(boots[-1].events, indent=1))


def tell(job: Job, event: dict[str, Any], *, verbose: bool) -> None:
    """Progress, and what failed as soon as it does."""
    at = time.strftime("%H:%M:%S")
    if event["event"] == "machine":
        machine = f"Linux {event['kernel']}, {event['arch']}, pages of {event['page']}"
        print(f"{at} {job}: {machine}, memory cgroups of version {event['cgroups']}", flush=True)
    elif event["event"] == "collected":
        print(f"{at} {job}: {event['tests']} tests", flush=True)
    elif event["event"] == "broken":
        print(f"{at} {job}: tests that cannot be loaded:\n{event['why']}", flush=True)
    elif event["event"] == "progress" and verbose:
        print(f"{at} {job}: {event['text']}", flush=True)
    elif event["event"] == "test" and (verbose or event["outcome"] == "failed"):
        print(f"{at} {job}: {event['outcome']} {event['test']} ({event['seconds']} s) {event['why']}", flush=True)


def cell(name: str, last: Boot) -> str:
    """pass, FAIL or not possible, with counts."""
    tests = [event for event in last.of("test") if name in event["checks"]]
    count = Counter(event["outcome"] for event in tests)
    if count["failed"]:
        return f"FAIL {count['failed']}/{len(tests)}"
    if last.failure:
        return f"unfinished ({count['passed']})"
    if count["passed"]:
        return f"pass {count['passed']}" + (f", {count['skipped']} not" if count["skipped"] else "")
    return "not possible" if tests else "no tests"


def reasons(outcome: list[tuple[Job, list[Boot]]]) -> list[str]:
    """What was not possible, and why; each once."""
    found: dict[str, None] = {}
    for job, boots in outcome:
        for event in boots[-1].of("test"):
            if event["test"].startswith("soak_") and event["outcome"] == "passed":
                found[f"{job}: {event['test']}: {event['why']}"] = None
            if event["outcome"] == "skipped":
                found[f"{job}: {', '.join(event['checks'])}: not possible: {event['why']}"] = None
        for number, one in enumerate(boots, 1):
            if one.failure:
                found[f"{job}, boot {number}: {one.failure}"] = None
        found.update(dict.fromkeys([*mislabelled(job, boots[-1]), *doctors_word(job, boots[-1])]))
    return list(found)


def doctors_word(job: Job, last: Boot) -> list[str]:
    """What `arenascope doctor` finds limited or missing on that machine."""
    found = []
    for event in last.of("doctor"):
        try:
            listed = json.loads(event["out"])["checks"]
        except ValueError:
            return [f"{job}: the doctor ended with {event['code']}: {event['err']}"]
        found += [f"{job}: doctor: {c['name']}: {c['status']}: {c['found']}" for c in listed if c["status"] != "ok"]
    return found


def failed(job: Job, last: Boot) -> bool:
    """Did anything fail there? A check of which no test ran has not passed."""
    bad = [event for event in last.of("test") if event["outcome"] == "failed"]
    empty = [name for name in job.checks if cell(name, last) == "no tests"]
    return bool(last.failure or bad or empty or last.of("broken") or mislabelled(job, last))


def mislabelled(job: Job, last: Boot) -> list[str]:
    """A processor that is not what its row says, as the guest's kernel sees it."""
    flags = {flag for event in last.of("machine") for flag in event["flags"]}
    if not flags:
        return []
    wrong = [f"has no {flag}" for flag in job.processor.needs if flag not in flags]
    wrong += [f"has {flag}" for flag in job.processor.lacks if flag in flags]
    return [f"{job}: not the processor that its name says: it {', '.join(wrong)}"] if wrong else []


def table(outcome: list[tuple[Job, list[Boot]]], wanted: list[str]) -> str:
    """Checks down, machines across, as Markdown. A dash: the check is not of that processor (checks.OF_PROCESSORS)."""
    head = ["", *(str(job) for job, _ in outcome)]
    rows = [
        [name, *(cell(name, boots[-1]) if name in job.checks else "-" for job, boots in outcome)] for name in wanted
    ]
    rows.append(["memory cgroups", *(", ".join(e["cgroups"] for e in boots[-1].of("machine")) for _, boots in outcome)])
    rows.append(["seconds", *(f"{sum(one.seconds for one in boots):.0f}" for _, boots in outcome)])
    rows.append(["boots", *(str(len(boots)) for _, boots in outcome)])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["| " + " | ".join(word.ljust(width) for word, width in zip(row, widths)) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def note(page: Path, commit: str, job: Job, last: Boot) -> None:
    """Writes down what a machine has tried, before the next is started: all may take hours, and end early."""
    wrong = "another processor" if mislabelled(job, last) else ""
    cells = {name: wrong or cell(name, last) for name in job.checks}
    machines = map(str, jobs(list(KERNELS), list(PROCESSORS), list(results.NAMES)))
    key = (str(job), commit, time.strftime("%Y-%m-%d", time.gmtime()))
    page.write_text(results.written(page.read_text(), key, cells, machines))


def names(known: list[str], text: str) -> list[str]:
    """A list of names with commas; all that are known when it is empty."""
    chosen = [name.strip() for name in text.split(",") if name.strip()] or known
    if unknown := [name for name in chosen if name not in known]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(known)}")
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = {
        "kernels": list(KERNELS),
        "processors": list(PROCESSORS),
        "checks": [check.name for check in checks.CHECKS],
    }
    for option, known in every.items():
        parser.add_argument(f"--{option}", type=partial(names, known), default=known)
    parser.add_argument(
        "--command", default="", help="run this by bash in /checkout there, and no test; show the console"
    )
    parser.add_argument("--page", type=Path, help="write what was tried into the table of this page, as `make vm` does")
    parser.add_argument("--verbose", action="store_true", help="every test as it ends, not only those that fail")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # or the machine would run on
    outcome: list[tuple[Job, list[Boot]]] = []
    try:
        for job in jobs(chosen.kernels, chosen.processors, chosen.checks):
            commit = marked.commit()
            with tempfile.TemporaryDirectory(prefix="arenascope-vm-", dir="/var/tmp") as scratch:
                outcome.append((job, run(job, Path(scratch), verbose=chosen.verbose, command_=chosen.command)))
            if chosen.page and not chosen.command:
                note(chosen.page, commit, job, outcome[-1][1][-1])
    except debian.UnavailableError as error:
        print(f"make vm: {error}", file=sys.stderr)
        return 2
    if chosen.command:
        print(*(boots[-1].tail for _, boots in outcome), sep="\n")
        return int(any(boots[-1].failure for _, boots in outcome))
    text = "\n".join([table(outcome, chosen.checks), "", *reasons(outcome)])
    (RESULTS / "table.md").write_text(text + "\n")
    print(text)
    return int(any(failed(job, boots[-1]) for job, boots in outcome))


if __name__ == "__main__":
    sys.exit(main())
