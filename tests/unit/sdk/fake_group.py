"""A topic and its consumer groups behind ``FakeServers``: logs, leases and checkpoints in memory.

Behaviour per call: docs/protocol/consumers.md#server-behaviour.
Leases run on the loop's (virtual) clock.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.unit.sdk.fake_servers import S1, FakeServers, client_of

from opentalos.group.members import mark_of
from opentalos.model.errors import CorruptLog, OffsetOutOfRange, TalosError, TopicNotExist
from opentalos.model.message import Compression
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import Message
from opentalos.wire._generated import common, consumer, message, topic

LEASE_S = 30.0
DELAY_S = 0.01  # of every call


@dataclass
class FakeGroup:
    """One topic, one group. ``log``: what was asked of the server, (call, worker, partitions)."""

    partitions: int = 4
    resource: str = "root#demo#0a"
    servers: FakeServers = field(default_factory=lambda: FakeServers(delay_s=DELAY_S))
    logs: dict[int, list[message.MessageBlock]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    checkpoints: dict[int, int] = field(default_factory=dict)
    workers: dict[str, float] = field(default_factory=dict)  # until when
    owners: dict[int, tuple[str, float]] = field(default_factory=dict)
    log: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    commits: list[tuple[str, int, int, float]] = field(default_factory=list)  # with the time
    fetched: list[tuple[int, int]] = field(default_factory=list)  # partition, offset
    down: TalosError | None = None  # how every call fails
    gone: bool = False
    official: bool = False  # knows no field of OpenTalos
    damaged: dict[int, bool] = field(default_factory=dict)  # behind the log; True: no start either
    heartbeat: bool = True

    def __post_init__(self) -> None:
        handlers = {
            "lockWorker": self._lock_worker,
            "renew": self._renew,
            "queryWorker": self._query_worker,
            "lockPartition": self._lock,
            "unlockPartition": self._unlock,
            "queryOffset": self._query_offset,
            "updateOffset": self._update_offset,
            "getMessage": self._get,
            "getPartitionsOffset": self._offsets,
            "getTopicCheckpoint": self._offsets_at,
            "getTopicAttribute": self._attribute,
            "getScheduleInfo": lambda _: message.GetScheduleInfoResponse(scheduleInfo={}),
        }
        for rpc, handler in handlers.items():
            self.servers.on(S1, rpc, self._guarded(handler))

    def client(self, **settings: Any) -> Client:
        """A client of its own for one worker."""
        return client_of(self.servers, **settings)

    def put(self, partition: int, count: int, *, blocks: int = 1, size: int = 1) -> None:
        """Messages ``b"PARTITION:OFFSET"``, in equal blocks."""
        for _ in range(blocks):
            first = self.next(partition)
            data = [b"%d:%d" % (partition, first + n) for n in range(count)]
            self.append(partition, [Message(datum.ljust(size, b".")) for datum in data])

    def append(self, partition: int, messages: list[Message]) -> None:
        """One block."""
        first = self.next(partition)
        block = message.MessageBlock(
            startMessageOffset=first,
            messageNumber=len(messages),
            messageBlock=encode_records(messages, Compression.NONE).payload,
            appendTimestamp=1000 * (first + 1),
        )
        self.logs.setdefault(partition, []).append(block)

    def next(self, partition: int) -> int:
        log = self.logs.get(partition)
        return log[-1].startMessageOffset + log[-1].messageNumber if log else self.start(partition)

    def start(self, partition: int) -> int:
        return self.starts.get(partition, 0)

    def trim(self, partition: int, start: int) -> None:
        """Retention took what is before; ``start`` begins a block."""
        self.starts[partition] = start
        self.logs[partition] = [
            log for log in self.logs[partition] if log.startMessageOffset >= start
        ]

    def held_by(self, worker: str) -> list[int]:
        now_s = _now_s()
        return sorted(
            p for p, (who, until) in self.owners.items() if who == worker and until > now_s
        )

    def calls(self, *names: str) -> list[tuple[str, str, tuple[int, ...]]]:
        return [item for item in self.log if item[0] in names]

    # --- handlers --------------------------------------------------------------------------------

    def _guarded(self, handler: Any) -> Any:
        def guarded(request: Any) -> Any:
            if self.down is not None:
                raise self.down
            if self.gone:
                raise TopicNotExist("no such topic")
            return handler(request)

        return guarded

    def _note(self, call: str, unit: consumer.ConsumeUnit) -> None:
        self.log.append((call, unit.workerId, tuple(unit.partitionIdList)))

    def _grant(self, unit: consumer.ConsumeUnit) -> list[int]:
        now_s = _now_s()
        granted = []
        for partition in unit.partitionIdList:
            who, until = self.owners.get(partition, ("", 0.0))
            if (who == unit.workerId or until <= now_s) and partition < self.partitions:
                self.owners[partition] = unit.workerId, now_s + LEASE_S
                granted.append(partition)
        return granted

    def _lock_worker(self, request: consumer.LockWorkerRequest) -> Any:
        self._note("lockWorker", request.consumeUnit)
        self.workers[request.consumeUnit.workerId] = _now_s() + LEASE_S
        return consumer.LockWorkerResponse(registerSuccess=True)

    def _renew(self, request: consumer.RenewRequest) -> Any:
        unit = request.consumeUnit
        self._note("renew", unit)
        if not self.heartbeat:
            return consumer.RenewResponse(heartbeatSuccess=False, failedPartitionList=[])
        self.workers[unit.workerId] = _now_s() + LEASE_S
        granted = self._grant(unit)
        failed = [item for item in unit.partitionIdList if item not in granted]
        return consumer.RenewResponse(heartbeatSuccess=True, failedPartitionList=failed)

    async def _query_worker(self, request: consumer.QueryWorkerRequest) -> Any:
        wait_s = 0.0 if self.official else (request.waitMillis or 0) / 1000
        until_s = _now_s() + wait_s
        while True:
            now_s = _now_s()
            alive = [worker for worker, until in self.workers.items() if until > now_s]
            found = {item: self.held_by(item) for item in alive}
            mark = None if self.official else mark_of(found)
            if request.knownMark is None or mark != request.knownMark or now_s >= until_s:
                return consumer.QueryWorkerResponse(workerMap=found, mark=mark)
            await asyncio.sleep(0.05)

    def _lock(self, request: consumer.LockPartitionRequest) -> Any:
        unit = request.consumeUnit
        self._note("lock", unit)
        granted = self._grant(unit)
        failed = [item for item in unit.partitionIdList if item not in granted]
        return consumer.LockPartitionResponse(successPartitions=granted, failedPartitions=failed)

    def _unlock(self, request: consumer.UnlockPartitionRequest) -> None:
        unit = request.consumeUnit
        self._note("unlock", unit)
        for partition in unit.partitionIdList:
            if self.owners.get(partition, ("", 0))[0] == unit.workerId:
                del self.owners[partition]
        if request.leaveGroup and not self.official:
            self.workers.pop(unit.workerId, None)
            for partition in self.held_by(unit.workerId):
                del self.owners[partition]

    def _query_offset(self, request: consumer.QueryOffsetRequest) -> Any:
        partition = request.topicAndPartition.partitionId
        return consumer.QueryOffsetResponse(msgOffset=self.checkpoints.get(partition, -1))

    def _update_offset(self, request: consumer.UpdateOffsetRequest) -> Any:
        point = request.checkpoint
        partition = point.topicAndPartition.partitionId
        self.log.append(("commit", point.workerId, (partition,)))
        who, until = self.owners.get(partition, ("", 0.0))
        done = who == point.workerId and until > _now_s()
        if done:
            self.checkpoints[partition] = point.msgOffset
            self.commits.append((point.workerId, partition, point.msgOffset, _now_s()))
        return consumer.UpdateOffsetResponse(success=done)

    def _get(self, request: message.GetMessageRequest) -> Any:
        partition, offset = request.topicAndPartition.partitionId, request.messageOffset
        self.fetched.append((partition, offset))
        if partition in self.damaged and offset >= self.next(partition):
            raise _damage(partition)
        if not self.start(partition) <= offset <= self.next(partition):
            raise OffsetOutOfRange(f"{offset} is out of range")
        blocks: list[message.MessageBlock] = []
        left = request.maxGetMessageBytes
        for item in self.logs.get(partition, []):
            if item.startMessageOffset + item.messageNumber > offset and (left > 0 or not blocks):
                blocks.append(item)
                left -= len(item.messageBlock)
        count = sum(block.messageNumber for block in blocks)
        return message.GetMessageResponse(
            messageBlocks=blocks, messageNumber=count, sequenceId=request.sequenceId
        )

    def _offsets(self, request: message.GetPartitionsOffsetRequest) -> Any:
        wanted = [item.partitionId for item in request.topicAndPartitionList]
        return message.GetPartitionsOffsetResponse(
            offsetInfoList=[self._offset_info(item) for item in wanted]
        )

    def _offset_info(self, partition: int) -> message.OffsetInfo:
        start = self.start(partition)
        if partition not in self.damaged:
            end = self.next(partition) - 1
            return message.OffsetInfo(partitionId=partition, startOffset=start, endOffset=end)
        return message.OffsetInfo(
            partitionId=partition,
            startOffset=None if self.damaged[partition] else start,
            errorCode=common.ErrorCode.MESSAGE_INCOMPLETE,
            errorMsg=str(_damage(partition)),
        )

    def _offsets_at(self, request: message.GetCheckpointRequest) -> Any:
        """A block's append time is 1,000 ms times the number of its first message."""
        found = {}
        for partition, time_ms in request.partitionTimeIndexMap.items():
            later = [
                item.startMessageOffset
                for item in self.logs.get(partition, [])
                if (item.appendTimestamp or 0) >= time_ms
            ]
            if not later and partition in self.damaged:
                raise _damage(partition)
            found[partition] = min(later, default=self.next(partition))
        return message.GetCheckpointResponse(partitionsCheckPoint=found)

    def _attribute(self, _: Any) -> Any:
        return topic.GetTopicAttributeResponse(
            topicTalosResourceName=topic.TopicTalosResourceName(
                topicTalosResourceName=self.resource
            ),
            topicAttribute=topic.TopicAttribute(partitionNumber=self.partitions),
        )


def _damage(partition: int) -> CorruptLog:
    return CorruptLog(f"partition {partition} is damaged")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
