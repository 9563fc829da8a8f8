"""``talos bench``: put and read load against a server, in a topic of its own."""

import os
from typing import TYPE_CHECKING, Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.interrupt import Interrupted, stopping
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path
from opentalos.model.errors import TalosError
from opentalos.model.message import Compression

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_SECONDS_MAX: Final = 600
_RETENTION_S: Final = 3_600  # should the topic not be deleted at the end
_MESSAGE_BYTES_MAX: Final = 1 << 20
_COLUMNS: Final = (
    "load", "messages", "failed", "seconds", "messages_per_s", "mib_per_s", "p50_ms", "p99_ms",
    "max_ms", "cpu_s",
)  # fmt: skip


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, _SECONDS_MAX),
    default=5.0,
    show_default=True,
    help="For how long to put, and to read at most.",
)
@click.option(
    "--bytes",
    "message_bytes",
    type=click.IntRange(1, _MESSAGE_BYTES_MAX),
    default=1024,
    show_default=True,
    help="Of a message; they are random.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 1024), default=4, show_default=True, help="Of the topic."
)
@click.option(
    "--rate",
    type=click.FloatRange(1),
    metavar="N",
    help="Messages a second.",
    show_default="as many as the server takes",
)
@click.option(
    "--data-max",
    "mib_max",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="End the puts after so many MiB.",
)
@click.option(
    "--compression",
    type=click.Choice([one.name.lower() for one in Compression]),
    default="snappy",
    help="Of the blocks.",
    show_default=True,
)
@with_format
@with_server
def bench(
    seconds: float,
    message_bytes: int,
    partitions: int,
    rate: float | None,
    mib_max: int,
    compression: str,
    output: Output,
    server: ServerOptions,
) -> None:
    """Put messages to a new topic, read them, show figures, and delete the topic.

    The latency of a put is from when it was due to its confirmation, that of a get is of one
    fetch; cpu_s is what this process used. Without --rate the puts fill the buffer, so the
    latency is that of a full one.

    Example: talos bench --seconds 10 --rate 5000
    """
    from opentalos.cli.commands.message.bench_load import Figures, Load, get_load, put_load
    from opentalos.sdk import Client

    call, name = server.rest(), f"bench-{os.urandom(6).hex()}"
    wanted = {"name": name, "partitions": partitions, "retention_s": _RETENTION_S}
    load = Load(
        name, message_bytes, seconds, mib_max << 20, rate, Compression[compression.upper()]
    )  # fmt: skip
    figures: list[Figures] = []
    with stopping() as stop:  # from before there is a topic until it is gone
        resource = call("POST", "topics", wanted)["resource"]
        try:
            with Client(server.config()) as client:
                figures.append(put_load(client, load, lambda: stop.asked))
                if not stop.asked:
                    figures.append(get_load(client, load, lambda: stop.asked))
        finally:
            _delete(call, name, resource)
    output.table(_COLUMNS, [one.row() for one in figures])
    if stop.asked:
        raise Interrupted("interrupted; the figures are of the time until then")
    failed = sum(one.failed for one in figures)
    if failed:
        raise click.ClickException(f"{failed} messages could not be put")


def _delete(call: "RestClient", name: str, resource: str) -> None:
    try:
        call("DELETE", rest_path("topics", resource))
    except TalosError as error:
        click.echo(f"topic {name} could not be deleted: {error}", err=True)
