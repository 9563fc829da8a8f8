"""One worker of a group, with our SDK: when it took partitions, and how long each of its records
had been stored before it came. Started by ``sdk_group``.

Takes one JSON object as argument; prints a line when it runs and, once its input ends, one with
all it saw. Times are Unix seconds, since workers and the one who watches them compare them.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from opentalos.sdk import ClientConfig
from opentalos.sdk.aio import TalosConsumer
from opentalos.sdk.core.consumer.settings import Callbacks


class Seen:
    """The events of this worker."""

    def __init__(self) -> None:
        self.taken: dict[int, float] = {}
        self.arrivals: dict[int, list[tuple[float, float]]] = {}  # time and wait of each record

    def assigned(self, partitions: Sequence[int]) -> None:
        self.taken |= dict.fromkeys(partitions, time.time())


async def work(arguments: dict[str, Any]) -> None:
    """Consume until stdin ends."""
    config = ClientConfig(
        endpoints=(arguments["url"],), key_id=arguments["key_id"], secret=arguments["secret"]
    )
    seen = Seen()
    callbacks = Callbacks(on_assigned=seen.assigned)
    begin_s = time.time()
    async with TalosConsumer(
        config, arguments["topic"], arguments["group"], callbacks=callbacks
    ) as consumer:

        async def consume() -> None:
            async for record in consumer:
                now_s = time.time()
                arrivals = seen.arrivals.setdefault(record.partition, [])
                arrivals.append((now_s, now_s - record.append_ms / 1000))

        task = asyncio.create_task(consume())
        print(json.dumps({"begin_s": begin_s}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    print(json.dumps({"taken": seen.taken, "arrivals": seen.arrivals}), flush=True)


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
