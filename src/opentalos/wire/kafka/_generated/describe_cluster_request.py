"""Generated from idl/kafka/DescribeClusterRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT8,
    MAX,
    Field,
    KafkaStruct,
    struct_spec,
)


class DescribeClusterRequest(KafkaStruct, kw_only=True):
    """DescribeClusterRequest.json: DescribeClusterRequest."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


DescribeClusterRequest.SPEC = struct_spec(
    DescribeClusterRequest,
    (0, MAX),
    Field("include_cluster_authorized_operations", BOOL, (0, MAX)),
    Field("endpoint_type", INT8, (1, MAX)),
    Field("include_fenced_brokers", BOOL, (2, MAX)),
)

API_KEY = 60
VERSIONS = (0, 2)
