# SPDX-License-Identifier: MIT
"""`arenascope experiment run | list | report`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from arenascope.cli.experiment_progress import progress
from arenascope.cli.groups import Suggesting
from arenascope.cli.progress import waiting
from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import available, runner
from arenascope.experiment import spec as specs
from arenascope.experiment.results_dir import Store
from arenascope.experiment.toml_reader import seconds
from arenascope.extras import need
from arenascope.humanize import count, json_text, plural, printable
from arenascope.private_files import write_page

if TYPE_CHECKING:
    Json = dict[str, Any]

PAGE: Final = "report.html"
PAGE_NEEDS: Final = "the page of an experiment"
COMMAND: Final = "arenascope.command"  # where the words behind "--" are kept


class Behind(click.Command):
    """A command that takes somebody's own command line behind "--"."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the words behind "--" aside."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[COMMAND] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


@click.group(cls=Suggesting)
def experiment() -> None:
    """Compare allocator settings under the same workload.

    A SPEC is a TOML file (docs/experiments.md) or the name of an experiment that comes with arenascope.
    """


@experiment.command(cls=Behind)
@click.argument("spec", required=False, metavar="[SPEC | -- COMMAND...]")
@click.option("-o", "--output", metavar="DIR", help="Directory for the results (the default: NAME-results).")
@click.option("--resume", metavar="DIR", help="Continue an incomplete experiment. Takes no SPEC.")
@click.option(
    "--matrix",
    metavar="NAME",
    multiple=True,
    help="Use ready-made configurations instead: standard, ruby, ... (repeatable).",
)
@click.option(
    "--only", metavar="NAMES", help="Only these configurations, which may also be ready-made ones: plain,jemalloc."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a parameter of the workload.")
@click.option("--repeats", metavar="N", type=click.IntRange(1), help="Runs of each configuration.")
@click.option(
    "--warmup", metavar="N", type=click.IntRange(0), help="Warm-up runs of each configuration, which do not count."
)
@click.option("--settle", metavar="TIME", help="How long to wait between the end of the work and the last snapshot.")
@click.option("--seed", metavar="N", type=click.IntRange(0), help="Seed of the random order of runs.")
@click.option("--timeout", metavar="TIME", help="Time limit for one run: 30s, 5m, 1h.")
@click.option("--max-time", metavar="TIME", help="Start no run that would end later than this from now.")
@click.option("--smoke", is_flag=True, help="Run the small size, to see that everything works.")
@click.option("--retry", is_flag=True, help="With --resume: repeat failed runs.")
@click.option("--no-report", is_flag=True, help="Write no page (`arenascope experiment report` writes it later).")
def run(  # noqa: PLR0913, PLR0917 - one for each option
    spec: str | None,
    output: str | None,
    resume: str | None,
    matrix: tuple[str, ...],
    only: str | None,
    settings: tuple[str, ...],
    repeats: int | None,
    warmup: int | None,
    settle: str | None,
    seed: int | None,
    timeout: str | None,
    max_time: str | None,
    *,
    smoke: bool,
    retry: bool,
    no_report: bool,
) -> int:
    """Run an experiment: arenascope experiment run article.

    To run your own command under the standard configurations: arenascope experiment run --matrix standard -- COMMAND.
    Ctrl-C keeps the finished runs; --resume continues. Exit code 1 if runs failed.
    """
    if not no_report:
        need("pictures", PAGE_NEEDS, "Or give --no-report: the page can be written later.")
    command = click.get_current_context().meta.get(COMMAND, [])
    budget = None if max_time is None else seconds(max_time)
    if max_time is not None and budget is None:
        raise click.UsageError(f"--max-time {max_time} is not a time: write 50s, 8m, 1h")
    if resume:
        changed = (spec, output, matrix, only, settings, repeats, warmup, settle, seed, timeout, smoke or None, command)
        if any(changed):
            raise click.UsageError(
                "--resume continues the planned runs: only --max-time, --retry and --no-report may be combined with it"
            )
        store = Store(Path(resume))
    else:
        if retry:
            raise click.UsageError("--retry needs --resume")
        data, file, here = _data(spec, command, list(matrix))
        how = {"repeats": repeats, "warmup": warmup, "settle": settle, "seed": seed, "timeout": timeout}
        data = _changed(data, how, settings, list(matrix), smoke=smoke)
        specs.parse(data, file, here)  # refuse it before anything else is made of it
        data = specs.inline(data)
        if only:
            data = _only(data, only.split(","))
        read = specs.parse(data, file, here)
        left_out = _left_out(read, asked=bool(only))
        for name, why in left_out.items():
            click.echo(f"{name}: not available here: {printable(why)}", err=True)
        store = Store.create(Path(output or f"{read.name}-results"), data, here, left_out)
    try:
        return _run(store, budget, retry=retry, page=not no_report)
    except ArenascopeError:
        if not resume:
            store.withdraw()  # so that the same words, put right, find their place free
        raise


@experiment.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def list_(*, as_json: bool) -> None:
    """List the ready-made experiments and configurations."""
    experiments = []
    for name, path in specs.shipped().items():
        read = specs.parse(specs.load(path), str(path), path.parent)
        experiments.append(
            {
                "name": name,
                "title": read.title,
                "imitates": read.imitates,
                "differs": read.differs,
                "configurations": [each.name for each in read.configurations],
                "missing": available.missing_for_workload(read),
            }
        )
    everything = {**specs.of_command(["true"], list(specs.matrices())), "parameters": {"ruby": "ruby"}}
    general = specs.parse(everything, "configurations", specs.HERE)
    configurations = [
        {"name": each.name, "says": each.says, "missing": available.missing(general, each)}
        for each in general.configurations
    ]
    listed = {"experiments": experiments, "matrices": specs.matrices(), "configurations": configurations}
    if as_json:
        click.echo(json_text(listed))
        return
    from arenascope.experiment.table import render_list  # noqa: PLC0415 - rich takes its time
    from arenascope.render.terminal import console  # noqa: PLC0415

    console().print(render_list(listed))


@experiment.command()
@click.argument("results")
@click.option("-o", "--output", metavar="FILE", help=f"The file to write (the default: RESULTS/{PAGE}).")
@click.option("--no-maps", is_flag=True, help="Leave out the page of each run (its ledger and its map).")
@click.option("--json", "form", flag_value="json", help="Print the analysis as JSON, and write no page.")
@click.option("--markdown", "form", flag_value="markdown", help="Print the table as Markdown, and write no page.")
def report(results: str, output: str | None, form: str | None, *, no_maps: bool) -> None:
    """Show what an experiment found: a table, and a page."""
    if form is None:
        need("pictures", PAGE_NEEDS, "--json and --markdown work without it.")
    store = Store(Path(results))
    _show(store, Path(output) if output else store.folder / PAGE, maps=not no_maps, form=form)


def _run(store: Store, budget: float | None, *, retry: bool, page: bool) -> int:
    made = runner.Outcome(0, 0, 0)
    resume = f"arenascope experiment run --resume {store.folder}"
    interrupted = False
    try:
        with progress(store.spec.title) as watcher:
            made = runner.run(store, watcher, budget=budget, retry=retry)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        click.echo(f"Interrupted. The finished runs are kept in {store.folder}. To continue: {resume}", err=True)
    elif made.hopeless:
        name, reason = made.hopeless.configuration, _block(made.hopeless.reason or "")
        click.echo(
            f"The baseline {name} fails, so nothing can be compared; no other configuration is tried:\n{reason}",
            err=True,
        )
    elif made.left:
        missing = f"{plural(made.left, 'run')} {'is' if made.left == 1 else 'are'} missing"
        click.echo(f"The time is up; {missing}. To continue: {resume}", err=True)
    if any(not result.failed and not result.warmup for result in store.runs()):
        _show(store, store.folder / PAGE if page and not interrupted else None, maps=True)
    if interrupted:
        return 128 + signal.SIGINT
    if made.failed:
        click.echo(
            f"{count(made.failed)} of {plural(made.made, 'run')} failed: see run.json in {store.folder}/runs", err=True
        )
        return Code.INTERNAL
    return Code.OK


def _block(text: str) -> str:
    """Lines of a program's for a terminal."""
    return "\n".join(f"  {printable(line)}" for line in text.splitlines())


def _show(store: Store, page: Path | None, *, maps: bool, form: str | None = None) -> None:
    # numpy, rich and matplotlib take their time: not for those who want something else.
    from arenascope.experiment.analysis import analyse  # noqa: PLC0415
    from arenascope.experiment.analysis_json import as_values  # noqa: PLC0415
    from arenascope.experiment.markdown import render as render_markdown  # noqa: PLC0415
    from arenascope.experiment.table import render  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415

    analysis = analyse(store)
    if form == "json":
        click.echo(json_text(as_values(analysis)))
        return
    if form == "markdown":
        click.echo(render_markdown(analysis).encode(), nl=False)
        return
    console().print(render(analysis))
    if page is not None:
        from arenascope.experiment import run_reports as run_maps  # noqa: PLC0415
        from arenascope.experiment.page import render as render_page  # noqa: PLC0415

        if maps:
            todo = run_maps.missing(store)
            for index, folder in enumerate(todo, 1):
                with waiting(f"drawing the map of {folder.name}, {index} of {len(todo)}"):
                    run_maps.draw(folder)
        write_page(str(page), render_page(analysis, store, run_maps.links(store, page.parent)))
        click.echo(f"{page}: open it in a browser", err=True)


def _data(name: str | None, command: list[str], matrix: list[str]) -> tuple[Json, str, Path]:
    """The spec as read, its name in messages, and its directory."""
    if command:
        if name is not None:
            raise click.UsageError(f"both a spec, '{name}', and a command after -- were given: give only one of them")
        return specs.of_command(command, matrix or ["standard"]), "command line", Path.cwd()
    if name is None:
        raise click.UsageError("name an experiment (`arenascope experiment list`), a spec, or a command after --")
    path = specs.find(name)
    return specs.load(path), str(path), path.parent


def _changed(data: Json, how: Json, settings: tuple[str, ...], matrix: list[str], *, smoke: bool) -> Json:
    """The spec with what the command line says otherwise."""
    if smoke:
        data = specs.smoke(data)
    changed = dict(data)
    changed["experiment"] = {
        **data.get("experiment", {}),
        **{name: value for name, value in how.items() if value is not None},
    }
    if matrix:
        changed["experiment"]["matrix"] = matrix
        changed.pop("configuration", None)
    parameters = dict(data.get("parameters", {}))
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in parameters:
            known = ", ".join(parameters) or "none"
            raise click.UsageError(f"--set {setting}: write NAME=VALUE; this workload's parameters are: {known}")
        parameters[name] = value
    return {**changed, "parameters": parameters}


def _only(data: Json, names: list[str]) -> Json:
    """The spec with some of its configurations, or others that are ready-made."""
    ready_made = {each["name"]: each for each in specs.ready_made(list(specs.matrices()))}
    own = {each["name"]: each for each in data["configuration"]}
    every = {**ready_made, **own}
    for name in names:
        if name not in every:
            raise click.UsageError(f"--only: there is no configuration '{name}'; there are {', '.join(every)}")
    how = dict(data["experiment"])
    if how.get("baseline", next(iter(own))) not in names:
        how["baseline"] = names[0]
    # The baseline is the first that the spec names, so the spec's order stays.
    order = [name for name in every if name in names]
    return {**data, "experiment": how, "configuration": [every[name] for name in order]}


def _left_out(spec: specs.Spec, *, asked: bool) -> dict[str, str]:
    """Configurations that cannot be run here, and why; an error when that leaves nothing to compare."""
    why = available.missing_for_workload(spec)
    if why:
        raise ArenascopeError(Code.UNSUPPORTED, f"{spec.name}: not available here: {why}")
    missing = {each.name: available.missing(spec, each) for each in spec.configurations}
    left_out = {name: why for name, why in missing.items() if why}
    if left_out and (asked or spec.baseline in left_out):
        name = spec.baseline if spec.baseline in left_out else next(iter(left_out))
        raise ArenascopeError(Code.UNSUPPORTED, f"{name}: not available here: {left_out[name]}")
    return left_out
