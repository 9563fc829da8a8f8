"""What each of the three protocols offers to the message layer."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from opentalos.wire.thrift.output import Output
from opentalos.wire.thrift.reader import Cursor
from opentalos.wire.thrift.spec import StructSpec


class Header(NamedTuple):
    """First part of a message; ``kind`` is a MessageKind value, if it is a valid one."""

    name: str
    kind: int
    seqid: int


class Codec(Protocol):
    """One encoding. Readers raise ThriftError, IndexError or struct.error for bad bytes."""

    def read_header(self, cursor: Cursor) -> Header:
        """Read what comes before the arguments."""
        ...

    def read_struct(self, cursor: Cursor, spec: StructSpec) -> Any:
        """Read one struct; what its spec makes of the fields."""
        ...

    def read_end(self, cursor: Cursor) -> None:
        """Read what comes after the arguments."""
        ...

    def write(
        self, out: Output, header: Header, spec: StructSpec, values: Mapping[str, Any]
    ) -> None:
        """Write a whole message with one struct of the given field values; None: not set."""
        ...
