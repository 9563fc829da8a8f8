"""``talos audit``: who changed what, over REST."""

from datetime import datetime
from typing import Any, Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import TIME_HELP, as_time, time_text, unix_ms
from opentalos.cli.output.formats import Output, with_format

_PAGE: Final = 500  # events of one call
_COLUMNS: Final = (
    "time", "principal", "address", "action", "resource", "outcome", "error", "details",
)  # fmt: skip


@click.command(epilog=TIME_HELP)
@click.option(
    "--from", "start", metavar="TIME", callback=as_time, help="Only events from this time on."
)
@click.option("--principal", metavar="ID", help="Only what this principal did.")
@click.option(
    "--outcome",
    type=click.Choice(["done", "denied", "failed", "unknown"]),
    help="Only events that ended so.",
)
@with_format
@with_server
def audit(
    start: datetime | None,
    principal: str | None,
    outcome: str | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """List who changed what, from where, with which outcome; oldest first.

    Shows what your tenant did and what was done to its topics, tables and quotas; administrators
    see every event.

    Example: talos audit --from 1d --outcome denied
    """
    rest, rows = server.rest(), list[dict[str, Any]]()
    page: int | None = 0
    since_ms = unix_ms(start) if start is not None else 0
    seen: set[str] = set()
    while page is not None:
        found = rest("GET", f"audit?page={page}&since_ms={since_ms}&limit={_PAGE}")
        for event in found["events"]:
            wanted = principal in (None, event["principal"]) and outcome in (None, event["outcome"])
            if wanted and event["id"] not in seen:
                rows.append(event | {"time": time_text(event["at_ms"])})
            seen.add(event["id"])
        page = found["next_page"]
    output.table(_COLUMNS, rows, empty="no events")
