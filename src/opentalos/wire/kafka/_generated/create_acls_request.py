"""Generated from idl/kafka/CreateAclsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class AclCreation(KafkaStruct, kw_only=True):
    """CreateAclsRequest.json: AclCreation."""

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class CreateAclsRequest(KafkaStruct, kw_only=True):
    """CreateAclsRequest.json: CreateAclsRequest."""

    creations: list[AclCreation] = []


AclCreation.SPEC = struct_spec(
    AclCreation,
    (2, MAX),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("resource_pattern_type", INT8, (1, MAX)),
    Field("principal", STRING, (0, MAX)),
    Field("host", STRING, (0, MAX)),
    Field("operation", INT8, (0, MAX)),
    Field("permission_type", INT8, (0, MAX)),
)

CreateAclsRequest.SPEC = struct_spec(
    CreateAclsRequest,
    (2, MAX),
    Field("creations", array_of(struct_of(AclCreation)), (0, MAX)),
)

API_KEY = 30
VERSIONS = (1, 3)
