"""One tree of errors; the branch says what the caller may do next.

Three branches: ``RequestError`` (not done, and a retry fails again), ``Unavailable`` (not done, a
retry is safe), ``OutcomeUnknown`` (the write may have happened; promise I7). A leaf names one
condition, and its docstring repeats the outcome. Each gateway maps leaves to its protocol's codes
in one table, which a test keeps complete.
"""

import copy
from collections.abc import Mapping
from typing import ClassVar, Final, TypeVar

_Error = TypeVar("_Error", bound=BaseException)


class TalosError(Exception):
    """Root of every error that OpenTalos raises on purpose; its text is shown to the client."""

    retry_safe: ClassVar[bool] = False  # True: nothing was changed, the caller may retry


def to_keep(error: _Error) -> _Error:
    """A copy for whoever remembers an error: without the traceback.

    The frames in that refer to what the error was raised in. Stored there, it would be a cycle,
    which keeps a closed file or a deleted partition until a full collection.
    """
    return copy.copy(error)


# --- not done, permanent: the caller has to change the request -------------------------------


class RequestError(TalosError):
    """Not done: the request fails again until the caller changes it."""


class BadRequest(RequestError):
    """Not done: the request is malformed or a field is out of range."""


class RequestTooLarge(RequestError):
    """Not done: the request is larger than the server accepts."""


class InvalidName(RequestError):
    """Not done: a topic, group, principal or organisation name breaks the naming rule."""


class InvalidTopicParams(RequestError):
    """Not done: a topic attribute is missing or out of range."""


class ChangePartitionTooFast(RequestError):
    """Not done: the partition count changed too recently, or a shrink is still draining."""


class TopicExists(RequestError):
    """Not done: the owner already has a topic with this name."""


class NothingThere(RequestError):
    """Not done: the named resource does not exist as far as this server knows.

    ``records``: owner, name and known version of the topics that the request may mean. Another
    server may just have created or changed one of them, so the broker checks these again.
    """

    def __init__(self, text: str, records: tuple[tuple[str, str, object], ...] = ()) -> None:
        super().__init__(text)
        self.records = records


class TopicNotExist(NothingThere):
    """Not done: no such topic, or the caller has no permission on it; both look the same."""


class PartitionNotExist(NothingThere):
    """Not done: the partition id is not below the topic's partition count."""


class TopicGroupNotExist(RequestError):
    """Not done: the caller has no topic group with this name."""


class TopicGroupExists(RequestError):
    """Not done: the caller already has a topic group with this name."""


class SubResourceNameExists(RequestError):
    """Not done: the topic is already bound to an organisation."""


class PermissionDenied(RequestError):
    """Not done: the principal may see the resource but lacks this permission."""


class InvalidCredential(RequestError):
    """Not done: unknown or disabled key, or a wrong signature."""


class ClockSkewed(RequestError):
    """Not done: the request's timestamp is too far from the server's clock."""


class OffsetOutOfRange(RequestError):
    """Not done: the offset is not retained. Confirmed against the manifest, because clients reset
    their position when they see this error."""


class UnexpectedOffset(RequestError):
    """Not done: an argument cannot be an offset, such as a negative checkpoint."""


class QuotaExceeded(RequestError):
    """Not done: an amount (space, topics, partitions) is used up; the text names limit and use."""


class QuotaNotExist(RequestError):
    """Not done: no quota or quota request with this name."""


class InvoiceNotExist(RequestError):
    """Not done: no such invoice, or the caller may not see it; both look the same."""


class QuotaAutoApproveFailed(RequestError):
    """Not done: the request is too large to be granted without manual approval."""


class LeaseNotHeld(RequestError):
    """Not done: the worker does not hold the lease that the request names."""


class ConsumerGroupNotExist(RequestError):
    """Not done: the topic has no such consumer group."""


class ConsumerGroupWorking(RequestError):
    """Not done: the consumer group still has live workers."""


class TooManyConsumers(RequestError):
    """Not done: the topic has reached its limit of consumer groups or workers."""


class TableNotExist(RequestError):
    """Not done: no such table, or the caller has no permission on it; both look the same."""


class TableExists(RequestError):
    """Not done: the owner already has a table with this name."""


class TableNotEnabled(RequestError):
    """Not done: the table is disabled, or being enabled or disabled."""


class ValidationFailed(RequestError):
    """Not done: a record, key, condition or schema breaks the table's schema."""


class SizeExceeded(RequestError):
    """Not done: a key, record, batch or schema is larger than its limit."""


class PrincipalExists(RequestError):
    """Not done: a principal with this name exists."""


class PrincipalNotExist(RequestError):
    """Not done: no such principal or key."""


class PreviewFailed(RequestError):
    """Not done: the stored messages could not be decoded for a preview."""


class ProducerFenced(RequestError):
    """Not done: an idempotent producer with a newer epoch uses this producer id."""


class SequenceGap(RequestError):
    """Not done: an idempotent producer skipped a sequence number; an earlier put is missing.

    Without ``producer_known`` the log knows no such producer, or none any more.
    """

    def __init__(self, text: str, *, producer_known: bool = True) -> None:
        super().__init__(text)
        self.producer_known = producer_known


class NotSupported(RequestError):
    """Not done: a documented part of the protocol that this version does not support."""


class ConfigError(RequestError):
    """Not done: the configuration is invalid; the text names the key."""


class AlreadyExists(RequestError):
    """Not done: a store's ``create`` found the name in use."""


class NotFound(RequestError):
    """Not done: a store has nothing under this name."""


class VersionConflict(RequestError):
    """Not done: a compare-and-set found another version."""


class NewerFormat(RequestError):
    """Not done: a newer version wrote this file or record; the text names it."""


class CorruptLog(RequestError):
    """Not done: stored bytes fail their checksum; the text names partition, file and position."""

    record_version = 0  # of a damaged record that a compare-and-set can replace; 0: it cannot


# A partition that cannot be read to its end has one of these, until a restart at least.
DAMAGE: Final = (CorruptLog, NewerFormat)


# --- not done, temporary: a retry is safe -------------------------------------------------------


class Unavailable(TalosError):
    """Not done: this server cannot serve the request now; a retry is safe."""

    retry_safe = True


class PartitionNotServing(Unavailable):
    """Not done: the partition is opening, closing, or owned by another server."""


class NotOwner(PartitionNotServing):
    """Not done: another server owns this partition or consumer group.

    ``address`` (``host:port``) is that server, empty if it is unknown; a gateway forwards the
    request there once. ``topic_uuid`` names the partition's topic, so that its record can be
    refreshed; empty for a group.
    """

    def __init__(self, text: str, address: str = "", topic_uuid: str = "") -> None:
        super().__init__(text)
        self.address, self.topic_uuid = address, topic_uuid


class LeaderEpochFenced(PartitionNotServing):
    """Not done: the caller names an older epoch than the one in which this server leads."""


class LeaderEpochUnknown(PartitionNotServing):
    """Not done: the caller names a newer epoch than this server knows."""


class ExcessivePending(Unavailable):
    """Not done: a limit of bytes or requests in flight is reached."""


class ThrottleRejected(Unavailable):
    """Not done: a rate quota is exceeded; the text names limit and measured value."""


class AttemptsExceeded(Unavailable):
    """Not done: too many failed authentications; the credentials were not checked."""


class StorageFull(Unavailable):
    """Not done: too little free space for a write; reads continue."""


class ManifestFull(Unavailable):
    """Not done: this partition has as many segments as one record can name; others are served."""


class LeaseHeld(Unavailable):
    """Not done: another holder has the named lease; it is free once that lease has expired."""


class DeadlinePassed(Unavailable):
    """Not done: the caller's deadline passed first."""


class StoreUnavailable(Unavailable):
    """Not done: a storage backend did not serve the call."""


class RecoveryStuck(Unavailable):
    """Not done: the storage could not fence a file before the deadline; the text names it."""


# --- unknown: the write may be durable, so only an idempotent retry is safe ---------------------


class OutcomeUnknown(TalosError):
    """Unknown: the write may or may not have happened; a plain retry may duplicate it."""


class Fenced(OutcomeUnknown):
    """Unknown: another owner fenced this file; this writer acknowledges nothing any more."""


class WriterDead(OutcomeUnknown):
    """Unknown: a commit failed; the file accepts no further writes."""


ERRORS_BY_NAME: Final[Mapping[str, type[TalosError]]] = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, TalosError)
}
"""The classes of this module by name: the one source for codecs that carry errors by name."""
