"""A server's log in a process: URL META JARS HDFS_JSON LOG_JSON PARTITIONS DURABILITY.

It puts numbered messages to all partitions and reports each that was acknowledged.
"""

import asyncio
import json
import sys
from pathlib import Path

from opentalos.adapters.hdfs import open_hdfs_file_store
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.log.log_store import LogStore, TopicLogSettings
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import TalosError
from opentalos.model.limits import HdfsLimits, JvmLimits, LogLimits
from opentalos.model.message import Durability, MessageBlock

PAYLOAD_BYTES = 1_024
PUTS_AT_ONCE = 64


def topic_of(durability: Durability) -> TopicLogSettings:
    return TopicLogSettings("topic", durability, 86_400.0)


def payload_of(partition: int, number: int) -> bytes:
    return b"%d-%d-".ljust(PAYLOAD_BYTES, b".") % (partition, number)


async def _put(log: PartitionLog, partition: int, number: int) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def waiter(base: int, error: TalosError | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    block = MessageBlock(payload_of(partition, number), 1, create_ms=1)
    log.append(block, waiter)
    await done


async def write(logs: list[PartitionLog]) -> None:
    partitions = len(logs)
    turns = iter(range(sys.maxsize))
    in_order = [asyncio.Lock() for _ in range(partitions)]

    async def worker() -> None:
        for turn in turns:
            partition, number = turn % partitions, turn // partitions
            async with in_order[partition]:
                await _put(logs[partition], partition, number)
            sys.stdout.write(f"{partition} {number}\n")
            sys.stdout.flush()

    await asyncio.gather(*(worker() for _ in range(PUTS_AT_ONCE)))


async def main() -> None:
    _, url, meta, jars, hdfs, log, partitions, durability = sys.argv
    files = await open_hdfs_file_store(url, JvmLimits(jars=jars), HdfsLimits(**json.loads(hdfs)))
    store = LogStore(
        files=files,
        meta=await open_sqlite_meta_store(Path(meta)),
        clock=SystemClock(),
        server="s1",
        limits=LogLimits(**json.loads(log)),
    )
    await store.start()
    topic = topic_of(Durability(durability))
    await write([store.partition(topic, at) for at in range(int(partitions))])


if __name__ == "__main__":
    asyncio.run(main())
