"""The audit event as a line of JSON."""

import json

import pytest

from opentalos.model.errors import BadRequest, NewerFormat
from opentalos.wire.metrics.audit_event import AuditEvent

EVENT = AuditEvent(
    "0a", 5, "s1", "alice", "CL1", "::1", "r", "grant", "CL1#zwölf#u", "CL1", "done", "",
    {"grantee": "bob\n"},
)  # fmt: skip
LINE = (
    '{"v":1,"id":"0a","at_ms":5,"server":"s1","principal":"alice","tenant":"CL1","address":"::1",'
    '"request":"r","action":"grant","resource":"CL1#zwölf#u","owner":"CL1","outcome":"done",'
    '"error":"","details":{"grantee":"bob\\n"}}'
)


def test_an_event_is_one_line_that_reads_back() -> None:
    assert EVENT.encode() == LINE.encode()
    assert AuditEvent.decode(LINE.encode()) == EVENT


def test_fields_of_later_versions_are_ignored_and_later_formats_refused() -> None:
    fields = json.loads(LINE)
    assert AuditEvent.decode(json.dumps(fields | {"later": 1}).encode()) == EVENT
    with pytest.raises(NewerFormat):
        AuditEvent.decode(json.dumps(fields | {"v": 2}).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b'{"v":1,"details":[]}', b"1"])
def test_what_is_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="audit event"):
        AuditEvent.decode(raw)
