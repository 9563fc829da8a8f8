"""The event of what is kept: until when a partition's messages were still stored. Sans-io.

Shape: one line of JSON, UTF-8, in the topic of usage events, from which ``kind`` distinguishes it:
    {"v":1,"kind":"kept","topic":UUID,"name":NAME,"tenant":OWNER,"partition":3,
    "minute_ms":1764000000000,"start_offset":S}
    The messages of the partition from offset S on were kept at the beginning of the minute. This
    stays true, so an event may come again, late and in any order. Readers from before it find a
    usage event without records, and put it aside.
"""

import json
from typing import Final, NamedTuple

KEPT_KIND: Final = "kept"
KEPT_VERSION: Final = 1


class KeptEvent(NamedTuple):
    """Messages that a partition had not dropped yet."""

    topic: str  # uuid; a recreated topic has another one
    name: str
    tenant: str  # owner id of the topic
    partition: int
    minute_ms: int  # the minute's first millisecond, by a server's clock
    start_offset: int

    def encode(self) -> bytes:
        """The event as one line, without a line end."""
        fields = {"v": KEPT_VERSION, "kind": KEPT_KIND, **self._asdict()}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
