"""JSON bytes of the requests and replies of calls between servers.

The standard library's JSON carries the infinities that columns of tables may hold, and makes the
bytes that servers made before the protocol had versions; msgspec checks and converts the values.
"""

import json
from typing import TypeVar

import msgspec

T = TypeVar("T")


def encode(message: object) -> bytes:
    """The JSON of a request or reply."""
    return json.dumps(msgspec.to_builtins(message), separators=(",", ":")).encode()


def decode(body: bytes, kind: type[T]) -> T:
    """The request or reply of that type. Raises: ValueError: the body is none; says where."""
    try:
        return msgspec.convert(json.loads(body), kind)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
