"""A principal's record in the MetaStore (JSON with a version)."""

import base64
import json
from dataclasses import dataclass

from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import Principal

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key with its secret sealed under the server key."""

    key_id: str
    sealed: bytes
    created_ms: int
    disabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalRecord:
    """A principal as it is stored."""

    principal: Principal
    created_ms: int
    disabled: bool = False
    refuse_replays: bool = False  # of signed requests that carry no id, too
    keys: tuple[KeyRecord, ...] = ()


def encode_principal(record: PrincipalRecord) -> bytes:
    """The record's value."""
    who = record.principal
    return json.dumps(
        {
            "version": FORMAT_VERSION,
            "id": who.id,
            "number": who.number,
            "organisation": who.organisation,
            "team": who.team,
            "admin": who.admin,
            "created_ms": record.created_ms,
            "disabled": record.disabled,
            "refuse_replays": record.refuse_replays,
            "keys": [
                {
                    "key_id": key.key_id,
                    "sealed": base64.b64encode(key.sealed).decode(),
                    "created_ms": key.created_ms,
                    "disabled": key.disabled,
                }
                for key in record.keys
            ],
        },
        separators=(",", ":"),
    ).encode()


def decode_principal(value: bytes) -> PrincipalRecord:
    """Read a record. Raises: NewerFormat; CorruptLog for anything that is no such record."""
    try:
        record = json.loads(value)
        version = record["version"]
        if version != FORMAT_VERSION:
            raise NewerFormat(
                f"principal record has format {version}; this version supports formats up to 1"
            )
        return PrincipalRecord(
            principal=Principal(
                id=record["id"],
                number=record["number"],
                organisation=record["organisation"],
                team=record["team"],
                admin=record["admin"],
            ),
            created_ms=record["created_ms"],
            disabled=record["disabled"],
            refuse_replays=bool(record.get("refuse_replays", False)),  # absent in older records
            keys=tuple(
                KeyRecord(
                    key_id=key["key_id"],
                    sealed=base64.b64decode(key["sealed"]),
                    created_ms=key["created_ms"],
                    disabled=key["disabled"],
                )
                for key in record["keys"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid principal record: {error}") from error
