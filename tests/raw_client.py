"""A client one level below the SDK: signs bytes, speaks any Thrift protocol, sees raw replies.

Its Thrift codec is thriftpy2 over the unmodified definitions in ``idl/``, so it shares no code
with the server.
"""

import base64
import hashlib
import hmac
import http
import http.client
import ssl
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any

import thriftpy2
from tests.server_process import ROOT_KEY, Key
from tests.waiting import limit_s
from thriftpy2.protocol import TApacheJSONProtocol, TBinaryProtocol, TCompactProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TMemoryBuffer

memory_buffer: Any = TMemoryBuffer  # thriftpy2 has types for its protocols only
IDL = Path(__file__).resolve().parent.parent / "idl"

COMPACT = "application/x-thrift-compact"
BINARY = "application/x-thrift-binary"
JSON = "application/x-thrift-json"
JSON_ALIAS = "application/x-thrift"
PROTOCOLS: dict[str, Any] = {
    COMPACT: TCompactProtocol,
    BINARY: TBinaryProtocol,
    JSON: TApacheJSONProtocol,
    JSON_ALIAS: TApacheJSONProtocol,
}


@cache
def idl(name: str) -> Any:
    """The structs and services of one definition file."""
    return thriftpy2.load(str(IDL / f"{name}.thrift"), f"{name}_thrift", include_dirs=[str(IDL)])


@dataclass(frozen=True)
class Reply:
    """One HTTP reply."""

    status: int
    headers: dict[str, str]
    body: bytes


class TalosError(Exception):
    """The GalaxyTalosException of a reply, with the status it came under."""

    def __init__(self, code: int, text: str, status: int) -> None:
        super().__init__(f"code {code}, status {status}: {text}")
        self.code, self.text, self.status = code, text, status


def encode_call(service: str, rpc: str, request: Any, content_type: str = COMPACT) -> bytes:
    """One Thrift message: a call with sequence id 7."""
    buffer: Any = memory_buffer()
    protocol = PROTOCOLS[content_type](buffer)
    module = idl(service)
    arguments = getattr(service_of(module, service), f"{rpc}_args")()
    if request is not None:
        arguments.request = request
    protocol.write_message_begin(rpc, TMessageType.CALL, 7)
    protocol.write_struct(arguments)
    protocol.write_message_end()
    return bytes(buffer.getvalue())


def service_of(module: Any, service: str) -> Any:
    return getattr(module, f"{service.capitalize()}Service")


def decode_reply(service: str, rpc: str, reply: Reply, content_type: str = COMPACT) -> Any:
    """The success value of a reply. Raises: TalosError; TApplicationException."""
    protocol = PROTOCOLS[content_type](memory_buffer(reply.body))
    name, kind, sequence = protocol.read_message_begin()
    assert sequence == 7
    if kind == TMessageType.EXCEPTION:
        problem = TApplicationException()
        protocol.read_struct(problem)
        raise problem
    assert name == rpc
    result = getattr(service_of(idl(service), service), f"{rpc}_result")()
    protocol.read_struct(result)
    error = getattr(result, "e", None)
    if error is not None:
        raise TalosError(error.errorCode, error.errMsg or "", reply.status)
    return getattr(result, "success", None)


class NotAnswered(http.client.HTTPException):
    """HTTP alone replied, for example a server that is starting: nothing is known of the call."""


@dataclass
class RawClient:
    """Sends signed requests over one kept connection."""

    port: int
    key: Key = ROOT_KEY
    timeout_s: float = field(default_factory=limit_s)  # a shorter one is what is tested
    tls: ssl.SSLContext | None = None  # the port has TLS
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def call(self, service: str, rpc: str, request: Any, content_type: str = COMPACT) -> Any:
        """One RPC, encoded and decoded. Raises: TalosError; NotAnswered; OSError."""
        body = encode_call(service, rpc, request, content_type)
        reply = self.post(f"/v1/api/{service}", body, content_type=content_type)
        if reply.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            raise NotAnswered(f"{reply.status} {reply.body[:200]!r}")
        assert reply.headers.get("Content-Type") == content_type, reply
        return decode_reply(service, rpc, reply, content_type)

    def post(self, path: str, body: bytes, *, content_type: str = COMPACT) -> Reply:
        """One signed POST with any body."""
        return self.send(path, body, signed_headers(path, body, content_type, self.key))

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        """One POST with exactly these headers; connects again if the connection was closed."""
        if self._connection is None:
            self._connection = connection_to(self.port, self.tls, self.timeout_s)
        try:
            self._connection.request("POST", f"{path}?id=00000000&type=test", body, headers)
            answer = self._connection.getresponse()
            reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
        except BaseException:
            self.close()
            raise
        if answer.will_close:
            self.close()
        return reply

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connection_to(
    port: int, tls: ssl.SSLContext | None, timeout_s: float | None = None
) -> http.client.HTTPConnection:
    """A connection to a port of this machine, not opened yet; by default with the shared limit."""
    timeout_s = limit_s() if timeout_s is None else timeout_s
    if tls is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=tls)


def signed_headers(
    path: str, body: bytes, content_type: str, key: Key, *, skew_s: int = 0
) -> dict[str, str]:
    """The headers of an official client, written from the protocol description."""
    now = int(time.time()) + skew_s
    headers = {
        "x-xiaomi-content-md5": hashlib.md5(body).hexdigest(),
        "x-xiaomi-date": formatdate(now, usegmt=True),
        "x-xiaomi-timestamp": str(now),
    }
    lines = ["POST", "", content_type, ""]
    lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
    text = "\n".join([*lines, path])
    signature = hmac.new(key.secret.encode(), text.encode(), hashlib.sha1).digest()
    return {
        "Content-Type": content_type,
        **headers,
        "Authorization": f"Galaxy-V3 {key.key_id}:{base64.b64encode(signature).decode()}",
    }


def message_v1(data: bytes, sequence: str = "") -> bytes:
    """One message in format V1, the simplest."""
    number = sequence.encode()
    return b"".join((len(number).to_bytes(4, "big"), number, len(data).to_bytes(4, "big"), data))


def block_of(*payloads: bytes) -> Any:
    """An uncompressed block of V1 messages."""
    data = b"".join(message_v1(payload) for payload in payloads)
    return idl("message").MessageBlock(
        startMessageOffset=0,
        messageNumber=len(payloads),
        compressionType=0,
        messageBlock=data,
        messageBlockSize=len(data),
        createTimestamp=int(time.time() * 1000),
    )


@dataclass
class RawTopic:
    """One topic through a raw client: what most tests need of it."""

    client: RawClient
    name: str
    resource: Any

    @classmethod
    def create(
        cls, client: RawClient, name: str, *, partitions: int = 1, **attributes: str
    ) -> "RawTopic":
        """Create the topic."""
        topic = idl("topic")
        attribute = topic.TopicAttribute(partitionNumber=partitions, attributes=attributes or None)
        request = topic.CreateTopicRequest(topicName=name, topicAttribute=attribute)
        made = client.call("topic", "createTopic", request)
        return cls(client, name, made.topicInfo.topicTalosResourceName)

    def partition(self, number: int = 0) -> Any:
        """The address of one partition."""
        return idl("topic").TopicAndPartition(
            topicName=self.name, topicTalosResourceName=self.resource, partitionId=number
        )

    def put(self, *payloads: bytes, partition: int = 0, content_type: str = COMPACT) -> Any:
        """Put one block."""
        request = idl("message").PutMessageRequest(
            topicAndPartition=self.partition(partition),
            messageBlocks=[block_of(*payloads)],
            messageNumber=len(payloads),
            sequenceId="raw#1",
        )
        return self.client.call("message", "putMessage", request, content_type)

    def get(self, offset: int, *, partition: int = 0, content_type: str = COMPACT) -> Any:
        """Get blocks from an offset."""
        request = idl("message").GetMessageRequest(
            topicAndPartition=self.partition(partition), messageOffset=offset, sequenceId="raw#2"
        )
        return self.client.call("message", "getMessage", request, content_type)
