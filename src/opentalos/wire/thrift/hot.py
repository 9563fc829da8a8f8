"""Hand-written compact codec of putMessage and getMessage, the two calls of the data path."""

from collections.abc import Sequence
from typing import NamedTuple

from opentalos.model.message import MessageBlock, StoredBlock


class HotPut(NamedTuple):
    """A putMessage call in the one shape that clients send: one block, no transaction."""

    seqid: int
    topic: str
    resource: str
    partition: int
    block: MessageBlock
    sequence_id: bytes  # UTF-8, echoed in the reply
    deadline_ms: int  # wall time; 0: none


class HotGet(NamedTuple):
    """A getMessage call without tag filters."""

    seqid: int
    topic: str
    resource: str
    partition: int
    offset: int
    messages_max: int
    bytes_max: int
    sequence_id: bytes  # UTF-8, echoed in the reply
    deadline_ms: int  # wall time; 0: none


def decode_put(body: bytes, principal: int = 0) -> HotPut | None:
    """Decode a compact putMessage call; None for every shape this decoder does not know.

    ``principal`` is the billing number put into the block.
    """
    raise NotImplementedError


def decode_get(body: bytes) -> HotGet | None:
    """Decode a compact getMessage call; None for every shape this decoder does not know."""
    raise NotImplementedError


def put_reply(seqid: int, sequence_id: bytes) -> bytes:
    """Compact reply of a successful putMessage."""
    raise NotImplementedError


def get_reply_chunks(
    seqid: int, sequence_id: bytes, blocks: Sequence[StoredBlock], unhandled: int
) -> list[bytes | memoryview]:
    """Compact reply of a getMessage as chunks; payloads are passed through without a copy.

    ``unhandled`` is the number of messages after the last returned one; always sent, since the
    Python client fails without it.
    """
    raise NotImplementedError
