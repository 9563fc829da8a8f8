"""``talos cluster``: what the servers of a cluster do, and what they are asked to."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.lazy_group import LazyGroup
from opentalos.cli.output.formats import Output, aligned, with_format
from opentalos.cli.rest_path import rest_path
from opentalos.model.errors import TalosError

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_COMMANDS = {
    "weights": (
        "opentalos.cli.commands.cluster.weights",
        "weights",
        "Virtual nodes from past traffic.",
    ),
    "demo": ("opentalos.cli.demo.cluster", "demo", "Three servers over real backends."),
}
_WATCH_S = 1.0
_POLL_S = 0.5
_MOVES_SHOWN = 10
_SERVER_COLUMNS = ("name", "state", "address", "virtual_nodes", "partitions", "started_ms")
_CLEAR = "\033[H\033[2J"  # of a terminal


@click.group(cls=LazyGroup, entries=_COMMANDS)
def cluster() -> None:
    """Servers that share their storage."""


@cluster.command()
@click.option("--topic", help="Also the server and epoch of each partition of a topic.")
@click.option("--watch", is_flag=True, help="Again each second, until Ctrl-C.")
@with_format
@with_server
def status(topic: str | None, watch: bool, output: Output, server: ServerOptions) -> None:
    """Show servers, weights, partitions and moves.

    Example: talos cluster status --watch --topic orders
    """
    call = server.rest()
    while True:
        try:
            shown = _status(call, topic)
        except TalosError as error:
            if not watch:
                raise
            click.echo(f"no answer: {error}", err=True)
        else:
            _show(shown, output, watch)
        if not watch:
            return
        time.sleep(_WATCH_S)


@cluster.command()
@click.argument("server_name", metavar="SERVER")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until it is empty.")
@with_format
@with_server
def drain(server_name: str, wait: bool, output: Output, server: ServerOptions) -> None:
    """Move all partitions away from SERVER.

    It goes on serving meanwhile, and gets none until it was away or ``undrain``.

    Example: talos cluster drain queue-3
    """
    call = server.rest()
    call("POST", rest_path("cluster", "servers", server_name, "drain"))
    if not wait:
        output.done(f"{server_name} is being drained", name=server_name, empty=False)
        return
    left = -1
    while True:
        one = _server(call("GET", "cluster"), server_name)
        if one is None:
            raise click.ClickException(f"{server_name} left while it was drained")
        if one["partitions"] != left:
            left = one["partitions"]
            if output.form == "text":
                click.echo(f"{server_name}: {left} partitions left")
        if not left:
            output.done(f"{server_name} is empty and may be stopped", name=server_name, empty=True)
            return
        time.sleep(_POLL_S)


@cluster.command()
@click.argument("server_name", metavar="SERVER")
@with_format
@with_server
def undrain(server_name: str, output: Output, server: ServerOptions) -> None:
    """Let SERVER have partitions again.

    Example: talos cluster undrain queue-3
    """
    server.rest()("DELETE", rest_path("cluster", "servers", server_name, "drain"))
    output.done(f"{server_name} gets partitions again", name=server_name)


def _show(shown: dict[str, Any], output: Output, watch: bool) -> None:
    """Everything as text or JSON; the servers as TSV."""
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
    return next((one for one in shown["servers"] if one["name"] == name), None)


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    leader = shown["leader"] or "nobody"
    yield (
        f"leader {leader}, ring {shown['ring_number']}, {shown['partitions']} partitions, "
        f"{shown['unassigned']} unassigned, {len(shown['moving'])} moving"
    )
    heads = ("SERVER", "STATE", "ADDRESS", "WEIGHT", "PARTITIONS", "UP", "COUNTERS")
    yield from aligned([heads, *(_row(one) for one in shown["servers"])])
    for title in ("moving", "recent"):
        moves = shown[title][-_MOVES_SHOWN:]
        if moves:
            yield f"{title}:"
            yield from (_move(one) for one in moves)
    if "topic" in shown:
        yield f"topic {shown['topic']['name']}:"
        rows = [
            (str(one["partition"]), one["address"], str(one["epoch"]), one["owner"] or "-")
            for one in shown["topic"]["partitions"]
        ]
        yield from aligned([("PARTITION", "ASSIGNED TO", "EPOCH", "OPENED BY"), *rows])


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    up_s = time.time() - one["started_ms"] / 1000 if one["started_ms"] else 0.0
    counters = " ".join(f"{name}={count}" for name, count in one["counters"].items() if count)
    return (
        one["name"],
        one["state"] if one["answers"] or one["state"] != "serving" else "no answer",
        one["address"] or "-",
        str(one["virtual_nodes"]),
        str(one["partitions"]),
        _duration(up_s) if up_s > 0 else "-",
        counters or "-",
    )


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _move(one: Mapping[str, Any]) -> str:
    how = "planned" if one["planned"] else "taken over"
    at = time.strftime("%H:%M:%S ", time.localtime(one["at_ms"] / 1000)) if one["at_ms"] else ""
    source = one["source"] or "nobody"
    return f"  {at}{one['topic_uuid']}/{one['partition']}: {source} -> {one['target']} ({how})"
