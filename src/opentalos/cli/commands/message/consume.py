"""``talos consume``: messages of a topic to stdout, through the SDK."""

from collections.abc import Sequence
from typing import Final

import click

from opentalos.cli.connection.completion import groups, topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.times import TIME_HELP, Position, from_option, partitions_option
from opentalos.cli.output.message_copy import copy_messages
from opentalos.cli.output.record_format import (
    FORMAT_HELP,
    TSV_COLUMNS,
    Render,
    parse_format,
    render_json,
    render_tsv,
)
from opentalos.model.errors import BadRequest

_LINE: Final = "%s\\n"


def _as_render(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Render | None:
    try:
        return None if value is None else parse_format(value)
    except BadRequest as error:
        raise click.BadParameter(str(error)) from error


@click.command(epilog=f"{FORMAT_HELP}\n\n{TIME_HELP}")
@topic_argument
@click.argument("target", metavar="[-]", type=click.Choice(["-"]), default="-")
@from_option
@partitions_option
@click.option("--follow", "-f", is_flag=True, help="Keep waiting for new messages, until Ctrl-C.")
@click.option(
    "--count", "-n", metavar="N", type=click.IntRange(1), help="Stop after this many messages."
)
@click.option(
    "--group",
    "group_name",
    metavar="GROUP",
    shell_complete=groups,
    help="Read as a worker of this consumer group and commit what was written.",
)
@click.option(
    "--idle",
    "idle_s",
    metavar="DURATION",
    type=Duration(click.FloatRange(0)),
    default=10.0,
    show_default=True,
    help="With --group and without --follow: stop after this time without messages.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "tsv"]),
    default="text",
    show_default=True,
    help="Output format; text: see --output, json: one object per line, tsv: a header and escaped "
    "values.",
)
@click.option(
    "--output",
    "-o",
    "render",
    metavar="FORMAT",
    callback=_as_render,
    default=_LINE,
    show_default=True,
    help="Format string of a message as text; see below.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Send control characters to a terminal as they are, instead of escaping them.",
)
@with_server
def consume(
    topic: str,
    target: str,
    start: Position | None,
    partitions: Sequence[int],
    follow: bool,
    count: int | None,
    group_name: str | None,
    idle_s: float,
    form: str,
    render: Render,
    raw: bool,
    server: ServerOptions,
) -> None:
    """Print the messages of TOPIC.

    Prints existing messages; with --follow, keeps waiting for new ones. The messages of a partition
    are in order.

    With --group, reading resumes after the committed offsets of the group; --from applies to
    partitions without a commit. Printed messages are committed every few seconds and at the end;
    after a crash some are redelivered.

    On a terminal, control characters are escaped, because whoever can put a message could otherwise
    change what the terminal shows; files and pipes get the bytes as they are.

    Use talos table follow to decode the changes of a table's stream. A trailing - is ignored.

    \b
    Example: talos consume orders --from 2h --output '%p %o %k: %s\\n'
             talos consume orders --follow --format json | jq .text
    """
    from opentalos.cli.input.record_source import Wanted  # slow to import; --help does not need it

    if group_name is not None and partitions:
        raise click.UsageError(
            "--partition cannot be combined with --group, which assigns the partitions"
        )
    if start is None:
        start = "end" if follow and group_name is None else "start"
    renders = {"text": render, "json": render_json, "tsv": render_tsv}
    server.rest().reach()
    wanted = Wanted(topic, start, tuple(dict.fromkeys(partitions)), follow, group_name, idle_s)
    if form == "tsv":
        click.echo("\t".join(TSV_COLUMNS))
    copy_messages(server, wanted, renders[form], count, raw=raw)
