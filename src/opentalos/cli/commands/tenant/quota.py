"""``talos quota``: quotas of topics and users, partition requests of organisations, over REST."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from opentalos.cli.connection.completion import topics
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format

_LIMITS: Final = {
    "space_bytes": "Stored bytes.",
    "put_requests_per_s": "Put requests per second.",
    "get_requests_per_s": "Get requests per second.",
    "put_bytes_per_s": "Bytes put per second.",
    "get_bytes_per_s": "Bytes read per second.",
}
_REQUEST_COLUMNS: Final = (
    "organisation", "total", "used", "reason", "organisation_name", "note",
)  # fmt: skip
_PROJECTION_COLUMNS: Final = (
    "tenant", "created", "days", "level", "trend_per_day", "season", "spread", "peak",
    "repeated_peak", "mean",
)  # fmt: skip
_COUNT: Final = click.IntRange(0)
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def quota() -> None:
    """Manage quotas of topics and users, and partition requests of organisations.

    A limit of 0 means unlimited; a limit that is not set has the server's default.
    """


def _limits(command: CommandT) -> CommandT:
    for name, about in reversed(_LIMITS.items()):
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, name, type=_COUNT, help=f"{about} 0: unlimited.")(command)
    return command


def _whose(command: CommandT) -> CommandT:
    for option in (
        click.option("--user", metavar="ID", help="User; for administrators."),
        click.option("--topic", metavar="TOPIC", shell_complete=topics, help="Topic."),
    ):
        command = option(command)
    return command


@quota.command()
@click.option("--users", is_flag=True, help="Show all users that have a quota; for administrators.")
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=topics,
    help="Topic; without it, show your own quota.",
)
@with_format
@with_server
def show(users: bool, topic: str | None, output: Output, server: ServerOptions) -> None:
    """Show limits and usage: your own, of a topic, or of all users.

    Example: talos quota show --topic orders
    """
    if users and topic is not None:
        raise click.UsageError("pass either --users or --topic")
    call = server.rest()
    if users:
        columns = ("user", *_LIMITS, "topics", "used_bytes")
        output.table(columns, call("GET", "quotas/users")["users"], empty="no user has a quota")
    else:
        output.record(call("GET", "quota" if topic is None else _path(topic, None)))


@quota.command("set")
@_whose
@_limits
@click.option("--topics", metavar="N", type=_COUNT, help="Maximum number of topics of the user.")
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
    """Set the limits of a topic or user; omitted limits get the default.

    Example: talos quota set --user alice --put-bytes-per-s 10000000 --topics 20
    """
    path = _path(topic, user)
    wanted = {name: value for name, value in limits.items() if value is not None}
    if topics is not None:
        if user is None:
            raise click.UsageError("--topics requires --user")
        wanted["topics"] = topics
    if not wanted:
        raise click.UsageError("pass at least one limit; talos quota reset restores the defaults")
    server.rest()("PUT", path, wanted)
    output.done(f"set the quota of {topic or user}", **wanted)


@quota.command()
@_whose
@with_format
@with_server
def reset(topic: str | None, user: str | None, output: Output, server: ServerOptions) -> None:
    """Restore the default limits of a topic or user.

    Example: talos quota reset --topic orders
    """
    server.rest()("DELETE", _path(topic, user))
    output.done(f"restored the default quota of {topic or user}", name=topic or user)


@quota.command()
@with_format
@with_server
def requests(output: Output, server: ServerOptions) -> None:
    """List the partition requests that wait for approval.

    Example: talos quota requests
    """
    found = server.rest()("GET", "quota-requests")["requests"]
    output.table(_REQUEST_COLUMNS, found, empty="no requests")


@quota.command()
@click.argument("total", type=click.IntRange(1))
@click.option(
    "--organisation", metavar="ID", help="Organisation of the request.", show_default="your own"
)
@click.option("--reason", default="", help="Reason, shown to the approver.")
@click.option("--auto", is_flag=True, help="Decide immediately from past traffic where possible.")
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
    """Request a total of TOTAL partitions for your organisation.

    With --auto the outcome is approve, reject, or human (requires manual approval), with the
    reason. Exits with status 1 if rejected.

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
    """Show the traffic forecast of TENANT, or of all tenants that are visible to you.

    Rates are bytes per second in the busiest minute of a day; season is the weekday factor in per
    mille, Monday first.

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
    output.table(_PROJECTION_COLUMNS, rows, empty="no forecasts")


@quota.command()
@click.argument("organisation")
@click.option(
    "--total",
    metavar="N",
    type=click.IntRange(1),
    help="Grant this number instead of the requested one.",
)
@click.option("--reason", help="Why, for the organisation.")
@with_format
@with_server
def approve(
    organisation: str,
    total: int | None,
    reason: str | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Approve the partition request of ORGANISATION; for administrators.

    Example: talos quota approve CLshop --total 150
    """
    sent = {"total": total, "reason": reason}
    wanted = {name: value for name, value in sent.items() if value is not None}
    server.rest()("POST", rest_path("quota-requests", organisation, "approve"), wanted)
    output.done(f"approved the partition request of {organisation}", organisation=organisation)


@quota.command()
@click.argument("organisation")
@click.option("--reason", help="Why, for the organisation: it is in the audit.")
@with_format
@with_server
def reject(organisation: str, reason: str | None, output: Output, server: ServerOptions) -> None:
    """Reject the partition request of ORGANISATION; for administrators.

    Without a pending request, revoke the granted partitions.

    Example: talos quota reject CLshop --reason "no traffic was projected"
    """
    wanted = {} if reason is None else {"reason": reason}
    server.rest()("POST", rest_path("quota-requests", organisation, "revoke"), wanted)
    output.done(f"rejected the partition request of {organisation}", organisation=organisation)


def _shown(projection: Mapping[str, Any]) -> dict[str, Any]:
    season = " ".join(map(str, projection["season"]))
    return {**projection, "created": time_text(projection["made_ms"]), "season": season}


def _path(topic: str | None, user: str | None) -> str:
    if (topic is None) == (user is None):
        raise click.UsageError("pass either --topic or --user")
    if topic is not None:
        return rest_path("topics", topic, "quota")
    assert user is not None
    return rest_path("quotas", "users", user)
