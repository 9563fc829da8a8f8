"""Generated from idl/message.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire._generated.common import (
    ErrorCode,
    GalaxyTalosException,
    TALOS_BASE_SERVICE,
)
from opentalos.wire._generated.topic import (
    TopicAndPartition,
    TopicTalosResourceName,
)
from opentalos.wire.thrift.spec import (
    BINARY,
    BOOL,
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
    set_of,
    struct_of,
    struct_spec,
)


class MessageType(IntEnum):
    """message.thrift: enum MessageType."""

    BINARY = 1
    UTF8 = 2
    THRIFT = 3
    AVRO = 4
    PROTOBUF = 5


class MessageOffset(IntEnum):
    """message.thrift: enum MessageOffset."""

    START_OFFSET = -1
    LATEST_OFFSET = -2


class MessageCompressionType(IntEnum):
    """message.thrift: enum MessageCompressionType."""

    NONE = 0
    SNAPPY = 1
    GZIP = 2
    ZSTD = 3
    LZ4 = 4


class Message(ThriftStruct, kw_only=True):
    """message.thrift: Message."""

    partitionKey: str | None = None
    sequenceNumber: str | None = None
    message: bytes
    createTimestamp: int | None = None
    appendTimestamp: int | None = None
    messageType: MessageType | int | None = None
    SchemaFingerprint: str | None = None
    tag: str | None = None
    traceparent: str | None = None


class MessageIndex(ThriftStruct, kw_only=True):
    """message.thrift: MessageIndex."""

    topicAndPartition: TopicAndPartition
    messageOffset: int
    hdfsLogFileOffset: int
    messageNumber: int
    appendTimeStamp: int


class HdfsMessageIndex(ThriftStruct, kw_only=True):
    """message.thrift: HdfsMessageIndex."""

    messageOffset: int
    filePath: str
    hdfsLogFileOffset: int
    messageNumber: int


class MessageAndOffset(ThriftStruct, kw_only=True):
    """message.thrift: MessageAndOffset."""

    message: Message
    messageOffset: int
    unHandledMessageNumber: int | None = None


class FetchMessageResult(ThriftStruct, kw_only=True):
    """message.thrift: FetchMessageResult."""

    messageList: list[MessageAndOffset]
    nextReadOffset: int | None = None


class MessageBlock(ThriftStruct, kw_only=True):
    """message.thrift: MessageBlock."""

    startMessageOffset: int
    messageNumber: int
    compressionType: MessageCompressionType | int = MessageCompressionType.NONE
    messageBlock: bytes
    messageBlockSize: int | None = None
    appendTimestamp: int | None = None
    createTimestamp: int | None = None
    createTimestampList: list[int] | None = None
    transactionId: int | None = None
    tag: str | None = None
    tagCode: int | None = None


class PutMessageRequest(ThriftStruct, kw_only=True):
    """message.thrift: PutMessageRequest."""

    topicAndPartition: TopicAndPartition
    messageBlocks: list[MessageBlock]
    messageNumber: int
    sequenceId: str
    timeoutTimestamp: int | None = None
    producerId: int | None = None
    producerEpoch: int | None = None
    firstSequence: int | None = None
    repeated: bool | None = None


class PutMessageResponse(ThriftStruct, kw_only=True):
    """message.thrift: PutMessageResponse."""

    sequenceId: str
    isTransfer: bool | None = None
    baseOffset: int | None = None
    storedBefore: bool | None = None


class GetMessageRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetMessageRequest."""

    topicAndPartition: TopicAndPartition
    messageOffset: int
    maxGetMessageNumber: int = 2000
    maxGetMessageBytes: int = 10485760
    showUnHandledMessageNumber: bool = True
    sequenceId: str
    timeoutTimestamp: int | None = None
    messageTags: set[str] | None = None


class GetMessageResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetMessageResponse."""

    messageBlocks: list[MessageBlock]
    messageNumber: int
    unHandledMessageNumber: int | None = None
    sequenceId: str
    isTransfer: bool | None = None
    nextReadOffset: int | None = None


class PrepareRequest(ThriftStruct, kw_only=True):
    """message.thrift: PrepareRequest."""

    topicAndPartition: TopicAndPartition
    messageBlock: MessageBlock
    messageNumber: int
    sequenceId: str
    timeoutTimestamp: int | None = None


class PrepareResponse(ThriftStruct, kw_only=True):
    """message.thrift: PrepareResponse."""

    topicAndPartition: TopicAndPartition
    transactionId: int
    isTransfer: bool | None = None


class CommitRequest(ThriftStruct, kw_only=True):
    """message.thrift: CommitRequest."""

    topicAndPartition: TopicAndPartition
    transactionId: int
    sequenceId: str


class CommitResponse(ThriftStruct, kw_only=True):
    """message.thrift: CommitResponse."""

    topicAndPartition: TopicAndPartition
    transactionId: int
    isTransfer: bool | None = None


class RollbackRequest(ThriftStruct, kw_only=True):
    """message.thrift: RollbackRequest."""

    topicAndPartition: TopicAndPartition
    transactionId: int
    sequenceId: str


class RollbackResponse(ThriftStruct, kw_only=True):
    """message.thrift: RollbackResponse."""

    topicAndPartition: TopicAndPartition
    transactionId: int
    isTransfer: bool | None = None


class GetUnkownStateTransactionRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetUnkownStateTransactionRequest."""

    topicAndPartition: TopicAndPartition
    timeoutTimestamp: int | None = None


class GetUnkownStateTransactionResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetUnkownStateTransactionResponse."""

    unknowStateTransactions: dict[int, MessageBlock]
    isReadAllUnknowInfo: bool


class OffsetInfo(ThriftStruct, kw_only=True):
    """message.thrift: OffsetInfo."""

    partitionId: int
    startOffset: int | None = None
    endOffset: int | None = None
    errorCode: ErrorCode | int | None = None
    errorMsg: str | None = None


class GetTopicOffsetRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetTopicOffsetRequest."""

    topicTalosResourceName: TopicTalosResourceName


class GetTopicOffsetResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetTopicOffsetResponse."""

    offsetInfoList: list[OffsetInfo]


class GetPartitionOffsetRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionOffsetRequest."""

    topicAndPartition: TopicAndPartition


class GetPartitionOffsetResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionOffsetResponse."""

    offsetInfo: OffsetInfo


class GetPartitionsOffsetRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionsOffsetRequest."""

    topicAndPartitionList: list[TopicAndPartition]


class GetPartitionsOffsetResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionsOffsetResponse."""

    offsetInfoList: list[OffsetInfo]


class GetScheduleInfoRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetScheduleInfoRequest."""

    topicTalosResourceName: TopicTalosResourceName


class GetScheduleInfoResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetScheduleInfoResponse."""

    scheduleInfo: dict[TopicAndPartition, str]


class GetCheckpointRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetCheckpointRequest."""

    topicTalosResourceName: TopicTalosResourceName
    partitionTimeIndexMap: dict[int, int]


class GetCheckpointResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetCheckpointResponse."""

    partitionsCheckPoint: dict[int, int]


class GetPartitionCheckpointRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionCheckpointRequest."""

    topicAndPartition: TopicAndPartition
    partitionTimeIndex: int


class GetPartitionCheckpointResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetPartitionCheckpointResponse."""

    partitionCheckPoint: int


class DeleteMessageIndexRequest(ThriftStruct, kw_only=True):
    """message.thrift: DeleteMessageIndexRequest."""

    topicAndPartition: TopicAndPartition
    startOffset: int
    endOffset: int


class GetDataPreviewRequest(ThriftStruct, kw_only=True):
    """message.thrift: GetDataPreviewRequest."""

    topicAndPartition: TopicAndPartition
    timeoutTimestamp: int | None = None


class GetDataPreviewResponse(ThriftStruct, kw_only=True):
    """message.thrift: GetDataPreviewResponse."""

    schemaTitleList: list[str]
    messageLists: list[dict[str, str]]
    messageNumber: int
    isTransfer: bool | None = None


Message.SPEC = struct_spec(
    Message,
    Field(1, "partitionKey", STRING),
    Field(2, "sequenceNumber", STRING),
    Field(3, "message", BINARY, required=True),
    Field(4, "createTimestamp", I64),
    Field(5, "appendTimestamp", I64),
    Field(6, "messageType", enum_of(MessageType)),
    Field(7, "SchemaFingerprint", STRING),
    Field(8, "tag", STRING),
    Field(1001, "traceparent", STRING),
)
MessageIndex.SPEC = struct_spec(
    MessageIndex,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "messageOffset", I64, required=True),
    Field(3, "hdfsLogFileOffset", I64, required=True),
    Field(4, "messageNumber", I32, required=True),
    Field(5, "appendTimeStamp", I64, required=True),
)
HdfsMessageIndex.SPEC = struct_spec(
    HdfsMessageIndex,
    Field(1, "messageOffset", I64, required=True),
    Field(2, "filePath", STRING, required=True),
    Field(3, "hdfsLogFileOffset", I64, required=True),
    Field(4, "messageNumber", I32, required=True),
)
MessageAndOffset.SPEC = struct_spec(
    MessageAndOffset,
    Field(1, "message", struct_of(Message), required=True),
    Field(2, "messageOffset", I64, required=True),
    Field(3, "unHandledMessageNumber", I64),
)
FetchMessageResult.SPEC = struct_spec(
    FetchMessageResult,
    Field(1, "messageList", list_of(struct_of(MessageAndOffset)), required=True),
    Field(2, "nextReadOffset", I64),
)
MessageBlock.SPEC = struct_spec(
    MessageBlock,
    Field(1, "startMessageOffset", I64, required=True),
    Field(2, "messageNumber", I32, required=True),
    Field(3, "compressionType", enum_of(MessageCompressionType)),
    Field(4, "messageBlock", BINARY, required=True),
    Field(5, "messageBlockSize", I32),
    Field(6, "appendTimestamp", I64),
    Field(7, "createTimestamp", I64),
    Field(8, "createTimestampList", list_of(I64)),
    Field(9, "transactionId", I64),
    Field(10, "tag", STRING),
    Field(11, "tagCode", I32),
)
PutMessageRequest.SPEC = struct_spec(
    PutMessageRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "messageBlocks", list_of(struct_of(MessageBlock)), required=True),
    Field(3, "messageNumber", I32, required=True),
    Field(4, "sequenceId", STRING, required=True),
    Field(5, "timeoutTimestamp", I64),
    Field(1001, "producerId", I64),
    Field(1002, "producerEpoch", I32),
    Field(1003, "firstSequence", I64),
    Field(1004, "repeated", BOOL),
)
PutMessageResponse.SPEC = struct_spec(
    PutMessageResponse,
    Field(1, "sequenceId", STRING, required=True),
    Field(2, "isTransfer", BOOL),
    Field(1001, "baseOffset", I64),
    Field(1002, "storedBefore", BOOL),
)
GetMessageRequest.SPEC = struct_spec(
    GetMessageRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(3, "messageOffset", I64, required=True),
    Field(4, "maxGetMessageNumber", I32),
    Field(5, "maxGetMessageBytes", I32),
    Field(6, "showUnHandledMessageNumber", BOOL),
    Field(7, "sequenceId", STRING, required=True),
    Field(8, "timeoutTimestamp", I64),
    Field(9, "messageTags", set_of(STRING)),
)
GetMessageResponse.SPEC = struct_spec(
    GetMessageResponse,
    Field(1, "messageBlocks", list_of(struct_of(MessageBlock)), required=True),
    Field(2, "messageNumber", I32, required=True),
    Field(3, "unHandledMessageNumber", I64),
    Field(4, "sequenceId", STRING, required=True),
    Field(5, "isTransfer", BOOL),
    Field(6, "nextReadOffset", I64),
)
PrepareRequest.SPEC = struct_spec(
    PrepareRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "messageBlock", struct_of(MessageBlock), required=True),
    Field(3, "messageNumber", I32, required=True),
    Field(4, "sequenceId", STRING, required=True),
    Field(5, "timeoutTimestamp", I64),
)
PrepareResponse.SPEC = struct_spec(
    PrepareResponse,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "transactionId", I64, required=True),
    Field(3, "isTransfer", BOOL),
)
CommitRequest.SPEC = struct_spec(
    CommitRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "transactionId", I64, required=True),
    Field(3, "sequenceId", STRING, required=True),
)
CommitResponse.SPEC = struct_spec(
    CommitResponse,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "transactionId", I64, required=True),
    Field(3, "isTransfer", BOOL),
)
RollbackRequest.SPEC = struct_spec(
    RollbackRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "transactionId", I64, required=True),
    Field(3, "sequenceId", STRING, required=True),
)
RollbackResponse.SPEC = struct_spec(
    RollbackResponse,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "transactionId", I64, required=True),
    Field(3, "isTransfer", BOOL),
)
GetUnkownStateTransactionRequest.SPEC = struct_spec(
    GetUnkownStateTransactionRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "timeoutTimestamp", I64),
)
GetUnkownStateTransactionResponse.SPEC = struct_spec(
    GetUnkownStateTransactionResponse,
    Field(1, "unknowStateTransactions", map_of(I64, struct_of(MessageBlock)), required=True),
    Field(2, "isReadAllUnknowInfo", BOOL, required=True),
)
OffsetInfo.SPEC = struct_spec(
    OffsetInfo,
    Field(1, "partitionId", I32, required=True),
    Field(2, "startOffset", I64),
    Field(3, "endOffset", I64),
    Field(4, "errorCode", enum_of(ErrorCode)),
    Field(5, "errorMsg", STRING),
)
GetTopicOffsetRequest.SPEC = struct_spec(
    GetTopicOffsetRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
GetTopicOffsetResponse.SPEC = struct_spec(
    GetTopicOffsetResponse,
    Field(1, "offsetInfoList", list_of(struct_of(OffsetInfo)), required=True),
)
GetPartitionOffsetRequest.SPEC = struct_spec(
    GetPartitionOffsetRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
)
GetPartitionOffsetResponse.SPEC = struct_spec(
    GetPartitionOffsetResponse,
    Field(1, "offsetInfo", struct_of(OffsetInfo), required=True),
)
GetPartitionsOffsetRequest.SPEC = struct_spec(
    GetPartitionsOffsetRequest,
    Field(1, "topicAndPartitionList", list_of(struct_of(TopicAndPartition)), required=True),
)
GetPartitionsOffsetResponse.SPEC = struct_spec(
    GetPartitionsOffsetResponse,
    Field(1, "offsetInfoList", list_of(struct_of(OffsetInfo)), required=True),
)
GetScheduleInfoRequest.SPEC = struct_spec(
    GetScheduleInfoRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
GetScheduleInfoResponse.SPEC = struct_spec(
    GetScheduleInfoResponse,
    Field(1, "scheduleInfo", map_of(struct_of(TopicAndPartition), STRING), required=True),
)
GetCheckpointRequest.SPEC = struct_spec(
    GetCheckpointRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "partitionTimeIndexMap", map_of(I32, I64), required=True),
)
GetCheckpointResponse.SPEC = struct_spec(
    GetCheckpointResponse,
    Field(1, "partitionsCheckPoint", map_of(I32, I64), required=True),
)
GetPartitionCheckpointRequest.SPEC = struct_spec(
    GetPartitionCheckpointRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "partitionTimeIndex", I64, required=True),
)
GetPartitionCheckpointResponse.SPEC = struct_spec(
    GetPartitionCheckpointResponse,
    Field(1, "partitionCheckPoint", I64, required=True),
)
DeleteMessageIndexRequest.SPEC = struct_spec(
    DeleteMessageIndexRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "startOffset", I64, required=True),
    Field(3, "endOffset", I64, required=True),
)
GetDataPreviewRequest.SPEC = struct_spec(
    GetDataPreviewRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "timeoutTimestamp", I64),
)
GetDataPreviewResponse.SPEC = struct_spec(
    GetDataPreviewResponse,
    Field(1, "schemaTitleList", list_of(STRING), required=True),
    Field(2, "messageLists", list_of(map_of(STRING, STRING)), required=True),
    Field(3, "messageNumber", I32, required=True),
    Field(4, "isTransfer", BOOL),
)

MESSAGE_SERVICE = ServiceSpec(
    "MessageService",
    "/v1/api/message",
    {
        **TALOS_BASE_SERVICE.methods,
        "putMessage": MethodSpec(
            "putMessage",
            (Field(1, "request", struct_of(PutMessageRequest)),),
            struct_of(PutMessageResponse),
            GalaxyTalosException,
        ),
        "getMessage": MethodSpec(
            "getMessage",
            (Field(1, "request", struct_of(GetMessageRequest)),),
            struct_of(GetMessageResponse),
            GalaxyTalosException,
        ),
        "getTopicOffset": MethodSpec(
            "getTopicOffset",
            (Field(1, "request", struct_of(GetTopicOffsetRequest)),),
            struct_of(GetTopicOffsetResponse),
            GalaxyTalosException,
        ),
        "getPartitionOffset": MethodSpec(
            "getPartitionOffset",
            (Field(1, "request", struct_of(GetPartitionOffsetRequest)),),
            struct_of(GetPartitionOffsetResponse),
            GalaxyTalosException,
        ),
        "getPartitionsOffset": MethodSpec(
            "getPartitionsOffset",
            (Field(1, "request", struct_of(GetPartitionsOffsetRequest)),),
            struct_of(GetPartitionsOffsetResponse),
            None,
        ),
        "getScheduleInfo": MethodSpec(
            "getScheduleInfo",
            (Field(1, "request", struct_of(GetScheduleInfoRequest)),),
            struct_of(GetScheduleInfoResponse),
            GalaxyTalosException,
        ),
        "prepare": MethodSpec(
            "prepare",
            (Field(1, "request", struct_of(PrepareRequest)),),
            struct_of(PrepareResponse),
            GalaxyTalosException,
        ),
        "commit": MethodSpec(
            "commit",
            (Field(1, "request", struct_of(CommitRequest)),),
            struct_of(CommitResponse),
            GalaxyTalosException,
        ),
        "rollback": MethodSpec(
            "rollback",
            (Field(1, "request", struct_of(RollbackRequest)),),
            struct_of(RollbackResponse),
            GalaxyTalosException,
        ),
        "getUnkownStateTransaction": MethodSpec(
            "getUnkownStateTransaction",
            (Field(1, "request", struct_of(GetUnkownStateTransactionRequest)),),
            struct_of(GetUnkownStateTransactionResponse),
            GalaxyTalosException,
        ),
        "getTopicCheckpoint": MethodSpec(
            "getTopicCheckpoint",
            (Field(1, "request", struct_of(GetCheckpointRequest)),),
            struct_of(GetCheckpointResponse),
            GalaxyTalosException,
        ),
        "getPartitionCheckpoint": MethodSpec(
            "getPartitionCheckpoint",
            (Field(1, "request", struct_of(GetPartitionCheckpointRequest)),),
            struct_of(GetPartitionCheckpointResponse),
            GalaxyTalosException,
        ),
        "getDataPreview": MethodSpec(
            "getDataPreview",
            (Field(1, "request", struct_of(GetDataPreviewRequest)),),
            struct_of(GetDataPreviewResponse),
            GalaxyTalosException,
        ),
        "deleteMessageIndex": MethodSpec(
            "deleteMessageIndex",
            (Field(1, "request", struct_of(DeleteMessageIndexRequest)),),
            None,
            GalaxyTalosException,
        ),
    },
)
