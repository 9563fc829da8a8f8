"""Splits fetched tables by the schema fingerprint that producers set."""

from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc

from opentalos.model.errors import BadRequest


def parts_by_fingerprint(table: Any, known: Iterable[str | None]) -> list[tuple[str | None, Any]]:
    """Each fingerprint of the table with its rows, in their order; None: without one.

    Raises: BadRequest: a fingerprint is not known.
    """
    column = table["schema_fingerprint"]
    found = sorted(pc.unique(column).to_pylist(), key=lambda name: (name is not None, name))
    missing = [name for name in found if name not in set(known)]
    if missing:
        shown = ", ".join("none" if name is None else name for name in missing)
        raise BadRequest(f"there is no schema for the fingerprint {shown}; add it to schemas")
    return [
        (name, table.filter(pc.is_null(column) if name is None else pc.equal(column, name)))
        for name in found
    ]
