"""Decodes the messages of a change stream, however they were read; no I/O."""

from typing import Final, NamedTuple

from opentalos.model.change import Change, StreamView
from opentalos.model.errors import ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.sdk.core.values import Record
from opentalos.wire.message.message import MessageFormatError
from opentalos.wire.sds.change import decode_change
from opentalos.wire.thrift.error import ThriftError

_DIGITS_MAX: Final = 20  # of a 64-bit number


class StreamChange(NamedTuple):
    """A change with partition and offset of its message, from which reading can resume."""

    table: str
    partition: int
    offset: int
    change: Change


def published_name(table: str) -> str:
    """The name of a table as in its messages: without its owner."""
    return table.rpartition("/")[2]


def stream_key(schema: TableSchema, table: str, topic: str) -> str:
    """The key in the schema for the stream into a topic.

    Callers that do not own both use OWNER/TABLE and OWNER/TOPIC, while the owner's schema may
    contain the topic name alone.
    """
    owner, _, name = topic.rpartition("/")
    same = bool(owner) and owner == table.rpartition("/")[0]
    return name if topic not in schema.streams and same else topic


def topic_name(table: str, key: str) -> str:
    """The topic name, for a reader of the table, of the stream with this key in its schema."""
    owner = table.rpartition("/")[0]
    return key if "/" in key or not owner else f"{owner}/{key}"


class StreamDecoder:
    """Decodes the messages of one stream, with the key columns of the table's schema."""

    def __init__(self, schema: TableSchema, view: StreamView) -> None:
        self.view = view
        self._key_columns = schema.key_columns

    @classmethod
    def of(cls, schema: TableSchema, topic: str, table: str = "") -> "StreamDecoder":
        """For the stream into a topic, named as in the schema, or as OWNER/TOPIC if the table is
        OWNER/TABLE. Raises: ValidationFailed: no such stream, or it is disabled."""
        stream = schema.streams.get(stream_key(schema, table, topic))
        if stream is None or not stream.enabled:
            on = ", ".join(name for name, stream in schema.streams.items() if stream.enabled)
            raise ValidationFailed(f"the table has no stream into {topic}; it has: {on or 'none'}")
        return cls(schema, stream.view)

    def record(self, record: Record) -> StreamChange:
        """The change in a stored message. Raises: MessageFormatError: it is not a change."""
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        table, change = self._decoded(record.data, record.sequence_number, where)
        return StreamChange(table, record.partition, record.offset, change)

    def payload(self, data: bytes, sequence_number: str | None = None) -> tuple[str, Change]:
        """The table and the change in the bytes of a message. Raises: MessageFormatError.

        Args: sequence_number: of the message; without it, gaps cannot be detected.
        """
        return self._decoded(data, sequence_number, "the message")

    def _decoded(self, data: bytes, sequence_number: str | None, where: str) -> tuple[str, Change]:
        number = sequence_number or "0"
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
            shown = number[:_DIGITS_MAX]
            raise MessageFormatError(
                f"{where} is not a change: {shown!r} is not a valid sequence number"
            )
        try:
            return decode_change(self.view, data, self._key_columns, int(number))
        except (ThriftError, ValidationFailed) as error:
            raise MessageFormatError(f"{where} is not a change: {error}") from error
