"""``talos consume``: messages of a topic to stdout, by our SDK."""

from collections.abc import Sequence
from typing import Final

import click

from opentalos.cli.connection.completion import groups, topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import TIME_HELP, Place, from_option, partitions_option
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
@click.argument("place", metavar="[-]", type=click.Choice(["-"]), default="-")
@from_option
@partitions_option
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many messages.")
@click.option(
    "--group",
    "group_name",
    shell_complete=groups,
    help="Read as a worker of this consumer group, which commits what was written.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="With --group and without --follow: end when nothing came for so many seconds.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "tsv"]),
    default="text",
    show_default=True,
    help="text: as --output says; json: an object per line.",
)
@click.option(
    "--output",
    "-o",
    "render",
    metavar="FORMAT",
    callback=_as_render,
    default=_LINE,
    show_default=True,
    help="How a message looks as text; see below.",
)
@with_server
def consume(
    topic: str,
    place: str,
    start: Place | None,
    partitions: Sequence[int],
    follow: bool,
    count: int | None,
    group_name: str | None,
    idle_s: float,
    form: str,
    render: Render,
    server: ServerOptions,
) -> None:
    """Write the messages of TOPIC to stdout: those there are now, or with --follow for ever.

    The messages of a partition come in order. With --group it begins behind what the group has
    committed; --from is for partitions without a commit. What was written is committed every few
    seconds and at the end, so after a crash some messages come again. What a table's stream put
    there is shown by talos table follow.

    \b
    Example: talos consume orders --from 2h --output '%p %o %k: %s\\n'
             talos consume orders --follow --format json | jq .text
    """
    from opentalos.cli.input.record_source import (
        Wanted,  # takes its time, which --help does not need
    )

    if group_name is not None and partitions:
        raise click.UsageError("--partition cannot be had with --group, which shares them out")
    if start is None:
        start = "end" if follow and group_name is None else "start"
    renders = {"text": render, "json": render_json, "tsv": render_tsv}
    server.rest().reach()
    wanted = Wanted(topic, start, tuple(dict.fromkeys(partitions)), follow, group_name, idle_s)
    if form == "tsv":
        click.echo("\t".join(TSV_COLUMNS))
    copy_messages(server, wanted, renders[form], count)
