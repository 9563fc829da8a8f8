"""``talos migrate``: topics from one server to another, exactly once."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.exit_status import EXIT_FAILURE
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.interrupt import Interrupted
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress

if TYPE_CHECKING:
    from opentalos.cli.migrate.migration import Migration, PlannedTopic

STATE_DEFAULT: Final = Path("talos-migrate.json")
_MIB: Final = 1 << 20
_PLAN_COLUMNS: Final = ("topic", "action", "partitions", "messages", "bytes", "groups")
_COLUMNS: Final = ("topic", "copied", "positions_set")
_NOTES: Final = {
    "kept": "has moved at the target since its position was copied; the position stays",
    "busy": "has workers at the target; stop them and run the command again to set its position",
    "other_tenants": "belongs to another tenant, which must set its position itself",
    "restarted": "has read nothing of what is retained in a partition; there it starts as a new "
    "group does",
}


@dataclass(frozen=True, slots=True)
class _Job:
    """What the options say."""

    patterns: Sequence[str]
    dry_run: bool
    check: bool
    settle_s: float | None  # None: do not follow
    bytes_per_s: float | None


def _side_options(command: Any) -> Any:
    for side in ("target", "source"):
        command = click.option(
            f"--{side}-key-file", metavar="FILE", type=click.Path(path_type=Path),
            help=f"File that contains the access key of the {side}, ID:SECRET.",
        )(command)  # fmt: skip
        variable = f"TALOS_{side.upper()}_KEY"
        command = click.option(
            f"--{side}-as", metavar="ID:SECRET", envvar=variable,
            help=f"Access key of the {side}; prefer the variable or a profile.  [env: {variable}]",
        )(command)  # fmt: skip
    return command


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--topic",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Copy only these topics; * and ? stand for any characters; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and change nothing.")
@click.option(
    "--check",
    is_flag=True,
    help="Copy nothing; compare settings, permissions, messages and positions.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Continue until no new message came for --settle."
)
@click.option(
    "--settle",
    "settle_s",
    metavar="DURATION",
    type=Duration(click.FloatRange(0)),
    default=10.0,
    show_default=True,
    help="With --follow: end after this time without new messages.",
)
@click.option(
    "--rate",
    metavar="MIB",
    type=click.FloatRange(0.001),
    show_default="unlimited",
    help="Copy at most so many MiB per second, as stored.",
)
@click.option(
    "--outage",
    "outage_s",
    metavar="DURATION",
    type=Duration(click.FloatRange(1)),
    default=60.0,
    show_default=True,
    help="Wait so long for a server that does not answer.",
)
@click.option(
    "--state",
    "state_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=STATE_DEFAULT,
    show_default=True,
    help="State of this migration; keep it until the end.",
)
@_side_options
@with_format
def migrate(
    source: str, target: str, output: Output, state_path: Path, outage_s: float, **options: Any
) -> None:
    """Copy topics from SOURCE to TARGET, each message once.

    SOURCE and TARGET are addresses (http://HOST:PORT) or connection profiles. Topics, permissions,
    messages and the positions of consumer groups are copied. The same command continues after any
    interruption. The source is only read; the target must be an OpenTalos server.

    \b
    Example: talos migrate old new --dry-run
             talos migrate old new --topic 'orders*' --follow
             talos migrate old new --check
    """
    sides = {
        side: _options_of(side, where, options)
        for side, where in (("source", source), ("target", target))
    }
    rate, follow = options["rate"], options["follow"]
    if options["check"] and (options["dry_run"] or follow):
        raise click.UsageError("--check goes with neither --dry-run nor --follow")
    job = _Job(
        options["patterns"], options["dry_run"], options["check"],
        options["settle_s"] if follow else None, None if rate is None else rate * _MIB,
    )  # fmt: skip
    _run(job, sides, state_path, outage_s, output)


def _options_of(side: str, where: str, options: dict[str, Any]) -> ServerOptions:
    key, key_file = options[f"{side}_as"], options[f"{side}_key_file"]
    if key_file is not None:
        key = None  # the option is nearer than the variable
    if "://" not in where:
        return ServerOptions(profile=where, key=key, key_file=key_file)
    if key is None and key_file is None:
        raise click.UsageError(
            f"the {side} needs a key: --{side}-as, --{side}-key-file or TALOS_{side.upper()}_KEY"
        )
    return ServerOptions(url=where, key=key, key_file=key_file)


def _run(
    job: _Job, sides: dict[str, ServerOptions], state_path: Path, outage_s: float, output: Output
) -> None:
    import asyncio

    from opentalos.cli.migrate.state_file import StateFile, only_user

    configs = [sides[side].config(deadline_s=outage_s) for side in ("source", "target")]
    with nullcontext() if job.dry_run else only_user(state_path):
        file = StateFile(state_path)
        try:
            asyncio.run(_work(job, configs, file, output))
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the same command continues") from None


async def _work(job: _Job, configs: Sequence[Any], file: Any, output: Output) -> None:
    from opentalos.cli.migrate.copy import Pace
    from opentalos.cli.migrate.migration import Migration
    from opentalos.cli.migrate.sides import Sides
    from opentalos.sdk.aio import Client

    async with Client(configs[0]) as source, Client(configs[1]) as target:
        with Progress("messages copied") as progress:
            migration = Migration(
                Sides(source, target), file, Pace(job.bytes_per_s), progress.show
            )  # fmt: skip
            topics = await migration.plan(job.patterns)
            if job.check:
                await _check(migration, topics, output)
                return
            if not job.dry_run:
                for topic in topics:
                    await migration.prepare(topic)
                await migration.copy(topics)
                if job.settle_s is not None:
                    await migration.follow(topics, job.settle_s)
    _report(job, topics, output)


def _report(job: _Job, topics: "Sequence[PlannedTopic]", output: Output) -> None:
    empty = "the source has no topics of this key"
    if job.dry_run:
        output.table(_PLAN_COLUMNS, [topic.row for topic in topics], empty=empty)
        click.echo("dry run: nothing was changed", err=True)
        return
    results = [topic.result for topic in topics]
    output.table(_COLUMNS, results, empty=empty)
    for result in results:
        for name, text in _NOTES.items():
            for group in result[name]:
                click.echo(f"group {group} of {result['topic']} {text}", err=True)


async def _check(migration: "Migration", topics: "Sequence[PlannedTopic]", output: Output) -> None:
    from opentalos.cli.migrate.verify import COLUMNS, DIFFERS

    rows = [row async for row in migration.check(topics)]
    output.table(COLUMNS, rows)
    wrong = sum(row["result"] == DIFFERS for row in rows)
    if wrong:
        click.echo(f"talos: source and target differ: {counted(wrong, 'difference')}", err=True)
        raise click.exceptions.Exit(EXIT_FAILURE)
