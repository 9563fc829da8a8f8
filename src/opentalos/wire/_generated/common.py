"""Generated from idl/common.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire.thrift.spec import (
    I32,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    enum_of,
    struct_of,
    struct_spec,
)


class HttpStatusCode(IntEnum):
    """common.thrift: enum HttpStatusCode."""

    BAD_REQUEST = 400
    INVALID_AUTH = 401
    CLOCK_TOO_SKEWED = 412
    REQUEST_TOO_LARGE = 413
    INTERNAL_ERROR = 500


class ErrorCode(IntEnum):
    """common.thrift: enum ErrorCode."""

    NO_ERROR = 0
    UNKNOWN = 1
    UNEXPECTED_ERROR = 2
    UNEXPECTED_MESSAGE_OFFSET = 3
    TOPIC_EXIST = 4
    TOPIC_NOT_EXIST = 5
    QUOTA_NOT_EXIST = 6
    LOCK_EXIST = 7
    LOCK_NOT_EXIST = 8
    LOCK_VALUE_NOT_EXPECTED = 9
    MESSAGE_MISSING = 10
    MESSAGE_INCOMPLETE = 11
    MESSAGE_INDEX_UNDESIRED_ERROR = 12
    MESSAGE_INDEX_NOT_EXIST = 13
    MESSAGE_OFFSET_OUT_OF_RANGE = 14
    INVALID_NAME_ERROR = 15
    INVALID_TOPIC_PARAMS = 16
    OPERATION_FAILED = 17
    HDFS_OPERATION_FAILED = 18
    HBASE_OPERATION_FAILED = 19
    ZOOKEEPER_OPERATION_FAILED = 20
    PARTITION_NOT_SERVING = 21
    PARTITION_NOT_EXIST = 22
    ZK_NODE_EXIST = 23
    ZK_NODE_NOT_EXIST = 24
    REST_SERVER_INIT_ERROR = 25
    INTERNAL_SERVER_ERROR = 26
    EXCESSIVE_PENDING_MESSAGE = 27
    PERMISSION_DENIED_ERROR = 28
    HDFS_FILE_NOT_EXIST = 29
    INVALID_AUTH_INFO = 30
    SUB_RESOURCE_NAME_EXIST = 31
    SUB_RESOURCE_NAME_NOT_EXIST = 32
    REQUEST_PROCESS_TIMEOUT = 33
    QUOTA_EXCEEDED = 34
    THROTTLE_REJECT_ERROR = 35
    QUOTA_AUTO_APPROVE_FAILED = 36
    HBASE_OPERATION_BLOCKED = 37
    CLOCK_TOO_SKEWED = 38
    REQUEST_TOO_LARGE = 39
    BAD_REQUEST = 40
    CONSUMER_NOT_EXIST = 41
    TRANSACTION_FINISHED = 42
    TRANSACTION_NOT_EXIST = 43
    GET_DATA_PREVIEW_ERROR = 44
    TALOS_SCHEMA_ERROR = 45
    SOURCE_ClUSTER_LIST_HAS_CIRCLE = 46
    PUT_MESSAGE_FAILED_TO_MIRROR_PARTITION = 47
    NOT_TRANSACTION_TOPIC_ERROR = 48
    TRANSACTION_ACK_DUPLICATED = 49
    CHANGE_PARTITION_TOO_FAST = 50
    TOO_MANY_CONSUMER = 51
    CONSUMER_GROUP_STILL_WORKING = 52


class RetryType(IntEnum):
    """common.thrift: enum RetryType."""

    SAFE = 0
    UNSAFE = 1


class GalaxyTalosException(ThriftStruct, kw_only=True):
    """common.thrift: GalaxyTalosException."""

    errorCode: ErrorCode | int | None = None
    errMsg: str | None = None
    details: str | None = None


class Version(ThriftStruct, kw_only=True):
    """common.thrift: Version."""

    major: int = 1
    minor: int
    revision: int
    date: str = "19700101"
    details: str = ""


GalaxyTalosException.SPEC = struct_spec(
    GalaxyTalosException,
    Field(1, "errorCode", enum_of(ErrorCode)),
    Field(2, "errMsg", STRING),
    Field(3, "details", STRING),
)
Version.SPEC = struct_spec(
    Version,
    Field(1, "major", I32),
    Field(2, "minor", I32, required=True),
    Field(3, "revision", I32, required=True),
    Field(4, "date", STRING),
    Field(5, "details", STRING),
)

TALOS_BASE_SERVICE = ServiceSpec(
    "TalosBaseService",
    "",
    {
        "getServiceVersion": MethodSpec(
            "getServiceVersion",
            (),
            struct_of(Version),
            GalaxyTalosException,
        ),
        "validClientVersion": MethodSpec(
            "validClientVersion",
            (Field(1, "clientVersion", struct_of(Version)),),
            None,
            GalaxyTalosException,
        ),
    },
)
