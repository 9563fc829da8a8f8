"""The seal of principals' records: a MAC that only holders of the server key can make.

Whoever can write to the MetaStore, but has no key, can neither change what a principal may do nor
move a record to another principal. ``PrincipalSealing`` decides when a record without a MAC stops
counting; a record whose MAC is wrong never counts.
"""

import base64
import hmac
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from opentalos.catalog.principals.record import (
    PrincipalRecord,
    Proof,
    decode_principal,
    encode_principal,
    principal_path,
)
from opentalos.catalog.principals.secret_box import SecretBox
from opentalos.model.errors import ConfigError

_log: Final = logging.getLogger("opentalos.catalog")
_MAC: Final = "mac"


class SealMemory(Protocol):
    """Outside the MetaStore: whether all records were sealed once, so that whoever removes the
    marker from the MetaStore does not bring unsealed records back."""

    @property
    def sealed(self) -> bool: ...
    def note_sealed(self) -> None: ...


class PrincipalSeal:
    """Makes and checks the MACs; ``refused`` has the reason by path of records that do not count.

    ``demanded``: whether a record needs a MAC. A record of a principal that is older than one this
    process has seen is refused as well, so a replay shows as long as one server runs.

    Shape: record: JSON object whose last field ``mac`` is base64 of the box's MAC of
        [path][0 u8][the object without that field].
    """

    def __init__(
        self,
        box: SecretBox,
        *,
        demanded: bool = True,
        judge_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._box = box
        self.demanded = demanded
        self.refused: dict[str, str] = {}
        self._revisions: dict[str, int] = {}  # the newest of each principal
        self._judge_again = judge_again

    def encode(self, record: PrincipalRecord) -> bytes:
        """The record's value with its MAC."""
        body = encode_principal(record)
        mac = base64.b64encode(self._mac(record, body)).decode()
        return body[:-1] + f',"{_MAC}":"{mac}"}}'.encode()

    def decode(self, value: bytes) -> PrincipalRecord:
        """Read a record and check its MAC, if any. Raises: NewerFormat, CorruptLog."""
        record = decode_principal(value)
        fields = json.loads(value)
        mac = fields.pop(_MAC, None)
        if mac is None:
            return record
        # What was decoded is what is checked, also if a field was there twice.
        body = json.dumps(fields, separators=(",", ":")).encode()
        wanted = base64.b64encode(self._mac(record, body))
        good = hmac.compare_digest(str(mac).encode(), wanted)
        return replace(record, proof=Proof.VALID if good else Proof.WRONG)

    def revised(
        self, record: PrincipalRecord, former: PrincipalRecord | None, now_ms: int
    ) -> PrincipalRecord:
        """The record as it is written: sealed, and newer than what any server has seen."""
        path = principal_path(record.principal.id)
        seen = max(self._revisions.get(path, 0), former.revision if former else 0)
        return replace(record, revision=max(seen + 1, now_ms), proof=Proof.VALID)

    def admit(self, path: str, record: PrincipalRecord) -> bool:
        """Whether the record counts; if not, the reason is logged and kept in ``refused``."""
        reason = self._objection(path, record)
        if reason:
            if self.refused.get(path) != reason:
                _log.error(
                    "record %s is ignored: %s; its writer has no server key: check who "
                    "can write to the store of control records, then create the principal again",
                    path,
                    reason,
                )
            self.refused[path] = reason
            return False
        if self.refused.pop(path, None):
            _log.warning("record %s counts again", path)
        if record.proof is Proof.VALID:
            self._revisions[path] = record.revision
        return True

    def check_key(self, records: Iterable[tuple[str, PrincipalRecord]]) -> None:
        """Raises: ConfigError: all MACs are wrong, so the key is; writing would make it worse."""
        proofs = {record.proof: path for path, record in records}
        if Proof.WRONG in proofs and Proof.VALID not in proofs:
            raise ConfigError(
                f"record {proofs[Proof.WRONG]}: its MAC is wrong like that of every other "
                "principal: the server key is a different one; check DATA/server.key or "
                "[cluster] key_file"
            )

    def removed(self, path: str) -> None:
        """A record is gone; no version of this product removes one."""
        _log.error("record %s was removed; restore it, or create the principal again", path)
        self.refused.pop(path, None)

    def expect(self, demanded: bool) -> None:
        """Before records are loaded: whether those without a MAC do not count."""
        self.demanded = demanded

    def demand(self) -> None:
        """From now on records without a MAC do not count."""
        self.demanded = True
        self._judge_again()

    def marker(self) -> bytes:
        """What the marker record has: proof that a holder of the key demanded MACs."""
        return base64.b64encode(self._box.mac(b"all records of principals are sealed"))

    def _objection(self, path: str, record: PrincipalRecord) -> str:
        if record.proof is Proof.WRONG:
            return "its MAC is wrong"
        if record.proof is Proof.NONE:
            return "it has no MAC" if self.demanded else ""
        if path != principal_path(record.principal.id):
            return f"it is the record of {record.principal.id}"
        if record.revision < self._revisions.get(path, 0):
            return "it is older than one that was read before"
        return ""

    def _mac(self, record: PrincipalRecord, body: bytes) -> bytes:
        return self._box.mac(principal_path(record.principal.id).encode() + b"\0" + body)
