# SPDX-License-Identifier: MIT
"""`arenascope exporter`: what processes hold, for Prometheus."""

from __future__ import annotations

import click

from arenascope.cli.options import max_pause_option, mode_option, read_seconds
from arenascope.cli.watch import group_of, group_options, say
from arenascope.extras import needing
from arenascope.wire.how import How


@click.command()
@group_options
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    default="127.0.0.1:9764",
    show_default=True,
    help="Where to serve /metrics. Port 0: the kernel chooses.",
)
@click.option("--public", is_flag=True, help="Allow an address that other machines can reach.")
@click.option(
    "--every",
    metavar="TIME",
    default="30s",
    show_default=True,
    callback=read_seconds,
    help="Time between two snapshots.",
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="Show at most so many processes: the largest.",
)
@click.option(
    "--arenas",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=8,
    show_default=True,
    help="Name at most so many arenas of a process: the largest. The others are one together.",
)
@mode_option
@max_pause_option
def exporter(  # noqa: PLR0913, PLR0917 - one for each option
    pids: tuple[str, ...],
    names: tuple[str, ...],
    cgroups: tuple[str, ...],
    listen: str,
    every: float,
    processes: int,
    arenas: int,
    mode: str,
    max_pause: str,
    *,
    public: bool,
) -> None:
    """Serve what processes hold as OpenMetrics, for Prometheus.

    A snapshot every 30 seconds, or less often where it would cost more than 0.5 % of a processor. A scrape shows the
    last snapshot and its age; it never waits for a snapshot. Ctrl-C ends the exporter.
    """
    from arenascope.exporter.poller import Poller  # noqa: PLC0415
    from arenascope.wire import arenadump_server  # noqa: PLC0415 - other commands need no server

    with needing("exporter", "the exporter"):
        from arenascope.exporter.metrics import MetricsPage  # noqa: PLC0415
        from arenascope.exporter.server import parse_address, serving  # noqa: PLC0415
    from arenascope.watch.loop import Bell  # noqa: PLC0415

    group = group_of(pids, names, cgroups)
    address = parse_address(listen)
    if address is None:
        raise click.UsageError(f"--listen {listen} is no address: write 127.0.0.1:9764 or [::1]:9764")
    if not address.is_loopback and not public:
        raise click.UsageError(
            f"other machines can reach {address}, and read the names and sizes of processes: use 127.0.0.1, or add "
            "--public"
        )
    poller = Poller(group, How(mode, max_pause), processes, say)
    page = MetricsPage(lambda: poller.board, arenas)
    with Bell().listening() as bell, arenadump_server.serving(say), serving(address, page) as served:
        say(f"serving http://{served}/metrics")
        if not address.is_loopback:
            say("warning: whoever can reach this address can read the names and sizes of processes")
        poller.run(every, bell)
