"""``talos bench``: put and get load on a temporary topic."""

import os
from typing import TYPE_CHECKING, Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.interrupt import Interrupted, stopping
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.renamed import RenamedOption
from opentalos.model.errors import TalosError
from opentalos.model.message import Compression

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_SECONDS_MAX: Final = 600
_RETENTION_S: Final = 3_600  # in case the topic cannot be deleted at the end
_MESSAGE_BYTES_MAX: Final = 1 << 20
_COLUMNS: Final = (
    "load", "messages", "failed", "seconds", "messages_per_s", "mib_per_s", "p50_ms", "p99_ms",
    "max_ms", "cpu_s",
)  # fmt: skip


@click.command()
@click.option(
    "--seconds",
    metavar="DURATION",
    type=Duration(click.FloatRange(0.1, _SECONDS_MAX)),
    default=5.0,
    show_default=True,
    help="Duration of the puts, and longest duration of the gets.",
)
@click.option(
    "--bytes",
    "message_bytes",
    metavar="BYTES",
    type=click.IntRange(1, _MESSAGE_BYTES_MAX),
    default=1024,
    show_default=True,
    help="Size of a message; the content is random.",
)
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(1, 1024),
    default=4,
    show_default=True,
    help="Number of partitions of the topic.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1),
    metavar="N",
    help="Messages per second.",
    show_default="unlimited",
)
@click.option(
    "--max-mib",
    "mib_max",
    metavar="MIB",
    cls=RenamedOption,
    former="--data-max",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Stop the puts after this many MiB.",
)
@click.option(
    "--compression",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="snappy",
    help="Compression codec of the message blocks.",
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
    """Measure put and get throughput and latency on a new topic, and delete the topic.

    Put latency is measured from the scheduled send time to the acknowledgement, get latency is
    that of one fetch; cpu_s is the CPU time of this process. Without --rate the send buffer is
    always full, which dominates the put latency.

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
    with stopping() as stop:  # from before the topic is created until it is deleted
        resource = call("POST", "topics", wanted)["resource"]
        try:
            with Client(server.config()) as client:
                figures.append(put_load(client, load, lambda: stop.asked))
                if not stop.asked:
                    figures.append(get_load(client, load, lambda: stop.asked))
        finally:
            _delete(call, name, resource)
    output.table(_COLUMNS, [result.row() for result in figures])
    if stop.asked:
        raise Interrupted("interrupted; the results cover the time until then")
    failed = sum(result.failed for result in figures)
    if failed:
        raise click.ClickException(f"could not put {counted(failed, 'message')}")


def _delete(call: "RestClient", name: str, resource: str) -> None:
    try:
        call("DELETE", rest_path("topics", resource))
    except TalosError as error:
        click.echo(f"could not delete topic {name}: {error}", err=True)
