"""The one table from error to Talos error code and HTTP status.

Declared exceptions use status 200, except codes 14 and 21, whose text the Go client searches in
the body of another status. Source: docs/protocol/wire.md#choosing-the-status-of-an-error.
"""

from typing import NamedTuple

from opentalos.model import errors
from opentalos.model.errors import NotSupported, TalosError


class NotTransactional(NotSupported):
    """Not done: a call or block of transactions, which no topic has."""


class Form(NamedTuple):
    """How one error class is answered."""

    code: int  # common.thrift ErrorCode
    status: int = 200
    phrase: str = ""  # what Go looks for in the text


OUT_OF_RANGE_PHRASE = "Message out range"
NOT_SERVING_PHRASE = "partition not serving error"

_NOT_SERVING = Form(21, 400, NOT_SERVING_PHRASE)
_UNKNOWN_OUTCOME = Form(2)
_PENDING = Form(27)
_INTERNAL = Form(26)
# MESSAGE_INCOMPLETE: no client moves its position on it, and none repeats it unless asked to.
_DAMAGED = Form(11)

FORMS: dict[type[TalosError], Form] = {
    errors.BadRequest: Form(40),
    errors.RequestTooLarge: Form(39),
    errors.InvalidName: Form(15),
    errors.InvalidTopicParams: Form(16),
    errors.ChangePartitionTooFast: Form(50),
    errors.TopicExists: Form(4),
    errors.NothingThere: Form(5),
    errors.TopicNotExist: Form(5),
    errors.PartitionNotExist: Form(22),
    errors.TopicGroupNotExist: Form(5),
    errors.TopicGroupExists: Form(4),
    errors.SubResourceNameExists: Form(31),
    errors.PermissionDenied: Form(28),
    errors.InvalidCredential: Form(30, 401),
    errors.ClockSkewed: Form(38, 412),
    errors.OffsetOutOfRange: Form(14, 400, OUT_OF_RANGE_PHRASE),
    errors.UnexpectedOffset: Form(3),
    errors.QuotaExceeded: Form(34),
    errors.QuotaNotExist: Form(6),
    errors.QuotaAutoApproveFailed: Form(36),
    errors.LeaseNotHeld: Form(9),
    errors.ConsumerGroupNotExist: Form(41),
    errors.ConsumerGroupWorking: Form(52),
    errors.TooManyConsumers: Form(51),
    # Talos has no tables and no invoices: these codes only keep the table whole.
    errors.InvoiceNotExist: Form(40),
    errors.TableNotExist: Form(40),
    errors.TableExists: Form(40),
    errors.TableNotEnabled: Form(40),
    errors.ValidationFailed: Form(40),
    errors.SizeExceeded: Form(40),
    errors.PrincipalExists: Form(40),
    errors.PrincipalNotExist: Form(40),
    errors.PreviewFailed: Form(44),
    errors.ProducerFenced: Form(9),
    errors.SequenceGap: Form(3),
    errors.NotSupported: Form(17),
    NotTransactional: Form(48),  # no client repeats it, while 17 is one of the SAFE codes
    errors.ConfigError: _INTERNAL,
    errors.AlreadyExists: _INTERNAL,
    errors.NotFound: _INTERNAL,
    errors.VersionConflict: Form(17),
    errors.NewerFormat: _DAMAGED,
    errors.CorruptLog: _DAMAGED,
    errors.PartitionNotServing: _NOT_SERVING,
    errors.NotOwner: _NOT_SERVING,
    errors.LeaderEpochFenced: _NOT_SERVING,
    errors.LeaderEpochUnknown: _NOT_SERVING,
    errors.ExcessivePending: _PENDING,
    errors.ThrottleRejected: Form(35),
    errors.AttemptsExceeded: Form(35, 429),
    errors.StorageFull: _PENDING,
    errors.ManifestFull: _PENDING,
    errors.LeaseHeld: _PENDING,  # leases are of REST only
    errors.DeadlinePassed: Form(33),
    errors.StoreUnavailable: _NOT_SERVING,
    errors.RecoveryStuck: _NOT_SERVING,
    errors.Fenced: _UNKNOWN_OUTCOME,
    errors.WriterDead: _UNKNOWN_OUTCOME,
    # Branches, for leaves that only other packages know.
    errors.RequestError: Form(40),
    errors.Unavailable: _PENDING,
    errors.OutcomeUnknown: _UNKNOWN_OUTCOME,
    errors.TalosError: _INTERNAL,
}


def form_of(error: TalosError) -> Form:
    """The form of the error's class or its nearest ancestor."""
    return next(FORMS[cls] for cls in type(error).__mro__ if cls in FORMS)


def text_of(error: TalosError, form: Form) -> str:
    """The text for the client, with the phrase that Go searches."""
    text = str(error) or type(error).__name__
    return f"{form.phrase}: {text}" if form.phrase else text
