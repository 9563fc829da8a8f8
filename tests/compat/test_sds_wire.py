"""SDS below any client: protocols, signatures, statuses, and every RPC of the definitions."""

import hashlib
import http.client
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.raw_client import (
    BINARY,
    COMPACT,
    JSON,
    JSON_ALIAS,
    PROTOCOLS,
    RawClient,
    Reply,
    idl,
    memory_buffer,
    service_of,
    signed_headers,
)
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import limit_s
from thriftpy2.thrift import TApplicationException, TMessageType

SDS = idl("sds")
PATHS = {"table": "/v1/api/table", "admin": "/v1/api/admin", "auth": "/v1/api/auth"}
UNSUPPORTED_OPERATION, RESOURCE_NOT_FOUND = 30, 26
VALIDATION_FAILED = 22
BODY_BYTES_MAX = 512 << 10
# Those that are served; every other RPC of the definitions says that it is not.
SERVED = set(
    "getServerVersion validateClientVersion getServerTime findAllTables createTable dropTable "
    "alterTable enableTable disableTable describeTable getTableStatus getTableState getTableSize "
    "getTableSplits getLatestStreamCheckpoint getDevelopId putClientMetrics get put increment "
    "remove scan batch partialAllowedBatch batchCheckAndMutate".split()
)
RPCS = [
    (service, rpc)
    for service in PATHS
    for cls in service_of(SDS, service).__mro__
    for rpc in getattr(cls, "thrift_services", ())
]


class Sds:
    """Calls of one service over one connection."""

    def __init__(self, port: int) -> None:
        self.http = RawClient(port)

    def call(self, service: str, rpc: str, *arguments: Any, content_type: str = BINARY) -> Any:
        body = encoded(service, rpc, arguments, content_type)
        reply = self.http.post(PATHS[service], body, content_type=content_type)
        assert reply.status == 200, reply
        assert reply.headers["Content-Type"] == content_type
        return decoded(service, rpc, reply, content_type)


def encoded(
    service: str, rpc: str, arguments: tuple[Any, ...] = (), content_type: str = BINARY
) -> bytes:
    buffer = memory_buffer()
    protocol = PROTOCOLS[content_type](buffer)
    protocol.write_message_begin(rpc, TMessageType.CALL, 7)
    protocol.write_struct(getattr(service_of(SDS, service), f"{rpc}_args")(*arguments))
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def decoded(service: str, rpc: str, reply: Reply, content_type: str = BINARY) -> Any:
    """The result. Raises: ServiceException; TApplicationException."""
    protocol = PROTOCOLS[content_type](memory_buffer(reply.body))
    name, kind, sequence = protocol.read_message_begin()
    assert (name, sequence) == (rpc, 7)
    result = getattr(service_of(SDS, service), f"{rpc}_result")()
    if kind == TMessageType.EXCEPTION:
        result = TApplicationException()
    protocol.read_struct(result)
    if isinstance(result, TApplicationException):
        raise result
    if getattr(result, "se", None) is not None:
        raise result.se
    return getattr(result, "success", None)


@pytest.fixture
def sds_calls(server: ServerProcess) -> Iterator[Sds]:
    opened = Sds(server.port)
    yield opened
    opened.http.close()


def text(value: str) -> Any:
    return SDS.Datum(SDS.DataType.STRING, SDS.Value(stringValue=value))


def spec(**schema: Any) -> Any:
    primary = [SDS.KeySpec("k", True)]
    attributes = {"k": SDS.DataType.STRING, "v": SDS.DataType.STRING, "b": SDS.DataType.BINARY}
    made = SDS.TableSchema(primaryIndex=primary, attributes=attributes, **schema)
    return SDS.TableSpec(schema=made)


@pytest.mark.parametrize("content_type", [COMPACT, BINARY, JSON, JSON_ALIAS])
def test_each_thrift_protocol_puts_and_gets(sds_calls: Sds, content_type: str) -> None:
    table = "wire-" + content_type.rpartition("/")[2]
    made = sds_calls.call("admin", "createTable", table, spec(), content_type=content_type)
    assert made.name == table
    put = SDS.PutRequest(table, {"k": text("kéy"), "v": text("välue")})
    assert sds_calls.call("table", "put", put, content_type=content_type).success
    get = SDS.GetRequest(table, {"k": text("kéy")})
    item = sds_calls.call("table", "get", get, content_type=content_type).item
    assert {name: datum.value.stringValue for name, datum in item.items()} == {
        "k": "kéy",
        "v": "välue",
    }


def test_a_call_without_a_content_type_is_binary(sds_calls: Sds) -> None:
    body = encoded("table", "getServerTime")
    headers = signed_headers(PATHS["table"], body, "", ROOT_KEY)
    del headers["Content-Type"]
    before_s = int(time.time())
    reply = sds_calls.http.send(PATHS["table"], body, headers)
    after_s = time.time()
    assert before_s <= decoded("table", "getServerTime", reply) <= after_s


def test_bytes_are_base64_in_json(sds_calls: Sds) -> None:
    sds_calls.call("admin", "createTable", "wire-bytes", spec())
    data = SDS.Datum(SDS.DataType.BINARY, SDS.Value(binaryValue=b"\x00\x01\xfe"))
    sds_calls.call("table", "put", SDS.PutRequest("wire-bytes", {"k": text("a"), "b": data}))
    get = encoded("table", "get", (SDS.GetRequest("wire-bytes", {"k": text("a")}),), JSON)
    reply = sds_calls.http.post(PATHS["table"], get, content_type=JSON)
    assert b'"AAH+"' in reply.body or b'"AAH-"' in reply.body


def test_galaxy_v2_is_a_signature_as_well(sds_calls: Sds) -> None:
    body = encoded("admin", "findAllTables")
    headers = signed_headers(PATHS["admin"], body, BINARY, ROOT_KEY)
    headers["Authorization"] = headers["Authorization"].replace("V3", "V2")
    assert sds_calls.http.send(PATHS["admin"], body, headers).status == 200


@pytest.mark.parametrize(("service", "rpc"), RPCS)
def test_every_rpc_is_answered_and_what_is_missing_says_so(
    sds_calls: Sds, service: str, rpc: str
) -> None:
    error = None
    try:
        sds_calls.call(service, rpc)
    except SDS.ServiceException as refusal:
        error = refusal
    if rpc in SERVED:
        assert error is None or error.errorCode == VALIDATION_FAILED, error
    else:
        assert error is not None
        assert error.errorCode == UNSUPPORTED_OPERATION, error
        assert rpc in error.errorMessage


def test_an_unknown_rpc_is_a_thrift_exception(sds_calls: Sds) -> None:
    body = encoded("table", "getServerTime").replace(b"getServerTime", b"getServerTimf")
    reply = sds_calls.http.post(PATHS["table"], body, content_type=BINARY)
    protocol = PROTOCOLS[BINARY](memory_buffer(reply.body))
    assert reply.status == 200
    assert protocol.read_message_begin()[1] == TMessageType.EXCEPTION


@pytest.mark.parametrize(
    "part",
    [
        {"enableTransaction": True},
        {"globalSecondaryIndexes": {"g": SDS.GlobalSecondaryIndexSpec()}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_parts_of_a_schema_that_are_not_served_are_refused(sds_calls: Sds, part: Any) -> None:
    with pytest.raises(SDS.ServiceException) as caught:
        sds_calls.call("admin", "createTable", "wire-parts", spec(**part))
    assert caught.value.errorCode == UNSUPPORTED_OPERATION
    with pytest.raises(SDS.ServiceException) as caught:
        sds_calls.call("admin", "describeTable", "wire-parts")
    assert caught.value.errorCode == RESOURCE_NOT_FOUND


@pytest.mark.parametrize("skew_s", [-2_000, 2_000])
def test_a_skewed_clock_gets_412_with_the_servers_seconds(sds_calls: Sds, skew_s: int) -> None:
    body = encoded("table", "getServerTime")
    headers = signed_headers(PATHS["table"], body, BINARY, ROOT_KEY, skew_s=skew_s)
    before_s = int(time.time())
    reply = sds_calls.http.send(PATHS["table"], body, headers)
    after_s = time.time()
    assert reply.status == 412
    assert before_s <= int(reply.headers["X-Xiaomi-Timestamp"]) <= after_s


def test_a_body_above_the_bound_is_413_and_one_of_its_size_is_read(sds_calls: Sds) -> None:
    path = PATHS["table"]
    assert sds_calls.http.post(path, bytes(BODY_BYTES_MAX + 1), content_type=BINARY).status == 413
    assert sds_calls.http.post(path, bytes(BODY_BYTES_MAX), content_type=BINARY).status == 400


def test_unreadable_thrift_is_a_400_with_a_reason(sds_calls: Sds) -> None:
    reply = sds_calls.http.post(PATHS["table"], b"\x80\x01\x00\x01garbage", content_type=BINARY)
    assert reply.status == 400
    assert reply.body.strip()


def test_every_truncation_of_a_put_is_a_400(sds_calls: Sds) -> None:
    put = SDS.PutRequest("wire-truncated", {"k": text("a"), "v": text("b")})
    whole = encoded("table", "put", (put,))
    for end in range(len(whole)):
        reply = sds_calls.http.post(PATHS["table"], whole[:end], content_type=BINARY)
        assert reply.status == 400, end


def test_a_secret_in_the_header_is_refused_without_tls(server: ServerProcess) -> None:
    body = encoded("table", "getServerTime")
    value = (
        f'{{"1":{{"str":"SDS-V1"}},"2":{{"i32":2}},"3":{{"str":"{ROOT_KEY.key_id}"}},'
        f'"4":{{"str":"{ROOT_KEY.secret}"}}}}'
    )
    headers = {
        "Authorization": value,
        "Content-Type": BINARY,
        "X-Xiaomi-Timestamp": str(int(time.time())),
        "X-Xiaomi-Content-MD5": hashlib.md5(body).hexdigest(),
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    connection.request("POST", PATHS["table"], body, headers)
    reply = connection.getresponse()
    assert reply.status == 401
    assert b"needs TLS" in reply.read()
    connection.close()


@pytest.mark.parametrize("value", ["SSO sid:secret:key", "Guest key", "{", "Basic a:b", ""])
def test_callers_that_prove_nothing_are_401(sds_calls: Sds, value: str) -> None:
    body = encoded("table", "getServerTime")
    headers = signed_headers(PATHS["table"], body, BINARY, ROOT_KEY)
    reply = sds_calls.http.send(PATHS["table"], body, {**headers, "Authorization": value})
    assert reply.status == 401


@pytest.mark.parametrize(
    ("rpc", "arguments", "text_"),
    [
        ("createTable", ("wire bad", spec()), "invalid table name \"wire bad\""),
        ("createTable", ("wire-text", SDS.TableSpec(spec().schema, SDS.TableMetadata(
            description="x" * 300))), "description has 300 characters"),
        ("getLatestStreamCheckpoint", ("wire-codes", "none"), "no enabled stream to none"),
    ],
    ids=["name", "description", "mark"],
)  # fmt: skip
def test_wrong_administration_says_what_with_a_documented_code(
    sds_calls: Sds, rpc: str, arguments: Any, text_: str
) -> None:
    if rpc != "createTable":
        sds_calls.call("admin", "createTable", arguments[0], spec())
    with pytest.raises(SDS.ServiceException) as caught:
        sds_calls.call("admin", rpc, *arguments)
    assert caught.value.errorCode == VALIDATION_FAILED
    assert text_ in caught.value.errorMessage


def test_an_alteration_that_does_not_name_rights_of_teams_keeps_them(sds_calls: Sds) -> None:
    wanted = spec()
    wanted.metadata = SDS.TableMetadata(acl={"CI7": [SDS.Permission.READ]})
    sds_calls.call("admin", "createTable", "wire-teams", wanted)
    for metadata in (None, SDS.TableMetadata(description="more")):
        wanted.metadata = metadata  # as of a client that does not know the field
        sds_calls.call("admin", "alterTable", "wire-teams", wanted)
        described = sds_calls.call("admin", "describeTable", "wire-teams")
        assert described.metadata.acl == {"CI7": [SDS.Permission.READ]}
    wanted.metadata = SDS.TableMetadata(acl={})
    sds_calls.call("admin", "alterTable", "wire-teams", wanted)
    assert sds_calls.call("admin", "describeTable", "wire-teams").metadata.acl == {}


def test_an_alteration_without_pre_splits_keeps_the_shards(sds_calls: Sds) -> None:
    group = SDS.EntityGroupSpec([SDS.KeySpec("v", True)], True)
    sds_calls.call("admin", "createTable", "wire-shards", spec(entityGroup=group, preSplits=4))
    sds_calls.call("admin", "alterTable", "wire-shards", spec(entityGroup=group, ttl=99))
    schema = sds_calls.call("admin", "describeTable", "wire-shards").schema
    assert (schema.preSplits, schema.ttl) == (4, 99)
    wrong = spec(entityGroup=group, preSplits=8)
    with pytest.raises(SDS.ServiceException) as caught:
        sds_calls.call("admin", "alterTable", "wire-shards", wrong)
    assert caught.value.errorCode == VALIDATION_FAILED
