"""The errors of the SDK, and the mapping from server replies to them.

The branch of an error states the outcome: RequestError and Unavailable mean not done,
OutcomeUnknown means done or not. A code that does not state its outcome maps to OutcomeUnknown.
Source: docs/protocol/administration.md#error-codes, docs/protocol/wire.md#replies-and-errors.
"""

from typing import Any, Final

from opentalos.model import errors as model
from opentalos.model.errors import (
    BadRequest,
    ChangePartitionTooFast,
    ClockSkewed,
    ConfigError,
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    CorruptLog,
    DeadlinePassed,
    ExcessivePending,
    InvalidCredential,
    InvalidName,
    InvalidTopicParams,
    LeaseNotHeld,
    NothingThere,
    NotSupported,
    OffsetOutOfRange,
    OutcomeUnknown,
    PartitionNotExist,
    PartitionNotServing,
    PermissionDenied,
    PreviewFailed,
    ProducerFenced,
    QuotaAutoApproveFailed,
    QuotaExceeded,
    QuotaNotExist,
    RequestError,
    RequestTooLarge,
    SequenceGap,
    SizeExceeded,
    StoreUnavailable,
    SubResourceNameExists,
    TableExists,
    TableNotEnabled,
    TableNotExist,
    TalosError,
    ThrottleRejected,
    TooManyConsumers,
    TopicExists,
    TopicNotExist,
    Unavailable,
    UnexpectedOffset,
    ValidationFailed,
    VersionConflict,
)
from opentalos.model.message import OffsetRange
from opentalos.sdk.core.values import DamagedRange
from opentalos.wire._generated.common import GalaxyTalosException
from opentalos.wire.thrift.error import ApplicationError, ApplicationErrorKind

__all__ = [
    "BadRequest",
    "BufferFull",
    "ChangeContradicts",
    "ChangeMissing",
    "ChangePartitionTooFast",
    "ClientClosed",
    "ClockSkewed",
    "ConfigError",
    "ConnectFailed",
    "ConsumerGroupNotExist",
    "ConsumerGroupWorking",
    "CorruptLog",
    "DeadlinePassed",
    "DeliveryFailed",
    "ExcessivePending",
    "InvalidCredential",
    "InvalidName",
    "InvalidTopicParams",
    "LeaseNotHeld",
    "NoReply",
    "NotSupported",
    "NothingThere",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "PartitionNotExist",
    "PartitionNotServing",
    "PermissionDenied",
    "PositionExpired",
    "PreviewFailed",
    "ProducerFenced",
    "QuotaAutoApproveFailed",
    "QuotaExceeded",
    "QuotaNotExist",
    "RequestError",
    "RequestTooLarge",
    "SequenceGap",
    "SizeExceeded",
    "StoreUnavailable",
    "SubResourceNameExists",
    "TableExists",
    "TableNotEnabled",
    "TableNotExist",
    "TalosError",
    "ThrottleRejected",
    "TooManyConsumers",
    "TopicExists",
    "TopicNotExist",
    "Unavailable",
    "UnexpectedOffset",
    "ValidationFailed",
    "VersionConflict",
]


class ConnectFailed(Unavailable):
    """Not done: no connection, so nothing was sent; the text names the address."""


class NoReply(OutcomeUnknown):
    """Unknown: the request was sent, but no complete reply arrived; the text names the address."""


class BufferFull(Unavailable):
    """Not done: the buffer of the producer is full, and the put may not wait (any longer)."""


class ClientClosed(RequestError):
    """Not done: the client, producer or consumer is closed, or not started."""


class DeliveryFailed(OutcomeUnknown):
    """Unknown: of the messages put without ``on_error``, some are not stored, or may not be.

    ``flush`` and ``close`` of a producer raise it once for the failures so far. ``not_stored`` and
    ``unknown`` count the messages, ``first`` is the first error. To send all messages again may
    store some of them twice; only ``on_error`` reports which ones failed.
    """

    def __init__(self, topic: str, not_stored: int, unknown: int, first: TalosError) -> None:
        super().__init__(
            f"delivery to topic {topic} failed: {not_stored} of the messages without on_error are "
            f"not stored, {unknown} may be stored: {type(first).__name__}: {first}; pass on_error "
            "to learn which"
        )
        self.topic, self.not_stored, self.unknown, self.first = topic, not_stored, unknown, first

    def __reduce__(self) -> tuple[type["DeliveryFailed"], tuple[object, ...]]:
        return type(self), (self.topic, self.not_stored, self.unknown, self.first)


class PositionExpired(OffsetOutOfRange):
    """Not done: the offset is outside the retained range of the partition.

    ``retained`` is that range, of a damaged partition a ``DamagedRange``, None if the server did
    not return it.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        retained: OffsetRange | DamagedRange | None,
    ) -> None:
        if isinstance(retained, OffsetRange):
            shown = f"{retained.start} to {retained.next}"
        elif retained is None:
            shown = "unknown"
        else:
            first = "an unknown start" if retained.first is None else f"{retained.first}"
            shown = f"{first} to an unknown end: {retained.damage}"
        super().__init__(
            f"offset {offset} of {topic}[{partition}] is not retained: retained offsets are {shown}"
        )
        self.topic, self.partition, self.offset = topic, partition, offset
        self.retained = retained

    def __reduce__(self) -> tuple[type["PositionExpired"], tuple[object, ...]]:
        return type(self), (self.topic, self.partition, self.offset, self.retained)


class ChangeMissing(RequestError):
    """Not done: an earlier change of the row is missing, so its state would be wrong."""


class ChangeContradicts(RequestError):
    """Not done: the change cannot follow the known state of the row."""


BY_CODE: Final[dict[int, type[TalosError]]] = {
    3: UnexpectedOffset,
    4: TopicExists,
    5: TopicNotExist,
    6: QuotaNotExist,
    7: LeaseNotHeld,
    8: LeaseNotHeld,
    9: LeaseNotHeld,
    11: CorruptLog,
    14: OffsetOutOfRange,
    15: InvalidName,
    16: InvalidTopicParams,
    17: NotSupported,
    21: PartitionNotServing,
    22: PartitionNotExist,
    25: Unavailable,
    27: ExcessivePending,
    28: PermissionDenied,
    30: InvalidCredential,
    31: SubResourceNameExists,
    32: NothingThere,
    33: DeadlinePassed,
    34: QuotaExceeded,
    35: ThrottleRejected,
    36: QuotaAutoApproveFailed,
    37: StoreUnavailable,
    38: ClockSkewed,
    39: RequestTooLarge,
    40: BadRequest,
    41: ConsumerGroupNotExist,
    42: BadRequest,
    43: BadRequest,
    44: PreviewFailed,
    45: BadRequest,
    46: BadRequest,
    48: NotSupported,
    49: BadRequest,
    50: ChangePartitionTooFast,
    51: TooManyConsumers,
    52: ConsumerGroupWorking,
}
# Every other code may mean that work was done: unexpected and internal errors (2, 26),
# failed storage (10, 12, 13, 18 to 20, 23, 24, 29, 47), a missing code, codes added later.

BY_TABLE_CODE: Final[dict[int, type[TalosError]]] = {
    2: Unavailable,
    21: PermissionDenied,
    22: ValidationFailed,
    23: SizeExceeded,
    24: QuotaExceeded,
    25: ThrottleRejected,
    26: TableNotExist,
    27: TableExists,
    28: TableNotEnabled,
    29: NotSupported,
    30: NotSupported,
    31: InvalidCredential,
    32: ClockSkewed,
    33: RequestTooLarge,
    34: BadRequest,
    36: NotSupported,
    37: DeadlinePassed,
}
# Every other code may stand for work that was done.
# Source: docs/protocol/sds.md#http, idl/sds.thrift ErrorCode.

_DAMAGED: Final = "CorruptLog"  # details of code 28 if what is stored is damaged

# Codes with another meaning in one call.
BY_CALL: Final[dict[tuple[str, int], type[TalosError]]] = {
    ("putMessage", 3): SequenceGap,
    ("putMessage", 9): ProducerFenced,
    ("createTopicGroup", 4): model.TopicGroupExists,
    ("describeTopicGroup", 5): model.TopicGroupNotExist,
    ("deleteTopicGroup", 5): model.TopicGroupNotExist,
    ("updateTopicGroup", 5): model.TopicGroupNotExist,
    ("lookupTopics", 5): model.TopicGroupNotExist,
    ("createTable", 26): TopicNotExist,
    ("alterTable", 29): VersionConflict,
}

BY_STATUS: Final[dict[int, type[TalosError]]] = {
    400: BadRequest,
    401: InvalidCredential,
    403: PermissionDenied,
    404: NotSupported,
    405: NotSupported,
    408: Unavailable,  # the request did not arrive in time, so it was not processed
    412: ClockSkewed,
    413: RequestTooLarge,
    415: BadRequest,
    421: Unavailable,
    429: ThrottleRejected,
    431: BadRequest,
    503: Unavailable,
}
_REDIRECTS: Final = range(300, 400)
_SAYS_UNKNOWN: Final = "outcome unknown"  # in the text of a server that abandoned a call
_SAYS_LATER: Final = "try again"  # in the text of a transient rejection

_NOT_DONE_KINDS: Final = frozenset(
    (
        ApplicationErrorKind.UNKNOWN_METHOD,
        ApplicationErrorKind.INVALID_MESSAGE_TYPE,
        ApplicationErrorKind.WRONG_METHOD_NAME,
        ApplicationErrorKind.PROTOCOL_ERROR,
    )
)


def error_of_exception(call: str, sent: Any) -> TalosError:
    """The error for a Thrift exception in the reply to ``call``."""
    if isinstance(sent, GalaxyTalosException):
        return error_of_code(call, sent.errorCode, sent.errMsg or "")
    return error_of_table_code(call, sent)


def error_of_table_code(call: str, sent: Any) -> TalosError:
    """The error for a ServiceException of a table call; OutcomeUnknown unless the code means not
    done."""
    code, text = sent.errorCode, sent.errorMessage or sent.details
    number = -1 if code is None else int(code)
    kind = BY_CALL.get((call, number)) or BY_TABLE_CODE.get(number, OutcomeUnknown)
    if sent.details == _DAMAGED:
        kind = CorruptLog
    return kind(text or f"{call} failed with code {number}")


def error_of_code(call: str, code: int | None, text: str) -> TalosError:
    """The error for a Talos error code; OutcomeUnknown unless the code means not done."""
    number = -1 if code is None else int(code)
    kind = BY_CALL.get((call, number)) or BY_CODE.get(number, OutcomeUnknown)
    return kind(text or f"{call} failed with code {number}")


def error_of_status(status: int, text: str, where: str) -> TalosError:
    """The error for an HTTP reply that is not a Thrift message."""
    shown = f"{where} failed with HTTP status {status}: {text or 'no reason given'}"
    if status in _REDIRECTS:
        return NotSupported(f"{shown}; use the server itself as endpoint, not a redirect")
    if _SAYS_UNKNOWN in text:
        return OutcomeUnknown(shown)
    if status == 413 and _SAYS_LATER in text:
        return ExcessivePending(shown)
    return BY_STATUS.get(status, OutcomeUnknown)(shown)


def error_of_application(error: ApplicationError) -> TalosError:
    """The error for a TApplicationException: not done if the call could not be dispatched."""
    if error.kind in _NOT_DONE_KINDS:
        return NotSupported(f"{error.name}: {error.text}")
    return OutcomeUnknown(f"{error.name}: {error.text}")
