"""Whatever a port answers, a call ends with a result or an error of the tree; a put that got it is
never reported as not done unless the answer says so."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.sdk.aio.connection import messages
from opentalos.sdk.core.operation import Reply, result_of
from opentalos.wire._generated import message
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire.thrift import MethodSpec, ThriftProtocol, encode_reply

COMPACT = ThriftProtocol.COMPACT
PUT, GET = (MESSAGE_SERVICE.methods[name] for name in ("putMessage", "getMessage"))
BLOCK = message.MessageBlock(
    startMessageOffset=7, messageNumber=2, messageBlock=b"payload", appendTimestamp=5, tag="t"
)
FOUND = message.GetMessageResponse(messageBlocks=[BLOCK], messageNumber=2, sequenceId="x")
STORED = message.PutMessageResponse(sequenceId="x", baseOffset=7)
WHOLE = {
    GET.name: encode_reply(COMPACT, GET, 1, FOUND),
    PUT.name: encode_reply(COMPACT, PUT, 1, STORED),
}
METHODS = st.sampled_from([GET, PUT])


def judge(method: MethodSpec, reply: Reply) -> TalosError | None:
    """The error of a reply, None if it is a result."""
    try:
        result = result_of("http://s1:1", method, reply)
    except TalosError as error:
        return error
    if method is GET:
        messages.fetch_reply(result)
    else:
        messages.put_reply(result)
    return None


def thrift(body: bytes, status: int = 200) -> Reply:
    return Reply(status, {"Content-Type": COMPACT.value}, body)


@settings(deadline=None)
@given(METHODS, st.binary(max_size=200), st.integers(100, 599))
@example(PUT, b"", 200)
def test_random_thrift(method: MethodSpec, body: bytes, status: int) -> None:
    failed = judge(method, thrift(body, status))
    assert failed is None or isinstance(failed, TalosError)


@settings(deadline=None)
@given(METHODS, st.data())
def test_damaged_replies(method: MethodSpec, data: st.DataObject) -> None:
    body = bytearray(WHOLE[method.name])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body[:cut]), bytes(body)):
        failed = judge(method, thrift(damaged))
        assert failed is None or isinstance(failed, TalosError)


def test_every_cut_of_a_whole_reply_leaves_a_put_unknown() -> None:
    body = WHOLE[PUT.name]
    assert judge(PUT, thrift(body)) is None
    for length in range(len(body)):
        assert isinstance(judge(PUT, thrift(body[:length])), OutcomeUnknown)


def test_a_reply_to_another_call_is_unknown() -> None:
    assert isinstance(judge(PUT, thrift(WHOLE[GET.name])), OutcomeUnknown)
    other = encode_reply(COMPACT, PUT, 2, STORED)
    assert isinstance(judge(PUT, thrift(other)), OutcomeUnknown)


@settings(deadline=None)
@given(st.integers(100, 599), st.text(max_size=30), st.binary(max_size=100))
def test_replies_without_thrift(status: int, content_type: str, body: bytes) -> None:
    error = judge(PUT, Reply(status, {"Content-Type": content_type}, body))
    assert error is not None
    if status < 300 or status in (500, 502, 504):
        assert isinstance(error, OutcomeUnknown)
