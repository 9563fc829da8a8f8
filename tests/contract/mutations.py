"""Writes of a row, and one row read."""

import uuid
from collections.abc import Mapping

from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation, RowStore


def put(
    key: bytes,
    data: Mapping[bytes, bytes | None] | None = None,
    *,
    expected: int = ABSENT,
    pending: Mapping[bytes, bytes | None] | None = None,
    write_id: bytes | None = None,
) -> RowMutation:
    """A write with a write id of its own unless one is given."""
    return RowMutation(
        key=key,
        expected=expected,
        write_id=write_id or uuid.uuid4().bytes,
        data=data or {},
        pending=pending or {},
    )


def remove(key: bytes, expected: int, write_id: bytes | None = None) -> RowMutation:
    """A removal of the whole row."""
    return RowMutation(
        key=key, expected=expected, write_id=write_id or uuid.uuid4().bytes, delete=True
    )


async def one(
    store: RowStore, table: str, key: bytes, family: FamilyName = FamilyName.DATA
) -> Row | None:
    return (await store.get(table, [key], family=family))[0]
