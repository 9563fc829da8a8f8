"""Generated from idl/kafka/ApiVersionsResponse.json by scripts/generate_kafka.py."""

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
    array_of,
    struct_of,
    struct_spec,
)


class ApiVersion(KafkaStruct, kw_only=True):
    """ApiVersionsResponse.json: ApiVersion."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(KafkaStruct, kw_only=True):
    """ApiVersionsResponse.json: SupportedFeatureKey."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0


class FinalizedFeatureKey(KafkaStruct, kw_only=True):
    """ApiVersionsResponse.json: FinalizedFeatureKey."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


class ApiVersionsResponse(KafkaStruct, kw_only=True):
    """ApiVersionsResponse.json: ApiVersionsResponse."""

    error_code: int = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = []
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = []
    zk_migration_ready: bool = False


ApiVersion.SPEC = struct_spec(
    ApiVersion,
    (3, MAX),
    Field("api_key", INT16, (0, MAX)),
    Field("min_version", INT16, (0, MAX)),
    Field("max_version", INT16, (0, MAX)),
)

SupportedFeatureKey.SPEC = struct_spec(
    SupportedFeatureKey,
    (3, MAX),
    Field("name", STRING, (3, MAX)),
    Field("min_version", INT16, (3, MAX)),
    Field("max_version", INT16, (3, MAX)),
)

FinalizedFeatureKey.SPEC = struct_spec(
    FinalizedFeatureKey,
    (3, MAX),
    Field("name", STRING, (3, MAX)),
    Field("max_version_level", INT16, (3, MAX)),
    Field("min_version_level", INT16, (3, MAX)),
)

ApiVersionsResponse.SPEC = struct_spec(
    ApiVersionsResponse,
    (3, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("api_keys", array_of(struct_of(ApiVersion)), (0, MAX)),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("supported_features", array_of(struct_of(SupportedFeatureKey)), (3, MAX), tag=0),
    Field("finalized_features_epoch", INT64, (3, MAX), tag=1),
    Field("finalized_features", array_of(struct_of(FinalizedFeatureKey)), (3, MAX), tag=2),
    Field("zk_migration_ready", BOOL, (3, MAX), tag=3),
)

API_KEY = 18
VERSIONS = (0, 4)
