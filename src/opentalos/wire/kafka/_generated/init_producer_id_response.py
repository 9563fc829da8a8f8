"""Generated from idl/kafka/InitProducerIdResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    INT64,
    MAX,
    Field,
    KafkaStruct,
    struct_spec,
)


class InitProducerIdResponse(KafkaStruct, kw_only=True):
    """InitProducerIdResponse.json: InitProducerIdResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


InitProducerIdResponse.SPEC = struct_spec(
    InitProducerIdResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("producer_id", INT64, (0, MAX)),
    Field("producer_epoch", INT16, (0, MAX)),
    Field("ongoing_txn_producer_id", INT64, (6, MAX)),
    Field("ongoing_txn_producer_epoch", INT16, (6, MAX)),
)

API_KEY = 22
VERSIONS = (0, 6)
