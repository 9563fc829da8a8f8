"""One worker of a consumer group: takes partitions, reads, commits, gives them up again.

It makes the calls that TalosConsumer makes, one at a time, and writes down each answer. Every
partition is held for a while only, so that leases change hands all the time.
"""

import time
from typing import Any

from load_history import History, stop_at_end_of_input
from load_writer import is_not_done
from sdk import Arguments, config, credential, factory, reason, run, say, topic_and_partition
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.thrift.consumer.ttypes import (
    CheckPoint,
    ConsumeUnit,
    LockPartitionRequest,
    LockWorkerRequest,
    QueryOffsetRequest,
    RenewRequest,
    UnlockPartitionRequest,
    UpdateOffsetRequest,
)

HELD_S = 4.0
RENEWED_EVERY_S = 1.0
PAUSE_S = 0.1


class Worker:
    """Calls of one worker and their history."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.topic, self.group = arguments["topic"], arguments["group"]
        self.name = arguments["prefix"]
        self.history = History(arguments["history"], self.name)
        self.client = factory(arguments).new_consumer_client()
        self.messages = factory(arguments).new_message_client()
        self.address = [
            topic_and_partition(arguments, self.topic, partition)
            for partition in range(arguments["partitions"])
        ]
        self.sessions = 0

    def unit(self, *partitions: int) -> Any:
        resource = self.address[0].topicTalosResourceName
        return ConsumeUnit(self.group, resource, list(partitions), self.name)

    def call(self, action: str, send: Any, **args: Any) -> tuple[int, Any]:
        """One call; its number in the history and the answer, None if there is none."""
        number = self.history.invoke(action, group=self.group, topic=self.topic, **args)
        try:
            return number, send()
        except Exception as error:
            end = self.history.fail if is_not_done(error) else self.history.unknown
            end(number, reason(error))
            return number, None

    def register(self) -> None:
        try:
            self.client.lock_worker(LockWorkerRequest(self.unit()))
        except Exception:
            time.sleep(PAUSE_S)

    def lock(self, partition: int) -> bool:
        request = LockPartitionRequest(self.unit(partition))
        args = {"partition": partition, "worker": self.name}
        number, answer = self.call("lock", lambda: self.client.lock_partition(request), **args)
        if answer is None:
            return False
        taken = partition in (answer.successPartitions or [])
        if taken:
            self.history.ok(number)
        else:
            self.history.fail(number, "held by another worker")
        return taken

    def renew(self, partition: int) -> bool:
        request = RenewRequest(self.unit(partition))
        args = {"partitions": [partition], "worker": self.name}
        number, answer = self.call("renew", lambda: self.client.renew(request), **args)
        if answer is None:
            return True  # not known; the lease continues until its time is over
        failed = list(answer.failedPartitionList or [])
        self.history.ok(number, failed=failed)
        return partition not in failed and bool(answer.heartbeatSuccess)

    def checkpoint(self, partition: int) -> int | None:
        request = QueryOffsetRequest(self.group, self.address[partition])
        number, answer = self.call(
            "checkpoint", lambda: self.client.query_offset(request), partition=partition
        )
        if answer is None:
            return None
        self.history.ok(number, offset=answer.msgOffset)
        return int(answer.msgOffset)

    def commit(self, partition: int, offset: int) -> bool:
        point = CheckPoint(self.group, self.address[partition], offset, self.name)
        request = UpdateOffsetRequest(point)
        args = {"partition": partition, "worker": self.name, "offset": offset}
        number, answer = self.call("commit", lambda: self.client.update_offset(request), **args)
        if answer is None:
            return False
        if answer.success:
            self.history.ok(number)
        else:
            self.history.fail(number, "refused")
        return bool(answer.success)

    def unlock(self, partition: int) -> None:
        request = UnlockPartitionRequest(self.unit(partition))
        args = {"partition": partition, "worker": self.name}
        number = self.history.invoke("unlock", group=self.group, topic=self.topic, **args)
        try:
            self.client.unlock_partition(request)
        except Exception as error:
            self.history.unknown(number, reason(error))
        else:
            self.history.ok(number)

    def hold(self, partition: int, stopped: Any) -> None:
        """Read from the checkpoint on and commit, for a while or until the lease is lost."""
        committed = self.checkpoint(partition)
        if committed is None:
            return
        self.sessions += 1
        # By its resource: looking up the name is one more call, which may fail during a fault.
        consumer = SimpleConsumer(
            clientConfig=config(self.arguments),
            topicAndPartition=self.address[partition],
            credential=credential(self.arguments),
            messageClient=self.messages,
        )
        offset = committed + 1 if committed >= 0 else 0
        began_s = renewed_s = time.monotonic()
        while time.monotonic() < began_s + HELD_S and not stopped.is_set():
            read = self.history.invoke(
                "poll", topic=self.topic, partition=partition, session=self.sessions, offset=offset
            )
            try:
                fetched = consumer.fetch_message(offset, 500)
            except Exception as error:
                self.history.fail(read, reason(error))
                fetched = []
            else:
                blocks = [
                    [record.messageOffset, [record.message.message.decode()]] for record in fetched
                ]
                self.history.ok(read, blocks=blocks)
            if fetched:
                offset = fetched[-1].messageOffset + 1
                if not self.commit(partition, offset - 1) and not self.renew(partition):
                    return
            if time.monotonic() > renewed_s + RENEWED_EVERY_S:
                renewed_s = time.monotonic()
                if not self.renew(partition):
                    return
            time.sleep(PAUSE_S)


def program(arguments: Arguments) -> None:
    stopped = stop_at_end_of_input()
    worker = Worker(arguments)
    say(event="started")
    turn = arguments["first"]
    while not stopped.is_set():
        worker.register()
        partition = turn % arguments["partitions"]
        turn += 1
        if worker.lock(partition):
            worker.hold(partition, stopped)
            worker.unlock(partition)
        else:
            time.sleep(PAUSE_S)
    say(event="stopped")


if __name__ == "__main__":
    run(program)
