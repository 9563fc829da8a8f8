"""Generated from idl/sds.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire.thrift.spec import (
    BINARY,
    BOOL,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    enum_of,
    list_of,
    map_of,
    struct_of,
    struct_spec,
)


class AppUserAuthProvider(IntEnum):
    """sds.thrift: enum AppUserAuthProvider."""

    XIAOMI_SSO = 1
    XIAOMI_OAUTH = 2
    QQ_OAUTH = 3
    SINA_OAUTH = 4
    RENREN_OAUTH = 5
    WEIXIN_OAUTH = 6


class BatchOp(IntEnum):
    """sds.thrift: enum BatchOp."""

    GET = 1
    PUT = 2
    INCREMENT = 3
    REMOVE = 4


class CannedAcl(IntEnum):
    """sds.thrift: enum CannedAcl."""

    APP_SECRET_READ = 1
    APP_SECRET_WRITE = 2
    APP_USER_ENTITY_GROUP_READ = 3
    APP_USER_ENTITY_GROUP_WRITE = 4
    APP_USER_READ = 5
    APP_USER_WRITE = 6
    PUBLIC_READ = 7
    PUBLIC_WRITE = 8


class ClientMetricType(IntEnum):
    """sds.thrift: enum ClientMetricType."""

    Letency = 1


class ColdStandByCycle(IntEnum):
    """sds.thrift: enum ColdStandByCycle."""

    WEEK = 1
    MONTH = 2
    QUARTER = 3
    HALF_YEAR = 4
    YEAR = 5


class ConsistencyLevel(IntEnum):
    """sds.thrift: enum ConsistencyLevel."""

    STRONG = 0
    EVENTUAL = 1
    WEAK = 2


class DataType(IntEnum):
    """sds.thrift: enum DataType."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    STRING = 8
    BINARY = 9
    RAWBINARY = 10
    BOOL_SET = 100
    INT8_SET = 101
    INT16_SET = 102
    INT32_SET = 103
    INT64_SET = 104
    FLOAT_SET = 105
    DOUBLE_SET = 106
    STRING_SET = 107
    BINARY_SET = 108


class ErrorCode(IntEnum):
    """sds.thrift: enum ErrorCode."""

    INTERNAL_ERROR = 1
    SERVICE_UNAVAILABLE = 2
    UNKNOWN = 3
    END_OF_INTERNAL_ERROR = 20
    ACCESS_DENIED = 21
    VALIDATION_FAILED = 22
    SIZE_EXCEED = 23
    QUOTA_EXCEED = 24
    THROUGHPUT_EXCEED = 25
    RESOURCE_NOT_FOUND = 26
    RESOURCE_ALREADY_EXISTS = 27
    RESOURCE_UNAVAILABLE = 28
    UNSUPPORTED_VERSION = 29
    UNSUPPORTED_OPERATION = 30
    INVALID_AUTH = 31
    CLOCK_TOO_SKEWED = 32
    REQUEST_TOO_LARGE = 33
    BAD_REQUEST = 34
    TTRANSPORT_ERROR = 35
    UNSUPPORTED_TPROTOCOL = 36
    REQUEST_TIMEOUT = 37


class HttpStatusCode(IntEnum):
    """sds.thrift: enum HttpStatusCode."""

    BAD_REQUEST = 400
    INVALID_AUTH = 401
    CLOCK_TOO_SKEWED = 412
    REQUEST_TOO_LARGE = 413
    INTERNAL_ERROR = 500


class LatencyMetricType(IntEnum):
    """sds.thrift: enum LatencyMetricType."""

    ExecutionTime = 1


class MacAlgorithm(IntEnum):
    """sds.thrift: enum MacAlgorithm."""

    HmacMD5 = 1
    HmacSHA1 = 2
    HmacSHA256 = 3


class MetricKey(IntEnum):
    """sds.thrift: enum MetricKey."""

    METER_METRIC_MIN = 0
    READ_ALLOWED = 1
    READ_THROTTLED = 2
    WRITE_ALLOWED = 3
    WRITE_THROTTLED = 4
    ACTION_SUCCESS = 5
    ACTION_CLIENT_ERROR = 6
    ACTION_SYSTEM_ERROR = 7
    METER_METRIC_MAX = 49
    HISTOGRAM_METRIC_MIN = 50
    CREATE_LATENCY = 51
    DROP_LATENCY = 52
    DESCRIBE_LATENCY = 53
    ALTER_LATENCY = 54
    ENABLE_LATENCY = 55
    DISABLE_LATENCY = 56
    METRICQUERY_LATENCY = 57
    GET_LATENCY = 58
    PUT_LATENCY = 59
    INCREMENT_LATENCY = 60
    DELETE_LATENCY = 61
    SCAN_LATENCY = 62
    BATCH_LATENCY = 63
    HISTOGRAM_METRIC_MAX = 100


class MetricType(IntEnum):
    """sds.thrift: enum MetricType."""

    COUNT = 1
    M1_RATE = 2
    M5_RATE = 3
    M15_RATE = 4
    MEAN = 5
    STDDEV = 6
    P50 = 7
    P75 = 8
    P95 = 9
    P98 = 10
    P99 = 11


class MutationType(IntEnum):
    """sds.thrift: enum MutationType."""

    PUT = 1
    DELETE = 2
    INCREMENT = 3


class OperatorType(IntEnum):
    """sds.thrift: enum OperatorType."""

    EQUAL = 1
    NOT_EQUAL = 2
    GREATER = 3
    GREATER_OR_EQUAL = 4
    LESS = 5
    LESS_OR_EQUAL = 6


class Permission(IntEnum):
    """sds.thrift: enum Permission."""

    READ = 1
    WRITE = 2
    ADMIN = 3
    QUOTA_ADMIN = 4
    DESCRIBE_ADMIN = 5


class RetryType(IntEnum):
    """sds.thrift: enum RetryType."""

    SAFE = 0
    UNSAFE = 1


class SLFileType(IntEnum):
    """sds.thrift: enum SLFileType."""

    DATUM_MAP = 1
    RC_BASIC = 2


class ScanOp(IntEnum):
    """sds.thrift: enum ScanOp."""

    COUNT = 0
    DELETE = 1
    UPDATE = 2


class SecondaryIndexConsistencyMode(IntEnum):
    """sds.thrift: enum SecondaryIndexConsistencyMode."""

    LAZY = 0
    EAGER = 1
    IMMUTABLE = 2


class SnapshotState(IntEnum):
    """sds.thrift: enum SnapshotState."""

    ENABLED = 1
    INPROGRESS = 2
    RESTORED = 3
    UPLOADING = 4
    UPLOADED = 5


class SnapshotType(IntEnum):
    """sds.thrift: enum SnapshotType."""

    USER = 1
    SYSTEM = 2
    PITR = 3
    COLDSTANDBY = 4


class StreamViewType(IntEnum):
    """sds.thrift: enum StreamViewType."""

    RECORD_IMAGE = 1
    MUTATE_LOG = 2
    KEYS_ONLY = 3


class TableState(IntEnum):
    """sds.thrift: enum TableState."""

    CREATING = 1
    ENABLING = 2
    ENABLED = 3
    DISABLING = 4
    DISABLED = 5
    DELETING = 6
    DELETED = 7
    LAZY_DELETE = 8
    RENAMING = 9
    RECOVERING = 10


class ThriftProtocol(IntEnum):
    """sds.thrift: enum ThriftProtocol."""

    TCOMPACT = 0
    TJSON = 1
    TBINARY = 2
    TBINARYACCELERATED = 3


class TimeSpanUnit(IntEnum):
    """sds.thrift: enum TimeSpanUnit."""

    SECONDS = 1
    MINUTES = 2
    HOURS = 3


class UserType(IntEnum):
    """sds.thrift: enum UserType."""

    DEV_XIAOMI_SSO = 1
    DEV_XIAOMI = 2
    APP_SECRET = 10
    APP_ACCESS_TOKEN = 11
    APP_XIAOMI_SSO = 12
    APP_ANONYMOUS = 13


class ServiceException(ThriftStruct, kw_only=True):
    """sds.thrift: ServiceException."""

    errorCode: ErrorCode | int | None = None
    errorMessage: str | None = None
    details: str | None = None
    callId: str | None = None
    requestId: str | None = None


class Version(ThriftStruct, kw_only=True):
    """sds.thrift: Version."""

    major: int = 1
    minor: int = 0
    patch: str = ""
    comments: str = ""


class Credential(ThriftStruct, kw_only=True):
    """sds.thrift: Credential."""

    type: UserType | int | None = None
    secretKeyId: str | None = None
    secretKey: str | None = None


class Value(ThriftStruct, kw_only=True):
    """sds.thrift: Value."""

    boolValue: bool | None = None
    int8Value: int | None = None
    int16Value: int | None = None
    int32Value: int | None = None
    int64Value: int | None = None
    doubleValue: float | None = None
    stringValue: str | None = None
    binaryValue: bytes | None = None
    boolSetValue: list[bool] | None = None
    int8SetValue: list[int] | None = None
    int16SetValue: list[int] | None = None
    int32SetValue: list[int] | None = None
    int64SetValue: list[int] | None = None
    doubleSetValue: list[float] | None = None
    stringSetValue: list[str] | None = None
    binarySetValue: list[bytes] | None = None
    nullValue: bool | None = None


class Datum(ThriftStruct, kw_only=True):
    """sds.thrift: Datum."""

    type: DataType | int | None = None
    value: Value | None = None


class KeySpec(ThriftStruct, kw_only=True):
    """sds.thrift: KeySpec."""

    attribute: str | None = None
    asc: bool = True


class EntityGroupSpec(ThriftStruct, kw_only=True):
    """sds.thrift: EntityGroupSpec."""

    attributes: list[KeySpec] | None = None
    enableHash: bool = True


class LocalSecondaryIndexSpec(ThriftStruct, kw_only=True):
    """sds.thrift: LocalSecondaryIndexSpec."""

    indexSchema: list[KeySpec] | None = None
    projections: list[str] | None = None
    consistencyMode: SecondaryIndexConsistencyMode | int = SecondaryIndexConsistencyMode.LAZY
    unique: bool = False


class StreamSpec(ThriftStruct, kw_only=True):
    """sds.thrift: StreamSpec."""

    enableStream: bool | None = None
    viewType: StreamViewType | int | None = None
    attributes: list[str] | None = None


class ProvisionThroughput(ThriftStruct, kw_only=True):
    """sds.thrift: ProvisionThroughput."""

    readCapacity: int | None = None
    writeCapacity: int | None = None


class AutoScaling(ThriftStruct, kw_only=True):
    """sds.thrift: AutoScaling."""

    enableWriteAutoScaling: bool | None = None
    writeCapacityMax: int | None = None
    writeCapacityMin: int | None = None
    writeTargetUtilizationRatio: float | None = None
    enableReadAutoScaling: bool | None = None
    readCapacityMax: int | None = None
    readCapacityMin: int | None = None
    readTargetUtilizationRatio: float | None = None


class GlobalSecondaryIndexSpec(ThriftStruct, kw_only=True):
    """sds.thrift: GlobalSecondaryIndexSpec."""

    indexEntityGroup: EntityGroupSpec | None = None
    indexPrimaryKey: list[KeySpec] | None = None
    projections: list[str] | None = None
    consistencyLevel: ConsistencyLevel | int = ConsistencyLevel.STRONG
    unique: bool = False
    throughput: ProvisionThroughput | None = None
    slaveThroughput: ProvisionThroughput | None = None
    exceededThroughput: ProvisionThroughput | None = None
    exceededSlaveThroughput: ProvisionThroughput | None = None
    preSplits: int = 1
    autoScaling: AutoScaling | None = None


class TableSchema(ThriftStruct, kw_only=True):
    """sds.thrift: TableSchema."""

    version: int | None = None
    entityGroup: EntityGroupSpec | None = None
    primaryIndex: list[KeySpec] | None = None
    secondaryIndexes: dict[str, LocalSecondaryIndexSpec] | None = None
    attributes: dict[str, DataType | int] | None = None
    ttl: int = -1
    preSplits: int = 1
    streams: dict[str, StreamSpec] | None = None
    globalSecondaryIndexes: dict[str, GlobalSecondaryIndexSpec] | None = None
    enableTransaction: bool | None = None


class TableQuota(ThriftStruct, kw_only=True):
    """sds.thrift: TableQuota."""

    size: int | None = None


class PointInTimeRecovery(ThriftStruct, kw_only=True):
    """sds.thrift: PointInTimeRecovery."""

    enablePointInTimeRecovery: bool | None = None
    topicName: str | None = None
    ttl: int | None = None
    snapshotPeriod: int | None = None
    createdTimestamp: int | None = None
    timeToArchive: int | None = None


class ColdStandBy(ThriftStruct, kw_only=True):
    """sds.thrift: ColdStandBy."""

    enableColdStandBy: bool | None = None
    coldStandBySize: int | None = None
    coldStandByCycle: ColdStandByCycle | int | None = None


class TableMetadata(ThriftStruct, kw_only=True):
    """sds.thrift: TableMetadata."""

    tableId: str | None = None
    developerId: str | None = None
    appAcl: dict[str, list[CannedAcl | int]] | None = None
    quota: TableQuota | None = None
    throughput: ProvisionThroughput | None = None
    description: str | None = None
    stream: StreamSpec | None = None
    enableSysSnapshot: bool | None = None
    exceededThroughput: ProvisionThroughput | None = None
    slaveThroughput: ProvisionThroughput | None = None
    exceededSlaveThroughput: ProvisionThroughput | None = None
    acl: dict[str, list[Permission | int]] | None = None
    spaceId: str | None = None
    enableEgAcl: bool = False
    pitr: PointInTimeRecovery | None = None
    softDeletedTtl: int | None = None
    coldStandBy: ColdStandBy | None = None
    autoScaling: AutoScaling | None = None


class TableSpec(ThriftStruct, kw_only=True):
    """sds.thrift: TableSpec."""

    schema: TableSchema | None = None
    metadata: TableMetadata | None = None
    expectedVersion: int | None = None


class SimpleCondition(ThriftStruct, kw_only=True):
    """sds.thrift: SimpleCondition."""

    operator: OperatorType | int | None = None
    field: str | None = None
    value: Datum | None = None
    rowExist: bool | None = None


class GetRequest(ThriftStruct, kw_only=True):
    """sds.thrift: GetRequest."""

    tableName: str | None = None
    keys: dict[str, Datum] | None = None
    attributes: list[str] | None = None


class PutRequest(ThriftStruct, kw_only=True):
    """sds.thrift: PutRequest."""

    tableName: str | None = None
    record: dict[str, Datum] | None = None
    condition: SimpleCondition | None = None


class IncrementRequest(ThriftStruct, kw_only=True):
    """sds.thrift: IncrementRequest."""

    tableName: str | None = None
    keys: dict[str, Datum] | None = None
    amounts: dict[str, Datum] | None = None


class RemoveRequest(ThriftStruct, kw_only=True):
    """sds.thrift: RemoveRequest."""

    tableName: str | None = None
    keys: dict[str, Datum] | None = None
    attributes: list[str] | None = None
    condition: SimpleCondition | None = None


class Request(ThriftStruct, kw_only=True):
    """sds.thrift: Request."""

    getRequest: GetRequest | None = None
    putRequest: PutRequest | None = None
    incrementRequest: IncrementRequest | None = None
    removeRequest: RemoveRequest | None = None


class ScanAction(ThriftStruct, kw_only=True):
    """sds.thrift: ScanAction."""

    action: ScanOp | int | None = None
    request: Request | None = None


class ScanRequest(ThriftStruct, kw_only=True):
    """sds.thrift: ScanRequest."""

    tableName: str | None = None
    indexName: str | None = None
    startKey: dict[str, Datum] | None = None
    stopKey: dict[str, Datum] | None = None
    attributes: list[str] | None = None
    condition: str | None = None
    limit: int = 10
    reverse: bool = False
    inGlobalOrder: bool = True
    cacheResult: bool = True
    lookAheadStep: int = 0
    action: ScanAction | None = None
    withVersions: bool | None = None


class BatchRequestItem(ThriftStruct, kw_only=True):
    """sds.thrift: BatchRequestItem."""

    action: BatchOp | int | None = None
    request: Request | None = None


class BatchRequest(ThriftStruct, kw_only=True):
    """sds.thrift: BatchRequest."""

    items: list[BatchRequestItem] | None = None


class GetResult(ThriftStruct, kw_only=True):
    """sds.thrift: GetResult."""

    item: dict[str, Datum] | None = None


class PutResult(ThriftStruct, kw_only=True):
    """sds.thrift: PutResult."""

    success: bool | None = None


class IncrementResult(ThriftStruct, kw_only=True):
    """sds.thrift: IncrementResult."""

    amounts: dict[str, Datum] | None = None


class RemoveResult(ThriftStruct, kw_only=True):
    """sds.thrift: RemoveResult."""

    success: bool | None = None


class Result(ThriftStruct, kw_only=True):
    """sds.thrift: Result."""

    getResult: GetResult | None = None
    putResult: PutResult | None = None
    incrementResult: IncrementResult | None = None
    removeResult: RemoveResult | None = None


class BatchResultItem(ThriftStruct, kw_only=True):
    """sds.thrift: BatchResultItem."""

    action: BatchOp | int | None = None
    success: bool | None = None
    result: Result | None = None
    serviceException: ServiceException | None = None


class BatchResult(ThriftStruct, kw_only=True):
    """sds.thrift: BatchResult."""

    items: list[BatchResultItem] | None = None


class ScanResult(ThriftStruct, kw_only=True):
    """sds.thrift: ScanResult."""

    nextStartKey: dict[str, Datum] | None = None
    records: list[dict[str, Datum]] | None = None
    throttled: bool | None = None
    timestamps: list[int] | None = None
    sequences: list[int] | None = None
    removed: list[bool] | None = None


class MutationLogEntry(ThriftStruct, kw_only=True):
    """sds.thrift: MutationLogEntry."""

    record: dict[str, Datum] | None = None
    type: MutationType | int | None = None
    rowDeleted: bool | None = None
    timestamp: int | None = None
    amounts: dict[str, Datum] | None = None
    tableName: str | None = None


class RecordImage(ThriftStruct, kw_only=True):
    """sds.thrift: RecordImage."""

    record: dict[str, Datum] | None = None
    rowDeleted: bool | None = None
    timestamp: int | None = None
    tableName: str | None = None


class KeysOnlyEntry(ThriftStruct, kw_only=True):
    """sds.thrift: KeysOnlyEntry."""

    record: dict[str, Datum] | None = None
    timestamp: int | None = None
    tableName: str | None = None


class AppInfo(ThriftStruct, kw_only=True):
    """sds.thrift: AppInfo."""

    appId: str | None = None
    developerId: str | None = None
    tableMappings: dict[str, str] | None = None
    oauthAppMapping: dict[str, str] | None = None
    appName: str | None = None


class MetricData(ThriftStruct, kw_only=True):
    """sds.thrift: MetricData."""

    clientMetricType: ClientMetricType | int | None = None
    metricName: str | None = None
    value: int | None = None
    timeStamp: int | None = None


class ClientMetrics(ThriftStruct, kw_only=True):
    """sds.thrift: ClientMetrics."""

    metricDataList: list[MetricData] | None = None


class DatumMap(ThriftStruct, kw_only=True):
    """sds.thrift: DatumMap."""

    data: dict[str, Datum] | None = None


class DatumMapMeta(ThriftStruct, kw_only=True):
    """sds.thrift: DatumMapMeta."""

    keyIdMap: dict[int, str] | None = None


class DatumMapRecord(ThriftStruct, kw_only=True):
    """sds.thrift: DatumMapRecord."""

    data: dict[int, Datum] | None = None
    keyIdMap: dict[int, str] | None = None


class GrantRule(ThriftStruct, kw_only=True):
    """sds.thrift: GrantRule."""

    grantRule: dict[str, dict[str, list[Permission | int]]] | None = None


class HttpAuthorizationHeader(ThriftStruct, kw_only=True):
    """sds.thrift: HttpAuthorizationHeader."""

    version: str = "SDS-V1"
    userType: UserType | int = UserType.APP_ANONYMOUS
    secretKeyId: str | None = None
    secretKey: str | None = None
    signature: str | None = None
    algorithm: MacAlgorithm | int | None = None
    signedHeaders: list[str] = []
    supportAccountKey: bool = False


class MetricQueryRequest(ThriftStruct, kw_only=True):
    """sds.thrift: MetricQueryRequest."""

    tableName: str | None = None
    startTime: int | None = None
    stopTime: int | None = None
    metricKey: MetricKey | int | None = None
    metricType: MetricType | int | None = None
    downsampleInterval: int | None = None
    downsampleTimeUnit: TimeSpanUnit | int | None = None


class OAuthInfo(ThriftStruct, kw_only=True):
    """sds.thrift: OAuthInfo."""

    xiaomiAppId: str | None = None
    appUserAuthProvider: AppUserAuthProvider | int | None = None
    accessToken: str | None = None
    openId: str | None = None
    macKey: str | None = None
    macAlgorithm: str | None = None


class QuotaApply(ThriftStruct, kw_only=True):
    """sds.thrift: QuotaApply."""

    orgId: str | None = None
    tableNum: int | None = None
    tableSizeInGB: int | None = None
    readQuota: int | None = None
    writeQuota: int | None = None
    timestamp: int | None = None
    slaveReadQuota: int | None = None
    slaveWriteQuota: int | None = None
    comName: str | None = None
    applyUserName: str | None = None
    status: int | None = None
    applyId: str | None = None
    message: str | None = None


class QuotaInfo(ThriftStruct, kw_only=True):
    """sds.thrift: QuotaInfo."""

    accountId: str | None = None
    tableNum: int | None = None
    tableNumUsed: int | None = None
    space: int | None = None
    spaceUsed: int | None = None
    readCapacity: int | None = None
    readCapacityUsed: int | None = None
    writeCapacity: int | None = None
    writeCapacityUsed: int | None = None
    slaveReadCapacity: int | None = None
    slaveReadCapacityUsed: int | None = None
    slaveWriteCapacity: int | None = None
    slaveWriteCapacityUsed: int | None = None


class RCBasicMeta(ThriftStruct, kw_only=True):
    """sds.thrift: RCBasicMeta."""

    keys: list[str] | None = None
    types: dict[str, DataType | int] | None = None


class RCBasicRowGroupHeader(ThriftStruct, kw_only=True):
    """sds.thrift: RCBasicRowGroupHeader."""

    count: int | None = None
    offset: list[int] | None = None


class SLFileMeta(ThriftStruct, kw_only=True):
    """sds.thrift: SLFileMeta."""

    type: SLFileType | int | None = None
    datumMapMeta: DatumMapMeta | None = None
    rcBasicMeta: RCBasicMeta | None = None


class Snapshot(ThriftStruct, kw_only=True):
    """sds.thrift: Snapshot."""

    snapshotName: str | None = None
    snapshotState: SnapshotState | int | None = None


class SnapshotTableView(ThriftStruct, kw_only=True):
    """sds.thrift: SnapshotTableView."""

    tableName: str | None = None
    tableExist: bool | None = None
    deleteTime: int | None = None


class TopicPartitionState(ThriftStruct, kw_only=True):
    """sds.thrift: TopicPartitionState."""

    partitionId: int | None = None
    offset: int | None = None


class StreamCheckpoint(ThriftStruct, kw_only=True):
    """sds.thrift: StreamCheckpoint."""

    timestamp: int | None = None
    topicName: str | None = None
    partitionStates: list[TopicPartitionState] | None = None
    enabling: int | None = None


class TableStatus(ThriftStruct, kw_only=True):
    """sds.thrift: TableStatus."""

    state: TableState | int | None = None
    createTime: int | None = None
    alterTime: int | None = None
    statTime: int | None = None
    size: int | None = None
    rowCount: int | None = None


class TableInfo(ThriftStruct, kw_only=True):
    """sds.thrift: TableInfo."""

    name: str | None = None
    spec: TableSpec | None = None
    status: TableStatus | None = None


class TableSnapshots(ThriftStruct, kw_only=True):
    """sds.thrift: TableSnapshots."""

    tableName: str | None = None
    sysSnapshots: list[Snapshot] | None = None
    userSnapshots: list[Snapshot] | None = None
    pitrSnapshots: list[Snapshot] | None = None
    coldStandBySnapshots: list[Snapshot] | None = None


class TableSplit(ThriftStruct, kw_only=True):
    """sds.thrift: TableSplit."""

    startKey: dict[str, Datum] | None = None
    stopKey: dict[str, Datum] | None = None


class TimeSeriesData(ThriftStruct, kw_only=True):
    """sds.thrift: TimeSeriesData."""

    tableName: str | None = None
    metricKey: MetricKey | int | None = None
    metricType: MetricType | int | None = None
    data: dict[int, float] | None = None


class Transaction(ThriftStruct, kw_only=True):
    """sds.thrift: Transaction."""

    startTs: int | None = None


ServiceException.SPEC = struct_spec(
    ServiceException,
    Field(1, "errorCode", enum_of(ErrorCode)),
    Field(2, "errorMessage", STRING),
    Field(3, "details", STRING),
    Field(4, "callId", STRING),
    Field(5, "requestId", STRING),
)
Version.SPEC = struct_spec(
    Version,
    Field(1, "major", I32),
    Field(2, "minor", I32),
    Field(3, "patch", STRING),
    Field(4, "comments", STRING),
)
Credential.SPEC = struct_spec(
    Credential,
    Field(1, "type", enum_of(UserType)),
    Field(2, "secretKeyId", STRING),
    Field(3, "secretKey", STRING),
)
Value.SPEC = struct_spec(
    Value,
    Field(1, "boolValue", BOOL),
    Field(2, "int8Value", BYTE),
    Field(3, "int16Value", I16),
    Field(4, "int32Value", I32),
    Field(5, "int64Value", I64),
    Field(6, "doubleValue", DOUBLE),
    Field(7, "stringValue", STRING),
    Field(8, "binaryValue", BINARY),
    Field(9, "boolSetValue", list_of(BOOL)),
    Field(10, "int8SetValue", list_of(BYTE)),
    Field(11, "int16SetValue", list_of(I16)),
    Field(12, "int32SetValue", list_of(I32)),
    Field(13, "int64SetValue", list_of(I64)),
    Field(14, "doubleSetValue", list_of(DOUBLE)),
    Field(15, "stringSetValue", list_of(STRING)),
    Field(16, "binarySetValue", list_of(BINARY)),
    Field(20, "nullValue", BOOL),
)
Datum.SPEC = struct_spec(
    Datum,
    Field(1, "type", enum_of(DataType)),
    Field(2, "value", struct_of(Value)),
)
KeySpec.SPEC = struct_spec(
    KeySpec,
    Field(1, "attribute", STRING),
    Field(2, "asc", BOOL),
)
EntityGroupSpec.SPEC = struct_spec(
    EntityGroupSpec,
    Field(1, "attributes", list_of(struct_of(KeySpec))),
    Field(2, "enableHash", BOOL),
)
LocalSecondaryIndexSpec.SPEC = struct_spec(
    LocalSecondaryIndexSpec,
    Field(1, "indexSchema", list_of(struct_of(KeySpec))),
    Field(2, "projections", list_of(STRING)),
    Field(3, "consistencyMode", enum_of(SecondaryIndexConsistencyMode)),
    Field(4, "unique", BOOL),
)
StreamSpec.SPEC = struct_spec(
    StreamSpec,
    Field(1, "enableStream", BOOL),
    Field(2, "viewType", enum_of(StreamViewType)),
    Field(3, "attributes", list_of(STRING)),
)
ProvisionThroughput.SPEC = struct_spec(
    ProvisionThroughput,
    Field(1, "readCapacity", I64),
    Field(2, "writeCapacity", I64),
)
AutoScaling.SPEC = struct_spec(
    AutoScaling,
    Field(1, "enableWriteAutoScaling", BOOL),
    Field(2, "writeCapacityMax", I64),
    Field(3, "writeCapacityMin", I64),
    Field(4, "writeTargetUtilizationRatio", DOUBLE),
    Field(5, "enableReadAutoScaling", BOOL),
    Field(6, "readCapacityMax", I64),
    Field(7, "readCapacityMin", I64),
    Field(8, "readTargetUtilizationRatio", DOUBLE),
)
GlobalSecondaryIndexSpec.SPEC = struct_spec(
    GlobalSecondaryIndexSpec,
    Field(1, "indexEntityGroup", struct_of(EntityGroupSpec)),
    Field(2, "indexPrimaryKey", list_of(struct_of(KeySpec))),
    Field(3, "projections", list_of(STRING)),
    Field(4, "consistencyLevel", enum_of(ConsistencyLevel)),
    Field(5, "unique", BOOL),
    Field(6, "throughput", struct_of(ProvisionThroughput)),
    Field(7, "slaveThroughput", struct_of(ProvisionThroughput)),
    Field(8, "exceededThroughput", struct_of(ProvisionThroughput)),
    Field(9, "exceededSlaveThroughput", struct_of(ProvisionThroughput)),
    Field(10, "preSplits", I32),
    Field(11, "autoScaling", struct_of(AutoScaling)),
)
TableSchema.SPEC = struct_spec(
    TableSchema,
    Field(1, "version", I32),
    Field(2, "entityGroup", struct_of(EntityGroupSpec)),
    Field(3, "primaryIndex", list_of(struct_of(KeySpec))),
    Field(4, "secondaryIndexes", map_of(STRING, struct_of(LocalSecondaryIndexSpec))),
    Field(5, "attributes", map_of(STRING, enum_of(DataType))),
    Field(6, "ttl", I32),
    Field(7, "preSplits", I32),
    Field(8, "streams", map_of(STRING, struct_of(StreamSpec))),
    Field(9, "globalSecondaryIndexes", map_of(STRING, struct_of(GlobalSecondaryIndexSpec))),
    Field(10, "enableTransaction", BOOL),
)
TableQuota.SPEC = struct_spec(
    TableQuota,
    Field(1, "size", I64),
)
PointInTimeRecovery.SPEC = struct_spec(
    PointInTimeRecovery,
    Field(1, "enablePointInTimeRecovery", BOOL),
    Field(2, "topicName", STRING),
    Field(3, "ttl", I64),
    Field(4, "snapshotPeriod", I64),
    Field(5, "createdTimestamp", I64),
    Field(6, "timeToArchive", I64),
)
ColdStandBy.SPEC = struct_spec(
    ColdStandBy,
    Field(1, "enableColdStandBy", BOOL),
    Field(2, "coldStandBySize", I32),
    Field(3, "coldStandByCycle", enum_of(ColdStandByCycle)),
)
TableMetadata.SPEC = struct_spec(
    TableMetadata,
    Field(1, "tableId", STRING),
    Field(2, "developerId", STRING),
    Field(3, "appAcl", map_of(STRING, list_of(enum_of(CannedAcl)))),
    Field(4, "quota", struct_of(TableQuota)),
    Field(5, "throughput", struct_of(ProvisionThroughput)),
    Field(6, "description", STRING),
    Field(7, "stream", struct_of(StreamSpec)),
    Field(8, "enableSysSnapshot", BOOL),
    Field(9, "exceededThroughput", struct_of(ProvisionThroughput)),
    Field(10, "slaveThroughput", struct_of(ProvisionThroughput)),
    Field(11, "exceededSlaveThroughput", struct_of(ProvisionThroughput)),
    Field(12, "acl", map_of(STRING, list_of(enum_of(Permission)))),
    Field(13, "spaceId", STRING),
    Field(14, "enableEgAcl", BOOL),
    Field(15, "pitr", struct_of(PointInTimeRecovery)),
    Field(16, "softDeletedTtl", I64),
    Field(17, "coldStandBy", struct_of(ColdStandBy)),
    Field(18, "autoScaling", struct_of(AutoScaling)),
)
TableSpec.SPEC = struct_spec(
    TableSpec,
    Field(1, "schema", struct_of(TableSchema)),
    Field(2, "metadata", struct_of(TableMetadata)),
    Field(1001, "expectedVersion", I32),
)
SimpleCondition.SPEC = struct_spec(
    SimpleCondition,
    Field(1, "operator", enum_of(OperatorType)),
    Field(2, "field", STRING),
    Field(3, "value", struct_of(Datum)),
    Field(4, "rowExist", BOOL),
)
GetRequest.SPEC = struct_spec(
    GetRequest,
    Field(1, "tableName", STRING),
    Field(2, "keys", map_of(STRING, struct_of(Datum))),
    Field(3, "attributes", list_of(STRING)),
)
PutRequest.SPEC = struct_spec(
    PutRequest,
    Field(1, "tableName", STRING),
    Field(2, "record", map_of(STRING, struct_of(Datum))),
    Field(3, "condition", struct_of(SimpleCondition)),
)
IncrementRequest.SPEC = struct_spec(
    IncrementRequest,
    Field(1, "tableName", STRING),
    Field(2, "keys", map_of(STRING, struct_of(Datum))),
    Field(3, "amounts", map_of(STRING, struct_of(Datum))),
)
RemoveRequest.SPEC = struct_spec(
    RemoveRequest,
    Field(1, "tableName", STRING),
    Field(2, "keys", map_of(STRING, struct_of(Datum))),
    Field(3, "attributes", list_of(STRING)),
    Field(4, "condition", struct_of(SimpleCondition)),
)
Request.SPEC = struct_spec(
    Request,
    Field(1, "getRequest", struct_of(GetRequest)),
    Field(2, "putRequest", struct_of(PutRequest)),
    Field(3, "incrementRequest", struct_of(IncrementRequest)),
    Field(4, "removeRequest", struct_of(RemoveRequest)),
)
ScanAction.SPEC = struct_spec(
    ScanAction,
    Field(1, "action", enum_of(ScanOp)),
    Field(2, "request", struct_of(Request)),
)
ScanRequest.SPEC = struct_spec(
    ScanRequest,
    Field(1, "tableName", STRING),
    Field(2, "indexName", STRING),
    Field(3, "startKey", map_of(STRING, struct_of(Datum))),
    Field(4, "stopKey", map_of(STRING, struct_of(Datum))),
    Field(5, "attributes", list_of(STRING)),
    Field(6, "condition", STRING),
    Field(7, "limit", I32),
    Field(8, "reverse", BOOL),
    Field(9, "inGlobalOrder", BOOL),
    Field(10, "cacheResult", BOOL),
    Field(11, "lookAheadStep", I32),
    Field(12, "action", struct_of(ScanAction)),
    Field(1001, "withVersions", BOOL),
)
BatchRequestItem.SPEC = struct_spec(
    BatchRequestItem,
    Field(1, "action", enum_of(BatchOp)),
    Field(2, "request", struct_of(Request)),
)
BatchRequest.SPEC = struct_spec(
    BatchRequest,
    Field(1, "items", list_of(struct_of(BatchRequestItem))),
)
GetResult.SPEC = struct_spec(
    GetResult,
    Field(1, "item", map_of(STRING, struct_of(Datum))),
)
PutResult.SPEC = struct_spec(
    PutResult,
    Field(1, "success", BOOL),
)
IncrementResult.SPEC = struct_spec(
    IncrementResult,
    Field(1, "amounts", map_of(STRING, struct_of(Datum))),
)
RemoveResult.SPEC = struct_spec(
    RemoveResult,
    Field(1, "success", BOOL),
)
Result.SPEC = struct_spec(
    Result,
    Field(1, "getResult", struct_of(GetResult)),
    Field(2, "putResult", struct_of(PutResult)),
    Field(3, "incrementResult", struct_of(IncrementResult)),
    Field(4, "removeResult", struct_of(RemoveResult)),
)
BatchResultItem.SPEC = struct_spec(
    BatchResultItem,
    Field(1, "action", enum_of(BatchOp)),
    Field(2, "success", BOOL),
    Field(3, "result", struct_of(Result)),
    Field(4, "serviceException", struct_of(ServiceException)),
)
BatchResult.SPEC = struct_spec(
    BatchResult,
    Field(1, "items", list_of(struct_of(BatchResultItem))),
)
ScanResult.SPEC = struct_spec(
    ScanResult,
    Field(1, "nextStartKey", map_of(STRING, struct_of(Datum))),
    Field(2, "records", list_of(map_of(STRING, struct_of(Datum)))),
    Field(3, "throttled", BOOL),
    Field(1001, "timestamps", list_of(I64)),
    Field(1002, "sequences", list_of(I64)),
    Field(1003, "removed", list_of(BOOL)),
)
MutationLogEntry.SPEC = struct_spec(
    MutationLogEntry,
    Field(1, "record", map_of(STRING, struct_of(Datum))),
    Field(2, "type", enum_of(MutationType)),
    Field(3, "rowDeleted", BOOL),
    Field(4, "timestamp", I64),
    Field(5, "amounts", map_of(STRING, struct_of(Datum))),
    Field(6, "tableName", STRING),
)
RecordImage.SPEC = struct_spec(
    RecordImage,
    Field(1, "record", map_of(STRING, struct_of(Datum))),
    Field(2, "rowDeleted", BOOL),
    Field(3, "timestamp", I64),
    Field(4, "tableName", STRING),
)
KeysOnlyEntry.SPEC = struct_spec(
    KeysOnlyEntry,
    Field(1, "record", map_of(STRING, struct_of(Datum))),
    Field(2, "timestamp", I64),
    Field(3, "tableName", STRING),
)
AppInfo.SPEC = struct_spec(
    AppInfo,
    Field(1, "appId", STRING),
    Field(2, "developerId", STRING),
    Field(3, "tableMappings", map_of(STRING, STRING)),
    Field(4, "oauthAppMapping", map_of(STRING, STRING)),
    Field(5, "appName", STRING),
)
MetricData.SPEC = struct_spec(
    MetricData,
    Field(1, "clientMetricType", enum_of(ClientMetricType)),
    Field(2, "metricName", STRING),
    Field(3, "value", I64),
    Field(4, "timeStamp", I64),
)
ClientMetrics.SPEC = struct_spec(
    ClientMetrics,
    Field(1, "metricDataList", list_of(struct_of(MetricData))),
)
DatumMap.SPEC = struct_spec(
    DatumMap,
    Field(1, "data", map_of(STRING, struct_of(Datum))),
)
DatumMapMeta.SPEC = struct_spec(
    DatumMapMeta,
    Field(1, "keyIdMap", map_of(I16, STRING)),
)
DatumMapRecord.SPEC = struct_spec(
    DatumMapRecord,
    Field(1, "data", map_of(I16, struct_of(Datum))),
    Field(2, "keyIdMap", map_of(I16, STRING)),
)
GrantRule.SPEC = struct_spec(
    GrantRule,
    Field(1, "grantRule", map_of(STRING, map_of(STRING, list_of(enum_of(Permission))))),
)
HttpAuthorizationHeader.SPEC = struct_spec(
    HttpAuthorizationHeader,
    Field(1, "version", STRING),
    Field(2, "userType", enum_of(UserType)),
    Field(3, "secretKeyId", STRING),
    Field(4, "secretKey", STRING),
    Field(5, "signature", STRING),
    Field(6, "algorithm", enum_of(MacAlgorithm)),
    Field(7, "signedHeaders", list_of(STRING)),
    Field(8, "supportAccountKey", BOOL),
)
MetricQueryRequest.SPEC = struct_spec(
    MetricQueryRequest,
    Field(1, "tableName", STRING),
    Field(2, "startTime", I64),
    Field(3, "stopTime", I64),
    Field(4, "metricKey", enum_of(MetricKey)),
    Field(5, "metricType", enum_of(MetricType)),
    Field(6, "downsampleInterval", I32),
    Field(7, "downsampleTimeUnit", enum_of(TimeSpanUnit)),
)
OAuthInfo.SPEC = struct_spec(
    OAuthInfo,
    Field(1, "xiaomiAppId", STRING),
    Field(2, "appUserAuthProvider", enum_of(AppUserAuthProvider)),
    Field(3, "accessToken", STRING),
    Field(4, "openId", STRING),
    Field(5, "macKey", STRING),
    Field(6, "macAlgorithm", STRING),
)
QuotaApply.SPEC = struct_spec(
    QuotaApply,
    Field(1, "orgId", STRING),
    Field(2, "tableNum", I32),
    Field(3, "tableSizeInGB", I32),
    Field(4, "readQuota", I64),
    Field(5, "writeQuota", I64),
    Field(6, "timestamp", I64),
    Field(7, "slaveReadQuota", I64),
    Field(8, "slaveWriteQuota", I64),
    Field(9, "comName", STRING),
    Field(10, "applyUserName", STRING),
    Field(11, "status", I16),
    Field(12, "applyId", STRING),
    Field(13, "message", STRING),
)
QuotaInfo.SPEC = struct_spec(
    QuotaInfo,
    Field(1, "accountId", STRING),
    Field(2, "tableNum", I32),
    Field(3, "tableNumUsed", I32),
    Field(4, "space", I64),
    Field(5, "spaceUsed", I64),
    Field(6, "readCapacity", I64),
    Field(7, "readCapacityUsed", I64),
    Field(8, "writeCapacity", I64),
    Field(9, "writeCapacityUsed", I64),
    Field(10, "slaveReadCapacity", I64),
    Field(11, "slaveReadCapacityUsed", I64),
    Field(12, "slaveWriteCapacity", I64),
    Field(13, "slaveWriteCapacityUsed", I64),
)
RCBasicMeta.SPEC = struct_spec(
    RCBasicMeta,
    Field(1, "keys", list_of(STRING)),
    Field(2, "types", map_of(STRING, enum_of(DataType))),
)
RCBasicRowGroupHeader.SPEC = struct_spec(
    RCBasicRowGroupHeader,
    Field(1, "count", I32),
    Field(2, "offset", list_of(I32)),
)
SLFileMeta.SPEC = struct_spec(
    SLFileMeta,
    Field(1, "type", enum_of(SLFileType)),
    Field(2, "datumMapMeta", struct_of(DatumMapMeta)),
    Field(3, "rcBasicMeta", struct_of(RCBasicMeta)),
)
Snapshot.SPEC = struct_spec(
    Snapshot,
    Field(1, "snapshotName", STRING),
    Field(2, "snapshotState", enum_of(SnapshotState)),
)
SnapshotTableView.SPEC = struct_spec(
    SnapshotTableView,
    Field(1, "tableName", STRING),
    Field(2, "tableExist", BOOL),
    Field(3, "deleteTime", I64),
)
TopicPartitionState.SPEC = struct_spec(
    TopicPartitionState,
    Field(1, "partitionId", I32),
    Field(2, "offset", I64),
)
StreamCheckpoint.SPEC = struct_spec(
    StreamCheckpoint,
    Field(1, "timestamp", I64),
    Field(2, "topicName", STRING),
    Field(3, "partitionStates", list_of(struct_of(TopicPartitionState))),
    Field(1001, "enabling", I32),
)
TableStatus.SPEC = struct_spec(
    TableStatus,
    Field(1, "state", enum_of(TableState)),
    Field(2, "createTime", I64),
    Field(3, "alterTime", I64),
    Field(4, "statTime", I64),
    Field(5, "size", I64),
    Field(6, "rowCount", I64),
)
TableInfo.SPEC = struct_spec(
    TableInfo,
    Field(1, "name", STRING),
    Field(2, "spec", struct_of(TableSpec)),
    Field(3, "status", struct_of(TableStatus)),
)
TableSnapshots.SPEC = struct_spec(
    TableSnapshots,
    Field(1, "tableName", STRING),
    Field(2, "sysSnapshots", list_of(struct_of(Snapshot))),
    Field(3, "userSnapshots", list_of(struct_of(Snapshot))),
    Field(4, "pitrSnapshots", list_of(struct_of(Snapshot))),
    Field(5, "coldStandBySnapshots", list_of(struct_of(Snapshot))),
)
TableSplit.SPEC = struct_spec(
    TableSplit,
    Field(1, "startKey", map_of(STRING, struct_of(Datum))),
    Field(2, "stopKey", map_of(STRING, struct_of(Datum))),
)
TimeSeriesData.SPEC = struct_spec(
    TimeSeriesData,
    Field(1, "tableName", STRING),
    Field(2, "metricKey", enum_of(MetricKey)),
    Field(3, "metricType", enum_of(MetricType)),
    Field(4, "data", map_of(I64, DOUBLE)),
)
Transaction.SPEC = struct_spec(
    Transaction,
    Field(1, "startTs", I64),
)

BASE_SERVICE = ServiceSpec(
    "BaseService",
    "",
    {
        "getServerVersion": MethodSpec(
            "getServerVersion",
            (),
            struct_of(Version),
            ServiceException,
        ),
        "validateClientVersion": MethodSpec(
            "validateClientVersion",
            (Field(1, "clientVersion", struct_of(Version)),),
            None,
            ServiceException,
        ),
        "getServerTime": MethodSpec(
            "getServerTime",
            (),
            I64,
            None,
        ),
    },
)

AUTH_SERVICE = ServiceSpec(
    "AuthService",
    "/v1/api/auth",
    {
        **BASE_SERVICE.methods,
        "createCredential": MethodSpec(
            "createCredential",
            (Field(1, "oauthInfo", struct_of(OAuthInfo)),),
            struct_of(Credential),
            ServiceException,
        ),
    },
)

ADMIN_SERVICE = ServiceSpec(
    "AdminService",
    "/v1/api/admin",
    {
        **BASE_SERVICE.methods,
        "getApplyList": MethodSpec(
            "getApplyList",
            (),
            list_of(struct_of(QuotaApply)),
            ServiceException,
        ),
        "applyQuota": MethodSpec(
            "applyQuota",
            (Field(1, "quotaApply", struct_of(QuotaApply)),),
            None,
            ServiceException,
        ),
        "getAllApplyList": MethodSpec(
            "getAllApplyList",
            (),
            list_of(struct_of(QuotaApply)),
            ServiceException,
        ),
        "passApply": MethodSpec(
            "passApply",
            (Field(1, "applyId", STRING),),
            None,
            ServiceException,
        ),
        "rejectApply": MethodSpec(
            "rejectApply",
            (Field(1, "applyId", STRING), Field(2, "message", STRING),),
            None,
            ServiceException,
        ),
        "cancelApply": MethodSpec(
            "cancelApply",
            (Field(1, "applyId", STRING),),
            None,
            ServiceException,
        ),
        "saveAppInfo": MethodSpec(
            "saveAppInfo",
            (Field(1, "appInfo", struct_of(AppInfo)),),
            None,
            ServiceException,
        ),
        "getAppInfo": MethodSpec(
            "getAppInfo",
            (Field(1, "appId", STRING),),
            struct_of(AppInfo),
            ServiceException,
        ),
        "findAllApps": MethodSpec(
            "findAllApps",
            (),
            list_of(struct_of(AppInfo)),
            ServiceException,
        ),
        "findAllTables": MethodSpec(
            "findAllTables",
            (),
            list_of(struct_of(TableInfo)),
            ServiceException,
        ),
        "createTable": MethodSpec(
            "createTable",
            (Field(1, "tableName", STRING), Field(2, "tableSpec", struct_of(TableSpec)),),
            struct_of(TableInfo),
            ServiceException,
        ),
        "dropTable": MethodSpec(
            "dropTable",
            (Field(1, "tableName", STRING),),
            None,
            ServiceException,
        ),
        "alterTable": MethodSpec(
            "alterTable",
            (Field(1, "tableName", STRING), Field(2, "tableSpec", struct_of(TableSpec)),),
            None,
            ServiceException,
        ),
        "cloneTable": MethodSpec(
            "cloneTable",
            (Field(1, "srcTableName", STRING), Field(2, "destTableName", STRING), Field(3, "flushTable", BOOL),),
            None,
            ServiceException,
        ),
        "disableTable": MethodSpec(
            "disableTable",
            (Field(1, "tableName", STRING),),
            None,
            ServiceException,
        ),
        "enableTable": MethodSpec(
            "enableTable",
            (Field(1, "tableName", STRING),),
            None,
            ServiceException,
        ),
        "describeTable": MethodSpec(
            "describeTable",
            (Field(1, "tableName", STRING),),
            struct_of(TableSpec),
            ServiceException,
        ),
        "getTableStatus": MethodSpec(
            "getTableStatus",
            (Field(1, "tableName", STRING),),
            struct_of(TableStatus),
            ServiceException,
        ),
        "getTableState": MethodSpec(
            "getTableState",
            (Field(1, "tableName", STRING),),
            enum_of(TableState),
            ServiceException,
        ),
        "getTableSplits": MethodSpec(
            "getTableSplits",
            (Field(1, "tableName", STRING), Field(2, "startKey", map_of(STRING, struct_of(Datum))), Field(3, "stopKey", map_of(STRING, struct_of(Datum))),),
            list_of(struct_of(TableSplit)),
            ServiceException,
        ),
        "getIndexTableSplits": MethodSpec(
            "getIndexTableSplits",
            (Field(1, "tableName", STRING), Field(2, "indexName", STRING), Field(3, "startKey", map_of(STRING, struct_of(Datum))), Field(4, "stopKey", map_of(STRING, struct_of(Datum))),),
            list_of(struct_of(TableSplit)),
            ServiceException,
        ),
        "queryMetric": MethodSpec(
            "queryMetric",
            (Field(1, "query", struct_of(MetricQueryRequest)),),
            struct_of(TimeSeriesData),
            ServiceException,
        ),
        "queryMetrics": MethodSpec(
            "queryMetrics",
            (Field(1, "queries", list_of(struct_of(MetricQueryRequest))),),
            list_of(struct_of(TimeSeriesData)),
            ServiceException,
        ),
        "findAllAppInfo": MethodSpec(
            "findAllAppInfo",
            (),
            list_of(struct_of(AppInfo)),
            ServiceException,
        ),
        "getTableSize": MethodSpec(
            "getTableSize",
            (Field(1, "tableName", STRING),),
            I64,
            ServiceException,
        ),
        "putClientMetrics": MethodSpec(
            "putClientMetrics",
            (Field(1, "clientMetrics", struct_of(ClientMetrics)),),
            None,
            ServiceException,
        ),
        "subscribePhoneAlert": MethodSpec(
            "subscribePhoneAlert",
            (Field(1, "phoneNumber", STRING), Field(2, "spaceId", STRING),),
            None,
            ServiceException,
        ),
        "unsubscribePhoneAlert": MethodSpec(
            "unsubscribePhoneAlert",
            (Field(1, "phoneNumber", STRING), Field(2, "spaceId", STRING),),
            None,
            ServiceException,
        ),
        "subscribeEmailAlert": MethodSpec(
            "subscribeEmailAlert",
            (Field(1, "email", STRING), Field(2, "spaceId", STRING),),
            None,
            ServiceException,
        ),
        "unsubscribeEmailAlert": MethodSpec(
            "unsubscribeEmailAlert",
            (Field(1, "email", STRING), Field(2, "spaceId", STRING),),
            None,
            ServiceException,
        ),
        "listSubscribedPhone": MethodSpec(
            "listSubscribedPhone",
            (Field(1, "spaceId", STRING),),
            list_of(STRING),
            ServiceException,
        ),
        "listSubscribedEmail": MethodSpec(
            "listSubscribedEmail",
            (Field(1, "spaceId", STRING),),
            list_of(STRING),
            ServiceException,
        ),
        "getTableHistorySize": MethodSpec(
            "getTableHistorySize",
            (Field(1, "tableName", STRING), Field(2, "startDate", I64), Field(3, "stopDate", I64),),
            map_of(I64, I64),
            ServiceException,
        ),
        "renameTable": MethodSpec(
            "renameTable",
            (Field(1, "srcName", STRING), Field(2, "destName", STRING),),
            None,
            ServiceException,
        ),
        "listSnapshots": MethodSpec(
            "listSnapshots",
            (Field(1, "tableName", STRING),),
            struct_of(TableSnapshots),
            ServiceException,
        ),
        "snapshotTable": MethodSpec(
            "snapshotTable",
            (Field(1, "tableName", STRING), Field(2, "snapshotName", STRING),),
            None,
            ServiceException,
        ),
        "deleteSnapshot": MethodSpec(
            "deleteSnapshot",
            (Field(1, "tableName", STRING), Field(2, "snapshotName", STRING),),
            None,
            ServiceException,
        ),
        "restoreSnapshot": MethodSpec(
            "restoreSnapshot",
            (Field(1, "tableName", STRING), Field(2, "snapshotName", STRING), Field(3, "destTableName", STRING), Field(4, "snapshotType", enum_of(SnapshotType)),),
            None,
            ServiceException,
        ),
        "listAllSnapshots": MethodSpec(
            "listAllSnapshots",
            (Field(1, "spaceId", STRING),),
            list_of(struct_of(SnapshotTableView)),
            ServiceException,
        ),
        "cancelSnapshotTable": MethodSpec(
            "cancelSnapshotTable",
            (Field(1, "tableName", STRING), Field(2, "snapshotName", STRING),),
            None,
            ServiceException,
        ),
        "getSnapshotState": MethodSpec(
            "getSnapshotState",
            (Field(1, "tableName", STRING), Field(2, "snapshotName", STRING),),
            enum_of(SnapshotState),
            ServiceException,
        ),
        "getQuotaInfo": MethodSpec(
            "getQuotaInfo",
            (Field(1, "spaceId", STRING),),
            struct_of(QuotaInfo),
            ServiceException,
        ),
        "getDevelopId": MethodSpec(
            "getDevelopId",
            (),
            STRING,
            ServiceException,
        ),
        "getLatestStreamCheckpoint": MethodSpec(
            "getLatestStreamCheckpoint",
            (Field(1, "tableName", STRING), Field(2, "topicName", STRING),),
            struct_of(StreamCheckpoint),
            ServiceException,
        ),
        "getFloorStreamCheckpoint": MethodSpec(
            "getFloorStreamCheckpoint",
            (Field(1, "tableName", STRING), Field(2, "topicName", STRING), Field(3, "timestamp", I64),),
            struct_of(StreamCheckpoint),
            ServiceException,
        ),
        "getCeilStreamCheckpoint": MethodSpec(
            "getCeilStreamCheckpoint",
            (Field(1, "tableName", STRING), Field(2, "topicName", STRING), Field(3, "timestamp", I64),),
            struct_of(StreamCheckpoint),
            ServiceException,
        ),
        "recoverTable": MethodSpec(
            "recoverTable",
            (Field(1, "srcTableName", STRING), Field(2, "destTableName", STRING), Field(3, "topicName", STRING), Field(4, "timestamp", I64),),
            None,
            ServiceException,
        ),
        "listAllDeletedTables": MethodSpec(
            "listAllDeletedTables",
            (Field(1, "spaceId", STRING),),
            list_of(struct_of(TableInfo)),
            ServiceException,
        ),
        "restoreTable": MethodSpec(
            "restoreTable",
            (Field(1, "deletedTableName", STRING), Field(2, "destTableName", STRING),),
            None,
            ServiceException,
        ),
        "getDefaultColdStandBy": MethodSpec(
            "getDefaultColdStandBy",
            (),
            struct_of(ColdStandBy),
            ServiceException,
        ),
        "getGrantRule": MethodSpec(
            "getGrantRule",
            (Field(1, "spaceId", STRING),),
            struct_of(GrantRule),
            ServiceException,
        ),
        "setGrantRule": MethodSpec(
            "setGrantRule",
            (Field(1, "spaceId", STRING), Field(2, "grantRule", struct_of(GrantRule)),),
            None,
            ServiceException,
        ),
        "setSpaceId": MethodSpec(
            "setSpaceId",
            (Field(1, "tableName", STRING), Field(2, "spaceId", STRING),),
            None,
            ServiceException,
        ),
    },
)

TABLE_SERVICE = ServiceSpec(
    "TableService",
    "/v1/api/table",
    {
        **BASE_SERVICE.methods,
        "get": MethodSpec(
            "get",
            (Field(1, "request", struct_of(GetRequest)),),
            struct_of(GetResult),
            ServiceException,
        ),
        "put": MethodSpec(
            "put",
            (Field(1, "request", struct_of(PutRequest)),),
            struct_of(PutResult),
            ServiceException,
        ),
        "increment": MethodSpec(
            "increment",
            (Field(1, "request", struct_of(IncrementRequest)),),
            struct_of(IncrementResult),
            ServiceException,
        ),
        "remove": MethodSpec(
            "remove",
            (Field(1, "request", struct_of(RemoveRequest)),),
            struct_of(RemoveResult),
            ServiceException,
        ),
        "realRemove": MethodSpec(
            "realRemove",
            (Field(1, "requestList", list_of(struct_of(RemoveRequest))),),
            list_of(struct_of(RemoveResult)),
            ServiceException,
        ),
        "scan": MethodSpec(
            "scan",
            (Field(1, "request", struct_of(ScanRequest)),),
            struct_of(ScanResult),
            ServiceException,
        ),
        "scanAll": MethodSpec(
            "scanAll",
            (Field(1, "request", struct_of(ScanRequest)),),
            struct_of(ScanResult),
            ServiceException,
        ),
        "batch": MethodSpec(
            "batch",
            (Field(1, "request", struct_of(BatchRequest)),),
            struct_of(BatchResult),
            ServiceException,
        ),
        "batchCheckAndMutate": MethodSpec(
            "batchCheckAndMutate",
            (Field(1, "request", struct_of(BatchRequest)),),
            struct_of(BatchResult),
            ServiceException,
        ),
        "putToRebuildIndex": MethodSpec(
            "putToRebuildIndex",
            (Field(1, "request", struct_of(PutRequest)),),
            struct_of(PutResult),
            ServiceException,
        ),
        "partialAllowedBatch": MethodSpec(
            "partialAllowedBatch",
            (Field(1, "request", struct_of(BatchRequest)),),
            struct_of(BatchResult),
            ServiceException,
        ),
        "atomicBatch": MethodSpec(
            "atomicBatch",
            (Field(1, "request", struct_of(BatchRequest)),),
            struct_of(BatchResult),
            ServiceException,
        ),
        "newTransaction": MethodSpec(
            "newTransaction",
            (),
            struct_of(Transaction),
            ServiceException,
        ),
        "transactionGet": MethodSpec(
            "transactionGet",
            (Field(1, "transaction", struct_of(Transaction)), Field(2, "request", struct_of(GetRequest)),),
            struct_of(GetResult),
            ServiceException,
        ),
        "transactionCommit": MethodSpec(
            "transactionCommit",
            (Field(1, "transaction", struct_of(Transaction)), Field(2, "request", struct_of(BatchRequest)),),
            struct_of(BatchResult),
            ServiceException,
        ),
    },
)

SERVICES: dict[str, ServiceSpec] = {
    "AuthService": AUTH_SERVICE,
    "AdminService": ADMIN_SERVICE,
    "TableService": TABLE_SERVICE,
}
