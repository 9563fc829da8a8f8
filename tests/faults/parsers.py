"""Every parser of bytes from outside or from disk: what to call, valid bytes, its own errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.gateway.http.support import TIGHT, Bench, request

from opentalos.gateway.rest.routing.json_text import decoded
from opentalos.log.journal.format import Kind, record_header, records_of
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.segment.format import BlockPlace, SegmentHeader, encode_block, state_block
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import SegmentScan
from opentalos.log.segment.state_format import LogState
from opentalos.model.change import StreamView
from opentalos.model.errors import TalosError
from opentalos.model.message import Compression, MessageBlock
from opentalos.server.backup.folder import LIST_FILE, read_contents
from opentalos.server.config import load_config
from opentalos.wire import message as blocks
from opentalos.wire._generated.message import MESSAGE_SERVICE, GetMessageRequest, PutMessageRequest
from opentalos.wire._generated.message import MessageBlock as WireBlock
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import (
    DescribeTopicRequest,
    TopicAndPartition,
    TopicTalosResourceName,
)
from opentalos.wire.message import Message
from opentalos.wire.metrics.falcon import decode_push
from opentalos.wire.metrics.measurement import decode_measurement
from opentalos.wire.sds.change import decode_change
from opentalos.wire.sds.hot import decode_hot
from opentalos.wire.sds.signing import parse_header
from opentalos.wire.signing import parse_authorization
from opentalos.wire.thrift import ApplicationError, ThriftProtocol, decode_call, encode_call
from opentalos.wire.thrift.block_extras import Extras, decode_extras, encode_extras
from opentalos.wire.thrift.hot import decode_get, decode_put

SEED = 0xA1B2C3D4
DECODED_BYTES_MAX = 1 << 20
MESSAGES = [
    Message(b"first"), Message(b""), Message(b"x" * 300),
]  # fmt: skip


class Parser(NamedTuple):
    """``samples``: valid bytes that are damaged; ``errors``: all that ``parse`` may raise."""

    name: str
    parse: Callable[[bytes], object]
    samples: tuple[bytes, ...] = ()
    errors: tuple[type[BaseException], ...] = (TalosError,)


def _calls(protocol: ThriftProtocol) -> tuple[bytes, ...]:
    resource = TopicTalosResourceName(topicTalosResourceName="CL1#t#u")
    target = TopicAndPartition(topicName="t", topicTalosResourceName=resource, partitionId=0)
    block = WireBlock(startMessageOffset=0, messageNumber=1, messageBlock=b"abc", tag="x")
    put = PutMessageRequest(
        topicAndPartition=target, messageBlocks=[block], messageNumber=1, sequenceId="s#1",
        producerId=5, producerEpoch=1, firstSequence=7,
    )  # fmt: skip
    get = GetMessageRequest(topicAndPartition=target, messageOffset=0, sequenceId="s#1")
    describe = DescribeTopicRequest(topicName="t")
    methods = MESSAGE_SERVICE.methods
    return (
        encode_call(protocol, methods["putMessage"], 1, put),
        encode_call(protocol, methods["getMessage"], 1, get),
        encode_call(
            protocol, SERVICES["TopicService"].methods["describeTopic"], 1, describe
        ),
    )  # fmt: skip


def _thrift(protocol: ThriftProtocol) -> Parser:
    def parse(data: bytes) -> None:
        for service in SERVICES.values():
            try:
                decode_call(protocol, service, data)
            except (TalosError, ApplicationError):
                continue

    return Parser(f"Thrift {protocol.name}", parse, _calls(protocol))


def _http(data: bytes) -> None:
    bench = Bench(TIGHT)
    connection, transport = bench.connect()
    for start in range(0, len(data), 7):
        if transport.closing_called():
            break
        connection.data_received(data[start : start + 7])
    connection.expire()
    connection.expire()
    assert transport.closing_called(), "a connection outlives its deadlines"
    connection.connection_lost(None)
    assert bench.server.body_bytes == 0, "the body budget leaks"


def _block(compression: Compression) -> Parser:
    return Parser(
        f"block {compression.name}",
        lambda data: blocks.decode_block(data, compression, 3, DECODED_BYTES_MAX),
        tuple(blocks.encode_block(MESSAGES, compression, version) for version in (1, 2, 3)),
    )


def _scan(data: bytes) -> None:
    scan = SegmentScan(SEED, 0, SparseIndex(512))
    scan.feed(data, last=True)


def _segment() -> bytes:
    place = BlockPlace(SEED, 0, 9)
    state = state_block(LogState().encode(), 0, place)
    return state + encode_block(MessageBlock(b"payload", 3), 0, place) + b"payload"


def _journal() -> bytes:
    records = (record_header(Kind.GROUP, 0, 0, 2) + b"ab", record_header(Kind.GROUP, 1, 9, 0))
    return b"".join(records)


def _of_file(folder: Path, name: str, parse: Callable[[Path], object]) -> Callable[[bytes], object]:
    def of_file(data: bytes) -> object:
        path = folder / name
        path.write_bytes(data)
        return parse(path)

    return of_file


BACKUP = {
    "format": "opentalos-backup", "version": 2, "key_check": "", "files": {
        "meta.db": {"bytes": 1, "sha256": "0" * 64}
    },
}  # fmt: skip
CONFIG = b'[server]\nlisten = "127.0.0.1:0"\n[log]\nlanes = 2\n[http]\ndrain_s = 3.0\n'


def parsers(folder: Path) -> list[Parser]:
    """All of them; ``folder`` takes the files of those that read files."""
    compact = _calls(ThriftProtocol.COMPACT)
    found = [
        *map(_thrift, ThriftProtocol),
        Parser("hot put", decode_put, compact),
        Parser("hot get", decode_get, compact),
        Parser("hot table call", decode_hot, _calls(ThriftProtocol.BINARY)),
        Parser("extras of a block", decode_extras, (encode_extras(Extras([1, 2], "t", 3)),)),
        *map(_block, Compression),
        Parser("HTTP", _http, (request(body=b"abc") * 2, request(more="Upgrade: h2c\r\n"))),
        Parser("JSON", decoded, (b'{"messages":[{"value":[1.5,null,"\\ud83d\\ude00"]}]}',)),
        Parser("Authorization", parse_authorization, (b"Galaxy-V3 AK:c2ln", b"SSO a:b:c")),
        Parser(
            "Authorization of SDS", parse_header,
            (b'{"1":{"str":"SDS-V1"},"2":{"i32":1},"3":{"str":"AK"}}',),
        ),
        Parser("SegmentHeader", SegmentHeader.decode),
        Parser("LogState", LogState.decode, (LogState().encode(),)),
        Parser("Manifest", Manifest.decode),
        Parser("SideIndex", lambda data: SideIndex.decode(data, 512)),
        Parser("segment", _scan, (_segment(),)),
        Parser("journal", lambda data: list(records_of(data)), (_journal(),)),
        Parser("pushed measurements", decode_push, (b'[{"metric":"a","value":1,"timestamp":1}]',)),
        Parser("measurement", decode_measurement, (b'{"kind":"topic"}',)),
        Parser("backup list", _of_file(folder, LIST_FILE, lambda path: read_contents(path.parent)),
               (json.dumps(BACKUP).encode(),)),
        Parser("configuration", _of_file(folder, "talos.toml", load_config), (CONFIG,)),
    ]  # fmt: skip
    found += [Parser(f"change {view.name}", _change(view)) for view in StreamView]
    return found


def _change(view: StreamView) -> Callable[[bytes], Any]:
    return lambda data: decode_change(view, data, ("id",))
