"""Our codec against Apache thrift and thriftpy2: each reads what the other wrote."""

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.matrix import matrix
from tests.unit.wire.foreign_thrift import APACHE, THRIFTPY, ForeignMessage, samples

from opentalos.wire._generated.binlog import Binlog
from opentalos.wire._generated.common import GalaxyTalosException
from opentalos.wire._generated.message import Message, PutMessageResponse
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import (
    ApplicationError,
    ApplicationErrorKind,
    MessageKind,
    MethodSpec,
    ServiceSpec,
    ThriftProtocol,
    decode_call,
    decode_reply,
    encode_call,
    encode_error,
    encode_exception,
    encode_reply,
)
from opentalos.wire.thrift.spec import I32, STRING, Field, StructSpec, list_of, struct_of

UNSHRUNK = (Phase.explicit, Phase.generate)  # shrinking so many parts takes minutes
RPCS = [(service, method) for service, spec in SERVICES.items() for method in spec.methods]
# thriftpy2 cannot put a struct into the place of a JSON map key; Apache can.
STRUCT_KEYS = {"createTopic", "getScheduleInfo", "queryOrgOffset"}


def libraries(protocol: ThriftProtocol, method: MethodSpec) -> list[Any]:
    if protocol is ThriftProtocol.JSON and method.name in STRUCT_KEYS:
        return [APACHE]
    return [APACHE, THRIFTPY]


@matrix(("service", "name"), RPCS)
@settings(max_examples=2, deadline=None, phases=UNSHRUNK)
@given(data=st.data())
def test_every_rpc_reads_alike_in_both_directions(
    service: str, name: str, data: st.DataObject
) -> None:
    method = SERVICES[service].methods[name]
    seqid = data.draw(st.sampled_from([0, 1, 77, 2**31 - 1]))
    arguments = tuple(data.draw(samples(field.type)) for field in method.arguments)
    result = data.draw(samples(method.result)) if method.result else None
    for protocol in ThriftProtocol:
        for library in libraries(protocol, method):
            check_call(library, protocol, SERVICES[service], method, seqid, arguments)
            check_reply(library, protocol, method, seqid, result)


@pytest.mark.parametrize("text", ["\x00\n", "\x00\x00\n", '\x00a"', "a\x00\\"])
def test_a_text_with_a_nul_and_an_escape_reads_alike(text: str) -> None:
    """Apache's library writes the NUL as it is."""
    method = SERVICES["TopicService"].methods["deleteTopic"]
    request = method.arguments[0].type.struct
    assert request is not None
    (name,) = (field for field in request.SPEC.fields if field.name == "topicTalosResourceName")
    assert name.type.struct is not None
    named = name.type.struct.SPEC.make(topicTalosResourceName=text)
    arguments = (request.SPEC.make(topicTalosResourceName=named),)
    for protocol in ThriftProtocol:
        for library in libraries(protocol, method):
            check_call(library, protocol, SERVICES["TopicService"], method, 1, arguments)


def check_call(
    library: Any,
    protocol: ThriftProtocol,
    service: ServiceSpec,
    method: MethodSpec,
    seqid: int,
    arguments: tuple[Any, ...],
) -> None:
    values = {f.name: v for f, v in zip(method.arguments, arguments, strict=True)}
    message = ForeignMessage(method.name, MessageKind.CALL, seqid, values)
    ours = encode_call(protocol, method, seqid, *arguments)
    assert library.decode(protocol, method.args_spec, ours) == message
    theirs = library.encode(protocol, method.args_spec, message)
    call = decode_call(protocol, service, theirs)
    assert (call.method, call.seqid, call.arguments) == (method, seqid, arguments)


def check_reply(
    library: Any, protocol: ThriftProtocol, method: MethodSpec, seqid: int, result: Any
) -> None:
    values = {} if result is None else {"success": result}
    message = ForeignMessage(method.name, MessageKind.REPLY, seqid, values)
    ours = encode_reply(protocol, method, seqid, result)
    assert library.decode(protocol, method.result_spec, ours) == message
    theirs = library.encode(protocol, method.result_spec, message)
    assert decode_reply(protocol, method, theirs) == (seqid, result, None)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_declared_exceptions_read_alike(protocol: ThriftProtocol) -> None:
    method = SERVICES["TopicService"].methods["deleteTopic"]
    error = GalaxyTalosException(errorCode=5, errMsg="no topic “x”", details="")
    ours = encode_error(protocol, method, 9, error)
    message = ForeignMessage("deleteTopic", MessageKind.REPLY, 9, {"error": error})
    for library in (APACHE, THRIFTPY):
        assert library.decode(protocol, method.result_spec, ours) == message
        theirs = library.encode(protocol, method.result_spec, message)
        assert decode_reply(protocol, method, theirs) == (9, None, error)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_application_exceptions_read_alike(protocol: ThriftProtocol) -> None:
    spec = StructSpec(
        "TApplicationException", (Field(1, "message", STRING), Field(2, "type", I32)), dict
    )
    ours = encode_exception(protocol, "nope", 3, ApplicationErrorKind.UNKNOWN_METHOD, "no such")
    message = ForeignMessage("nope", MessageKind.EXCEPTION, 3, {"message": "no such", "type": 1})
    assert APACHE.decode(protocol, spec, ours) == message
    method = SERVICES["TopicService"].methods["deleteTopic"]
    with pytest.raises(ApplicationError, match="no such") as caught:
        decode_reply(protocol, method, APACHE.encode(protocol, spec, message))
    assert (caught.value.kind, caught.value.seqid) == (1, 3)


# Not an RPC: doubles, bools in lists and structs in lists occur only in payload formats.
PAYLOADS = MethodSpec(
    "payloads",
    (Field(1, "binlogs", list_of(struct_of(Binlog))), Field(200, "message", struct_of(Message))),
    None,
    None,
)


@settings(max_examples=10, deadline=None, phases=UNSHRUNK)
@given(data=st.data())
def test_payload_structs_read_alike(data: st.DataObject) -> None:
    service = ServiceSpec("Payloads", "", {"payloads": PAYLOADS})
    arguments = tuple(data.draw(samples(field.type)) for field in PAYLOADS.arguments)
    for protocol in ThriftProtocol:
        check_call(APACHE, protocol, service, PAYLOADS, 1, arguments)


# thriftpy2 reads no JSON with a field it does not know, whatever the field.
@pytest.mark.parametrize("protocol", [ThriftProtocol.COMPACT, ThriftProtocol.BINARY])
def test_a_client_that_does_not_know_our_fields_skips_them(protocol: ThriftProtocol) -> None:
    method = SERVICES["MessageService"].methods["putMessage"]
    reply = PutMessageResponse(sequenceId="s", isTransfer=True, baseOffset=1 << 40)
    ours = encode_reply(protocol, method, 3, reply)
    read = THRIFTPY.decode(protocol, method.result_spec, ours)
    assert read.values == {"success": PutMessageResponse(sequenceId="s", isTransfer=True)}
