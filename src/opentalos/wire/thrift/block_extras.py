"""Optional fields of a MessageBlock that the log keeps opaque: create times, tag and tag code.

Shape:   the fields as they follow field 7 of MessageBlock in the compact protocol, without the
         struct's end, so a reply can carry them over as they are. Empty if none is set.
Source: idl/message.thrift MessageBlock, fields 8, 10 and 11.
"""

from typing import Final, NamedTuple

from opentalos.model.errors import BadRequest
from opentalos.wire.thrift.compact import read_struct, write_struct
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.output import Output
from opentalos.wire.thrift.reader import CALL_VALUES_MAX, Cursor
from opentalos.wire.thrift.spec import I32, I64, STRING, Field, StructSpec, list_of

EXTRAS_BYTES_MAX: Final = (64 << 10) - 1  # of a block's header in the log
_PREVIOUS_FIELD: Final = 7


class Extras(NamedTuple):
    """The optional fields; None where not set."""

    create_ms_list: list[int] | None = None
    tag: str | None = None
    tag_code: int | None = None


_SPEC: Final = StructSpec(
    "MessageBlock",
    (
        Field(8, "create_ms_list", list_of(I64)),
        Field(10, "tag", STRING),
        Field(11, "tag_code", I32),
    ),
    Extras,
)


def encode_extras(extras: Extras) -> bytes:
    """Bytes to store with the block. Raises: BadRequest: more than a block's header takes."""

    def check() -> None:
        if len(out) > EXTRAS_BYTES_MAX:
            raise BadRequest(f"create times and tag of a block have {len(out)} bytes, above 64 KiB")

    out = Output(check)  # it stops when there is too much, not after a whole list
    if len(extras.create_ms_list or ()) > EXTRAS_BYTES_MAX:
        raise BadRequest(f"create times of a block: more than {EXTRAS_BYTES_MAX}, above 64 KiB")
    write_struct(out, _SPEC, extras, _PREVIOUS_FIELD)
    check()
    return bytes(out[:-1])


def decode_extras(data: bytes) -> Extras:
    """Read what ``encode_extras`` wrote. Raises: ThriftError."""
    if not data:
        return Extras()
    cursor = Cursor(data + b"\0", CALL_VALUES_MAX)
    try:
        extras: Extras = read_struct(cursor, _SPEC, _PREVIOUS_FIELD)
    except IndexError:
        raise ThriftError("stored block fields end early") from None
    return extras
