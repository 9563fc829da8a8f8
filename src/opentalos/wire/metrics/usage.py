"""The usage event: what one partition took in during one minute of append time. Sans-io.

Shape: one line of JSON, UTF-8: {"v":1,"topic":UUID,"name":NAME,"tenant":OWNER,"partition":3,
    "minute_ms":1764000000000,"records":N,"bytes":PAYLOAD_BYTES,"first_offset":F,"next_offset":E}
    E - F == N, and the minutes of a partition chain: F is the E of the minute before. An event
    may come again, of the same minute with a larger ``next_offset``: the larger one wins.
"""

import json
from typing import Final, NamedTuple

from opentalos.model.errors import BadRequest, NewerFormat

USAGE_VERSION: Final = 1
MINUTE_MS: Final = 60_000
EVENT_BYTES_MAX: Final = 8 << 10  # of a line: far above the longest names
_INT64_MAX: Final = (1 << 63) - 1
_INT32_MAX: Final = (1 << 31) - 1
_TEXTS: Final = ("topic", "name", "tenant")
_NUMBERS: Final = ("partition", "minute_ms", "records", "bytes", "first_offset", "next_offset")
_SHOWN_CHARS_MAX: Final = 60  # of a wrong value, in an error

Line = bytes  # what an event is on the wire; in the class, ``bytes`` is a field


class UsageEvent(NamedTuple):
    """Committed messages of one partition with append times in one minute."""

    topic: str  # uuid; a recreated topic has another one
    name: str
    tenant: str  # owner id of the topic
    partition: int
    minute_ms: int  # the minute's first millisecond
    records: int
    bytes: int  # of the blocks' payloads, as stored
    first_offset: int
    next_offset: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What events of the same minute have in common."""
        return self.topic, self.partition, self.minute_ms

    def encode(self) -> Line:
        """The event as one line, without a line end."""
        text = json.dumps(
            {"v": USAGE_VERSION, **self._asdict()}, ensure_ascii=False, separators=(",", ":")
        )
        return text.encode()

    @classmethod
    def decode(cls, raw: Line) -> "UsageEvent":
        """Parse a line; fields that this version does not know are ignored.

        Raises: NewerFormat, BadRequest (the text names the field and what it needs).
        """
        fields = _object(raw)
        version = fields.get("v")
        if type(version) is not int or version < 1:
            raise BadRequest(f"usage event: v is {_shown(version)}, need a version from 1 on")
        if version > USAGE_VERSION:
            raise NewerFormat(f"usage event version {version}, known is {USAGE_VERSION}")
        topic, name, tenant = [_text(fields, key) for key in _TEXTS]
        event = cls(topic, name, tenant, *(_number(fields, key) for key in _NUMBERS))
        fault = usage_fault(event)
        if fault:
            raise BadRequest(f"usage event: {fault}")
        return event


def usage_fault(event: UsageEvent) -> str:
    """Why the numbers of an event cannot be true together, or an empty string."""
    if event.partition > _INT32_MAX:
        return f"partition is {event.partition}, need at most {_INT32_MAX}"
    if event.minute_ms % MINUTE_MS:
        return f"minute_ms is {event.minute_ms}, need a multiple of {MINUTE_MS}"
    if event.records < 1:
        return "records is 0, need at least 1"
    if event.next_offset - event.first_offset != event.records:
        return (
            f"records is {event.records}, but the offsets {event.first_offset} to "
            f"{event.next_offset} are {event.next_offset - event.first_offset}"
        )
    return ""


def _object(raw: bytes) -> dict[str, object]:
    if len(raw) > EVENT_BYTES_MAX:
        raise BadRequest(f"usage event of {len(raw)} bytes, need at most {EVENT_BYTES_MAX}")
    try:
        found = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"usage event is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest("usage event is not a JSON object")
    return found


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"usage event: {name} is {_shown(value)}, need a text")
    return value


def _number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= _INT64_MAX:
        raise BadRequest(f"usage event: {name} is {_shown(value)}, need 0 to {_INT64_MAX}")
    return value


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:_SHOWN_CHARS_MAX]
