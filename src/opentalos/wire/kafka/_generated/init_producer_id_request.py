"""Generated from idl/kafka/InitProducerIdRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    INT64,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class InitProducerIdRequest(KafkaStruct, kw_only=True):
    """InitProducerIdRequest.json: InitProducerIdRequest."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


InitProducerIdRequest.SPEC = struct_spec(
    InitProducerIdRequest,
    (2, MAX),
    Field("transactional_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("transaction_timeout_ms", INT32, (0, MAX)),
    Field("producer_id", INT64, (3, MAX)),
    Field("producer_epoch", INT16, (3, MAX)),
    Field("enable2_pc", BOOL, (6, MAX)),
    Field("keep_prepared_txn", BOOL, (6, MAX)),
)

API_KEY = 22
VERSIONS = (0, 6)
