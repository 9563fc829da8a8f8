"""Names of the row tables that a structured table lies in."""

from hashlib import blake2b

from opentalos.catalog.tables.table import Table

_DIGEST_BYTES = 8


def rows_of(table: Table) -> str:
    """Where its records are."""
    return f"sds.{table.uuid}"


def entries_of(table: Table, index: str) -> str:
    """Where the entries of one of its indexes are; an index may be called anything."""
    digest = blake2b(index.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"sds.{table.uuid}.{digest}"
