"""Our errors as codes of the Kafka protocol.

Clients repeat a request by itself on codes that the protocol calls retriable. So a put whose
outcome is unknown gets one only where the producer is idempotent; see ``handlers/produce.py``.

Source: Apache Kafka 4.3, protocol guide, error codes.
"""

from typing import Final

from opentalos.model import errors
from opentalos.wire.kafka.errors import ErrorCode

_CODES: Final[dict[type[errors.TalosError], ErrorCode]] = {
    errors.BadRequest: ErrorCode.INVALID_REQUEST,
    errors.RequestTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InvalidName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidTopicParams: ErrorCode.INVALID_CONFIG,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.TopicNotExist: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.PartitionNotExist: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.PermissionDenied: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.InvalidCredential: ErrorCode.SASL_AUTHENTICATION_FAILED,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.UnexpectedOffset: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.QuotaExceeded: ErrorCode.POLICY_VIOLATION,
    errors.ConsumerGroupNotExist: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.ConsumerGroupWorking: ErrorCode.NON_EMPTY_GROUP,
    errors.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.SequenceGap: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.NotSupported: ErrorCode.UNSUPPORTED_VERSION,
    errors.CorruptLog: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.LeaderEpochFenced: ErrorCode.FENCED_LEADER_EPOCH,
    errors.LeaderEpochUnknown: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.PartitionNotServing: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.ThrottleRejected: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.StorageFull: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DeadlinePassed: ErrorCode.REQUEST_TIMED_OUT,
    errors.Unavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.RequestError: ErrorCode.INVALID_REQUEST,
    errors.OutcomeUnknown: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def code_of(error: Exception) -> ErrorCode:
    """The code of an error: that of its class, or of the nearest parent that has one."""
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
