"""The one table from error to HTTP status, and the problem document (RFC 9457)."""

import json
from typing import Any

from opentalos.model import errors
from opentalos.model.errors import BadRequest, OutcomeUnknown, TalosError


class NotServed(BadRequest):
    """The path and method name nothing that REST serves."""


class NotClustered(BadRequest):
    """Only a server of a cluster can do this."""


STATUS: dict[type[TalosError], int] = {
    NotServed: 404,
    NotClustered: 409,
    errors.BadRequest: 400,
    errors.RequestTooLarge: 413,
    errors.InvalidName: 400,
    errors.InvalidTopicParams: 400,
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
    errors.OffsetOutOfRange: 400,
    errors.UnexpectedOffset: 400,
    errors.QuotaExceeded: 403,
    errors.QuotaNotExist: 404,
    errors.QuotaAutoApproveFailed: 403,
    errors.LeaseNotHeld: 409,
    errors.ConsumerGroupNotExist: 404,
    errors.ConsumerGroupWorking: 409,
    errors.TooManyConsumers: 409,
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
    errors.ExcessivePending: 503,
    errors.ThrottleRejected: 429,
    errors.StorageFull: 503,
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


def problem(error: TalosError) -> tuple[int, bytes]:
    """Status and problem document; ``outcome`` says whether the work may have been done."""
    status = status_of(error)
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": type(error).__name__,
        "status": status,
        "detail": str(error),
        "outcome": "unknown" if isinstance(error, OutcomeUnknown) else "not done",
        "retry_safe": error.retry_safe,
    }
    return status, json.dumps(document).encode()
