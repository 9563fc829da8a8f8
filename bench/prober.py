"""A prober that puts to every partition continuously and records the acknowledgements."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple

from bench.client import BenchTopic, signed_request
from opentalos.wire._generated.message import MESSAGE_SERVICE, GetScheduleInfoRequest
from opentalos.wire.thrift import ThriftProtocol, decode_reply, encode_call

MESSAGE_BYTES = 256
PAUSE_S = 0.02  # between two puts to one partition: servers and backends share two cores
RETRY_S = 0.01
CALL_TIMEOUT_S = 10.0
RESIGN_S = 60.0
ADDRESSES_S = 0.25
END_TIMEOUT_S = 15.0


class Ack(NamedTuple):
    """An acknowledged put, in wall-clock time to compare with log lines of servers."""

    sent_s: float
    acked_s: float


class Prober:
    """Puts to each partition sequentially, in a background thread.

    It refreshes the addresses of partitions a few times per second, as clients do after a forwarded
    reply, and tries the next server if an address does not reply.
    """

    def __init__(self, topic: BenchTopic, ports: Callable[[], Sequence[int]]) -> None:
        self._topic, self._ports = topic, ports
        self.acks: dict[int, list[Ack]] = {number: [] for number in range(topic.partitions)}
        self.failures = 0
        self._addresses: dict[int, int] = {}  # port by partition
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Prober":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join(END_TIMEOUT_S)

    def first_after(self, partition: int, moment_s: float) -> Ack | None:
        """The first acknowledged put that was sent at or after a time."""
        return next((ack for ack in self.acks[partition] if ack.sent_s >= moment_s), None)

    def longest_pause_s(self, partition: int, since_s: float, until_s: float) -> float:
        """The longest time without an acknowledgement."""
        inside = [ack.acked_s for ack in self.acks[partition] if since_s <= ack.acked_s <= until_s]
        times = [since_s, *inside, until_s]
        return max(later - earlier for earlier, later in pairwise(times))

    async def _run(self) -> None:
        probes = (self._probe(number) for number in self.acks)
        await asyncio.gather(self._refresh_addresses(), *probes)

    async def _refresh_addresses(self) -> None:
        connection = _Connection()
        body = encode_call(
            ThriftProtocol.COMPACT,
            MESSAGE_SERVICE.methods["getScheduleInfo"],
            1,
            GetScheduleInfoRequest(topicTalosResourceName=self._topic.resource),
        )
        turn = 0
        while not self._ended.is_set():
            ports = self._ports()
            try:
                request = signed_request(MESSAGE_SERVICE.path, body)
                content = await connection.send(ports[turn % len(ports)], request)
                reply = decode_reply(
                    ThriftProtocol.COMPACT, MESSAGE_SERVICE.methods["getScheduleInfo"], content
                )
                if reply.error is not None:
                    raise ConnectionError(str(reply.error))
                for partition, address in reply.result.scheduleInfo.items():
                    self._addresses[partition.partitionId] = int(address.rpartition(":")[2] or 0)
            except (OSError, EOFError, ValueError):
                turn += 1
                await asyncio.sleep(RETRY_S)
                continue
            await asyncio.sleep(ADDRESSES_S)
        connection.close()

    async def _probe(self, partition: int) -> None:
        connection, turn = _Connection(), partition
        body = self._topic.put_body(partition, MESSAGE_BYTES)
        request, signed_s = b"", 0.0
        lost = False  # the last attempt failed: try any server
        while not self._ended.is_set():
            if time.time() > signed_s + RESIGN_S:
                request, signed_s = signed_request(MESSAGE_SERVICE.path, body), time.time()
            ports = self._ports()
            port = 0 if lost else self._addresses.get(partition, 0)
            sent_s = time.time()
            try:
                content = await connection.send(port or ports[turn % len(ports)], request)
                reply = decode_reply(
                    ThriftProtocol.COMPACT, MESSAGE_SERVICE.methods["putMessage"], content
                )
                lost = reply.error is not None
            except (OSError, EOFError, ValueError):
                lost = True
            if lost:
                self.failures += 1
                turn += 1
                await asyncio.sleep(RETRY_S)
            else:
                self.acks[partition].append(Ack(sent_s, time.time()))
                await asyncio.sleep(PAUSE_S)
        connection.close()


class _Connection:
    """A persistent connection to the server that was used last."""

    def __init__(self) -> None:
        self._port = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, port: int, request: bytes) -> bytes:
        """The body of the reply. Raises: OSError, EOFError, ValueError: no valid reply."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await self._send(port, request)
        except BaseException:
            self.close()
            raise

    async def _send(self, port: int, request: bytes) -> bytes:
        if self._streams is None or port != self._port:
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", port)
            self._port = port
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"\r\ncontent-length:")
        body = await reader.readexactly(int(rest.split(b"\r\n")[0]) if found else 0)
        if b"\r\ncontent-type: application/x-thrift" not in head:
            raise ValueError(body[:200])
        return body

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
