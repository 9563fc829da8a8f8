"""The egress event: what one tenant read from one topic at one server in one minute. Sans-io.

Shape: one line of JSON, UTF-8, in the topic of usage events, from which ``kind`` distinguishes it:
    {"v":1,"kind":"egress","topic":UUID,"name":NAME,"tenant":OWNER,"reader":TENANT,
    "minute_ms":1764000000000,"source":"SERVER/START","number":N,"messages":M,"bytes":B}
    An event never changes. It may come again: (source, number) is the same then, and it counts
    once. Readers from before egress find a usage event without a partition, and put it aside.
"""

import json
from typing import Final, NamedTuple

EGRESS_KIND: Final = "egress"
EGRESS_VERSION: Final = 1

Line = bytes  # what an event is on the wire; in the class, ``bytes`` is a field


class EgressEvent(NamedTuple):
    """Messages that a server returned to one tenant's consumers."""

    topic: str  # uuid; a recreated topic has another one
    name: str
    tenant: str  # owner id of the topic: who pays
    reader: str  # owner id of the caller
    minute_ms: int  # the minute's first millisecond, by the server's clock
    source: str  # a server since one of its starts
    number: int  # of the event, from 0 in its source
    messages: int
    bytes: int  # payload that was returned

    def encode(self) -> Line:
        """The event as one line, without a line end."""
        fields = {"v": EGRESS_VERSION, "kind": EGRESS_KIND, **self._asdict()}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
