"""The SDK under kill -9 of its server, over a network that loses answers, judged by the checker."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ServerProcess
from tests.tcp_proxy import TcpProxy
from tests.waiting import elapse_async, eventually_async, limit_s

from opentalos.sdk import Compression, Message, Record, aio
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import ProducerStamp, TopicRef
from opentalos.sdk.errors import OutcomeUnknown, TalosError
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Operation, Recorder

KILLS = int(os.environ.get("OPENTALOS_KILLS", "4"))

TOPIC = "history"
PARTITIONS = 2
BATCH = 3
PUTS = 6  # of each sort, at least, between a restart and the next kill
LOAD_S = (0.0, 0.5)  # after them
LOST_S = 0.15  # between two lost answers
HURRY_S = 0.5  # of a put that may fail


class Load:
    """Writers and readers of one client, and what became of each call."""

    def __init__(self, client: aio.Client, topic: TopicRef) -> None:
        self.client, self.topic = client, topic
        self.recorder = Recorder(time.monotonic)
        self.stop = asyncio.Event()
        self.done: Counter[str] = Counter()  # puts, by whether they are idempotent

    async def progress(self) -> None:
        """Wait for some more puts of each sort."""
        wanted = {sort: self.done[sort] + PUTS for sort in ("once", "again")}
        await eventually_async(
            "puts of both sorts are done",
            lambda: all(self.done[sort] >= least for sort, least in wanted.items()),
            state=lambda: self.done,
        )

    async def write(self, name: str, partition: int) -> None:
        """Puts that are sent once; each ends as done, not done or unknown."""
        producer = aio.SimpleProducer(self.client, TOPIC, partition, idempotent=False)
        count = 0
        while not self.stop.is_set():
            ids = [f"{name}-{count + number}" for number in range(BATCH)]
            count += BATCH
            put = self.recorder.invoke(name, "put", topic=TOPIC, partition=partition, ids=ids)
            try:
                reply = await producer.put([item.encode() for item in ids])
            except OutcomeUnknown as error:
                self.recorder.unknown(put, str(error))
            except TalosError as error:
                self.recorder.fail(put, str(error))
            else:
                self.recorder.ok(put, offset=reply.base_offset)
                self.done["once"] += 1

    async def write_once(self, name: str, partition: int, producer_id: int) -> None:
        """Idempotent puts: repeated until they are done, and stored once."""
        sequence = 0
        while not self.stop.is_set():
            ids = [f"{name}-{sequence + number}" for number in range(BATCH)]
            block = encode_records([Message(item.encode()) for item in ids], Compression.NONE)
            stamp = ProducerStamp(producer_id, 0, sequence)
            sequence += BATCH
            put = self.recorder.invoke(
                name, "put", topic=TOPIC, partition=partition, ids=ids, idempotent=True
            )
            reply = await self.client.put(
                self.topic, partition, block, stamp=stamp, deadline_s=limit_s()
            )
            self.recorder.ok(put, offset=reply.base_offset)
            self.done["again"] += 1

    async def read(self, name: str, partition: int) -> None:
        """Follow a partition from its start."""
        consumer, offset = aio.SimpleConsumer(self.client, TOPIC), 0
        while not self.stop.is_set():
            read = self.recorder.invoke(
                name, "read", topic=TOPIC, partition=partition, offset=offset
            )
            try:
                records = await consumer.fetch(partition, offset)
            except TalosError as error:
                self.recorder.fail(read, str(error))
                continue
            self.recorder.ok(read, blocks=blocks_of(records))
            offset = records[-1].offset + 1 if records else offset

    async def read_all(self, partition: int) -> None:
        """The last word on what a partition holds."""
        args = {"topic": TOPIC, "partition": partition, "final": True, "healed": True}
        read = self.recorder.invoke("final", "read", offset=0, **args)
        consumer, offset, blocks = aio.SimpleConsumer(self.client, TOPIC), 0, []
        bounds = (await consumer.offsets())[partition]
        while offset < bounds.next:
            records = await consumer.fetch(partition, offset)
            blocks += blocks_of(records)
            offset = records[-1].offset + 1
        self.recorder.ok(read, blocks=blocks, start=bounds.start, next=bounds.next)


def blocks_of(records: Sequence[Record]) -> list[object]:
    return [[record.offset, [record.data.decode()]] for record in records]


async def lose_answers(proxy: TcpProxy, stop: asyncio.Event) -> None:
    while not stop.is_set():
        proxy.lose_answer(lambda chunk: b"type=putMessage" in chunk)
        await elapse_async("the pace of the faults", LOST_S)


async def refuse_a_put(proxy: TcpProxy, history: History) -> None:
    """Refuse connections until a put has ended by it. A server that is killed does that only if
    it is away for longer than a put may take, and the proxy still takes connections for it."""
    before = len(refused(history))
    proxy.cut()
    await eventually_async("a put is refused", lambda: len(refused(history)) > before)
    proxy.restore()


def refused(history: History) -> list[Operation]:
    return [put for put in history.of("put") if not put.may_be_done]


@pytest.mark.parametrize("threaded", [False, True])
async def test_kills_and_lost_answers_lose_invent_and_repeat_nothing(
    tmp_path: Path, threaded: bool
) -> None:
    server, source = ServerProcess(tmp_path).start(), random.Random(0)
    proxy = TcpProxy(server.port)
    url = f"http://{proxy.address}"
    hurried = config_of(url, direct=False, deadline_s=HURRY_S, threaded=threaded)
    try:
        async with (
            aio.Client(hurried) as client,
            aio.Client(config_of(server.url)) as calm,
        ):
            load = Load(client, await aio.TalosAdmin(calm).topics.create(TOPIC, partitions=2))
            calls = [lose_answers(proxy, load.stop)]
            for partition in range(PARTITIONS):
                calls += [load.write(f"w{partition}-{n}", partition) for n in range(3)]
                calls.append(load.write_once(f"once{partition}", partition, 1 + partition))
                calls.append(load.read(f"r{partition}", partition))
            tasks = [asyncio.create_task(call) for call in calls]
            for kill in range(KILLS):
                await load.progress()
                await elapse_async("a kill may come at any moment", source.uniform(*LOAD_S))
                if kill == KILLS // 2:
                    await refuse_a_put(proxy, load.recorder.history)
                server.kill()
                await asyncio.to_thread(server.start)
            await load.progress()
            load.stop.set()
            await asyncio.gather(*tasks)
            load.client = calm
            for partition in range(PARTITIONS):
                await load.read_all(partition)
    finally:
        proxy.close()
        server.kill()
    history = load.recorder.history
    puts = history.of("put")
    for sort in (True, False):
        done = [put for put in puts if put.ok and bool(put.args.get("idempotent")) is sort]
        assert len(done) >= PUTS * KILLS
    assert any(put.may_be_done and not put.ok for put in puts), "no answer was lost"
    assert refused(history), "no put was refused"
    assert [str(anomaly) for anomaly in check(history)] == []
