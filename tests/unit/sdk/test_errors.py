"""The answer of a server becomes an error that claims only what the server knows."""

import pickle

import pytest
from tests.unit.matrix import matrix

from opentalos.gateway.sds_http.errors import CODES
from opentalos.gateway.thrift_http.errors import FORMS, NotTransactional
from opentalos.model import errors
from opentalos.model.errors import OutcomeUnknown, RequestError, TalosError, Unavailable
from opentalos.model.message import OffsetRange
from opentalos.sdk.errors import (
    BY_CODE,
    BY_STATUS,
    BY_TABLE_CODE,
    PositionExpired,
    error_of_application,
    error_of_code,
    error_of_exception,
    error_of_status,
)
from opentalos.wire._generated import sds
from opentalos.wire._generated.common import ErrorCode
from opentalos.wire._generated.sds import ServiceException
from opentalos.wire.thrift.error import ApplicationError, ApplicationErrorKind

# Internal errors of a server: it did nothing, but its code stands for failures of every kind.
SHOWN_AS_UNKNOWN = {
    errors.ConfigError,
    errors.AlreadyExists,
    errors.NotFound,
    errors.TalosError,
}
# One code for several leaves: the client sees the first of them, of the same branch.
SEVERAL = {
    errors.NothingThere: errors.TopicNotExist,
    errors.TopicGroupNotExist: errors.TopicNotExist,
    errors.TopicGroupExists: errors.TopicExists,
    errors.TableNotExist: errors.BadRequest,
    errors.TableExists: errors.BadRequest,
    errors.TableNotEnabled: errors.BadRequest,
    errors.ValidationFailed: errors.BadRequest,
    errors.SizeExceeded: errors.BadRequest,
    errors.PrincipalExists: errors.BadRequest,
    errors.PrincipalNotExist: errors.BadRequest,
    errors.InvoiceNotExist: errors.BadRequest,
    errors.NewerFormat: errors.CorruptLog,
    errors.ProducerFenced: errors.LeaseNotHeld,
    errors.SequenceGap: errors.UnexpectedOffset,
    errors.VersionConflict: errors.NotSupported,
    NotTransactional: errors.NotSupported,
    errors.NotOwner: errors.PartitionNotServing,
    errors.LeaderEpochFenced: errors.PartitionNotServing,
    errors.LeaderEpochUnknown: errors.PartitionNotServing,
    errors.AttemptsExceeded: errors.ThrottleRejected,
    errors.StorageFull: errors.ExcessivePending,
    errors.ManifestFull: errors.ExcessivePending,
    errors.LeaseHeld: errors.ExcessivePending,
    errors.StoreUnavailable: errors.PartitionNotServing,
    errors.RecoveryStuck: errors.PartitionNotServing,
    errors.Fenced: errors.OutcomeUnknown,
    errors.WriterDead: errors.OutcomeUnknown,
    errors.RequestError: errors.BadRequest,
    errors.Unavailable: errors.ExcessivePending,
}
BRANCHES = (RequestError, Unavailable, OutcomeUnknown)


def branch_of(error: TalosError) -> type[TalosError]:
    return next(branch for branch in BRANCHES if isinstance(error, branch))


@matrix("sent", FORMS)
def test_every_error_of_a_server_maps_to_its_branch(sent: type[TalosError]) -> None:
    got = error_of_code("anyCall", FORMS[sent].code, "why")
    assert str(got) == "why"
    if sent in SHOWN_AS_UNKNOWN:
        assert branch_of(got) is OutcomeUnknown
        return
    assert type(got) is SEVERAL.get(sent, sent)
    assert branch_of(got) is branch_of(sent("why"))


@matrix("code", ErrorCode)
def test_every_code_of_the_protocol_is_an_error(code: ErrorCode) -> None:
    error = error_of_code("anyCall", code, "")
    assert branch_of(error) in BRANCHES
    assert str(code.value) in str(error)


@pytest.mark.parametrize("code", [None, 0, 1, 2, 10, 12, 18, 26, 47, 53, 9_999, -3])
def test_a_code_that_does_not_say_not_done_is_unknown(code: int | None) -> None:
    assert type(error_of_code("putMessage", code, "")) is OutcomeUnknown


@matrix("sent", CODES)
def test_every_error_of_tables_maps_to_its_branch(sent: type[TalosError]) -> None:
    answer = ServiceException(errorCode=CODES[sent], errorMessage="why")
    got = error_of_exception("anyCall", answer)
    assert str(got) == "why"
    if CODES[sent] is sds.ErrorCode.INTERNAL_ERROR:
        assert type(got) is OutcomeUnknown
    else:
        assert branch_of(got) is branch_of(sent("why"))


def test_a_code_may_mean_something_else_in_one_call() -> None:
    assert type(error_of_code("putMessage", 9, "")) is errors.ProducerFenced
    assert type(error_of_code("renew", 9, "")) is errors.LeaseNotHeld
    assert type(error_of_code("describeTopicGroup", 5, "")) is errors.TopicGroupNotExist
    missing = ServiceException(errorCode=sds.ErrorCode.RESOURCE_NOT_FOUND)
    assert type(error_of_exception("createTable", missing)) is errors.TopicNotExist
    assert type(error_of_exception("get", missing)) is errors.TableNotExist


def test_the_tables_hold_no_unknown_outcome() -> None:
    for kind in (*BY_CODE.values(), *BY_TABLE_CODE.values(), *BY_STATUS.values()):
        assert issubclass(kind, RequestError | Unavailable)


@matrix(
    ("status", "text", "kind"),
    [
        (400, "", errors.BadRequest),
        (401, "", errors.InvalidCredential),
        (404, "", errors.NotSupported),
        (408, "", errors.Unavailable),
        (412, "", errors.ClockSkewed),
        (413, "", errors.RequestTooLarge),
        (413, "the server holds too many request bytes now; try again", errors.ExcessivePending),
        (302, "", errors.NotSupported),
        (503, "too many connections", errors.Unavailable),
        (503, "this takes too long: outcome unknown", OutcomeUnknown),
        (200, "a web page", OutcomeUnknown),
        (500, "", OutcomeUnknown),
        (502, "", OutcomeUnknown),
        (504, "", OutcomeUnknown),
    ],
)
def test_a_reply_without_thrift_is_judged_by_its_status(
    status: int, text: str, kind: type[TalosError]
) -> None:
    error = error_of_status(status, text, "putMessage at http://s1:1")
    assert type(error) is kind
    assert "putMessage at http://s1:1" in str(error)
    assert str(status) in str(error)


@pytest.mark.parametrize("kind", ApplicationErrorKind, ids=lambda kind: kind.name)
def test_a_call_that_no_method_took_is_not_done(kind: ApplicationErrorKind) -> None:
    not_taken = kind.name in (
        "UNKNOWN_METHOD", "INVALID_MESSAGE_TYPE", "WRONG_METHOD_NAME", "PROTOCOL_ERROR"
    )  # fmt: skip
    error = error_of_application(ApplicationError("putMessage", 1, kind, "why"))
    assert type(error) is (errors.NotSupported if not_taken else OutcomeUnknown)


def test_errors_travel_between_processes() -> None:
    sent = PositionExpired("demo", 3, 7, OffsetRange(9, 12))
    got = pickle.loads(pickle.dumps(sent))
    assert (str(got), got.offset, got.retained) == (str(sent), 7, OffsetRange(9, 12))
    assert str(pickle.loads(pickle.dumps(errors.TopicNotExist("gone")))) == "gone"
