"""A principal's record in the MetaStore (JSON with a version).

Version 2 has what a server that does not know it must not ignore: a role, limits of keys. Records
without either are written as version 1, so that older servers read them.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from opentalos.catalog.records.record_index import record_path
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import KeyLimits, Principal, Role

PREFIX = "principals"
FORMAT_VERSION = 2
_PLAIN_VERSION = 1


class Proof(Enum):
    """What the MAC of a record says; ``seal.py`` checks it."""

    NONE = "none"  # there is none: an older version wrote the record
    VALID = "valid"
    WRONG = "wrong"


def principal_path(principal_id: str) -> str:
    """Where the record of a principal is."""
    return record_path(PREFIX, principal_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key with its secret sealed under the server key."""

    key_id: str
    sealed: bytes
    created_ms: int
    disabled: bool
    limits: KeyLimits | None = None

    def live(self, now_ms: int) -> bool:
        """Whether it is neither disabled nor expired."""
        expires_ms = self.limits.expires_ms if self.limits else 0
        return not self.disabled and not 0 < expires_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalRecord:
    """A principal as it is stored. ``revision`` grows with each change; 0: written by an older
    version, which ignores it."""

    principal: Principal
    created_ms: int
    disabled: bool = False
    refuse_replays: bool = False  # of signed requests that carry no id, too
    keys: tuple[KeyRecord, ...] = ()
    revision: int = 0
    proof: Proof = Proof.NONE


def encode_principal(record: PrincipalRecord) -> bytes:
    """The record's value."""
    who = record.principal
    plain = not who.role and all(key.limits is None for key in record.keys)
    return json.dumps(
        {
            "version": _PLAIN_VERSION if plain else FORMAT_VERSION,
            "id": who.id,
            "number": who.number,
            "organisation": who.organisation,
            "team": who.team,
            "admin": who.admin,
            "created_ms": record.created_ms,
            "disabled": record.disabled,
            "refuse_replays": record.refuse_replays,
            **({"role": who.role.name.lower()} if who.role else {}),
            "keys": [_key_fields(key) for key in record.keys],
            **({"revision": record.revision} if record.revision else {}),
        },
        separators=(",", ":"),
    ).encode()


def _key_fields(key: KeyRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "key_id": key.key_id,
        "sealed": base64.b64encode(key.sealed).decode(),
        "created_ms": key.created_ms,
        "disabled": key.disabled,
    }
    if key.limits is not None:
        fields["scopes"] = list(key.limits.scopes)
        fields["expires_ms"] = key.limits.expires_ms
        fields["addresses"] = list(key.limits.addresses)
    return fields


def decode_principal(value: bytes) -> PrincipalRecord:
    """Read a record. Raises: NewerFormat; CorruptLog for anything that is no such record."""
    try:
        record = json.loads(value)
        version = record["version"]
        if version not in (_PLAIN_VERSION, FORMAT_VERSION):
            raise NewerFormat(
                f"principal record has format {version}; this version supports formats up to "
                f"{FORMAT_VERSION}"
            )
        return PrincipalRecord(
            principal=Principal(
                id=record["id"],
                number=record["number"],
                organisation=record["organisation"],
                team=record["team"],
                admin=record["admin"],
                role=Role[record.get("role", Role.USER.name).upper()],
            ),
            created_ms=record["created_ms"],
            disabled=record["disabled"],
            refuse_replays=bool(record.get("refuse_replays", False)),  # absent in older records
            keys=tuple(_key_of(key) for key in record["keys"]),
            revision=int(record.get("revision", 0)),  # absent in older records
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid principal record: {error}") from error


def _key_of(fields: Mapping[str, Any]) -> KeyRecord:
    limits = None
    if "scopes" in fields:
        limits = KeyLimits(
            scopes=tuple(fields["scopes"]),
            expires_ms=fields["expires_ms"],
            addresses=tuple(fields["addresses"]),
        )
    return KeyRecord(
        key_id=fields["key_id"],
        sealed=base64.b64decode(fields["sealed"]),
        created_ms=fields["created_ms"],
        disabled=fields["disabled"],
        limits=limits,
    )
