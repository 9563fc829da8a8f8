"""A table in memory that writes its stream, to compare what is replayed with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opentalos.model.change import Change, ChangeKind
from opentalos.model.datum import Columns, DataType
from opentalos.model.table import KeyPart, TableSchema
from opentalos.sdk.core.table.stream_state import StoredState
from opentalos.sdk.core.table.values import Row, plain_row, typed_columns

SCHEMA = TableSchema(
    primary=(KeyPart("id"),),
    attributes={"id": DataType.STRING, "n": DataType.INT64, "text": DataType.STRING},
)
TTL = TableSchema(primary=SCHEMA.primary, attributes=SCHEMA.attributes, ttl_s=2)
BEGIN_MS = 1_700_000_000_000


def typed(**values: Any) -> Columns:
    return typed_columns(SCHEMA.attributes, values)


@dataclass(eq=False)
class ModelRow:
    columns: dict[str, Any] | None = None
    timestamp_ms: int = 0
    sequence: int = 0


@dataclass(eq=False)
class ModelTable:
    """``changes``: the stream, in the order of the updates."""

    schema: TableSchema = SCHEMA
    now_ms: int = BEGIN_MS
    rows: dict[str, ModelRow] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def put(self, key: str, **columns: Any) -> Change:
        after = {**(self._before(key) or {}), **columns}
        return self._done(ChangeKind.PUT, key, after, columns)

    def increment(self, key: str, amount: int) -> Change:
        before = self._before(key) or {}
        value = before.get("n", 0) + amount
        changed = {"n": value}
        return self._done(ChangeKind.INCREMENT, key, before | changed, changed, n=amount)

    def remove(self, key: str, *columns: str) -> Change | None:
        before = self._before(key)
        removed = {name: (before or {})[name] for name in columns if name in (before or {})}
        if before is None or (columns and not removed):
            return None
        after = {n: v for n, v in before.items() if n not in removed} if columns else None
        return self._done(ChangeKind.DELETE, key, after, removed)

    def records(self) -> list[Row]:
        return sorted_rows(
            {"id": key} | before
            for key in self.rows
            if (before := self._before(key)) is not None
        )  # fmt: skip

    def states(self) -> Iterator[StoredState]:
        """What a scan with versions returns."""
        for key, row in self.rows.items():
            record = None if row.columns is None else {"id": key} | row.columns
            yield StoredState({"id": key}, record, row.timestamp_ms, row.sequence)

    def _before(self, key: str) -> dict[str, Any] | None:
        row = self.rows.get(key, ModelRow())
        ttl_ms = self.schema.ttl_s * 1000
        if ttl_ms > 0 and self.now_ms >= row.timestamp_ms + ttl_ms:
            return None
        return row.columns

    def _done(self, kind: ChangeKind, key: str, after: Any, changed: Any, **amounts: int) -> Change:
        row = self.rows.setdefault(key, ModelRow())
        row.columns, row.sequence = after, row.sequence + 1
        row.timestamp_ms = max(self.now_ms, row.timestamp_ms + 1)
        change = Change(
            kind=kind,
            key=typed(id=key),
            columns=typed(**changed),
            amounts=typed(**amounts),
            image=typed(**(after or {})),
            row_deleted=after is None,
            timestamp_ms=row.timestamp_ms,
            sequence=row.sequence,
        )
        self.changes.append(change)
        return change


def sorted_rows(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def key_of(change: Change) -> Any:
    return plain_row(change.key)["id"]
