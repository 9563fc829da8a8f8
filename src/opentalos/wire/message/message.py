"""One user message, whatever format carried it; with its place; and the error of all formats."""

from typing import NamedTuple

from opentalos.model.errors import BadRequest


class MessageFormatError(BadRequest):
    """A block's bytes are no valid messages; the text says which and why."""


class Message(NamedTuple):
    """A message as its producer made it; None where the format does not carry a field."""

    data: bytes
    partition_key: str | None = None
    sequence_number: str | None = None
    create_ms: int | None = None
    append_ms: int | None = None  # Kafka blocks only; else the block's append time counts
    message_type: int | None = None  # message.thrift MessageType
    schema_fingerprint: str | None = None
    tag: str | None = None
    traceparent: str | None = None  # W3C trace context of its producer


class Record(NamedTuple):
    """A stored message with its place; None where its format does not carry a field."""

    topic: str
    partition: int
    offset: int
    data: bytes
    partition_key: str | None
    sequence_number: str | None
    create_ms: int | None  # as its producer set it
    append_ms: int  # when the server stored it
    message_type: int | None  # message.thrift MessageType
    schema_fingerprint: str | None
    tag: str | None
    traceparent: str | None = None  # W3C trace context of its producer


class Place(NamedTuple):
    """Where the records of a block come from."""

    topic: str
    partition: int
    first_offset: int  # of the first record that is made
    append_ms: int  # of the block

    def record(self, message: Message, index: int) -> Record:
        """A message as the record ``index`` places behind the first one."""
        offset, values = self.first_offset + index, message[5:]
        return Record(self.topic, self.partition, offset, *message[:4], self.append_ms, *values)
