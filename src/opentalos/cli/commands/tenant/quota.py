"""``talos quota``: limits of topics and users, and partitions of organisations, over REST."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from opentalos.cli.connection.completion import topics
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path

_LIMITS: Final = {
    "space_bytes": "Bytes that are kept.",
    "put_requests_per_s": "Puts a second.",
    "get_requests_per_s": "Gets a second.",
    "put_bytes_per_s": "Bytes put a second.",
    "get_bytes_per_s": "Bytes read a second.",
}
_REQUEST_COLUMNS: Final = (
    "organisation", "total", "used", "reason", "organisation_name", "note",
)  # fmt: skip
_PROJECTION_COLUMNS: Final = (
    "tenant", "made_ms", "days", "level", "trend_per_day", "season", "spread", "peak",
    "repeated_peak", "mean",
)  # fmt: skip
_COUNT: Final = click.IntRange(0)
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def quota() -> None:
    """Limits of topics and users, and requests for partitions.

    0 means no limit; a limit that is not set takes the server's default.
    """


def _limits(command: CommandT) -> CommandT:
    for name, about in reversed(_LIMITS.items()):
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, name, type=_COUNT, help=f"{about} 0: no limit.")(command)
    return command


def _whose(command: CommandT) -> CommandT:
    for option in (
        click.option("--user", metavar="ID", help="Of a user; for administrators."),
        click.option("--topic", shell_complete=topics, help="Of a topic."),
    ):
        command = option(command)
    return command


@quota.command()
@click.option("--users", is_flag=True, help="Of all users that have one; for administrators.")
@click.option("--topic", shell_complete=topics, help="Of a topic; without it, your own.")
@with_format
@with_server
def show(users: bool, topic: str | None, output: Output, server: ServerOptions) -> None:
    """Show limits and their use: your own, of a topic, or of users.

    Example: talos quota show --topic orders
    """
    if users and topic is not None:
        raise click.UsageError("give --users or --topic")
    call = server.rest()
    if users:
        columns = ("user", *_LIMITS, "topics", "used_bytes")
        output.table(columns, call("GET", "quotas/users")["users"], empty="no user has one")
    else:
        output.record(call("GET", "quota" if topic is None else _path(topic, None)))


@quota.command("set")
@_whose
@_limits
@click.option("--topics", type=_COUNT, help="Topics that the user may own.")
@with_format
@with_server
def set_quota(
    topic: str | None,
    user: str | None,
    topics: int | None,
    output: Output,
    server: ServerOptions,
    **limits: int | None,
) -> None:
    """Set the limits of a topic or user; those left out take the default.

    Example: talos quota set --user alice --put-bytes-per-s 10000000 --topics 20
    """
    path = _path(topic, user)
    wanted = {name: value for name, value in limits.items() if value is not None}
    if topics is not None:
        if user is None:
            raise click.UsageError("--topics is for a user")
        wanted["topics"] = topics
    if not wanted:
        raise click.UsageError("give at least one limit; talos quota reset takes the default")
    server.rest()("PUT", path, wanted)
    output.done(f"set the quota of {topic or user}", **wanted)


@quota.command()
@_whose
@with_format
@with_server
def reset(topic: str | None, user: str | None, output: Output, server: ServerOptions) -> None:
    """Give a topic or user the default limits again.

    Example: talos quota reset --topic orders
    """
    server.rest()("DELETE", _path(topic, user))
    output.done(f"{topic or user} has the default quota", name=topic or user)


@quota.command()
@with_format
@with_server
def requests(output: Output, server: ServerOptions) -> None:
    """List the requests for partitions that wait.

    Example: talos quota requests
    """
    found = server.rest()("GET", "quota-requests")["requests"]
    output.table(_REQUEST_COLUMNS, found, empty="no requests")


@quota.command()
@click.argument("total", type=click.IntRange(1))
@click.option("--organisation", help="Of which one.", show_default="your own")
@click.option("--reason", default="", help="For whom approves it.")
@click.option("--auto", is_flag=True, help="Decide at once where numbers can tell.")
@with_format
@with_server
def request(
    total: int,
    organisation: str | None,
    reason: str,
    auto: bool,
    output: Output,
    server: ServerOptions,
) -> None:
    """Ask for TOTAL partitions of your organisation.

    With --auto the answer is approve, reject or human (a person will look at it) with the
    reason. Exit status 1: rejected.

    Example: talos quota request 200 --reason "black friday" --auto
    """
    wanted: dict[str, Any] = {"total": total, "reason": reason, "auto": auto}
    if organisation is not None:
        wanted["organisation"] = organisation
    found = server.rest()("POST", "quota-requests", wanted)
    if not auto:
        output.table(_REQUEST_COLUMNS, found["requests"])
        return
    output.record(found["decision"])
    if found["decision"]["outcome"] == "reject":
        raise click.exceptions.Exit(1)


@quota.command()
@click.argument("tenant", required=False)
@with_format
@with_server
def projection(tenant: str | None, output: Output, server: ServerOptions) -> None:
    """Show what the traffic of TENANT is expected to be, or of all that you may see.

    Rates are bytes a second of the busiest minute of a day; the season is per mille by weekday,
    Monday first.

    Example: talos quota projection CLshop
    """
    call = server.rest()
    if tenant is not None:
        output.record(_shown(call("GET", rest_path("quota-projections", tenant))))
        return
    rows: list[dict[str, Any]] = []
    query: dict[str, object] | None = None
    while query != {"after": ""}:
        page = call("GET", "quota-projections", query=query)
        rows += map(_shown, page["projections"])
        query = {"after": page["next"]}
    output.table(_PROJECTION_COLUMNS, rows, empty="no projections")


@quota.command()
@click.argument("organisation")
@click.option("--total", type=click.IntRange(1), help="Another number than was asked for.")
@with_format
@with_server
def approve(organisation: str, total: int | None, output: Output, server: ServerOptions) -> None:
    """Grant what ORGANISATION asked for; for administrators.

    Example: talos quota approve CLshop --total 150
    """
    wanted = {} if total is None else {"total": total}
    server.rest()("POST", rest_path("quota-requests", organisation, "approve"), wanted)
    output.done(f"approved the request of {organisation}", organisation=organisation)


@quota.command()
@click.argument("organisation")
@with_format
@with_server
def reject(organisation: str, output: Output, server: ServerOptions) -> None:
    """Refuse what ORGANISATION asked for, else take back what it got; for administrators.

    Example: talos quota reject CLshop
    """
    server.rest()("POST", rest_path("quota-requests", organisation, "revoke"))
    output.done(f"rejected the request of {organisation}", organisation=organisation)


def _shown(projection: Mapping[str, Any]) -> dict[str, Any]:
    return {**projection, "season": " ".join(map(str, projection["season"]))}


def _path(topic: str | None, user: str | None) -> str:
    if (topic is None) == (user is None):
        raise click.UsageError("give --topic or --user")
    if topic is not None:
        return rest_path("topics", topic, "quota")
    assert user is not None
    return rest_path("quotas", "users", user)
