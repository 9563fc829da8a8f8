"""What a znode of ours holds: a record, or the tombstone of a removed one."""

from enum import Enum
from typing import NamedTuple

from opentalos.model.errors import CorruptLog, NewerFormat

NONCE_BYTES = 12
_MAGIC = b"OT"
_FORMAT = 1
_HEADER_BYTES = len(_MAGIC) + 2 + NONCE_BYTES


class Kind(Enum):
    """A bare node was made as a parent and never held a record."""

    RECORD = b"R"
    TOMBSTONE = b"T"
    BARE = b""


class Content(NamedTuple):
    """A znode's data. ``nonce`` names the write that put it there."""

    kind: Kind
    nonce: bytes
    value: bytes


BARE = Content(Kind.BARE, b"", b"")


def encode_content(content: Content) -> bytes:
    """The data of a znode.

    Shape: bytes: ["OT"][format u8][kind: "R" or "T"][nonce: 12 bytes][value]; a bare node: nothing.
    """
    if content.kind is Kind.BARE:
        return b""
    return b"".join((_MAGIC, bytes([_FORMAT]), content.kind.value, content.nonce, content.value))


def decode_content(path: str, data: bytes) -> Content:
    """What the znode at ``path`` holds. Raises: NewerFormat; CorruptLog: not written by us."""
    if not data:
        return BARE
    if data[2:3] > bytes([_FORMAT]) and data.startswith(_MAGIC):
        raise NewerFormat(
            f"znode {path} has format {data[2]}; this version supports formats up to {_FORMAT}"
        )
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC):
        raise CorruptLog(f"znode {path} is not a record of OpenTalos")
    try:
        kind = Kind(data[3:4])
    except ValueError as error:
        raise CorruptLog(f"znode {path}: no record of kind {data[3:4]!r}") from error
    return Content(kind, data[4:_HEADER_BYTES], data[_HEADER_BYTES:])
