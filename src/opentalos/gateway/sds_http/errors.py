"""The table from error to SDS error code.

Source: docs/protocol/sds.md#http. Clients repeat SERVICE_UNAVAILABLE, THROUGHPUT_EXCEED and
REQUEST_TIMEOUT by themselves, so these codes are only used for calls that were not done;
INTERNAL_ERROR they repeat only if configured to, so it is used where the outcome is unknown.
"""

from typing import Final

from opentalos.model import errors
from opentalos.model.errors import TalosError
from opentalos.wire._generated.sds import ErrorCode, ServiceException

DAMAGED: Final = "CorruptLog"  # in the details of an exception

CODES: Final[dict[type[TalosError], ErrorCode]] = {
    errors.BadRequest: ErrorCode.VALIDATION_FAILED,
    errors.RequestTooLarge: ErrorCode.REQUEST_TOO_LARGE,
    errors.InvalidName: ErrorCode.VALIDATION_FAILED,
    errors.InvalidTopicParams: ErrorCode.VALIDATION_FAILED,
    errors.ChangePartitionTooFast: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.TopicExists: ErrorCode.RESOURCE_ALREADY_EXISTS,
    errors.NothingThere: ErrorCode.RESOURCE_NOT_FOUND,
    errors.TopicNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.PartitionNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.TopicGroupNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.TopicGroupExists: ErrorCode.RESOURCE_ALREADY_EXISTS,
    errors.SubResourceNameExists: ErrorCode.RESOURCE_ALREADY_EXISTS,
    errors.PermissionDenied: ErrorCode.ACCESS_DENIED,
    errors.InvalidCredential: ErrorCode.INVALID_AUTH,
    errors.ClockSkewed: ErrorCode.CLOCK_TOO_SKEWED,
    errors.OffsetOutOfRange: ErrorCode.VALIDATION_FAILED,
    errors.UnexpectedOffset: ErrorCode.VALIDATION_FAILED,
    errors.QuotaExceeded: ErrorCode.QUOTA_EXCEED,
    errors.QuotaNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.InvoiceNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.QuotaAutoApproveFailed: ErrorCode.QUOTA_EXCEED,
    errors.LeaseNotHeld: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.ConsumerGroupNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.ConsumerGroupWorking: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.TooManyConsumers: ErrorCode.QUOTA_EXCEED,
    errors.TableNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.TableExists: ErrorCode.RESOURCE_ALREADY_EXISTS,
    errors.TableNotEnabled: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.ValidationFailed: ErrorCode.VALIDATION_FAILED,
    errors.SizeExceeded: ErrorCode.SIZE_EXCEED,
    errors.PrincipalExists: ErrorCode.RESOURCE_ALREADY_EXISTS,
    errors.PrincipalNotExist: ErrorCode.RESOURCE_NOT_FOUND,
    errors.PreviewFailed: ErrorCode.VALIDATION_FAILED,
    errors.ProducerFenced: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.SequenceGap: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.NotSupported: ErrorCode.UNSUPPORTED_OPERATION,
    errors.ConfigError: ErrorCode.INTERNAL_ERROR,
    errors.AlreadyExists: ErrorCode.INTERNAL_ERROR,
    errors.NotFound: ErrorCode.INTERNAL_ERROR,
    errors.VersionConflict: ErrorCode.UNSUPPORTED_VERSION,
    errors.NewerFormat: ErrorCode.UNSUPPORTED_VERSION,
    errors.CorruptLog: ErrorCode.RESOURCE_UNAVAILABLE,
    errors.PartitionNotServing: ErrorCode.SERVICE_UNAVAILABLE,
    errors.NotOwner: ErrorCode.SERVICE_UNAVAILABLE,
    errors.LeaderEpochFenced: ErrorCode.SERVICE_UNAVAILABLE,
    errors.LeaderEpochUnknown: ErrorCode.SERVICE_UNAVAILABLE,
    errors.ExcessivePending: ErrorCode.SERVICE_UNAVAILABLE,
    errors.ThrottleRejected: ErrorCode.THROUGHPUT_EXCEED,
    errors.AttemptsExceeded: ErrorCode.THROUGHPUT_EXCEED,
    errors.StorageFull: ErrorCode.SERVICE_UNAVAILABLE,
    errors.ManifestFull: ErrorCode.SERVICE_UNAVAILABLE,
    errors.LeaseHeld: ErrorCode.SERVICE_UNAVAILABLE,
    errors.DeadlinePassed: ErrorCode.REQUEST_TIMEOUT,
    errors.StoreUnavailable: ErrorCode.SERVICE_UNAVAILABLE,
    errors.RecoveryStuck: ErrorCode.SERVICE_UNAVAILABLE,
    errors.Fenced: ErrorCode.INTERNAL_ERROR,
    errors.WriterDead: ErrorCode.INTERNAL_ERROR,
    # Base classes, for leaves of other packages.
    errors.RequestError: ErrorCode.BAD_REQUEST,
    errors.Unavailable: ErrorCode.SERVICE_UNAVAILABLE,
    errors.OutcomeUnknown: ErrorCode.INTERNAL_ERROR,
    errors.TalosError: ErrorCode.INTERNAL_ERROR,
}


def exception_of(error: TalosError, request_id: str = "") -> ServiceException:
    """The exception for an error: the code of its class or its nearest ancestor, and its text.

    The Go client dereferences ``details`` and ``callId`` of every exception, and its example prints
    no other text. No code is for damage alone, so there ``details`` has its name.
    """
    code = next(CODES[cls] for cls in type(error).__mro__ if cls in CODES)
    text = str(error) or type(error).__name__
    return ServiceException(
        errorCode=code,
        errorMessage=text,
        details=DAMAGED if isinstance(error, errors.CorruptLog) else text,
        callId=request_id,
        requestId=request_id or None,
    )
