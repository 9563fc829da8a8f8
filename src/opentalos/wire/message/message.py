"""One user message, whatever format carried it, and the error of all formats."""

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
