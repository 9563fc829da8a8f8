"""``talos group``: administration of consumer groups, over REST."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opentalos.cli.commands.group import undo_file
from opentalos.cli.commands.group.undo_file import Checkpoints
from opentalos.cli.connection.completion import groups, topic_argument, topics
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.times import TIME_HELP, Position, as_position, unix_ms
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.renamed import add_former_name
from opentalos.model.errors import BadRequest

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_PARTITIONS_SHOWN = 20  # of one reason
_NO_GROUPS = "no groups; a consumer creates one, such as talos consume TOPIC --group NAME"
_SUMS = ("lag", "lag_s", "lag_max", "behind")
_group_argument = click.argument("group_name", metavar="GROUP", shell_complete=groups)


@click.group()
def group() -> None:
    """Show and reset consumer groups.

    A checkpoint is the committed offset of a group: that of the last processed message, or -1.
    """


@group.command("list")
@click.argument("topic", required=False, shell_complete=topics)
@with_format
@with_server
def list_groups(topic: str | None, output: Output, server: ServerOptions) -> None:
    """List the consumer groups of TOPIC with their lag; without TOPIC, of all topics.

    lag_s is how many seconds the oldest message has waited that the group has not processed, of the
    partitions with the greatest lag; lag_max is the lag of one of them; behind counts partitions
    with lag.

    \b
    Example: talos group list orders
             talos group list --format json
    """
    call = server.rest()
    if topic is not None:
        found = call("GET", rest_path("topics", topic, "groups"))["groups"]
        output.table(("group", *_SUMS), found, empty=_NO_GROUPS)
    else:
        output.table(("topic", "group", *_SUMS), _groups_of_all(call), empty=_NO_GROUPS)


def _groups_of_all(call: "RestClient") -> list[dict[str, Any]]:
    """The groups of every topic that the caller may see, by topic."""
    rows: list[dict[str, Any]] = []
    query: dict[str, object] | None = None
    while query != {"after": ""}:
        page = call("GET", "groups", query=query)
        names = ("topic", "group", *_SUMS)
        rows += [{name: row[name] for name in names} for row in page["groups"]]
        for topic in page["unknown"]:
            named = f"{topic['owner']}/{topic['topic']}"
            click.echo(f"talos: the groups of {named} cannot be read now", err=True)
        query = {"after": page["next"]}
    return rows


@group.command()
@topic_argument
@_group_argument
@click.option(
    "--order",
    type=click.Choice(("partition", "lag", "worker")),
    default="partition",
    help="Order of the partitions; by lag, the greatest first.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only N partitions.")
@with_format
@with_server
def describe(
    topic: str,
    group_name: str,
    order: str,
    limit: int | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Show the checkpoint, lag and worker of GROUP for each partition of TOPIC.

    \b
    Example: talos group describe orders billing
             talos group describe orders billing --order lag --limit 20
    """
    query = {"order": order} | ({} if limit is None else {"limit": limit})
    found = server.rest()("GET", rest_path("topics", topic, "groups", group_name), query=query)
    output.table(("partition", "checkpoint", "lag", "worker", "address"), found["partitions"])


add_former_name(group, "show", describe)


@group.command()
@topic_argument
@_group_argument
@with_format
@with_server
def members(topic: str, group_name: str, output: Output, server: ServerOptions) -> None:
    """Show the workers and Kafka members that hold partitions of TOPIC for GROUP.

    Example: talos group members orders billing
    """
    path = rest_path("topics", topic, "groups", group_name)
    found = server.rest()("GET", path, query={"limit": 0})
    columns = ("worker", "address", "partitions_count", "lag")
    output.table(columns, found["members"], empty="no member holds a partition")
    more = found["members_count"] - len(found["members"])
    if more:
        click.echo(f"talos: {more:,} further members are not listed", err=True)


@group.command()
@topic_argument
@_group_argument
@with_format
@with_server
def explain(topic: str, group_name: str, output: Output, server: ServerOptions) -> None:
    """Explain why GROUP does not move on TOPIC, and what to do.

    The most important reason comes first.

    Example: talos group explain orders billing
    """
    found = server.rest()("GET", rest_path("topics", topic, "groups", group_name, "explain"))
    if output.form != "text":
        output.table(("code", "level", "partitions_count", "text", "advice"), found["reasons"])
        return
    state = found["state"].replace("_", " ")
    lag = "not known" if found["lag"] is None else f"{found['lag']:,}"
    click.echo(f"{state}: lag {lag}, {counted(found['workers'], 'worker')}")
    for reason in found["reasons"]:
        click.echo(f"{reason['level']}: {reason['text']}")
        if reason["partitions"]:
            click.echo(f"  partitions: {_listed(reason)}")
        if reason["advice"]:
            click.echo(f"  {reason['advice']}")


def _listed(reason: Mapping[str, Any]) -> str:
    shown = reason["partitions"][:_PARTITIONS_SHOWN]
    more = reason["partitions_count"] - len(shown)
    return ", ".join(map(str, shown)) + (f" and {more:,} more" if more else "")


@group.command()
@topic_argument
@_group_argument
@with_yes
@with_format
@with_server
def delete(topic: str, group_name: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Delete GROUP and its checkpoints; it must have no workers.

    Example: talos group delete orders billing --yes
    """
    confirm(f"Delete group {group_name} of {topic} and its checkpoints?", yes)
    server.rest()("DELETE", rest_path("topics", topic, "groups", group_name))
    output.done(f"deleted group {group_name}", topic=topic, group=group_name)


@group.command(epilog=TIME_HELP)
@topic_argument
@_group_argument
@click.option(
    "--to",
    metavar="start|end|TIME|OFFSET",
    callback=as_position,
    help="Position of the next message to read.",
)
@click.option(
    "--from-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Restore the checkpoints of an undo file.",
)
@click.option(
    "--partition",
    "chosen",
    metavar="N",
    type=click.IntRange(0),
    multiple=True,
    help="Reset only this partition; repeatable.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the offsets before and after, and change nothing."
)
@click.option(
    "--undo-file",
    "undo_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File for the checkpoints that are replaced.",
    show_default="talos-undo-TOPIC-GROUP-TIME.json in the current directory",
)
@with_format
@with_server
def reset(
    topic: str,
    group_name: str,
    to: Position | None,
    from_file: Path | None,
    chosen: Sequence[int],
    dry_run: bool,
    undo_path: Path | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Reset the offsets of GROUP on TOPIC.

    The current checkpoints are first saved to an undo file, whose path is printed; --from-file
    restores them. Running workers lose their partitions and resume from the new offsets.

    \b
    Example: talos group reset orders billing --to 2h --dry-run
             talos group reset orders billing --from-file talos-undo-orders-billing-....json
    """
    if (to is None) == (from_file is None):
        raise click.UsageError("pass either --to or --from-file")
    if from_file is not None and chosen:
        raise click.UsageError("--partition requires --to")
    plan = _Reset.of(server.rest(), topic, group_name)
    target = plan.from_file(from_file) if from_file is not None else plan.target(to, chosen)
    rows = plan.send(target, dry_run=True)
    if dry_run:
        output.table(_RESET_COLUMNS, rows)
        click.echo("dry run: nothing was changed", err=True)
        return
    path = undo_path or undo_file.default_path(topic, group_name, datetime.now(UTC))
    plan.save(path, rows)
    done = plan.send(target, dry_run=False)
    if [row["before"] for row in done] != [row["before"] for row in rows]:
        click.echo(
            f"the group committed in the meantime; {path} has its earlier checkpoints", err=True
        )
    output.table(_RESET_COLUMNS, done)
    click.echo(f"to undo: talos group reset {topic} {group_name} --from-file {path}", err=True)


_RESET_COLUMNS = ("partition", "before", "after")


@dataclass(frozen=True, slots=True)
class _Reset:
    """The reset of one group of one topic."""

    call: "RestClient"
    topic: str  # resource name
    group: str

    @classmethod
    def of(cls, call: "RestClient", topic: str, name: str) -> "_Reset":
        return cls(call, call("GET", rest_path("topics", topic))["resource"], name)

    def from_file(self, path: Path) -> Any:
        """The target that an undo file describes; it must belong to this topic and group."""
        saved = undo_file.read(path)
        for what, wanted, found in (
            ("topic", self.topic, saved.topic),
            ("group", self.group, saved.group),
        ):
            if wanted != found:
                raise BadRequest(f"{path} belongs to {what} {found}, not {wanted}")
        return _checkpoints(saved.offsets)

    def target(self, to: Position | None, chosen: Sequence[int]) -> Any:
        """The target for REST, which takes checkpoints: the last processed offset, not the next."""
        if isinstance(to, int):
            partitions = chosen or [partition["partition"] for partition in self._offsets(None)]
            return _checkpoints(dict.fromkeys(partitions, to - 1))
        if not chosen:
            return to if isinstance(to, str) else {"time_ms": unix_ms(_time(to))}
        query = None if isinstance(to, str) else {"time_ms": unix_ms(_time(to))}
        field = {"start": "start", "end": "next"}[to] if isinstance(to, str) else "at"
        found = {offsets["partition"]: offsets for offsets in self._offsets(query)}
        missing = [partition for partition in chosen if field not in found.get(partition, {})]
        if missing:
            reason = found.get(missing[0], {}).get("error", "no such partition")
            raise BadRequest(f"cannot reset partition {missing[0]}: {reason}")
        return _checkpoints({partition: found[partition][field] - 1 for partition in chosen})

    def send(self, target: Any, *, dry_run: bool) -> list[dict[str, Any]]:
        """Reset, or only plan it; the partitions with their checkpoints before and after."""
        path = rest_path("topics", self.topic, "groups", self.group, "reset")
        document = {"to": target, "dry_run": dry_run}
        found: list[dict[str, Any]] = self.call("POST", path, document)["partitions"]
        return found

    def save(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        """Save the checkpoints that the reset replaces."""
        before = {row["partition"]: row["before"] for row in rows}
        undo_file.write_new(path, Checkpoints(self.topic, self.group, before))

    def _offsets(self, query: dict[str, Any] | None) -> list[dict[str, Any]]:
        path = rest_path("topics", self.topic, "offsets")
        found: list[dict[str, Any]] = self.call("GET", path, query=query)["partitions"]
        return found


def _time(to: Position | None) -> datetime:
    assert isinstance(to, datetime), "the callers handle the other types"
    return to


def _checkpoints(offsets: Mapping[int, int]) -> dict[str, Any]:
    return {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
