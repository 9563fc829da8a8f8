"""JSON bytes of the requests and replies of calls between servers.

msgspec is several times faster than the standard library, which matters to all other calls: a
reply may have facts of many partitions, or a block of many MB. The standard library reads what
msgspec does not: infinities, which columns of tables may hold.
"""

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")


def encode(message: object) -> bytes:
    """The JSON of a request or reply."""
    return msgspec.json.encode(message)


def decode(body: bytes, kind: type[T]) -> T:
    """The request or reply of that type. Raises: ValueError: the body is none; says where."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(body), kind)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
