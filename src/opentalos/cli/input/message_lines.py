"""Conversion of lines of a file or pipe into messages."""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from opentalos.model.checks import json_text, json_value
from opentalos.model.errors import BadRequest
from opentalos.wire.message.message import Message

LINE_BYTES_MAX: Final = 16 << 20  # larger than any message, because JSON may be longer
PART_BYTES: Final = 256 << 10  # of data per part
PART_MESSAGES: Final = 1_000
_DATA: Final = ("text", "base64", "value")
_TEXTS: Final = {
    "key": "partition_key",
    "sequence_number": "sequence_number",
    "schema_fingerprint": "schema_fingerprint",
    "tag": "tag",
}
_NUMBERS: Final = {"create_ms": "create_ms", "type": "message_type"}
_IGNORED: Final = {"topic", "partition", "offset", "append_ms"}  # where it was read from
Parse = Callable[[bytes], Message]


class Lines:
    """Splits chunks into lines; the last line may be incomplete."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, chunk: bytes) -> list[bytes]:
        """Complete lines, without line breaks. Raises: BadRequest: a line is too long."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise BadRequest(f"a line is longer than {LINE_BYTES_MAX} bytes")
        return lines

    def end(self) -> list[bytes]:
        """The last line if it has no line break."""
        return [self._rest] if self._rest else []


def parser(form: str, separator: bytes | None) -> Parse:
    """A function from line to message; it raises BadRequest."""
    if form == "json":
        return parse_json
    if separator is None:
        return Message
    return lambda line: parse_keyed(line, separator)


def parse_keyed(line: bytes, separator: bytes) -> Message:
    """Parse key, separator, data; a line without the separator is data without a key."""
    key, found, data = line.partition(separator)
    if not found:
        return Message(line)
    try:
        return Message(data, partition_key=key.decode())
    except UnicodeDecodeError:
        raise BadRequest("the key is not UTF-8") from None


def parse_json(line: bytes) -> Message:
    """Parse a JSON object as in REST: ``text``, ``base64`` or ``value``, and optional fields.

    Topic, partition, offset and append time of a consumed message are ignored.
    """
    try:
        document = json_value(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest("not a JSON object")
    unknown = document.keys() - {*_DATA, *_TEXTS, *_NUMBERS, *_IGNORED}
    if unknown:
        raise BadRequest(f"unknown field {min(unknown)!r}")
    fields: dict[str, Any] = {}
    for names, kind, what in ((_TEXTS, str, "a string"), (_NUMBERS, int, "an integer")):
        for name, field in names.items():
            value = document.get(name)
            if value is not None and type(value) is not kind:
                raise BadRequest(f"{name} must be {what}")
            fields[field] = value
    return Message(_data_of(document), **fields)


def parts_of(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Split messages into parts of at most PART_MESSAGES and PART_BYTES.

    A message larger than PART_BYTES is a part of its own.
    """
    start = size = 0
    for number, message in enumerate(messages):
        more = len(message.data)
        if number > start and (size + more > PART_BYTES or number - start >= PART_MESSAGES):
            yield messages[start:number]
            start, size = number, 0
        size += more
    if start < len(messages):
        yield messages[start:]


def _data_of(document: dict[str, Any]) -> bytes:
    given = [name for name in _DATA if name in document]
    if len(given) != 1:
        raise BadRequest("pass exactly one of text, base64 and value")
    value = document[given[0]]
    if given[0] != "value" and not isinstance(value, str):
        raise BadRequest(f"{given[0]} must be a string")
    try:
        if given[0] == "value":
            return json_text(value).encode()
        return value.encode() if given[0] == "text" else base64.b64decode(value, validate=True)
    except ValueError as error:
        raise BadRequest(f"{given[0]} is invalid: {error}") from None
