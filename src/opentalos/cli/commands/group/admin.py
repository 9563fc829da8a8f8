"""``talos group``: consumer groups of a topic, over REST."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opentalos.cli.commands.group import undo_file
from opentalos.cli.commands.group.undo_file import Checkpoints
from opentalos.cli.connection.completion import groups, topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.times import TIME_HELP, Place, as_place, unix_ms
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path
from opentalos.model.errors import BadRequest

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_group_argument = click.argument("group_name", metavar="GROUP", shell_complete=groups)


@click.group()
def group() -> None:
    """Consumer groups: progress, lag, resets.

    A checkpoint is the offset of the last message that a group has processed; -1: none.
    """


@group.command("list")
@topic_argument
@with_format
@with_server
def list_groups(topic: str, output: Output, server: ServerOptions) -> None:
    """List the groups of TOPIC with their lag.

    Example: talos group list orders
    """
    found = server.rest()("GET", rest_path("topics", topic, "groups"))["groups"]
    output.table(("group", "lag"), found, empty="no groups")


@group.command()
@topic_argument
@_group_argument
@with_format
@with_server
def show(topic: str, group_name: str, output: Output, server: ServerOptions) -> None:
    """Show checkpoint, lag and worker of each partition of TOPIC.

    Example: talos group show orders billing
    """
    found = server.rest()("GET", rest_path("topics", topic, "groups", group_name))
    output.table(("partition", "checkpoint", "lag", "worker", "address"), found["partitions"])


@group.command()
@topic_argument
@_group_argument
@with_yes
@with_format
@with_server
def delete(topic: str, group_name: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Forget GROUP and its checkpoints; it must have no workers.

    Example: talos group delete orders billing --yes
    """
    confirm(f"Delete group {group_name} of {topic} with its checkpoints?", yes)
    server.rest()("DELETE", rest_path("topics", topic, "groups", group_name))
    output.done(f"deleted group {group_name}", topic=topic, group=group_name)


@group.command(epilog=TIME_HELP)
@topic_argument
@_group_argument
@click.option("--to", metavar="start|end|TIME|OFFSET", callback=as_place, help="Next to be read.")
@click.option("--from-file", type=click.Path(path_type=Path), help="Checkpoints of an undo file.")
@click.option(
    "--partition",
    "chosen",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one; may be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Show before and after; change nothing.")
@click.option(
    "--undo-file",
    "undo_path",
    type=click.Path(path_type=Path),
    help="Where to keep the checkpoints that are replaced.",
    show_default="talos-undo-TOPIC-GROUP-TIME.json in this folder",
)
@with_format
@with_server
def reset(
    topic: str,
    group_name: str,
    to: Place | None,
    from_file: Path | None,
    chosen: Sequence[int],
    dry_run: bool,
    undo_path: Path | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Let GROUP go on at another place of TOPIC.

    Before anything is changed, the checkpoints are written to a new file, whose path is printed;
    --from-file takes the reset back. Workers that run lose their partitions and go on from the
    new place.

    \b
    Example: talos group reset orders billing --to 2h --dry-run
             talos group reset orders billing --from-file talos-undo-orders-billing-....json
    """
    if (to is None) == (from_file is None):
        raise click.UsageError("give --to or --from-file")
    if from_file is not None and chosen:
        raise click.UsageError("--partition is for --to")
    one = _Reset.of(server.rest(), topic, group_name)
    target = one.from_file(from_file) if from_file is not None else one.target(to, chosen)
    rows = one.send(target, dry_run=True)
    if dry_run:
        output.table(_RESET_COLUMNS, rows)
        click.echo("nothing was changed (--dry-run)", err=True)
        return
    path = undo_path or undo_file.default_path(topic, group_name, datetime.now(UTC))
    one.save(path, rows)
    done = one.send(target, dry_run=False)
    if [row["before"] for row in done] != [row["before"] for row in rows]:
        click.echo(f"the group moved meanwhile: {path} has its places just before", err=True)
    output.table(_RESET_COLUMNS, done)
    click.echo(f"undo: talos group reset {topic} {group_name} --from-file {path}", err=True)


_RESET_COLUMNS = ("partition", "before", "after")


@dataclass(frozen=True, slots=True)
class _Reset:
    """A group of a topic that is to be reset."""

    call: "RestClient"
    topic: str  # resource name
    group: str

    @classmethod
    def of(cls, call: "RestClient", topic: str, name: str) -> "_Reset":
        return cls(call, call("GET", rest_path("topics", topic))["resource"], name)

    def from_file(self, path: Path) -> Any:
        """The checkpoints of an undo file, which must be of this very topic and group."""
        saved = undo_file.read(path)
        for what, wanted, found in (
            ("topic", self.topic, saved.topic),
            ("group", self.group, saved.group),
        ):
            if wanted != found:
                raise BadRequest(f"{path} is of {what} {found}, not of {wanted}")
        return _checkpoints(saved.offsets)

    def target(self, to: Place | None, chosen: Sequence[int]) -> Any:
        """What REST is told; offsets are checkpoints there: the last message, not the next."""
        if isinstance(to, int):
            partitions = chosen or [one["partition"] for one in self._offsets(None)]
            return _checkpoints(dict.fromkeys(partitions, to - 1))
        if not chosen:
            return to if isinstance(to, str) else {"time_ms": unix_ms(_time(to))}
        query = None if isinstance(to, str) else {"time_ms": unix_ms(_time(to))}
        field = {"start": "start", "end": "next"}[to] if isinstance(to, str) else "at"
        found = {one["partition"]: one for one in self._offsets(query)}
        missing = [one for one in chosen if field not in found.get(one, {})]
        if missing:
            reason = found.get(missing[0], {}).get("error", "it does not exist")
            raise BadRequest(f"cannot reset partition {missing[0]}: {reason}")
        return _checkpoints({one: found[one][field] - 1 for one in chosen})

    def send(self, target: Any, *, dry_run: bool) -> list[dict[str, Any]]:
        """Partitions with their checkpoints before and after."""
        path = rest_path("topics", self.topic, "groups", self.group, "reset")
        document = {"to": target, "dry_run": dry_run}
        found: list[dict[str, Any]] = self.call("POST", path, document)["partitions"]
        return found

    def save(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what will be replaced."""
        before = {row["partition"]: row["before"] for row in rows}
        undo_file.write_new(path, Checkpoints(self.topic, self.group, before))

    def _offsets(self, query: dict[str, Any] | None) -> list[dict[str, Any]]:
        path = rest_path("topics", self.topic, "offsets")
        found: list[dict[str, Any]] = self.call("GET", path, query=query)["partitions"]
        return found


def _time(to: Place | None) -> datetime:
    assert isinstance(to, datetime), "the other kinds of place were looked at"
    return to


def _checkpoints(offsets: Mapping[int, int]) -> dict[str, Any]:
    return {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
