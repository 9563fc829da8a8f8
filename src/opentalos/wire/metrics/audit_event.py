"""The audit event: who did what to which resource, from where, with which outcome. Sans-io.

Shape: one line of JSON, UTF-8: {"v":1,"id":HEX,"at_ms":1764000000000,"server":NAME,
    "principal":ID,"tenant":OWNER_ID,"address":IP,"request":ID,"action":TEXT,"resource":TEXT,
    "owner":OWNER_ID,"outcome":"done","error":NAME,"details":{NAME:TEXT}}. An event may be stored
    twice, with the same id. It never has a secret.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from opentalos.model.errors import BadRequest, NewerFormat

AUDIT_VERSION: Final = 1
TEXT_CHARS_MAX: Final = 400  # of each text that a caller chose
DETAILS_MAX: Final = 16  # of one event
_TEXTS: Final = (
    "id", "server", "principal", "tenant", "address", "request", "action", "resource", "owner",
    "outcome", "error",
)  # fmt: skip


class AuditOutcome(StrEnum):
    """How an action ended. ``unknown``: it may or may not have been done."""

    DONE = "done"
    DENIED = "denied"
    FAILED = "failed"
    UNKNOWN = "unknown"


class AuditEvent(NamedTuple):
    """One action. ``tenant``: owner id of the principal; ``owner``: of the resource, empty if it
    belongs to the service; ``error``: name of the condition unless it was done."""

    id: str
    at_ms: int
    server: str
    principal: str
    tenant: str
    address: str
    request: str
    action: str
    resource: str
    owner: str
    outcome: str
    error: str = ""
    details: Mapping[str, str] = {}

    def encode(self) -> bytes:
        """The event as one line, without a line end."""
        fields = {"v": AUDIT_VERSION, **self._asdict()}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, raw: bytes) -> "AuditEvent":
        """Parse a line; fields that this version does not know are ignored.

        Raises: NewerFormat, BadRequest.
        """
        try:
            fields: Any = json.loads(raw)
            version = int(fields["v"])
            if version > AUDIT_VERSION:
                raise NewerFormat(f"audit event version {version}, known is {AUDIT_VERSION}")
            texts = {name: str(fields[name]) for name in _TEXTS}
            details = {str(name): str(value) for name, value in fields["details"].items()}
            return cls(at_ms=int(fields["at_ms"]), details=details, **texts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(f"audit event: not valid: {error!r:.60}") from error
