"""Requests recorded from the official Python SDK: signed as we check, decoded as we expect."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from tests.unit.matrix import matrix

from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.message import decode_block
from opentalos.wire.signing import HmacState, Scheme, parse_authorization, string_to_sign
from opentalos.wire.thrift import ThriftProtocol, decode_call, encode_call, protocol_of
from opentalos.wire.thrift.hot import decode_get, decode_put

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "requests"
RPCS = sorted(path.stem for path in FOLDER.glob("*.txt"))
BY_PATH = {service.path.encode(): service for service in SERVICES.values()}


class Captured(NamedTuple):
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]  # as the HTTP layer hands them over
    body: bytes


def captured(rpc: str) -> Captured:
    head, _, digits = (FOLDER / f"{rpc}.txt").read_bytes().partition(b"\n\n")
    first, *lines = head.split(b"\n")
    path, _, query = first.split(b" ")[1].partition(b"?")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b": ")
        name = name.lower()
        headers[name] = headers[name] + b"," + value if name in headers else value
    return Captured(path, query, headers, bytes.fromhex(digits.decode()))


@matrix("rpc", RPCS)
def test_the_signature_of_the_sdk_is_ours(rpc: str) -> None:
    request = captured(rpc)
    authorization = parse_authorization(request.headers[b"authorization"])
    assert (authorization.scheme, authorization.key_id) == (Scheme.GALAXY_V3, "AKROOTTEST")
    text = string_to_sign(b"POST", request.path, request.query, request.headers)
    assert HmacState(b"root-secret-of-tests").matches(text, authorization.signature)
    digest = hashlib.md5(request.body, usedforsecurity=False).hexdigest().encode()
    assert request.headers[b"x-xiaomi-content-md5"] == digest


@matrix("rpc", RPCS)
def test_the_body_of_the_sdk_is_decoded_and_written_alike(rpc: str) -> None:
    request = captured(rpc)
    protocol = protocol_of(request.headers[b"content-type"].decode())
    assert protocol is ThriftProtocol.COMPACT
    call = decode_call(protocol, BY_PATH[request.path], request.body)
    assert call.method.name == ("setPermission" if rpc == "revokePermission" else rpc)
    assert call.seqid == 0
    if rpc != "revokePermission":
        assert encode_call(protocol, call.method, 0, *call.arguments) == request.body
    else:
        assert call.request.permission is None


def test_the_hot_path_takes_the_sdks_puts_and_gets() -> None:
    put = decode_put(captured("putMessage").body)
    assert put is not None
    assert (put.topic, put.partition, put.block.messages) == ("adm2", 0, 2)
    messages = decode_block(put.block.payload, put.block.compression, 2)
    assert [message.data for message in messages] == [b"hello", b"world"]
    assert [message.sequence_number for message in messages] == ["s0", "s1"]
    get = decode_get(captured("getMessage").body)
    assert get is not None
    assert (get.offset, get.messages_max, get.bytes_max) == (0, 2000, 2 << 20)
    assert get.deadline_ms > 1_700_000_000_000
