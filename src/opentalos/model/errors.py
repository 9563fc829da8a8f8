"""One tree of errors, branched by what the caller may do next.

A leaf names a condition. Protocol codes live in each gateway's table, which a test keeps complete.
"""

from collections.abc import Mapping
from typing import ClassVar, Final


class TalosError(Exception):
    """Root of every error that OpenTalos raises on purpose; its text is shown to the client."""

    retry_safe: ClassVar[bool] = False  # True: nothing was changed, so the caller may send again


# --- not done: the caller is wrong and will stay wrong ---------------------------------------


class RequestError(TalosError):
    """Not done: the request is wrong and stays wrong until the caller changes it."""


class BadRequest(RequestError):
    """The request is malformed or a field is out of its range."""


class RequestTooLarge(RequestError):
    """The request is larger than the server accepts."""


class InvalidName(RequestError):
    """A topic, group, principal or organisation name breaks the naming rule."""


class InvalidTopicParams(RequestError):
    """A topic attribute is missing or out of its range."""


class ChangePartitionTooFast(RequestError):
    """The partition count was changed too short a time ago, or a shrink is still draining."""


class TopicExists(RequestError):
    """The owner already has a topic of that name."""


class NothingThere(RequestError):
    """What the request names does not exist as far as this server knows. ``records``: owner and
    name of the topics that it may be about, and what was known of each; another server may just
    have made or changed them."""

    def __init__(self, text: str, records: tuple[tuple[str, str, object], ...] = ()) -> None:
        super().__init__(text)
        self.records = records


class TopicNotExist(NothingThere):
    """No such topic, or the caller was granted nothing on it: both answer alike."""


class PartitionNotExist(NothingThere):
    """The partition id is not below the topic's partition count."""


class TopicGroupNotExist(RequestError):
    """The caller has no topic group of that name."""


class TopicGroupExists(RequestError):
    """The caller already has a topic group of that name."""


class SubResourceNameExists(RequestError):
    """The topic is already bound to an organisation."""


class PermissionDenied(RequestError):
    """The principal may see the resource but not do this to it."""


class InvalidCredential(RequestError):
    """Unknown or disabled key, or a wrong signature."""


class ClockSkewed(RequestError):
    """The request's timestamp is outside the accepted window of the server's clock."""


class OffsetOutOfRange(RequestError):
    """The offset is not retained; confirmed against the manifest, since clients reset on it."""


class UnexpectedOffset(RequestError):
    """An offset argument that can be no offset, such as a negative checkpoint."""


class QuotaExceeded(RequestError):
    """An amount (space, topics, partitions) is used up; the text has limit and measured value."""


class QuotaNotExist(RequestError):
    """No quota or quota request of that name."""


class QuotaAutoApproveFailed(RequestError):
    """The request is too large to be granted without a person."""


class LeaseNotHeld(RequestError):
    """The worker does not hold the lease it acts under."""


class ConsumerGroupNotExist(RequestError):
    """The topic has no such consumer group."""


class ConsumerGroupWorking(RequestError):
    """The consumer group still has live workers."""


class TooManyConsumers(RequestError):
    """The topic has as many consumer groups or workers as it may have."""


class TableNotExist(RequestError):
    """No such table, or the caller was granted nothing on it: both answer alike."""


class TableExists(RequestError):
    """The owner already has a table of that name."""


class TableNotEnabled(RequestError):
    """The table is disabled, or on its way to or from it: it refuses reads and writes."""


class ValidationFailed(RequestError):
    """A record, key, condition or schema breaks the table's schema; nothing was applied."""


class SizeExceeded(RequestError):
    """A key, record, batch or schema is larger than it may be; nothing was applied."""


class PrincipalExists(RequestError):
    """A principal of that name exists."""


class PrincipalNotExist(RequestError):
    """No such principal or key."""


class PreviewFailed(RequestError):
    """The stored messages could not be decoded for a preview."""


class ProducerFenced(RequestError):
    """An idempotent producer of a newer epoch has taken this producer id."""


class SequenceGap(RequestError):
    """An idempotent producer skipped a sequence number; an earlier put was not done."""


class NotSupported(RequestError):
    """A documented part of the protocol that this version does not serve."""


class ConfigError(RequestError):
    """The configuration cannot be used; the text names the key."""


class AlreadyExists(RequestError):
    """A port's ``create`` found the name taken."""


class NotFound(RequestError):
    """A port was asked for a name that does not exist."""


class VersionConflict(RequestError):
    """A compare-and-set found another version; nothing was changed."""


class NewerFormat(RequestError):
    """A file or record was written by a newer version; the text names it. Nothing is touched."""


class CorruptLog(RequestError):
    """Stored bytes fail their check; the text names topic, partition, file, position, offset."""


# --- not done: this server, now -----------------------------------------------------------------


class Unavailable(TalosError):
    """Not done: this server cannot do it now; sending again is safe."""

    retry_safe = True


class PartitionNotServing(Unavailable):
    """The partition is opening, closing, or owned by another server."""


class NotOwner(PartitionNotServing):
    """Another server serves this partition or consumer group; ``address`` (``host:port``) tells
    where it is reached, empty if that is not known now. A gateway forwards such a request once.
    ``topic_uuid``: of the partition's topic, empty for a group; to look again what it says."""

    def __init__(self, text: str, address: str = "", topic_uuid: str = "") -> None:
        super().__init__(text)
        self.address, self.topic_uuid = address, topic_uuid


class ExcessivePending(Unavailable):
    """A bound on bytes in flight is reached."""


class ThrottleRejected(Unavailable):
    """A rate quota is used up; the text has limit and measured value."""


class StorageFull(Unavailable):
    """Too little free space to accept a write; reads go on."""


class DeadlinePassed(Unavailable):
    """The caller's deadline passed before anything was done."""


class StoreUnavailable(Unavailable):
    """A backend did not serve the call; nothing was changed."""


class RecoveryStuck(Unavailable):
    """The storage could not fence a file before the deadline; the text names it."""


# --- durable or not: only an idempotent retry is safe -------------------------------------------


class OutcomeUnknown(TalosError):
    """The write may or may not have happened; a blind retry may duplicate it."""


class Fenced(OutcomeUnknown):
    """Another owner fenced this file: this writer can never acknowledge again."""


class WriterDead(OutcomeUnknown):
    """A commit failed; the file takes no more writes."""


ERRORS_BY_NAME: Final[Mapping[str, type[TalosError]]] = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, TalosError)
}
"""The classes of this module by name: the one source for codecs that carry errors by name."""
