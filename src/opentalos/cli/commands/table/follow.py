"""``talos table follow``: the changes in a table's stream, decoded."""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from opentalos.cli.connection.completion import table_argument, topics
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import TIME_HELP, Position, from_option, partitions_option
from opentalos.cli.output.formats import escaped
from opentalos.cli.output.message_copy import copy_messages
from opentalos.model.change import Change, ChangeKind, StreamView

if TYPE_CHECKING:
    from opentalos.model.datum import Columns
    from opentalos.model.table import TableSchema
    from opentalos.sdk.core.table.stream_decode import StreamDecoder
    from opentalos.sdk.core.values import Record

_TSV_COLUMNS: Final = (
    "partition", "offset", "timestamp_ms", "sequence", "kind", "key", "columns", "amounts", "error",
)  # fmt: skip
_NAMES: Final = {
    ChangeKind.PUT: "put",
    ChangeKind.INCREMENT: "increment",
    ChangeKind.DELETE: "remove",
}
_KIND_WIDTH: Final = max(map(len, _NAMES.values()))
_SHOWN_BYTES: Final = 64  # of a message that is not a change
_MS: Final = 1000
_Show = Callable[[Mapping[str, Any]], bytes]


@click.command(epilog=TIME_HELP)
@table_argument
@click.argument("topic", required=False, shell_complete=topics)
@from_option
@partitions_option
@click.option(
    "--follow",
    "-f",
    "keep_waiting",
    is_flag=True,
    help="Keep waiting for new changes, until Ctrl-C.",
)
@click.option(
    "--count", "-n", metavar="N", type=click.IntRange(1), help="Stop after this many changes."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "tsv"]),
    default="text",
    show_default=True,
    help="Output format; json: one object per line, tsv: a header and escaped values.",
)
@with_server
def follow(
    table: str,
    topic: str | None,
    start: Position | None,
    partitions: Sequence[int],
    keep_waiting: bool,
    count: int | None,
    form: str,
    server: ServerOptions,
) -> None:
    """Print the changes in the stream of TABLE to TOPIC.

    TOPIC may be omitted if the table has one stream.

    A line has the time of the change, partition and offset of its message, the sequence number
    within the row, the operation, the key, and the resulting columns; n+2 is an increment by 2,
    -name a removed column. A change may be redelivered with the same sequence number. A message
    that is not a change is shown as bad.

    \b
    Example: talos table follow people
             talos table follow people changes --follow --format json | jq .key
    """  # fmt: skip
    from opentalos.cli.input.record_source import Wanted
    from opentalos.sdk.core.table.stream_decode import StreamDecoder, published_name, topic_name
    from opentalos.sdk.tables import TalosTable

    server.rest().reach()
    with TalosTable(server.config(), table) as found:
        schema = found.schema()
    key = _stream_of(schema, table, topic)
    changes = _Changes(
        published_name(table), StreamDecoder(schema, schema.streams[key].view), _SHOW[form]
    )
    if form == "tsv":
        click.echo("\t".join(_TSV_COLUMNS))
    position = start if start is not None else "end" if keep_waiting else "start"
    wanted = Wanted(
        topic or topic_name(table, key), position, tuple(dict.fromkeys(partitions)), keep_waiting
    )
    copy_messages(server, wanted, changes.render, count)


def _stream_of(schema: "TableSchema", table: str, topic: str | None) -> str:
    """The name of the stream in the schema, also if disabled. Raises: click.UsageError."""
    from opentalos.sdk.core.table.stream_decode import stream_key

    known = ", ".join(sorted(schema.streams)) or "none"
    if topic is None:
        if len(schema.streams) != 1:
            raise click.UsageError(
                f"{table} has several streams or none; pass TOPIC; it has: {known}"
            )
        return next(iter(schema.streams))
    key = stream_key(schema, table, topic)
    if key not in schema.streams:
        raise click.UsageError(f"{table} has no stream to {topic}; it has: {known}")
    return key


class _Changes:
    """Formats messages as lines; skips the changes of other tables."""

    def __init__(self, table: str, decoder: "StreamDecoder", show: _Show) -> None:
        self._table, self._decoder, self._show = table, decoder, show

    def render(self, record: "Record") -> bytes | None:
        """The line of a message; None to skip it."""
        from opentalos.wire.message.message import MessageFormatError

        position = {"partition": record.partition, "offset": record.offset}
        try:
            decoded = self._decoder.record(record)
        except MessageFormatError as error:
            data = record.data[:_SHOWN_BYTES]
            bad = {"kind": "bad", "error": str(error), "base64": base64.b64encode(data).decode()}
            return self._show(position | bad)
        if decoded.table != self._table:
            return None
        return self._show(position | _fields(decoded.change, self._decoder.view))


def _fields(change: Change, view: StreamView) -> dict[str, Any]:
    found: dict[str, Any] = {
        "timestamp_ms": change.timestamp_ms,
        "sequence": change.sequence,
        "kind": "change" if view is StreamView.KEYS_ONLY else _NAMES[change.kind],
        "key": _plain(change.key),
    }
    if view is not StreamView.KEYS_ONLY:
        found["row_deleted"] = change.row_deleted
        columns = change.image if view is StreamView.RECORD_IMAGE else change.columns
        found["columns"] = _plain(columns)
    if change.amounts:
        found["amounts"] = _plain(change.amounts)
    return found


def _plain(columns: "Columns") -> dict[str, Any]:
    """Columns as JSON values; binary values as base64."""
    return {name: _value(datum.value) for name, datum in columns.items()}


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value(element) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value


def _as_json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _as_tsv(fields: Mapping[str, Any]) -> bytes:
    return ("\t".join(escaped(fields.get(name)) for name in _TSV_COLUMNS) + "\n").encode()


def _as_text(fields: Mapping[str, Any]) -> bytes:
    position = f"{fields['partition']}:{fields['offset']}"
    if "error" in fields:
        return f"{position}  bad  {fields['error']}\n".encode()
    time = datetime.fromtimestamp(fields["timestamp_ms"] / _MS, UTC)
    parts = [time.isoformat(timespec="milliseconds").replace("+00:00", "Z"), position]
    parts += [f"#{fields['sequence']}", f"{fields['kind']:<{_KIND_WIDTH}}"]
    parts.append(_listed(fields["key"]))
    if fields["kind"] == "remove" and not fields["row_deleted"]:
        parts.append(" ".join(f"-{name}" for name in fields["columns"]))
    elif fields.get("columns"):
        parts.append(_listed(fields["columns"]))
    amounts = fields.get("amounts", {})
    parts += [f"{name}{amount:+}" for name, amount in amounts.items()]
    return ("  ".join(parts).rstrip() + "\n").encode()


def _listed(columns: Mapping[str, Any]) -> str:
    return " ".join(f"{n}={json.dumps(v, ensure_ascii=False)}" for n, v in columns.items())


_SHOW: Final[Mapping[str, _Show]] = {"text": _as_text, "json": _as_json, "tsv": _as_tsv}
