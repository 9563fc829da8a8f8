"""Every error has an SDS code, and the code is what the clients may do about it."""

from tests.unit.matrix import matrix

from opentalos.gateway.sds_http.errors import CODES, exception_of
from opentalos.model import errors
from opentalos.model.errors import OutcomeUnknown, TalosError, Unavailable
from opentalos.sdk.errors import error_of_exception
from opentalos.wire._generated.sds import ErrorCode

CLASSES = [
    item
    for item in vars(errors).values()
    if isinstance(item, type) and issubclass(item, TalosError)
]
# Source: idl/sds.thrift ERROR_BACKOFF, without those that clients repeat only on request.
REPEATED = (ErrorCode.SERVICE_UNAVAILABLE, ErrorCode.THROUGHPUT_EXCEED, ErrorCode.REQUEST_TIMEOUT)


@matrix("cls", CLASSES)
def test_every_error_is_in_the_table(cls: type[TalosError]) -> None:
    assert cls in CODES


@matrix("cls", CLASSES)
def test_clients_repeat_what_was_not_done_and_nothing_else(cls: type[TalosError]) -> None:
    code = exception_of(cls("why")).errorCode
    assert (code in REPEATED) == issubclass(cls, Unavailable)
    if issubclass(cls, OutcomeUnknown):
        assert code == ErrorCode.INTERNAL_ERROR


def test_an_unknown_leaf_takes_the_code_of_its_branch() -> None:
    class Odd(Unavailable):
        pass

    exception = exception_of(Odd(), "r7")
    assert exception.errorCode == ErrorCode.SERVICE_UNAVAILABLE
    assert (exception.errorMessage, exception.requestId) == ("Odd", "r7")


@matrix("cls", CLASSES)
def test_every_exception_has_what_the_go_client_dereferences(cls: type[TalosError]) -> None:
    exception = exception_of(cls("why"), "r7")
    damage = isinstance(cls("why"), errors.CorruptLog)
    assert (exception.details, exception.callId) == ("CorruptLog" if damage else "why", "r7")
    assert exception_of(cls("why")).callId == ""


@matrix("cls", errors.DAMAGE)
def test_damage_is_named_and_nobody_repeats_the_call(cls: type[TalosError]) -> None:
    exception = exception_of(cls("partition 0 is damaged"))
    assert exception.errorCode not in (*REPEATED, ErrorCode.INTERNAL_ERROR)
    found = error_of_exception("getLatestStreamCheckpoint", exception)
    named = errors.CorruptLog if cls is errors.CorruptLog else errors.NotSupported
    assert (type(found), str(found)) == (named, "partition 0 is damaged")
