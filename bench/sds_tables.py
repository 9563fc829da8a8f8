"""Requests on structured tables for benchmarks, and the counts of their streams."""

import time
from typing import Any

from bench.client import BenchTopic, Client, signed_request
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_to
from opentalos.wire.thrift import ThriftProtocol, encode_call

GROUPS = 1_024  # entity groups; their hash distributes them over the shards
IDS = 4  # rows of a group
NOTE_BYTES = 100  # of a row's text
TYPES = {
    "grp": DataType.STRING,
    "id": DataType.INT64,
    "sent": DataType.INT64,
    "note": DataType.STRING,
}
KEYS = ("grp", "id")
CAPACITY = 100_000_000  # units per second: high enough to avoid throttling


class BenchTable:
    """A hashed table, and complete requests that put its rows."""

    def __init__(self, client: Client, name: str, *, shards: int, topic: BenchTopic | None) -> None:
        self.name, self.topic = name, topic
        spec = sds.StreamSpec(enableStream=True, viewType=sds.StreamViewType.MUTATE_LOG)
        schema = sds.TableSchema(
            entityGroup=sds.EntityGroupSpec(attributes=[sds.KeySpec(attribute="grp")]),
            primaryIndex=[sds.KeySpec(attribute="id")],
            attributes={column: sds.DataType(kind) for column, kind in TYPES.items()},
            preSplits=shards,
            streams={topic.name: spec} if topic else None,
        )
        capacity = sds.ProvisionThroughput(readCapacity=CAPACITY, writeCapacity=CAPACITY)
        metadata = sds.TableMetadata(throughput=capacity)
        made = sds.TableSpec(schema=schema, metadata=metadata)
        client.call(sds.ADMIN_SERVICE, "createTable", name, made)

    def put_requests(self, batch: int = 1) -> list[bytes]:
        """Signed puts of all rows; ``batch`` is the number of rows per call."""
        rows = [row(group, number) for number in range(IDS) for group in range(GROUPS)]
        if batch == 1:
            return [self._signed("put", self.put(row)) for row in rows]
        return [
            self._signed("batch", self._batch(rows[first : first + batch]))
            for first in range(0, len(rows), batch)
        ]

    def put(self, record: Columns) -> sds.PutRequest:
        """One row's put."""
        return sds.PutRequest(tableName=self.name, record=columns_to(record))

    def _batch(self, rows: list[Columns]) -> sds.BatchRequest:
        items = [
            sds.BatchRequestItem(
                action=sds.BatchOp.PUT, request=sds.Request(putRequest=self.put(row))
            )
            for row in rows
        ]
        return sds.BatchRequest(items=items)

    def _signed(self, name: str, request: Any) -> bytes:
        service = sds.TABLE_SERVICE
        # Binary, as the clients of SDS send it.
        body = encode_call(ThriftProtocol.BINARY, service.methods[name], 1, request)
        query = f"?id=00000001&type={name}&name={self.name}"
        return signed_request(service.path, body, query, ThriftProtocol.BINARY)


def row(group: int, number: int, sent_ns: int = 0) -> Columns:
    """A row's whole record."""
    return {
        "grp": Datum(DataType.STRING, f"group-{group:05}"),
        "id": Datum(DataType.INT64, number),
        "sent": Datum(DataType.INT64, sent_ns or time.monotonic_ns()),
        "note": Datum(DataType.STRING, "x" * NOTE_BYTES),
    }
