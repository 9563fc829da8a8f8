"""``talos topic``: administration of topics, over REST."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from opentalos.cli.connection.completion import topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.pairs import pair_of
from opentalos.cli.input.times import TIME_HELP, as_time, time_text, unix_ms
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.renamed import add_former_name
from opentalos.model.limits import PARTITIONS_MAX, TopicLimits
from opentalos.model.settings.hot_partition import hot_partition

_RETENTION = Duration(click.IntRange(1, (1 << 31) - 1))
_RETENTION_HELP = (
    f"How long messages are retained: {TopicLimits().retention_min_s // 3_600}h to "
    f"{TopicLimits().retention_max_s // 86_400}d, unless [topic] of the server says otherwise."
)
_PARTITIONS = click.IntRange(1, PARTITIONS_MAX)
_LIST_COLUMNS = ("name", "owner", "partitions", "retention_s", "created")
_STATE_COLUMNS = ("partition", "start", "next", "messages", "bytes")
_OFFSET_COLUMNS = ("partition", "start", "end", "next")


@click.group()
def topic() -> None:
    """Manage topics and partitions."""


@topic.command("list")
@click.option("--owned", is_flag=True, help="Only topics of yours and of your organisation.")
@with_format
@with_server
def list_topics(owned: bool, output: Output, server: ServerOptions) -> None:
    """List the topics that are visible to you.

    Example: talos topic list --format tsv
    """
    scope = "owned" if owned else "visible"
    found = server.rest()("GET", "topics", query={"scope": scope})["topics"]
    rows = [topic | {"created": time_text(topic["created_ms"])} for topic in found]
    output.table(_LIST_COLUMNS, rows, empty="no topics; create one with talos topic create")


@topic.command()
@topic_argument
@with_format
@with_server
def describe(topic: str, output: Output, server: ServerOptions) -> None:
    """Show the attributes and partitions of TOPIC.

    With --format tsv, only the partitions.

    Example: talos topic describe orders
    """
    found: dict[str, Any] = server.rest()("GET", rest_path("topics", topic))
    found["created"] = time_text(found["created_ms"])
    states = found["states"]
    if output.form == "tsv":
        output.table(_STATE_COLUMNS, states)
    elif output.form == "json":
        output.record(found)
    else:
        found["messages"] = sum(state["messages"] for state in states)
        output.record({name: value for name, value in found.items() if name not in _NOT_SHOWN})
        click.echo()
        output.table(_STATE_COLUMNS, states)
        _warn_of_hot_partition(found)


def _warn_of_hot_partition(found: dict[str, Any]) -> None:
    messages = {state["partition"]: state["messages"] for state in found["states"]}
    hot = hot_partition(messages, found["partitions"])
    if hot is not None:
        click.echo(
            f"\nPartition {hot.partition} has {hot.percent}% of the messages. If they have keys, "
            "use more different ones, or a topic with partitioner=murmur2."
        )


_NOT_SHOWN = {"states", "created_ms", "consumer_partitions"}
add_former_name(topic, "show", describe)


@topic.command()
@click.argument("name")
@click.option(
    "--partitions",
    metavar="N",
    type=_PARTITIONS,
    default=1,
    show_default=True,
    help="Number of partitions; the server may allow fewer ([topic] partitions_max).",
)
@click.option(
    "--retention",
    "retention_s",
    type=_RETENTION,
    metavar="DURATION",
    help=_RETENTION_HELP,
    show_default="set by the server",
)
@click.option(
    "--attribute",
    "attributes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Attribute: durability=flushed, partitioner=official (for keys written by official SDKs; "
    "default murmur2, as Kafka), retention.bytes=N, or a note of yours; repeatable.",
)
@click.option("--owner-name", default="", help="Person or team responsible; free text.")
@with_format
@with_server
def create(
    name: str,
    partitions: int,
    retention_s: int | None,
    attributes: Sequence[str],
    owner_name: str,
    output: Output,
    server: ServerOptions,
) -> None:
    """Create topic NAME.

    NAME may be ORGANISATION/NAME.

    Example: talos topic create orders --partitions 8 --retention 7d
    """
    wanted: dict[str, Any] = {"name": name, "partitions": partitions, "owner_name": owner_name}
    wanted["attributes"] = dict(map(_attribute, attributes))
    if retention_s is not None:
        wanted["retention_s"] = retention_s
    made = server.rest()("POST", "topics", wanted)
    output.done(f"created {name} with {counted(made['partitions'], 'partition')}", **made)


@topic.command()
@topic_argument
@click.option(
    "--retention",
    "retention_s",
    type=_RETENTION,
    metavar="DURATION",
    help=_RETENTION_HELP,
)
@click.option(
    "--attribute",
    "attributes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set an attribute; repeatable.",
)
@click.option(
    "--remove-attribute",
    "removed",
    metavar="KEY",
    multiple=True,
    help="Remove an attribute; repeatable.",
)
@with_format
@with_server
def alter(
    topic: str,
    retention_s: int | None,
    attributes: Sequence[str],
    removed: Sequence[str],
    output: Output,
    server: ServerOptions,
) -> None:
    """Change the retention or attributes of TOPIC.

    Example: talos topic alter orders --retention 1d --attribute team=payments
    """
    wanted: dict[str, Any] = {}
    if attributes or removed:
        wanted["attributes"] = dict(map(_attribute, attributes)) | dict.fromkeys(removed)
    if retention_s is not None:
        wanted["retention_s"] = retention_s
    if not wanted:
        raise click.UsageError(
            "nothing to change; pass --retention, --attribute or --remove-attribute"
        )
    changed = server.rest()("PATCH", rest_path("topics", topic), wanted)
    output.done(f"changed {topic}", **changed)


add_former_name(topic, "change", alter)


@topic.command("set-partitions")
@topic_argument
@click.argument("count", type=_PARTITIONS)
@with_yes
@with_format
@with_server
def set_partitions(
    topic: str, count: int, yes: bool, output: Output, server: ServerOptions
) -> None:
    """Change the number of partitions of TOPIC to COUNT.

    COUNT is at most 10,000, or what the server allows ([topic] partitions_max). Afterwards keys map
    to other partitions. Partitions removed by a shrink receive no new messages
    and remain readable until their messages expire.

    Example: talos topic set-partitions orders 16
    """
    call, path = server.rest(), rest_path("topics", topic)
    before = call("GET", path)["partitions"]
    if count < before:
        confirm(f"Shrink {topic} from {before} to {counted(count, 'partition')}?", yes)
    changed = call("PATCH", path, {"partitions": count})
    now = counted(changed["partitions"], "partition")
    output.done(f"{topic} has {now} now, {before} before", **changed)


add_former_name(topic, "partitions", set_partitions)


@topic.command()
@topic_argument
@with_yes
@with_format
@with_server
def delete(topic: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Delete TOPIC with all its messages.

    Example: talos topic delete orders --yes
    """
    call = server.rest()
    found = call("GET", rest_path("topics", topic))
    messages = sum(state["messages"] for state in found["states"])
    confirm(f"Delete {topic} with {counted(messages, 'message')}?", yes)
    # By resource name: a topic that was recreated in the meantime is another one.
    call("DELETE", rest_path("topics", found["resource"]))
    output.done(f"deleted {topic}", name=topic, resource=found["resource"], messages=messages)


@topic.command(epilog=TIME_HELP)
@topic_argument
@click.option(
    "--at", "time", metavar="TIME", callback=as_time, help="Also show the offset at TIME."
)
@with_format
@with_server
def offsets(topic: str, time: datetime | None, output: Output, server: ServerOptions) -> None:
    """Show the first, last and next offset of each partition of TOPIC.

    With --at, also the offset of the first message appended at or after TIME.

    Example: talos topic offsets orders --at 2h
    """
    query = None if time is None else {"time_ms": unix_ms(time)}
    found = server.rest()("GET", rest_path("topics", topic, "offsets"), query=query)["partitions"]
    columns = list(_OFFSET_COLUMNS) + (["at"] if time is not None else [])
    if any("error" in partition for partition in found):
        columns.append("error")
    output.table(columns, found)


def _attribute(text: str) -> tuple[str, str]:
    return pair_of(text, "--attribute", "KEY=VALUE")
