"""``talos cluster``: status and draining of the servers of a cluster, over REST."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.lazy_group import LazyGroup
from opentalos.cli.output.formats import Output, aligned, with_format
from opentalos.model.errors import TalosError

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_COMMANDS = {
    "weights": (
        "opentalos.cli.commands.cluster.weights",
        "weights",
        "Balance servers by past traffic.",
    ),
    "demo": ("opentalos.cli.demo.cluster", "demo", "Run three servers over real backends."),
}
_WATCH_S = 1.0
_POLL_S = 0.5
_MOVES_SHOWN = 10
_SERVER_COLUMNS = ("name", "state", "address", "virtual_nodes", "partitions", "started_ms")
_CLEAR = "\033[H\033[2J"  # of a terminal


@click.group(cls=LazyGroup, entries=_COMMANDS)
def cluster() -> None:
    """Show and manage the servers of a cluster."""


@cluster.command()
@click.option(
    "--topic",
    metavar="TOPIC",
    help="Also show the server and epoch of each partition of this topic.",
)
@click.option("--watch", is_flag=True, help="Refresh every second until Ctrl-C.")
@with_format
@with_server
def status(topic: str | None, watch: bool, output: Output, server: ServerOptions) -> None:
    """Show the servers, their weights and partitions, and partition moves.

    Example: talos cluster status --watch --topic orders
    """
    call = server.rest()
    while True:
        try:
            shown = _status(call, topic)
        except TalosError as error:
            if not watch:
                raise
            click.echo(f"no reply: {error}", err=True)
        else:
            _show(shown, output, watch)
        if not watch:
            return
        time.sleep(_WATCH_S)


@cluster.command()
@click.argument("server_name", metavar="SERVER")
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until SERVER has no partitions."
)
@with_format
@with_server
def drain(server_name: str, wait: bool, output: Output, server: ServerOptions) -> None:
    """Move all partitions away from SERVER.

    SERVER continues to serve meanwhile. It receives no partitions until it restarts or until talos
    cluster undrain.

    Example: talos cluster drain queue-3
    """
    call = server.rest()
    call("POST", rest_path("cluster", "servers", server_name, "drain"))
    if not wait:
        output.done(f"draining {server_name}", name=server_name, empty=False)
        return
    left = -1
    while True:
        drained = _server(call("GET", "cluster"), server_name)
        if drained is None:
            raise click.ClickException(f"{server_name} left the cluster while draining")
        if drained["partitions"] != left:
            left = drained["partitions"]
            if output.form == "text":
                click.echo(f"{server_name}: {counted(left, 'partition')} left")
        if not left:
            output.done(
                f"{server_name} is drained and can be stopped", name=server_name, empty=True
            )
            return
        time.sleep(_POLL_S)


@cluster.command()
@click.argument("server_name", metavar="SERVER")
@with_format
@with_server
def undrain(server_name: str, output: Output, server: ServerOptions) -> None:
    """Allow SERVER to receive partitions again.

    Example: talos cluster undrain queue-3
    """
    server.rest()("DELETE", rest_path("cluster", "servers", server_name, "drain"))
    output.done(f"{server_name} can receive partitions again", name=server_name)


def _show(shown: dict[str, Any], output: Output, watch: bool) -> None:
    """Show everything as text or JSON, only the servers as TSV."""
    if output.form == "text":
        click.echo((_CLEAR if watch else "") + "\n".join(_lines(shown)))
    elif output.form == "json":
        click.echo(json.dumps(shown))
    else:
        output.table(_SERVER_COLUMNS, shown["servers"])


def _status(call: "RestClient", topic: str | None) -> dict[str, Any]:
    shown: dict[str, Any] = call("GET", "cluster")
    if topic is not None:
        shown["topic"] = call("GET", rest_path("cluster", "topics", topic))
    return shown


def _server(shown: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((server for server in shown["servers"] if server["name"] == name), None)


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    leader = shown["leader"] or "none"
    yield (
        f"leader {leader}, ring {shown['ring_number']}, "
        f"{counted(shown['partitions'], 'partition')}, "
        f"{shown['unassigned']} unassigned, {len(shown['moving'])} moving"
        + (f", {shown['lent']} lent" if shown.get("lent") else "")
    )
    heads = ("SERVER", "STATE", "ADDRESS", "WEIGHT", "PARTITIONS", "UP", "COUNTERS")
    yield from aligned([heads, *(_row(server) for server in shown["servers"])])
    for field, title in (("moving", "moving"), ("recent", "recent moves")):
        moves = shown[field][-_MOVES_SHOWN:]
        if moves:
            yield f"{title}:"
            yield from (_move(move) for move in moves)
    if "topic" in shown:
        yield f"topic {shown['topic']['name']}:"
        rows = [
            (
                str(partition["partition"]),
                partition["address"],
                str(partition["epoch"]),
                partition["owner"] or "-",
            )
            for partition in shown["topic"]["partitions"]
        ]
        yield from aligned([("PARTITION", "ASSIGNED TO", "EPOCH", "OPENED BY"), *rows])


def _row(server: Mapping[str, Any]) -> tuple[str, ...]:
    up_s = time.time() - server["started_ms"] / 1000 if server["started_ms"] else 0.0
    counters = " ".join(f"{name}={count}" for name, count in server["counters"].items() if count)
    return (
        server["name"],
        server["state"] if server["answers"] or server["state"] != "serving" else "unreachable",
        server["address"] or "-",
        str(server["virtual_nodes"]),
        str(server["partitions"]),
        _duration(up_s) if up_s > 0 else "-",
        counters or "-",
    )


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _move(move: Mapping[str, Any]) -> str:
    kind = "planned" if move["planned"] else "failover"
    at = time.strftime("%H:%M:%S ", time.localtime(move["at_ms"] / 1000)) if move["at_ms"] else ""
    source = move["source"] or "none"
    return f"  {at}{move['topic_uuid']}/{move['partition']}: {source} -> {move['target']} ({kind})"
