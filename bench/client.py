"""Signed requests for benchmarks: a blocking client and requests for replay."""

import hashlib
import http.client
import itertools
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from bench.server import KEY_ID, SECRET
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.rest_client import RestClient
from opentalos.wire._generated.message import (
    MESSAGE_SERVICE,
    GetMessageRequest,
    GetPartitionsOffsetRequest,
    MessageBlock,
    MessageCompressionType,
    OffsetInfo,
    PutMessageRequest,
)
from opentalos.wire._generated.topic import (
    TOPIC_SERVICE,
    CreateTopicRequest,
    GetDescribeInfoRequest,
    TopicAndPartition,
    TopicAttribute,
    TopicTalosResourceName,
)
from opentalos.wire.signing import HmacState, string_to_sign
from opentalos.wire.thrift import ServiceSpec, ThriftProtocol, decode_reply, encode_call

CALL_TIMEOUT_S = 60.0
IDLE_S = 20.0  # the server may have closed a connection that was idle longer; reconnect


@dataclass(frozen=True, slots=True)
class Key:
    """What requests of a tenant are signed with."""

    id: str
    secret: str


ROOT = Key(KEY_ID, SECRET)


def new_tenant(port: int, name: str) -> Key:
    """Make a principal through REST, with a key of its own."""
    url = f"http://127.0.0.1:{port}"
    rest = RestClient(ClientConfig(endpoints=(url,), key_id=ROOT.id, secret=ROOT.secret))
    rest("POST", "principals", {"id": name})
    issued = rest("POST", f"principals/{name}/keys")
    return Key(issued["key_id"], issued["secret"])


def signed_request(
    path: str,
    body: bytes,
    query: str = "",
    protocol: ThriftProtocol = ThriftProtocol.COMPACT,
    key: Key = ROOT,
) -> bytes:
    """A whole HTTP request; valid as long as the server's clock skew window. The query, with its
    question mark, is not signed."""
    now = time.time()
    headers = {
        b"content-type": protocol.value.encode(),
        b"x-xiaomi-timestamp": str(int(now)).encode(),
        b"x-xiaomi-date": formatdate(now, usegmt=True).encode(),
        b"x-xiaomi-content-md5": hashlib.md5(body).hexdigest().encode(),
    }
    text = string_to_sign(b"POST", path.encode(), b"", headers)
    signature = HmacState(key.secret.encode()).signature(text)
    headers[b"authorization"] = b"Galaxy-V3 %s:%s" % (key.id.encode(), signature)
    headers[b"content-length"] = str(len(body)).encode()
    lines = [b"POST %s HTTP/1.1" % (path + query).encode(), b"Host: 127.0.0.1"]
    lines += [b"%s: %s" % header for header in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Client:
    """One kept-alive connection that calls RPCs one after the other, by default as root."""

    def __init__(self, port: int, key: Key = ROOT) -> None:
        self._key = key
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_TIMEOUT_S)
        self._used_s = time.monotonic()

    def call(self, service: ServiceSpec, name: str, *arguments: Any) -> Any:
        """The result, or RuntimeError with the server's text."""
        body = encode_call(ThriftProtocol.COMPACT, service.methods[name], 1, *arguments)
        return self._send(service, name, body)

    def _send(self, service: ServiceSpec, name: str, body: bytes) -> Any:
        now_s = time.monotonic()
        if now_s - self._used_s > IDLE_S:
            self._http.close()
        self._used_s = now_s
        if self._http.sock is None:
            self._http.connect()
        self._http.sock.sendall(signed_request(service.path, body, key=self._key))
        response = http.client.HTTPResponse(self._http.sock, method="POST")
        response.begin()
        content = response.read()
        if not (response.headers.get("Content-Type") or "").startswith("application/x-thrift"):
            raise RuntimeError(f"{name}: HTTP {response.status} {content[:200]!r}")
        reply = decode_reply(ThriftProtocol.COMPACT, service.methods[name], content)
        if reply.error is not None:
            raise RuntimeError(f"{name}: {reply.error!r}")
        return reply.result

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        self._http.close()

    def create_topic(self, name: str, partitions: int, **attributes: str) -> "BenchTopic":
        """Create a topic; ``durability`` is one of the attributes."""
        attribute = TopicAttribute(partitionNumber=partitions, attributes=attributes)
        request = CreateTopicRequest(topicName=name, topicAttribute=attribute)
        info = self.call(TOPIC_SERVICE, "createTopic", request).topicInfo
        return BenchTopic(info.topicName, info.topicTalosResourceName, partitions, self._key)

    def describe_topic(self, name: str) -> "BenchTopic":
        """An existing topic."""
        request = GetDescribeInfoRequest(topicName=name)
        info = self.call(TOPIC_SERVICE, "getDescribeInfo", request)
        return BenchTopic(name, info.topicTalosResourceName, info.partitionNumber, self._key)

    def raw_put(self, body: bytes) -> None:
        """Send an encoded putMessage call and check its reply."""
        self._send(MESSAGE_SERVICE, "putMessage", body)

    def read_through(self, topic: "BenchTopic", partition: int, end: int, bytes_max: int) -> float:
        """Read a partition from its start to ``end``; payload bytes per second."""
        offset, total, begin = 0, 0, time.perf_counter()
        while offset < end:
            request = topic.get(partition, offset, bytes_max=bytes_max)
            result = self.call(MESSAGE_SERVICE, "getMessage", request)
            for block in result.messageBlocks:
                offset = block.startMessageOffset + block.messageNumber
                total += len(block.messageBlock)
        return total / (time.perf_counter() - begin)


class BenchTopic:
    """Makes the requests of one topic, signed with ``key``."""

    def __init__(
        self, name: str, resource: TopicTalosResourceName, partitions: int, key: Key = ROOT
    ) -> None:
        self.name, self.resource, self.partitions = name, resource, partitions
        self._key = key

    @property
    def storage_prefix(self) -> str:
        """How the paths of its files begin."""
        return str(self.resource.topicTalosResourceName).rsplit("#", 1)[1]

    def partition(self, number: int) -> TopicAndPartition:
        """The wire name of a partition."""
        return TopicAndPartition(
            topicName=self.name, topicTalosResourceName=self.resource, partitionId=number
        )

    def put_requests(self, *, block_bytes: int, messages: int = 1, turns: int = 64) -> list[bytes]:
        """Signed puts to all partitions in turn; at least one per partition."""
        order = itertools.islice(
            itertools.cycle(range(self.partitions)), max(turns, self.partitions)
        )
        return [
            signed_request(
                MESSAGE_SERVICE.path, self.put_body(p, block_bytes, messages), key=self._key
            )
            for p in order
        ]

    def put_body(self, partition: int, block_bytes: int, messages: int = 1) -> bytes:
        """A putMessage call with one block of Talos V1 messages."""
        each = block_bytes // messages
        message = bytes(4) + (each - 8).to_bytes(4, "big") + b"x" * (each - 8)
        block = MessageBlock(
            startMessageOffset=0,
            messageNumber=messages,
            compressionType=MessageCompressionType.NONE,
            messageBlock=message * messages,
            messageBlockSize=each * messages,
            createTimestamp=int(time.time() * 1000),
        )
        request = PutMessageRequest(
            topicAndPartition=self.partition(partition),
            messageBlocks=[block],
            messageNumber=messages,
            sequenceId="bench#1",
        )
        method = MESSAGE_SERVICE.methods["putMessage"]
        return encode_call(ThriftProtocol.COMPACT, method, 1, request)

    def get(self, partition: int, offset: int, *, bytes_max: int) -> GetMessageRequest:
        """A getMessage request."""
        return GetMessageRequest(
            topicAndPartition=self.partition(partition),
            messageOffset=offset,
            maxGetMessageNumber=20_000,
            maxGetMessageBytes=bytes_max,
            sequenceId="bench#1",
        )

    def get_request(self, partition: int, offset: int, *, bytes_max: int) -> bytes:
        """A signed getMessage."""
        method = MESSAGE_SERVICE.methods["getMessage"]
        request = self.get(partition, offset, bytes_max=bytes_max)
        body = encode_call(ThriftProtocol.COMPACT, method, 1, request)
        return signed_request(MESSAGE_SERVICE.path, body, key=self._key)

    def stored_messages(self, client: Client) -> int:
        """The number of messages in the log, to verify the count of the load generator."""
        return sum(self.stored_by_partition(client))

    def stored_by_partition(self, client: Client) -> list[int]:
        """How many messages each partition has ever had."""
        request = GetPartitionsOffsetRequest(
            topicAndPartitionList=[self.partition(p) for p in range(self.partitions)]
        )
        answer = client.call(MESSAGE_SERVICE, "getPartitionsOffset", request)
        infos: list[OffsetInfo] = answer.offsetInfoList
        if unknown := [info for info in infos if info.endOffset is None]:
            raise RuntimeError(f"offsets of {len(unknown)} unknown, such as {unknown[0]}")
        return [(info.endOffset or 0) + 1 for info in infos]
