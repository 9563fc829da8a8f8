"""Every error has a form in both gateways, and the form is what the clients need."""

from tests.unit.matrix import matrix

from opentalos.gateway.rest.routing.errors import STATUS, problem
from opentalos.gateway.thrift_http.errors import FORMS, Form, NotTransactional, form_of, text_of
from opentalos.model import errors
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.sdk.errors import error_of_code
from opentalos.wire._generated.common import ErrorCode

CLASSES = [
    item
    for item in vars(errors).values()
    if isinstance(item, type) and issubclass(item, TalosError)
]


@matrix("cls", CLASSES)
def test_every_error_is_in_both_tables(cls: type[TalosError]) -> None:
    assert cls in FORMS
    assert cls in STATUS


@matrix("cls", CLASSES)
def test_the_form_is_the_one_that_clients_understand(cls: type[TalosError]) -> None:
    form = form_of(cls("why"))
    assert ErrorCode(form.code) in ErrorCode
    transport = {30: 401, 38: 412, 14: 400, 21: 400}
    refused_unchecked = cls is errors.AttemptsExceeded
    assert form.status == (429 if refused_unchecked else transport.get(form.code, 200))
    assert text_of(cls("why"), form).endswith("why")
    if issubclass(cls, OutcomeUnknown):
        assert form.code == 2
    elif issubclass(cls, errors.Unavailable):
        assert form.code in (21, 27, 33, 35)


def test_the_phrases_that_go_looks_for_are_in_the_text() -> None:
    for error, phrase in (
        (errors.OffsetOutOfRange("x"), "Message out range"),
        (errors.PartitionNotServing("x"), "partition not serving error"),
    ):
        assert phrase in text_of(error, form_of(error))


def test_transactions_have_the_code_that_no_client_repeats() -> None:
    """Source: idl/common.thrift ERROR_RETRY_TYPE: Java repeats OPERATION_FAILED by itself."""
    error = NotTransactional("why")
    assert isinstance(error, errors.NotSupported)
    assert form_of(error) == Form(ErrorCode.NOT_TRANSACTION_TOPIC_ERROR, status=200)


def test_an_unknown_leaf_takes_the_form_of_its_branch() -> None:
    class Odd(errors.Unavailable):
        pass

    assert form_of(Odd()) == form_of(errors.Unavailable())
    assert text_of(Odd(), form_of(Odd())) == "Odd"


def test_a_problem_says_whether_the_work_may_have_been_done() -> None:
    status, body = problem(errors.WriterDead("gone"), "r7")
    assert status == 504
    assert b'"outcome": "unknown"' in body
    status, body = problem(errors.PartitionNotServing("later"), "r8")
    assert status == 503
    assert b'"retry_safe": true' in body


@matrix("cls", errors.DAMAGE)
def test_damage_has_the_code_on_which_no_client_moves_or_tries_again(cls: type[TalosError]) -> None:
    """Source: idl/common.thrift ERROR_RETRY_TYPE: UNSAFE, so only if retries are switched on."""
    assert form_of(cls("why")).code == ErrorCode.MESSAGE_INCOMPLETE
    assert type(error_of_code("getMessage", form_of(cls("why")).code, "why")) is errors.CorruptLog
