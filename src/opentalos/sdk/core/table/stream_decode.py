"""The change that a message of a stream tells, whatever brought the message; no I/O."""

from typing import Final, NamedTuple

from opentalos.model.change import Change, StreamView
from opentalos.model.errors import ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.sdk.core.values import Record
from opentalos.wire.message.message import MessageFormatError
from opentalos.wire.sds.change import decode_change
from opentalos.wire.thrift.error import ThriftError

_DIGITS_MAX: Final = 20  # of a number of 64 bits


class StreamChange(NamedTuple):
    """A change with the place of its message, from which on a reader may begin anew."""

    table: str
    partition: int
    offset: int
    change: Change


def published_name(table: str) -> str:
    """A table's name as messages have it: without its owner."""
    return table.rpartition("/")[2]


def stream_key(schema: TableSchema, table: str, topic: str) -> str:
    """The name that the schema has for the stream into a topic.

    Whoever is not the owner of both says OWNER/TABLE and OWNER/TOPIC; the owner's schema may name
    the topic alone.
    """
    owner, _, name = topic.rpartition("/")
    same = bool(owner) and owner == table.rpartition("/")[0]
    return name if topic not in schema.streams and same else topic


def topic_name(table: str, key: str) -> str:
    """How a reader of the table names the topic that its schema has as ``key``."""
    owner = table.rpartition("/")[0]
    return key if "/" in key or not owner else f"{owner}/{key}"


class StreamDecoder:
    """Decodes the messages of one stream, for what the table's schema says of its key."""

    def __init__(self, schema: TableSchema, view: StreamView) -> None:
        self.view = view
        self._key_columns = schema.key_columns

    @classmethod
    def of(cls, schema: TableSchema, topic: str, table: str = "") -> "StreamDecoder":
        """Of the stream into a topic, as the schema names it; or, if the table is OWNER/TABLE, as
        OWNER/TOPIC. Raises: ValidationFailed: there is none, or it is off."""
        stream = schema.streams.get(stream_key(schema, table, topic))
        if stream is None or not stream.enabled:
            on = ", ".join(name for name, stream in schema.streams.items() if stream.enabled)
            raise ValidationFailed(f"the table has no stream into {topic}; it has: {on or 'none'}")
        return cls(schema, stream.view)

    def record(self, record: Record) -> StreamChange:
        """The change of a stored message. Raises: MessageFormatError: it is no such message."""
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        table, change = self._decoded(record.data, record.sequence_number, where)
        return StreamChange(table, record.partition, record.offset, change)

    def payload(self, data: bytes, sequence_number: str | None = None) -> tuple[str, Change]:
        """Table and change of a message's bytes. Raises: MessageFormatError.

        Args: sequence_number: the message's own; without it a missing change cannot be noticed.
        """
        return self._decoded(data, sequence_number, "the message")

    def _decoded(self, data: bytes, sequence_number: str | None, where: str) -> tuple[str, Change]:
        number = sequence_number or "0"
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
            shown = number[:_DIGITS_MAX]
            raise MessageFormatError(f"{where}: {shown!r} is no sequence number of a row")
        try:
            return decode_change(self.view, data, self._key_columns, int(number))
        except (ThriftError, ValidationFailed) as error:
            raise MessageFormatError(f"{where} tells no change: {error}") from error
