"""RemoteLogs: offsets and amounts of partitions at any server of the cluster.

Use cases over many partitions ask it; it asks own logs directly and other servers by peer calls.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec import UNSET

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.calls import PARTITIONS
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import (
    PartitionAnswer,
    PartitionsReply,
    PartitionsRequest,
    Wanted,
)
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import PartitionStats
from opentalos.model.errors import BadRequest, NotOwner, PartitionNotServing, TalosError
from opentalos.model.message import OffsetRange
from opentalos.wire.peer_errors import error_document

__all__ = ["PROVEN", "Found", "PartitionFacts", "Question", "RemoteLogs", "Wanted"]

READS_AT_ONCE = 16  # own logs that are asked at the same time for one caller
PART = 200  # partitions that are asked together; this takes the loop 2 ms


class Question(NamedTuple):
    """What to read of some partitions. ``times``: Unix milliseconds by partition, for TIMES.

    ``proven``: also what can be read of a damaged log; otherwise its damage is the answer.
    """

    wanted: Wanted = Wanted.OFFSETS
    times: Mapping[int, int] = MappingProxyType({})
    proven: bool = False


class PartitionFacts(NamedTuple):
    """Facts about a log now. ``stats``: only if amounts were requested; ``found``: the offset of
    the requested time. ``damage``: why nobody knows what follows these offsets."""

    offsets: OffsetRange
    epoch: int
    stats: PartitionStats | None = None
    found: int = -1
    damage: TalosError | None = None


Found = PartitionFacts | TalosError
_OFFSETS = Question()
PROVEN = Question(proven=True)


class RemoteLogs:
    """Asks own logs directly and the others through their servers, one call for each server.

    Many partitions are asked in parts, with a pass of the loop in between. A server that does not
    answer for one part is not asked again for the others.

    A partition that cannot be read now has its error as the answer, but never NotOwner: a request
    that only reads facts must not be forwarded to the partition's server.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def read(
        self, topic: Topic, partitions: Sequence[int], question: Question = _OFFSETS
    ) -> Sequence[Found]:
        """Facts or error of each partition, in the order of ``partitions``."""
        found: list[Found] = []
        silent: dict[str, TalosError] = {}
        for start in range(0, len(partitions), PART):
            if start:
                await self._context.work.pause()
            part = partitions[start : start + PART]
            found += await self._read_part(topic, part, question, silent)
        return found

    async def _read_part(
        self,
        topic: Topic,
        partitions: Sequence[int],
        question: Question,
        silent: dict[str, TalosError],
    ) -> Sequence[Found]:
        """``silent``: why servers did not answer, by address."""
        found = await self._ask_all(topic, partitions, question, silent)
        moved = [number for number, fact in found.items() if isinstance(fact, NotOwner)]
        if moved:
            try:
                await self._context.ownership.catch_up(topic.uuid)
            except TalosError:
                pass  # the first answer stands
            else:
                found.update(await self._ask_all(topic, moved, question, silent))
        return [_shown(found[number], question) for number in partitions]

    async def facts(
        self, topic: Topic, partition: int, question: Question = _OFFSETS
    ) -> PartitionFacts:
        """Facts of one partition. Raises: PartitionNotServing, CorruptLog and others."""
        (found,) = await self.read(topic, [partition], question)
        if isinstance(found, TalosError):
            raise found
        return found

    async def answer(self, request: PartitionsRequest) -> PartitionsReply:
        """Another server asks for partitions that this one serves. Raises: BadRequest."""
        topic = self._context.topics.by_resource(request.topic)
        if topic is None:
            raise topic_not_exist(request.topic)
        logs: dict[int, PartitionLog] = {}
        found: dict[int, Found] = {}
        for number in request.partitions:
            if number >= topic.partitions_ever:
                raise BadRequest(f"topic {request.topic} has no partition {number}")
            try:
                logs[number] = self._context.partition_log(topic, number)
            except TalosError as error:
                found[number] = error
        times = dict(zip(request.partitions, request.times, strict=True))
        found.update(await _read_all(logs, Question(request.wanted, times)))
        return PartitionsReply([_answer(number, fact) for number, fact in found.items()])

    async def _ask_all(
        self,
        topic: Topic,
        partitions: Sequence[int],
        question: Question,
        silent: dict[str, TalosError],
    ) -> dict[int, Found]:
        own: dict[int, PartitionLog] = {}
        others: dict[str, list[int]] = {}
        found: dict[int, Found] = {}
        for number in partitions:
            try:
                own[number] = self._context.partition_log(topic, number)
            except NotOwner as error:
                if error.address in silent:
                    found[number] = silent[error.address]
                elif error.address:
                    others.setdefault(error.address, []).append(number)
                else:
                    found[number] = error
            except TalosError as error:
                found[number] = error
        answers = await asyncio.gather(
            _read_all(own, question),
            *(self._ask(address, topic, numbers, question) for address, numbers in others.items()),
            return_exceptions=True,
        )
        for (address, numbers), answer in zip((("", own), *others.items()), answers, strict=True):
            if isinstance(answer, TalosError):
                silent[address] = PartitionNotServing(f"server {address}: {answer}")
                found.update(dict.fromkeys(numbers, silent[address]))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.update(answer)
        return found

    async def _ask(
        self, address: str, topic: Topic, numbers: Sequence[int], question: Question
    ) -> Mapping[int, Found]:
        times = [question.times.get(number, 0) for number in numbers]
        request = PartitionsRequest(topic.resource, list(numbers), question.wanted, times)
        reply = await call_peer(self._context.peers, address, PARTITIONS, request)
        found = {answer.partition: _fact(answer) for answer in reply.partitions}
        missing = PartitionNotServing(f"server {address} left the partition out of its reply")
        return {number: found.get(number, missing) for number in numbers}


async def _read_all(logs: Mapping[int, PartitionLog], question: Question) -> Mapping[int, Found]:
    room = asyncio.Semaphore(READS_AT_ONCE)

    async def read(number: int, log: PartitionLog) -> Found:
        async with room:
            try:
                return await _read(log, question.wanted, question.times.get(number, 0))
            except TalosError as error:
                return error

    found = await asyncio.gather(*(read(number, log) for number, log in logs.items()))
    return dict(zip(logs, found, strict=True))


async def _read(log: PartitionLog, wanted: Wanted, time_ms: int) -> PartitionFacts:
    if wanted is Wanted.TIMES:
        found = await log.offset_at(time_ms)
        return PartitionFacts(log.range(), log.epoch, found=found)
    stats: PartitionStats | None
    if wanted is Wanted.AMOUNTS:
        stats = await log.stats()
        start = stats.total_messages - stats.retained_messages
        offsets = OffsetRange(start, stats.total_messages)
        return PartitionFacts(offsets, log.epoch, stats, damage=log.damage)
    offsets = await log.proven()
    stats = await log.stats() if wanted is Wanted.STATE else None
    return PartitionFacts(offsets, log.epoch, stats, damage=log.damage)


def _shown(fact: Found, question: Question) -> Found:
    if isinstance(fact, NotOwner):
        return PartitionNotServing(str(fact))
    if isinstance(fact, PartitionFacts) and fact.damage is not None and not question.proven:
        return fact.damage
    return fact


def _answer(number: int, fact: Found) -> PartitionAnswer:
    if isinstance(fact, TalosError):
        return PartitionAnswer(partition=number, **error_document(fact))
    fields = fact._asdict()
    damage = fields.pop("damage")
    if damage is not None:  # servers of earlier versions see the error only
        fields |= error_document(damage)
    return PartitionAnswer(partition=number, **fields)


def _fact(answer: PartitionAnswer) -> Found:
    failure = answer.failure(PartitionNotServing)
    if answer.offsets is UNSET or answer.epoch is UNSET:
        assert failure is not None
        return failure
    stats = None if answer.stats is UNSET else answer.stats
    found = -1 if answer.found is UNSET else answer.found
    return PartitionFacts(answer.offsets, answer.epoch, stats, found, failure)
