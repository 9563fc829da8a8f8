"""Generated from idl/kafka/DescribeClusterResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class DescribeClusterBroker(KafkaStruct, kw_only=True):
    """DescribeClusterResponse.json: DescribeClusterBroker."""

    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


class DescribeClusterResponse(KafkaStruct, kw_only=True):
    """DescribeClusterResponse.json: DescribeClusterResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: int = -2147483648


DescribeClusterBroker.SPEC = struct_spec(
    DescribeClusterBroker,
    (0, MAX),
    Field("broker_id", INT32, (0, MAX)),
    Field("host", STRING, (0, MAX)),
    Field("port", INT32, (0, MAX)),
    Field("rack", STRING, (0, MAX), nullable=(0, MAX)),
    Field("is_fenced", BOOL, (2, MAX)),
)

DescribeClusterResponse.SPEC = struct_spec(
    DescribeClusterResponse,
    (0, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("endpoint_type", INT8, (1, MAX)),
    Field("cluster_id", STRING, (0, MAX)),
    Field("controller_id", INT32, (0, MAX)),
    Field("brokers", array_of(struct_of(DescribeClusterBroker)), (0, MAX)),
    Field("cluster_authorized_operations", INT32, (0, MAX)),
)

API_KEY = 60
VERSIONS = (0, 2)
