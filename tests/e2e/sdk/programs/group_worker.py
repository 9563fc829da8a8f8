"""One TalosConsumer worker of a group; writes down all it asked and was given. Leaves in order
when stdin ends, after a last batch, or is killed.

Arguments: JSON with url, key, topic, group, name, history, settings.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from opentalos.sdk import Callbacks, ClientConfig, ConsumerSettings, LeaseNotHeld, aio
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.errors import OutcomeUnknown, TalosError, Unavailable
from opentalos.testing.simulation.history import Operation, Recorder


class RecordedMember(GroupMember):
    """Every call of the worker, with what the checker wants to know of it."""

    recorder: Recorder
    name: str
    place: dict[str, str]

    async def lock(self, partitions: Sequence[int]) -> list[int]:
        calls = {item: self._asked("lock", partition=item) for item in partitions}
        locked = await self._answer(list(calls.values()), super().lock(partitions))
        for partition, call in calls.items():
            if partition in locked:
                self.recorder.ok(call)
            else:
                self.recorder.fail(call, "held by another worker")
        return list(locked)

    async def unlock(self, partitions: Sequence[int]) -> None:
        calls = [self._asked("unlock", partition=partition) for partition in partitions]
        await self._answer(calls, super().unlock(partitions))
        for call in calls:
            self.recorder.ok(call)

    async def leave(self, partitions: Sequence[int]) -> None:
        call = self._asked("leave", partitions=list(partitions))
        await self._answer([call], super().leave(partitions))
        self.recorder.ok(call)

    async def renew(
        self, partitions: Sequence[int], deadline_s: float
    ) -> tuple[bool, Sequence[int]]:
        call = self._asked("renew", partitions=list(partitions))
        alive, lost = await self._answer([call], super().renew(partitions, deadline_s))
        self.recorder.ok(call, failed=list(lost if alive else partitions))
        return alive, lost

    async def _checkpoint(self, partition: int) -> int:
        call = self._asked("checkpoint", partition=partition)
        offset = int(await self._answer([call], super()._checkpoint(partition)))
        self.recorder.ok(call, offset=offset)
        return offset

    async def commit(self, partition: int, offset: int) -> bool:
        call = self._asked("commit", partition=partition, offset=offset)
        done = bool(await self._answer([call], super().commit(partition, offset)))
        if done:
            self.recorder.ok(call)
        else:
            self.recorder.fail(call, "not the holder")
        return done

    def _asked(self, action: str, **args: Any) -> Operation:
        args |= {**self.place, "worker": self.worker}
        return self.recorder.invoke(self.name, action, **args)

    async def _answer(self, calls: Sequence[Operation], answer: Any) -> Any:
        try:
            return await answer
        except BaseException as error:
            # A call is repeated by itself: if one attempt is unknown, so is the whole.
            unknown = isinstance(error, OutcomeUnknown) or not isinstance(error, TalosError)
            for call in calls:
                end = self.recorder.unknown if unknown else self.recorder.fail
                end(call, f"{type(error).__name__}: {error}")
            raise


async def stdin_ends() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def main(arguments: dict[str, Any], recorder: Recorder) -> None:
    topic, name = arguments["topic"], arguments["name"]
    RecordedMember.recorder, RecordedMember.name = recorder, name
    RecordedMember.place = {"group": arguments["group"], "topic": topic}
    key_id, secret = arguments["key"].split(":")
    config = ClientConfig(
        endpoints=(arguments["url"],), key_id=key_id, secret=secret,
        backoff_s=0.02, backoff_s_max=0.2, request_timeout_s=3.0,
    )  # fmt: skip
    sessions: Counter[int] = Counter()
    callbacks = Callbacks(on_assigned=sessions.update)
    settings = ConsumerSettings(**arguments["settings"])
    consumer = aio.TalosConsumer(config, topic, arguments["group"], settings, callbacks)
    ending = asyncio.create_task(stdin_ends())
    count = 0
    try:
        while not ending.done():
            batch = await consumer.poll(0.2)
            if not batch:
                continue
            partition = batch[0].partition
            session = f"{partition}.{sessions[partition]}"
            poll = recorder.invoke(name, "poll", topic=topic, partition=partition, session=session)
            recorder.ok(poll, blocks=[[item.offset, [item.data.decode()]] for item in batch])
            count += 1
            await asyncio.sleep(random.uniform(0.0, 0.05))
            if count % 10 == 0:
                try:
                    await consumer.commit({partition: batch[-1].offset})
                except (LeaseNotHeld, Unavailable, OutcomeUnknown):
                    pass  # reported by on_lost, or done by a later commit
    finally:
        await consumer.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    # The worker makes its calls through this one.
    import opentalos.sdk.aio.consumer.group_worker as group_worker

    vars(group_worker)["GroupMember"] = RecordedMember
    with open(given["history"], "w") as sink:
        asyncio.run(main(given, Recorder(time.monotonic, sink)))
