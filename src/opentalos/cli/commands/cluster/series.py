"""``talos series``: metrics over time, over REST."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from opentalos.cli.connection.completion import topics
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.times import TIME_HELP, as_time, unix_ms
from opentalos.cli.output.formats import Output, with_format

_BARS: Final = "▁▂▃▄▅▆▇█"
_UNKNOWN: Final = " "
_POINTS: Final = 60  # of a line on a terminal
_SPLITS: Final = ("total", "topic", "partition", "group", "error", "server")


@click.command(epilog=TIME_HELP)
@click.argument("metric", default="messages_in")
@click.option("--topic", metavar="TOPIC", shell_complete=topics, help="Only this topic.")
@click.option("--group", metavar="GROUP", help="Only this group of the topic; of the metric lag.")
@click.option("--by", type=click.Choice(_SPLITS), help="A line for each of them.")
@click.option(
    "--since",
    metavar="TIME",
    callback=as_time,
    help="Start of the time range.",
    show_default="an hour before its end",
)
@click.option("--until", metavar="TIME", callback=as_time, help="End of the time range.")
@click.option(
    "--every",
    type=Duration(click.IntRange(1)),
    metavar="DURATION",
    help="Length of a step.",
    show_default="a sixtieth of the range; all formats but text: its finest",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 500),
    default=10,
    show_default=True,
    help="Lines; the largest come first, the others are one.",
)
@with_format
@with_server
def series(
    metric: str,
    topic: str | None,
    group: str | None,
    by: str | None,
    since: datetime | None,
    until: datetime | None,
    every: int | None,
    limit: int,
    output: Output,
    server: ServerOptions,
) -> None:
    """Show METRIC over time, as small charts.

    \b
    METRIC: messages_in, bytes_in, messages_out, bytes_out, fetches, lag, errors,
    put_p50, put_p99, put_p999, and the same for fetch, table_read, table_write,
    rest_read, rest_write.

    JSON and TSV have a row for each step, with null where a value is not known.

    \b
    Example: talos series bytes_in --by topic
             talos series lag --topic orders --group billing --by partition
    """
    query: dict[str, Any] = {
        "metric": metric, "topic": topic, "group": group, "by": by, "limit": limit,
        "from_s": since and unix_ms(since) // 1_000, "to_s": until and unix_ms(until) // 1_000,
        "step_s": every or (_step_s(since, until) if output.form == "text" else None),
    }  # fmt: skip
    query = {name: value for name, value in query.items() if value is not None}
    found = server.rest()("GET", "series", query=query)
    if output.form == "text":
        _show(found)
    else:
        columns = (
            "time_s",
            *dict.fromkeys(n for s in found["series"] for n in s["labels"]),
            metric,
        )
        output.table(columns, _rows(found))
    for note in found["notes"]:
        click.echo(f"note: {note}", err=True)
    for part in found["partial"]:
        click.echo(f"server {part['server']}: {part['reason']}", err=True)


def _step_s(since: datetime | None, until: datetime | None) -> int:
    end = until or datetime.now(UTC)
    range_s = 3_600 if since is None else int((end - since).total_seconds())
    return max(1, range_s // _POINTS)


def _rows(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [
        {"time_s": time_s, **line["labels"], found["metric"]: value}
        for line in found["series"]
        for time_s, value in zip(found["times_s"], line["values"], strict=True)
    ]


def _show(found: Mapping[str, Any]) -> None:
    """A line for each series: its chart, the largest value and the latest."""
    rows = [(_name(line["labels"]), line["values"]) for line in found["series"]]
    if not rows:
        click.echo("nothing was measured", err=True)
        return
    width = max(len(name) for name, _ in rows)
    unit, step_s = found["unit"], found["step_s"]
    for name, values in rows:
        known = [value for value in values if value is not None]
        largest = max(known, default=0)
        latest = known[-1] if known else None
        shown = "not known" if latest is None else f"latest {latest:,}, largest {largest:,}"
        click.echo(f"{name:<{width}} {_chart(values, largest)} {shown}".lstrip())
    click.echo(f"{unit} by steps of {step_s:,} s")


def _name(labels: Mapping[str, str]) -> str:
    if "rest" in labels:
        return f"{labels['rest']} others"
    return " ".join(labels.values())


def _chart(values: Sequence[float | None], largest: float) -> str:
    top = len(_BARS) - 1
    return "".join(
        _UNKNOWN if value is None else _BARS[round(value / largest * top) if largest else 0]
        for value in values
    )
