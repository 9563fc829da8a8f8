"""The mapping from errors to HTTP statuses, and the problem document (RFC 9457)."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentalos.broker.messaging.block_reader import MessageUnreadable
from opentalos.broker.messaging.keyed_puts import KeyReused
from opentalos.broker.messaging.plain_messages import SeveralPartitions
from opentalos.model import errors
from opentalos.model.errors import BadRequest, OutcomeUnknown, TalosError


class NotServed(BadRequest):
    """Nothing is served at this path."""


class MethodNotAllowed(BadRequest):
    """The path does not support this method; ``methods`` has those that it does."""

    def __init__(self, text: str, methods: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.methods = methods


class UnsupportedMediaType(BadRequest):
    """The operation does not support the body's content type."""


class NoSuchStream(BadRequest):
    """The table has no stream to that topic."""


class NoSuchLease(BadRequest):
    """The tenant has no lease of that name."""


class NoSession(BadRequest):
    """The request belongs to no session."""


class Unusable(BadRequest):
    """Each value is valid, but not together or not for this resource."""


class NotClustered(BadRequest):
    """Only a member of a cluster can do this."""


@contextmanager
def usable() -> Iterator[None]:
    """The request fits its schema, so what is wrong are the values: 422."""
    try:
        yield
    except BadRequest as error:
        raise Unusable(str(error)) from error


STATUS: dict[type[TalosError], int] = {
    NotServed: 404,
    NoSuchStream: 404,
    NoSuchLease: 404,
    NoSession: 404,
    MethodNotAllowed: 405,
    UnsupportedMediaType: 415,
    NotClustered: 409,
    Unusable: 422,
    KeyReused: 422,
    SeveralPartitions: 422,
    MessageUnreadable: 422,
    errors.BadRequest: 400,
    errors.RequestTooLarge: 413,
    errors.InvalidName: 400,
    errors.InvalidTopicParams: 422,
    errors.ChangePartitionTooFast: 409,
    errors.TopicExists: 409,
    errors.NothingThere: 404,
    errors.TopicNotExist: 404,
    errors.PartitionNotExist: 404,
    errors.TopicGroupNotExist: 404,
    errors.TopicGroupExists: 409,
    errors.SubResourceNameExists: 409,
    errors.PermissionDenied: 403,
    errors.InvalidCredential: 401,
    errors.ClockSkewed: 412,
    errors.OffsetOutOfRange: 404,
    errors.UnexpectedOffset: 409,
    errors.QuotaExceeded: 403,
    errors.QuotaNotExist: 404,
    errors.InvoiceNotExist: 404,
    errors.QuotaAutoApproveFailed: 403,
    errors.LeaseNotHeld: 409,
    errors.ConsumerGroupNotExist: 404,
    errors.ConsumerGroupWorking: 409,
    errors.TooManyConsumers: 409,
    errors.TableNotExist: 404,
    errors.TableExists: 409,
    errors.TableNotEnabled: 409,
    errors.ValidationFailed: 422,
    errors.SizeExceeded: 422,
    errors.PrincipalExists: 409,
    errors.PrincipalNotExist: 404,
    errors.PreviewFailed: 422,
    errors.ProducerFenced: 409,
    errors.SequenceGap: 409,
    errors.NotSupported: 501,
    errors.ConfigError: 500,
    errors.AlreadyExists: 500,
    errors.NotFound: 500,
    errors.VersionConflict: 409,
    errors.NewerFormat: 500,
    errors.CorruptLog: 500,
    errors.PartitionNotServing: 503,
    errors.NotOwner: 503,
    errors.LeaderEpochFenced: 503,
    errors.LeaderEpochUnknown: 503,
    errors.ExcessivePending: 503,
    errors.ThrottleRejected: 429,
    errors.AttemptsExceeded: 429,
    errors.StorageFull: 503,
    errors.ManifestFull: 503,
    errors.LeaseHeld: 409,
    errors.DeadlinePassed: 503,
    errors.StoreUnavailable: 503,
    errors.RecoveryStuck: 503,
    errors.Fenced: 504,
    errors.WriterDead: 504,
    # Branches, for leaves that only other packages know.
    errors.RequestError: 400,
    errors.Unavailable: 503,
    errors.OutcomeUnknown: 504,
    errors.TalosError: 500,
}


def status_of(error: TalosError) -> int:
    """Status of the error's class or its nearest ancestor."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem(error: TalosError, request_id: str) -> tuple[int, bytes]:
    """Status and problem document; ``outcome`` says whether the work may have been done."""
    status = status_of(error)
    return status, _document(
        name=type(error).__name__,
        status=status,
        detail=str(error),
        request_id=request_id,
        unknown=isinstance(error, OutcomeUnknown),
        retry_safe=error.retry_safe,
    )


def internal_problem(request_id: str) -> bytes:
    """Problem document of an unexpected error; the outcome is unknown."""
    return _document(
        name="InternalError",
        status=500,
        detail="internal error; see the server's log for this request id",
        request_id=request_id,
        unknown=True,
        retry_safe=False,
    )


def _document(
    *, name: str, status: int, detail: str, request_id: str, unknown: bool, retry_safe: bool
) -> bytes:
    document: dict[str, Any] = {
        "type": f"urn:opentalos:error:{name}",
        "title": name,
        "status": status,
        "detail": detail,
        "instance": f"urn:opentalos:request:{request_id}",
        "outcome": "unknown" if unknown else "not done",
        "retry_safe": retry_safe,
    }
    return json.dumps(document).encode() + b"\n"
