"""One worker of a group, with our SDK: when it took and gave up partitions, and how long each of
its partitions was silent. Started by ``sdk_group``.

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
from opentalos.sdk.consumer_settings import Callbacks


class Seen:
    """What happened to this worker."""

    def __init__(self) -> None:
        self.taken: dict[int, float] = {}
        self.given_up: dict[int, float] = {}
        self.arrivals: dict[int, list[float]] = {}

    def assigned(self, partitions: Sequence[int]) -> None:
        self.taken |= dict.fromkeys(partitions, time.time())

    def revoked(self, partitions: Sequence[int]) -> None:
        self.given_up |= dict.fromkeys(partitions, time.time())


async def work(arguments: dict[str, Any]) -> None:
    """Consume until standard input ends."""
    config = ClientConfig(
        endpoints=(arguments["url"],), key_id=arguments["key_id"], secret=arguments["secret"]
    )
    seen = Seen()
    callbacks = Callbacks(on_assigned=seen.assigned, on_revoked=seen.revoked)
    begin_s = time.time()
    async with TalosConsumer(
        config, arguments["topic"], arguments["group"], callbacks=callbacks
    ) as consumer:

        async def consume() -> None:
            async for record in consumer:
                seen.arrivals.setdefault(record.partition, []).append(time.time())

        task = asyncio.create_task(consume())
        print(json.dumps({"begin_s": begin_s}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    told = {"taken": seen.taken, "given_up": seen.given_up, "arrivals": seen.arrivals}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(work(json.loads(sys.argv[1])))
