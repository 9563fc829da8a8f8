"""Records of data keys in the MetaStore: each is wrapped by a server key, never plain."""

import base64
from typing import Any, Final, NamedTuple

from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.catalog.records.record_index import record_path
from opentalos.ports.key_ring import KEY_ID_BYTES

ROOT: Final = "encryption"
TENANTS: Final = f"{ROOT}/tenants"  # below it a record per tenant
SERVER_KEY: Final = f"{ROOT}/server-key"  # which key wraps; its presence says: encrypted
FORMAT_VERSION: Final = 1


class WrappedKey(NamedTuple):
    """One version of a tenant's data key."""

    id: bytes
    created_ms: int
    by: str  # name of the server key that wraps it
    wrapped: bytes


class TenantRecord(NamedTuple):
    """All versions of one tenant's key; the last encrypts, the others only decrypt."""

    tenant: str
    keys: tuple[WrappedKey, ...]


def tenant_path(tenant: str) -> str:
    """Path of a tenant's record."""
    return f"{TENANTS}/{record_path(tenant)}"


def encode_tenant(record: TenantRecord) -> bytes:
    """The record's value."""
    keys = [
        {
            "id": key.id.hex(),
            "created_ms": key.created_ms,
            "by": key.by,
            "wrapped": base64.b64encode(key.wrapped).decode(),
        }
        for key in record.keys
    ]
    return encode_record(FORMAT_VERSION, tenant=record.tenant, keys=keys)


def decode_tenant(value: bytes) -> TenantRecord:
    """Read a record. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "data keys", _tenant)


def encode_server_key(name: str) -> bytes:
    """The record that names the server key which wraps all others."""
    return encode_record(FORMAT_VERSION, by=name)


def decode_server_key(value: bytes) -> str:
    """Name of the server key. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "the server key's name", _name)


def _tenant(record: Any) -> TenantRecord:
    keys = tuple(
        WrappedKey(
            bytes.fromhex(key["id"]),
            int(key["created_ms"]),
            str(key["by"]),
            base64.b64decode(key["wrapped"], validate=True),
        )
        for key in record["keys"]
    )
    if not keys or any(len(key.id) != KEY_ID_BYTES for key in keys):
        raise ValueError("no key, or a key id of a wrong length")
    return TenantRecord(str(record["tenant"]), keys)


def _name(record: Any) -> str:
    return str(record["by"])
